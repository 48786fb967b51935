"""Recordings: a graph's tasks in command buffers, one for each choice of inputs that is kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from vkcompute.core.buffer import Buffer
from vkcompute.core.command import CommandPool, Recorder
from vkcompute.errors import OutOfDeviceMemory
from vkcompute.runtime.cost import NOTHING, Mix
from vkcompute.runtime.graph_arrays import Arrays, Staging
from vkcompute.runtime.graph_inputs import Inputs
from vkcompute.runtime.graph_tasks import Bindings, Places, Task
from vkcompute.runtime.hazards import After, Uses
from vkcompute.runtime.lane import Strand

if TYPE_CHECKING:
    from vkcompute.runtime.future import Future
    from vkcompute.runtime.runtime import Runtime
    from vkcompute.runtime.scheduler import Range

_MOST_KEPT = 4  # choices of inputs beside the first; each holds its tensors
_COPIED_PER_S = 1e9  # bytes, at the least
_MOST_PENDING = 3  # runs at a time of one choice, where each needs staging memory of its own


class Recording:
    """Made with the device's lock held; submitted any number of times, also while it runs. It is never changed.

    It puts itself in order against what comes before it on its queue.

    Attributes:
        handle: the VkCommandBuffer.
        writes: the bytes that the tasks write, all together.
        reads: those that they read before they have written them.
        staging: what its runs pass arrays of the host through, if they do.
        tasks: what is recorded.
        cost: of a run.
    """

    __slots__ = ("cost", "handle", "reads", "staging", "tasks", "writes")

    def __init__(
        self, pool: CommandPool, tasks: list[Task], staging: Staging | None, limit_s: float | None = None
    ) -> None:
        self.tasks, self.cost = tasks, _cost(tasks, limit_s)
        self.cost.look()
        self.handle, self.staging = pool.take(), staging
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


class Recordings:
    """Those of one graph. All methods are called with the device's lock held.

    Attributes:
        first: the one for the inputs that the graph was recorded with.
        family: the queue family that they may be submitted to.
    """

    def __init__(self, runtime: Runtime, inputs: Inputs, tasks: list[Task], memory: Places, arrays: Arrays) -> None:
        self._runtime, self._inputs, self._tasks, self._memory, self._arrays = runtime, inputs, tasks, memory, arrays
        self._kept: dict[Any, list[Recording]] = {}
        queue = runtime.scheduler.placement.recorded_for
        self._pool, self.family = CommandPool(queue), queue.family
        self.first = self.choose({})
        runtime.recordings.add(self)

    def choose(self, given: Mapping[str, Any]) -> Recording:
        """A recording for these inputs, whose staging memory is free, or is so before that of others like it."""
        key = self._inputs.key(given)
        alike = self._kept.get(key, [])
        for recording in alike:
            staging = recording.staging
            if staging is None or staging.run is None or staging.run.done():
                return recording
        oldest = min(alike, key=lambda recording: recording.staging.number if recording.staging else 0, default=None)
        if oldest is not None and len(alike) == _MOST_PENDING:
            return oldest
        try:
            recording = self._record(given)
        except OutOfDeviceMemory:
            if oldest is None or oldest not in self._kept.get(key, []):
                raise
            return oldest
        alike = self._kept.get(key, [])  # which may have been given up for its memory
        if not alike and len(self._kept) > _MOST_KEPT:
            self._give_up(next(key for key in self._kept if key != self._inputs.default_key))
        self._kept[key] = [*alike, recording]
        return recording

    def replay(self, recording: Recording, times: int) -> Future:
        """Submits runs, as many at a time as fit. The future is that of the last submit, or the first that failed."""
        scheduler, cost = self._runtime.scheduler, recording.cost
        while True:
            if scheduler.submit_limit_s is not None:  # what they take may have changed
                for lane in scheduler.lanes:
                    lane.finished_task()
                cost.look()
            n = times if cost.load * times <= 1 else max(1, int(1 / cost.load))
            future = scheduler.replay(recording, self.family, n)
            times -= n
            if not times or future.failed:
                return future

    def _record(self, given: Mapping[str, Any]) -> Recording:
        inputs, places, staging = self._inputs.resolved(given), self._memory, None
        if self._arrays.used:
            staging = Staging(self._runtime, self._arrays.up, [*self._arrays.reports, *self._arrays.down])
            places = {**places, **staging.places}
        bindings: Bindings = {}
        tasks = [task.rebased(*inputs).placed(places, bindings) for task in self._tasks]
        return Recording(self._pool, tasks, staging, self._runtime.scheduler.submit_limit_s)

    def _give_up(self, key: Any) -> None:
        for recording in self._kept.pop(key):
            self._runtime.device.retirement.append((self._pool.give, 0, recording.handle))

    def drop_others(self) -> None:
        """Gives up all but those for the first inputs: memory is short."""
        for key in self._kept.keys() - {self._inputs.default_key}:
            self._give_up(key)

    def close(self) -> None:
        """Lets go of them, once no run is pending."""
        self._runtime.recordings.discard(self)
        self._pool.close()


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
