"""The scheduler: orders the tasks of one device by their data, and submits them in batches."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Sequence
from math import prod
from sys import _getframe
from threading import get_ident
from typing import Any, Protocol

from vkcompute import deferred_calls, locks
from vkcompute.core.buffer import Buffer, compute_readers
from vkcompute.core.device import Device
from vkcompute.core.interrupts import takes_lock
from vkcompute.deferred_calls import waiting
from vkcompute.errors import caller_location
from vkcompute.runtime.scheduling import current
from vkcompute.runtime.scheduling.access_history import Dependencies, Range, register
from vkcompute.runtime.scheduling.command_queue import CommandQueue
from vkcompute.runtime.scheduling.command_queues import CommandQueues
from vkcompute.runtime.scheduling.cost import NOTHING, Cost, Grid, split_grid
from vkcompute.runtime.scheduling.future import Future, QueuedTask
from vkcompute.runtime.scheduling.placement import Placement
from vkcompute.runtime.scheduling.recording import Recording
from vkcompute.runtime.scheduling.residency import Residency
from vkcompute.runtime.scheduling.task import CommandSeries, Copy, CopyPart, Fill, LaunchedKernel, Task, in_place
from vkcompute.runtime.scheduling.tracing import Tracer

# A batch is submitted when something waits for it, when it has this many tasks (or fewer, if they take long), or when
# its copies move this many bytes.
# Where `submits_early` is True, a batch is also submitted to an idle queue: see `CommandQueue.n_early`.
BATCH_TASKS = 64
BATCH_BYTES = 16 << 20
_REPLAY_TASKS = 8  # the most that a replay counts as: its host time does not grow with its tasks
_MAX_MEASURED = 10_000  # tasks in a graph's submit, up to which a profile measures each


class Profiler(Protocol):
    """Measures tasks."""

    def start(self, queue: CommandQueue) -> int:
        """Called before a task is recorded; returns the time for `stop`."""

    def stop(self, queue: CommandQueue, name: str, nbytes: int, start_ns: int) -> None:
        """Called after the task was recorded."""


class Scheduler(CommandQueues):
    """Launches all work of one device, in the order of the calls. Its lock is the device's.

    Independent tasks may run at the same time, or in another order.

    Attributes:
        recordings: weak references to the graphs that are being recorded, by any thread.
        tracers: of the calls that are traced, by thread.
        profile: measures the tasks, or None.
        submit_limit_s: the time that one submit may take, or None.
        residency: which buffers are in device memory.
        submits_early: True if an idle queue gets a batch before it is full.
        moves: True once a buffer has moved to the host: buffers are to be in place for a task.
    """

    def __init__(
        self, device: Device, owner: object, submit_limit_s: float | None = None, *, submits_early: bool = False
    ) -> None:
        super().__init__(device, owner, timed=submit_limit_s is not None, early=submits_early)
        self.submits_early = submits_early
        self.placement = Placement(device, self.queues)
        if len(self.queues) > 1:
            device.memory.reusable.suits = self.placement.may_reuse
        self.moves = False
        self.residency: Residency  # set with the transfers, which move buffers
        self._only = self.queues[0] if len(self.queues) == 1 else None
        self.recordings: tuple[weakref.ref[current.TaskRecorder], ...] = ()
        self.tracers: dict[int, Tracer] = {}
        self.profile: Profiler | None = None
        self.submit_limit_s = submit_limit_s

    # -- launching ----------------------------------------------------------------------------------------------------

    def restore(self, buffers: Collection[Buffer]) -> None:
        """Brings buffers that have moved to the host back to the device. Requires its lock, as long as they are used.

        Raises:
            OutOfDeviceMemory: they do not fit together.
        """
        if self.moves:
            self.residency.restore(buffers)

    def recording(self) -> current.TaskRecorder | None:
        """The graph that records launches on this thread (see `current`), or None."""
        return current.find(self) if self.recordings else None

    def tracer(self) -> Tracer | None:
        """The tracer of the call that this thread traces, or None."""
        return self.tracers.get(get_ident()) if self.tracers else None

    def recorder_of(self, array: Any) -> current.TaskRecorder | None:
        """The graph being recorded, by any thread, that has made a lazy array; or None."""
        recorders = [
            recorder for reference in self.recordings if (recorder := reference()) is not None and recorder.owns(array)
        ]
        return recorders[0] if recorders else None

    def refuse_recording(self, what: str, remedy: str) -> None:
        """Raises ValueError while a graph records what is launched here."""
        if self.recording() is not None:
            raise ValueError(f"{what} runs at once and cannot be recorded into a graph{caller_location()}; {remedy}")

    def dispatch(
        self,
        command: Sequence[Any],
        writes: Sequence[Range],
        reads: Sequence[Range],
        queue: int | str | None,
        launched: LaunchedKernel,
    ) -> Future:
        """Launches a kernel; `command` has the arguments of `Recorder.dispatch`."""
        return Future(*self.enqueue(command, writes, reads, queue, launched))

    @takes_lock
    def enqueue(
        self,
        command: Sequence[Any],
        writes: Sequence[Range],
        reads: Sequence[Range],
        queue: int | str | None,
        launched: LaunchedKernel,
    ) -> QueuedTask:
        """Launches as `dispatch`, for callers who need no future."""
        device = self.device
        if device.is_owned():  # does what `device.lock` does, but records no holder: see `takes_lock`
            device.refuse_interruption(_getframe())
        with device.unguarded_lock:
            queued = self.enqueue_locked(command, writes, reads, queue, launched)
        if waiting or self.is_ahead:
            self.unlocked()
        return queued

    def enqueue_locked(
        self,
        command: Sequence[Any],
        writes: Sequence[Range],
        reads: Sequence[Range],
        queue: int | str | None,
        launched: LaunchedKernel,
    ) -> QueuedTask:
        """Launches as `enqueue`. Requires the device's lock; the caller calls `unlocked` without it."""
        cost = launched[2]
        for span in writes:
            if span[0].readers:
                span[0].compute_readers()
        if queue is not None or cost.load > 1 or self.profile is not None or self.tracers or self.moves:
            return self._enqueue_rare(command, writes, reads, queue, launched)
        target = self._begin(writes, reads, None, cost.load)
        try:
            target.recorder.dispatch(*command)  # type: ignore[union-attr]
        except BaseException as error:
            target.fail(error)
            raise
        return self._end(target, 0, cost)

    def _enqueue_rare(
        self,
        command: Sequence[Any],
        writes: Sequence[Range],
        reads: Sequence[Range],
        queue: int | str | None,
        launched: LaunchedKernel,
    ) -> QueuedTask:
        """Launches a kernel on a queue that is given, in parts, on buffers that may have moved, traced or measured."""
        if self.tracers and (tracer := self.tracer()) is not None:
            tracer.dispatched(command, writes, reads, launched)
        if queue is not None:
            self._require_compute(queue)
        if self.moves:
            self.residency.restore([where[0] for where in (*writes, *reads)])
            command, launched = in_place(command, writes, reads, launched)
        cost = launched[2]
        if cost.load > 1 and len(parts := [*split_grid(command[-1], cost.n_parts)]) > 1:
            return self._enqueue_parts(parts, command, writes, reads, queue, launched)
        target = self._begin(writes, reads, queue, cost.load)
        self._record(target, launched[0].name, writes, reads, target.recorder.dispatch, *command)  # type: ignore[union-attr]
        return self._end(target, 0, cost)

    @takes_lock
    def enqueue_series(self, series: CommandSeries, writes: Sequence[Range], reads: Sequence[Range]) -> bool:
        """Launches commands as one task.

        Returns:
            False if each is to be launched as a task: measured, traced, divided, or on buffers that move.
        """
        device = self.device
        if device.is_owned():  # as in `enqueue`
            device.refuse_interruption(_getframe())
        with device.unguarded_lock:
            launched = self.enqueue_series_locked(series, writes, reads)
        if waiting or self.is_ahead:
            self.unlocked()
        return launched

    def enqueue_series_locked(self, series: CommandSeries, writes: Sequence[Range], reads: Sequence[Range]) -> bool:
        """Launches as `enqueue_series`. Requires the device's lock; the caller calls `unlocked` without it."""
        for span in writes:
            if span[0].readers:
                span[0].compute_readers()
        load = sum([cost.load for cost in series.costs]) if series.costs else 0.0
        if load > 1 or self.moves or self.tracers or self.profile is not None:
            return False
        target = self._begin(writes, reads, None, load)
        recorder, repeated = target.recorder, series.repeated
        try:
            if repeated is not None and repeated.family == target.device_queue.family:
                recorder.execute(repeated.handle)  # type: ignore[union-attr]
            else:
                for method, arguments in series.commands:
                    method(recorder, *arguments)
        except BaseException as error:
            target.fail(error)
            raise
        for cost in series.costs:
            target.add_cost(cost, 1.0)
        self._end(target, series.nbytes_copied, n=series.n_tasks)
        return True

    def _require_compute(self, queue: int | str) -> None:
        """Raises ValueError for a queue that only copies."""
        if self.placement.allowed(queue)[0] not in self.placement.compute or queue == "transfer":
            raise ValueError(f"queue {queue!r} of {self.device} only copies; a kernel needs a compute queue")

    def _enqueue_parts(
        self,
        parts: Sequence[tuple[Grid, Grid]],
        command: Sequence[Any],
        writes: Sequence[Range],
        reads: Sequence[Range],
        queue: int | str | None,
        launched: LaunchedKernel,
    ) -> QueuedTask:
        """Launches parts of a grid, each as a task with a submit of its own; returns the last one."""
        cost, accesses, first_reason = launched[2], [*reads, *writes], ""
        for base, grid in parts:
            fraction = max(1, prod(grid)) / max(1, prod(command[-1]))
            target = self._begin(writes, reads, queue, cost.load * fraction)
            first_reason = first_reason or self.placement.reason
            dispatch = target.recorder.dispatch  # type: ignore[union-attr]
            self._record(target, launched[0].name, writes, reads, dispatch, *command[:-1], grid, base)
            tracker, _, task, _ = self._end(target, 0, cost, fraction)
            target.flush()
            # The next part runs on the same queue, and fails if this one does.
            queue, reads = target.index, accesses
        return tracker, target, task, first_reason

    def copy(self, parts: Sequence[CopyPart], target: Range, queue: int | str | None = None) -> Future:
        """Copies from the sources of the parts to the bytes of `target`."""
        return self.launch(Copy(parts, target), queue)

    def fill(self, target: Range, word: int) -> Future:
        """Fills a range with a 32-bit word; its start and stop are multiples of 4."""
        return self.launch(Fill(target, word))

    def launch(self, task: Task, queue: int | str | None = None) -> Future:
        """Launches a task on a queue, or adds it to the graph that is being recorded."""
        if (recorder := self.recording()) is not None:
            return recorder.add(task)
        return self.launch_now(task, queue)

    def launch_now(self, task: Task, queue: int | str | None = None) -> Future:
        """Launches a task on a queue, also while a graph is being recorded."""
        writes, reads = task.writes, task.reads
        with self.device.lock:
            compute_readers(writes)
            self.restore([where[0] for where in (*writes, *reads)])
            all(buffer.block.handle for buffer in task.buffers)  # raises for placeholders
            queued = self.enqueue_task(task, queue)
        if waiting or self.is_ahead:
            self.unlocked()
        return Future(*queued)

    def enqueue_task(self, task: Task, queue: int | str | None = None) -> QueuedTask:
        """Launches a task on buffers in memory whose readers are computed. Requires the device's lock.

        The caller calls `unlocked` without it.
        """
        writes, reads = task.writes, task.reads
        if self.tracers and queue != "transfer" and (tracer := self.tracer()) is not None:
            tracer.launched(task)  # those of transfers are noted as such
        target = self._begin(writes, reads, queue)
        self._record(target, task.name, writes, reads, task.record, target.recorder)
        return self._end(target, sum([stop - start for _, start, stop in writes]))

    def unlocked(self) -> None:
        """Calls deferred code of the user, and waits for a device that lags; does neither while locks are held."""
        deferred_calls.run()
        if self.is_ahead and not locks.are_held():
            if self._lent_uses:
                self._finish_lent()
            for queue in self.queues:
                value, queue.ahead = queue.ahead, 0
                if value:
                    queue.device_queue.wait(value)
            with self.device.lock:
                self._renew_ahead()

    def completed_future(self) -> Future:
        """Returns the future of work that has completed."""
        return Future(self.tracker, self.queues[0], 0)

    def replay(self, recording: Recording, family: int, times: int, before: Task | None = None) -> Future:
        """Runs a recording on a queue of this family, ordered after everything before the runs.

        Launches the tasks one by one if a run takes longer than a submit may, or if a profile is to measure each.

        Args:
            before: a task that writes a part of what the runs write, and is recorded before them as a part of their
                task.
        """
        if (tracer := self.tracer()) is not None:
            tracer.refuse("it runs a graph")
        writes, reads, tasks, cost = recording.writes, recording.reads, recording.tasks, recording.cost
        with self.device.lock:
            if before is not None:
                reads = [*before.reads, *reads]
                self.restore([where[0] for where in before.reads])
            compute_readers(writes)
            if self.callbacks or waiting:
                self.callbacks.run()
            target = self._only or self.placement.choose(writes, reads, None, family)
            if target.load + cost.load * times > 1:
                target.flush()
            singly = cost.load > 1 or (self.profile is not None and 0 < len(tasks) * times <= _MAX_MEASURED)
            if singly and not (self.failures and self._failure_before(reads)):
                if before is not None:
                    self.launch_now(before)
                reason = self.placement.reason  # that of the queue for all of them
                self._launch_all(target, tasks * times, writes)
                self.placement.reason = reason
            else:
                self._add_runs(target, recording, before)
                if cost.load:
                    target.add_cost(cost, times)
                if recording.commands is not None:
                    self._record(target, "graph", writes, reads, self._execute, target, recording.commands, times)
                    return Future(*self._end(target, 0, n=min(len(tasks) * times, _REPLAY_TASKS)))
                self._record(target, "graph", writes, reads, target.submit, [recording.handle] * times)
            self.device.deletion_queue.collect()
            self.is_ahead = self.is_ahead or target.ahead > 0
            return Future(self.tracker, target, target.task, self.placement.reason)

    def _execute(self, target: CommandQueue, commands: Any, times: int) -> None:
        """Records runs of commands that begin with a barrier into the open batch."""
        recorder = target.open()
        for _ in range(times):
            recorder.execute(commands)
        target.ordered = target.task - 1

    def _add_runs(self, target: CommandQueue, recording: Recording, before: Task | None) -> None:
        """Adds the task of runs of a recording, which begin with a barrier of their own, and records `before`."""
        registers_all = self._only is None or self.failures or self.callbacks  # a failure must reach every read
        reads = [
            *(() if before is None else before.reads),
            *(recording.reads if registers_all else recording.unwritten),
        ]
        try:
            own = self._add_task(target, recording.writes, reads)
            if before is not None:
                recorder = target.open()
                target.order_after(own)
                before.record(recorder)
        except BaseException as error:
            target.fail_unrecorded(error)
            raise

    def _launch_all(self, target: CommandQueue, tasks: Sequence[Task], writes: Sequence[Range]) -> None:
        """Launches a graph's tasks one by one. If one fails, so do the last one and all that they write."""
        first, n_failures = target.task + 1, len(self.failures)
        try:
            for task in tasks:
                task.launch(self, target.index)
            if self.callbacks:  # an error that any of the tasks reports is one of all
                self._add_task(target, writes, ())
                target.recorded = target.task
            target.flush()
        except BaseException as error:
            if target.task >= first:  # else the newest task is not one of these
                target.fail(error)
            if target.task < first or not isinstance(error, Exception):
                raise
        finally:
            new = self.failures[n_failures:]
            failed = [failure for failure in new if failure.queue == target.index and failure.last >= first]
            if failed:
                self._add_task(target, writes, ())
                target.fail(failed[0].error, target.task)
        if failed:  # the future reports it
            failed[0].reported = False

    def _begin(
        self, writes: Sequence[Range], reads: Sequence[Range], queue: int | str | None, load: float = 0.0
    ) -> CommandQueue:
        """Returns a command queue that is ready to record a new task with these ranges, in a batch with room for it."""
        if self.callbacks:
            self.callbacks.run_finished()
        target = self._only or self.placement.choose(writes, reads, queue)
        if target.load + load > 1:
            target.flush()
        try:
            own = self._add_task(target, writes, reads)
            if target.recorder is None or target.failure is not None:
                target.open()
            if own > target.ordered:
                target.order_after(own)
        except BaseException as error:
            target.fail_unrecorded(error)
            raise
        return target

    def _add_task(self, target: CommandQueue, writes: Sequence[Range], reads: Sequence[Range]) -> int:
        """Adds a task to a queue, which then waits for tasks of other queues that the new one depends on.

        Returns:
            the task of the same queue that it depends on, or 0.

        Raises:
            the error of a failed task whose results this one reads.
        """
        if target.recorded != target.task:
            target.fail_unrecorded()
        target.task = task = target.task + 1  # first: no number is used twice, even after a failure
        failure = self._failure_before(reads) if self.failures else None
        timeline = target.index
        if self.callbacks:
            self.callbacks.follow((timeline, task), writes, reads)
        dependencies = register(writes, reads, timeline, task, self.history)
        if failure is not None:
            raise failure.raised()
        own = dependencies.pop(timeline, 0)
        if dependencies:
            self._wait_for_others(target, dependencies, own, reads)
        return own

    def _wait_for_others(
        self, target: CommandQueue, dependencies: Dependencies, own: int, reads: Sequence[Range]
    ) -> None:
        n_failures = len(self.failures)
        for index in dependencies:
            self.queues[index].fail_unrecorded()  # an interrupt may have left the newest task like that
        target.wait_for(self.queues, dependencies)
        if n_failures != len(self.failures):
            self._drain_failed()
        needed = {**dependencies, target.index: own}
        for failure in self.failures[n_failures:]:  # of a newest batch, which the wait has submitted
            if reads and failure.first <= needed.get(failure.queue, 0):
                raise failure.raised()

    def _record(
        self,
        target: CommandQueue,
        name: str,
        writes: Sequence[Range],
        reads: Sequence[Range],
        record: Callable[..., None],
        *args: Any,
    ) -> None:
        """Records a task by `record(*args)`, and measures it if there is a profile."""
        profile = self.profile
        try:
            if profile is None:
                record(*args)
                return
            start_ns = profile.start(target)
            record(*args)
            profile.stop(target, name, sum(stop - start for _, start, stop in (*writes, *reads)), start_ns)
        except BaseException as error:
            target.fail_unrecorded(error)
            raise

    def _end(
        self, target: CommandQueue, nbytes: int, cost: Cost = NOTHING, fraction: float = 1.0, n: int = 1
    ) -> QueuedTask:
        """Counts the newest task as recorded, of `n` launches, and submits the batch if it is full."""
        if cost is not NOTHING:
            target.add_cost(cost, fraction)
        target.recorded = task = target.task
        before = target.n_batched
        target.n_batched = n = before + n
        target.batched_bytes += nbytes
        if n >= BATCH_TASKS or before < target.n_early <= n or target.batched_bytes >= BATCH_BYTES:
            self._submit_batch(target, n)
        return self.tracker, target, task, self.placement.reason

    def _submit_batch(self, target: CommandQueue, n: int) -> None:
        """Submits an open batch of `n` tasks if it is full, or else if its queue is idle."""
        n_early = target.n_early
        if n >= BATCH_TASKS or target.batched_bytes >= BATCH_BYTES or target.is_idle:
            target.flush()
            self.device.deletion_queue.collect()
            self.is_ahead = self.is_ahead or target.ahead > 0
        target.n_early = min(2 * n_early, 2 * BATCH_TASKS)
