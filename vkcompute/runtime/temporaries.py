"""Memory shared by what is not alive at the same time. Arithmetic only: no device is needed to use or to test it."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from vkcompute.core.suballoc import Suballocator

Lifetime = tuple[int, int, int]
"""(first moment, last moment, bytes): alive at both moments and between them"""


def assign(lifetimes: Sequence[Lifetime], align: int) -> tuple[list[int], int]:
    """The offset of each, a multiple of `align`, and the bytes of the whole.

    Two that are alive at the same moment share no byte. In the order of their first moments, each takes the smallest
    gap that holds it (Gergov, "Algorithms for compile-time memory optimization", SODA 1999, names the problem).
    """
    sizes = [-(-max(nbytes, 1) // align) * align for _, _, nbytes in lifetimes]
    if not sizes:
        return [], 0
    # What is never used is longer than any gap, so that it is taken only where no gap will do.
    space, offsets, total = Suballocator(2 * sum(sizes) + 1), [0] * len(sizes), 0
    alive: list[tuple[int, int]] = []  # (last moment, offset)
    for number in sorted(range(len(sizes)), key=lambda i: (lifetimes[i][0], -sizes[i])):
        first, last, _ = lifetimes[number]
        while alive and alive[0][0] < first:
            space.give(heappop(alive)[1])
        offset = space.take(sizes[number], align)
        assert offset is not None, "each needs at most its own size more, and there is room for the sum"
        offsets[number], total = offset, max(total, offset + sizes[number])
        heappush(alive, (last, offset))
    return offsets, total
