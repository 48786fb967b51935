"""Numba's language in kernels: types, views, tuples, atomic operations, warps and exceptions."""

from __future__ import annotations

import cmath
import math
from collections import namedtuple

import numpy as np
import pytest

from vkcompute.compat.numba import cuda, float32, float64, int8, int32, int64, njit, uint64
from vkcompute.compat.numba.errors import KernelRuntimeError, TypingError

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.usefixtures("float64_device"),
]
Point = namedtuple("Point", "x y")
TABLE = np.array([3, 1, 4], np.int64)


def test_operators_have_numbas_types() -> None:
    @cuda.jit
    def kernel(a, b, f, out):
        out[0] = a[0] * a[0]  # int32 * int32 is int64
        out[1] = a[0] / b[0]  # true division is float64
        out[2] = f[0] * 0.1  # float32 * float64
        out[3] = int8(100) + int8(100) + int8(200) + uint64(-1) % 256 - 199
        out[4] = b[0] - uint64(1)  # of a signed and an unsigned one, signed
        out[5] = f[0] ** 2  # keeps float32
        out[6] = -a[0] // 7
        out[7] = math.floor(f[0] * 10)
        total = 0
        for k in range(3):
            total += f[0] * k  # an int that becomes a float
        out[8] = total

    out = np.zeros(9)
    a, b, f = np.array([100_000], np.int32), np.array([-3], np.int32), np.array([1.1], np.float32)
    kernel[1, 1](a, b, f, out)
    x = float(f[0])
    expected = [10**10, 100_000 / -3, x * 0.1, 200, -4, float(f[0] ** 2), -100_000 // 7, 11, 3 * x]
    np.testing.assert_allclose(out, expected, rtol=1e-15)


def test_numbers_of_the_host_have_64_bits() -> None:
    @cuda.jit
    def kernel(n, x, out):
        out[0] = n * n
        out[1] = x + 2**-40

    out = np.zeros(2)
    kernel[1, 1](2**31, 1.0, out)
    assert out.tolist() == [2.0**62, 1 + 2**-40]


def test_views_and_negative_indices() -> None:
    @cuda.jit
    def kernel(a, b, n):
        i = cuda.grid(1)
        if i < a.shape[0]:
            row = a[i]
            row[1:] = 5
            row[0] = row[-1] + len(row)
            b[i, ::2] = a[i, ::2]
            b[i, n] = a.T[1, i] + b[i, 1:].shape[0]

    a, b = np.ones((5, 4)), np.zeros((5, 4))
    kernel[1, 8](a, b, -1)
    assert np.array_equal(a, [[9, 5, 5, 5]] * 5)
    assert np.array_equal(b, [[9, 0, 5, 8]] * 5)


def test_an_index_that_is_one_of_two() -> None:
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        n = x.shape[0]
        if i < n:
            after = i + 1 if i < n - 1 else 0
            before = i - 1 if i > 2 else -1
            away = -i if i % 2 else i // 2
            out[0, i], out[1, i], out[2, i] = x[after], x[before], x[away]

    x, out = np.arange(9.0), np.zeros((3, 9))
    kernel[1, 16](x, out)
    expected = [[*range(1, 9), 0], [8, 8, 8, *range(2, 8)], [0, 8, 1, 6, 2, 4, 3, 2, 4]]
    assert np.array_equal(out, expected)


def test_an_index_that_counts_from_the_start_is_not_compared_with_0() -> None:
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < x.shape[0]:
            out[i] = x[i + 1 if i < x.shape[0] - 1 else 0]

    kernel[1, 1](np.ones(2), np.ones(2))
    (operations,) = kernel.inspect_asm().values()
    assert operations.count("select") == 1


def test_operations_take_the_place_of_llvms_code_and_ptx(capsys: pytest.CaptureFixture[str]) -> None:
    @cuda.jit
    def kernel(x):
        y = x[0]
        x[0] = y * 2 + y * 2

    assert kernel.inspect_llvm() == kernel.inspect_asm() == {}
    kernel[1, 1](np.ones(1, np.float32))
    kernel[1, 1](np.ones(1))
    built, optimized = kernel.inspect_llvm(), kernel.inspect_asm()
    (narrow, wide) = kernel.signatures
    assert [*built] == [*optimized] == [narrow, wide]
    assert "x: float32[]" in built[narrow]
    assert "x: float64[]" in built[wide]
    assert built[wide].count(" mul") == 2
    assert kernel.inspect_asm(wide) == optimized[wide]
    assert optimized[wide].count(" mul") == 1
    kernel.inspect_types()
    shown = capsys.readouterr().out
    assert shown.count("x[0] = y * 2 + y * 2") == 2
    assert built[narrow] in shown
    with pytest.raises(NotImplementedError, match=r"inspect_asm\(\) has their operations"):
        kernel.inspect_sass()


def test_views_of_the_host_and_column_major_arrays() -> None:
    @cuda.jit
    def kernel(x, out):
        i, j = cuda.grid(2)
        if i < out.shape[0] and j < out.shape[1]:
            out[i, j] = 10 * x[i, j]

    whole = np.arange(48.0).reshape(6, 8)
    for x in (whole[::2, 1::3], np.asfortranarray(whole), whole.T):
        out = np.zeros(x.shape)
        kernel[(1, 1), (8, 8)](x, out)
        assert np.array_equal(out, 10 * x)


def test_shapes_are_changed_without_copies() -> None:
    @cuda.jit
    def kernel(x, shape, out):
        y = x.reshape(shape)
        for i in range(y.shape[0]):
            out[i] = y[i, 0] + 100 * y.shape[1]
        x.ravel()[0] = -1

    x, out = np.arange(24.0).reshape(4, 6), np.zeros(8)
    kernel[1, 1](x, (-1, 3), out)
    assert np.array_equal(out, np.arange(0, 24, 3) + 300)
    assert x[0, 0] == -1
    with pytest.raises(TypingError, match="contiguous"):
        kernel[1, 1](x.T, (8, 3), out)


def test_tuples_are_arguments() -> None:
    @cuda.jit
    def kernel(point, arrays, out):
        x, y = arrays
        for i in range(out.size):
            out[i] = point.x * x[i] + point.y * y[1][i]

    x, y = np.arange(4.0), np.arange(4, dtype=np.float32)
    out = np.zeros(4)
    kernel[1, 1](Point(2, 0.5), (x, (1, y)), out)
    assert np.array_equal(out, 2 * x + 0.5 * y)


def test_device_functions_and_constants() -> None:
    @cuda.jit("float32(float32)", device=True)
    def narrowed(x):
        return x + 1e-9

    @cuda.jit
    def kernel(out):
        table = cuda.const.array_like(TABLE)
        out[0] = narrowed(1.0)
        out[1] = table[2]

    out = np.zeros(2)
    kernel[1, 1](out)
    assert out.tolist() == [1.0, 4.0]


def test_globals_keep_the_values_of_the_first_compilation() -> None:
    rate, prices = 2.0, np.array([10.0, 25.0])

    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        out[i] = rate * prices[i]

    out = np.zeros(2)
    for _ in range(2):
        kernel[1, 2](out)
        assert out.tolist() == [20, 50]
        rate, prices[:] = 3.0, 7

    kernel[1, 2](small := np.zeros(2, np.float32))  # other types are compiled now
    assert small.tolist() == [21, 21]


def test_arrays_of_the_device_are_globals() -> None:
    prices, sums = cuda.to_device(np.array([10.0, 25.0])), cuda.device_array((2, 2), np.float32)

    @njit(fastmath=True)
    def price(i):
        return prices[i]

    @cuda.jit
    def kernel(pair):
        i = cuda.grid(1)
        sums[i, 1 - i] = price(i) * pair[0] + pair[1]

    kernel[1, 2]((2, 0.5))
    prices[1] = 3
    kernel[1, 2]((2, 0.5))
    assert sums[0, 1] == 20.5
    assert sums[1, 0] == 6.5

    @cuda.jit("void(float64[:])")
    def read(out):
        out[0] = prices[1]

    read[1, 1](out := np.zeros(1))
    assert out[0] == 3


def test_figures_of_kernels() -> None:
    @cuda.jit
    def kernel(x):
        shared = cuda.shared.array(10, x.dtype)
        own = cuda.local.array(1000, x.dtype)
        for i in range(10):
            own[100 * i] = shared[i] = i * cuda.const.array_like(TABLE)[i % 3]
        x[0] = own[int(x[1])] + shared[2]

    kernel[1, 1](np.zeros(2, np.float32))
    kernel[1, 1](np.zeros(2))
    single, double = float32[::1], cuda.float64[::1]
    assert kernel.get_shared_mem_per_block((single,)) == 40
    assert kernel.get_shared_mem_per_block() == {(single,): 40, (double,): 80}
    assert kernel.get_local_mem_per_thread((double,)) == 8000
    assert kernel.get_const_mem_size((double,)) == 24
    assert kernel.get_max_threads_per_block()[single,] >= 64
    with pytest.raises(ValueError, match="carveout must be between -1 and 100"):
        cuda.jit(shared_memory_carveout=101)
    with pytest.raises(ValueError, match="Got 4 launch bounds"):
        cuda.jit(launch_bounds=(1, 2, 3, 4))


def test_dynamic_shared_memory() -> None:
    @cuda.jit
    def kernel(x, out):
        part = cuda.shared.array(0, dtype=int32)
        i = cuda.threadIdx.x
        part[i] = x[i]
        cuda.syncthreads()
        out[i] = part[cuda.blockDim.x - 1 - i]

    x = np.arange(32, dtype=np.int32)
    out = np.zeros_like(x)
    kernel[1, 32, 0, 32 * 4](x, out)
    assert np.array_equal(out, x[::-1])


def test_dynamic_shared_arrays_of_all_types_have_the_same_bytes() -> None:
    @cuda.jit
    def kernel(out, lengths, counts):
        floats = cuda.shared.array(0, dtype=float32)
        ints = cuda.shared.array(0, dtype=int32)
        doubles = cuda.shared.array(0, dtype=float64)
        counters = cuda.shared.array(0, dtype=int32)[16:]
        i = cuda.threadIdx.x
        floats[i] = i
        if i < 2:
            counters[i] = 0
        cuda.syncthreads()
        cuda.atomic.add(counters, i % 2, i)
        out[i] = ints[i]
        cuda.syncthreads()
        if i < 2:
            counts[i] = counters[i]
        if i < 8:
            doubles[i] = i + 0.5
        cuda.syncthreads()
        out[16 + i] = ints[i]
        if i == 0:
            lengths[0], lengths[1], lengths[2] = floats.size, ints.size, doubles.size

    out, lengths, counts = np.zeros(32, np.int32), np.zeros(3, np.int32), np.zeros(2, np.int32)
    kernel[1, 16, 0, 19 * 4](out, lengths, counts)
    assert np.array_equal(out[:16], np.arange(16, dtype=np.float32).view(np.int32))
    assert np.array_equal(out[16:], (np.arange(8) + 0.5).view(np.int32))
    assert counts.tolist() == [56, 64]
    assert lengths.tolist() == [19, 19, 9]


def test_a_type_wider_than_the_first_counts_whole_elements_of_dynamic_shared_memory() -> None:
    @cuda.jit
    def kernel(out):
        doubles = cuda.shared.array(0, dtype=float64)
        ints = cuda.shared.array(0, dtype=int32)
        i = cuda.threadIdx.x
        ints[i] = i
        cuda.syncthreads()
        if i == 0:
            doubles[0] = 2.5
            out[3], out[4] = doubles.size, ints.size
        cuda.syncthreads()
        out[i] = ints[i]

    out = np.zeros(5, np.int32)
    kernel[1, 3, 0, 12](out)
    assert np.array_equal(out[:2], np.float64([2.5]).view(np.int32))
    assert out[2:].tolist() == [2, 1, 3]


def test_atomic_operations_wrap_and_ignore_nan() -> None:
    @cuda.jit
    def kernel(counts, extremes, values):
        i = cuda.grid(1)
        cuda.atomic.inc(counts, 0, 9)
        cuda.atomic.dec(counts, 1, 9)
        cuda.atomic.sub(counts, 2, 2)
        cuda.atomic.nanmax(extremes, 0, values[i])
        cuda.atomic.nanmin(extremes, 1, values[i])

    counts = np.zeros(3, np.uint32)
    values = np.where(np.arange(32) % 3, np.arange(32, dtype=np.float32), np.nan).astype(np.float32)
    extremes = np.array([-1, 100], np.float32)
    kernel[1, 32](counts, extremes, values)
    assert counts.tolist() == [32 % 10, (0 - 32) % 10, 2**32 - 64]
    assert extremes.tolist() == [31, 1]


def test_masks_and_predicates_of_votes_are_integers() -> None:
    def kernel(mask, predicate, out):
        out[0] = cuda.all_sync(mask[0], predicate[0])

    with pytest.raises(TypingError, match="Mask type must be an integer; got float32"):
        cuda.jit("void(float32[:], int32[:], int32[:])")(kernel)
    with pytest.raises(TypingError, match="Predicate must be an integer or boolean"):
        cuda.jit("void(int32[:], float64[:], int32[:])")(kernel)


def test_warps() -> None:
    @cuda.jit
    def kernel(out):
        lane = cuda.laneid
        out[0, lane] = cuda.shfl_xor_sync(0xFFFFFFFF, lane, 1)
        out[1, lane] = cuda.ballot_sync(0xFFFFFFFF, lane < 3)
        out[2, lane] = cuda.syncthreads_count(lane % 2)
        out[3, lane] = cuda.ffs(lane)
        out[4, lane] = cuda.popc(lane)

    out = np.zeros((5, 32), np.int64)
    kernel[1, 32](out)
    lanes = np.arange(32)
    assert np.array_equal(out[0], lanes ^ 1)
    assert np.array_equal(out[1:3], [[7] * 32, [16] * 32])
    assert np.array_equal(out[3], [(n & -n).bit_length() for n in range(32)])
    assert np.array_equal(out[4], [n.bit_count() for n in range(32)])


def test_functions_of_arrays_take_the_result() -> None:
    @cuda.jit
    def kernel(x, y, sums, roots):
        np.add(x, y, sums)
        np.sqrt(sums, roots)

    x, y = np.arange(6.0).reshape(2, 3), np.ones(3)
    sums, roots = np.zeros((2, 3)), np.zeros((2, 3))
    kernel[1, 1](x, y[None], sums, roots)
    assert np.array_equal(sums, x + 1)
    np.testing.assert_allclose(roots, np.sqrt(x + 1), rtol=1e-15)


def test_an_exception_is_raised_with_debug() -> None:
    @cuda.jit(debug=True, opt=False)
    def kernel(x):
        if x[cuda.threadIdx.x] < 0:
            raise ValueError("negative")

    kernel[1, 2](np.ones(2))
    with pytest.raises(ValueError, match=r"tid=\[1, 0, 0\] ctaid=\[0, 0, 0\]: negative"):
        kernel[1, 2](np.array([1.0, -1.0]))


def test_errors_have_the_line() -> None:
    with pytest.raises(TypingError, match=r"test_numba_language\.py:\d+:\d+: .*unknown"):

        @cuda.jit("void(float32[:])")
        def kernel(x):
            x[0] = unknown

    @cuda.jit((float32[:], int64))
    def declared(x, n):
        x[0] = n

    with pytest.raises(TypeError, match="No matching definition"):
        declared[1, 1](np.zeros((2, 2), np.float32), 1)
    with pytest.raises(ValueError, match="launch configuration was not specified"):
        declared(np.zeros(1, np.float32), 1)


def test_indices_of_views_are_checked_with_debug() -> None:
    @cuda.jit(debug=True, opt=False)
    def kernel(x, n, k):
        part, row, column = x[:, 1:3], x[n], x[:, k]
        part[1, k] = 5
        row[1] += 1
        cuda.atomic.add(column, 1, 2)

    x = np.zeros((3, 4), np.int32)
    kernel[1, 1](x, -1, 1)
    assert x.tolist() == [[0, 0, 0, 0], [0, 2, 5, 0], [0, 1, 0, 0]]
    for n, k, index in ((0, 2, r"\(1, 2\)"), (0, -3, r"\(1, -3\)"), (3, 0, "3"), (-4, 0, "-4")):
        with pytest.raises(KernelRuntimeError, match=f"index {index} is outside of x"):
            kernel[1, 1](cuda.to_device(x), n, k)

    @cuda.jit(debug=True, opt=False)
    def beyond(x):
        local = cuda.local.array(4, int32)
        x[0] = local[1:3][2]

    with pytest.raises(TypingError, match="2 elements; got index 2"):
        beyond[1, 1](x[0])


def test_complex_numbers_are_ordered_by_numpys_functions() -> None:
    @cuda.jit
    def kernel(x, y, extremes, ordered):
        np.maximum(x, y, extremes[0])
        np.minimum(x, y, extremes[1])
        np.fmax(x, y, extremes[2])
        np.fmin(x, y, extremes[3])
        np.less(x, y, ordered[0])
        np.greater_equal(x, y, ordered[1])

    x, y = np.array([1 + 2j, 1 - 1j, np.nan, 3]), np.array([1 + 3j, 1 - 2j, 1, 3])
    extremes, ordered = np.zeros((4, 4), complex), np.zeros((2, 4), bool)
    kernel[1, 1](x, y, extremes, ordered)
    names = "maximum", "minimum", "fmax", "fmin", "less", "greater_equal"
    with np.errstate(invalid="ignore"):
        for got, name in zip([*extremes, *ordered], names, strict=True):
            np.testing.assert_array_equal(got, getattr(np, name)(x, y), name)


def test_polar_coordinates_without_a_direction() -> None:
    @cuda.jit
    def kernel(r, phi, out):
        i = cuda.grid(1)
        out[i] = cmath.rect(r[i], phi[i])

    r, phi = np.array([0, -0.0, math.inf, 2, math.inf]), np.array([math.inf, math.nan, math.nan, 0, 0])
    out = np.zeros(5, complex)
    kernel[1, 5](r, phi, out)
    assert str(out.tolist()) == str([0j, 0j, complex(math.inf, math.nan), 2 + 0j, complex(math.inf, 0)])


def test_extremes_of_integers_are_exact() -> None:
    @cuda.jit
    def kernel(x, out):
        out[0], out[1] = np.fmax(x[0], x[1]), np.fmin(x[0], x[1])

    out = np.zeros(2, np.int64)
    kernel[1, 1](np.array([2**60, 2**60 + 1]), out)
    assert out.tolist() == [2**60 + 1, 2**60]


def test_vectors_are_made_of_numbers_and_vectors() -> None:
    @cuda.jit
    def kernel(out):
        a = cuda.float32x2(1, 2.5)
        b = cuda.float4(a, a.y, cuda.float1(7))
        pair = a, cuda.float32x2(b.w, b.x)
        for k, v in enumerate(tuple(pair)):
            out[k] = v.x - v.y
        out[2] = b.x + 10 * b.y + 100 * b.z + 1000 * b.w
        out[3] = cuda.uchar2(256, -1).y

    out = np.zeros(4)
    kernel[1, 1](out)
    assert out.tolist() == [-1.5, 6, 7276, 255]
    assert cuda.double3 is cuda.float64x3

    @cuda.jit
    def wrong(out):
        out[0] = cuda.float3(1, 2).x

    with pytest.raises(TypingError, match="float32x3 has 3 numbers; got 2"):
        wrong[1, 1](out)


def test_variables_are_zero_on_paths_that_do_not_assign_them() -> None:
    @cuda.jit
    def kernel(x, n, out):
        if n > 0:
            if n > 1:
                a = 7
            out[0] = a
        else:
            a += 1
            out[0] = a
        for k in range(n):
            if k != x:
                b = 2.5 if k == 0 else b + 2.5
        for k in range(n):
            if k == x:
                last = x
                break
        else:
            last = k * 10
        for k in range(n):
            if k == 0:
                kept = 5
            out[5] += kept
        while n > 0:
            n -= 1
            if n == x:
                continue
            c = n + 0.5
        if x == 3:
            pair = x, 1.5
        out[1], out[2], out[3], out[4] = b, last, c, pair[0] + pair[1]

    expected = {
        (-1, 0): [1, 0, 0, 0, 0, 0], (-1, 1): [0, 2.5, 0, 0.5, 0, 5], (1, 3): [7, 5, 1, 0.5, 0, 15],
        (0, 3): [7, 5, 0, 1.5, 0, 15], (3, 3): [7, 7.5, 20, 0.5, 4.5, 15],
    }  # fmt: skip
    for (x, n), values in expected.items():
        out = np.zeros(6)
        kernel[1, 1](x, n, out)
        assert out.tolist() == values, (x, n)


def test_an_array_that_some_paths_do_not_assign_is_an_error() -> None:
    @cuda.jit
    def kernel(n, out):
        if n:
            part = out[1:]
        part[0] = 1

    with pytest.raises(TypingError, match="part has no value that can be used here"):
        kernel[1, 1](1, np.zeros(3))


def test_sides_that_are_never_taken_have_their_types() -> None:
    @cuda.jit
    def kernel(x, y, out):
        out[0] = 5 + (x[0] if x[0] >= -1.25 else y[0])
        out[1] = 5 + (y[0] if x[0] < -1 else x[0])
        z = y[0]
        if x[0] > -1:
            z = x[0]
        out[2] = z + 5
        out[3] = x[0] >= -1

    out = np.zeros(4)
    kernel[1, 1](np.array([2**64 - 1], np.uint64), np.array([0.5]), out)  # of uint64 alone, sums wrap
    assert out.tolist() == [2.0**64, 2.0**64, 2.0**64, 1]


def test_types_and_functions_of_an_installed_numba_are_taken() -> None:
    numba = pytest.importorskip("numba")

    @numba.njit
    def squared(x):
        return x * x

    @cuda.jit(numba.void(numba.float32[:], numba.int32))
    def kernel(x, n):
        shared = cuda.shared.array(1, numba.float32)
        local = cuda.local.array((2, 2), dtype=numba.types.int64)
        shared[0] = 3.75
        local[1, 1] = numba.int32(shared[0])
        x[0], x[1], x[2] = local[1, 1], squared(shared[0]), numba.boolean(n)

    x = np.zeros(3, np.float32)
    kernel[1, 1](x, 5)
    assert x.tolist() == [3, 3.75**2, 1]

    @cuda.jit([(numba.float64[:, ::1],), "void(int32[:])"])
    def overloaded(x):
        pass

    assert overloaded.signatures == [(float64[:, ::1],), (int32[:],)]
