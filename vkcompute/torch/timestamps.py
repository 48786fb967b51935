"""Marks in the queues of the device, with the times at which it reaches them."""

from __future__ import annotations

import time
from typing import Any

from vkcompute.core.command import Recorder
from vkcompute.core.timestamp_pool import TimestampPool
from vkcompute.errors import MissingFeature
from vkcompute.runtime.scheduling.task import BufferMap, Task, Values
from vkcompute.torch.storage import compute_pending, runtime


class _Timestamp(Task):
    """A task that writes a timestamp; without a pool, it only marks the end of earlier tasks."""

    __slots__ = ("_pool",)
    name = "timestamp"
    buffers = ()

    def __init__(self, pool: TimestampPool | None) -> None:
        super().__init__((), ())
        self._pool = pool

    def rebased(self, buffer_map: BufferMap, values: Values) -> _Timestamp:
        return self

    def record(self, recorder: Recorder) -> None:
        if self._pool is not None:
            recorder.timestamp(self._pool.handle, 0)


class Mark:
    """A mark in one queue.

    Attributes:
        future: of the work before it.
    """

    def __init__(self, queue: Any, *, has_time: bool) -> None:
        self._pool = _pool(queue.device_queue) if has_time else None
        self.future = runtime().scheduler.launch_now(_Timestamp(self._pool), queue.index)
        self._ns = None if self._pool is not None or not has_time else self._on_host()

    def _on_host(self) -> float:
        """Returns the host's time, once the work has completed."""
        self.future.result()
        return time.perf_counter_ns()

    def ns(self) -> float:
        """Returns the time of the mark, which the device has reached."""
        if self._ns is None:
            assert self._pool is not None
            ticks = self._pool.read(0, 1)
            self._ns = 0.0 if ticks is None else ticks[0] * self._pool.ns_per_tick
        return self._ns


def _pool(queue: Any) -> TimestampPool | None:
    """Returns a pool for one timestamp; None if the queue has none, whose marks have the host's time."""
    try:
        pool = TimestampPool(queue, 1)
        pool.reset()
    except MissingFeature:
        return None
    return pool


def record(*, has_time: bool) -> list[Mark]:
    """Launches all work that is not yet, and marks the end of each queue."""
    compute_pending()
    return [Mark(queue, has_time=has_time) for queue in runtime().scheduler.queues]


def has_completed() -> bool:
    """Launches all work that is not yet; returns True if the device has completed all."""
    compute_pending()
    return all(queue.has_finished(queue.task) for queue in runtime().scheduler.queues)
