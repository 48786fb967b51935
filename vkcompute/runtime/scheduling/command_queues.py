"""The command queues of one device: their failures, submits, waits and end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from vkcompute.core.buffer import Buffer
from vkcompute.core.device import Device
from vkcompute.core.queue import Point
from vkcompute.runtime.scheduling.access_history import AccessHistory, Dependencies, Range
from vkcompute.runtime.scheduling.command_queue import CommandQueue, Failure, failure_of, minimal_waits
from vkcompute.runtime.scheduling.completion import CompletionTracker


class CommandQueues:
    """The command queues of one device, under its lock.

    Attributes:
        queues: a command queue per queue of the device.
        failures: of tasks, in the order in which they were seen.
        is_ahead: True if the host has launched work for a long time, or on memory that is lent to it, and is to wait.
    """

    def __init__(self, device: Device, owner: object, *, timed: bool, early: bool) -> None:
        self.device = device
        self.failures: list[Failure] = []
        self._n_drained = self._n_reported = 0  # of the failures
        self.queues = [
            CommandQueue(index, queue, self.failures, timed=timed, early=early)
            for index, queue in enumerate(device.queues)
        ]
        self.tracker = CompletionTracker(device, self.queues, self.failures, owner)
        self.callbacks = self.tracker.callbacks
        self.is_ahead = False
        self._lent_uses: dict[int, Buffer] = {}
        self._numbers = count(1)
        device.submit_recorded, device.on_lost = self._flush_queues, self._stop

    # -- access history and failures ----------------------------------------------------------------------------------

    def history(self, buffer: Buffer) -> AccessHistory:
        """The access history of a buffer."""
        history: AccessHistory | None = buffer.history
        if history is None:
            history = buffer.history = AccessHistory()
        elif history.needs_pruning:
            if history.reports_all:
                self._note_use(buffer, history)
            if self.failure_of([(buffer, 0, buffer.nbytes)]) is None:
                history.prune({queue.index: queue.poll_task() for queue in self.queues})
        return history

    def _note_use(self, buffer: Buffer, history: AccessHistory) -> None:
        """Notes an access to memory that is lent to the host, for which `unlocked` waits; else ends the reports."""
        if buffer.is_lent:
            self._lent_uses[next(self._numbers)] = buffer
            self.is_ahead = True
        else:
            buffer.borrowers = []
            history.report_all(reports=False)

    def _finish_lent(self) -> None:
        """Waits for the work on memory that is lent to the host, which may access it next without a call.

        Raises:
            Exception: the error of a failed task that was the last one to write the memory.
        """
        with self.device.lock:
            uses, last = {**self._lent_uses}, Dependencies()
            buffers = {*uses.values()}
            for buffer in buffers:
                if (history := buffer.history) is not None:
                    for index, task in history.last_uses().items():
                        last[index] = max(task, last.get(index, 0))
            points = self.points(last)
        for point in points:
            point.wait()
        with self.device.lock:
            for number in uses:
                self._lent_uses.pop(number, None)
            self._renew_ahead()
        for buffer in buffers:
            self.require_written(buffer, 0, buffer.nbytes)

    def _renew_ahead(self) -> None:
        """Sets `is_ahead` anew. Requires the device's lock: else a thread could miss work of its own."""
        self.is_ahead = bool(self._lent_uses) or any(queue.ahead for queue in self.queues)

    def failure_of(self, ranges: Sequence[Range]) -> Failure | None:
        """The failure of a task that was the last one to write some of these bytes, or None."""
        return failure_of(self.queues, ranges)

    def require_written(self, buffer: Buffer, start: int, stop: int) -> None:
        """Raises the error of the task that was to write these bytes, if it has failed. It has finished."""
        with self.device.lock:
            failure = self.failure_of([(buffer, start, stop)]) if self.failures else None
        if failure is not None:
            raise failure.raised()

    def overwritten(self, buffer: Buffer, start: int, stop: int) -> None:
        """Registers a write by the host: these bytes are valid, even if a task failed to write them before."""
        with self.device.lock:
            if self.failures and buffer.history:
                buffer.history.overwrite(start, stop, lambda writer, task: self.queues[writer].failure_of(task))

    def _failure_before(self, reads: Sequence[Range]) -> Failure | None:
        """The failure of a task whose results a new task reads, or None. Drains the queues, as some task has failed."""
        self._drain_failed()
        return self.failure_of(reads)

    def _drain_failed(self) -> None:
        """Waits for all work after a failure: failed tasks no longer order the tasks before and after them."""
        while (n_failures := len(self.failures)) != self._n_drained:
            self._flush_queues()
            self.device.wait_idle()
            if n_failures == len(self.failures):
                self._n_drained = n_failures

    def _raise_unreported(self) -> None:
        with self.device.lock:
            reported = {id(failure.error) for failure in self.failures if failure.reported}
            new, self._n_reported = self.failures[self._n_reported :], len(self.failures)
            unreported = [failure.raised() for failure in new if id(failure.error) not in reported]
        if unreported:
            raise unreported[0]

    # -- submitting and waiting ---------------------------------------------------------------------------------------

    def submit(self) -> None:
        """Submits every open batch, and destroys closed objects that are no longer in use."""
        with self.device.lock:
            self._flush_queues()
            self.device.deletion_queue.collect()

    def flush(self) -> None:
        """Submits every open batch, and destroys closed objects that are no longer in use.

        Raises:
            the error of a batch that could not be submitted, now or before, unless it was reported already.
        """
        self.submit()
        self._raise_unreported()

    def _flush_queues(self) -> None:
        for queue in self.queues:
            queue.flush()
            queue.expect_wait()
            self.is_ahead = self.is_ahead or queue.ahead > 0

    def points(self, dependencies: Dependencies) -> list[Point]:
        """The points at which these tasks have finished or failed. Submits them if need be."""
        queues = self.queues
        with self.device.lock:
            for queue in queues:
                queue.fail_unrecorded()
                queue.expect_wait()
            values = {queues[index]: queues[index].value_of(task) for index, task in dependencies.items()}
            self._drain_failed()
            return [Point(queue.device_queue, value) for queue, value in minimal_waits(values).items()]

    def finish(self) -> None:
        """Waits for all work launched so far."""
        self.submit()
        self.device.wait_idle()
        self.callbacks.run()

    def wait(self) -> None:
        """Waits for all work launched so far. Raises as `flush`."""
        self.finish()
        self._raise_unreported()

    def close(self, error: Exception) -> None:
        """Ends the watcher's threads, and makes all further work fail with `error`, on any thread."""
        with self.device.lock:
            self._stop(error)
        self.tracker.watcher.close(error)

    def abandon(self, error: Exception) -> None:
        """Makes all work fail with `error` in a forked child, without waiting for threads that it does not have."""
        self.device.renew_locks()
        self.tracker.watcher.abandon(error)
        self._stop(error)

    @property
    def failed(self) -> bool:
        """True if a queue accepts no more work."""
        return any(queue.failure for queue in self.queues)

    def _stop(self, error: Exception) -> None:
        for queue in self.queues:
            queue.failure = queue.failure or error
