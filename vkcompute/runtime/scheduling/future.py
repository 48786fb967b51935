"""Futures of launched work."""

from __future__ import annotations

import concurrent.futures
import logging
from collections.abc import Callable, Generator
from typing import Any, NoReturn

from vkcompute.core.queue import Point, Queue
from vkcompute.errors import KernelError
from vkcompute.runtime.scheduling.command_queue import CommandQueue
from vkcompute.runtime.scheduling.completion import CompletionTracker
from vkcompute.runtime.scheduling.placement import ONLY, RECORDED

_logger = logging.getLogger("concurrent.futures")  # as of the base class
_BASE_ATTRIBUTES = frozenset({"_condition", "_state", "_result", "_exception", "_waiters", "_done_callbacks"})

QueuedTask = tuple[CompletionTracker, CommandQueue, int, str]
"""The arguments of `Future`: a launch that nobody asks about needs no more."""


class Future(concurrent.futures.Future[None]):
    """Work that has been launched. It runs whether or not its future is kept.

    This is a `concurrent.futures.Future`, so `concurrent.futures.wait` and `as_completed` accept it, and it can be
    awaited under asyncio. Its result cannot be set. As many launches make one, it is four attributes until more than
    `result()` and `done()` is asked of it: then the base class is initialized, and the runtime's watcher informed.
    """

    def __init__(self, tracker: CompletionTracker, queue: CommandQueue | None, task: int, reason: str = ONLY) -> None:
        # The base's constructor makes a lock and lists, which few futures need: see __getattr__.
        self._tracker, self._queue, self._task, self._reason = tracker, queue, task, reason

    @property
    def queue(self) -> Queue | None:
        """The queue that runs the work, with `role`, `index` and `family`; None for work recorded into a graph."""
        return None if self._queue is None else self._queue.device_queue

    @property
    def placement(self) -> str:
        """The reason why the work is on its queue."""
        return RECORDED if self._queue is None else self._reason

    def point(self) -> Point:
        """The point at which the work has finished. Submits the work if need be.

        Raises:
            ValueError: the work was recorded into a graph, and has no point of its own.
            VulkanError: it could not be submitted.
        """
        if self._queue is None:
            raise ValueError("this launch was recorded into a graph; wait for the future of the graph's submit()")
        with self._tracker.device.lock:
            return self._queue.point(self._task)

    @property
    def failed(self) -> bool:
        """True if the work is known to have failed: it could not be submitted, or has reported an error."""
        return self._queue is not None and self._queue.failure_of(self._task) is not None

    def done(self) -> bool:
        """Returns True if the work has finished or failed; does not wait."""
        try:
            if finished := self.point().done():
                self._tracker.callbacks.run()
            return finished
        except Exception as error:
            if _is_misuse(error):
                raise
            return True

    def running(self) -> bool:
        """Returns True if the work has neither finished nor failed."""
        return not self.done()

    def cancel(self) -> bool:
        """Returns False: launched work cannot be cancelled."""
        return False

    def result(  # type: ignore[override]
        self, timeout_s: float | None = None, *, timeout: float | None = None
    ) -> None:
        """Waits for the work. `timeout` is the standard library's name of `timeout_s`.

        Raises:
            TimeoutError: it has not finished within `timeout_s` seconds. It keeps running, and the future stays valid.
            VulkanError: it could not be submitted: a batch is submitted as a whole, or fails as a whole.
            KernelError: a kernel written in Python has reported an error.
            DeviceLost: the device stopped working.
        """
        seconds = timeout if timeout_s is None else timeout_s
        if not self.point().wait(seconds):
            raise timed_out(seconds)
        self._tracker.callbacks.run()
        if self._tracker.failures:
            self.point()  # raises the error of failed work

    def ended(self, timeout_s: float | None = None) -> bool:
        """Waits until the work has finished or failed; returns False if `timeout_s` seconds pass first.

        A failure is not reported by this, so `wait()` and `flush()` still raise it.
        """
        assert self._queue is not None, "recorded work is not waited for"
        with self._tracker.device.lock:
            value = self._queue.value_of(self._task)
        ended = self._queue.device_queue.wait(value, timeout_s)
        self._tracker.callbacks.run()
        return ended

    def exception(  # type: ignore[override]
        self, timeout_s: float | None = None, *, timeout: float | None = None
    ) -> BaseException | None:
        """Waits for the work; returns the error that it ended with, or None.

        Raises:
            TimeoutError: as `result`.
        """
        try:
            self.result(timeout_s, timeout=timeout)
        except TimeoutError:
            raise
        except Exception as error:
            return error
        return None

    def __getattr__(self, name: str) -> Any:
        """Initializes the base class when one of its attributes is first read."""
        if name not in _BASE_ATTRIBUTES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        try:  # before the initialization: if it raises, no future is left that nothing would ever finish
            point, error = self.point(), None
        except Exception as caught:
            if _is_misuse(caught):
                raise
            point, error = None, caught
        with self._tracker.device.lock:
            made = "_condition" not in self.__dict__
            if made:
                super().__init__()
        if made:  # not under the lock: finishing a future takes the future's own
            if point is None:
                self._finish(error)
            else:
                self._tracker.watcher.watch(point, self._finish)
        return self.__dict__[name]

    def _finish(self, error: Exception | None) -> None:
        try:
            failure = error or self.exception()
        except BaseException as caught:  # e.g. Ctrl-C: whatever waits for this future must not hang
            super().set_exception(caught)
            raise
        if failure is None:
            super().set_result(None)
        else:
            super().set_exception(failure)

    def _invoke_callbacks(self) -> None:
        """Calls the done callbacks. The base class logs only an `Exception`; another one would end the watcher."""
        for callback in self._done_callbacks:
            self._invoke(callback)

    def _invoke(self, callback: Callable[[Future], object]) -> None:
        try:
            callback(self)
        except BaseException:
            _logger.exception("exception calling callback for %r", self)

    def _refuse_change(self, *_: object) -> NoReturn:
        raise concurrent.futures.InvalidStateError(
            "the device sets the result of launched work; use a concurrent.futures.Future for a result of your own"
        )

    set_result = set_exception = set_running_or_notify_cancel = _refuse_change  # type: ignore[assignment]

    def __await__(self) -> Generator[Any, None, None]:
        import asyncio  # here, because it takes longer to import than all of vkcompute

        return asyncio.wrap_future(self).__await__()

    def __repr__(self) -> str:
        return f"<future of task {self._task}{'' if self._queue is None else f' on {self._queue.device_queue}'}>"


def timed_out(seconds: float | None) -> TimeoutError:
    """Returns the error for work that takes longer than this."""
    return TimeoutError(f"the work has not finished after {seconds} s; it keeps running, wait again for it")


def _is_misuse(error: Exception) -> bool:
    """True if the work has no point, or the runtime is closed; else the work itself has failed."""
    return isinstance(error, ValueError) and not isinstance(error, KernelError)
