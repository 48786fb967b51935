"""Sorting along an axis: sort, argsort, lexsort, topk, partition, and the family of unique.

All sorts are stable. In ascending order NaN is last, as in NumPy, and in descending order first. Indices of zeros of
both signs keep their order; sorted values have -0.0 before 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from vkcompute.arrays.algorithms.binding_limits import exceeds_bindings
from vkcompute.arrays.algorithms.direct_tables import DirectTable, direct_table
from vkcompute.arrays.algorithms.gather import gather_elements
from vkcompute.arrays.algorithms.leading import first_in_rows
from vkcompute.arrays.algorithms.lines import Lines, axis_of, contiguous, converted, copy_into, flat, iota, launch
from vkcompute.arrays.algorithms.radix import sort_rows, sort_values
from vkcompute.arrays.algorithms.scans import cumulative
from vkcompute.arrays.algorithms.scatter import scatter
from vkcompute.arrays.algorithms.segments import count_indices
from vkcompute.arrays.algorithms.selection import Selected
from vkcompute.arrays.algorithms.sort_keys import FLOAT, Word, key_of, number_words
from vkcompute.arrays.expressions.promotion import default_int, promoted
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array, empty_result

_in_row = Elementwise("at % n", "at, n")
_of_row = Elementwise("at + row * n", "at, row, n")
_either = Elementwise("a | b", "a, b")
_difference = Elementwise("a - b", "a, b")
_nan_of_both = Elementwise("other if isnan(other) else part", "part, other")


def axis_last(x: Array, axis: int) -> Array:
    """Returns the view with an axis moved to the end."""
    return x.transpose((*[at for at in range(x.ndim) if at != axis], axis))


def axis_moved_back(x: Array, axis: int) -> Array:
    """Returns the array with the last axis moved to this place, contiguous."""
    return contiguous(x.transpose((*range(axis), x.ndim - 1, *range(axis, x.ndim - 1))))


def _order(x: Array, *, descending: bool) -> Array:
    """Returns the order of each row along the last axis, as indices of all elements."""
    n = x.shape[-1]
    return sort_rows(number_words(x, descending=descending), x.size // n, n)


def store_in_rows(order: Array, n: int, out: Array) -> None:
    """Stores the indices in rows of n elements of some indices of all elements."""
    if out.size == out.shape[-1]:
        copy_into(order, out)
    else:
        _in_row(order, n, out=out)


def argsort(x: Array, axis: int = -1, *, descending: bool = False) -> Array:
    """Returns the indices that sort an array along an axis; equal elements keep their order, in either direction.

    Raises:
        TypeError, ValueError: as `axis_of`.
    """
    return _indices(x, axis, x.shape[axis_of("argsort", x.ndim, axis)], descending=descending)


def _indices(x: Array, axis: int, k: int, *, descending: bool) -> Array:
    """Returns the first k of the indices that sort an array along an axis."""
    axis = axis_of("argsort", x.ndim, axis)
    moved = axis_last(x, axis)
    if not x.size:
        return axis_moved_back(empty_result(x.runtime, (*moved.shape[:-1], k), default_int(x.runtime)), axis)
    order = _order(moved, descending=descending).reshape(moved.shape)[..., :k]
    out = empty_result(x.runtime, order.shape, default_int(x.runtime))
    if out.size:
        store_in_rows(order, moved.shape[-1], out)
    return axis_moved_back(out, axis)


def sort(x: Array, axis: int | None = -1, *, descending: bool = False) -> Array:
    """Returns a sorted copy along an axis; without an axis, of the flattened array.

    Raises:
        TypeError, ValueError: as `axis_of`.
    """
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_of("sort", x.ndim, axis)
    moved = contiguous(axis_last(x, axis))
    out = empty_result(x.runtime, moved.shape, x.dtype)
    n = moved.shape[-1]
    if x.size and not sort_values(moved, x.size // n, n, out, descending=descending):
        gather_elements(moved, _order(moved, descending=descending), out)
    return axis_moved_back(out, axis)


def sort_with_indices(x: Array, axis: int = -1, *, descending: bool = False) -> tuple[Array, Array]:
    """Returns the elements in order along an axis, and their indices; equal elements keep their order."""
    axis = axis_of("sort", x.ndim, axis)
    moved = contiguous(axis_last(x, axis))
    values = empty_result(x.runtime, moved.shape, x.dtype)
    indices = empty_result(x.runtime, moved.shape, default_int(x.runtime))
    if x.size:
        order = _order(moved, descending=descending)
        gather_elements(moved, order, values)
        store_in_rows(order.reshape(moved.shape), moved.shape[-1], indices)
    return axis_moved_back(values, axis), axis_moved_back(indices, axis)


def topk(x: Array, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Array, Array]:
    """Returns the k largest or smallest elements along an axis in order, and their indices; of equal ones the first.

    NaN counts as the largest number. The other elements are not sorted; see `leading.py`.

    Raises:
        ValueError: there are fewer than k elements along the axis.
    """
    axis = axis_of("topk", x.ndim, axis)
    n = x.shape[axis]
    if not 0 <= k <= n:
        raise ValueError(f"topk takes k from 0 to the length of the axis, {n}; got {k}; pass min(k, {n})")
    moved = contiguous(axis_last(x, axis))
    values = empty_result(x.runtime, (*moved.shape[:-1], k), x.dtype)
    indices = empty_result(x.runtime, values.shape, default_int(x.runtime))
    if values.size:
        n_rows = x.size // n
        at = first_in_rows(number_words(moved, descending=largest), n_rows, n, k).reshape((n_rows, k))
        copy_into(at, indices.reshape((n_rows, k)))
        order = _of_row(at, iota(x.runtime, n_rows).reshape((n_rows, 1)), n)
        gather_elements(moved, flat(order), values)
    return axis_moved_back(values, axis), axis_moved_back(indices, axis)


def lexsort(keys: Sequence[Array], axis: int = -1) -> Array:
    """Returns the indices that sort by several keys of one shape along an axis; the last key is the first criterion.

    Raises:
        ValueError: there are no keys, or their shapes differ.
    """
    if not keys or any(key.shape != keys[0].shape for key in keys):
        raise ValueError(f"lexsort takes keys of one shape; got {[key.shape for key in keys]}; broadcast them")
    axis = axis_of("lexsort", keys[0].ndim, axis)
    moved = [axis_last(key, axis) for key in keys]
    out = empty_result(keys[0].runtime, moved[0].shape, default_int(keys[0].runtime))
    if out.size:
        n = out.shape[-1]
        words: list[Word] = [word for key in moved for word in number_words(key)]
        order = sort_rows(words, out.size // n, n)
        store_in_rows(order.reshape(out.shape), n, out)
    return axis_moved_back(out, axis)


class Unique(NamedTuple):
    """The distinct elements in order, and for each its first index and its number; `inverse` rebuilds the array."""

    values: Array
    indices: Array
    inverse: Array
    counts: Array


_RUN = 8
"""Elements that an invocation compares with those before: each is loaded once."""


@kernel
def _mark_first(x: Any, marks: Any, n: int, equal_nan: int) -> None:
    """Marks the first of equal elements, which follow each other."""
    first = global_id(0) * _RUN
    if first < n:
        before = x[max(first - 1, 0)]
        for k in range(min(_RUN, n - first)):
            here = x[first + k]
            is_same = here == before or (equal_nan == 1 and here != here and before != before)
            marks[first + k] = 1 if first + k == 0 or not is_same else 0
            before = here


@kernel
def _mark_first_key(bits: Any, marks: Any, n: int, equal_nan: int) -> None:
    """Marks the first of equal float32 as `_mark_first`; by their keys, as some devices compare subnormals as zeros."""
    first = global_id(0) * _RUN
    if first < n:
        before = key_of(bits[max(first - 1, 0)], FLOAT, 0)
        for k in range(min(_RUN, n - first)):
            here = key_of(bits[first + k], FLOAT, 0)
            is_same = here == before and (equal_nan == 1 or here != ~np.uint32(0))
            marks[first + k] = 1 if first + k == 0 or not is_same else 0
            before = here


@kernel
def _number(order: Any, ranks: Any, inverse: Any, n_items: int) -> None:
    i = global_id(0)
    if i < n_items:
        inverse[order[i]] = ranks[i] - 1


@kernel
def _count_runs(starts: Any, counts: Any, n_items: int, n: int) -> None:
    i = global_id(0)
    if i < n_items:
        counts[i] = (starts[min(i + 1, n_items - 1)] if i + 1 < n_items else n) - starts[i]


def _firsts(ordered: Array, *, equal_nan: bool) -> Array:
    """Returns 1 for the first of equal elements, which follow each other, and 0 for the others."""
    n = ordered.size
    marks = temporary(ordered.runtime, n, np.int32)
    if ordered.dtype.kind == "c":
        others = temporary(ordered.runtime, n, np.int32)
        real, imag = flat(ordered.real), flat(ordered.imag)
        if equal_nan:  # NaN in one part is NaN in both
            real, imag = _nan_of_both(real, imag), _nan_of_both(imag, real)
        _store_firsts(real, marks, equal_nan=equal_nan)
        _store_firsts(imag, others, equal_nan=equal_nan)
        _either(marks, others, out=marks)
    else:
        _store_firsts(ordered, marks, equal_nan=equal_nan)
    return marks


def _store_firsts(ordered: Array, marks: Array, *, equal_nan: bool) -> None:
    if exceeds_bindings(ordered, marks):
        low, high = halves(marks.size)
        before = temporary(marks.runtime, marks.size - low.stop + 1, np.int32)  # with the last one of the first half
        _store_firsts(ordered[low], marks[low], equal_nan=equal_nan)
        _store_firsts(ordered[low.stop - 1 :], before, equal_nan=equal_nan)
        copy_into(before[1:], marks[high])
        return
    is_float32 = ordered.dtype == np.float32
    mark, given = (_mark_first_key, contiguous(ordered).view(np.uint32)) if is_float32 else (_mark_first, ordered)
    launch(mark, -(-marks.size // _RUN), given, marks, marks.size, int(equal_nan))


def distinct(x: Array, *, equal_nan: bool = True) -> Array:
    """Returns the distinct elements of the flattened array in ascending order; see `unique`."""
    if table := direct_table(flat(x), x.size):
        return _elements_at(flat(x), table.first_rows())
    ordered = sort(x, None)
    return Selected(_firsts(ordered, equal_nan=equal_nan)).elements(ordered)


def unique(x: Array, *, equal_nan: bool = True) -> Unique:
    """Returns the distinct elements of the flattened array in ascending order, as the standard's unique_all.

    It waits for their number.

    Args:
        equal_nan: True to count all NaN as one, as NumPy; False to count each on its own, as the standard.
    """
    n, dtype = x.size, default_int(x.runtime)
    if not n:
        shapes = (0,), (0,), x.shape, (0,)
        dtypes = x.dtype, dtype, dtype, dtype
        return Unique(
            *[empty_result(x.runtime, shape, of_dtype) for shape, of_dtype in zip(shapes, dtypes, strict=True)]
        )
    elements = flat(x)
    if table := direct_table(elements, n):
        return _unique_by_table(x, elements, table)
    order = sort_rows(number_words(elements), 1, n)
    ordered = gather_elements(elements, order)
    marks = _firsts(ordered, equal_nan=equal_nan)
    inverse = empty_result(x.runtime, x.shape, dtype)
    _store_numbers(order, cumulative(marks, "sum", 0, np.int32), inverse.reshape(-1))
    chosen = Selected(marks)
    starts = chosen.indices()
    indices, counts = [empty_result(x.runtime, chosen.count, dtype) for _ in range(2)]
    copy_into(chosen.elements(order), indices)
    _store_lengths(starts, counts, n)
    return Unique(chosen.elements(ordered), indices, inverse, counts)


def _store_numbers(order: Array, ranks: Array, inverse: Array) -> None:
    if exceeds_bindings(order, ranks, inverse):
        scatter(inverse, order, Lines(1, order.size, 1), converted(_difference(ranks, 1), inverse.dtype))
    else:
        launch(_number, order.size, order, ranks, inverse, order.size)


def _store_lengths(starts: Array, counts: Array, n: int) -> None:
    """Stores the lengths of runs that begin at these of n elements."""
    if exceeds_bindings(starts, counts):
        copy_into(starts[1:], counts[:-1])
        counts[-1:].fill(n)
        _difference(counts, converted(starts, counts.dtype), out=counts)
    else:
        launch(_count_runs, counts.size, starts, counts, counts.size, n)


def _elements_at(x: Array, rows: Array) -> Array:
    return gather_elements(x, rows, empty_result(x.runtime, rows.size, x.dtype))


def _unique_by_table(x: Array, elements: Array, table: DirectTable) -> Unique:
    firsts, dtype = table.first_rows(), default_int(x.runtime)
    inverse = table.numbers(firsts, dtype)
    counts = converted(count_indices(inverse, firsts.size), dtype)
    return Unique(_elements_at(elements, firsts), converted(firsts, dtype), inverse.reshape(x.shape), counts)


def ranks(x: Array, y: Array, *, equal_nan: bool = True) -> tuple[Array, Array]:
    """Returns the ranks of the elements of two arrays: their indices in the sorted distinct elements of both."""
    both = temporary(x.runtime, x.size + y.size, promoted(x.runtime, x.dtype, y.dtype))
    copy_into(flat(x), both[: x.size])
    copy_into(flat(y), both[x.size :])
    inverse = unique(both, equal_nan=equal_nan).inverse
    return inverse[: x.size].reshape(x.shape), inverse[x.size :].reshape(y.shape)
