"""Reductions: sums, extremes and what is made of them.

The elements of a lazy array are computed where they are reduced, by the same kernel.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms.axis_reductions import reduce
from vkcompute.arrays.algorithms.first_extremes import first_index
from vkcompute.arrays.algorithms.lines import Axis, axes_of, axis_of, reduced_axes
from vkcompute.arrays.expressions.lazy_reduction import neutral
from vkcompute.arrays.expressions.promotion import (
    BOOL,
    accumulated,
    default_int,
    floating,
    kind_of,
    wide_float,
)
from vkcompute.arrays.expressions.ufunc import apply, astype, dtype_with_out, written
from vkcompute.arrays.expressions.ufunc import where as _where
from vkcompute.arrays.functions import integer_means
from vkcompute.arrays.functions.creation import asarray
from vkcompute.dtypes import can_cast
from vkcompute.runtime.graphs.graph import recording_graph
from vkcompute.runtime.memory.array import Array


def checked(name: str, array: Any) -> Array:
    if type(array) is not Array:
        kind_of(array)
        raise TypeError(f"{name} takes a device array; got {type(array).__name__}; make one with gpu.array(x)")
    return array


def _accumulated(array: Array, dtype: npt.DTypeLike | None, out: Array | None) -> np.dtype[Any]:
    """Returns the dtype in which a sum or product is computed."""
    return dtype_with_out(array.runtime, dtype, out, array.dtype) or accumulated(array.runtime, array.dtype)


def mask_of(condition: Any, array: Array) -> Any:
    """Returns the mask of a reduction on the device, or True for all elements; raises TypeError if it has no bools."""
    if condition is True:
        return True
    mask = asarray(condition, device=array.runtime)
    if mask.dtype != BOOL:
        raise TypeError(f"where= takes bools; got {mask.dtype}; compare first, as x != 0")
    return mask


def chosen(array: Array, condition: Any, row: str, dtype: np.dtype[Any]) -> Array:
    """Returns an array with the neutral element of a reduction where a condition is false.

    Raises:
        ValueError: the condition does not broadcast to the array.
    """
    condition = mask_of(condition, array)
    if condition is True:
        return array
    selected = _where(condition, astype(array, dtype), neutral(row, dtype))
    if selected.shape != array.shape:
        raise ValueError(f"where= broadcasts to the array's shape {array.shape}; got one of shape {condition.shape}")
    return selected


def started_by(initial: Any) -> Any:
    """Returns the initial value of a reduction.

    Raises:
        ValueError: it is a sequence, or an array with axes.
    """
    if np.ndim(initial):
        raise ValueError(f"initial is a number; got an array of shape {np.shape(initial)}")
    return initial


def _started(reduced: Array, row: str, initial: Any) -> Array:
    """Returns a reduction combined with an initial value, in its dtype."""
    return reduced if initial is None else apply(row, reduced, reduced.dtype.type(started_by(initial)))


def sum(
    a: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, initial: Any = None, where: Any = True,
) -> Array:  # fmt: skip
    """Returns the sum along axes. Bools and integers are summed in at least the default integer, unless `out` is given.

    Args:
        dtype: of the sum; by default the common one of the array and `out`.
        initial: a number that is added, in that dtype.
        where: a bool array; elements where it is false are left out.
    """
    a = checked("sum", a)
    axes, wide = reduced_axes("sum", a.ndim, axis), _accumulated(a, dtype, out)
    total = reduce("add", chosen(a, where, "add", wide), axes, wide, keepdims)
    return written(_started(total, "add", initial), out)


def prod(
    a: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, initial: Any = None, where: Any = True,
) -> Array:  # fmt: skip
    """Returns the product along axes, in the dtype of a sum; `initial` and `where` as of `sum`."""
    a = checked("prod", a)
    axes, wide = reduced_axes("prod", a.ndim, axis), _accumulated(a, dtype, out)
    total = reduce("multiply", chosen(a, where, "multiply", wide), axes, wide, keepdims)
    return written(_started(total, "multiply", initial), out)


_WIDER = {BOOL: np.dtype(np.int32), np.dtype(np.float16): np.dtype(np.float32)}
"""The dtypes in which extremes of others are reduced. CPUs convert each operand of an operation on float16: that takes
4.4 ms of CPU time for 1M on lavapipe, and 0.5 as float32."""


def extreme(
    row: str, array: Array, axis: Axis, dtype: npt.DTypeLike | None, out: Array | None, keepdims: bool,
    initial: Any = None, where: Any = True,
) -> Array:  # fmt: skip
    """Returns the largest or smallest element along axes, as of a dtype.

    Args:
        row: "maximum" or "minimum".
        dtype: by default the common one of the array and `out`.

    Raises:
        ValueError: there are no elements and no `initial`, or there is a condition and no `initial`.
    """
    name = row[:3]
    array = checked(name, array)
    axes = reduced_axes(name, array.ndim, axis)
    if initial is None and not all_axes_have_elements(array, axes):
        raise ValueError(f"{name} of no elements; the array has shape {array.shape}")
    if initial is None and where is not True:
        raise ValueError(f"{name} with where= needs initial=, the result for no elements")
    dtype = dtype_with_out(array.runtime, dtype, out, array.dtype) or array.dtype
    wide = _WIDER.get(dtype, dtype)
    array = astype(array, dtype) if dtype != array.dtype else array
    array = chosen(astype(array, wide) if wide != dtype else array, where, row, wide)
    initial = initial if initial is None or dtype != BOOL else bool(started_by(initial))
    result = _started(reduce(row, array, axes, wide, keepdims), row, initial)
    return written(astype(result, dtype) if wide != dtype else result, out)


def all_axes_have_elements(array: Array, axes: Sequence[int]) -> bool:
    """True if no axis has the length 0."""
    return builtins.all(array.shape[at] > 0 for at in axes)


def max(
    a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Array:  # fmt: skip
    """Returns the largest element along axes; NaN if there is one. `initial` and `where` as of `sum`."""
    return extreme("maximum", a, axis, None, out, keepdims, initial, where)


def min(
    a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Array:  # fmt: skip
    """Returns the smallest element along axes; NaN if there is one. `initial` and `where` as of `sum`."""
    return extreme("minimum", a, axis, None, out, keepdims, initial, where)


def _truth(row: str, name: str, array: Array, axis: Axis, out: Array | None, keepdims: bool, condition: Any) -> Array:
    array = checked(name, array)
    array = chosen(array, condition, row, BOOL)
    axes, counted = reduced_axes(name, array.ndim, axis), astype(astype(array, BOOL), np.int32)
    return written(astype(reduce(row, counted, axes, counted.dtype, keepdims), BOOL), out)


def all(a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False, *, where: Any = True) -> Array:
    """Returns True where all elements along axes are true, or there are none."""
    return _truth("multiply", "all", a, axis, out, keepdims, where)


def any(a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False, *, where: Any = True) -> Array:
    """Returns True where an element along axes is true."""
    return _truth("bitwise_or", "any", a, axis, out, keepdims, where)


def refuse(condition: Array, error: Exception) -> None:
    """Raises an error where a condition is true, for which it waits; not in a recording, which is computed later."""
    if recording_graph(condition.runtime.scheduler) is None and bool(any(condition)):
        raise error


def count_nonzero(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Returns the number of elements along axes that are not zero, in the default integer."""
    a = checked("count_nonzero", a)
    axes, dtype = reduced_axes("count_nonzero", a.ndim, axis), default_int(a.runtime)
    return reduce("add", astype(astype(a, BOOL), dtype), axes, dtype, keepdims)


def dtype_of_mean(array: Array, dtype: npt.DTypeLike | None, out: Array | None) -> np.dtype[Any]:
    """Returns the dtype in which a mean or a variance is computed: a float one, unless another is given."""
    own = floating(array.dtype)
    return dtype_with_out(array.runtime, dtype, out, own) or own


def mean(
    a: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, *, where: Any = True,
) -> Array:  # fmt: skip
    """Returns the mean along axes, in the array's float dtype or the default one; NaN for no elements.

    Args:
        where: a bool array; elements where it is false are left out.
    """
    a = checked("mean", a)
    where = mask_of(where, a)
    mean_dtype = dtype_of_mean(a, dtype, out)
    axes = axes_of("mean", a.ndim, axis)
    n = math.prod([a.shape[at] for at in axes])
    count = n if where is True else count_nonzero(where.broadcast_to(a.shape), axes, keepdims=keepdims)
    wide = wide_float(mean_dtype)
    if mean_dtype.kind not in "fc" and type(out) is Array and can_cast(mean_dtype, out.dtype, "same_kind"):
        mean_dtype = out.dtype
    if integer_means.is_rounded(a.dtype, wide) and a.dtype.itemsize == 8:
        quotient = integer_means.rounded_mean(chosen(a, where, "add", a.dtype), axes, count, keepdims=keepdims)
    else:
        added = np.dtype(np.int64) if integer_means.is_rounded(a.dtype, wide) else wide
        a = astype(a, added) if a.dtype != added else a
        total = reduce("add", chosen(a, where, "add", added), axes, added, keepdims)
        quotient = _quotient(total, count, floating(wide), mean_dtype)
    return written(astype(quotient, mean_dtype) if quotient.dtype != mean_dtype else quotient, out)


def _quotient(total: Array, count: Any, wide: np.dtype[Any], dtype: np.dtype[Any]) -> Array:
    """Returns sums divided by counts, in a wide float dtype, or exactly if they and the result are integers."""
    if total.dtype.kind in "iu" and dtype.kind in "iu":
        return integer_means.truncated_quotient(total, count)
    count = astype(count, wide) if type(count) is Array else wide.type(count)
    return apply("divide", astype(total, wide) if total.dtype != wide else total, count)


def _index_of_extreme(name: str, extreme: str, array: Array, axis: int | None, keepdims: bool) -> Array:
    """Returns the index of the first extreme, or NaN, along an axis or in the flattened array."""
    array = checked(name, array)
    kept = (1,) * array.ndim if keepdims and (axis is None or not array.ndim) else None
    distinct = without_repeats(array)
    if axis is None and distinct is not array:
        result = index_among_repeats(_index_of_extreme(name, extreme, distinct, None, False), distinct, array)
        return result if kept is None else result.reshape(kept)
    if axis is None or not (array.ndim or reduced_axes(name, 0, axis)):
        array, axis = array.reshape(-1), 0
    at = axis_of(name, array.ndim, axis)
    array = without_repeats(array, at)
    n = array.shape[at]
    if not n:
        raise ValueError(f"{name} of no elements; the array has shape {array.shape}")
    result = astype(first_index(extreme, array, at, keepdims), default_int(array.runtime))
    return result if kept is None else result.reshape(kept)


def without_repeats(array: Array, *axes: int) -> Array:
    """Returns the view with the first of the equal slices along broadcast axes; of these axes, or by default all."""
    among = axes or range(array.ndim)
    repeated = [at for at in among if array.shape[at] > 1 and not array.strides[at]]
    if not repeated:
        return array
    return array[tuple([slice(0, 1) if at in repeated else slice(None) for at in range(array.ndim)])]


def index_among_repeats(index_of_distinct: Array, distinct: Array, array: Array) -> Array:
    """Returns the index in a flattened array, of an index in the flattened view without its repeats."""
    result, step, distinct_step = apply("multiply", index_of_distinct, 0), 1, 1
    for n, n_distinct in zip(array.shape[::-1], distinct.shape[::-1], strict=True):
        if n_distinct > 1:
            index = apply("remainder", apply("floor_divide", index_of_distinct, distinct_step), n_distinct)
            result = apply("add", result, apply("multiply", index, step))
        step, distinct_step = step * n, distinct_step * n_distinct
    return result


def argmax(a: Array, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Returns the index of the first largest element along an axis, or in the flattened array."""
    return written(_index_of_extreme("argmax", "largest", a, axis, keepdims), out)


def argmin(a: Array, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Returns the index of the first smallest element along an axis, or in the flattened array."""
    return written(_index_of_extreme("argmin", "smallest", a, axis, keepdims), out)


def ptp(a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Returns the largest element less the smallest along axes."""
    dtype = dtype_with_out(a.runtime, None, out, a.dtype)
    highest, lowest = (extreme(row, a, axis, dtype, None, keepdims) for row in ("maximum", "minimum"))
    return written(apply("subtract", highest, lowest), out)
