"""Suballocation of ranges of bytes, and offsets for ranges with known live ranges. Arithmetic only, no device."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

LiveRange = tuple[int, int, int]
"""(first step, last step, bytes): in use from the first step to the last, inclusive"""


class Suballocator:
    """Best-fit allocator of [0, nbytes), which merges neighbouring free ranges.

    `allocate` and `free` cost O(log n) in the number of free ranges, plus the insertion into a Python list.

    The dict of ranges in use is updated atomically. If Ctrl-C interrupts the update of the free lists, they are rebuilt
    from it.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._used: dict[int, int] = {}  # offset -> end of each range in use
        self._rebuild()

    def _rebuild(self) -> None:
        """Computes the free ranges from those in use."""
        self._used_bytes, at = 0, 0
        self._by_size: list[tuple[int, int]] = []  # (length, start) of each free range, sorted
        self._ends: dict[int, int] = {}  # end -> start of each free range
        self._starts: dict[int, int] = {}  # start -> end of each free range
        for offset, end in sorted(self._used.items()):
            self._add_free(at, offset)
            self._used_bytes, at = self._used_bytes + end - offset, end
        self._add_free(at, self.nbytes)
        self._inconsistent = False

    @property
    def used_bytes(self) -> int:
        """Bytes in use."""
        if self._inconsistent:
            self._rebuild()
        return self._used_bytes

    @property
    def largest_free(self) -> int:
        """Bytes of the largest free range."""
        if self._inconsistent:
            self._rebuild()
        return self._by_size[-1][0] if self._by_size else 0

    def allocate(
        self, nbytes: int, align: int, allocations: list[tuple[Any, int]] | None = None, owner: Any = None
    ) -> int | None:
        """Allocates a range and returns its offset, a multiple of `align`; None if no free range can hold it.

        Adds (`owner`, offset) to `allocations`, atomically with the allocation.

        Raises:
            ValueError: nbytes or align is not positive.
        """
        if nbytes <= 0 or align <= 0:
            raise ValueError(f"nbytes and align are positive; got nbytes={nbytes}, align={align}")
        if self._inconsistent:
            self._rebuild()
        for position in range(bisect_left(self._by_size, (nbytes, 0)), len(self._by_size)):
            length, start = self._by_size[position]
            offset = -(-start // align) * align
            if offset + nbytes <= start + length:
                self._inconsistent = True
                self._used[offset] = offset + nbytes
                if allocations is not None:
                    allocations += ((owner, offset),)
                self._used_bytes += nbytes
                del self._by_size[position], self._starts[start], self._ends[start + length]
                self._add_free(start, offset)
                self._add_free(offset + nbytes, start + length)
                self._inconsistent = False
                return offset
        return None

    def length(self, offset: int) -> int:
        """Returns the bytes of the range in use at `offset`."""
        return self._used[offset] - offset

    def free(self, offset: int, allocations: list[Any] | None = None) -> None:
        """Frees the range in use at `offset`; removes the last item of `allocations` atomically with it.

        Raises:
            ValueError: no range in use starts at `offset`.
        """
        end = self._used.get(offset)
        if end is None:
            raise ValueError(f"no range in use starts at offset {offset}")
        if self._inconsistent:
            self._rebuild()
        self._inconsistent = True
        del self._used[offset]
        if allocations is not None:
            del allocations[-1]
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
        self._inconsistent = False

    def _add_free(self, start: int, end: int) -> None:
        if start < end:
            insort(self._by_size, (end - start, start))
            self._starts[start] = end
            self._ends[end] = start

    def _remove_free(self, start: int, end: int) -> None:
        del self._by_size[bisect_left(self._by_size, (end - start, start))]
        del self._starts[start], self._ends[end]


def assign_offsets(live_ranges: Sequence[LiveRange], align: int) -> tuple[list[int], int]:
    """Returns an offset for each live range, a multiple of `align`, and the total bytes.

    Live ranges that overlap in time share no byte. In the order of their first steps, each takes the smallest gap that
    holds it. Gergov, "Algorithms for compile-time memory optimization", SODA 1999, names the problem.
    """
    sizes = [-(-max(nbytes, 1) // align) * align for _, _, nbytes in live_ranges]
    if not sizes:
        return [], 0
    # The span at the end is larger than any gap, so best fit takes from it only if no gap is large enough.
    space, offsets, total = Suballocator(2 * sum(sizes) + 1), [0] * len(sizes), 0
    live: list[tuple[int, int]] = []  # heap of (last step, offset)
    for number in sorted(range(len(sizes)), key=lambda i: (live_ranges[i][0], -sizes[i])):
        first, last, _ = live_ranges[number]
        while live and live[0][0] < first:
            space.free(heappop(live)[1])
        offset = space.allocate(sizes[number], align)
        assert offset is not None, "there is room for all of them side by side"
        offsets[number], total = offset, max(total, offset + sizes[number])
        heappush(live, (last, offset))
    return offsets, total
