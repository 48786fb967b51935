"""Records in Numba's kernels: arrays, arguments, device functions, and arrays of the device."""

from __future__ import annotations

import numpy as np
import pytest

from vkcompute.compat.numba import cuda, from_dtype, int32, typeof
from vkcompute.compat.numba.errors import KernelRuntimeError, TypingError

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.usefixtures("float64_device"),
]
PAIR = np.dtype([("a", "f8"), ("b", "i1"), ("c", "c8"), ("d", "u1", 3)])
NESTED = np.dtype([("x", "i4"), ("p", PAIR)], align=True)


def test_records_are_passed_to_device_functions_and_by_reference() -> None:
    @cuda.jit(device=True)
    def change(r, value):
        r.p.a = value
        r["p"]["b"] += 1
        return r.x

    @cuda.jit
    def kernel(ary, scalar, out):
        i = cuda.threadIdx.x
        r = ary[i]
        out[i] = change(r, scalar.a * i)
        ary[i].p.d[:] = i
        ary.x[i] = -1
        if i == 0:
            scalar.c = 2j
            ary[3] = ary[0]

    ary, scalar, out = np.zeros(4, NESTED), np.zeros(1, PAIR)[0], np.zeros(3, np.int64)
    ary["x"], scalar["a"] = np.arange(4) + 7, 1.5
    kernel[1, 3](ary, scalar, out)
    assert out.tolist() == [7, 8, 9]
    assert ary["p"]["a"].tolist() == [0, 1.5, 3, 0]
    assert ary["p"]["b"].tolist() == [1, 1, 1, 1]
    assert ary["p"]["d"].tolist() == [[0] * 3, [1] * 3, [2] * 3, [0] * 3]
    assert ary["x"].tolist() == [-1] * 4
    assert scalar["c"] == 2j


def test_tuples_of_records_and_two_axes() -> None:
    @cuda.jit
    def kernel(pair, table):
        rows, one = pair
        i, j = cuda.grid(2)
        table[i, j].a = rows[i].a + one.a + j

    rows, one, table = np.zeros(2, PAIR), np.zeros(1, PAIR)[0], np.zeros((2, 3), PAIR)
    rows["a"], one["a"] = [10, 20], 0.5
    kernel[1, (2, 3)]((rows, one), table[:, ::-1])
    assert table["a"].tolist() == [[12.5, 11.5, 10.5], [22.5, 21.5, 20.5]]


def test_shared_and_local_records_have_numbas_types() -> None:
    kind = from_dtype(PAIR)

    @cuda.jit
    def kernel(ary):
        tile, mine = cuda.shared.array(4, kind), cuda.local.array(1, PAIR)
        i = cuda.threadIdx.x
        tile[i] = ary[i]
        cuda.syncthreads()
        mine[0] = tile[3 - i]
        mine[0].d[1] = i
        ary[i] = mine[0]

    ary = np.zeros(4, PAIR)
    ary["a"], ary["b"] = np.arange(4), [1, 2, 3, -4]
    kernel[1, 4](ary)
    assert ary["a"].tolist() == [3, 2, 1, 0]
    assert ary["b"].tolist() == [-4, 3, 2, 1]
    assert ary["d"][:, 1].tolist() == [0, 1, 2, 3]
    assert typeof(ary) == kind[::1]
    assert typeof(ary[0]) == kind


def test_a_kernel_with_a_signature_takes_records() -> None:
    kind = from_dtype(PAIR)

    @cuda.jit([(kind[:], kind)])
    def kernel(ary, r):
        ary[0].a = r.a

    ary, r = np.zeros(1, PAIR), np.ones(1, PAIR)[0]
    kernel[1, 1](ary, r)
    assert ary["a"].tolist() == [1]
    with pytest.raises(TypingError, match="r has no field 'nothing'; it has a, b, c, d"):

        @cuda.jit((kind,))
        def wrong(r):
            r.nothing = 1


def test_device_records_are_read_and_written_by_field() -> None:
    device = cuda.to_device(np.zeros(3, NESTED))
    device[1]["x"] = 5
    device[1]["p"]["d"][2] = 7
    device[2] = device[1].copy_to_host()
    assert device["x"].copy_to_host().tolist() == [0, 5, 5]
    assert device[2]["p"]["d"].copy_to_host().tolist() == [0, 0, 7]


def test_views_by_type_and_slices_in_device_functions() -> None:
    @cuda.jit(device=True)
    def total(part):
        result = 0
        for value in part:
            result += value
        return result

    @cuda.jit
    def kernel(x, out):
        buffer = cuda.shared.array(0, int32)
        floats = buffer[2:].view(np.float64)
        buffer[0] = total(x[1:3])
        buffer[1] = total(x.view(np.int16)[:2])
        floats[0] = 2.5
        out[0], out[1], out[2] = buffer[0], buffer[1], floats[0] * 2
        out[3] = floats.view(np.uint8)[7]

    x, out = np.array([(3 << 16) + 4, 10, 20], np.int32), np.zeros(4)
    kernel[1, 1, 0, 32](x, out)
    assert out.tolist() == [30, 7, 5, 0x40]


def test_a_device_array_is_used_after_an_exception() -> None:
    @cuda.jit(debug=True, opt=False)
    def kernel(x, limit):
        x[0] += 1
        if x[0] > limit:
            raise ValueError("too many")

    device = cuda.to_device(np.zeros(2))
    kernel[1, 1](device, 1)
    for _ in range(2):
        with pytest.raises(ValueError, match="too many"):
            kernel[1, 1](device, 1)
    kernel[1, 1](device, 9)
    assert device.copy_to_host().tolist() == [4, 0]
    device[:] = 0
    kernel[1, 1](device, 1)


def test_reshape_is_checked_with_debug() -> None:
    @cuda.jit(debug=True, opt=False)
    def kernel(x, n):
        x.reshape((n, 3))[1, 2] = 1

    device = cuda.to_device(np.zeros(6))
    kernel[1, 1](device, 2)
    assert device.copy_to_host().tolist() == [0, 0, 0, 0, 0, 1]
    with pytest.raises(KernelRuntimeError, match=r"x has 6 elements, and the shape \(4, 3\) has 12"):
        kernel[1, 1](device, 4)


def test_arrays_of_unknown_length_are_assigned_to_fields() -> None:
    @cuda.jit
    def kernel(record, rows, source, table):
        record["d"] = source
        rows[1, : source.size] = source
        rows[2] = table[source.shape[0] - 3]

    record, rows = np.zeros(1, PAIR)[0], np.zeros((3, 4), np.int16)
    kernel[1, 1](record, rows, np.array([5, 6, 7], np.uint8), np.arange(8, dtype=np.int16).reshape(2, 4))
    assert record["d"].tolist() == [5, 6, 7]
    assert rows.tolist() == [[0, 0, 0, 0], [5, 6, 7, 0], [0, 1, 2, 3]]
