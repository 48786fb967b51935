"""A pass of a radix sort by workgroups, for GPUs: each takes a tile of a row.

A workgroup counts the digits of its tile; the counts of all tiles are scanned in the order of digits and tiles. Then
each workgroup sorts its tile in workgroup memory, half a digit at a time. Elements with equal digits follow each other
then, and adjacent invocations store them (N. Satish, M. Harris, M. Garland: Designing Efficient Sorting Algorithms for
Manycore GPUs, 2009). A tile takes 11 KiB of workgroup memory and 128 invocations, which every device has, and no
subgroup operations.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from vkcompute.arrays.algorithms.radix_digits import DIGIT_BITS, N_DIGITS, Kernels, digit_of
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library import atomic
from vkcompute.jit.library.ids import group_id, local_id
from vkcompute.jit.library.private import local
from vkcompute.jit.library.workgroup import barrier, shared

INVOCATIONS = 128
"""Of a workgroup."""
_HALF_BITS = DIGIT_BITS // 2
_PAIRS = 8
"""Counters of half digits that an invocation has: of d in the lower 16 bits, of d + 8 in the upper ones."""
_STEPS = INVOCATIONS.bit_length() - 1
_BANKS = 32
_ROW = INVOCATIONS + INVOCATIONS // _BANKS


def _apart(i: int) -> int:
    """Returns an address in workgroup memory: adjacent words, and every 8th or 16th, are in different banks."""
    return i + i // _BANKS


def _half(word: Any, half: int) -> Any:
    """Returns half a digit of a word of a tile."""
    return np.int32((word >> np.uint32(16 + _HALF_BITS * half)) & np.uint32(15))


def _exclusive_sums(counters: Any, sums: Any) -> None:
    """Scans pairs of counters, in the order of half digits and invocations."""
    t = local_id(0)
    first, total = _apart(t * _PAIRS), np.uint32(0)
    for k in range(_PAIRS):
        total += counters[first + k]
    sums[0, t] = total
    barrier()
    for step in range(_STEPS):
        here, before = sums[step % 2, t], sums[step % 2, max(t - (1 << step), 0)]
        sums[(step + 1) % 2, t] = here + before if t >= 1 << step else here
        barrier()
    start = sums[_STEPS % 2, t] - total + (sums[_STEPS % 2, INVOCATIONS - 1] << np.uint32(16))
    for k in range(_PAIRS):
        count = counters[first + k]
        counters[first + k] = start
        start += count
    barrier()


def _sort_by_half(words: Any, counters: Any, sums: Any, half: int, own: int) -> None:
    """Sorts the words of a tile by half a digit, stably: an invocation has adjacent ones."""
    t = local_id(0)
    column, first, held = _apart(t), _apart(t * own), local(own, np.uint32)
    for k in range(_PAIRS):
        counters[column + k * _ROW] = np.uint32(0)
    for k in range(own):
        word = words[first + k]
        digit = _half(word, half)
        at, high = column + (digit & 7) * _ROW, np.uint32((digit & 8) << 1)
        pair = counters[at]
        held[k] = word | (((pair >> high) & np.uint32(0xFF)) << np.uint32(24))  # with its rank among own ones
        counters[at] = pair + (np.uint32(1) << high)
    barrier()
    _exclusive_sums(counters, sums)
    for k in range(own):
        digit = _half(held[k], half)
        at, high = column + (digit & 7) * _ROW, np.uint32((digit & 8) << 1)
        target = ((counters[at] >> high) & np.uint32(0xFFFF)) + (held[k] >> np.uint32(24))
        words[_apart(np.int32(target))] = held[k] & np.uint32(0xFFFFFF)
    barrier()


@cache
def kernels(width: int, has_order: bool, own: int) -> Kernels:
    """Makes the kernels of a pass.

    Args:
        width: words of an element.
        has_order: True if each element has an index, too.
        own: elements of an invocation, a power of two up to 32.
    """
    tile_length = own * INVOCATIONS

    @kernel(local_size=INVOCATIONS)
    def count_tiles(x: Any, counts: Any, n: int, n_tiles: int, shift: int, form: int, flip: int) -> None:
        """Counts the digits of each tile."""
        digits = shared(N_DIGITS, np.int32)
        t, row, tile = local_id(0), group_id(0) // n_tiles, group_id(0) % n_tiles
        first, count = row * n + tile * tile_length, min(n - tile * tile_length, tile_length)
        for d in range(t, N_DIGITS, INVOCATIONS):
            digits[d] = 0
        barrier()
        for i in range(t, count, INVOCATIONS):
            atomic.add(digits, digit_of(x, first + i, width, shift, form, flip), 1)
        barrier()
        for d in range(t, N_DIGITS, INVOCATIONS):
            counts[(row * N_DIGITS + d) * n_tiles + tile] = digits[d]

    @kernel(local_size=INVOCATIONS)
    def move_tiles(
        x: Any, order: Any, offsets: Any, out: Any, new_order: Any,
        n: int, n_tiles: int, shift: int, form: int, flip: int, kind: int,
    ) -> None:  # fmt: skip
        """Stores the elements of each tile at their offsets.

        The words of a tile have a digit in the bits from the 16th on, and the index of an element below. `kind` is as
        of `Kernels`.
        """
        words, counters = shared(own * _ROW, np.uint32), shared(_PAIRS * _ROW, np.uint32)
        sums, starts = shared((2, INVOCATIONS), np.uint32), shared(N_DIGITS, np.int32)
        t, row, tile = local_id(0), group_id(0) // n_tiles, group_id(0) % n_tiles
        first, count = row * n + tile * tile_length, min(n - tile * tile_length, tile_length)
        for k in range(own):
            i, digit = t + k * INVOCATIONS, N_DIGITS - 1  # of no element: these remain the last
            if i < count:
                digit = digit_of(x, first + i, width, shift, form, flip)
            words[_apart(t) + k * _ROW] = np.uint32(digit << 16 | i)
        barrier()
        _sort_by_half(words, counters, sums, 0, own)
        _sort_by_half(words, counters, sums, 1, own)
        for k in range(own):
            i, digit = t + k * INVOCATIONS, np.int32(words[_apart(t) + k * _ROW] >> np.uint32(16))
            if i == 0 or np.int32(words[_apart(max(i - 1, 0))] >> np.uint32(16)) != digit:
                starts[digit] = offsets[(row * N_DIGITS + digit) * n_tiles + tile] - i
        barrier()
        for k in range(own):
            i, word = t + k * INVOCATIONS, words[_apart(t) + k * _ROW]
            if i < count:
                target, source = starts[np.int32(word >> np.uint32(16))] + i, first + np.int32(word & np.uint32(0xFFFF))
                if not has_order or kind & 2 == 0:
                    for j in range(width):
                        out[target * width + j] = x[source * width + j]
                if has_order:
                    new_order[target] = source if kind & 1 == 1 else order[source]

    return Kernels(count_tiles, move_tiles)
