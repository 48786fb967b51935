"""Partitions of rows around an element, without sorting.

The key of the element is selected (see `order_statistics.py`). Then one pass counts the smaller, the equal and the
greater keys of each part of a row, and another one stores them in this order. Each of the three keeps its order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.arrays.algorithms.binding_limits import bytes_exceed_bindings
from vkcompute.arrays.algorithms.lines import axis_of, contiguous, flat, launch, part_length
from vkcompute.arrays.algorithms.order_statistics import is_selected, selected_keys
from vkcompute.arrays.algorithms.scans import cumulative
from vkcompute.arrays.algorithms.sort_keys import Word, key_of, number_words
from vkcompute.arrays.algorithms.sorting import argsort, axis_last, axis_moved_back, sort, store_in_rows
from vkcompute.arrays.expressions.promotion import default_int
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array, empty_result
from vkcompute.runtime.tuning import tuning_of

_SIDES = 3


@kernel
def _count_sides(x: Any, pivots: Any, counts: Any, n_items: int, n: int, n_parts: int, length: int, form: int) -> None:
    """Counts the keys of each part below, at and above that of the row."""
    i = global_id(0)
    if i < n_items:
        row, part = i // n_parts, i % n_parts
        first, count, pivot, below, equal = row * n + part * length, min(length, n - part * length), pivots[row], 0, 0
        for k in range(count):
            key = key_of(x[first + k], form, 0)
            below += 1 if key < pivot else 0
            equal += 1 if key == pivot else 0
        base = row * _SIDES * n_parts + part
        counts[base], counts[base + n_parts] = below, equal
        counts[base + 2 * n_parts] = count - below - equal


@kernel
def _move_sides(
    x: Any, pivots: Any, offsets: Any, out: Any,
    n_items: int, n: int, n_parts: int, length: int, form: int, is_order: int,
) -> None:  # fmt: skip
    """Stores the bits or the indices of the elements of each part at their targets."""
    i = global_id(0)
    if i < n_items:
        row, part = i // n_parts, i % n_parts
        first, base, pivot = row * n + part * length, row * _SIDES * n_parts + part, pivots[row]
        below, equal, above = offsets[base], offsets[base + n_parts], offsets[base + 2 * n_parts]
        for k in range(min(length, n - part * length)):
            bits = x[first + k]
            key = key_of(bits, form, 0)
            target = below if key < pivot else equal if key == pivot else above
            out[target] = np.uint32(first + k) if is_order == 1 else bits
            below += 1 if key < pivot else 0
            equal += 1 if key == pivot else 0
            above += 1 if key > pivot else 0


def _store_sides(word: Word, pivots: Array, n: int, out: Array, *, is_order: bool) -> None:
    """Stores rows of n elements, or their indices, as uint32: the smaller ones, the equal ones, the greater ones."""
    x, (length, n_parts) = word.keys, _parts(word.keys, n)
    n_items = x.size // n * n_parts
    counts = temporary(x.runtime, n_items * _SIDES, np.int32)
    launch(_count_sides, n_items, x, pivots, counts, n_items, n, n_parts, length, word.form)
    offsets = cumulative(counts, "sum", 0, np.int32, include_initial=True)
    launch(_move_sides, n_items, x, pivots, offsets, out, n_items, n, n_parts, length, word.form, int(is_order))


def _parts(x: Array, n: int) -> tuple[int, int]:
    """Returns the length of the parts of rows of n elements, and how many a row has."""
    length = part_length(x.size, tuning_of(x.runtime.device.physical).selection_part)
    return length, -(-n // length)


def _is_divided(rows: Array) -> bool:
    """True if rows are divided around an element; False if they are sorted, as where a launch does not reach them."""
    if not is_selected(rows, 1):
        return False
    n_rows = rows.size // rows.shape[-1]
    n_offsets = n_rows * _parts(rows, rows.shape[-1])[1] * _SIDES + 1
    return not bytes_exceed_bindings(rows, rows.nbytes, 4 * n_rows, 4 * n_offsets, rows.nbytes)


def partition(x: Array, ranks: list[int], axis: int | None) -> Array:
    """Returns a copy in which the elements at some ranks along an axis are those of a sort, and divide the others.

    Without an axis, the array is flattened.

    Raises:
        TypeError, ValueError: as `axis_of`.
    """
    x, axis = _along("partition", x, axis)
    rows = axis_last(x, axis)
    if len(ranks) != 1 or not _is_divided(rows):
        return sort(x, axis)
    out = empty_result(x.runtime, rows.shape, x.dtype)
    _store_divided(rows, ranks[0], out.reshape(-1).view(np.uint32), is_order=False)
    return axis_moved_back(out, axis)


def argpartition(x: Array, ranks: list[int], axis: int | None) -> Array:
    """Returns the indices of the elements of `partition`."""
    x, axis = _along("argpartition", x, axis)
    rows = axis_last(x, axis)
    if len(ranks) != 1 or not _is_divided(rows):
        return argsort(x, axis)
    order = temporary(x.runtime, rows.shape, np.uint32)
    _store_divided(rows, ranks[0], order.reshape(-1), is_order=True)
    out = empty_result(x.runtime, rows.shape, default_int(x.runtime))
    store_in_rows(order.view(np.int32), rows.shape[-1], out)
    return axis_moved_back(out, axis)


def _along(name: str, x: Array, axis: int | None) -> tuple[Array, int]:
    """Returns an array and its axis, counted from 0; a flattened array without one."""
    return (flat(x), 0) if axis is None else (x, axis_of(name, x.ndim, axis))


def _store_divided(rows: Array, rank: int, out: Array, *, is_order: bool) -> None:
    """Stores the elements of rows, or their indices, as uint32, divided by the one of a rank."""
    (word,), n = number_words(contiguous(rows)), rows.shape[-1]
    _store_sides(word, selected_keys(word, n, rank).keys, n, out, is_order=is_order)
