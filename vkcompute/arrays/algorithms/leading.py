"""The first k elements of each row in the order of a sort, without sorting the rest: for topk and partitions.

Few elements: an invocation holds the first of its part of a row in registers. Those of all parts are the candidates of
the next stage, until a row is one part. The row is read once, and each stage has a fraction of the candidates before.

Others: rows are divided into chunks. The first k elements are in the k chunks whose own first elements come first: an
element elsewhere has k elements before it. So the first elements of chunks are selected in the same way, and then those
of these chunks. Both are about sqrt(k * n) candidates for any input.
"""

from __future__ import annotations

from functools import cache
from math import isqrt
from typing import Any

import numpy as np

from vkcompute.arrays.algorithms.binding_limits import bytes_exceed_bindings
from vkcompute.arrays.algorithms.gather import gather_elements
from vkcompute.arrays.algorithms.lines import copy_into, launch, part_length
from vkcompute.arrays.algorithms.radix import sort_rows
from vkcompute.arrays.algorithms.sort_keys import Word, key_of
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.kernel import PythonKernel, kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.jit.library.private import local
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.tuning import tuning_of

MOST_HELD = 16
"""Elements that an invocation holds. On lavapipe, a row's element costs 1.3 ns of CPU time with 1, 3.8 with 8, 6.4 with
16; sorting costs 70."""
_PARTS = 16
"""The candidates of a stage are a fraction of its elements, at most this part."""
_FEWEST = 64
"""Length of rows up to which sorting takes fewer launches, and no more time."""
_SORTED = 16
"""Rows of up to so many times k elements are sorted rather than divided into chunks."""
_LAST_INDEX = 2**31 - 1
_MOST_ARRAYS = 6
"""Of a kernel, of which none is longer than the rows."""
_moved = Elementwise("x + n", "x, n")


@cache
def _first_held(size: int, is_wide: bool) -> PythonKernel:
    """Makes the kernel that finds the first elements of parts of rows."""

    @kernel
    def first_held(
        low: Any, high: Any, indices: Any, low_out: Any, high_out: Any, index_out: Any,
        n_items: int, n: int, n_parts: int, is_candidate: int, form: int, flip: int,
    ) -> None:  # fmt: skip
        """Stores the first `size` elements of each part, in order; a part has every n_parts-th element of a row.

        Missing ones have the last key and index.
        """
        i = global_id(0)
        if i < n_items:
            start, part = i // n_parts * n, i % n_parts
            lows, at = local(size, np.uint32), local(size, np.int32)
            highs = local(size if is_wide else 1, np.uint32)
            for m in range(size):
                lows[m], at[m] = ~np.uint32(0), np.int32(_LAST_INDEX)
                if is_wide:
                    highs[m] = ~np.uint32(0)
            for k in range(part, n, n_parts):
                key = key_of(low[start + k], form, flip)
                top = high[start + k] if is_wide else np.uint32(0)
                worst, worst_top = lows[size - 1], highs[size - 1] if is_wide else np.uint32(0)
                if top < worst_top or (top == worst_top and key <= worst):
                    index = indices[start + k] if is_candidate == 1 else k
                    for m in range(size):
                        other, other_at = lows[m], at[m]
                        other_top = highs[m] if is_wide else np.uint32(0)
                        is_equal = top == other_top and key == other
                        is_less = top < other_top or (top == other_top and key < other)
                        comes_first = is_less or (is_equal and index < other_at)
                        lows[m], key = (key, other) if comes_first else (other, key)
                        at[m], index = (index, other_at) if comes_first else (other_at, index)
                        if is_wide:
                            highs[m], top = (top, other_top) if comes_first else (other_top, top)
            for m in range(size):
                low_out[i * size + m], index_out[i * size + m] = lows[m], at[m]
                if is_wide:
                    high_out[i * size + m] = highs[m]

    return first_held


@kernel
def _chunk_keys(
    low: Any, high: Any, low_out: Any, high_out: Any,
    n_items: int, n: int, n_chunks: int, length: int, is_wide: int, form: int, flip: int,
) -> None:  # fmt: skip
    """Stores the first key of each chunk of each row."""
    i = global_id(0)
    if i < n_items:
        first = i % n_chunks * length
        start = i // n_chunks * n + first
        best, best_top = key_of(low[start], form, flip), high[start] if is_wide == 1 else np.uint32(0)
        for k in range(1, min(length, n - first)):
            key = key_of(low[start + k], form, flip)
            top = high[start + k] if is_wide == 1 else np.uint32(0)
            is_less = top < best_top or (top == best_top and key < best)
            best, best_top = (key, top) if is_less else (best, best_top)
        low_out[i] = best
        if is_wide == 1:
            high_out[i] = best_top


@kernel
def _candidates(
    low: Any, high: Any, chunks: Any, low_out: Any, high_out: Any, index_out: Any,
    n_items: int, n: int, k: int, length: int, is_wide: int, form: int, flip: int,
) -> None:  # fmt: skip
    """Stores the keys and indices of the elements of k chunks of each row; missing ones have the last key and index."""
    i = global_id(0)
    if i < n_items:
        line = i // length
        index, start = chunks[line] * length + i - line * length, line // k * n
        is_inside = index < n
        at = start + min(index, n - 1)
        index_out[i] = index if is_inside else np.int32(_LAST_INDEX)
        low_out[i] = key_of(low[at], form, flip) if is_inside else ~np.uint32(0)
        if is_wide == 1:
            high_out[i] = high[at] if is_inside else ~np.uint32(0)


@kernel
def _pick(indices: Any, order: Any, out: Any, n_items: int, n: int, n_order: int, k: int, is_candidate: int) -> None:
    """Stores the indices of the first k candidates of each row, of which `order` has n_order per row."""
    i = global_id(0)
    if i < n_items:
        row = i // k
        at = order[row * n_order + i - row * k]
        out[i] = indices[row * n + at] if is_candidate == 1 else at - row * n


def takes(words: list[Word], n: int, k: int) -> bool:
    """True if the first k of rows of n elements take less time than their order."""
    return len(words) <= 2 and n > _FEWEST and (k <= MOST_HELD or n > _SORTED * k)


def first_in_rows(words: list[Word], n_rows: int, n: int, k: int) -> Array:
    """Returns the indices in their row of the first k elements of each row, in order, int32.

    Elements with equal words keep their order.

    Args:
        words: of n_rows * n elements, made by `number_words`, the lowest first.
    """
    if bytes_exceed_bindings(words[0].keys, *[words[0].keys.nbytes] * _MOST_ARRAYS):
        return _row_by_parts(words, n, k) if n_rows == 1 else _rows_by_parts(words, n_rows, n, k)
    if not takes(words, n, k):
        order = sort_rows(words, n_rows, n)
        out = temporary(order.runtime, n_rows * k, np.int32)
        launch(_pick, out.size, order, order, out, out.size, n, n, k, 0)
        return out
    return _held(words, n_rows, n, k) if k <= MOST_HELD else _by_chunks(words, n_rows, n, k)


def _rows_by_parts(words: list[Word], n_rows: int, n: int, k: int) -> Array:
    out = temporary(words[0].keys.runtime, n_rows * k, np.int32)
    for half in halves(n_rows):
        some = [word._replace(keys=word.keys.reshape(n_rows, n)[half].reshape(-1)) for word in words]
        first = first_in_rows(some, half.stop - half.start, n, k)
        copy_into(first, out.reshape(n_rows, k)[half].reshape(-1))
    return out


def _row_by_parts(words: list[Word], n: int, k: int) -> Array:
    """Returns the first elements of a row from the first ones of its halves; it is sorted where these are no fewer."""
    if 2 * k >= n:
        return sort_rows(words, 1, n)[:k].copy()
    indices = temporary(words[0].keys.runtime, 2 * k, np.int32)
    for half, out in zip(halves(n), halves(2 * k), strict=True):
        some = [word._replace(keys=word.keys[half]) for word in words]
        _moved(first_in_rows(some, 1, half.stop - half.start, k), half.start, out=indices[out])
    candidates = [word._replace(keys=gather_elements(word.keys, indices)) for word in words]
    return gather_elements(indices, first_in_rows(candidates, 1, 2 * k, k))


def _held(words: list[Word], n_rows: int, n: int, k: int) -> Array:
    runtime = words[0].keys.runtime
    size, is_wide = 1 << (k - 1).bit_length(), len(words) == 2
    given, indices = [word.keys for word in words], words[0].keys  # of the first stage, which reads no indices
    form, flip = words[0].form, words[0].flip
    longest = tuning_of(runtime.device.physical).selection_part
    is_candidate = n_parts = 0
    while n_parts != 1:
        length = max(_PARTS * size, part_length(n_rows * n, longest))
        n_parts = -(-n // length)
        n_items = n_rows * n_parts
        keys = [temporary(runtime, n_items * size, np.uint32) for _ in given]
        new_indices = temporary(runtime, n_items * size, np.int32)
        args = given[0], given[-1], indices, keys[0], keys[-1], new_indices
        launch(_first_held(size, is_wide), n_items, *args, n_items, n, n_parts, is_candidate, form, flip)
        given, indices, n, is_candidate, form, flip = keys, new_indices, n_parts * size, 1, 0, 0
    return indices.reshape(n_rows, size)[:, :k].copy().reshape(-1) if k < size else indices


def _by_chunks(words: list[Word], n_rows: int, n: int, k: int) -> Array:
    runtime, keys, is_wide = words[0].keys.runtime, [word.keys for word in words], int(len(words) == 2)
    length = max(1 << (isqrt(n // k).bit_length() - 1), 2)
    n_chunks, n_candidates = -(-n // length), k * length

    def new_words(size: int) -> list[Word]:
        return [Word(temporary(runtime, size, np.uint32), word.n_bits) for word in words]

    best = new_words(n_rows * n_chunks)
    sizes = best[0].keys.size, n, n_chunks, length, is_wide, words[0].form, words[0].flip
    launch(_chunk_keys, sizes[0], keys[0], keys[-1], best[0].keys, best[-1].keys, *sizes)
    chunks = _ascending(first_in_rows(best, n_rows, n_chunks, k), n_rows, k, n_chunks)
    candidates = new_words(n_rows * n_candidates)
    indices = temporary(runtime, n_rows * n_candidates, np.int32)
    sizes = indices.size, n, k, length, is_wide, words[0].form, words[0].flip
    args = keys[0], keys[-1], chunks, candidates[0].keys, candidates[-1].keys, indices
    launch(_candidates, indices.size, *args, *sizes)
    order = first_in_rows(candidates, n_rows, n_candidates, k)
    out = temporary(runtime, n_rows * k, np.int32)
    launch(_pick, out.size, indices, order, out, out.size, n_candidates, k, k, 1)
    return out


def _ascending(indices: Array, n_rows: int, k: int, n: int) -> Array:
    """Returns the indices below n of each row in ascending order, so that candidates keep theirs."""
    order = sort_rows([Word(indices.view(np.uint32), n.bit_length())], n_rows, k)
    return gather_elements(indices, order)
