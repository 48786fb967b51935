"""Ranges of device memory, and the pool of those that closed buffers leave for the results of later launches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from itertools import repeat, starmap
from operator import attrgetter, itemgetter
from typing import Any

from vkcompute.core.interrupts import call_into
from vkcompute.core.lifetime import Deletion

_MOST_RANGES, _MOST_SIZES = 1024, 64  # of a size, and in all
_MOST_TRIED = 4  # ranges for one request

Allocation = tuple[Any, int]
"""A block, and the offset in it of a range, in bytes."""
_Entry = tuple[bool, int, int, "MemoryRange"]
"""True if it did not suit, a location, an id that breaks ties, the range: comparing entries runs no code of Python."""
_range_of, _location_of = itemgetter(3), attrgetter("location")


class MemoryRange:
    """A range of a block, for one buffer after the other.

    It has no finalizer: the collector finalizes a cycle in any order, and a pool takes the range back from its buffer.

    Attributes:
        allocations: the block and the offset; nothing without memory.
        nbytes: its size.
        location, address: as of `Buffer`.
        history: the access history of the last buffer there, or None.
    """

    __slots__ = ("address", "allocations", "history", "location", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.allocations: list[Allocation] = []
        self.location = self.address = 0
        self.history: Any = None


class RangePool:
    """Ranges that closed buffers have left, by size, also while the device still uses them.

    Whoever takes one orders its accesses after those in the history. Of a size, the range with the lowest location is
    taken. So steps that allocate and free alike have the same locations each time, whatever the order of their frees,
    and launches find the plans of the step before. `leave` is for finalizers, which run on any thread at any moment; it
    and `take` need no lock, as each is one atomic step on a heap.

    Args:
        defer: appends a deletion to those that run after all work so far.
        free: frees allocations.

    Attributes:
        suits: returns False for a history whose tasks the next launch should not wait for; None if all suit.
    """

    def __init__(self, defer: Callable[[Deletion], None], free: Callable[[list[Allocation]], None]) -> None:
        self._defer, self._free = defer, free
        self._ranges: dict[int, list[_Entry]] = {}
        self.suits: Callable[[Any], bool] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all ranges."""
        return sum(nbytes * len(ranges) for nbytes, ranges in list(self._ranges.items()))

    def leave(self, memory: MemoryRange) -> None:
        """Adds a range. Where there are many of a size, some are given back; so is the oldest size of many."""
        ranges = self._ranges.get(memory.nbytes)
        if ranges is None:
            if len(self._ranges) >= _MOST_SIZES:
                with suppress(StopIteration, RuntimeError):  # another thread has changed the dict
                    self._give_back(self._ranges.pop(next(iter(self._ranges)), []), 0)
            ranges = self._ranges.setdefault(memory.nbytes, [])
        heappush(ranges, (False, memory.location, id(memory), memory))
        if self._ranges.get(memory.nbytes) is not ranges:  # another thread has removed the size meanwhile
            self._give_back(ranges, 0)
        elif len(ranges) > _MOST_RANGES:
            self._give_back(ranges, _MOST_RANGES)

    def take(self, nbytes: int, taken: list[MemoryRange]) -> None:
        """Moves the range of this size with the lowest location to `taken`, if there is one that suits."""
        ranges = self._ranges.get(nbytes)
        if not ranges:
            return
        try:
            taken += map(_range_of, starmap(heappop, ((ranges,),)))  # does what `call_into` does
        except IndexError:  # another thread has taken it
            return
        if self.suits is not None and not self.suits(taken[0].history):
            self._take_next(ranges, taken, self.suits)

    def _take_next(self, ranges: list[_Entry], taken: list[MemoryRange], suits: Callable[[Any], bool]) -> None:
        """Moves one of the next ranges to `taken`, in the place of one that does not suit; those follow all others."""
        others: list[MemoryRange] = []
        entries = zip(repeat(True), map(_location_of, others), map(id, others), others, strict=False)  # when it is used
        returned = map(heappush, repeat(ranges), entries)
        try:
            while len(others) < _MOST_TRIED - 1:
                others += taken  # indivisible with the next line
                del taken[:]
                taken += map(_range_of, starmap(heappop, ((ranges,),)))
                if suits(taken[0].history):
                    return
            others += taken  # indivisible with the next line
            del taken[:]
        except IndexError:  # there is no other
            pass
        finally:
            deque(returned, 0)  # indivisible

    def clear(self) -> None:
        """Gives all ranges back."""
        for ranges in list(self._ranges.values()):
            self._give_back(ranges, 0)

    def _give_back(self, ranges: list[_Entry], most: int) -> None:
        """Gives ranges back, except for so many; the last entry of a heap is none of the lowest."""
        while len(ranges) > most:
            dropped: list[_Entry] = []
            try:
                call_into(dropped, ranges.pop)
            except IndexError:  # another thread has taken the last one
                return
            finally:
                for *_, memory in dropped:
                    self._defer((self._free, memory.allocations))
