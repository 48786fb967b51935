"""Ports of a graph: placeholders whose memory differs from run to run, and the copies that spare new recordings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from vkcompute.core import vk
from vkcompute.core.buffer import Buffer
from vkcompute.core.command import Recorder
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.placeholders import Placeholder
from vkcompute.runtime.scheduling.task import Task, buffers_of

LARGE_BYTES = 1 << 20
"""From this size on, an array whose address repeats is bound by a recording of its own, instead of copied.

Copies of 1 MiB take 0.1 ms on lavapipe, and a recording of 60 launches takes 6 ms there.
"""


class Port(NamedTuple):
    """A placeholder that is an input or a result of a graph.

    Attributes:
        is_read: True if a run begins with the content of the caller's memory.
        is_written: True if the run changes it.
    """

    buffer: Buffer
    is_read: bool
    is_written: bool


class RangeCopies(Task):
    """Copies ranges to others of the same lengths.

    Args:
        pairs: (source, target), none of which overlap.
    """

    __slots__ = ("_pairs",)
    name = "copy"

    def __init__(self, pairs: Sequence[tuple[Range, Range]], writes: Sequence[Range], reads: Sequence[Range]) -> None:
        super().__init__(writes, reads)
        self._pairs = pairs

    def record(self, recorder: Recorder) -> None:
        regions, first, handles = vk.ffi.new("VkBufferCopy[]", len(self._pairs)), 0, None
        for number, ((source, start, stop), (target, at, _)) in enumerate(self._pairs):
            between = source.block.handle, target.block.handle
            if handles is not None and between != handles:
                recorder.copy(*handles, regions + first, number - first)
                first = number
            handles, region = between, regions[number]
            region.srcOffset, region.dstOffset, region.size = source.offset + start, target.offset + at, stop - start
        if handles is not None:
            recorder.copy(*handles, regions + first, len(self._pairs) - first)


class Ports:
    """The ports of a graph, with memory of its own for runs that copy them.

    Args:
        tasks: of the graph.

    Attributes:
        ports: the ports.
    """

    def __init__(self, runtime: Context, ports: Sequence[Port], tasks: Sequence[Task]) -> None:
        self._runtime, self.ports = runtime, ports
        self._kept = {buffer for task in tasks for buffer in buffers_of(task) if not isinstance(buffer, Placeholder)}
        self._written = {span[0] for task in tasks for span in task.writes if not isinstance(span[0], Placeholder)}
        self._writes_any = True in [port.is_written for port in ports]

    def may_copy(self, spans: Sequence[Range]) -> bool:
        """True if a run on copies has the same results as one on these ranges: no writes overlap other accesses."""
        buffers = {span[0] for span in spans}
        if not (self._kept if self._writes_any else self._written).isdisjoint(buffers):
            return False
        if not self._writes_any or len(buffers) == len(spans):
            return True
        pairs = combinations(zip(self.ports, spans, strict=True), 2)
        return not any((one.is_written or other.is_written) and _overlap(x, y) for (one, x), (other, y) in pairs)

    @cached_property
    def ranges(self) -> list[Range]:
        """The memory of each port in runs that copy it; parts of one buffer, which is allocated on first use."""
        align = self._runtime.device.memory.align
        starts = [0]
        for port in self.ports:
            starts.append(starts[-1] + -(-port.buffer.nbytes // align) * align)
        memory = self._runtime.device.buffer(starts[-1])
        return [(memory, start, start + port.buffer.nbytes) for start, port in zip(starts, self.ports, strict=False)]

    def release(self) -> None:
        """Frees the memory, which is allocated again on the next use."""
        self.__dict__.pop("ranges", None)

    def copies_in(self, spans: Sequence[Range], copied: Sequence[int], ranges: Sequence[Range]) -> RangeCopies | None:
        """The task before a run, which copies what is read to the memory of a recording; None for nothing."""
        pairs = [(spans[i], ranges[i]) for i in copied if self.ports[i].is_read and spans[i][1] < spans[i][2]]
        return RangeCopies(pairs, [whole(pairs[0][1][0])], [pair[0] for pair in pairs]) if pairs else None

    def copies_out(self, spans: Sequence[Range], copied: Sequence[int], ranges: Sequence[Range]) -> RangeCopies | None:
        """The task after a run, which copies what is written; None for nothing."""
        written = [i for i in copied if self.ports[i].is_written and spans[i][1] < spans[i][2]]
        pairs = [((*ranges[i][:2], ranges[i][1] + spans[i][2] - spans[i][1]), spans[i]) for i in written]
        return RangeCopies(pairs, [pair[1] for pair in pairs], [whole(pairs[0][0][0])]) if pairs else None


def whole(memory: Buffer) -> Range:
    """The range of all bytes of a buffer."""
    return memory, 0, memory.nbytes


def _overlap(one: Range, other: Range) -> bool:
    return one[0] is other[0] and one[1] < other[2] and other[1] < one[2]
