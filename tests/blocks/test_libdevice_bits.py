"""Functions of libdevice on the bits of floats, and conversions to integers."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute.compat.triton.language.extra import libdevice

X = np.array([2.5, -2.5, 3.7, -0.0], np.float32)


@triton.jit
def converted(x_ptr, int_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    bits = libdevice.float_as_int(x)
    tl.store(int_ptr + at, bits)
    tl.store(int_ptr + N + at, libdevice.float2int_rn(x))
    tl.store(int_ptr + 2 * N + at, libdevice.float2int_rz(x))
    tl.store(out_ptr + at, libdevice.int_as_float(bits))
    tl.store(out_ptr + N + at, libdevice.fdim(x, 1.0))


def test_bits_and_integers(machine: vkcompute.Runtime | None) -> None:
    _, ints, floats = run(machine, converted, (1,), (X, np.zeros(12, np.int32), np.zeros(8, np.float32)), N=4)
    assert ints.tolist() == [*X.view(np.int32), 2, -2, 4, 0, 2, -2, 3, 0]
    assert floats[:4].tobytes() == X.tobytes()
    assert np.array_equal(floats[4:], np.maximum(X - 1, 0))


@triton.jit
def of_floats(x_ptr, int_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(int_ptr + at, libdevice.float2int_rd(x))
    tl.store(int_ptr + N + at, libdevice.float2int_ru(x))
    tl.store(int_ptr + 2 * N + at, libdevice.float2uint_rn(tl.abs(x)))
    tl.store(out_ptr + at, libdevice.uint_as_float(libdevice.float_as_uint(x)))
    tl.store(out_ptr + N + at, libdevice.int2float_rn(libdevice.float2int_rz(x)))
    tl.store(out_ptr + 2 * N + at, libdevice.sub_rn(libdevice.add_rn(x, 1.5), libdevice.mul_rn(x, 2.0)))
    tl.store(out_ptr + 3 * N + at, libdevice.rcp_rn(libdevice.fma_rn(x, x, 1.0)))


def test_conversions_by_rounding(machine: vkcompute.Runtime | None) -> None:
    _, ints, floats = run(machine, of_floats, (1,), (X, np.zeros(12, np.int32), np.zeros(16, np.float32)), N=4)
    assert ints.tolist() == [2, -3, 3, 0, 3, -2, 4, 0, 2, 2, 4, 0]
    assert floats[:4].tobytes() == X.tobytes()
    assert floats[4:8].tolist() == [2, -2, 3, 0]
    assert np.array_equal(floats[8:12], (X + np.float32(1.5)) - X * 2)
    assert np.allclose(floats[12:], 1 / (X * X + 1), rtol=1e-6)


@triton.jit
def of_doubles(x_ptr, int_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(int_ptr + at, libdevice.double2ll_rd(x))
    tl.store(int_ptr + N + at, libdevice.double_as_longlong(x))
    tl.store(int_ptr + 2 * N + at, libdevice.double2hiint(x).to(tl.int64))
    tl.store(int_ptr + 3 * N + at, libdevice.double2loint(x).to(tl.int64))
    tl.store(out_ptr + at, libdevice.hiloint2double(libdevice.double2hiint(x), libdevice.double2loint(x)))
    tl.store(out_ptr + N + at, libdevice.ll2double_rn(libdevice.double2ll_rn(x)))
    tl.store(out_ptr + 2 * N + at, libdevice.double2float_rn(x))


def test_conversions_of_doubles(machine: vkcompute.Runtime | None) -> None:
    x = np.array([2.5e10, -2.5, 3.7, -0.0])
    try:
        _, ints, floats = run(machine, of_doubles, (1,), (x, np.zeros(16, np.int64), np.zeros(12)), N=4)
    except vkcompute.MissingFeature:
        pytest.skip("the device has no such type")
    assert ints[:4].tolist() == [25_000_000_000, -3, 3, 0]
    assert np.array_equal(ints[4:8], x.view(np.int64))
    assert np.array_equal(ints[8:12], x.view(np.int64) >> 32)
    assert np.array_equal(ints[12:], x.view(np.int32)[::2])
    assert floats[:4].tobytes() == x.tobytes()
    assert floats[4:8].tolist() == [25_000_000_000, -2, 4, 0]
    assert np.array_equal(floats[8:], x.astype(np.float32))
