"""Reductions that leave NaN out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms.axis_reductions import reduce
from vkcompute.arrays.algorithms.lines import Axis, reduced_axes
from vkcompute.arrays.expressions.lazy_reduction import neutral
from vkcompute.arrays.expressions.promotion import Operand, part_of, wide_float
from vkcompute.arrays.expressions.ufunc import apply, astype, dtype_with_out, written
from vkcompute.arrays.expressions.ufunc import where as choose
from vkcompute.arrays.functions import reductions
from vkcompute.arrays.functions.standard import cumprod, cumsum
from vkcompute.arrays.functions.variance import correction_of, distances, dtype_with_mean, squared, std, var
from vkcompute.runtime.memory.array import Array


def without_nan(x: Array, value: Any) -> Array:
    """Returns the elements with a number in place of NaN."""
    return choose(apply("isnan", x), x.dtype.type(value), x) if x.dtype.kind in "fc" else x


def numbers_along(x: Array, axis: Axis, dtype: np.dtype[Any], keepdims: bool) -> Array:
    """Returns how many elements along axes are not NaN, in a dtype."""
    axes = reduced_axes("count", x.ndim, axis)
    whole = np.dtype(np.int32)
    return astype(reduce("add", astype(apply("equal", x, x), whole), axes, whole, keepdims), dtype)


def nansum(
    a: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None, keepdims: bool = False,
    initial: Any = None, where: Any = True,
) -> Array:  # fmt: skip
    """Returns the sum along axes; NaN counts as 0. `initial` and `where` as of `sum`."""
    return reductions.sum(without_nan(a, 0), axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None, keepdims: bool = False,
    initial: Any = None, where: Any = True,
) -> Array:  # fmt: skip
    """Returns the product along axes; NaN counts as 1. `initial` and `where` as of `sum`."""
    return reductions.prod(without_nan(a, 1), axis, dtype, out, keepdims, initial, where)


def _extreme(name: str, x: Array, axis: Axis, out: Array | None, keepdims: bool, initial: Any, condition: Any) -> Array:
    row = f"{name}imum"
    if x.dtype.kind not in "fc":
        return reductions.extreme(row, x, axis, None, out, keepdims, initial, condition)
    if condition is not True and initial is None:
        raise ValueError(f"nan{name} with where= needs initial=, the result for no elements")
    initial = reductions.started_by(initial)
    if initial is not None and reductions.all_axes_have_elements(x, range(x.ndim)) and np.isnan(initial):
        initial = None if condition is True else neutral(row, x.dtype)
    dtype = dtype_with_out(x.runtime, None, out, x.dtype)
    others = without_nan(x, neutral(row, x.dtype))
    result = reductions.extreme(row, others, axis, dtype, None, keepdims, initial, condition)
    if initial is None:
        count = numbers_along(x, axis, np.dtype(np.int32), keepdims)
        result = choose(apply("equal", count, 0), result.dtype.type(np.nan), result)
    return written(result, out)


def nanmax(
    a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Array:  # fmt: skip
    """Returns the largest element along axes that is not NaN; NaN if all are. `initial` and `where` as of `max`."""
    return _extreme("max", a, axis, out, keepdims, initial, where)


def nanmin(
    a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Array:  # fmt: skip
    """Returns the smallest element along axes that is not NaN; NaN if all are. `initial` and `where` as of `min`."""
    return _extreme("min", a, axis, out, keepdims, initial, where)


def _index_of_extreme(name: str, x: Array, axis: int | None, out: Array | None, keepdims: bool) -> Array:
    distinct = reductions.without_repeats(x)
    if axis is None and distinct is not x:
        index = reductions.index_among_repeats(_index_of_extreme(name, distinct, None, None, False), distinct, x)
        return written(index.reshape((1,) * x.ndim) if keepdims else index, out)
    if x.dtype.kind in "fc" and bool(reductions.any(reductions.all(apply("isnan", x), axis))):
        raise ValueError(f"{name}: all elements along an axis are NaN")
    others = without_nan(x, neutral(f"{name[-3:]}imum", x.dtype)) if x.dtype.kind in "fc" else x
    index = getattr(reductions, name[3:])(others, axis, None, keepdims)
    return written(index, out)


def nanargmax(a: Array, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Returns the index of the first largest element that is not NaN; waits to see that there is one.

    Raises:
        ValueError: all elements along an axis are NaN.
    """
    return _index_of_extreme("nanargmax", a, axis, out, keepdims)


def nanargmin(a: Array, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Returns the index of the first smallest element that is not NaN; waits to see that there is one.

    Raises:
        ValueError: all elements along an axis are NaN.
    """
    return _index_of_extreme("nanargmin", a, axis, out, keepdims)


def _wide(x: Array, dtype: npt.DTypeLike | None, out: Array | None) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Returns the dtype of a mean, and the one in which it is computed.

    Raises:
        TypeError: the dtype is given, and has no NaN.
    """
    mean_dtype = reductions.dtype_of_mean(x, dtype, out)
    if mean_dtype.kind not in "fc":
        raise TypeError(f"a mean is of a float dtype; got dtype={mean_dtype}; convert it with .astype()")
    return mean_dtype, wide_float(mean_dtype)


def _chosen(x: Array, dtype: np.dtype[Any], condition: Any) -> Array:
    """Returns the elements in a dtype, with NaN in place of those that a condition leaves out."""
    x = astype(x, dtype)
    condition = reductions.mask_of(condition, x)
    if condition is True:
        return x
    chosen = choose(condition, x, dtype.type(np.nan))
    if chosen.shape != x.shape:
        raise ValueError(f"where= broadcasts to the array's shape {x.shape}; got one of shape {condition.shape}")
    return chosen


def nanmean(
    a: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None, keepdims: bool = False,
    *, where: Any = True,
) -> Array:  # fmt: skip
    """Returns the mean along axes of the elements that are not NaN; NaN if all are.

    Args:
        where: a bool array; elements where it is false are left out.
    """
    if a.dtype.kind not in "fc":  # integers have no NaN
        return reductions.mean(a, axis, dtype, out, keepdims, where=where)
    mean_dtype, wide = _wide(a, dtype, out)
    a = _chosen(a, wide, where)
    mean = apply("divide", nansum(a, axis, None, None, keepdims), numbers_along(a, axis, wide, keepdims))
    mean = astype(mean, mean_dtype)
    return written(mean, out)


def nanvar(
    a: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None, ddof: float = 0,
    keepdims: bool = False, *, where: Any = True, mean: Operand = None, correction: float | None = None,
) -> Array:  # fmt: skip
    """Returns the variance along axes of the elements that are not NaN; NaN if there are no more than ddof.

    Args:
        where: a bool array; elements where it is false are left out.
        mean: an array or number, the mean along these axes, with keepdims=True, if it is known.
        correction: the standard's name for `ddof`.

    Raises:
        ValueError: `ddof` and `correction` are given, or `mean` does not broadcast to the array.
    """
    if a.dtype.kind not in "fc":
        return var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)
    variance = _variance(a, axis, dtype, out, correction_of(ddof, correction), keepdims, where, mean)
    return written(variance, out)


def _variance(
    a: Array, axis: Axis, dtype: npt.DTypeLike | None, out: Array | None, ddof: float, keepdims: bool, where: Any,
    mean: Operand,
) -> Array:  # fmt: skip
    """Returns the variance, in the dtype in which it is computed for `out`, which it does not write."""
    mean_dtype, wide = _wide(a, dtype_with_mean(a, mean, dtype, out), None)
    a, real = _chosen(a, wide, where), part_of(wide)
    difference = distances(a, nanmean(a, axis, keepdims=True) if mean is None else mean, wide)
    squares = choose(apply("isnan", a), real.type(0), squared(difference, real))
    total = reductions.sum(squares, axis, None, None, keepdims)
    free = apply("subtract", numbers_along(a, axis, real, keepdims), real.type(ddof))
    variance = choose(apply("greater", free, 0), apply("divide", total, free), real.type(np.nan))
    return astype(variance, part_of(mean_dtype))


def nanstd(
    a: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None, ddof: float = 0,
    keepdims: bool = False, *, where: Any = True, mean: Operand = None, correction: float | None = None,
) -> Array:  # fmt: skip
    """Returns the standard deviation along axes: the root of the variance, whose arguments it takes."""
    if a.dtype.kind not in "fc":
        return std(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)
    variance = _variance(a, axis, dtype, out, correction_of(ddof, correction), keepdims, where, mean)
    return written(apply("sqrt", variance), out)


def nancumsum(a: Array, axis: int | None = None, dtype: npt.DTypeLike | None = None, out: Array | None = None) -> Array:
    """Returns the sums up to each element along an axis, or of the flattened array; NaN counts as 0."""
    return cumsum(without_nan(a, 0), axis, dtype, out)


def nancumprod(
    a: Array, axis: int | None = None, dtype: npt.DTypeLike | None = None, out: Array | None = None
) -> Array:
    """Returns the products up to each element along an axis, or of the flattened array; NaN counts as 1."""
    return cumprod(without_nan(a, 1), axis, dtype, out)
