"""The recordings of a graph: one for each choice of inputs that is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

from vkcompute.core.command import CommandPool
from vkcompute.errors import OutOfDeviceMemory
from vkcompute.runtime.graphs.aliasing import Apart
from vkcompute.runtime.graphs.host_arrays import HostArrays, Staging
from vkcompute.runtime.graphs.inputs import Inputs
from vkcompute.runtime.memory.context import Context, cached
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.recording import Recording
from vkcompute.runtime.scheduling.residency import Pin
from vkcompute.runtime.scheduling.task import Bindings, BufferMap, Task

_MAX_KEPT = 4  # choices of inputs besides the default; each keeps its arrays alive
_MAX_PENDING = 3  # runs of one choice at a time, if each needs its own staging memory


class GraphRecording(Recording):
    """A recording of a graph's tasks.

    Attributes:
        staging: the staging memory of its runs, if the graph has host arrays.
        pin: keeps its buffers where they are.
    """

    __slots__ = ("pin", "staging")

    def __init__(
        self, pool: CommandPool, tasks: list[Task], staging: Staging | None, limit_s: float | None, pin: Pin
    ) -> None:
        super().__init__(pool, tasks, limit_s)
        self.staging, self.pin = staging, pin


class RecordingCache:
    """The recordings of one graph. All methods require the device's lock.

    Attributes:
        first: the one for the default inputs.
        family: the queue family that they can be submitted to.
    """

    def __init__(
        self,
        runtime: Context,
        inputs: Inputs,
        tasks: list[Task],
        apart: list[Apart],
        memory: BufferMap,
        arrays: HostArrays,
    ) -> None:
        self._runtime, self._inputs, self._tasks, self._memory, self._arrays = runtime, inputs, tasks, memory, arrays
        self._apart = apart
        self._kept: dict[Any, list[GraphRecording]] = {}
        queue = runtime.scheduler.placement.recording_queue
        self._pool, self.family = CommandPool(queue), queue.family
        self.first = self.choose({})
        self._all = cached(runtime, RecordingCache, WeakSet[RecordingCache], release=_drop_others)
        self._all.add(self)

    def choose(self, given: Mapping[str, Any]) -> GraphRecording:
        """Returns a recording for these inputs, with staging memory that is free, or the next to be free."""
        key = self._inputs.key(given)
        alike = self._kept.get(key, [])
        for recording in alike:
            staging = recording.staging
            if staging is None or staging.run is None or staging.run.done():
                return recording
        oldest = min(alike, key=lambda recording: recording.staging.number if recording.staging else 0, default=None)
        if oldest is not None and len(alike) == _MAX_PENDING:
            return oldest
        try:
            recording = self._record(given)
        except OutOfDeviceMemory:
            if oldest is None or oldest not in self._kept.get(key, []):
                raise
            return oldest
        alike = self._kept.get(key, [])  # it may have been dropped to free memory
        if not alike and len(self._kept) > _MAX_KEPT:
            self._drop(next(key for key in self._kept if key != self._inputs.default_key))
        self._kept[key] = [*alike, recording]
        return recording

    def replay(self, recording: GraphRecording, times: int) -> Future:
        """Submits runs, as many per submit as its limit permits. Returns the last future, or the first that failed."""
        scheduler, cost = self._runtime.scheduler, recording.cost
        while True:
            if scheduler.submit_limit_s is not None:  # the cost may have been updated
                for queue in scheduler.queues:
                    queue.poll_task()
                cost.update()
            n = times if cost.load * times <= 1 else max(1, int(1 / cost.load))
            future = scheduler.replay(recording, self.family, n)
            times -= n
            if not times or future.failed:
                return future

    def _record(self, given: Mapping[str, Any]) -> GraphRecording:
        inputs, buffer_map, staging = self._inputs.resolved(given), self._memory, None
        if self._arrays.used:
            staging = Staging(self._runtime, self._arrays.up, [*self._arrays.reports, *self._arrays.down])
            buffer_map = {**buffer_map, **staging.buffer_map}
        for constraint in self._apart:
            constraint.rebased(inputs[0]).check(self._runtime)
        bindings: Bindings = {}
        scheduler, pin = self._runtime.scheduler, Pin()
        scheduler.residency.pin(pin, [target[0] for target in (*inputs[0].values(), *buffer_map.values())])
        tasks = [task.rebased(*inputs).resolved(buffer_map, bindings) for task in self._tasks]
        return GraphRecording(self._pool, tasks, staging, scheduler.submit_limit_s, pin)

    def _drop(self, key: Any) -> None:
        for recording in self._kept.pop(key):
            self._runtime.device.deletion_queue.append((self._pool.release, 0, recording.handle))

    def drop_others(self) -> None:
        """Drops all recordings but those for the default inputs, to free memory."""
        for key in self._kept.keys() - {self._inputs.default_key}:
            self._drop(key)

    def close(self) -> None:
        """Drops all recordings, once no run is pending."""
        self._all.discard(self)
        self._pool.close()


def _drop_others(caches: WeakSet[RecordingCache]) -> None:
    for recordings in list(caches):
        recordings.drop_others()
