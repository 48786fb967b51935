"""Access history of buffers: reads and writes of byte ranges in, the fewest dependencies out. Calls no driver.

Tasks run on timelines (queues, or a recording), each of which numbers its tasks 1, 2, 3, ... A dependency is a timeline
and a task on it. Only the latest task of each timeline is kept: a barrier or a semaphore that waits for it also waits
for the earlier ones.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from vkcompute.core.buffer import Buffer

Range = tuple[Buffer, int, int]
"""(buffer, start, stop), in bytes"""
Dependencies = dict[int, int]
"""timeline -> the latest task on it to wait for"""

_FEW_SEGMENTS, _MANY_SEGMENTS = 8, 64


class _Segment:
    """Bytes [start, stop) with one history: the task that wrote them last, and the tasks that have read them since."""

    __slots__ = ("reads", "start", "stop", "writer", "written")

    def __init__(self, start: int, stop: int, writer: int, written: int, reads: Dependencies) -> None:
        self.start, self.stop = start, stop
        self.writer, self.written = writer, written  # timeline and task; task 0 precedes all others
        self.reads = reads


class AccessHistory:
    """The accesses to one buffer.

    A task that reads and writes registers its writes first: their dependencies include those of its reads.

    Attributes:
        written: True if anything was written to the buffer, also by the host. If only simulated launches wrote to it,
            an array of bool with an element per byte.
        other_uses: the latest task on each timeline before the last access by the host, or in a dropped segment.
        needs_pruning: True if there are many segments, and twice as many as the last `prune` left. So a buffer of a
            thousand windows with unfinished work on each is not pruned anew for every task. Also True for memory
            that is lent to the host: see `report_all`.
    """

    __slots__ = ("_limit", "_segments", "needs_pruning", "other_uses", "written")

    def __init__(self) -> None:
        self._segments: list[_Segment] = []
        self.written: Any = False
        self.other_uses: Dependencies = {}
        self._limit = _MANY_SEGMENTS
        self.needs_pruning = False

    def report_all(self, *, reports: bool = True) -> None:
        """Makes `register` call `renewed` for each access; with `reports=False`, only where pruning is needed."""
        self._limit = -1 if reports else max(_MANY_SEGMENTS, 2 * len(self._segments))
        self.needs_pruning = reports

    @property
    def reports_all(self) -> bool:
        """True if `register` calls `renewed` for each access."""
        return self._limit < 0

    def read(self, start: int, stop: int, timeline: int, task: int, dependencies: Dependencies) -> None:
        """Registers a read of bytes [start, stop) by the task, and adds its dependencies to `dependencies`."""
        segments = self._tile(start, stop)
        for segment in segments:
            if written := segment.written:
                writer = segment.writer
                if written > dependencies.get(writer, 0) and (writer != timeline or written != task):
                    dependencies[writer] = written
            segment.reads[timeline] = task
        if len(segments) == len(self._segments) > 1:
            self._join()

    def write(self, start: int, stop: int, timeline: int, task: int, dependencies: Dependencies) -> None:
        """Registers a write of bytes [start, stop) by the task, and adds its dependencies to `dependencies`."""
        self.written = True
        segments = self._tile(start, stop)
        for segment in segments:
            if written := segment.written:
                writer = segment.writer
                if written > dependencies.get(writer, 0) and (writer != timeline or written != task):
                    dependencies[writer] = written
            for reader, read in segment.reads.items() if segment.reads else ():
                if read > dependencies.get(reader, 0) and (reader != timeline or read != task):
                    dependencies[reader] = read
        if len(segments) == 1:
            segment = segments[0]
            segment.writer, segment.written = timeline, task
            if segment.reads:
                segment.reads = {}
        elif segments:
            first = self._segments.index(segments[0])
            self._segments[first : first + len(segments)] = [_Segment(start, stop, timeline, task, {})]
            self.needs_pruning = len(self._segments) > self._limit

    def last_writers(self, start: int, stop: int) -> Dependencies:
        """The last writers of bytes [start, stop). They must finish before the host may read the bytes."""
        dependencies: Dependencies = {}
        for segment in self._overlapping(start, stop):
            if segment.written > dependencies.get(segment.writer, 0):
                dependencies[segment.writer] = segment.written
        return dependencies

    def last_accesses(self, start: int, stop: int) -> Dependencies:
        """The last writers and readers of bytes [start, stop). They must finish before the host may write the bytes."""
        dependencies = self.last_writers(start, stop)
        for segment in self._overlapping(start, stop):
            for reader, read in segment.reads.items():
                dependencies[reader] = max(read, dependencies.get(reader, 0))
        return dependencies

    def last_uses(self) -> Dependencies:
        """The latest task on each timeline that accessed the buffer, or preceded an access by the host."""
        uses = self.last_accesses(0, sys.maxsize)
        return {
            timeline: max(uses.get(timeline, 0), self.other_uses.get(timeline, 0))
            for timeline in uses.keys() | self.other_uses
        }

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
        """The last writer of each part of [start, stop), as (timeline, task)."""
        segments = self._segments
        if len(segments) != 1 or not (segments[0].start <= start < stop <= segments[0].stop):
            segments = self._overlapping(start, stop)
        return [(segment.writer, segment.written) for segment in segments]

    def overwrite(self, start: int, stop: int, failed: Callable[[int, int], object]) -> None:
        """Registers a write by the host: tasks (timeline, task) that have `failed` are no longer the last writers."""
        for segment in self._tile(start, stop):
            if failed(segment.writer, segment.written):
                segment.written = 0

    def hand_over(self, nbytes: int) -> None:
        """Makes this the history of the memory for another owner of `nbytes` bytes, who has written none of them.

        Earlier tasks only order its writes; their results, and their failures, are not its own. Each write comes after
        all of them: a kernel that stores whole vectors writes the padding, too, where the former owner had elements.
        """
        self.written = False
        if self.other_uses:
            self.other_uses = {}
        segments = self._segments
        if len(segments) == 1:  # the common case: the segment stays, with its reads
            segment = segments[0]
            uses: Dependencies = segment.reads
            if segment.written > uses.get(segment.writer, 0):
                uses[segment.writer] = segment.written
            segment.start, segment.stop, segment.writer, segment.written = 0, nbytes, 0, 0
            return
        uses = {}
        for segment in segments:
            if segment.written > uses.get(segment.writer, 0):
                uses[segment.writer] = segment.written
            for timeline, task in segment.reads.items() if segment.reads else ():
                if task > uses.get(timeline, 0):
                    uses[timeline] = task
        self._segments = [_Segment(0, nbytes, 0, 0, uses)] if uses else []

    def is_on(self, timeline: int) -> bool:
        """True if all accesses are on one timeline."""
        alone = {timeline}
        return all(
            (segment.writer == timeline or not segment.written) and alone.issuperset(segment.reads)
            for segment in self._segments
        )

    def prune(self, finished: Mapping[int, int]) -> None:
        """Drops segments whose tasks have all finished.

        Args:
            finished: timeline -> its last finished task.
        """

        def is_finished(segment: _Segment) -> bool:
            return segment.written <= finished.get(segment.writer, 0) and all(
                read <= finished.get(reader, 0) for reader, read in segment.reads.items()
            )

        self.other_uses = self.last_uses()
        self._segments = [segment for segment in self._segments if not is_finished(segment)]
        self.report_all(reports=self.reports_all)

    def __len__(self) -> int:
        return len(self._segments)

    def _overlapping(self, start: int, stop: int) -> list[_Segment]:
        segments = self._segments
        first = max(0, bisect_right(segments, start, key=_start_of) - 1) if len(segments) > 1 else 0
        overlapping = []
        for position in range(first, len(segments)):  # a slice would copy all segments behind `first`
            segment = segments[position]
            if segment.start >= stop:
                break
            if segment.stop > start < stop:  # an empty range overlaps nothing
                overlapping.append(segment)
        return overlapping

    def _tile(self, start: int, stop: int) -> list[_Segment]:
        """Segments that cover [start, stop) exactly: splits existing ones at its ends, and fills gaps."""
        if start >= stop:
            return []
        segments, position = self._segments, 0
        if len(segments) > _FEW_SEGMENTS:  # else a loop is faster
            position = max(0, bisect_right(segments, start, key=_start_of) - 1)
        while position < len(segments) and segments[position].stop <= start:
            position += 1
        if position < len(segments) and segments[position].start < start:
            position = self._split(position, start)
        tiles: list[_Segment] = []
        at = start
        while at < stop:
            segment = segments[position] if position < len(segments) else None
            if segment is None or segment.start > at:
                gap_stop = stop if segment is None else min(stop, segment.start)
                segment = _Segment(at, gap_stop, 0, 0, {})
                segments.insert(position, segment)
            elif segment.stop > stop:
                self._split(position, stop)
            tiles.append(segment)
            at = segment.stop
            position += 1
        self.needs_pruning = len(segments) > self._limit
        return tiles

    def _join(self) -> None:
        """Merges neighbours with equal histories, so that later accesses register fewer segments.

        Only after reads of the whole buffer: the next read of a part would split merged segments again.
        """
        segments = self._segments
        joined, start = list[_Segment](), segments[0].start
        for segment, other in zip_longest(segments, segments[1:]):
            writer, written, reads = segment.writer, segment.written, segment.reads
            if other is None or other.written != written or other.writer != writer or other.reads != reads:
                joined.append(
                    segment if segment.start == start else _Segment(start, segment.stop, writer, written, reads)
                )
                start = segment.stop
        self._segments = joined
        self.needs_pruning = len(joined) > self._limit

    def _split(self, position: int, at: int) -> int:
        """Splits the segment at a position; returns the position of its second part."""
        segment = self._segments[position]
        tail = _Segment(at, segment.stop, segment.writer, segment.written, dict(segment.reads))
        segment.stop = at
        self._segments.insert(position + 1, tail)
        return position + 1


def _start_of(segment: _Segment) -> int:
    return segment.start


def register(
    writes: Sequence[Range],
    reads: Sequence[Range],
    timeline: int,
    task: int,
    renewed: Callable[[Buffer], AccessHistory],
) -> Dependencies:
    """Registers the accesses of a task, and returns its dependencies. Calls nothing for whole arrays again.

    Args:
        renewed: returns the history of a buffer that has none, or whose history needs pruning.
    """
    dependencies: Dependencies = {}
    for is_write, ranges in ((True, writes), (False, reads)):
        for buffer, start, stop in ranges:
            history: AccessHistory | None = buffer.history
            if history is None or history.needs_pruning:
                history = renewed(buffer)
            segments = history._segments
            if len(segments) != 1 or (segment := segments[0]).start != start or segment.stop != stop:
                (history.write if is_write else history.read)(start, stop, timeline, task, dependencies)
                continue
            if written := segment.written:
                writer = segment.writer
                if written > dependencies.get(writer, 0) and (writer != timeline or written != task):
                    dependencies[writer] = written
            if not is_write:
                segment.reads[timeline] = task
                continue
            history.written = True
            if segment.reads:
                for reader, read in segment.reads.items():
                    if read > dependencies.get(reader, 0) and (reader != timeline or read != task):
                        dependencies[reader] = read
                segment.reads = {}
            segment.writer, segment.written = timeline, task
    return dependencies


def writers_of(ranges: Sequence[Range]) -> set[tuple[int, int]]:
    """Returns the last writers of each part of the ranges, as (timeline, task)."""
    writers = set[tuple[int, int]]()
    for buffer, start, stop in ranges:
        history: AccessHistory | None = buffer.history
        segments = () if history is None else history._segments
        if len(segments) == 1 and (segment := segments[0]).start <= start < stop <= segment.stop:
            writers.add((segment.writer, segment.written))
        elif history is not None:
            writers.update(history.writers(start, stop))
    return writers
