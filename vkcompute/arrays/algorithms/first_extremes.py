"""The index of the first extreme along an axis: argmin and argmax.

Long lines in memory are read once, by block programs that store the extremes of chunks. The first chunk with the
extreme of the line is searched. Others are reduced to the ranks of their elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from vkcompute.arrays.algorithms.axis_reductions import first_true, hits, iota_along, reduce
from vkcompute.arrays.algorithms.gather import gather_elements
from vkcompute.arrays.algorithms.matrix_product import MOST_GROUPS
from vkcompute.arrays.algorithms.programs.extremes import (
    extreme_of_chunks,
    largest,
    search_chunks,
    smallest,
)
from vkcompute.arrays.expressions import lazy
from vkcompute.arrays.expressions.promotion import BOOL, default_int
from vkcompute.arrays.expressions.ufunc import apply, assign, astype
from vkcompute.compiled.target import computes_by_words
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.launching.arguments import is_unaligned, needs_strides
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of
from vkcompute.runtime.tuning import tuning_of
from vkcompute.tile.device import block_target
from vkcompute.tile.launch_arrays import is_wide
from vkcompute.tile.registers import ADJACENT


class _Extreme(NamedTuple):
    """Functions of an extreme: the row of its function of elements, and the block program of two elements."""

    row: str
    of_two: Any


_EXTREMES = {
    "smallest": _Extreme("minimum", smallest),
    "largest": _Extreme("maximum", largest),
}
_WORDS = {"b": np.dtype(np.int32), "i": np.dtype(np.int32), "u": np.dtype(np.uint32), "f": np.dtype(np.float32)}
"""The 32-bit dtypes that hold those of at most 32 bits, by their kinds."""
_WIDER = {"float16": np.dtype(np.float32)}
"""The dtypes in which elements of others are compared. CPUs convert each operand of an operation on float16."""
_LONG = 1 << 13
"""Elements of a line from which chunks are searched.

On lavapipe, argmin of 8,192 float32 takes 0.17 ms of CPU time with chunks and 0.32 by ranks; of 4,096, 0.18 and 0.15.
"""
_SHORTEST_CHUNK, _LOADS = 2048, 4
"""Elements of a chunk, and blocks that a program loads at a time."""
_ALIGNED_BYTES = 256
"""A part of an array begins at a multiple of so many bytes, where any device can bind it."""


def first_index(extreme: str, array: Array, axis: int, keepdims: bool) -> Array:
    """Returns the index of the first extreme, or NaN, along an axis, as an integer.

    Elements in memory are read once if lines are long, or numbers have at most 32 bits. So are such numbers of an
    expression: their ranks are reduced, with their indices behind.

    Args:
        extreme: a key of _EXTREMES.
    """
    if _is_searched(array, axis):
        index = _by_chunks(extreme, array) if _fits(array) else _by_parts(extreme, array)
        return index.reshape((*array.shape[:-1], 1)) if keepdims else index
    if default_int(array.runtime).itemsize == 8 and array.dtype.itemsize <= 4:
        indices = iota_along(array, axis, array.shape[axis])
        array = astype(array, _WORDS[array.dtype.kind])
        keys = lazy.make(f"first {extreme}", "", (array, indices), array.shape, np.dtype(np.uint64), array.runtime)
        return apply("bitwise_and", reduce("minimum", keys, (axis,), keys.dtype, keepdims), np.uint64(2**32 - 1))
    array = astype(array, np.int32) if array.dtype == BOOL else array
    return first_true(hits(_EXTREMES[extreme].row, array, axis), axis, keepdims)


def _is_searched(array: Array, axis: int) -> bool:
    """True if the lines of an array along an axis are to be searched in chunks.

    Without shuffles, an invocation reduces a block alone, and drivers compile the code of each of its elements.
    """
    n, runtime = array.shape[axis], runtime_of(array)
    if axis < array.ndim - 1 or n < _LONG or array.dtype.kind not in "iuf":
        return False
    if array.is_pending or not array.contiguous or computes_by_words(runtime, [array.dtype]):
        return False
    if is_unaligned(array):  # parts would not be aligned, either
        return False
    if block_target(runtime).subgroup_size == 1:
        return False
    return array.size // n <= MOST_GROUPS and (array.ndim == 1 or _fits(array))


def _fits(array: Array) -> bool:
    """True if a program takes all of an array."""
    return not needs_strides(array) and array.size <= _most(array)


def _most(array: Array) -> int:
    """Returns the most elements that a program takes: of a binding, and of the chunks along an axis of a grid."""
    n_bytes = array.runtime.device.max_binding_bytes // _ALIGNED_BYTES * _ALIGNED_BYTES
    return min(n_bytes // array.dtype.itemsize, MOST_GROUPS * tuning_of(array.runtime.device.physical).searched_chunk)


def _by_chunks(extreme: str, array: Array) -> Array:
    """Returns the indices, int32, of an array that a program takes."""
    n, of_two, tuning = array.shape[-1], _EXTREMES[extreme].of_two, tuning_of(array.runtime.device.physical)
    n_rows, lanes = array.size // n, block_target(runtime_of(array)).subgroup_size
    length = min(max(1 << (n // tuning.busy_groups).bit_length(), _SHORTEST_CHUNK), tuning.searched_chunk)
    n_chunks, step = -(-n // length), n if n_rows > 1 else 0
    extremes = temporary(array.runtime, n_rows * n_chunks, _WIDER.get(array.dtype.name, array.dtype))
    out = temporary(array.runtime, array.shape[:-1], np.int32)
    aligned = step % ADJACENT == 0 and is_wide(array)
    extreme_of_chunks[n_chunks, n_rows](array, extremes, n, step, length, of_two, lanes, _LOADS, aligned)
    search_chunks[(n_rows,)](array, extremes, out, n, step, n_chunks, length, of_two, lanes)
    return out


def _by_parts(extreme: str, array: Array) -> Array:
    """Returns the index of a line that no program takes as a whole, whose parts are searched apart."""
    bounds = _bounds(array)
    at = temporary(array.runtime, len(bounds) - 1, np.int32)
    for part, (start, stop) in enumerate(pairwise(bounds)):
        index = first_index(extreme, array[start:stop], 0, True)
        assign(at[part : part + 1], apply("add", index, start), fresh=True)
    values = gather_elements(array, at)
    which = astype(first_index(extreme, values, 0, True), np.int32)
    return gather_elements(at, which).reshape(())


def _bounds(array: Array) -> Sequence[int]:
    """Returns the bounds of parts that programs take. Elements before an address that devices can bind are one, too."""
    before = -(array.buffer.offset + array.offset) % _ALIGNED_BYTES // array.dtype.itemsize
    most = _most(array)
    return [0, *range(before or most, array.size, most), array.size]
