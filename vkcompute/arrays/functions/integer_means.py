"""Means of integers that float32 rounds, and distances from them: both are exact before they become floats.

A mean is the nearest integer and the rest. Integers less their mean's integer are exact in unsigned ones of their
size, so that the distances of integers near 2**30 are as precise as those of integers near 0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from vkcompute.arrays.algorithms.axis_reductions import reduce
from vkcompute.arrays.expressions.promotion import Operand, kind_of
from vkcompute.arrays.expressions.ufunc import apply, astype, where
from vkcompute.runtime.memory.array import Array

_FLOAT, _INT, _UINT = (np.dtype(name) for name in ("float32", "int64", "uint64"))
_WORD = 1 << 32


class Mean(NamedTuple):
    """A mean as the sum of two numbers.

    Attributes:
        whole: the nearest integer within the dtype of the elements.
        rest: the mean less this integer, in float32.
    """

    whole: Array | int
    rest: Array | float


def is_rounded(dtype: np.dtype[Any], wide: np.dtype[Any]) -> bool:
    """True for the integers of 32 and 64 bits where a function computes with float32, which holds 24 bits."""
    return wide == _FLOAT and dtype.kind in "iu" and dtype.itemsize >= 4


def scale_of(dtype: np.dtype[Any], wide: np.dtype[Any]) -> float:
    """Returns a factor for distances of integers, such that sums of their squares do not overflow."""
    return 1 / _WORD if is_rounded(dtype, wide) and dtype.itemsize == 8 else 1.0


def mean_of(x: Array, axes: tuple[int, ...], count: Array | int, *, keepdims: bool) -> tuple[Array, Array]:
    """Returns the parts of a `Mean` along axes; its rest is NaN where there are no elements.

    Args:
        x: fewer than 2**31 integers along the axes, with 0 for those that are left out.
        count: how many are not, in int64 if it is an array.
    """
    divisor = apply("maximum", count, 1) if isinstance(count, Array) else max(count, 1)
    if x.dtype.itemsize < 8:
        whole, left = _divided(reduce("add", astype(x, _INT), axes, _INT, keepdims), divisor)
    else:  # sums of halves hold what one of 64 bits would not
        high, low = apply("right_shift", x, 32), apply("bitwise_and", x, _WORD - 1)
        high, low = (reduce("add", half, axes, x.dtype, keepdims) for half in (high, low))
        whole, left = _divided(high, divisor)
        rest = apply("add", apply("multiply", astype(left, _UINT), _WORD), astype(low, _UINT))
        second, left = _divided(rest, divisor)
        whole = apply("add", apply("multiply", whole, _WORD), astype(second, x.dtype))
    left = astype(left, _INT)
    is_next = apply("greater_equal", left, apply("subtract", divisor, left))
    whole = apply("add", astype(whole, x.dtype), astype(is_next, x.dtype))
    left = apply("subtract", left, where(is_next, divisor, 0))
    rest = apply("divide", astype(left, _FLOAT), astype(count, _FLOAT) if isinstance(count, Array) else float(count))
    return whole, rest


def rounded_mean(x: Array, axes: tuple[int, ...], count: Array | int, *, keepdims: bool) -> Array:
    """Returns the mean as by `mean_of`, in float32."""
    whole, rest = mean_of(x, axes, count, keepdims=keepdims)
    return apply("add", astype(whole, _FLOAT), rest)


def _divided(x: Array, divisor: Array | int) -> tuple[Array, Array]:
    """Returns the quotients, rounded down, and the remainders."""
    divisor = astype(divisor, x.dtype) if isinstance(divisor, Array) else divisor
    whole = apply("floor_divide", x, divisor)
    return whole, apply("subtract", x, apply("multiply", whole, divisor))


def truncated_quotient(total: Array, count: Array | int) -> Array:
    """Returns sums of integers divided by counts, towards 0, in their dtype; for none what NumPy makes of NaN."""
    with np.errstate(invalid="ignore"):
        none = np.array(np.nan).astype(total.dtype)[()]
    divisor = apply("maximum", count, 1) if isinstance(count, Array) else max(count, 1)
    whole, left = _divided(astype(total, _UINT if total.dtype.kind == "u" else _INT), divisor)
    if total.dtype.kind == "i":
        is_next = apply("logical_and", apply("less", total, 0), apply("not_equal", left, 0))
        whole = apply("add", whole, astype(is_next, _INT))
    whole = astype(whole, total.dtype)
    if isinstance(count, Array):
        return where(apply("equal", count, 0), none, whole)
    return whole if count else where(apply("equal", total, total), none, whole)


def split(mean: Operand, dtype: np.dtype[Any]) -> Mean:
    """Returns a given mean as an integer of a dtype, and the rest, which is large for means beyond the dtype."""
    limits = np.iinfo(dtype)
    if not isinstance(mean, Array):
        kind_of(mean)
        number: Any = int(mean) if isinstance(mean, (int, np.integer)) else float(mean)
        nearest = round(number) if math.isfinite(number) else 0
        whole = min(max(nearest, limits.min), limits.max)
        return Mean(whole, float(number - whole))
    if mean.dtype.kind not in "iu" and mean.dtype.itemsize < 4:
        mean = astype(mean, _FLOAT)
    lowest, highest = _limits_within(limits, mean.dtype)
    nearest = mean if mean.dtype.kind in "iu" else apply("rint", mean)
    nearest = apply("maximum", apply("minimum", nearest, highest), lowest)
    return Mean(astype(nearest, dtype), astype(apply("subtract", mean, nearest), _FLOAT))


def _limits_within(limits: Any, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Returns the least and the largest numbers of a dtype within the limits of integers."""
    if dtype.kind in "iu":
        own = np.iinfo(dtype)
        return max(own.min, limits.min), min(own.max, limits.max)
    highest = dtype.type(limits.max)
    return float(limits.min), float(np.nextafter(highest, dtype.type(0)) if int(highest) > limits.max else highest)


def distances(x: Array, mean: Mean) -> Array:
    """Returns the differences of elements from a mean, in float32."""
    whole, rest = mean
    for part in mean:
        if isinstance(part, Array):
            part.compute()  # once, rather than for each element
    size = apply("subtract", apply("maximum", x, whole), apply("minimum", x, whole))
    size = astype(astype(size, np.dtype(f"u{x.dtype.itemsize}")), _FLOAT)
    return apply("subtract", where(apply("less", x, whole), apply("negative", size), size), rest)
