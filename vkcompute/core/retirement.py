"""What is to be destroyed once the device has finished with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from vkcompute.core.lifetime import call_once

if TYPE_CHECKING:
    from vkcompute.core.queue import Queue

Item = tuple[Any, ...]
"""A function, then its arguments."""


class Retirement:
    """Items (function, arguments…) to be called after everything submitted or recorded so far.

    A call that Ctrl-C interrupts is made again: what is called leaves out what it has done, and does it last.

    `append` is one atomic append to a deque, so a finalizer may call it on any thread at any moment. Everything else is
    called with the device's lock held.
    """

    def __init__(self, queues: Sequence[Queue]) -> None:
        self._queues = queues
        self._fresh: deque[Item] = deque()
        self._waiting: deque[tuple[tuple[int, ...], list[Item]]] = deque()
        self.append = self._fresh.append

    def __len__(self) -> int:
        """How many items `collect` has not seen yet."""
        return len(self._fresh)

    def collect(self) -> None:
        """Calls the items whose moment has passed; neither waits nor submits."""
        if self._fresh:
            items: list[Item] = []
            self._waiting.append((tuple(queue.horizon for queue in self._queues), items))
            for _ in range(len(self._fresh)):
                items += (self._fresh[0],)
                del self._fresh[0]
        while self._waiting and self._reached(self._waiting[0][0]):
            items = self._waiting[0][1]
            while items:  # one by one: where one fails, the rest is not forgotten
                call_once(items, 0)
            self._waiting.popleft()

    def waiting(self) -> Iterator[Item]:
        """The items that `collect` has seen, and whose moment had not passed."""
        return (item for _, items in self._waiting for item in items)

    def _reached(self, moments: tuple[int, ...]) -> bool:
        for queue, value in zip(self._queues, moments, strict=True):
            value = min(value, queue.horizon)  # the batch that was recorded then may have failed, and be none of these
            if value > queue.completed and value > queue.poll():
                return False
        return True

    def empty(self) -> None:
        """Calls every item: the device is idle, or lost."""
        while self._fresh or self._waiting:
            items = self._waiting[0][1] if self._waiting else self._fresh
            if items:
                call_once(items, 0)
            else:
                self._waiting.popleft()
