"""Carves ranges out of one span of bytes. Arithmetic only: no device is needed to use or to test it."""

from __future__ import annotations

from bisect import bisect_left, insort


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
