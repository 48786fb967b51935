"""Reductions along axes, of real and complex arrays, in a given dtype."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vkcompute.arrays.algorithms.gather import take_along_axis
from vkcompute.arrays.algorithms.lines import iota
from vkcompute.arrays.expressions import lazy
from vkcompute.arrays.expressions.lazy_reduction import LazyReduction, neutral
from vkcompute.arrays.expressions.promotion import part_of, require_dtype
from vkcompute.arrays.expressions.ufunc import apply, assign, astype, joined, part, where
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import constant, runtime_of
from vkcompute.runtime.tuning import tuning_of


def reduce(row: str, array: Array, axes: tuple[int, ...], dtype: np.dtype[Any], keepdims: bool) -> Array:
    """Returns the lazy reduction of an array along axes, given as by `axes_of`, in a dtype."""
    dtype = require_dtype(array.runtime, dtype, row)
    if dtype.kind == "c":
        return _complex(row, astype(array, dtype) if array.dtype != dtype else array, axes, keepdims)
    if array.dtype.kind in "bc":
        array = astype(array, dtype)
    else:
        require_dtype(array.runtime, array.dtype, row)
    shape = tuple([1 if at in axes else n for at, n in enumerate(array.shape) if keepdims or at not in axes])
    expression = LazyReduction(row, array, axes, dtype)
    if expression.depth > lazy.MOST_DEPTH:
        array.compute()
        expression.depth = 1
    return lazy.pending(array.runtime, shape, dtype, expression, (array,))


def _complex(row: str, array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Returns the reduction of a complex array: of its parts, or for a product of both halves of an axis."""
    if row == "add":
        one, other = (reduce(row, part(name, array), axes, part_of(array.dtype), keepdims) for name in ("real", "imag"))
        return joined(one, other)
    if row != "multiply":
        return _complex_extreme(row, array, axes, keepdims)
    if all(array.shape[at] == 1 for at in axes):
        array = array.copy()
    for at in axes:
        array = _product(array, at)
    return array if keepdims else array[tuple([0 if at in axes else slice(None) for at in range(array.ndim)])]


def _complex_extreme(row: str, array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Returns the first NaN, or else the first extreme, along axes of a complex array."""
    rest = tuple([at for at in range(array.ndim) if at not in axes])
    shape = tuple([1 if at in axes else n for at, n in enumerate(array.shape) if keepdims or at not in axes])
    n = math.prod([array.shape[at] for at in axes])
    if not n:
        return temporary(array.runtime, shape, array.dtype).fill(neutral(row, array.dtype))
    lines = array.transpose((*rest, *axes)).reshape((*[array.shape[at] for at in rest], n))
    return take_along_axis(lines, first_true(hits(row, lines, lines.ndim - 1), lines.ndim - 1, True), -1).reshape(shape)


def hits(row: str, array: Array, axis: int) -> Array:
    """Returns True for elements that equal the extreme along an axis; for NaN alone if the axis has one."""
    if array.dtype.kind != "c":
        hit = apply("equal", array, reduce(row, array, (axis,), array.dtype, True))
        return apply("logical_or", hit, apply("isnan", array)) if array.dtype.kind == "f" else hit
    real, imag, is_nan = part("real", array), part("imag", array), apply("isnan", array)
    worst = neutral(row, real.dtype)
    hit = apply("equal", real, reduce(row, where(is_nan, math.nan, real), (axis,), real.dtype, True))
    imag = where(hit, imag, worst)
    hit = apply("logical_and", hit, apply("equal", imag, reduce(row, imag, (axis,), real.dtype, True)))
    return apply("logical_or", hit, is_nan)


def first_true(hit: Array, axis: int, keepdims: bool) -> Array:
    """Returns the index of the first True along an axis, in int32."""
    n = hit.shape[axis]
    indices = where(hit, iota_along(hit, axis, n), np.int32(n))
    return reduce("minimum", indices, (axis,), np.dtype(np.int32), keepdims)


def _product(array: Array, axis: int) -> Array:
    """Returns the product along an axis, which is kept, as a tree."""
    if not array.shape[axis]:
        shape = (*array.shape[:axis], 1, *array.shape[axis + 1 :])
        return temporary(array.runtime, shape, array.dtype).fill(array.dtype.type(1))
    while (n := array.shape[axis]) > 1:
        half, rest = n // 2, _slice(array, axis, n - n % 2, None)
        array = apply("multiply", _slice(array, axis, 0, half), _slice(array, axis, half, 2 * half))
        if n % 2:
            first = _slice(array, axis, 0, 1)
            assign(first, apply("multiply", first, rest), fresh=True)
    return array


def _slice(array: Array, axis: int, start: int, stop: int | None) -> Array:
    return array[(slice(None),) * axis + (slice(start, stop),)]


def iota_along(array: Array, axis: int, n: int) -> Array:
    """Returns 0 to n - 1 along an axis."""
    runtime = runtime_of(array)
    on_host = tuning_of(runtime.device.physical).counts_on_host
    numbers = constant(runtime, np.arange(n, dtype=np.int32)) if on_host else iota(runtime, n)
    return numbers.reshape((*(1,) * axis, n, *(1,) * (array.ndim - axis - 1)))
