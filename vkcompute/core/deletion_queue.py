"""Deferred deletion: destroys objects once the device has finished with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

from vkcompute.core.lifetime import Deletion, run_deletion


class TimelineSemaphore(Protocol):
    """The timeline semaphore of a queue."""

    last_value: int
    """Signalled by the newest submit."""
    completed: int
    """Known to be reached."""

    @property
    def recorded_value(self) -> int:
        """The value that is reached once all recorded and submitted work has completed."""

    def poll(self) -> int:
        """Updates `completed` and returns it."""

    def wait(self, value: int, timeout_s: float | None = None) -> bool:
        """Waits for a value."""


class DeletionQueue:
    """Deletions that run once all work recorded or submitted before them has completed.

    A Python function that Ctrl-C interrupts is called again. So it removes deleted objects from its arguments, or
    ends with its only effect.

    `append` is one atomic append to a deque: finalizers call it on any thread at any moment. All else requires the
    device's lock.
    """

    def __init__(self, timelines: Sequence[TimelineSemaphore]) -> None:
        self._timelines = timelines
        self._new: deque[Deletion] = deque()
        self._batches: deque[tuple[tuple[int, ...], list[Deletion]]] = deque()  # with a value of each timeline
        self.append = self._new.append

    @property
    def n_new(self) -> int:
        """Number of deletions added since the last `collect`."""
        return len(self._new)

    def collect(self) -> None:
        """Runs the deletions whose work has completed; neither waits nor submits."""
        if self._new:
            batch: list[Deletion] = []
            self._batches.append((tuple(timeline.recorded_value for timeline in self._timelines), batch))
            for _ in range(len(self._new)):
                batch += (self._new[0],)
                del self._new[0]
        while self._batches and self._reached(self._batches[0][0]):
            batch = self._batches[0][1]
            while batch:  # one at a time: if one raises, the others remain
                run_deletion(batch, 0)
            self._batches.popleft()

    def pending(self) -> Iterator[Deletion]:
        """Yields the deletions that wait for work to complete, without those added since the last `collect`."""
        return (deletion for _, batch in self._batches for deletion in batch)

    def _reached(self, values: tuple[int, ...]) -> bool:
        for timeline, value in zip(self._timelines, values, strict=True):
            value = min(value, timeline.recorded_value)  # a batch recorded then may have failed, and never be submitted
            if value > timeline.completed and value > timeline.poll():
                return False
        return True

    def run_all(self) -> None:
        """Runs every deletion: the device is idle or lost."""
        while self._new or self._batches:
            deletions = self._batches[0][1] if self._batches else self._new
            if deletions:
                run_deletion(deletions, 0)
            else:
                self._batches.popleft()
