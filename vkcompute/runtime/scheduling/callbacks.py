"""Completion callbacks: what the host does once it is known that a launch has finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from vkcompute.core.buffer import Buffer
from vkcompute.core.device import Device
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.command_queue import Lane, failure_of

Callback = Callable[[], Exception | None]
"""Returns the error that the launch ended with, if any."""
_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class CompletionCallback:
    """A callback, called once when all tasks that write a buffer have finished.

    Attributes:
        tasks: (queue, task) of those that write the buffer, and of those that depend on them: they fail together.
        launched: True once everything that writes the buffer has been launched.
        called, error: True once the callback was called, and what it returned or raised.
    """

    buffer: Buffer
    callback: Callback
    tasks: dict[tuple[int, int], None] = field(default_factory=dict)
    launched: bool = False
    called: bool = False
    error: BaseException | None = None

    @property
    def whole(self) -> list[Range]:
        """The range of the whole buffer."""
        return [(self.buffer, 0, self.buffer.nbytes)]


class CompletionCallbacks(list[CompletionCallback]):
    """The callbacks of one scheduler that have not been called, in the order of the launches."""

    def __init__(self, device: Device, lanes: Sequence[Lane]) -> None:
        super().__init__()
        self._device, self._lanes, self._is_running = device, lanes, False

    def expect(self, buffer: Buffer, callback: Callback, launch: Callable[[], _T]) -> _T:
        """Launches work that writes the buffer, by `launch`, and registers a callback for it."""
        entry = CompletionCallback(buffer, callback)
        try:  # with the append inside, and first: no interruption comes between
            self.append(entry)
            return launch()
        finally:
            entry.launched = True
            if not entry.tasks and entry in self:  # nothing was launched
                self.remove(entry)

    def follow(self, task: tuple[int, int], writes: Sequence[Range], reads: Sequence[Range]) -> None:
        """Notes a new task that writes the buffer of a callback, or depends on one that does; with the lock held."""
        writers, written = {*_writers(reads)}, [buffer for buffer, _, _ in writes]
        for entry in self:
            if not writers.isdisjoint(entry.tasks) or entry.buffer in written:
                entry.tasks[task] = None

    def run(self) -> None:
        """Calls the callbacks whose tasks have finished."""
        with self._device.lock:
            if self._is_running:  # a callback has led here
                return
            self._is_running = True
            try:
                # Newest first: work may finish between two questions, and a launch never finishes before one that it
                # depends on. So the callbacks of finished launches run in the order of these.
                finished = [each for each in reversed(self) if each.launched and self._finished(each)]
                for entry in reversed(finished):
                    self._run(entry)
            finally:
                self._is_running = False

    def _finished(self, entry: CompletionCallback) -> bool:
        """True if all tasks that write the buffer have finished or failed; asks the driver."""
        if entry.called or failure_of(self._lanes, entry.whole) is not None:
            return True
        return all(task <= self._lanes[lane].finished_task() for lane, task in _writers(entry.whole))

    def _run(self, entry: CompletionCallback) -> None:
        """Continues where an interruption left off: steps that may be incomplete are repeated."""
        if not entry.called:
            failed = failure_of(self._lanes, entry.whole) is not None
            try:
                entry.error = None if failed else entry.callback()
            except BaseException as caught:  # nobody will know what it would have been
                entry.error = caught
                raise
            finally:
                entry.called = True
        if entry.error is not None:
            for lane, task in entry.tasks:
                self._lanes[lane].fail(entry.error, task)
        entry.buffer.uses = None
        self.remove(entry)


def _writers(ranges: Sequence[Range]) -> list[tuple[int, int]]:
    """(queue, task) of those that wrote these bytes last."""
    return [each for buffer, start, stop in ranges if buffer.uses for each in buffer.uses.writers(start, stop)]
