"""Stable sorting of rows by words of 32 bits, the lowest digit first.

An invocation takes a part of a row in order. It counts the digits of its part, the counts are scanned in the order of
digits and parts, and it stores its elements from these positions on (D. E. Knuth, The Art of Computer Programming 3,
5.2.5). Short rows take fewer launches: blocks are sorted by counting the elements that precede each one, and merged.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vkcompute.arrays.algorithms.gather import gather
from vkcompute.arrays.algorithms.lines import Lines, converted, count_up, flat, launch, part_length
from vkcompute.arrays.algorithms.matrix_product import MOST_GROUPS
from vkcompute.arrays.algorithms.programs.parts import sort as sort_block
from vkcompute.arrays.algorithms.scans import cumulative
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.graph import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.tuning import tuning_of
from vkcompute.tile.launch_arrays import is_too_large, rounded

BLOCK = 64
"""Elements that are sorted by ranks."""
_LONGEST_MERGED, _MOST_MERGED = 1024, 1 << 14
"""Length of rows, and number of all elements, up to which blocks are merged."""
_SIGN, _INFINITY = 0x80000000, 0x7F800000
_INFINITY_HIGH = 0x7FF00000
_UNSIGNED, _SIGNED, _FLOAT = 0, 1, 2
FORMS = {"i": _SIGNED, "f": _FLOAT}


class Word(NamedTuple):
    """One word of the keys of all elements.

    Attributes:
        keys: uint32, along one axis.
        n_bits: number of bits from the lowest on that differ.
        form, flip: arguments of `key_of`, if the keys are still the bits of numbers.
    """

    keys: Array
    n_bits: int
    form: int = _UNSIGNED
    flip: int = 0


def _flipped(key: Any, flip: Any) -> Any:
    return ~key if flip == 1 else key


def key_of(bits: Any, form: int, flip: int) -> Any:
    """Makes a key in the order of numbers of 32 bits; zeros are equal, and so are NaN, the largest."""
    key, sign = bits, np.uint32(_SIGN)
    if form == _SIGNED:
        key = key ^ sign
    elif form == _FLOAT:
        magnitude = key & np.uint32(_SIGN - 1)
        if magnitude > np.uint32(_INFINITY):
            key = ~np.uint32(0)
        elif key >= sign and magnitude > np.uint32(0):
            key = ~key
        else:
            key = magnitude | sign
    return _flipped(key, flip)


_encode = Elementwise(key_of)


@kernel
def _encode_wide(x: Any, low_keys: Any, high_keys: Any, n_items: int, form: int, flip: int) -> None:
    """Makes keys of numbers of 64 bits, given as words, as `key_of`."""
    i = global_id(0)
    if i < n_items:
        low, high, sign = x[2 * i], x[2 * i + 1], np.uint32(_SIGN)
        if form == _SIGNED:
            high = high ^ sign
        elif form == _FLOAT:
            magnitude, limit = high & np.uint32(_SIGN - 1), np.uint32(_INFINITY_HIGH)
            is_zero = (magnitude | low) == np.uint32(0)
            if magnitude > limit or (magnitude == limit and low > np.uint32(0)):
                low = high = ~np.uint32(0)
            elif high >= sign and not is_zero:
                low, high = ~low, ~high
            else:
                high = magnitude | sign
        low_keys[i] = _flipped(low, flip)
        high_keys[i] = _flipped(high, flip)


_nan_parts = Elementwise("np.uint32((2 if isnan(real) else 0) + (1 if isnan(imag) else 0))", "real, imag")


def words_of(x: Array, *, descending: bool = False) -> list[Word]:
    """Returns the words of keys that sort as the elements do; see `number_words`."""
    return [encoded(word) for word in number_words(x, descending=descending)]


def encoded(word: Word) -> Word:
    """Returns the word with its keys, if it has numbers."""
    if not (word.form or word.flip):
        return word
    keys = temporary(word.keys.runtime, word.keys.size, np.uint32)
    _encode(word.keys, word.form, word.flip, out=keys)
    return Word(keys, word.n_bits)


def number_words(x: Array, *, descending: bool = False) -> list[Word]:
    """Returns the words of keys that sort as the elements do, in row-major order, the lowest first.

    Keys of one word are still numbers, of which most algorithms make keys where they read them.

    The order is NumPy's: NaN is the largest number, zeros of both signs are equal. Complex numbers are ordered by their
    real parts, then by the imaginary ones; those with NaN in one part, in the real part and in both are last.
    """
    if x.dtype.kind == "c":
        real, imag = flat(x.real), flat(x.imag)
        kinds = _nan_parts(real, imag)
        return [word for part in (imag, real, kinds) for word in number_words(part, descending=descending)]
    n_bits = {"b": 1}.get(x.dtype.kind, 8 * x.dtype.itemsize)
    form = FORMS.get(x.dtype.kind, _UNSIGNED)
    if x.dtype.itemsize < 4:
        if form == _SIGNED:
            n_bits = 32
        x = converted(x, {_SIGNED: np.int32, _FLOAT: np.float32, _UNSIGNED: np.uint32}[form])
        n_bits = 32 if form == _FLOAT else n_bits
    given = flat(x).view(np.uint32)
    if x.dtype.itemsize == 4:
        return [Word(given, n_bits, form, int(descending))]
    keys = [temporary(x.runtime, x.size, np.uint32) for _ in range(2)]
    launch(_encode_wide, x.size, given, *keys, x.size, form, int(descending))
    return [Word(key, 32) for key in keys]


def _part(i: int, n: int, n_parts: int, length: int, n_digits: int) -> tuple[int, int, int]:
    """Returns the first element of a part, the place of its first digit's number, and how many elements it has."""
    row, part = i // n_parts, i % n_parts
    return row * n + part * length, row * n_digits * n_parts + part, min(length, n - part * length)


def _digit(key: Any, n_digits: int, shift: int) -> Any:
    return np.int32((key >> np.uint32(shift)) & np.uint32(n_digits - 1))


@kernel
def _count(
    x: Any, counts: Any,
    n_items: int, n: int, n_parts: int, length: int, n_digits: int, shift: int, form: int, flip: int,
) -> None:  # fmt: skip
    """Counts the digits of the keys of each part."""
    i = global_id(0)
    if i < n_items:
        first, base, count = _part(i, n, n_parts, length, n_digits)
        for k in range(count):
            at = base + _digit(key_of(x[first + k], form, flip), n_digits, shift) * n_parts
            counts[at] += 1


@kernel
def _distribute(
    keys: Any, order: Any, places: Any, new_keys: Any, new_order: Any,
    n_items: int, n: int, n_parts: int, length: int, n_digits: int, shift: int, form: int,
) -> None:  # fmt: skip
    """Stores the elements of each part at their places.

    Args:
        form: 1 if the order is not known yet, 2 if the keys are not needed any more, 3 for both.
    """
    i = global_id(0)
    if i < n_items:
        first, base, count = _part(i, n, n_parts, length, n_digits)
        for k in range(count):
            key = keys[first + k]
            at = base + _digit(key, n_digits, shift) * n_parts
            place = places[at]
            places[at] = place + 1
            new_order[place] = first + k if form & 1 == 1 else order[first + k]
            if form & 2 == 0:
                new_keys[place] = key


@kernel
def _move(
    x: Any, places: Any, out: Any,
    n_items: int, n: int, n_parts: int, length: int, n_digits: int, shift: int, form: int, flip: int,
) -> None:  # fmt: skip
    """Stores the numbers of each part at their places, as `_distribute`."""
    i = global_id(0)
    if i < n_items:
        first, base, count = _part(i, n, n_parts, length, n_digits)
        for k in range(count):
            bits = x[first + k]
            at = base + _digit(key_of(bits, form, flip), n_digits, shift) * n_parts
            place = places[at]
            places[at] = place + 1
            out[place] = bits


@kernel
def _rank(keys: Any, order: Any, new_keys: Any, new_order: Any, n_items: int, n: int, form: int) -> None:
    """Stores each element of a block after those that precede it; blocks of rows have BLOCK elements."""
    i = global_id(0)
    if i < n_items:
        mine, place_in_row = keys[i], i % n
        first = place_in_row // BLOCK * BLOCK
        start = i - place_in_row + first
        place = start
        for k in range(min(n - first, BLOCK)):
            other = keys[start + k]
            place += 1 if other < mine or (other == mine and start + k < i) else 0
        new_order[place] = i if form & 1 == 1 else order[i]
        if form & 2 == 0:
            new_keys[place] = mine


@kernel
def _merge(
    keys: Any, order: Any, new_keys: Any, new_order: Any,
    n_items: int, n: int, width: int, n_sections: int, length: int, n_steps: int, form: int,
) -> None:  # fmt: skip
    """Merges pairs of sorted blocks of `width` elements: an invocation stores `length` elements of the result.

    A binary search tells how many elements of each block precede them (O. Green, R. McColl, D. A. Bader, GPU Merge
    Path, 2012).

    Args:
        length: of a section, which divides 2 * width.
        n_steps: of the search.
        form: as of `_distribute`.
    """
    i = global_id(0)
    if i < n_items:
        row, first = i // n_sections * n, i % n_sections * length
        start = first // (2 * width) * 2 * width
        middle, end = min(start + width, n), min(start + 2 * width, n)
        left, right = row + start, row + middle
        n_left, n_right, n_before = middle - start, end - middle, first - start
        low, high = max(n_before - n_right, 0), min(n_before, n_left)
        for _ in range(n_steps):
            if low < high:
                at = (low + high) // 2
                if keys[left + at] <= keys[right + n_before - 1 - at]:
                    low = at + 1
                else:
                    high = at
        a, b = low, n_before - low
        key, other = keys[left + min(a, n_left - 1)], keys[right + min(b, n_right - 1)]
        for k in range(min(length, end - first)):
            is_left = b >= n_right or (a < n_left and key <= other)
            new_order[row + first + k] = order[left + a if is_left else right + b]
            if form & 2 == 0:
                new_keys[row + first + k] = key if is_left else other
            a, b = (a + 1, b) if is_left else (a, b + 1)
            following = keys[left + min(a, n_left - 1) if is_left else right + min(b, n_right - 1)]
            key, other = (following, other) if is_left else (key, following)


def sort_rows(words: list[Word], n_rows: int, n: int, order: Array | None = None) -> Array:
    """Returns the order of elements that sorts each row by these words, as indices of all elements, int32.

    Elements with equal words keep their order.

    Args:
        words: of n_rows * n elements, the lowest first.
        order: of the elements before, to sort by further words.
    """
    for word in map(encoded, words):
        keys = word.keys if order is None else _gathered(word.keys, order)
        sort = _merged if _is_merged(n_rows, n, _LONGEST_MERGED) else _by_digits
        order = sort(keys, word.n_bits, n_rows, n, order)
    assert order is not None
    return order


def _is_merged(n_rows: int, n: int, longest: int) -> bool:
    return n <= longest or n_rows * n <= _MOST_MERGED


def _gathered(keys: Array, order: Array) -> Array:
    return gather(keys, order, Lines(1, keys.size, 1), temporary(keys.runtime, order.size, np.uint32))


def _merged(keys: Array, n_bits: int, n_rows: int, n: int, order: Array | None) -> Array:
    """Sorts blocks, which are merged: fewer launches than by digits, and more work per element.

    Few elements are sorted by ranks: their kernel compiles in a tenth of the block program's time.
    """
    sorted_order, sorted_keys = (temporary(keys.runtime, keys.size, dtype) for dtype in (np.int32, np.uint32))
    is_large = keys.size > _MOST_MERGED
    if is_large and _sort_parts(keys, n_rows, n, BLOCK, sorted_order, None if n <= BLOCK else sorted_keys):
        sorted_order = (
            sorted_order
            if order is None
            else gather(order, sorted_order, Lines(1, keys.size, 1), temporary(keys.runtime, keys.size, np.int32))
        )
    else:
        form = int(order is None) + 2 * (n <= BLOCK)
        old = sorted_order if order is None else order
        launch(_rank, keys.size, keys, old, sorted_keys, sorted_order, keys.size, n, form)
    width = BLOCK
    longest = min(tuning_of(keys.runtime.device.physical).radix_part, 2 * BLOCK)
    length = 1 << part_length(keys.size, longest).bit_length() - 1
    n_sections = -(-n // length)
    while width < n:
        new_order, new_keys = (temporary(keys.runtime, keys.size, dtype) for dtype in (np.int32, np.uint32))
        form = 2 * (2 * width >= n)
        sizes = n_rows * n_sections, n, width, n_sections, length, width.bit_length(), form
        launch(_merge, sizes[0], sorted_keys, sorted_order, new_keys, new_order, *sizes)
        sorted_order, sorted_keys, width = new_order, new_keys, 2 * width
    return sorted_order


def sort_values(x: Array, n_rows: int, n: int, out: Array, *, descending: bool) -> bool:
    """Writes the elements of each row to `out`, sorted; False where sorting them by their order is as fast.

    Without the order, half the bytes move, and none are gathered at the end.
    """
    if x.dtype.itemsize != 4 or x.dtype.kind not in "iuf" or _is_merged(n_rows, n, _LONGEST_MERGED // 2):
        return False
    layout, digit_bits = _digits(x.runtime, n_rows, n)
    form = FORMS.get(x.dtype.kind, _UNSIGNED), int(descending)
    bits, sorted_bits = x.reshape(-1).view(np.uint32), out.reshape(-1).view(np.uint32)
    for shift in range(0, 32, digit_bits):
        places = _places(bits, layout, shift, *form)
        target = sorted_bits if shift + digit_bits >= 32 else temporary(x.runtime, x.size, np.uint32)
        launch(_move, layout.n_items, bits, places, target, *layout, shift, *form)
        bits = target
    return True


class _Layout(NamedTuple):
    """The parts of rows, for the kernels.

    Attributes:
        n_items: the number of parts, one per invocation.
        n, n_parts: of each row, elements and parts.
        length: elements of a part.
        n_digits: values of a digit.
    """

    n_items: int
    n: int
    n_parts: int
    length: int
    n_digits: int


def _digits(runtime: Context, n_rows: int, n: int) -> tuple[_Layout, int]:
    """Returns the parts of rows, and the bits of a digit."""
    tuning = tuning_of(runtime.device.physical)
    length, digit_bits = part_length(n_rows * n, tuning.radix_part), tuning.digit_bits
    n_parts = -(-n // length)
    return _Layout(n_rows * n_parts, n, n_parts, length, 1 << digit_bits), digit_bits


def _places(keys: Array, layout: _Layout, shift: int, form: int, flip: int) -> Array:
    """Returns the place of the first element of each part and digit."""
    counts = temporary(keys.runtime, layout.n_items * layout.n_digits, np.int32).fill(0)
    launch(_count, layout.n_items, keys, counts, *layout, shift, form, flip)
    return cumulative(counts, "sum", 0, np.int32, include_initial=True)


def _by_digits(keys: Array, n_bits: int, n_rows: int, n: int, order: Array | None) -> Array:
    runtime = keys.runtime
    layout, digit_bits = _digits(runtime, n_rows, n)
    for shift in range(0, n_bits, digit_bits):
        is_last = shift + digit_bits >= n_bits
        places = _places(keys, layout, shift, _UNSIGNED, 0)
        new_keys = keys if is_last else temporary(runtime, keys.size, np.uint32)
        new_order = temporary(runtime, keys.size, np.int32)
        form = int(order is None) + 2 * is_last
        old = new_order if order is None else order
        launch(_distribute, layout.n_items, keys, old, places, new_keys, new_order, *layout, shift, form)
        keys, order = new_keys, new_order
    return count_up(runtime, keys.size) if order is None else order


_KEYS, _MOST_KEYS = 256, 4096
"""Elements that a program sorts, in parts; and the most, where the grid is too small for all rows.

Sorting rows of 65 takes as long with 4096, but the kernel compiles in 4.2 s instead of 1.1 (lavapipe).
"""


def _sort_parts(keys: Array, n_rows: int, n: int, length: int, order: Array, sorted_keys: Array | None) -> bool:
    """Sorts each part of `length` keys of each row, stably, by a bitonic network; returns False if a program cannot.

    K. E. Batcher: Sorting networks and their applications. AFIPS 1968.

    Args:
        keys: uint32, of n_rows * n elements; the last part of a row may be shorter.
        length: a power of two.
        order: int32; gets the indices of the elements in order.
        sorted_keys: gets the keys in order, if given.
    """
    length = min(length, 1 << (n - 1).bit_length())
    rows = max(_KEYS // length, 1)
    while -(-n_rows // rows) > MOST_GROUPS and rows * length < _MOST_KEYS:
        rows *= 2
    grid = -(-n_rows // rows), -(-n // length), 1
    if length < 2 or max(grid) > MOST_GROUPS or is_too_large(keys, [rounded(n_rows, rows) * rounded(n, length)]):
        return False
    sort_block[grid](keys, order, sorted_keys, n_rows, n, rows, length, n % 4 == 0)
    return True
