"""What an asynchronous launch gives back."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Generator
from typing import Any

from vkcompute.core.queue import Point, Queue
from vkcompute.errors import KernelError
from vkcompute.runtime.scheduling.command_queue import Lane
from vkcompute.runtime.scheduling.completion import CompletionTracker
from vkcompute.runtime.scheduling.placement import ONLY, RECORDED

_OF_THE_BASE = frozenset({"_condition", "_state", "_result", "_exception", "_waiters", "_done_callbacks"})


class Future(concurrent.futures.Future[None]):
    """Work on its way. Nobody has to keep it: work whose future is dropped runs all the same.

    It is a `concurrent.futures.Future`, so `concurrent.futures.wait` and `as_completed` take it, and it can be awaited
    under asyncio. A launch makes one, so it is three numbers until somebody asks for more than `result()` and `done()`:
    then the standard library's part is made, and the runtime's watcher told.
    """

    _why = ONLY  # set where there was a choice

    def __init__(self, tracker: CompletionTracker, lane: Lane | None, task: int) -> None:
        # Without the base's constructor: it makes a lock and lists, which few futures need. See __getattr__.
        self._tracker, self._lane, self._task = tracker, lane, task

    @property
    def queue(self) -> Queue | None:
        """The queue that runs the work, by its `role`, `index` and `family`; None for work recorded into a graph."""
        return None if self._lane is None else self._lane.queue

    @property
    def placement(self) -> str:
        """Why the work is on its queue."""
        return RECORDED if self._lane is None else self._why

    def point(self) -> Point:
        """The moment when the work is finished. Submits it if that has not been done.

        Raises:
            ValueError: the work was recorded into a graph, and so has no moment of its own.
            VulkanError: it could not be submitted.
        """
        if self._lane is None:
            raise ValueError(
                "this launch was recorded into a graph; wait for the future that the graph's submit() gives"
            )
        with self._tracker.device.lock:
            return self._lane.point(self._task)

    @property
    def failed(self) -> bool:
        """Whether it is known that the work could not be submitted, or what error it has reported."""
        return self._lane is not None and self._lane.failure_of(self._task) is not None

    def done(self) -> bool:
        """Whether the work is finished, or has failed; does not wait."""
        try:
            if finished := self.point().done():
                self._tracker.run_callbacks()
            return finished
        except Exception as error:
            if _is_misuse(error):
                raise
            return True

    def running(self) -> bool:
        """Whether the work is on its way."""
        return not self.done()

    def cancel(self) -> bool:
        """False: a device does not give work back."""
        return False

    def result(  # type: ignore[override]
        self, timeout_s: float | None = None, *, timeout: float | None = None
    ) -> None:
        """Waits for the work. `timeout` is `timeout_s` under the standard library's name.

        Raises:
            TimeoutError: it is not finished within `timeout_s` seconds; it goes on, and the future stays valid.
            VulkanError: it could not be submitted: a batch is submitted as a whole, or fails as a whole.
            KernelError: a kernel written in Python has reported an error.
            DeviceLost: the device stopped working.
        """
        seconds = timeout if timeout_s is None else timeout_s
        if not self.point().wait(seconds):
            raise TimeoutError(f"the work is not finished after {seconds} s; it goes on, wait again for it")
        self._tracker.run_callbacks()
        if self._tracker.failures:
            self.point()  # which tells them

    def exception(  # type: ignore[override]
        self, timeout_s: float | None = None, *, timeout: float | None = None
    ) -> BaseException | None:
        """Waits for the work, and gives the error that it ended with, or None.

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
        """Makes the base's part when its attributes are first asked for."""
        if name not in _OF_THE_BASE:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        try:  # first: where it raises, nothing has been made that nobody would ever finish
            point, error = self.point(), None
        except Exception as caught:
            if _is_misuse(caught):
                raise
            point, error = None, caught
        with self._tracker.device.lock:
            made = "_condition" not in self.__dict__
            if made:
                super().__init__()
        if made:  # without the lock: what finishes a future takes the future's own
            if point is None:
                self._finish(error)
            else:
                self._tracker.watcher.watch(point, self._finish)
        return self.__dict__[name]

    def _finish(self, error: Exception | None) -> None:
        found = error or self.exception()
        if found is None:
            self.set_result(None)
        else:
            self.set_exception(found)

    def __await__(self) -> Generator[Any, None, None]:
        import asyncio  # here, because it takes longer to import than all of vkcompute

        return asyncio.wrap_future(self).__await__()

    def __repr__(self) -> str:
        return f"<future of task {self._task}{'' if self._lane is None else f' on {self._lane.queue}'}>"


def _is_misuse(error: Exception) -> bool:
    """Whether there is no moment to ask about, or the runtime is closed; else the work has failed."""
    return isinstance(error, ValueError) and not isinstance(error, KernelError)
