"""Conversions of floats to integers: of every float, the same on every device; and integers beside Python's floats."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.ir.operations import converted
from vkcompute.ir.types import SCALARS

INTEGERS = [f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")]


@vc.kernel
def all_integers(x, out):
    i = vc.global_id(0)
    if i < x.size:
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = vc.int8(x[i]), vc.uint8(x[i]), vc.int16(x[i]), vc.uint16(x[i])
        out[i, 4], out[i, 5], out[i, 6], out[i, 7] = vc.int32(x[i]), vc.uint32(x[i]), vc.int64(x[i]), vc.uint64(x[i])


def floats(dtype: str) -> np.ndarray[Any, Any]:
    """Numbers at the ends of all integer types, and beyond them."""
    numbers = [0.0, 0.99, -0.99, -1.0, 2.5, 1e9 + 0.5, 6e4, 1e30, math.inf, math.nan]
    with np.errstate(over="ignore"):
        ends = np.array([2.0**bits for bits in (7, 8, 15, 16, 31, 32, 63, 64)]).astype(dtype)
        near = np.concatenate([ends, np.nextafter(ends, ends.dtype.type(0)), numbers])
        return np.concatenate([near, -near]).astype(dtype)


def saturated(x: float, dtype: str) -> int:
    """The integer of a float; 8 and 16 bits are the low ones of 32."""
    limits = np.iinfo(dtype if np.iinfo(dtype).bits >= 32 else np.int32)
    number = 0 if math.isnan(x) else max(min(x, 2.0**64), -(2.0**64))
    return int(np.array(max(min(int(number), limits.max), limits.min)).astype(dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_beyond_the_integers_are_limited(gpu: vc.Runtime, dtype: str) -> None:
    x = floats(dtype)
    out = gpu.zeros((len(x), len(INTEGERS)), np.int64)
    all_integers(gpu.array(x), out, grid=len(x))
    for integer, column in zip(INTEGERS, out.numpy().T, strict=True):
        expected = [saturated(number, integer) for number in x.tolist()]
        pairs = [[*zip(map(str, x), results, strict=True)] for results in (column.astype(integer).tolist(), expected)]
        assert pairs[0] == pairs[1], integer
        assert converted(x, SCALARS[integer]).tolist() == expected


@vc.kernel
def whole(x, out):
    i = vc.global_id(0)
    if i < x.size:
        out[i, 0], out[i, 1], out[i, 2] = int(x[i]), round(x[i]), math.floor(x[i])
        out[i, 3], out[i, 4] = math.ceil(x[i]), math.trunc(x[i]) // 7


def test_the_int_of_a_float64_is_an_int64(gpu: vc.Runtime) -> None:
    x = np.array([2.5, 3e9, -5e12 + 0.5, 7e18, -(2.0**63)])
    out = gpu.zeros((len(x), 5), np.int64)
    whole(gpu.array(x), out, grid=len(x))
    expected = [[int(v), round(v), math.floor(v), math.ceil(v), math.trunc(v) // 7] for v in x.tolist()]
    assert out.numpy().tolist() == expected
    whole(gpu.array(np.float32([3e9, -1.5])), out, grid=2)  # of a float32, it is an int32
    most = 2**31 - 1
    assert out.numpy()[:2].tolist() == [[most] * 4 + [most // 7], [-1, -2, -2, -1, -1]]


VALUES = (-0.5, 2.0**24, 2.0**24 + 0.5, 2.0**31, 2.0**53, 1e30, math.inf, math.nan)


@vc.function
def relations(x, v):
    return int(x == v) | int(x != v) << 1 | int(x < v) << 2 | int(x <= v) << 3 | int(x > v) << 4 | int(v <= x) << 5


@vc.kernel
def compared(x, out):
    i = vc.global_id(0)
    if i < x.size:
        out[i, 0], out[i, 1] = relations(x[i], -0.5), relations(x[i], 2.0**24)
        out[i, 2], out[i, 3] = relations(x[i], 2.0**24 + 0.5), relations(x[i], 2.0**31)
        out[i, 4], out[i, 5] = relations(x[i], 2.0**53), relations(x[i], 1e30)
        out[i, 6], out[i, 7] = relations(x[i], math.inf), relations(x[i], math.nan)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_integers_are_compared_with_python_floats_as_numpy_does(gpu: vc.Runtime, dtype: str) -> None:
    limits = np.iinfo(dtype)
    numbers = [0, 1, 2**24 - 1, 2**24, 2**24 + 1, 2**53 - 1, 2**53, 2**53 + 1, limits.min, limits.max]
    x = np.array([number for number in numbers if number <= limits.max], dtype)
    out = gpu.zeros((len(x), len(VALUES)), np.int32)
    compared(gpu.array(x), out, grid=len(x))
    tests = operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge
    for k, value in enumerate(VALUES):
        expected = sum(test(x, value).astype(np.int32) << at for at, test in enumerate(tests))
        assert out.numpy()[:, k].tolist() == expected.tolist(), value
