"""A recording: a graph's tasks in a command buffer, for one choice of its inputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

from vkcompute.core.buffer import Buffer
from vkcompute.core.command import CommandPool, Recorder
from vkcompute.runtime.graph_tasks import Task
from vkcompute.runtime.hazards import After, Uses
from vkcompute.runtime.lane import Strand

if TYPE_CHECKING:
    from vkcompute.runtime.scheduler import Range


class Recording:
    """Made with the device's lock held; submitted any number of times, also while it runs. It is never changed.

    It puts itself in order against what comes before it on its queue.

    Attributes:
        handle: the VkCommandBuffer.
        writes, reads: the bytes that the tasks touch, all together.
    """

    __slots__ = ("_tasks", "handle", "reads", "writes")

    def __init__(self, pool: CommandPool, tasks: list[Task]) -> None:
        self._tasks, self.handle = tasks, pool.take()
        strand, uses = Strand(0), defaultdict[Buffer, Uses](Uses)
        recorder = strand.recorder = Recorder(pool.queue, self.handle, reusable=True)
        recorder.barrier()  # against whatever comes before a run
        for number, task in enumerate(tasks, 1):
            after: After = {}
            for buffer, start, stop in task.writes:
                uses[buffer].write(start, stop, 0, number, after)
            for buffer, start, stop in task.reads:
                uses[buffer].read(start, stop, 0, number, after)
            if after:
                strand.order(after[0])
            task.record(recorder)
            strand.task = number
        recorder.end()
        self.writes, self.reads = _merged(task.writes for task in tasks), _merged(task.reads for task in tasks)


def _merged(ranges: Iterable[Iterable[Range]]) -> list[Range]:
    """The ranges with overlapping and adjoining ones merged."""
    touched = defaultdict[Buffer, list[tuple[int, int]]](list)
    for buffer, start, stop in chain.from_iterable(ranges):
        touched[buffer].append((start, stop))
    merged = []
    for buffer, parts in touched.items():
        parts.sort()
        start, stop = parts[0]
        for low, high in parts[1:]:
            if low > stop:
                merged.append((buffer, start, stop))
                start, stop = low, high
            stop = max(stop, high)
        merged.append((buffer, start, stop))
    return merged
