"""Reductions that leave NaN out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays import reductions, scans
from vkcompute.arrays.lines import Axis, axes_of
from vkcompute.arrays.manipulation import ravel
from vkcompute.arrays.promotion import default_float
from vkcompute.arrays.ufunc import apply, assign, astype, where
from vkcompute.runtime.memory.array import Array


def without_nan(x: Array, value: Any) -> Array:
    """Returns the elements with a number in place of NaN."""
    return where(apply("isnan", x), x.dtype.type(value), x) if x.dtype.kind == "f" else x


def numbers_along(x: Array, axis: Axis, dtype: np.dtype[Any], keepdims: bool) -> Array:
    """Returns how many elements along axes are not NaN, in a dtype."""
    axes = axes_of("count", x.ndim, axis)
    whole = np.dtype(np.int32)
    return astype(reductions.reduce("add", astype(apply("equal", x, x), whole), axes, whole, keepdims), dtype)


def nansum(
    x: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None, keepdims: bool = False
) -> Array:
    """Returns the sum along axes; NaN counts as 0."""
    return reductions.sum(without_nan(x, 0), axis, dtype, out, keepdims)


def nanprod(
    x: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None, keepdims: bool = False
) -> Array:
    """Returns the product along axes; NaN counts as 1."""
    return reductions.prod(without_nan(x, 1), axis, dtype, out, keepdims)


def _extreme(name: str, x: Array, axis: Axis, out: Array | None, keepdims: bool) -> Array:
    function = getattr(reductions, name)
    if x.dtype.kind != "f":
        return function(x, axis, out, keepdims)  # type: ignore[no-any-return]
    found = function(without_nan(x, -np.inf if name == "max" else np.inf), axis, None, keepdims)
    count = numbers_along(x, axis, np.dtype(np.int32), keepdims)
    found = where(apply("equal", count, 0), x.dtype.type(np.nan), found)
    return found if out is None else assign(out, found)


def nanmax(x: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Returns the largest element along axes that is not NaN; NaN if all are."""
    return _extreme("max", x, axis, out, keepdims)


def nanmin(x: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Returns the smallest element along axes that is not NaN; NaN if all are."""
    return _extreme("min", x, axis, out, keepdims)


def _place(name: str, x: Array, axis: int | None, out: Array | None, keepdims: bool) -> Array:
    if x.dtype.kind == "f" and bool(reductions.any(reductions.all(apply("isnan", x), axis))):
        raise ValueError(f"{name}: all elements along an axis are NaN")
    others = without_nan(x, -np.inf if name == "nanargmax" else np.inf)
    found = getattr(reductions, name[3:])(others, axis, None, keepdims)
    return found if out is None else assign(out, found)


def nanargmax(x: Array, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Returns the place of the first largest element that is not NaN; waits to see that there is one.

    Raises:
        ValueError: all elements along an axis are NaN.
    """
    return _place("nanargmax", x, axis, out, keepdims)


def nanargmin(x: Array, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Returns the place of the first smallest element that is not NaN; waits to see that there is one.

    Raises:
        ValueError: all elements along an axis are NaN.
    """
    return _place("nanargmin", x, axis, out, keepdims)


def _wide(x: Array, dtype: npt.DTypeLike | None) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Returns the dtype of a mean, and the one in which it is computed."""
    found = np.dtype(dtype) if dtype is not None else x.dtype if x.dtype.kind == "f" else default_float()
    return found, np.dtype(np.float32) if found == np.float16 else found


def nanmean(
    x: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None, keepdims: bool = False
) -> Array:
    """Returns the mean along axes of the elements that are not NaN; NaN if all are."""
    found, wide = _wide(x, dtype)
    x = astype(x, wide)
    mean = apply("divide", nansum(x, axis, None, None, keepdims), numbers_along(x, axis, wide, keepdims))
    mean = astype(mean, found)
    return mean if out is None else assign(out, mean)


def nanvar(
    x: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None, ddof: float = 0,
    keepdims: bool = False,
) -> Array:  # fmt: skip
    """Returns the variance along axes of the elements that are not NaN; NaN if there are no more than ddof."""
    found, wide = _wide(x, dtype)
    x = astype(x, wide)
    difference = apply("subtract", x, nanmean(x, axis, keepdims=True))
    total = nansum(apply("multiply", difference, difference), axis, None, None, keepdims)
    free = apply("subtract", numbers_along(x, axis, wide, keepdims), wide.type(ddof))
    variance = where(apply("greater", free, 0), apply("divide", total, free), wide.type(np.nan))
    variance = astype(variance, found)
    return variance if out is None else assign(out, variance)


def nanstd(
    x: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None, ddof: float = 0,
    keepdims: bool = False,
) -> Array:  # fmt: skip
    """Returns the standard deviation along axes of the elements that are not NaN."""
    found = apply("sqrt", nanvar(x, axis, dtype, None, ddof, keepdims))
    return found if out is None else assign(out, found)


def _cumulative(
    operation: str, x: Array, axis: int | None, dtype: npt.DTypeLike | None, out: Array | None, value: int
) -> Array:
    x, axis = (ravel(x), 0) if axis is None else (x, axis)
    (at,) = axes_of(f"nancum{operation}", x.ndim, axis)
    found = scans.cumulative(without_nan(x, value), operation, at, dtype)
    return found if out is None else assign(out, found)


def nancumsum(x: Array, axis: int | None = None, dtype: npt.DTypeLike | None = None, out: Array | None = None) -> Array:
    """Returns the sums up to each element along an axis, or of the flattened array; NaN counts as 0."""
    return _cumulative("sum", x, axis, dtype, out, 0)


def nancumprod(
    x: Array, axis: int | None = None, dtype: npt.DTypeLike | None = None, out: Array | None = None
) -> Array:
    """Returns the products up to each element along an axis, or of the flattened array; NaN counts as 1."""
    return _cumulative("prod", x, axis, dtype, out, 1)
