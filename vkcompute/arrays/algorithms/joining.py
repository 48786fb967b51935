"""Joins: pairs of equal rows of two tables.

The right rows are sorted by the numbers of their groups. So the rows that are equal to a left one are adjacent, and the
number of its pairs is known before these are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from vkcompute.arrays.algorithms.binding_limits import exceeds_bindings
from vkcompute.arrays.algorithms.direct_tables import direct_table
from vkcompute.arrays.algorithms.equal_rows import keys_of, least_equal_rows
from vkcompute.arrays.algorithms.gather import gather_elements
from vkcompute.arrays.algorithms.grouping import numbered
from vkcompute.arrays.algorithms.lines import copy_into, flat, iota, launch, part_length
from vkcompute.arrays.algorithms.radix import sort_rows
from vkcompute.arrays.algorithms.scans import cumulative
from vkcompute.arrays.algorithms.segments import count_indices
from vkcompute.arrays.algorithms.selection import Selected, searchsorted_counts
from vkcompute.arrays.algorithms.sort_keys import Word
from vkcompute.arrays.expressions.promotion import promoted
from vkcompute.compiled.arguments import MOST_ELEMENTS
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.elementwise.reduction import reduce
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array, empty_result
from vkcompute.runtime.tuning import tuning_of

_is_known = Elementwise("row >= 0", "row")
_about = reduce("a + b", 0.0)
_match_of = Elementwise("first if number >= 0 else -1", "first, number")
_count_of = Elementwise("last - first if number >= 0 else 1", "last, first, number")
_offset = Elementwise("first - (end - count)", "first, end, count")
_index_of = Elementwise("pair + offset", "pair, offset")


def isin(columns: Sequence[Array], others: Sequence[Array]) -> Array:
    """Returns True for each row that is equal to one of other rows."""
    rows, n_others = _least_of_both(columns, others)
    out = empty_result(rows.runtime, rows.size - n_others, np.bool_)
    return _is_known(rows[n_others:], out=out) if out.size else out


def _least_of_both(columns: Sequence[Array], known: Sequence[Array]) -> tuple[Array, int]:
    """Returns `least_equal_rows` of known rows and, behind these, of others; and the number of known rows."""
    both = []
    for column, other in zip(columns, known, strict=True):
        joined = temporary(
            column.runtime, column.size + other.size, promoted(column.runtime, column.dtype, other.dtype)
        )
        copy_into(flat(other), joined[: other.size])
        copy_into(flat(column), joined[other.size :])
        both.append(joined)
    n = known[0].size
    table = direct_table(both[0], n) if len(both) == 1 else None
    return table.least_equal_rows(both[0]) if table else least_equal_rows(keys_of(both), n), n


class Pairs(NamedTuple):
    """Pairs of equal rows, ordered by the left rows, and then by the right ones. Both are int32.

    Attributes:
        left, right: rows; the right one is -1 where a left row has no equal one.
    """

    left: Array
    right: Array


@kernel
def _store_pairs(
    ends: Any, lefts: Any, firsts: Any, order: Any, left: Any, right: Any,
    n_items: int, n: int, n_lefts: int, n_steps: int, length: int,
) -> None:  # fmt: skip
    """Stores adjacent pairs: a search tells where the first one is.

    Args:
        ends: of the pairs of each left row, which has at least one.
        lefts: the left rows.
        firsts: of the equal right rows, in `order`; -1 if there are none.
    """
    i = global_id(0)
    if i < n_items:
        pair = i * length
        low, high = 0, n_lefts
        for _ in range(n_steps):
            if low < high:
                middle = (low + high) // 2
                low, high = (middle + 1, high) if ends[middle] <= pair else (low, middle)
        at = low
        start = ends[max(at - 1, 0)] if at > 0 else 0
        for _ in range(min(length, n - pair)):
            if pair >= ends[at]:
                start = ends[at]
                at += 1
            first = firsts[at]
            left[pair] = lefts[at]
            right[pair] = order[max(first, 0) + pair - start] if first >= 0 else -1
            pair += 1


@kernel
def _match(numbers: Any, lefts: Any, starts: Any, firsts: Any, counts: Any, n_items: int) -> None:
    """Stores the first index of the right rows that are equal to left ones, and their number: 1 if there are none."""
    i = global_id(0)
    if i < n_items:
        number = numbers[lefts[i]]
        first, last = starts[max(number, 0)], starts[max(number, 0) + 1]
        firsts[i], counts[i] = (first, last - first) if number >= 0 else (-1, 1)


def join(left: Sequence[Array], right: Sequence[Array], *, keeps_left: bool) -> Pairs:
    """Returns the pairs of rows of two tables that are equal in all columns; it waits for their number.

    Args:
        keeps_left: True to pair left rows without an equal right one with -1.

    Raises:
        ValueError: there are more pairs than elements of an array.
    """
    rows, n_right = _least_of_both(left, right)
    numbers, firsts = numbered(rows, rows[:n_right])
    of_right, of_left = numbers[:n_right], numbers[n_right:]
    lefts = _all_rows(of_left) if keeps_left else Selected(_is_known(of_left)).indices()
    if not n_right or not lefts.size:
        return Pairs(lefts, empty_result(rows.runtime, lefts.size, np.int32).fill(-1))
    order = sort_rows([Word(of_right.view(np.uint32), firsts.size.bit_length())], 1, n_right)
    starts = cumulative(count_indices(of_right, firsts.size), "sum", 0, np.int32, include_initial=True)
    matches, counts = (temporary(rows.runtime, lefts.size, np.int32) for _ in range(2))
    if exceeds_bindings(of_left, lefts, starts, matches, counts):
        _store_matches(of_left, lefts, starts, matches, counts)
    else:
        launch(_match, lefts.size, of_left, lefts, starts, matches, counts, lefts.size)
    return _pairs(lefts, matches, counts, order)


def _store_matches(of_left: Array, lefts: Array, starts: Array, matches: Array, counts: Array) -> None:
    """Stores as `_match`, by parts."""
    numbers = gather_elements(of_left, lefts)
    firsts, ends = gather_elements(starts, numbers), gather_elements(starts[1:], numbers)
    _match_of(firsts, numbers, out=matches)
    _count_of(ends, firsts, numbers, out=counts)


def _all_rows(rows: Array) -> Array:
    out = empty_result(rows.runtime, rows.size, np.int32)
    copy_into(iota(rows.runtime, rows.size), out)
    return out


def _pairs(lefts: Array, matches: Array, counts: Array, order: Array) -> Pairs:
    """Returns the pairs of left rows with the rows from these indices of an order on."""
    runtime = lefts.runtime
    about = float(_about(counts))
    if about > MOST_ELEMENTS * 0.999:
        limit = f"an array has at most {MOST_ELEMENTS:,} elements"
        raise ValueError(f"{limit}; the join has about {about:,.0f} pairs; join parts of the left rows")
    ends = cumulative(counts, "sum", 0, np.int32)
    n = int(ends[-1])
    left, right = (empty_result(runtime, n, np.int32) for _ in range(2))
    if exceeds_bindings(ends, lefts, matches, order, left, right):
        _store_pairs_by_parts(lefts, matches, counts, ends, order, left, right)
        return Pairs(left, right)
    length = part_length(n, tuning_of(runtime.device.physical).selection_part)
    sizes = -(-n // length), n, lefts.size, lefts.size.bit_length(), length
    launch(_store_pairs, sizes[0], ends, lefts, matches, order, left, right, *sizes)
    return Pairs(left, right)


def _store_pairs_by_parts(
    lefts: Array, matches: Array, counts: Array, ends: Array, order: Array, left: Array, right: Array
) -> None:
    """Stores as `_store_pairs`: gathers what the kernel reads, after a search for the left row of each pair."""
    at = searchsorted_counts(ends, left.size)
    gather_elements(lefts, at, left)
    index = gather_elements(_offset(matches, ends, counts), at)
    _index_of(iota(left.runtime, left.size), index, out=index)
    gather_elements(order, index, right)
    _match_of(right, gather_elements(matches, at), out=right)
