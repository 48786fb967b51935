"""Recordings: tasks in a command buffer that is submitted, or executed in batches, any number of times."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain

from vkcompute.core.buffer import Buffer
from vkcompute.core.command import BEGIN_REUSABLE, BEGIN_SECONDARY, CommandPool, Recorder, array_of
from vkcompute.runtime.scheduling.access_history import AccessHistory, Dependencies, Range
from vkcompute.runtime.scheduling.command_queue import Timeline
from vkcompute.runtime.scheduling.cost import NOTHING, Mix
from vkcompute.runtime.scheduling.task import Task

_COPIED_PER_S = 1e9  # bytes, a lower bound


class Recording:
    """A command buffer with tasks. It may be submitted again while it runs, and never changes.

    It begins with a barrier against everything before it on its queue. The constructor requires the device's lock.

    Args:
        pool: of secondary command buffers for one that other command buffers execute.

    Attributes:
        handle: the VkCommandBuffer.
        commands: it as an array of one, for `Recorder.execute`; None for a primary one, which is submitted itself.
        writes: the bytes that the tasks write.
        reads: the bytes that they read before they write them.
        unwritten: the `reads` that a run registers. A `GraphRecording` leaves out those that are in `writes`, too: the
            dependencies of a write include those of the read.
        tasks: the tasks.
        cost: of a run.
    """

    __slots__ = ("commands", "cost", "handle", "reads", "tasks", "unwritten", "writes")

    def __init__(self, pool: CommandPool, tasks: list[Task], limit_s: float | None) -> None:
        self.tasks, self.cost = tasks, _cost(tasks, limit_s)
        self.cost.update()
        self.handle = pool.acquire()
        self.commands = array_of(self.handle) if pool.secondary else None
        try:
            self._record(pool)
        except BaseException:
            pool.discard(self.handle)
            raise

    def _record(self, pool: CommandPool) -> None:
        timeline, histories = Timeline(0), defaultdict[Buffer, AccessHistory](AccessHistory)
        reads: list[Range] = []
        begin = BEGIN_SECONDARY if pool.secondary else BEGIN_REUSABLE
        recorder = timeline.recorder = pool.device.retry(Recorder, pool.queue, self.handle, begin)
        recorder.barrier()
        for number, task in enumerate(self.tasks, 1):
            dependencies: Dependencies = {}
            for buffer, start, stop in task.reads:
                reads += [(buffer, *part) for part in histories[buffer].unwritten(start, stop)]
            for buffer, start, stop in task.writes:
                histories[buffer].write(start, stop, 0, number, dependencies)
            for buffer, start, stop in task.reads:
                histories[buffer].read(start, stop, 0, number, dependencies)
            if dependencies:
                timeline.order_after(dependencies[0])
            task.record(recorder)
            timeline.recorded = number
        if pool.secondary:
            recorder.end_commands()  # results reach the host at the end of the batch
        else:
            recorder.end()
        self.writes, self.reads = _merged(task.writes for task in self.tasks), _merged([reads])
        self.unwritten = self.reads


def _cost(tasks: Sequence[Task], limit_s: float | None) -> Mix:
    if limit_s is None:
        return Mix({})
    copied = [where for task in tasks if task.cost is NOTHING for where in task.writes]
    rest = sum(stop - start for _, start, stop in copied) / _COPIED_PER_S / limit_s
    return Mix(Counter(task.cost for task in tasks if task.cost is not NOTHING), rest)


def _merged(ranges: Iterable[Iterable[Range]]) -> list[Range]:
    """The ranges, with overlapping and adjacent ones merged."""
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
