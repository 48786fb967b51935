"""Equal rows of keys, by a hash table of row numbers or by sorting.

A slot of the table is claimed by a compare-exchange of 32 bits, and then keeps the least of the rows with its key. So
the result does not depend on the order in which invocations run. A row that has no slot after some probes ends the
attempt, and a larger table takes its place. Keys that collide on purpose are sorted in the end, and so are those whose
table a launch does not reach: sorts take parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from vkcompute.arrays.algorithms.binding_limits import bytes_exceed_bindings, exceeds_bindings
from vkcompute.arrays.algorithms.gather import gather_elements
from vkcompute.arrays.algorithms.lines import Lines, copy_into, iota, launch
from vkcompute.arrays.algorithms.radix import sort_rows
from vkcompute.arrays.algorithms.scans import cumulative
from vkcompute.arrays.algorithms.scatter import scatter
from vkcompute.arrays.algorithms.sort_keys import Word, encoded, number_words
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library import atomic
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.tuning import tuning_of

_EMPTY = 2**31 - 1
"""A slot without a row; greater than all rows."""
_FEWEST_SLOTS, _GROWTH = 1 << 16, 16
"""Slots of the first table, which fits a cache, and the factor to the next one. A failed one costs little."""
_MOST_PROBES, _MOST_SEEDS = 128, 2
"""Probes of a row, and hash functions that are tried with the largest table: it has two slots per row."""

_start = Elementwise("at if differs or key != before else 0", "differs, key, before, at")
_known_row = Elementwise("row if row < n_known else -1", "row, n_known")


class Keys(NamedTuple):
    """The keys of rows, whose words are equal if the rows are.

    Attributes:
        words: the words of all rows, one word after the other, uint32.
        n: number of rows.
        columns: the same, for sorting.
    """

    words: Array
    n: int
    columns: list[Word]


def keys_of(columns: Sequence[Array]) -> Keys:
    """Makes keys of columns with one element per row, of which there is at least one. All NaN are equal, and all 0."""
    given = [word for column in columns for word in number_words(column)]
    n, runtime = columns[0].size, columns[0].runtime
    if len(given) == 1:
        word = encoded(given[0])
        return Keys(word.keys, n, [word])
    words, result = temporary(runtime, n * len(given), np.uint32), []
    for at, word in enumerate(given):
        keys = words[at * n : (at + 1) * n]
        copy_into(encoded(word).keys, keys)
        result.append(Word(keys, word.n_bits, first_bit=word.first_bit))
    return Keys(words, n, result)


def _hash(words: Any, row: Any, n: int, n_words: int, seed: int) -> Any:
    """Returns 32 bits, all of which depend on all bits of a row (A. Appleby, MurmurHash3, 2011)."""
    result = np.uint32(seed)
    for k in range(n_words):
        word = words[k * n + row] * np.uint32(0xCC9E2D51)
        word = (word << np.uint32(15) | word >> np.uint32(17)) * np.uint32(0x1B873593)
        result = result ^ word
        result = (result << np.uint32(13) | result >> np.uint32(19)) * np.uint32(5) + np.uint32(0xE6546B64)
    result = (result ^ result >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    result = (result ^ result >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return result ^ result >> np.uint32(16)


def _equal(words: Any, row: Any, other: Any, n: int, n_words: int) -> Any:
    """Returns 1 if the words of two rows are equal, else 0."""
    result = 1
    for k in range(n_words):
        if words[k * n + row] != words[k * n + other]:
            result = 0
    return result


@kernel
def _insert(
    words: Any, table: Any, slots: Any, n_items: int, n: int, n_words: int, n_slots: int, seed: int, most: int
) -> None:
    """Stores each row's slot; sets the element behind the table if a row has none after so many probes."""
    row = global_id(0)
    if row < n_items and table[n_slots] == _EMPTY:
        slot = np.int32(_hash(words, row, n, n_words, seed) & np.uint32(n_slots - 1))
        n_left, is_open = most, 1
        while is_open == 1:
            other = table[slot]
            if other == _EMPTY:
                other = atomic.compare_exchange(table, slot, _EMPTY, row)
            is_mine = 1
            if other != _EMPTY:
                is_mine = _equal(words, row, other, n, n_words)
            if is_mine == 1:
                if other != _EMPTY and row < other:
                    atomic.min(table, slot, row)
                slots[row], is_open = slot, 0
            elif n_left == 0:
                table[n_slots], is_open = 0, 0
            else:
                slot, n_left = (slot + 1) & (n_slots - 1), n_left - 1


@kernel
def _look_up(
    words: Any, table: Any, out: Any, n_items: int, first: int, n: int, n_words: int, n_slots: int, seed: int, most: int
) -> None:
    """Stores the row of the table that is equal to each row from the first on; -1 if there is none."""
    i = global_id(0)
    if i < n_items:
        row = first + i
        slot = np.int32(_hash(words, row, n, n_words, seed) & np.uint32(n_slots - 1))
        n_left, result = most, -2
        while result == -2:
            other = table[slot]
            if other == _EMPTY:
                result = -1
            elif _equal(words, row, other, n, n_words) == 1:
                result = other
            elif n_left == 0:
                result = -1
            else:
                slot, n_left = (slot + 1) & (n_slots - 1), n_left - 1
        out[row] = result


@kernel
def _mark_starts(words: Any, order: Any, starts: Any, n_items: int, n: int, n_words: int) -> None:
    """Stores the index of each element of the order that is the first of equal rows, and 0 of the others."""
    i = global_id(0)
    if i < n_items:
        starts[i] = 0 if _equal(words, order[i], order[max(i - 1, 0)], n, n_words) == 1 else i


@kernel
def _store_least(order: Any, starts: Any, out: Any, n_items: int, n_known: int) -> None:
    i = global_id(0)
    if i < n_items:
        least = order[starts[i]]
        out[order[i]] = least if least < n_known else -1


def least_equal_rows(keys: Keys, n_known: int, *, grows: bool = True) -> Array:
    """Returns for each row the least of the first `n_known` rows that is equal to it; -1 if there is none.

    It waits for the table.

    Args:
        grows: False to sort where the first table is too small.
    """
    if not keys.n or not n_known:
        return temporary(keys.words.runtime, keys.n, np.int32).fill(-1)
    rows_per_key = tuning_of(keys.words.runtime.device.physical).hashed_rows[len(keys.columns) > 1]
    full = 1 << (2 * n_known - 1).bit_length()
    n_slots = min(_FEWEST_SLOTS, full)
    while n_slots < full:
        if (result := _by_table(keys, n_known, n_slots, 0)) is not None:
            return result
        if not grows or n_slots // 2 * rows_per_key > n_known:  # so many keys are there at least
            return _by_sorting(keys, n_known)
        n_slots = min(n_slots * _GROWTH, full)
    for seed in range(_MOST_SEEDS):
        if (result := _by_table(keys, n_known, full, seed)) is not None:
            return result
    return _by_sorting(keys, n_known)


def _by_table(keys: Keys, n_known: int, n_slots: int, seed: int) -> Array | None:
    """Returns the rows of `least_equal_rows`; None if keys have no slot, or a launch does not reach the table."""
    runtime, sizes = keys.words.runtime, (keys.n, len(keys.columns), n_slots, seed, _MOST_PROBES)
    if bytes_exceed_bindings(keys.words, keys.words.nbytes, 4 * (n_slots + 1), 4 * keys.n):
        return None
    table, slots = temporary(runtime, n_slots + 1, np.int32).fill(_EMPTY), temporary(runtime, n_known, np.int32)
    launch(_insert, n_known, keys.words, table, slots, n_known, *sizes)
    if int(table[-1]) != _EMPTY:
        return None
    out = temporary(runtime, keys.n, np.int32)
    gather_elements(table, slots, out[:n_known])
    launch(_look_up, keys.n - n_known, keys.words, table, out, keys.n - n_known, n_known, *sizes)
    return out


def _by_sorting(keys: Keys, n_known: int) -> Array:
    """Returns the rows of `least_equal_rows`; sorts are stable, so the first of equal rows is the least."""
    runtime, n = keys.words.runtime, keys.n
    order = sort_rows(keys.columns, 1, n)
    starts, out = (temporary(runtime, n, np.int32) for _ in range(2))
    if exceeds_bindings(keys.words, order, starts):
        _store_starts(keys, order, starts)
    else:
        launch(_mark_starts, n, keys.words, order, starts, n, n, len(keys.columns))
    first = cumulative(starts, "max", 0, np.int32)
    if exceeds_bindings(order, first, out):
        least = gather_elements(order, first)
        scatter(out, order, Lines(1, n, 1), _known_row(least, n_known))
    else:
        launch(_store_least, n, order, first, out, n, n_known)
    return out


def _store_starts(keys: Keys, order: Array, starts: Array) -> None:
    """Stores as `_mark_starts`, where a launch does not reach all words: sorts these, and compares neighbours."""
    starts.fill(0)
    at = iota(order.runtime, keys.n)[1:]
    for word in keys.columns:
        ordered = gather_elements(word.keys, order)
        _start(starts[1:], ordered[1:], ordered[:-1], at, out=starts[1:])
