"""Recordings: tasks in a command buffer that is submitted any number of times."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain

from vkcompute.core.buffer import Buffer
from vkcompute.core.command import CommandPool, Recorder
from vkcompute.runtime.scheduling.access_history import After, Range, Uses
from vkcompute.runtime.scheduling.command_queue import Strand
from vkcompute.runtime.scheduling.cost import NOTHING, Mix
from vkcompute.runtime.scheduling.task import Task

_COPIED_PER_S = 1e9  # bytes, at the least


class Recording:
    """Made with the device's lock held; submitted any number of times, also while it runs. It is never changed.

    It puts itself in order against what comes before it on its queue.

    Attributes:
        handle: the VkCommandBuffer.
        writes: the bytes that the tasks write, all together.
        reads: those that they read before they have written them.
        tasks: what is recorded.
        cost: of a run.
    """

    __slots__ = ("cost", "handle", "reads", "tasks", "writes")

    def __init__(self, pool: CommandPool, tasks: list[Task], limit_s: float | None = None) -> None:
        self.tasks, self.cost = tasks, _cost(tasks, limit_s)
        self.cost.look()
        self.handle = pool.take()
        try:
            self._record(pool)
        except BaseException:
            pool.discard(self.handle)
            raise

    def _record(self, pool: CommandPool) -> None:
        strand, uses = Strand(0), defaultdict[Buffer, Uses](Uses)
        reads: list[Range] = []
        recorder = strand.recorder = pool.device.retry(lambda: Recorder(pool.queue, self.handle, reusable=True))
        recorder.barrier()  # against whatever comes before a run
        for number, task in enumerate(self.tasks, 1):
            after: After = {}
            for buffer, start, stop in task.reads:  # what the graph wrote before does not come from outside
                reads += [(buffer, *part) for part in uses[buffer].unwritten(start, stop)]
            for buffer, start, stop in task.writes:
                uses[buffer].write(start, stop, 0, number, after)
            for buffer, start, stop in task.reads:
                uses[buffer].read(start, stop, 0, number, after)
            if after:
                strand.order(after[0])
            task.record(recorder)
            strand.recorded = number
        recorder.end()
        self.writes, self.reads = _merged(task.writes for task in self.tasks), _merged([reads])


def _cost(tasks: Sequence[Task], limit_s: float | None) -> Mix:
    if limit_s is None:
        return Mix({})
    copied = [where for task in tasks if task.cost is NOTHING for where in task.writes]
    rest = sum(stop - start for _, start, stop in copied) / _COPIED_PER_S / limit_s
    return Mix(Counter(task.cost for task in tasks if task.cost is not NOTHING), rest)


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
