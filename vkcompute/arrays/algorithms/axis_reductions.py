"""Reductions along axes, of real and complex arrays, in a given dtype."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from vkcompute.arrays.algorithms.gather import gather, take_along_axis
from vkcompute.arrays.algorithms.lines import Lines, count_up
from vkcompute.arrays.expressions import lazy
from vkcompute.arrays.expressions.lazy_reduction import LazyReduction, neutral
from vkcompute.arrays.expressions.promotion import BOOL, default_int, part_of, require_dtype
from vkcompute.arrays.expressions.ufunc import apply, assign, astype, joined, part, where
from vkcompute.jit.elementwise.elementwise import Elementwise
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


_WORDS = {"b": np.dtype(np.int32), "i": np.dtype(np.int32), "u": np.dtype(np.uint32), "f": np.dtype(np.float32)}
"""The 32-bit dtypes that hold those of at most 32 bits, by their kinds."""
_EXTREMES = {"smallest": "minimum", "largest": "maximum"}
_LONG, _SHORTEST_CHUNK, _LONGEST_CHUNK = 1 << 21, 512, 8192
"""Elements of a line from which an extreme is first searched in chunks, and those of a chunk.

On lavapipe, argmin of 2**24 numbers takes 8 ms of CPU time with chunks and 30 without; of 1M, 4 and 3.
"""
_chosen_rows = Elementwise("chunk + row * n_chunks", "chunk, row, n_chunks")


def first_index(extreme: str, array: Array, axis: int, keepdims: bool) -> Array:
    """Returns the index of the first extreme, or NaN, along an axis, as an integer.

    Elements in memory are read once, to find the first chunk with the extreme. So are numbers of at most 32 bits of an
    expression: their ranks are reduced, with their indices behind.

    Args:
        extreme: a key of _EXTREMES.
    """
    if length := _chunk_length(array, axis):
        index = _first_by_chunks(extreme, array, length)
        return index.reshape((*index.shape, 1)) if keepdims else index
    if default_int(array.runtime).itemsize == 8 and array.dtype.itemsize <= 4:
        indices = counting(array, axis, array.shape[axis])
        array = astype(array, _WORDS[array.dtype.kind])
        keys = lazy.make(f"first {extreme}", "", (array, indices), array.shape, np.dtype(np.uint64), array.runtime)
        return apply("bitwise_and", reduce("minimum", keys, (axis,), keys.dtype, keepdims), np.uint64(2**32 - 1))
    array = astype(array, np.int32) if array.dtype == BOOL else array
    return first_true(hits(_EXTREMES[extreme], array, axis), axis, keepdims)


def _chunk_length(array: Array, axis: int) -> int:
    """Returns the length of the chunks of lines, if these are to be searched in chunks; else 0."""
    n = array.shape[axis]
    if axis < array.ndim - 1 or n < _LONG or array.dtype.kind in "bc":
        return 0
    if array.is_pending or not array.contiguous:  # to read them twice may take longer than to rank them
        return 0
    return _divisor(n, _SHORTEST_CHUNK, _LONGEST_CHUNK) or (_LONGEST_CHUNK if array.ndim == 1 else 0)


@lru_cache(1024)
def _divisor(n: int, shortest: int, longest: int) -> int:
    """Returns the greatest divisor of n in a range that is a multiple of 8, for whole vectors; 0 if there is none."""
    return next((length for length in range(longest, shortest - 1, -8) if n % length == 0), 0)


def _first_by_chunks(extreme: str, array: Array, length: int) -> Array:
    """Returns the index of the first extreme of each line, which is in the first chunk that has it."""
    n = array.shape[-1]
    if rest := n % length:
        return _first_of_parts(extreme, array, n - rest)
    chunks = array.reshape((-1, n // length, length))
    n_rows, n_chunks, _ = chunks.shape
    extremes = reduce(_EXTREMES[extreme], chunks, (2,), array.dtype, False)
    extremes.compute()  # they are few, and read twice
    chunk = astype(first_index(extreme, extremes, 1, False), np.int32)
    searched = temporary(array.runtime, (n_rows, length), array.dtype)
    at = _chosen_rows(chunk, count_up(array.runtime, n_rows), n_chunks)
    gather(array, at, Lines(1, n_rows * n_chunks, length), searched)
    inside = astype(first_index(extreme, searched, 1, False), np.int32)
    return apply("add", apply("multiply", chunk, np.int32(length)), inside).reshape(array.shape[:-1])


def _first_of_parts(extreme: str, array: Array, n_first: int) -> Array:
    """Returns the index of the first extreme of one line, whose parts are searched apart."""
    n, at = array.shape[0], temporary(array.runtime, 2, np.int32)
    for part_of_line, (start, stop) in enumerate(((0, n_first), (n_first, n))):
        index = first_index(extreme, array[start:stop], 0, True)
        assign(at[part_of_line : part_of_line + 1], apply("add", index, start), fresh=True)
    values = gather(array, at, Lines(1, n, 1), temporary(array.runtime, 2, array.dtype))
    return where(apply("equal", first_index(extreme, values, 0, False), 0), at[0], at[1])


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
    indices = where(hit, counting(hit, axis, n), np.int32(n))
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


def counting(array: Array, axis: int, n: int) -> Array:
    """Returns 0 to n - 1 along an axis."""
    runtime = runtime_of(array)
    on_host = tuning_of(runtime.device.physical).counts_on_host
    numbers = constant(runtime, np.arange(n, dtype=np.int32)) if on_host else count_up(runtime, n)
    return numbers.reshape((*(1,) * axis, n, *(1,) * (array.ndim - axis - 1)))
