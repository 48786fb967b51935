"""Elements of rows by their ranks in the order of a sort, without sorting: for medians and quantiles.

The key of an element is selected digit by digit, the highest first. Each invocation counts the digits of its part of a
row, among the keys whose higher digits are those selected. The sums of the parts tell the next digit. So a row is read
once per digit, and nothing but counts is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from vkcompute.arrays.algorithms.axis_reductions import reduce
from vkcompute.arrays.algorithms.binding_limits import bytes_exceed_bindings
from vkcompute.arrays.algorithms.lines import contiguous, launch, part_length
from vkcompute.arrays.algorithms.sort_keys import FORMS, Word, key_of, number_words
from vkcompute.arrays.algorithms.sorting import sort
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.tuning import tuning_of

_FEWEST, _SHORTEST_ROW = 1 << 15, 1024
"""Elements, and of a row, from which selecting takes less time than sorting."""
_MOST_SELECTED = 2
"""Places up to which selecting takes less time, not counting those next to another."""
_PARTS = 4
"""Elements of which an invocation counts the digits, in parts of a radix sort."""


@kernel
def _count_digits(
    x: Any, prefixes: Any, counts: Any,
    n_items: int, n: int, n_parts: int, length: int, n_digits: int, shift: int, top: int, form: int,
) -> None:  # fmt: skip
    """Counts the digits of the keys of each part that have the row's prefix, of the bits from `top` on."""
    i = global_id(0)
    if i < n_items:
        row, part = i // n_parts, i % n_parts
        first, base = row * n + part * length, i * n_digits
        decided = np.uint32(0) if top == 32 else ~np.uint32(0) << np.uint32(top)
        for digit in range(n_digits):
            counts[base + digit] = 0
        prefix = prefixes[row]
        for k in range(min(length, n - part * length)):
            key = key_of(x[first + k], form, 0)
            if (key ^ prefix) & decided == np.uint32(0):
                counts[base + np.int32((key >> np.uint32(shift)) & np.uint32(n_digits - 1))] += 1


@kernel
def _choose_digit(
    totals: Any, prefixes: Any, ranks: Any, n_equal: Any, n_items: int, n_digits: int, shift: int
) -> None:
    """Appends to each row's prefix the digit of the element at a rank, and makes the rank one among equal digits."""
    i = global_id(0)
    if i < n_items:
        rank, before, total, digit, count = ranks[i], 0, 0, 0, totals[i * n_digits]
        for k in range(n_digits - 1):
            total += totals[i * n_digits + k]
            if total <= rank:
                digit, before, count = k + 1, total, totals[i * n_digits + k + 1]
        prefixes[i] = prefixes[i] | (np.uint32(digit) << np.uint32(shift))
        ranks[i], n_equal[i] = rank - before, count


@kernel
def _next_keys(x: Any, keys: Any, out: Any, n_items: int, n: int, n_parts: int, length: int, form: int) -> None:
    """Stores the least key of each part that is greater than the row's; the greatest of all if there is none."""
    i = global_id(0)
    if i < n_items:
        row, part = i // n_parts, i % n_parts
        first, limit, least = row * n + part * length, keys[row], ~np.uint32(0)
        for k in range(min(length, n - part * length)):
            key = key_of(x[first + k], form, 0)
            least = key if limit < key < least else least
        out[i] = least


def _number(key: Any, form: Any) -> Any:
    """Returns the bits of the number with a key."""
    sign = np.uint32(1 << 31)
    bits = key
    if form == FORMS["i"]:
        bits = key ^ sign
    elif form == FORMS["f"]:
        bits = key ^ sign if key >= sign else ~key
    return bits


_numbers = Elementwise(_number)
_either = Elementwise("key if rank + 1 < n_equal else next_key", "key, next_key, rank, n_equal")


def elements_at(x: Array, ranks: Iterable[int]) -> dict[int, Array]:
    """Returns the elements at some ranks of each row along the last axis, as if it were sorted; NaN is last.

    A zero may have either sign.
    """
    n, wanted = x.shape[-1], sorted(set(ranks))
    result = {}
    if wanted and wanted[-1] == n - 1 and x.size and x.dtype.kind in "iuf":
        result[wanted.pop()] = reduce("maximum", x, (x.ndim - 1,), x.dtype, False)
    pairs: list[list[int]] = []
    for rank in wanted:
        if pairs and pairs[-1] == [rank - 1]:
            pairs[-1].append(rank)
        else:
            pairs.append([rank])
    if pairs and not is_selected(x, len(pairs)):
        ordered = sort(x, -1)
        return result | {rank: ordered[..., rank] for rank in wanted}
    for pair in pairs:
        result |= dict(zip(pair, _selected(contiguous(x), pair[0], len(pair)), strict=True))
    return result


def is_selected(x: Array, n_places: int) -> bool:
    """True if selecting elements at some ranks of rows along the last axis takes less time than sorting.

    False, too, where a launch does not reach all elements: sorts take parts.
    """
    is_word = x.dtype.itemsize == 4 and x.dtype.kind in "iuf"
    is_few = n_places <= _MOST_SELECTED and x.size >= _FEWEST and x.shape[-1] >= _SHORTEST_ROW
    return is_word and is_few and not _is_large(x)


def _is_large(x: Array) -> bool:
    """True if a launch of `selected_keys` takes too many bindings."""
    n_digits, n = 1 << tuning_of(x.runtime.device.physical).digit_bits, x.shape[-1]
    row_bytes, n_parts = 4 * (x.size // n), _parts(x, n)[1]
    return bytes_exceed_bindings(x, x.nbytes, row_bytes, row_bytes * n_parts * n_digits) or bytes_exceed_bindings(
        x, row_bytes * n_digits, *[row_bytes] * 3
    )


def _parts(x: Array, n: int) -> tuple[int, int]:
    """Returns the length of the parts of rows of n elements, and how many a row has."""
    length = part_length(x.size, _PARTS * tuning_of(x.runtime.device.physical).radix_part)
    return length, -(-n // length)


class Selection(NamedTuple):
    """Elements of rows at a rank, as if these were sorted.

    Attributes:
        keys: of the elements, uint32.
        ranks: of the elements among those with equal keys.
        n_equal: numbers of these.
        length, n_parts: of parts of a row.
    """

    keys: Array
    ranks: Array
    n_equal: Array
    length: int
    n_parts: int


def selected_keys(word: Word, n: int, rank: int) -> Selection:
    """Selects the key at a rank of each row of n numbers of 32 bits."""
    runtime, n_rows = word.keys.runtime, word.keys.size // n
    digit_bits, (length, n_parts) = tuning_of(runtime.device.physical).digit_bits, _parts(word.keys, n)
    n_items, n_digits = n_rows * n_parts, 1 << digit_bits
    keys = temporary(runtime, n_rows, np.uint32).fill(0)
    ranks, n_equal = temporary(runtime, n_rows, np.int32).fill(rank), temporary(runtime, n_rows, np.int32)
    for shift in range(32 - digit_bits, -1, -digit_bits):
        counts = temporary(runtime, n_items * n_digits, np.int32)
        sizes = n_items, n, n_parts, length, n_digits, shift, shift + digit_bits, word.form
        launch(_count_digits, n_items, word.keys, keys, counts, *sizes)
        totals = reduce("add", counts.reshape((n_rows, n_parts, n_digits)), (1,), counts.dtype, False).reshape(-1)
        launch(_choose_digit, n_rows, totals, keys, ranks, n_equal, n_rows, n_digits, shift)
    return Selection(keys, ranks, n_equal, length, n_parts)


def _selected(x: Array, rank: int, count: int) -> list[Array]:
    """Returns the elements at one rank, or two, of rows of numbers of 32 bits."""
    n, (word,) = x.shape[-1], number_words(x)
    keys, ranks, n_equal, length, n_parts = selected_keys(word, n, rank)
    selected = [keys]
    if count == 2:
        n_items = x.size // n * n_parts
        least = temporary(x.runtime, n_items, np.uint32)
        launch(_next_keys, n_items, word.keys, keys, least, n_items, n, n_parts, length, word.form)
        next_keys = reduce("minimum", least.reshape((-1, n_parts)), (1,), least.dtype, False)
        selected.append(_either(keys, next_keys, ranks, n_equal))
    return [_numbers(key, word.form).view(x.dtype).reshape(x.shape[:-1]) for key in selected]
