"""Watchers: threads that wait for points and then call back, one per queue that is watched."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from vkcompute import locks
from vkcompute.core.queue import Point, Queue
from vkcompute.errors import DeviceLost

Done = Callable[[Exception | None], None]
"""Called on the watcher's thread when the point is reached (None), or with the reason why it never will be."""

_IDLE_S = 0.5
_logger = logging.getLogger(__name__)


class _QueueWatcher:
    """Waits for the submits of one queue, one after the other, while a later one is watched.

    Its thread ends after a while without work: it keeps the runtime alive, which may have been dropped.

    One thread with one wait for all queues would do as well: VK_SEMAPHORE_WAIT_ANY_BIT, and a semaphore that the host
    signals to change the set. But validation layers of 2022 stall for seconds over it.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._changed = threading.Condition(locks.make(locks.Rank.WATCHED))
        self._watched: list[tuple[int, Done]] = []
        self._closed: Exception | None = None
        self._ended = False
        self.thread = threading.Thread(target=self._run, name=f"vkcompute watcher of {queue}", daemon=True)
        self.thread.start()

    def watch(self, value: int, done: Done) -> bool:
        """Registers a value; returns False if the watcher is closed, or its thread has ended."""
        with self._changed:
            accepted = self._closed is None and not self._ended
            if accepted:
                self._watched.append((value, done))
                self._changed.notify()
            return accepted

    def close(self, error: Exception) -> None:
        with self._changed:
            self._closed = self._closed or error
            self._changed.notify()

    def _run(self) -> None:
        while (first := self._first_watched()) is not None:
            try:
                # The next submit, but none later than the watched value: another may never be made.
                self._queue.wait(min(first, self._queue.completed + 1))
            except Exception as error:  # the device is lost: the watched values will never be reached
                self.close(error)
            self._report()

    def _first_watched(self) -> int | None:
        """Returns the lowest watched value. Waits a while for one; then ends the watcher and returns None."""
        with self._changed:
            if not self._watched and self._closed is None:
                self._changed.wait_for(lambda: self._watched or self._closed is not None, _IDLE_S)
            self._ended = not self._watched
            return min((value for value, _ in self._watched), default=None)

    def _report(self) -> None:
        with self._changed:
            error, reached, watched = self._closed, self._queue.completed, self._watched
            self._watched = [entry for entry in watched if entry[0] > reached and error is None]
        for value, done in watched:
            if value <= reached or error is not None:
                _call(done, None if value <= reached else error)


def _call(done: Done, error: Exception | None) -> None:
    """Calls back. Nothing that is raised may end the thread, which others wait for."""
    try:
        done(error)
    except BaseException:
        _logger.exception("exception calling %r", done)


class Watcher:
    """Calls back when points are reached. Its threads start on first use."""

    def __init__(self) -> None:
        self._lock = locks.make(locks.Rank.WATCHERS)  # reentrant for signal handlers
        self._queues: dict[Queue, _QueueWatcher] = {}
        self._closed: Exception | None = None

    def watch(self, point: Point, done: Done) -> None:
        """Calls `done` when the point is reached; at once if it has been, or never will be."""
        if point.done():
            done(None)
            return
        with self._lock:
            watched = self._closed is None and self._register(point, done)
        if not watched:
            done(self._closed or DeviceLost("VK_ERROR_DEVICE_LOST", "vkWaitSemaphores", str(point.queue)))

    def _register(self, point: Point, done: Done) -> bool:
        watcher = self._queues.get(point.queue)
        if watcher is not None and watcher.watch(point.value, done):
            return True
        watcher = self._queues[point.queue] = _QueueWatcher(point.queue)
        return watcher.watch(point.value, done)

    def abandon(self, error: Exception) -> None:
        """Drops the watched points in a forked child, which has no threads for them; later points get `error`."""
        self._lock, self._queues, self._closed = locks.make(locks.Rank.WATCHERS), {}, error

    def close(self, error: Exception) -> None:
        """Ends the threads, once all submitted work has finished or is lost; later points get `error`."""
        with self._lock:
            self._closed = error
            watchers = list(self._queues.values())
        for watcher in watchers:
            watcher.close(error)
            if watcher.thread is not threading.current_thread():
                watcher.thread.join()
