"""Tables of pointers: programs that load the addresses of arrays, compared with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from block_programs import gathered, grouped_matmul, launched
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runtimes import lacks, needs_bindings

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute.runtime.memory import window

Host = np.ndarray[Any, Any]

# -- the tutorial -----------------------------------------------------------------------------------------------------


@triton.jit
def grouped_matmul_by_descriptors(group_a_ptrs, group_b_ptrs, group_c_ptrs, group_sizes, g_lds, group_size,
                                  DTYPE: tl.constexpr, NUM_SM: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                                  BK: tl.constexpr):  # fmt: skip
    dtype = DTYPE
    tile_idx = tl.program_id(0)
    last_problem_end = 0
    for g in range(group_size):
        gm, gn = tl.load(group_sizes + g * 3), tl.load(group_sizes + g * 3 + 1)
        gk = tl.load(group_sizes + g * 3 + 2)
        num_n_tiles = tl.cdiv(gn, BN)
        num_tiles = tl.cdiv(gm, BM) * num_n_tiles
        if tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles:
            lda, ldb, ldc = tl.load(g_lds + g * 3), tl.load(g_lds + g * 3 + 1), tl.load(g_lds + g * 3 + 2)
            a_ptr = tl.load(group_a_ptrs + g).to(tl.pointer_type(dtype))
            b_ptr = tl.cast(tl.load(group_b_ptrs + g), tl.pointer_type(dtype))
            c_ptr = tl.load(group_c_ptrs + g).to(tl.pointer_type(dtype))
            a_desc = tl.make_tensor_descriptor(a_ptr, shape=[gm, gk], strides=[lda, 1], block_shape=[BM, BK])
            b_desc = tl.make_tensor_descriptor(b_ptr, shape=[gk, gn], strides=[ldb, 1], block_shape=[BK, BN])
            c_desc = tl.make_tensor_descriptor(c_ptr, shape=[gm, gn], strides=[ldc, 1], block_shape=[BM, BN])
            while tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles:
                m = (tile_idx - last_problem_end) // num_n_tiles * BM
                n = (tile_idx - last_problem_end) % num_n_tiles * BN
                accumulator = tl.zeros((BM, BN), dtype=tl.float32)
                for kk in range(tl.cdiv(gk, BK)):
                    accumulator += tl.dot(a_desc.load([m, kk * BK]), b_desc.load([kk * BK, n]))
                c_desc.store([m, n], accumulator.to(dtype))
                tile_idx += NUM_SM
        last_problem_end = last_problem_end + num_tiles


@pytest.mark.rotates
@pytest.mark.parametrize(("dtype", "split"), [("float32", False), ("float32", True), ("float16", False)])
@pytest.mark.parametrize("program", [grouped_matmul, grouped_matmul_by_descriptors], ids=["pointers", "descriptors"])
def test_grouped_products(
    machine: vkcompute.Runtime | None,
    monkeypatch: pytest.MonkeyPatch,
    program: triton.JITFunction,
    dtype: str,
    *,
    split: bool,
) -> None:
    needs_bindings(machine, 8 if split else 4)
    if machine is not None and lacks(machine, dtype):
        pytest.skip(f"no {dtype}")
    if split:
        monkeypatch.setattr(window, "_MOST_ELEMENTS", 1024)
    sizes = np.array([[20, 17, 8], [5, 33, 16], [16, 16, 30], [1, 1, 1], [32, 32, 32]], np.int32)
    random = np.random.default_rng(0)
    a, b = ([random.normal(size=row[at]).astype(dtype) for row in sizes] for at in ([0, 2], [2, 1]))
    c = [np.full(row[:2], np.nan, dtype) for row in sizes]
    lds = np.ascontiguousarray(sizes[:, [2, 1, 1]])
    options = {"DTYPE": getattr(tl, dtype), "NUM_SM": 2, "BM": 16, "BN": 16, "BK": 16 if dtype == "float16" else 8}
    result = launched(machine, program, (2,), (a, b, c, sizes, lds, len(sizes)), **options)[2]
    for got, one, other in zip(result, a, b, strict=True):
        wanted = one.astype(np.float64) @ other.astype(np.float64)
        rounding = np.finfo(np.float16).eps if dtype == "float16" else 0
        np.testing.assert_allclose(got, wanted, rtol=rounding, atol=32 * 8 * np.finfo(np.float32).eps)


# -- bounds -----------------------------------------------------------------------------------------------------------


@triton.jit
def moved(in_ptrs, out_ptrs, first_in, first_out, N: tl.constexpr, WIDE: tl.constexpr):
    g = tl.program_id(0)
    kind: tl.constexpr = tl.int64 if WIDE else tl.int32
    at = tl.arange(0, N).to(kind)
    x = tl.load(tl.load(in_ptrs + g).to(tl.pointer_type(tl.float32)) + first_in + at)
    tl.store(tl.load(out_ptrs + g).to(tl.pointer_type(tl.float32)) + (first_out + at), x + 1)


def shifted(x: Host, first: int, n: int) -> Host:
    """Returns elements of an array from an index on, and 0 for those outside of it."""
    result, at = np.zeros(n, x.dtype), np.arange(first, first + n)
    inside = (at >= 0) & (at < x.size)
    result[inside] = x[at[inside]]
    return result


BEYOND = [(-5, 0), (0, -5), (40, 3), (3, 40), (-70, 70), (2**31 - 80, 0), (-(2**31), -(2**31))]


@pytest.mark.parametrize(("first_in", "first_out"), BEYOND)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("sizes", [(64, 32, 48), (50, 1, 64), (37, 100, 5)])
def test_accesses_outside_of_an_array_reach_no_other(
    gpu: vkcompute.Runtime, sizes: tuple[int, ...], first_in: int, first_out: int, *, wide: bool
) -> None:
    arrays = [np.arange(1, n + 1, dtype=np.float32) + 1000 * at for at, n in enumerate(sizes)]
    outs = [np.full(n, -at - 1, np.float32) for at, n in enumerate(sizes)]
    result = launched(gpu, moved, (len(sizes),), (arrays, outs, first_in, first_out), N=64, WIDE=wide)
    for x, out, got, unchanged in zip(arrays, outs, result[1], result[0], strict=True):
        wanted, at = out.copy(), np.arange(first_out, first_out + 64)
        inside = (at >= 0) & (at < out.size)
        wanted[at[inside]] = (shifted(x, first_in, 64) + 1)[inside]
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(unchanged, x)


@triton.jit
def far(in_ptrs, out_ptr, step: tl.int64):
    pointer = tl.load(in_ptrs).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + tl.arange(0, 8), tl.load(pointer + (tl.arange(0, 8) - 4) * step))


def test_offsets_of_64_bits_reach_no_other_array(gpu: vkcompute.Runtime) -> None:
    table = triton.PointerTable([gpu.array(np.full(64, at + 1, np.float32)) for at in range(4)])
    for step in (1 << 32, 1 << 31, 1 << 62, 64, -64, (1 << 32) + 64, -(1 << 63)):
        out = gpu.empty(8)
        far[(1,)](table, out, step)
        assert out.tolist() == [float(at * step % (1 << 64) == 0) for at in range(-4, 4)], step


@pytest.mark.pure
@pytest.mark.parametrize(
    ("first_in", "first_out", "message"),
    [
        (1, 0, r"program \(0, 0, 0\) accesses element 64 of array 0 of in_ptrs, which has 64; mask it"),
        (0, -1, r"program \(0, 0, 0\) accesses element -1 of array 0 of out_ptrs, which has 64; mask it"),
        (0, 0, r"program \(1, 0, 0\) accesses element 32 of array 1 of in_ptrs, which has 32; mask it"),
    ],
)
def test_elements_outside_of_an_array_are_errors(first_in: int, first_out: int, message: str) -> None:
    table, out = ([np.zeros(n, np.float32) for n in (64, 32)] for _ in range(2))
    with pytest.raises(vkcompute.KernelError, match=message) as error:
        launched(None, moved, (2,), (table, out, first_in, first_out), N=64, WIDE=False)
    assert "tl.store(" in str(error.value) or "tl.load(" in str(error.value)


@triton.jit(debug=True)
def moved_with_checks(in_ptrs, out_ptr, first, g, N: tl.constexpr):
    pointer = tl.load(in_ptrs + g).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + tl.arange(0, N), tl.load(pointer + first + tl.arange(0, N)))


@pytest.mark.parametrize(
    ("first", "g", "message"),
    [
        (1, 2, r"program \(0, 0, 0\) accesses element 16 of array 2 of in_ptrs, which has 16; mask it"),
        (-7, 1, r"program \(0, 0, 0\) accesses element -7 of array 1 of in_ptrs, which has 16"),
        (0, 3, r"program \(0, 0, 0\) loads address 3 of in_ptrs, which has 3"),
        (0, -1, r"program \(0, 0, 0\) loads address -1 of in_ptrs, which has 3"),
    ],
)
def test_checks_of_bounds_on_the_device(gpu: vkcompute.Runtime, first: int, g: int, message: str) -> None:
    table, out = triton.PointerTable([gpu.zeros(16) for _ in range(3)]), gpu.empty(16)
    moved_with_checks[(1,)](table, out, 0, 2, N=16).result()
    with pytest.raises(vkcompute.KernelError, match=message):
        moved_with_checks[(1,)](table, out, first, g, N=16).result()


@triton.jit
def addresses_under_a_mask(in_ptrs, out_ptr, g, n):
    pointer = tl.load(in_ptrs + g, mask=g < n, other=0).to(tl.pointer_type(tl.float32))
    inside = g < n
    tl.store(
        out_ptr + tl.arange(0, 8), tl.load(pointer + tl.arange(0, 8), mask=inside & (tl.arange(0, 8) < 6), other=7)
    )


def test_addresses_under_a_mask(machine: vkcompute.Runtime | None) -> None:
    table = [np.full(8, at, np.float32) for at in range(3)]
    for g, wanted in ((2, [2] * 6 + [7] * 2), (3, [7] * 8), (1000, [7] * 8)):
        *_, result, _, _ = launched(machine, addresses_under_a_mask, (1,), (table, np.zeros(8, np.float32), g, 3))
        assert result.tolist() == wanted


def test_addresses_beyond_a_table_are_of_no_array(gpu: vkcompute.Runtime) -> None:
    table = [np.full(64, at + 1, np.float32) for at in range(3)]
    out = [np.full(64, -1, np.float32) for _ in range(5)]
    result = launched(gpu, moved, (5,), (table, out, 0, 0), N=64, WIDE=False)[1]
    assert [item.tolist() for item in result] == [[value] * 64 for value in (2, 3, 4, 1, 1)]


@pytest.mark.pure
def test_addresses_beyond_a_table_are_errors() -> None:
    table = [np.zeros(64, np.float32)]
    with pytest.raises(vkcompute.KernelError, match=r"program \(1, 0, 0\) loads address 1 of in_ptrs, which has 1"):
        launched(None, moved, (2,), (table, table, 0, 0), N=64, WIDE=False)


# -- arrays -----------------------------------------------------------------------------------------------------------


DTYPES = ["float32", "int32", "uint32", "float16", "int16", "uint16", "int8", "uint8", "bool", "int64", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("aligned", [False, True])
def test_arrays_of_any_dtype(machine: vkcompute.Runtime | None, dtype: str, *, aligned: bool) -> None:
    random = np.random.default_rng(0)
    sizes = (64, 16, 128) if aligned else (61, 17, 100)
    arrays = [random.integers(0, 100, n).astype(dtype) for n in sizes]
    at, offsets = np.array([0, 2, 1, 2, 0], np.int32), np.array([0, 3, 0, 80, 33], np.int32)
    args = arrays, at, offsets, np.zeros((5, 16), dtype), 5
    try:
        result = launched(machine, gathered, (1,), args, DTYPE=getattr(tl, dtype if dtype != "bool" else "int1"), N=16)
    except vkcompute.MissingFeature:
        pytest.skip(f"no {dtype}")
    np.testing.assert_array_equal(
        result[3], [arrays[k][first : first + 16] for k, first in zip(at, offsets, strict=True)]
    )


@st.composite
def places(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    """Draws the sizes of arrays, and indices of arrays with offsets that may be outside of them."""
    sizes = draw(st.lists(st.integers(0, 40), min_size=1, max_size=8))
    result = st.tuples(st.integers(0, len(sizes) - 1), st.integers(-50, 60) | st.integers(-(2**31), 2**31 - 5))
    return sizes, draw(st.lists(result, min_size=1, max_size=12))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=places(), split=st.booleans())
def test_places_of_any_arrays(
    gpu: vkcompute.Runtime, *, drawn: tuple[list[int], list[tuple[int, int]]], split: bool
) -> None:
    needs_bindings(gpu, 8)
    sizes, places = drawn
    arrays = [np.arange(n, dtype=np.float32) + 100 * at + 1 for at, n in enumerate(sizes)]
    at, offsets = (np.array(host, np.int32) for host in zip(*places, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        if split:
            patch.setattr(window, "_MOST_ELEMENTS", 64)
        args = arrays, at, offsets, np.full((len(places), 4), -1, np.float32), len(places)
        result = launched(gpu, gathered, (1,), args, DTYPE=tl.float32, N=4)[3]
    np.testing.assert_array_equal(result, [shifted(arrays[k], first, 4) for k, first in places])


@triton.jit
def copied(in_ptrs, out_ptrs, first_in, first_out, n, DTYPE: tl.constexpr, N: tl.constexpr):
    g, at = tl.program_id(0), tl.arange(0, N)
    x = tl.load(tl.load(in_ptrs + g).to(tl.pointer_type(DTYPE)) + (first_in + at), mask=at < n)
    tl.store(tl.load(out_ptrs + g).to(tl.pointer_type(DTYPE)) + (first_out + at), x, mask=at < n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("first_in", "first_out", "n"), [(0, 0, 128), (0, 0, 61), (4, 8, 100), (-3, 2, 64), (90, -50, 128)]
)
def test_copies_of_any_dtype(gpu: vkcompute.Runtime, dtype: str, first_in: int, first_out: int, n: int) -> None:
    if lacks(gpu, dtype):
        pytest.skip(f"no {dtype}")
    random = np.random.default_rng(0)
    arrays, outs = ([random.integers(0, 100, n).astype(dtype) for n in (64, 30, 128)] for _ in range(2))
    kind = getattr(tl, "int1" if dtype == "bool" else dtype)
    result = launched(gpu, copied, (3,), (arrays, outs, first_in, first_out, n), DTYPE=kind, N=128)[1]
    for x, out, got in zip(arrays, outs, result, strict=True):
        wanted, at = out.copy(), np.arange(first_out, first_out + n)
        inside = (at >= 0) & (at < out.size)
        wanted[at[inside]] = shifted(x, first_in, n)[inside]
        np.testing.assert_array_equal(got, wanted)


@triton.jit
def steps(x_ptrs, steps_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    for i in range(n):
        step = steps_ptr + 4 * i
        source = tl.load(x_ptrs + tl.load(step)).to(tl.pointer_type(tl.float32)) + tl.load(step + 1)
        target = tl.load(x_ptrs + tl.load(step + 2)).to(tl.pointer_type(tl.float32)) + tl.load(step + 3)
        tl.store(target + at, tl.load(source + at) + 1)


VIEWS = [(0, 0, 256), (0, 0, 64), (0, 32, 200), (0, 64, 256), (0, 3, 80), (1, 0, 128), (1, 100, 128), (2, 0, 40)]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    drawn=st.lists(
        st.tuples(st.integers(0, 7), st.integers(-40, 240), st.integers(0, 7), st.integers(-40, 240)), min_size=1
    ),
    split=st.booleans(),
    n=st.sampled_from([16, 64]),
)
@pytest.mark.parametrize("kind", ["gpu", "like_a_gpu"])
def test_steps_on_arrays_that_overlap(
    request: pytest.FixtureRequest, kind: str, *, drawn: list[tuple[int, ...]], split: bool, n: int
) -> None:
    gpu: vkcompute.Runtime = request.getfixturevalue(kind)
    needs_bindings(gpu, 8)
    hosts = [np.arange(size, dtype=np.float32) + 1000 * at for at, size in enumerate((256, 128, 40))]
    arrays = [gpu.array(host) for host in hosts]
    with pytest.MonkeyPatch.context() as patch:
        if split:
            patch.setattr(window, "_MOST_ELEMENTS", 256)
        table = triton.PointerTable([arrays[at][first:stop] for at, first, stop in VIEWS])
        steps[(1,)](table, gpu.array(np.array(drawn, np.int32)), len(drawn), N=n)
    for source, first, target, start in drawn:
        x, out = (hosts[at][begin:stop] for at, begin, stop in (VIEWS[source], VIEWS[target]))
        values, at = shifted(x, first, n) + 1, np.arange(start, start + n)
        inside = (at >= 0) & (at < out.size)
        out[at[inside]] = values[inside]
    for array, host in zip(arrays, hosts, strict=True):
        np.testing.assert_array_equal(array.numpy(), host)


@pytest.mark.parametrize("interpreted", [False, True])
def test_views_and_an_array_twice(gpu: vkcompute.Runtime, *, interpreted: bool) -> None:
    host = np.arange(256, dtype=np.float32)
    x = gpu.array(host)
    matrix = x.reshape(16, 16)
    y = gpu.zeros(64)
    table = triton.PointerTable([x, y] if interpreted else [x, x[64:], matrix[2:, 3], matrix[:, 1:5], x, x[5:8], y])
    for at, first in enumerate((0, 0) if interpreted else (0, 64, 35, 1, 0, 5, None)):
        out = gpu.empty((1, 4))
        program = gathered.interpret if interpreted else gathered
        program[(1,)](table, gpu.array(np.int32([at])), gpu.zeros(1, np.int32), out, 1, DTYPE=tl.float32, N=4)
        n = 3 if first == 5 else 4
        wanted = (
            np.zeros(4) if first is None or (interpreted and at) else np.where(np.arange(4) < n, host[first:][:4], 0)
        )
        np.testing.assert_array_equal(out.numpy()[0], wanted)


@triton.jit
def halved(x_ptrs, N: tl.constexpr):
    pointer = tl.load(x_ptrs).to(tl.pointer_type(tl.bfloat16))
    tl.store(pointer + tl.arange(0, N), tl.load(pointer + tl.arange(0, N)) * 0.5)


def test_bfloat16(machine: vkcompute.Runtime | None) -> None:
    words = (np.arange(8, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    for wrapped in (False, True):
        x: Any = words.copy() if machine is None else machine.array(words)
        table = triton.PointerTable([triton.reinterpret(x, tl.bfloat16) if wrapped else x])
        (halved.interpret if machine is None else halved)[(1,)](table, N=8)
        result = (x if machine is None else x.numpy()).astype(np.uint32) << 16
        np.testing.assert_array_equal(result.view(np.float32), np.arange(8) / 2)


def test_more_arrays_than_the_device_binds(gpu: vkcompute.Runtime) -> None:
    arrays = [np.full(64, at, np.float32) for at in range(100)]
    result = launched(gpu, moved, (100,), (arrays, arrays, 0, 0), N=64, WIDE=False)[1]
    assert [item.tolist() for item in result] == [[at + 1] * 64 for at in range(100)]


# -- pointers ---------------------------------------------------------------------------------------------------------


@triton.jit
def of_all_kinds(x_ptrs, counts_ptrs, out_ptr, n, flag):
    at = tl.arange(0, 8)
    first = tl.load(x_ptrs)
    tl.static_assert(first.dtype == tl.int64)
    tl.static_print(first.shape, x_ptrs.dtype)
    x = first.to(tl.pointer_type(tl.float32))
    if flag:  # one path, another path: the entries are joined
        y = tl.load(x_ptrs + 1).to(tl.pointer_type(tl.float32)) + 1
    else:
        y = tl.load(x_ptrs + 2).to(tl.pointer_type(tl.float32))
    total = tl.zeros((8,), tl.float32)
    for _ in range(n):
        total += tl.load(x + at)
        x += 8
    total += tl.load(tl.where(at < 4, y + at, y + (7 - at)))
    window = tl.make_block_ptr(y, (8,), (1,), (0,), (4,), (0,))
    window = tl.advance(window, (2,))
    total += tl.sum(tl.load(window, boundary_check=(0,)), 0)
    counts = tl.load(counts_ptrs + flag).to(tl.pointer_type(tl.int32))
    tl.atomic_add(counts + at % 2, 1)
    tl.store(out_ptr + at, total)


@pytest.mark.parametrize("flag", [0, 1])
@pytest.mark.parametrize("split", [False, True])
def test_pointers_of_all_kinds(
    machine: vkcompute.Runtime | None, monkeypatch: pytest.MonkeyPatch, flag: int, *, split: bool
) -> None:
    needs_bindings(machine, 8 if split else 4)
    if split:
        monkeypatch.setattr(window, "_MOST_ELEMENTS", 64)
    x, counts = [np.arange(at, at + 24, dtype=np.float32) for at in range(3)], [np.zeros(2, np.int32)] * 2
    args = x, counts, np.zeros(8, np.float32), 3, flag
    _, counted, result, *_ = launched(machine, of_all_kinds, (2,), args)
    y = x[1][1:] if flag else x[2]
    wanted = x[0].reshape(3, 8).sum(0) + y[[0, 1, 2, 3, 3, 2, 1, 0]] + y[2:6].sum()
    np.testing.assert_array_equal(result, wanted)
    assert [item.tolist() for item in counted] == [[8 * (at == flag)] * 2 for at in range(2)]


@triton.jit
def address_of(x_ptrs, g, n):
    if g >= n:
        return tl.load(x_ptrs).to(tl.pointer_type(tl.float32))
    return tl.load(x_ptrs + g).to(tl.pointer_type(tl.float32))


@triton.jit
def passed_on(x_ptrs, out_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    pointer = tl.load(x_ptrs + n - 1).to(tl.pointer_type(tl.float32))
    for g in range(n + 2):
        tl.store(out_ptr + g * N + at, tl.load(pointer + at))
        pointer = address_of(x_ptrs, g, n)
    out_ptr += (n + 2) * N
    tl.store(out_ptr + at, tl.load(pointer + at))


@pytest.mark.parametrize("split", [False, True])
def test_pointers_that_loops_and_functions_pass_on(
    machine: vkcompute.Runtime | None, monkeypatch: pytest.MonkeyPatch, *, split: bool
) -> None:
    needs_bindings(machine, 8 if split else 4)
    if split:
        monkeypatch.setattr(window, "_MOST_ELEMENTS", 64)
    arrays = [np.arange(32, dtype=np.float32) + 100 * at for at in range(5)]
    result = launched(machine, passed_on, (1,), (arrays, np.zeros((8, 32), np.float32), 5), N=32)[1]
    np.testing.assert_array_equal(result, [arrays[at] for at in (4, 0, 1, 2, 3, 4, 0, 0)])
