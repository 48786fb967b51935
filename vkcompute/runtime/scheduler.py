"""Decides what a task has to wait for, and when a batch of tasks is submitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vkcompute.core.buffer import Buffer
from vkcompute.core.device import Device
from vkcompute.core.queue import Point
from vkcompute.runtime import current
from vkcompute.runtime.future import Future
from vkcompute.runtime.graph_tasks import Copy, Fill
from vkcompute.runtime.hazards import After, Uses
from vkcompute.runtime.lane import Lane, fewest
from vkcompute.runtime.placement import Placement
from vkcompute.runtime.watcher import Watcher

if TYPE_CHECKING:
    from vkcompute.core.descriptors import DescriptorSets
    from vkcompute.runtime.graph import Graph
    from vkcompute.runtime.kernel import Kernel
    from vkcompute.runtime.profile import Profile

Range = tuple[Buffer, int, int]
"""(buffer, start, stop), in bytes"""

# A batch is submitted when somebody waits for it, when it has so many tasks, or when its copies move so many bytes.
BATCH_TASKS = 64
BATCH_BYTES = 16 << 20


class Scheduler:
    """All work of one device goes through here, in the order of the calls.

    Tasks with nothing in common may run at the same time, or in another order. Its lock is the device's.
    """

    def __init__(self, device: Device, owner: object) -> None:
        self._owner = owner  # so that a future, which holds its scheduler, holds the runtime with the device
        self.device, self.lock = device, device.lock
        self.lanes = [Lane(index, queue) for index, queue in enumerate(device.queues)]
        self.placement = Placement(device, self.lanes, self.uses)
        self.compute, self.transfer = self.placement.compute, self.placement.transfer
        self._only = self.lanes[0] if len(self.lanes) == 1 else None
        self.n_recordings = 0  # graphs being recorded, wherever
        device.submit_recorded = self._flush_lanes
        self.watcher = Watcher()
        self.profile: Profile | None = None

    def recording(self) -> Graph | None:
        """The graph that records what is launched here (see `current`), if any."""
        return current.find(self) if self.n_recordings else None

    def dispatch(
        self,
        command: Sequence[Any],
        writes: Sequence[Range],
        reads: Sequence[Range],
        queue: int | str | None,
        keep: tuple[Kernel, DescriptorSets],
    ) -> Future:
        """Launches a kernel; `command` is what `Recorder.dispatch` takes, `keep` the kernel and what it points at."""
        with self.lock:
            if queue is not None and (self.placement.allowed(queue)[0] not in self.compute or queue == "transfer"):
                raise ValueError(f"queue {queue!r} of {self.device} only copies; a kernel needs a compute queue")
            lane = self._begin(writes, reads, queue)
            dispatch = lane.recorder.dispatch  # type: ignore[union-attr]
            if self.profile is None:
                dispatch(*command)
            else:
                self._measured(lane, keep[0].name, writes, reads, dispatch, *command)
            return self._end(lane, 0)

    def copy(
        self, regions: Any, n_regions: int, source: Range, target: Range, queue: int | str | None = None
    ) -> Future:
        """Copies regions (a VkBufferCopy array) from the bytes of `source` to those of `target`."""
        if (graph := self.recording()) is not None:
            return graph.add(Copy(regions, n_regions, source, target))
        with self.lock:
            blocks = source[0].block.handle, target[0].block.handle
            lane = self._begin((target,), (source,), queue)
            copy = lane.recorder.copy  # type: ignore[union-attr]
            self._measured(lane, "copy", (target,), (source,), copy, *blocks, regions, n_regions)
            return self._end(lane, target[2] - target[1])

    def fill(self, target: Range, word: int) -> Future:
        """Fills with a 32-bit word; the range's ends are multiples of 4."""
        if (graph := self.recording()) is not None:
            return graph.add(Fill(target, word))
        buffer, start, stop = target
        with self.lock:
            block, at = buffer.block.handle, buffer.offset + start
            lane = self._begin((target,), (), None)
            fill = lane.recorder.fill  # type: ignore[union-attr]
            self._measured(lane, "fill", (target,), (), fill, block, at, stop - start, word)
            return self._end(lane, 0)

    def nothing(self) -> Future:
        """The future of a copy of no bytes: finished."""
        return Future(self, self.lanes[0], 0)

    def replay(
        self, command_buffers: list[Any], family: int, writes: Sequence[Range], reads: Sequence[Range]
    ) -> Future:
        """Submits command buffers of a queue family that put themselves in order with all before them."""
        with self.lock:
            lane = self._only or self.placement.choose(writes, reads, None, family)
            task = lane.task + 1
            try:
                after = self._note(lane, writes, reads, task)
                after.pop(lane.index, None)  # they begin with a barrier
                if after:
                    lane.wait_for(self.lanes, after)
            finally:
                lane.task = task
            self._measured(lane, "graph", writes, reads, lane.submit, command_buffers)
            self.device.retirement.collect()
            return self._future(lane)

    def _measured(
        self,
        lane: Lane,
        name: str,
        writes: Sequence[Range],
        reads: Sequence[Range],
        record: Callable[..., None],
        *args: Any,
    ) -> None:
        """Records a task by `record(*args)`, and tells the profile of it, if there is one."""
        profile = self.profile
        if profile is None:
            record(*args)
            return
        start_ns = profile.start(lane)
        record(*args)
        profile.stop(lane, name, sum(stop - start for _, start, stop in (*writes, *reads)), start_ns)

    def _begin(self, writes: Sequence[Range], reads: Sequence[Range], queue: int | str | None) -> Lane:
        """A lane whose recorder stands where a task with these ranges may be recorded."""
        lane = self._only or self.placement.choose(writes, reads, queue)
        task = lane.task + 1
        try:
            after = self._note(lane, writes, reads, task)
            own = after.pop(lane.index, 0)
            if after:
                lane.wait_for(self.lanes, after)
            lane.open()
            if own:
                lane.order(own)
        finally:
            lane.task = task  # where a step failed too: the number is in the notes, and not to be given twice
        return lane

    def _note(self, lane: Lane, writes: Sequence[Range], reads: Sequence[Range], task: int) -> After:
        after: After = {}
        strand = lane.index
        for buffer, start, stop in writes:
            self.uses(buffer).write(start, stop, strand, task, after)
        for buffer, start, stop in reads:
            self.uses(buffer).read(start, stop, strand, task, after)
        return after

    def uses(self, buffer: Buffer) -> Uses:
        """The history of a buffer."""
        uses: Uses | None = buffer.uses
        if uses is None:
            uses = buffer.uses = Uses()
        elif uses.crowded:
            uses.forget({lane.index: lane.finished_task() for lane in self.lanes})
        return uses

    def _end(self, lane: Lane, nbytes: int) -> Future:
        future = self._future(lane)
        lane.n_batched += 1
        lane.batched_bytes += nbytes
        if lane.n_batched >= BATCH_TASKS or lane.batched_bytes >= BATCH_BYTES:
            lane.flush()
            self.device.retirement.collect()
        return future

    def _future(self, lane: Lane) -> Future:
        future = Future(self, lane, lane.task)
        if self._only is None:
            future._why = self.placement.reason
        return future

    def flush(self) -> None:
        """Submits every open batch, and frees what is no longer in use."""
        with self.lock:
            self._flush_lanes()
            self.device.retirement.collect()

    def _flush_lanes(self) -> None:
        for lane in self.lanes:
            lane.flush()

    def points(self, after: After) -> list[Point]:
        """The moments when the tasks in `after` are finished. Submits them if need be."""
        with self.lock:
            moments = {self.lanes[index]: self.lanes[index].value_of(task) for index, task in after.items()}
            return [Point(lane.queue, value) for lane, value in fewest(moments).items()]

    def wait(self) -> None:
        """Waits for all work given so far."""
        self.flush()
        for lane in self.lanes:
            lane.queue.wait(lane.queue.last_value)

    def close(self, error: Exception) -> None:
        """Ends the watcher's thread, and makes all further work fail with `error`, on whatever thread it is made."""
        with self.lock:
            self._refuse(error)
        self.watcher.close(error)

    def abandon(self, error: Exception) -> None:
        """In a forked child: makes all work fail with `error`, without waiting for threads that do not exist here."""
        self.device.renew_locks()
        self.lock = self.device.lock
        self.watcher.abandon(error)
        self._refuse(error)

    @property
    def failed(self) -> bool:
        """Whether a queue has stopped to take work."""
        return any(lane.failure for lane in self.lanes)

    def _refuse(self, error: Exception) -> None:
        for lane in self.lanes:
            lane.failure = lane.failure or error
