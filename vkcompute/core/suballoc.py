"""Carves ranges out of one span of bytes, and has them share it in time. Arithmetic only: it needs no device."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush

Lifetime = tuple[int, int, int]
"""(first moment, last moment, bytes): alive at both moments and between them"""


class Suballocator:
    """Best fit over the free ranges of [0, nbytes); neighbours merge when they are given back.

    A request takes the smallest free range that holds it at its alignment. Both operations cost O(log n) in the number
    of free ranges, plus the insertion into a Python list.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.used_bytes = 0
        self._by_size: list[tuple[int, int]] = [(nbytes, 0)]  # (length, start) of each free range, sorted
        self._ends: dict[int, int] = {nbytes: 0}  # end -> start of each free range
        self._starts: dict[int, int] = {0: nbytes}  # start -> end of each free range
        self._taken: dict[int, int] = {}  # offset -> end of each range in use

    @property
    def free_bytes(self) -> int:
        """Bytes not in use, in however many pieces."""
        return self.nbytes - self.used_bytes

    @property
    def largest_free(self) -> int:
        """Bytes of the longest free range."""
        return self._by_size[-1][0] if self._by_size else 0

    def take(self, nbytes: int, align: int) -> int | None:
        """The offset of a new range, a multiple of `align`; None if no free range holds it.

        Raises:
            ValueError: nbytes or align is not positive.
        """
        if nbytes <= 0 or align <= 0:
            raise ValueError(f"nbytes and align are positive; got nbytes={nbytes}, align={align}")
        for position in range(bisect_left(self._by_size, (nbytes, 0)), len(self._by_size)):
            length, start = self._by_size[position]
            offset = -(-start // align) * align
            if offset + nbytes <= start + length:
                del self._by_size[position]
                del self._starts[start], self._ends[start + length]
                self._add_free(start, offset)
                self._add_free(offset + nbytes, start + length)
                self._taken[offset] = offset + nbytes
                self.used_bytes += nbytes
                return offset
        return None

    def length(self, offset: int) -> int:
        """Bytes of the range in use that starts at `offset`."""
        return self._taken[offset] - offset

    def give(self, offset: int) -> None:
        """Gives the range that starts at `offset` back.

        Raises:
            ValueError: no range in use starts there.
        """
        end = self._taken.pop(offset, None)
        if end is None:
            raise ValueError(f"no range in use starts at offset {offset}")
        self.used_bytes -= end - offset
        start = self._ends.get(offset)
        if start is None:
            start = offset
        else:
            self._remove_free(start, offset)
        following = self._starts.get(end)
        if following is not None:
            self._remove_free(end, following)
            end = following
        self._add_free(start, end)

    def _add_free(self, start: int, end: int) -> None:
        if start < end:
            insort(self._by_size, (end - start, start))
            self._starts[start] = end
            self._ends[end] = start

    def _remove_free(self, start: int, end: int) -> None:
        del self._by_size[bisect_left(self._by_size, (end - start, start))]
        del self._starts[start], self._ends[end]


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
