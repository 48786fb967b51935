"""A pass of a radix sort by invocations, for CPUs: each takes a part of a row in order.

An invocation counts the digits of its part, the counts are scanned in the order of digits and parts, and it stores its
elements from these positions on (D. E. Knuth, The Art of Computer Programming 3, 5.2.5). Its counters are private, so
that they remain in the first cache of a core.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from vkcompute.arrays.algorithms.radix_digits import N_DIGITS, Kernels, digit_of
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.jit.library.private import local


def _part(i: int, n: int, n_parts: int, length: int) -> tuple[int, int, int]:
    """Returns the first element of a part, the index of its first digit's number, and how many elements it has."""
    row, part = i // n_parts, i % n_parts
    return row * n + part * length, row * N_DIGITS * n_parts + part, min(length, n - part * length)


@cache
def kernels(width: int, has_order: bool) -> Kernels:
    """Makes the kernels of a pass.

    Args:
        width: words of an element.
        has_order: True if each element has an index, too.
    """

    @kernel
    def count_parts(
        x: Any, counts: Any, n_items: int, n: int, n_parts: int, length: int, shift: int, form: int, flip: int
    ) -> None:
        """Counts the digits of each part."""
        i = global_id(0)
        if i < n_items:
            first, base, count = _part(i, n, n_parts, length)
            digits = local(N_DIGITS, np.int32)
            for k in range(count):
                digits[digit_of(x, first + k, width, shift, form, flip)] += 1
            for d in range(N_DIGITS):
                counts[base + d * n_parts] = digits[d]

    @kernel
    def move_parts(
        x: Any, order: Any, offsets: Any, out: Any, new_order: Any,
        n_items: int, n: int, n_parts: int, length: int, shift: int, form: int, flip: int, kind: int,
    ) -> None:  # fmt: skip
        """Stores the elements of each part at their offsets; `kind` as of `Kernels`."""
        i = global_id(0)
        if i < n_items:
            first, base, count = _part(i, n, n_parts, length)
            following = local(N_DIGITS, np.int32)
            for d in range(N_DIGITS):
                following[d] = offsets[base + d * n_parts]
            for k in range(count):
                digit = digit_of(x, first + k, width, shift, form, flip)
                target = following[digit]
                following[digit] = target + 1
                if not has_order or kind & 2 == 0:
                    for j in range(width):
                        out[target * width + j] = x[(first + k) * width + j]
                if has_order:
                    new_order[target] = first + k if kind & 1 == 1 else order[first + k]

    return Kernels(count_parts, move_parts)
