"""Decides what a task has to wait for, and when a batch of tasks is submitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

from vkcompute.core.buffer import Buffer
from vkcompute.core.device import Device
from vkcompute.core.queue import Point
from vkcompute.runtime.scheduling import current
from vkcompute.runtime.scheduling.access_history import After, Range, Uses
from vkcompute.runtime.scheduling.command_queue import Failure, Lane, failure_of, fewest
from vkcompute.runtime.scheduling.completion import CompletionTracker
from vkcompute.runtime.scheduling.cost import NOTHING, Cost, Grid, divided
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.placement import Placement
from vkcompute.runtime.scheduling.recording import Recording
from vkcompute.runtime.scheduling.task import Copy, Fill, Keep, Task

# A batch is submitted when somebody waits for it, when it has so many tasks (or fewer, where these take long), or when
# its copies move so many bytes.
BATCH_TASKS = 64
BATCH_BYTES = 16 << 20
_MOST_MEASURED = 10_000  # tasks of a graph's submit that a profile takes apart


class Profiler(Protocol):
    """Measures tasks: is told where the recording of each one starts and stops."""

    def start(self, lane: Lane) -> int:
        """Is called before a task is recorded; the result is passed to `stop`."""

    def stop(self, lane: Lane, name: str, nbytes: int, start_ns: int) -> None:
        """Is called after the task was recorded."""


class Scheduler:
    """All work of one device goes through here, in the order of the calls.

    Tasks with nothing in common may run at the same time, or in another order. Its lock is the device's.
    """

    def __init__(self, device: Device, owner: object, submit_limit_s: float | None = None) -> None:
        self.device, self.lock = device, device.lock
        self.failures: list[Failure] = []
        self._n_settled = self._n_told = 0
        timed = submit_limit_s is not None
        self.lanes = [Lane(index, queue, self.failures, timed=timed) for index, queue in enumerate(device.queues)]
        self.tracker = CompletionTracker(device, self.lanes, self.failures, owner)
        self.callbacks = self.tracker.callbacks
        self.placement = Placement(device, self.lanes)
        self._only = self.lanes[0] if len(self.lanes) == 1 else None
        self.n_recordings = 0  # graphs being recorded, wherever
        device.submit_recorded, device.on_lost = self._flush_lanes, self._refuse
        self.profile: Profiler | None = None
        self.submit_limit_s = submit_limit_s

    def recording(self) -> current.TaskRecorder | None:
        """The graph that records what is launched here (see `current`), if any."""
        return current.find(self) if self.n_recordings else None

    def refuse_recording(self, what: str, remedy: str) -> None:
        """Raises ValueError while a graph records what is launched here."""
        if self.recording() is not None:
            raise ValueError(f"{what} runs at once and cannot be recorded into a graph; {remedy}")

    def dispatch(
        self,
        command: Sequence[Any],
        writes: Sequence[Range],
        reads: Sequence[Range],
        queue: int | str | None,
        keep: Keep,
    ) -> Future:
        """Launches a kernel; `command` is what `Recorder.dispatch` takes, `keep` the kernel, what it points at, and
        what it takes.
        """
        cost = keep[2]
        with self.lock:
            if queue is not None and (
                self.placement.allowed(queue)[0] not in self.placement.compute or queue == "transfer"
            ):
                raise ValueError(f"queue {queue!r} of {self.device} only copies; a kernel needs a compute queue")
            if cost.load > 1 and len(parts := [*divided(command[-1], cost.parts)]) > 1:
                return self._dispatch_parts(parts, command, writes, reads, queue, keep)
            lane = self._begin(writes, reads, queue, cost.load)
            try:
                dispatch = lane.recorder.dispatch  # type: ignore[union-attr]
                if self.profile is None:
                    dispatch(*command)
                else:
                    self._measured(lane, keep[0].name, writes, reads, dispatch, *command)
            except BaseException as error:
                lane.fail(error)
                raise
            return self._end(lane, 0, cost)

    def _dispatch_parts(
        self,
        parts: Sequence[tuple[Grid, Grid]],
        command: Sequence[Any],
        writes: Sequence[Range],
        reads: Sequence[Range],
        queue: int | str | None,
        keep: Keep,
    ) -> Future:
        """Launches a kernel in parts of its grid, each a task and a submit of its own; gives the last one's future."""
        cost = keep[2]
        for base, grid in parts:
            portion = max(1, prod(grid)) / max(1, prod(command[-1]))
            lane = self._begin(writes, reads, queue, cost.load * portion)
            why = self.placement.reason
            dispatch = lane.recorder.dispatch  # type: ignore[union-attr]
            self._measured(lane, keep[0].name, writes, reads, dispatch, *command[:-1], grid, base)
            future = self._end(lane, 0, cost, portion)
            lane.flush()
            # The next one on the same queue; and where one fails, those after it do.
            queue, reads, future._why = lane.index, [*reads, *writes], why
        return future

    def copy(
        self, regions: Any, n_regions: int, source: Range, target: Range, queue: int | str | None = None
    ) -> Future:
        """Copies regions (a VkBufferCopy array) from the bytes of `source` to those of `target`."""
        return self.launch(Copy(regions, n_regions, source, target), queue)

    def fill(self, target: Range, word: int) -> Future:
        """Fills with a 32-bit word; the range's ends are multiples of 4."""
        return self.launch(Fill(target, word))

    def launch(self, task: Task, queue: int | str | None = None) -> Future:
        """Gives a task to a queue, or to the graph that is being recorded."""
        if (recorder := self.recording()) is not None:
            return recorder.add(task)
        writes, reads = task.writes, task.reads
        with self.lock:
            all(buffer.block.handle for buffer in task.buffers)  # which says so where there is no memory
            lane = self._begin(writes, reads, queue)
            self._measured(lane, task.name, writes, reads, task.record, lane.recorder)
            return self._end(lane, sum([stop - start for _, start, stop in writes]))

    def nothing(self) -> Future:
        """The future of a copy of no bytes: finished."""
        return Future(self.tracker, self.lanes[0], 0)

    def replay(self, recording: Recording, family: int, times: int) -> Future:
        """Submits runs to a queue of a family; recordings put themselves in order with all before them.

        Where one takes longer than a submit may, and with a profile, so that each is measured, the tasks are launched
        one by one.
        """
        writes, reads, tasks, cost = recording.writes, recording.reads, recording.tasks, recording.cost
        with self.lock:
            self.tracker.run_callbacks()
            lane = self._only or self.placement.choose(writes, reads, None, family)
            if lane.load + cost.load * times > 1:
                lane.flush()
            apart = cost.load > 1 or (self.profile is not None and 0 < len(tasks) * times <= _MOST_MEASURED)
            if apart and self._failure_before(reads) is None:
                why = self.placement.reason  # of the lane for all of them
                self._launch_all(lane, tasks * times, writes)
                self.placement.reason = why
            else:
                try:
                    self._note(lane, writes, reads)  # of its own, nothing: they begin with a barrier
                except BaseException as error:
                    lane.settle(error)
                    raise
                if cost.load:
                    lane.take(cost, times)
                self._measured(lane, "graph", writes, reads, lane.submit, [recording.handle] * times)
            self.device.deletion_queue.collect()
            return self._future(lane)

    def _launch_all(self, lane: Lane, tasks: Sequence[Task], writes: Sequence[Range]) -> None:
        """Launches a graph's tasks one by one. If one fails, so do the last and all that they write."""
        first, n_failures = lane.task + 1, len(self.failures)
        try:
            for task in tasks:
                task.launch(self, lane.index)
            if self.callbacks:  # what any of them reports is a failure of all
                self._note(lane, writes, ())
                lane.recorded = lane.task
            lane.flush()
        except BaseException as error:
            if lane.task >= first:  # or the newest is another's
                lane.fail(error)  # if it has not been noted
            if lane.task < first or not isinstance(error, Exception):
                raise
        finally:
            failed = [each for each in self.failures[n_failures:] if each.lane == lane.index and each.last >= first]
            if failed:
                self._note(lane, writes, ())
                lane.fail(failed[0].error, lane.task)
        if failed:  # the future is to tell
            failed[0].told = False

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
        try:
            if profile is None:
                record(*args)
                return
            start_ns = profile.start(lane)
            record(*args)
            profile.stop(lane, name, sum(stop - start for _, start, stop in (*writes, *reads)), start_ns)
        except BaseException as error:
            lane.settle(error)
            raise

    def _begin(
        self, writes: Sequence[Range], reads: Sequence[Range], queue: int | str | None, load: float = 0.0
    ) -> Lane:
        """A lane whose recorder stands where a task with these ranges may be recorded, in a batch with so much room."""
        if self.callbacks:
            self.callbacks.run()
        lane = self._only or self.placement.choose(writes, reads, queue)
        if lane.load + load > 1:
            lane.flush()
        try:
            own = self._note(lane, writes, reads)
            lane.open()
            if own:
                lane.order(own)
        except BaseException as error:
            lane.settle(error)
            raise
        return lane

    def _note(self, lane: Lane, writes: Sequence[Range], reads: Sequence[Range]) -> int:
        """Gives the lane a new task, with what it has to come after: of other lanes, it will; of its own, it tells.

        Raises:
            the error of the task that was to write what this one reads.
        """
        if lane.recorded != lane.task:
            lane.settle()
        lane.task = task = lane.task + 1  # first: a number is never given twice, whatever fails
        failure = self._failure_before(reads)
        after: After = {}
        strand = lane.index
        if self.callbacks:
            self.callbacks.follow((strand, task), writes, reads)
        for buffer, start, stop in writes:
            self.uses(buffer).write(start, stop, strand, task, after)
        for buffer, start, stop in reads:
            self.uses(buffer).read(start, stop, strand, task, after)
        if failure is not None:
            raise failure.raised()
        own = after.pop(strand, 0)
        if after:
            self._wait_for_others(lane, after, own, reads)
        return own

    def _failure_before(self, reads: Sequence[Range]) -> Failure | None:
        """That of what a new task would read, if any. Waits for all work where some has failed."""
        if not self.failures:
            return None
        self._settle()
        return self.failure_of(reads)

    def _settle(self) -> None:
        """Waits for all work after a failure: what failed no longer stands between that before it and that after."""
        while (n_failures := len(self.failures)) != self._n_settled:
            self._flush_lanes()
            self.device.wait_idle()
            if n_failures == len(self.failures):
                self._n_settled = n_failures

    def failure_of(self, ranges: Sequence[Range]) -> Failure | None:
        """Why some of these bytes are not what they should be: the task that was to write them failed."""
        return failure_of(self.lanes, ranges)

    def require_written(self, buffer: Buffer, start: int, stop: int) -> None:
        """Raises the error of the task that was to write these bytes, if that has failed. It has finished."""
        with self.lock:
            failure = self.failure_of([(buffer, start, stop)]) if self.failures else None
        if failure is not None:
            raise failure.raised()

    def overwritten(self, buffer: Buffer, start: int, stop: int) -> None:
        """Notes that the host wrote these bytes: whatever failed to write them before, they are good."""
        with self.lock:
            if self.failures and buffer.uses:
                buffer.uses.overwrite(start, stop, lambda writer, task: self.lanes[writer].failure_of(task))

    def uses(self, buffer: Buffer) -> Uses:
        """The history of a buffer."""
        uses: Uses | None = buffer.uses
        if uses is None:
            uses = buffer.uses = Uses()
        elif uses.crowded and self.failure_of([(buffer, 0, buffer.nbytes)]) is None:
            uses.forget({lane.index: lane.finished_task() for lane in self.lanes})
        return uses

    def _wait_for_others(self, lane: Lane, after: After, own: int, reads: Sequence[Range]) -> None:
        n_failures = len(self.failures)
        lane.wait_for(self.lanes, after)
        if n_failures != len(self.failures):
            self._settle()
        for failure in self.failures[n_failures:]:  # it waits for the newest batch, which is the one that failed
            if reads and failure.first <= (own if failure.lane == lane.index else after.get(failure.lane, 0)):
                raise failure.raised()

    def _end(self, lane: Lane, nbytes: int, cost: Cost = NOTHING, portion: float = 1.0) -> Future:
        future = self._future(lane)
        if cost is not NOTHING:
            lane.take(cost, portion)
        lane.recorded = lane.task
        lane.n_batched += 1
        lane.batched_bytes += nbytes
        if lane.n_batched >= BATCH_TASKS or lane.batched_bytes >= BATCH_BYTES:
            lane.flush()
            self.device.deletion_queue.collect()
        return future

    def _future(self, lane: Lane) -> Future:
        future = Future(self.tracker, lane, lane.task)
        if self._only is None:
            future._why = self.placement.reason
        return future

    def submit(self) -> None:
        """Submits every open batch, and frees what is no longer in use."""
        with self.lock:
            self._flush_lanes()
            self.device.deletion_queue.collect()

    def flush(self) -> None:
        """Submits every open batch, and frees what is no longer in use.

        Raises:
            the error of a batch that could not be submitted, now or before, unless somebody has been told of it.
        """
        self.submit()
        self._tell()

    def _tell(self) -> None:
        with self.lock:
            told = {id(failure.error) for failure in self.failures if failure.told}
            fresh, self._n_told = self.failures[self._n_told :], len(self.failures)
            untold = [failure.raised() for failure in fresh if id(failure.error) not in told]
        if untold:
            raise untold[0]

    def _flush_lanes(self) -> None:
        for lane in self.lanes:
            lane.flush()

    def points(self, after: After) -> list[Point]:
        """The moments when the tasks in `after` are finished, or have failed. Submits them if need be."""
        lanes = self.lanes
        with self.lock:
            for lane in lanes:
                lane.settle()
            moments = {lanes[index]: lanes[index].value_of(task) for index, task in after.items()}
            self._settle()
            return [Point(lane.queue, value) for lane, value in fewest(moments).items()]

    def finish(self) -> None:
        """Waits for all work given so far."""
        self.submit()
        self.device.wait_idle()
        self.tracker.run_callbacks()

    def wait(self) -> None:
        """Waits for all work given so far. Raises as `flush`."""
        self.finish()
        self._tell()

    def close(self, error: Exception) -> None:
        """Ends the watcher's thread, and makes all further work fail with `error`, on whatever thread it is made."""
        with self.lock:
            self._refuse(error)
        self.tracker.watcher.close(error)

    def abandon(self, error: Exception) -> None:
        """In a forked child: makes all work fail with `error`, without waiting for threads that do not exist here."""
        self.device.renew_locks()
        self.lock = self.device.lock
        self.tracker.watcher.abandon(error)
        self._refuse(error)

    @property
    def failed(self) -> bool:
        """Whether a queue has stopped to take work."""
        return any(lane.failure for lane in self.lanes)

    def _refuse(self, error: Exception) -> None:
        for lane in self.lanes:
            lane.failure = lane.failure or error
