"""The recordings of a graph: one for each choice of inputs that is kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from weakref import WeakSet

from vkcompute.core.buffer import Buffer, compute_readers
from vkcompute.core.command import CommandPool
from vkcompute.errors import OutOfDeviceMemory
from vkcompute.runtime.graphs.aliasing import Apart
from vkcompute.runtime.graphs.host_arrays import HostArrays, Staging
from vkcompute.runtime.graphs.inputs import Addresses, Choice
from vkcompute.runtime.graphs.ports import LARGE_BYTES, Ports, whole
from vkcompute.runtime.memory.context import Context, cached
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.recording import Recording
from vkcompute.runtime.scheduling.residency import Pin
from vkcompute.runtime.scheduling.task import Bindings, BufferMap, Task

_MAX_KEPT = 4  # choices of inputs besides the default; each keeps its arrays alive
_MAX_SEEN = 16  # choices of large arrays that were copied once
_MAX_PENDING = 3  # runs of one choice at a time, if each needs its own staging memory
Key = tuple[Any, Addresses]
"""the numbers of a run, and the addresses of the arrays that are bound, None for those that are copied"""


class GraphRecording(Recording):
    """A recording of a graph's tasks. Its command buffer returns to the pool when nobody has the recording any more.

    A thread that is about to replay it has it, also if another thread drops it from the cache meanwhile.

    Args:
        own: memory that only this graph uses, of which a run replaces all.

    Attributes:
        staging: the staging memory of its runs, if the graph has host arrays.
        copied: the numbers of the ports whose memory is copied before and after a run.
        ranges: that memory, by port; the cache may have other memory since, as it frees its own when memory is full.
        pin: keeps its buffers where they are.
    """

    __slots__ = ("__weakref__", "copied", "pin", "ranges", "staging")

    def __init__(
        self,
        pool: CommandPool,
        tasks: list[Task],
        limit_s: float | None,
        own: Collection[Buffer],
        staging: Staging | None,
        copied: Sequence[int],
        ranges: Sequence[Range],
        pin: Pin,
    ) -> None:
        super().__init__(pool, tasks, limit_s)
        self.staging, self.copied, self.ranges, self.pin = staging, copied, ranges, pin
        self.reads = [span for span in self.reads if span[0] not in own]
        self.writes = [span for span in self.writes if span[0] not in own] + [whole(buffer) for buffer in own]
        written = {*self.writes}
        self.unwritten = [span for span in self.reads if span not in written]
        pool.release_with(self, self.handle)


class RecordingCache:
    """The recordings of one graph. All methods require the device's lock.

    A recording binds large arrays, and copies others from and to memory of its own. So it serves any small ones.

    Args:
        default: the choice of inputs that is recorded at once and always kept; None if all runs give their own.
        memory: of the temporaries.

    Attributes:
        first: the recording for the default inputs.
        family: the queue family that they can be submitted to.
    """

    def __init__(
        self,
        runtime: Context,
        default: Choice | None,
        tasks: list[Task],
        apart: list[Apart],
        memory: BufferMap,
        arrays: HostArrays,
        ports: Ports,
    ) -> None:
        self._runtime, self._tasks, self._memory, self._arrays, self._ports = runtime, tasks, memory, arrays, ports
        self._apart, self._n_runs = apart, 0
        self._kept: dict[Any, list[GraphRecording]] = {}
        self._seen: dict[Any, None] = {}
        self._copied: Addresses = (None,) * len(ports.ports)
        scheduler = runtime.scheduler
        queue = scheduler.placement.recording_queue
        # Where submits are dear, runs of a function join the batch of what is launched around them.
        joins = default is None and not arrays.used and not scheduler.submits_early
        self._pool, self.family = CommandPool(queue, secondary=joins), queue.family
        self._default = None if default is None else default.exact
        self.first = None if default is None else self.choose(default)
        self._all = cached(runtime, RecordingCache, WeakSet[RecordingCache], release=_drop_others)
        self._all.add(self)

    def choose(self, choice: Choice) -> GraphRecording:
        """Returns a recording for these inputs, with staging memory that is free, or the next to be free."""
        key = self._key_of(choice)
        try:
            return self._chosen(key, choice)
        except ValueError:
            if key not in self._seen:
                raise
        del self._seen[key]  # a view that cannot be bound, as its first byte is badly aligned
        return self._chosen(_unbound(key), choice)

    def _chosen(self, key: Key, choice: Choice) -> GraphRecording:
        alike = self._kept.get(key, [])
        for recording in alike:
            staging = recording.staging
            if staging is None or staging.run is None or staging.run.done():
                return recording
        oldest = min(alike, key=lambda recording: recording.staging.number if recording.staging else 0, default=None)
        if oldest is not None and len(alike) == _MAX_PENDING:
            return oldest
        try:
            recording = self._record(key, choice)
        except OutOfDeviceMemory:
            if oldest is None or oldest not in self._kept.get(key, []):
                raise
            return oldest
        alike = self._kept.get(key, [])  # it may have been dropped to free memory
        if not alike and len(self._kept) > _MAX_KEPT:
            self._drop(next(key for key in self._kept if key != self._default))
        self._kept[key] = [*alike, recording]
        return recording

    def _key_of(self, choice: Choice) -> Key:
        """The numbers of a choice, and the addresses of the arrays that are to be bound, None for those to be copied.

        Large arrays are bound once they are given for the second time, since recording takes longer than a copy.
        Results are copied: a recording that binds one keeps its memory from the pool, so no other result has it.
        """
        spans, may_copy = choice.spans, self._ports.may_copy(choice.spans)
        is_small = may_copy and max([stop - start for _, start, stop in spans], default=0) < LARGE_BYTES
        if self._default is None and is_small:
            return choice.exact[0], self._copied
        (values, addresses) = exact = choice.exact if self._default is not None else self._exact(choice)
        if exact in self._kept or exact == self._default or not may_copy:
            return exact
        if is_small:
            return _unbound(exact)
        large = [
            None if address is None or span[2] - span[1] < LARGE_BYTES else address
            for address, span in zip(addresses, spans, strict=True)
        ]
        key = values, tuple(large)
        if key == _unbound(exact):
            return key
        if key in self._kept or key in self._seen:
            return key
        self._seen[key] = None
        if len(self._seen) > _MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        return _unbound(exact)

    def _exact(self, choice: Choice) -> Key:
        """The key of a recording of a function that binds all arguments."""
        pairs = zip(self._ports.ports, choice.spans, strict=True)
        return choice.exact[0], tuple([span[0].location + span[1] if port.is_read else None for port, span in pairs])

    def replay(self, recording: GraphRecording, choice: Choice | None, times: int) -> Future:
        """Submits runs, with the copies before and after them. Returns the last future, or the first that failed.

        The caller calls `unlocked` without the lock.
        """
        self._n_runs += 1  # until then, it frees no memory: bringing arrays back may ask for some
        try:
            if choice is None or not recording.copied:
                return self._replay(recording, times)
            given = choice.spans, recording.copied, recording.ranges
            future = self._replay(recording, times, self._ports.copies_in(*given))
            copies, scheduler = self._ports.copies_out(*given), self._runtime.scheduler
            if copies is None or future.failed:
                return future
            compute_readers(copies.writes)
            scheduler.restore([span[0] for span in copies.writes])
            return Future(*scheduler.enqueue_task(copies))
        finally:
            self._n_runs -= 1

    def _replay(self, recording: GraphRecording, times: int, before: Task | None = None) -> Future:
        """Submits runs, as many per submit as its limit permits."""
        scheduler, cost = self._runtime.scheduler, recording.cost
        while True:
            if scheduler.submit_limit_s is not None:  # the cost may have been updated
                for queue in scheduler.queues:
                    queue.poll_task()
                cost.update()
            n = times if cost.load * times <= 1 else max(1, int(1 / cost.load))
            future = scheduler.replay(recording, self.family, n, before)
            times, before = times - n, None
            if not times or future.failed:
                return future

    def _record(self, key: Key, choice: Choice) -> GraphRecording:
        copied = [number for number, address in enumerate(key[1]) if address is None]
        bound = {
            port.buffer: span[:2]
            for port, span, address in zip(self._ports.ports, choice.spans, key[1], strict=True)
            if address is not None
        }
        ranges = self._ports.ranges if copied else []
        own = {**self._memory, **{self._ports.ports[i].buffer: ranges[i][:2] for i in copied}}
        buffer_map, staging = own, None
        if self._arrays.used:
            staging = Staging(self._runtime, self._arrays.up, [*self._arrays.reports, *self._arrays.down])
            buffer_map = {**buffer_map, **staging.buffer_map}
        for constraint in self._apart:
            constraint.rebased({**own, **bound}).check(self._runtime)
        bindings: Bindings = {}
        scheduler, pin = self._runtime.scheduler, Pin()
        scheduler.residency.pin(pin, [target[0] for target in (*bound.values(), *buffer_map.values())])
        tasks = [task.rebased(bound, choice.values).resolved(buffer_map, bindings) for task in self._tasks]
        own_buffers = {target[0] for target in own.values()}
        return GraphRecording(self._pool, tasks, scheduler.submit_limit_s, own_buffers, staging, copied, ranges, pin)

    def _drop(self, key: Any) -> None:
        del self._kept[key]

    def drop_others(self) -> None:
        """Drops all recordings but those for the default inputs, and the memory for copies, to free memory."""
        if self._n_runs:
            return
        for key in self._kept.keys() - {self._default}:
            self._drop(key)
        self._ports.release()

    def close(self) -> None:
        """Drops all recordings, once no run is pending."""
        self._all.discard(self)
        self._pool.close()


def _unbound(key: Key) -> Key:
    """The key of a recording with these numbers that copies all arrays."""
    return key[0], (None,) * len(key[1])


def _drop_others(caches: WeakSet[RecordingCache]) -> None:
    for recordings in list(caches):
        recordings.drop_others()
