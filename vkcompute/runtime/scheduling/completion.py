"""Completion: callbacks and futures of tasks that have finished or failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import get_ident
from typing import TypeVar

from vkcompute import deferred_calls
from vkcompute.core.buffer import Buffer
from vkcompute.core.device import Device
from vkcompute.runtime.scheduling.access_history import Range, writers_of
from vkcompute.runtime.scheduling.command_queue import CommandQueue, Failure, failure_of, lost
from vkcompute.runtime.scheduling.watcher import Watcher

Callback = Callable[[], Exception | None]
"""Returns the error that the launch reports, if any. It runs with the device's lock: it defers the user's code."""
_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class CompletionCallback:
    """A callback that runs once, when all tasks that write a buffer have finished.

    Attributes:
        tasks: (queue, task) of those that write the buffer, and of those that depend on them: they fail together.
        writers: queue -> the newest task there that writes the buffer.
        thread: the one that launches them.
        launched: True once everything that writes the buffer has been launched.
        called, error: True once the callback has run, and what it returned or raised.
    """

    buffer: Buffer
    callback: Callback
    tasks: dict[tuple[int, int], None] = field(default_factory=dict)
    writers: dict[int, int] = field(default_factory=dict)
    thread: int = field(default_factory=get_ident)
    launched: bool = False
    called: bool = False
    error: BaseException | None = None

    @property
    def whole(self) -> list[Range]:
        """The range of the whole buffer."""
        return [(self.buffer, 0, self.buffer.nbytes)]


class CompletionCallbacks(list[CompletionCallback]):
    """The callbacks of one scheduler that have not run, in the order of the launches."""

    def __init__(self, device: Device, queues: Sequence[CommandQueue]) -> None:
        super().__init__()
        self._device, self._queues, self._is_running = device, queues, False
        self._new: list[CompletionCallback] = []  # launched since the last search for finished ones
        self._first: dict[int, int] = {}  # queue -> the first task there that one of the others waits for
        self._n_failures = 0  # at the last search
        self._tasks: set[tuple[int, int]] = set()  # at least those of all callbacks

    def register(self, buffer: Buffer, callback: Callback, launch: Callable[[], _T]) -> _T:
        """Launches work that writes the buffer, by `launch`, and registers a callback for it."""
        entry = CompletionCallback(buffer, callback)
        try:  # the append is inside and first: Ctrl-C cannot separate it from the `finally`
            self.append(entry)
            return launch()
        finally:
            if entry.tasks:
                entry.launched = True
                self._new.append(entry)
                if entry.called:  # by another thread, just before
                    self._forget(entry)
            elif entry in self:  # nothing was launched, and no other thread removes it
                self.remove(entry)

    def follow(self, task: tuple[int, int], writes: Sequence[Range], reads: Sequence[Range]) -> None:
        """Registers a new task that writes the buffer of a callback, or depends on one that does. Requires the lock."""
        writers, written = writers_of(reads), [where[0] for where in writes]
        depends = not writers.isdisjoint(self._tasks)
        for entry in list(self):  # other threads may append to it
            is_writer = entry.buffer in written
            if is_writer or (depends and not writers.isdisjoint(entry.tasks)):
                self._tasks.add(task)
                entry.tasks[task] = None
                if is_writer:
                    entry.writers[task[0]] = task[1]

    def run(self) -> None:
        """Runs the callbacks whose tasks have finished.

        What they print or warn of follows once this thread holds no lock.
        """
        if self:
            with self._device.lock:
                self.run_finished()
        if deferred_calls.waiting:
            deferred_calls.run()

    def run_finished(self) -> None:
        """Runs callbacks as `run`, for a caller who calls deferred code itself. Requires the lock."""
        n_failures = len(self._queues[0].failures)
        if self._is_running or not (n_failures != self._n_failures or self._may_have_finished()):
            return  # running: this is called from within a callback
        self._is_running = True
        try:
            # Polls the newest launch first. A launch never finishes before those that it depends on, so these are then
            # found finished too, and callbacks run in the order of the launches.
            finished = [entry for entry in reversed(list(self)) if entry.launched and self._finished(entry)]
            for entry in reversed(finished):
                self._run(entry)
        finally:
            self._is_running = False
        if not self:
            self._tasks = set()
        self._new += [entry for entry in self if entry.launched]
        self._first, self._n_failures = {}, n_failures  # last: what Ctrl-C cuts short is done again

    def _may_have_finished(self) -> bool:
        """False if no launch has finished since the last search: each launch asks this for all before it."""
        first = self._first
        while self._new and (entry := next(iter(self._new), None)) is not None:
            failed = self._n_failures and self._has_failed(entry)
            if not entry.called and (failed or not entry.writers):
                return True
            for queue, task in () if entry.called else entry.writers.items():
                if queue not in first or task < first[queue]:
                    first[queue] = task
            self._forget(entry)
        for queue, task in first.items():  # noqa: SIM110 - faster than `any`
            if self._queues[queue].has_finished(task):
                return True
        return False

    def _forget(self, entry: CompletionCallback) -> None:
        """Removes an entry from the new ones, to which other threads append."""
        try:
            while entry in self._new:
                self._new.remove(entry)
        except ValueError:  # another thread has removed it
            self._forget(entry)

    def _finished(self, entry: CompletionCallback) -> bool:
        """True if all tasks that write the buffer have finished or failed; queries the driver."""
        if entry.called or self._has_failed(entry):
            return True
        return all(task <= self._queues[queue].poll_task() for queue, task in entry.writers.items())

    def _has_failed(self, entry: CompletionCallback) -> bool:
        """True if a task that writes the buffer has failed, even one that Ctrl-C left out of the buffer's history."""
        if any(self._queues[queue].failure_of(task) for queue, task in entry.writers.items()):
            return True
        return failure_of(self._queues, entry.whole) is not None

    def _run(self, entry: CompletionCallback) -> None:
        """Runs one callback; repeats the steps after it that Ctrl-C cut short."""
        if not entry.called:
            failed = self._has_failed(entry)
            try:
                with deferred_calls.on_behalf_of(entry.thread):
                    entry.error = None if failed else entry.callback()
            except BaseException as caught:  # its result is lost
                entry.error = caught
                raise
            finally:
                entry.called = True
        if entry.error is not None:
            if not isinstance(entry.error, Exception):  # one error for all tasks: it is reported once
                entry.error = lost("what this work reports was lost", entry.error)
            for queue, task in entry.tasks:
                self._queues[queue].fail(entry.error, task)
        if self._queues[0].failures:
            entry.buffer.history = None  # which may have a failed task
        self.remove(entry)
        self._forget(entry)


class CompletionTracker:
    """Tracks the completion of one device's tasks, for their futures.

    Attributes:
        failures: of all queues, in the order in which they occurred.
        callbacks: those of launches that report to the host.
        watcher: waits on behalf of futures.
    """

    def __init__(self, device: Device, queues: Sequence[CommandQueue], failures: list[Failure], owner: object) -> None:
        self._owner = owner  # futures keep the runtime alive
        self.device, self.failures = device, failures
        self.callbacks = CompletionCallbacks(device, queues)
        self.watcher = Watcher()
