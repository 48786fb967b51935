"""Carves ranges out of one span of bytes, and has them share it in time. Arithmetic only: it needs no device."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

Lifetime = tuple[int, int, int]
"""(first moment, last moment, bytes): alive at both moments and between them"""


class Suballocator:
    """Best fit over the free ranges of [0, nbytes); neighbours merge when they are given back.

    A request takes the smallest free range that holds it at its alignment. Both operations cost O(log n) in the number
    of free ranges, plus the insertion into a Python list.

    What is in use is changed in one step, and where Ctrl-C tears what follows from that, it is made anew.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._taken: dict[int, int] = {}  # offset -> end of each range in use
        self._mend()

    def _mend(self) -> None:
        """Finds what is free from what is in use."""
        self._used_bytes, at = 0, 0
        self._by_size: list[tuple[int, int]] = []  # (length, start) of each free range, sorted
        self._ends: dict[int, int] = {}  # end -> start of each free range
        self._starts: dict[int, int] = {}  # start -> end of each free range
        for offset, end in sorted(self._taken.items()):
            self._add_free(at, offset)
            self._used_bytes, at = self._used_bytes + end - offset, end
        self._add_free(at, self.nbytes)
        self._torn = False

    @property
    def used_bytes(self) -> int:
        """Bytes in use."""
        if self._torn:
            self._mend()
        return self._used_bytes

    @property
    def largest_free(self) -> int:
        """Bytes of the longest free range."""
        if self._torn:
            self._mend()
        return self._by_size[-1][0] if self._by_size else 0

    def take(
        self, nbytes: int, align: int, places: list[tuple[Any, int]] | None = None, owner: Any = None
    ) -> int | None:
        """The offset of a new range, a multiple of `align`; None if no free range holds it.

        `places` gets (`owner`, offset) in the step in which the range is taken.

        Raises:
            ValueError: nbytes or align is not positive.
        """
        if nbytes <= 0 or align <= 0:
            raise ValueError(f"nbytes and align are positive; got nbytes={nbytes}, align={align}")
        if self._torn:
            self._mend()
        for position in range(bisect_left(self._by_size, (nbytes, 0)), len(self._by_size)):
            length, start = self._by_size[position]
            offset = -(-start // align) * align
            if offset + nbytes <= start + length:
                self._torn = True
                self._taken[offset] = offset + nbytes
                if places is not None:
                    places += ((owner, offset),)
                self._used_bytes += nbytes
                del self._by_size[position], self._starts[start], self._ends[start + length]
                self._add_free(start, offset)
                self._add_free(offset + nbytes, start + length)
                self._torn = False
                return offset
        return None

    def length(self, offset: int) -> int:
        """Bytes of the range in use that starts at `offset`."""
        return self._taken[offset] - offset

    def give(self, offset: int, places: list[Any] | None = None) -> None:
        """Gives the range that starts at `offset` back; the last one of `places` goes in the same step.

        Raises:
            ValueError: no range in use starts there.
        """
        end = self._taken.get(offset)
        if end is None:
            raise ValueError(f"no range in use starts at offset {offset}")
        if self._torn:
            self._mend()
        self._torn = True
        del self._taken[offset]
        if places is not None:
            del places[-1]
        self._used_bytes -= end - offset
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
        self._torn = False

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
