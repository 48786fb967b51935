"""What an asynchronous launch gives back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vkcompute.core.queue import Point
    from vkcompute.runtime.lane import Lane
    from vkcompute.runtime.scheduler import Scheduler


class Future:
    """Work on its way. Nobody has to keep it: work whose future is dropped runs all the same."""

    __slots__ = ("_lane", "_scheduler", "_task")

    def __init__(self, scheduler: Scheduler, lane: Lane | None, task: int) -> None:
        self._scheduler, self._lane, self._task = scheduler, lane, task

    def point(self) -> Point:
        """The moment when the work is finished. Submits it if that has not been done.

        Raises:
            ValueError: the work was recorded into a graph, and so has no moment of its own.
        """
        if self._lane is None:
            raise ValueError(
                "this launch was recorded into a graph; wait for the future that the graph's submit() gives"
            )
        with self._scheduler.lock:
            return self._lane.point(self._task)

    def done(self) -> bool:
        """Whether the work is finished; does not wait."""
        return self.point().done()

    def result(self, timeout_s: float | None = None) -> None:
        """Waits for the work.

        Raises:
            TimeoutError: it is not finished within `timeout_s` seconds; it goes on, and the future stays valid.
            DeviceLost: the device stopped working.
        """
        if not self.point().wait(timeout_s):
            raise TimeoutError(f"the work is not finished after {timeout_s} s; it goes on, wait again for it")
