"""Who has to wait for whom: reads and writes of byte ranges in, the fewest dependencies out. No device involved.

Work runs on strands (queues, or a recorded graph), each of which numbers its tasks 1, 2, 3, … A dependency names a
strand and a task of it. Of several on one strand only the latest is kept: whoever waits for it, by a barrier or a
semaphore, waits for the earlier ones too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any

from vkcompute.core.buffer import Buffer

Range = tuple[Buffer, int, int]
"""(buffer, start, stop), in bytes"""

After = dict[int, int]
"""strand -> the latest task of it that has to come first"""

_MANY = 64


class _Segment:
    """Bytes [start, stop) with one history: the last task that wrote them, and who has read them since."""

    __slots__ = ("reads", "start", "stop", "writer", "written")

    def __init__(self, start: int, stop: int, writer: int, written: int, reads: After) -> None:
        self.start, self.stop = start, stop
        self.writer, self.written = writer, written  # strand and task; task 0 is before everything
        self.reads = reads


class Uses:
    """The history of one buffer.

    A task that both reads and writes notes its writes first: they wait for all that its reads would wait for.

    Attributes:
        written: whether anyone has written to it, the host included; of a buffer that only simulated launches have
            written to, an array of bool that has it for each byte.
    """

    __slots__ = ("_limit", "_segments", "written")

    def __init__(self) -> None:
        self._segments: list[_Segment] = []
        self.written: Any = False
        self._limit = _MANY

    def read(self, start: int, stop: int, strand: int, task: int, after: After) -> None:
        """Notes that the task reads bytes [start, stop), and adds what it has to come after to `after`."""
        for segment in self._tile(start, stop):
            _wait_for(segment, strand, task, after)
            segment.reads[strand] = task

    def write(self, start: int, stop: int, strand: int, task: int, after: After) -> None:
        """Notes that the task writes bytes [start, stop), and adds what it has to come after to `after`."""
        self.written = True
        found = self._tile(start, stop)
        for segment in found:
            _wait_for(segment, strand, task, after)
            for reader, read in segment.reads.items():
                if read > after.get(reader, 0) and (reader != strand or read != task):
                    after[reader] = read
        if len(found) == 1:
            segment = found[0]
            segment.writer, segment.written, segment.reads = strand, task, {}
        elif found:
            first = bisect_right(self._segments, start, key=_start_of) - 1
            self._segments[first : first + len(found)] = [_Segment(start, stop, strand, task, {})]

    def last_writers(self, start: int, stop: int) -> After:
        """Who wrote bytes [start, stop) last: what must be finished before the host may read them."""
        after: After = {}
        for segment in self._overlapping(start, stop):
            _wait_for(segment, -1, 0, after)
        return after

    def before_host_writes(self, start: int, stop: int) -> After:
        """What must be finished before the host may write bytes [start, stop)."""
        after = self.last_writers(start, stop)
        for segment in self._overlapping(start, stop):
            for reader, read in segment.reads.items():
                after[reader] = max(read, after.get(reader, 0))
        return after

    def unwritten(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The parts of [start, stop) that no task has written."""
        parts = []
        for segment in self._overlapping(start, stop):
            if segment.written:
                if segment.start > start:
                    parts.append((start, segment.start))
                start = segment.stop
        return [*parts, (start, stop)] if start < stop else parts

    def writers(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The last writers of the bytes [start, stop), as (strand, task)."""
        return [(segment.writer, segment.written) for segment in self._overlapping(start, stop)]

    def overwrite(self, start: int, stop: int, failed: Callable[[int, int], object]) -> None:
        """Notes that the host wrote the bytes [start, stop): tasks (strand, task) that `failed` are no writers now."""
        for segment in self._tile(start, stop):
            if failed(segment.writer, segment.written):
                segment.written = 0

    def forget(self, finished: Mapping[int, int]) -> None:
        """Drops what only tells of finished tasks; `finished` gives per strand the last task that is."""

        def told(segment: _Segment) -> bool:
            return segment.written <= finished.get(segment.writer, 0) and all(
                read <= finished.get(reader, 0) for reader, read in segment.reads.items()
            )

        self._segments = [segment for segment in self._segments if not told(segment)]
        self._limit = max(_MANY, 2 * len(self._segments))

    @property
    def crowded(self) -> bool:
        """Whether to `forget`: the segments are many, and twice as many as could not be forgotten the last time.

        So a buffer of a thousand windows with work on each does not look at all of them for each task.
        """
        return len(self._segments) > self._limit

    def __len__(self) -> int:
        return len(self._segments)

    def _overlapping(self, start: int, stop: int) -> list[_Segment]:
        segments = self._segments
        first = max(0, bisect_right(segments, start, key=_start_of) - 1) if len(segments) > 1 else 0
        found = []
        for position in range(first, len(segments)):  # no slice: it would copy all that follows
            segment = segments[position]
            if segment.start >= stop:
                break
            if segment.stop > start < stop:  # an empty range overlaps nothing
                found.append(segment)
        return found

    def _tile(self, start: int, stop: int) -> list[_Segment]:
        """Segments that cover [start, stop) exactly: existing ones are cut at its ends, and gaps are filled."""
        segments = self._segments
        if len(segments) == 1 and segments[0].start == start and segments[0].stop == stop:
            return segments[:]  # nearly always: the same whole tensor again
        if start >= stop:
            return []
        self._cut(start)
        self._cut(stop)
        position = bisect_right(segments, start - 1, key=_start_of)
        found: list[_Segment] = []
        at = start
        while at < stop:
            segment = segments[position] if position < len(segments) else None
            if segment is None or segment.start > at:
                gap_stop = stop if segment is None else min(stop, segment.start)
                segment = _Segment(at, gap_stop, 0, 0, {})
                segments.insert(position, segment)
            found.append(segment)
            at = segment.stop
            position += 1
        return found

    def _cut(self, at: int) -> None:
        segments = self._segments
        position = bisect_right(segments, at, key=_start_of) - 1
        if position >= 0:
            segment = segments[position]
            if segment.start < at < segment.stop:
                tail = _Segment(at, segment.stop, segment.writer, segment.written, dict(segment.reads))
                segment.stop = at
                segments.insert(position + 1, tail)


def _start_of(segment: _Segment) -> int:
    return segment.start


def _wait_for(segment: _Segment, strand: int, task: int, after: After) -> None:
    """Adds the segment's last writer to `after`, unless it is the task itself."""
    written, writer = segment.written, segment.writer
    if written > after.get(writer, 0) and (writer != strand or written != task):
        after[writer] = written
