"""Ranges of memory that must be apart in each run of a graph: what a function reads and its result."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from vkcompute.core.buffer import Buffer
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.placeholders import Placeholder
from vkcompute.runtime.scheduling.task import BufferMap, Task


class Apart(NamedTuple):
    """A range that is read and one that is written by the same task or an earlier one, which must not overlap.

    Attributes:
        unless_same: True if they may be the same range, as each element is read before it is written.
    """

    read: Range
    written: Range
    unless_same: bool

    def rebased(self, buffer_map: BufferMap) -> Apart:
        """Returns it with other buffers."""
        return self._replace(read=_rebased(self.read, buffer_map), written=_rebased(self.written, buffer_map))

    def check(self, context: Context) -> None:
        """Raises ValueError if the ranges overlap."""
        (mine, start, stop), (its, first, last) = self.read, self.written
        if mine is its and start < last and first < stop and not (self.unless_same and self.read == self.written):
            raise ValueError(
                f"an input of this graph on {context.device} overlaps memory that the graph writes before it has read "
                f"the input: bytes {start} to {stop} and {first} to {last} of one buffer; pass a .copy()"
            )


def apart(read: Array, written: Array, *, unless_same: bool) -> list[Apart]:
    """Returns the rule for two arrays; none if they cannot overlap in a run unless they do in the recording."""
    return [Apart(read.range, written.range, unless_same)] if may_overlap(read, written) else []


def apart_from_writes(read: Array, tasks: Iterable[Task]) -> list[Apart]:
    """Returns the rules for an array and what tasks write; as `apart`."""
    ranges = [write for task in tasks for write in task.writes]
    return [Apart(read.range, range_, unless_same=False) for range_ in ranges if _may_overlap(read.buffer, range_[0])]


def may_overlap(one: Array, other: Array) -> bool:
    """True if two arrays may overlap in a run though they do not in the recording.

    One is an input of the graph, and the other in memory, or another input.
    """
    return _may_overlap(one.buffer, other.buffer)


def is_input(buffer: Buffer) -> bool:
    """True for the memory of a graph's input."""
    return isinstance(buffer, Placeholder) and buffer.is_input


def _may_overlap(one: Buffer, other: Buffer) -> bool:
    placeholders = [placeholder for placeholder in (one, other) if isinstance(placeholder, Placeholder)]
    return one is not other and bool(placeholders) and all(placeholder.is_input for placeholder in placeholders)


def _rebased(given: Range, buffer_map: BufferMap) -> Range:
    buffer, start, stop = given
    other, offset = buffer_map.get(buffer, (buffer, 0))
    return other, start + offset, stop + offset
