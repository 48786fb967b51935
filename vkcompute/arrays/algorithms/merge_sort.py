"""Stable sorting of short rows by keys of 32 bits: blocks are sorted, and merged in pairs.

It takes fewer launches than a radix sort, and more work per element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.arrays.algorithms.gather import gather_elements
from vkcompute.arrays.algorithms.lines import launch, part_length
from vkcompute.arrays.algorithms.matrix_product import MOST_GROUPS
from vkcompute.arrays.algorithms.programs.parts import sort as sort_block
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.tuning import tuning_of
from vkcompute.tile.launch_arrays import is_too_large, rounded

BLOCK = 64
"""Elements that are sorted by ranks."""
LONGEST_MERGED, MOST_MERGED = 1024, 1 << 14
"""Length of rows, and number of all elements, up to which blocks are merged."""


def is_merged(n_rows: int, n: int, longest: int) -> bool:
    """True if rows of n elements, up to `longest`, are sorted by merging."""
    return n <= longest or n_rows * n <= MOST_MERGED


@kernel
def _rank(keys: Any, order: Any, new_keys: Any, new_order: Any, n_items: int, n: int, form: int) -> None:
    """Stores each element of a block after those that precede it; blocks of rows have BLOCK elements."""
    i = global_id(0)
    if i < n_items:
        mine, place_in_row = keys[i], i % n
        first = place_in_row // BLOCK * BLOCK
        start = i - place_in_row + first
        target = start
        for k in range(min(n - first, BLOCK)):
            other = keys[start + k]
            target += 1 if other < mine or (other == mine and start + k < i) else 0
        new_order[target] = i if form & 1 == 1 else order[i]
        if form & 2 == 0:
            new_keys[target] = mine


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
        form: as of `radix_parts`.
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


def sort_by_merging(keys: Array, n_rows: int, n: int, order: Array | None) -> Array:
    """Returns the order of elements that sorts each row by these keys; `order` is that before.

    Few elements are sorted by ranks: their kernel compiles in a tenth of the block program's time.
    """
    sorted_order, sorted_keys = (temporary(keys.runtime, keys.size, dtype) for dtype in (np.int32, np.uint32))
    is_large = keys.size > MOST_MERGED
    if is_large and _sort_parts(keys, n_rows, n, BLOCK, sorted_order, None if n <= BLOCK else sorted_keys):
        sorted_order = sorted_order if order is None else gather_elements(order, sorted_order)
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
