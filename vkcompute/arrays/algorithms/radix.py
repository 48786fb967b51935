"""Stable sorting of rows by words of 32 bits, the lowest digit first.

A pass counts the digits of parts of rows, scans the counts in the order of digits and parts, and stores each part's
elements from these positions on. On a CPU invocations take parts, on a GPU workgroups. Short rows are merged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vkcompute.arrays.algorithms import radix_parts, radix_tiles
from vkcompute.arrays.algorithms.binding_limits import bytes_exceed_bindings
from vkcompute.arrays.algorithms.gather import gather_elements
from vkcompute.arrays.algorithms.lines import LOCAL_SIZE, Lines, add, iota, launch, part_length
from vkcompute.arrays.algorithms.merge_sort import LONGEST_MERGED, is_merged, sort_by_merging
from vkcompute.arrays.algorithms.radix_digits import DIGIT_BITS, N_DIGITS, Kernels
from vkcompute.arrays.algorithms.scans import cumulative
from vkcompute.arrays.algorithms.scatter import scatter
from vkcompute.arrays.algorithms.search import searchsorted
from vkcompute.arrays.algorithms.sort_keys import FORMS, HALF, UNSIGNED, Word, encoded, is_short, narrowed, widened
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.tuning import tuning_of

_SHORTEST_PART = 528
"""Elements of a part on a CPU: an invocation also stores the counts of all digits."""


class _Passes(NamedTuple):
    """The passes over rows of elements.

    Attributes:
        n_items: invocations, of which a workgroup has `local_size`.
        n_counts: digits of all parts.
        sizes: arguments of both kernels.
    """

    kernels: Kernels
    n_items: int
    local_size: int
    n_counts: int
    sizes: tuple[int, ...]

    def move(self, x: Array, out: Array, order: Array, new_order: Array, shift: int, word: Word, kind: int) -> None:
        """Sorts elements by a digit; `kind` as of `Kernels`."""
        counts, numbers = temporary(x.runtime, self.n_counts, np.int32), (*self.sizes, shift, word.form, word.flip)
        launch(self.kernels.count, self.n_items, x, counts, *numbers, local_size=self.local_size)
        offsets = cumulative(counts, "sum", 0, np.int32, include_initial=True)
        args = x, order, offsets, out, new_order, *numbers, kind
        launch(self.kernels.move, self.n_items, *args, local_size=self.local_size)


def _passes(runtime: Context, n_rows: int, n: int, width: int, *, has_order: bool) -> _Passes:
    """Returns the passes over elements of some words, and perhaps an index."""
    tuning = tuning_of(runtime.device.physical)
    if tuning.radix_own:
        length, local_size = tuning.radix_own * radix_tiles.INVOCATIONS, radix_tiles.INVOCATIONS
        n_parts = -(-n // length)
        kernels, n_items = radix_tiles.kernels(width, has_order, tuning.radix_own), n_rows * n_parts * local_size
        return _Passes(kernels, n_items, local_size, n_rows * n_parts * N_DIGITS, (n, n_parts))
    length = max(part_length(n_rows * n, tuning.radix_part), min(_SHORTEST_PART, tuning.radix_part))
    n_parts = -(-n // length)
    n_items = n_rows * n_parts
    sizes = n_items, n, n_parts, length
    return _Passes(radix_parts.kernels(width, has_order), n_items, LOCAL_SIZE, n_items * N_DIGITS, sizes)


def sort_rows(words: list[Word], n_rows: int, n: int) -> Array:
    """Returns the order of elements that sorts each row by these words, as indices of all elements, int32.

    Elements with equal words keep their order.

    Args:
        words: of n_rows * n elements, the lowest first.
    """
    if _is_large(words[0].keys):
        return _order_by_parts(words, n_rows, n)
    order: Array | None = None
    for word in words:
        if is_merged(n_rows, n, LONGEST_MERGED):
            keys = encoded(word).keys
            order = sort_by_merging(keys if order is None else gather_elements(keys, order), n_rows, n, order)
        else:
            order = _by_digits(word, n_rows, n, order)
    assert order is not None
    return order


def _is_large(x: Array) -> bool:
    """True if a stage of a sort of these keys, with orders and the counts of digits, takes too many bindings."""
    return bytes_exceed_bindings(x, *[x.nbytes] * 5)


def _order_by_parts(words: list[Word], n_rows: int, n: int) -> Array:
    """Sorts halves of the rows; of a single row its halves, word by word, and merges them."""
    order: Array | None = None
    for word in words:
        keys = encoded(word).keys if order is None else gather_elements(encoded(word).keys, order)
        if n_rows > 1:
            new_order, low = temporary(keys.runtime, keys.size, np.int32), n_rows // 2
            for start, stop in ((0, low * n), (low * n, keys.size)):
                part = Word(keys[start:stop], word.n_bits, first_bit=word.first_bit)
                add(sort_rows([part], (stop - start) // n, n), start, out=new_order[start:stop])
        else:
            new_order = _merged_order(keys, word)
        order = new_order if order is None else gather_elements(order, new_order)
    assert order is not None
    return order


def _merged_order(keys: Array, word: Word) -> Array:
    """Sorts the halves of keys, and merges them by the number of keys of the other half that precede each key."""
    parts, out = halves(keys.size), _like(keys.view(np.int32))
    words = [Word(keys[half], word.n_bits, first_bit=word.first_bit) for half in parts]
    order = [sort_rows([part], 1, part.keys.size) for part in words]
    low, high = (gather_elements(keys[half], part) for half, part in zip(parts, order, strict=True))
    for mine, others, part, side, start in (
        (low, high, order[0], "left", 0),
        (high, low, order[1], "right", parts[1].start),
    ):
        before = searchsorted(others, mine, side, dtype=np.dtype(np.int32))
        at = add(iota(keys.runtime, mine.size), before)
        scatter(out, at, Lines(1, keys.size, 1), add(part, start))
    return out


def _like(x: Array) -> Array:
    return temporary(x.runtime, x.size, x.dtype)


def sort_values(x: Array, n_rows: int, n: int, out: Array, *, descending: bool) -> bool:
    """Writes the elements of each row to `out`, sorted; False where sorting them by their order is as fast.

    Without the order, half the bytes move, and none are gathered at the end.
    """
    dtype, is_narrow = x.dtype, is_short(x.dtype)
    is_word = dtype.itemsize in (4, 8) and dtype.kind in "iuf"
    if not (is_word or is_narrow) or is_merged(n_rows, n, LONGEST_MERGED // 2) or _is_large(x):
        return False
    form, flip = FORMS.get(dtype.kind, UNSIGNED), int(descending)
    bits = widened(x) if is_narrow else x.reshape(-1).view(np.uint32)
    target = temporary(x.runtime, x.size, np.uint32) if is_narrow else out.reshape(-1).view(np.uint32)
    numbers = Word(bits, max(8 * dtype.itemsize, 32), form, flip)
    if is_narrow:
        numbers = numbers._replace(form=HALF if dtype.kind == "f" else form, first_bit=32 - 8 * dtype.itemsize)
    _sort_numbers(numbers, n_rows, n, target)
    if is_narrow:
        narrowed(target, out)
    return True


def _sort_numbers(numbers: Word, n_rows: int, n: int, target: Array) -> None:
    passes, bits = _passes(target.runtime, n_rows, n, target.size // (n_rows * n), has_order=False), numbers.keys
    for shift in range(numbers.first_bit, numbers.n_bits, DIGIT_BITS):
        is_last = shift + DIGIT_BITS >= numbers.n_bits
        moved = target if is_last else temporary(target.runtime, target.size, np.uint32)
        passes.move(bits, moved, moved, moved, shift, numbers, 0)
        bits = moved


def _by_digits(word: Word, n_rows: int, n: int, order: Array | None) -> Array:
    keys = word.keys if order is None else gather_elements(word.keys, order)
    runtime, passes = keys.runtime, _passes(keys.runtime, n_rows, n, 1, has_order=True)
    for shift in range(word.first_bit, word.n_bits, DIGIT_BITS):
        is_last = shift + DIGIT_BITS >= word.n_bits
        new_keys = keys if is_last else temporary(runtime, keys.size, np.uint32)
        new_order = temporary(runtime, keys.size, np.int32)
        old, kind = new_order if order is None else order, int(order is None) + 2 * is_last
        passes.move(keys, new_keys, old, new_order, shift, word, kind)
        keys, order = new_keys, new_order
    return iota(runtime, keys.size) if order is None else order
