"""Measures what the device does: a pair of timestamps around every task."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from vkcompute.core.query import TimestampPool
from vkcompute.runtime.timeline import TaskTime, Timeline

if TYPE_CHECKING:
    from vkcompute.runtime.lane import Lane
    from vkcompute.runtime.runtime import Runtime

_POOL_QUERIES = 1024


class _LaneTimes:
    """The timestamps of one lane: pairs of queries in as many pools as are needed."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self._pools: list[TimestampPool] = []
        self._used = _POOL_QUERIES
        self._begun: tuple[str, int, int, TimestampPool, int] | None = None
        self._finished: list[tuple[str, int, int, TimestampPool, int]] = []

    def start(self, name: str, nbytes: int) -> None:
        if self._used == _POOL_QUERIES:
            self._pools.append(TimestampPool(self.lane.queue, _POOL_QUERIES))
            self._pools[-1].reset()
            self._used = 0
        pool, first = self._pools[-1], self._used
        self._used += 2
        self.lane.open().timestamp(pool.handle, first, "end")
        self._begun = name, nbytes, time.perf_counter_ns(), pool, first

    def stop(self) -> None:
        if self._begun is not None:  # a task that failed in between has no end, and is left out
            _, _, _, pool, first = self._begun
            self.lane.open().timestamp(pool.handle, first + 1, "end")
            self._finished.append(self._begun)
            self._begun = None

    def read(self, offset_ns: int) -> Iterator[TaskTime]:
        queue = f"{self.lane.queue.role} {self.lane.index}"
        for name, nbytes, enqueued_ns, pool, first in self._finished:
            start, stop = pool.read_ns(first, 2)
            yield TaskTime(name, queue, start + offset_ns, stop + offset_ns, enqueued_ns, nbytes)

    def close(self) -> None:
        for pool in self._pools:
            pool.close()


class Profile(Timeline):
    """`with runtime.profile() as profile: …` measures every task that is launched in between, by any thread.

    The tasks are known when the block is left, which waits for them. Measuring costs two timestamps per task; without
    a profile nothing is measured and nothing is paid. Queues that have no timestamps are left out.
    """

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(str(runtime.device))
        self.runtime = runtime
        self._lanes: dict[int, _LaneTimes] = {}
        self._offsets: dict[int, int] = {}

    def __enter__(self) -> Profile:
        scheduler = self.runtime.scheduler
        self.runtime.require_open()
        with scheduler.lock:
            if scheduler.profile is not None:
                raise ValueError("this runtime is being profiled already; leave that `with runtime.profile()` first")
            self._offsets = {lane.index: _clock_offset_ns(lane) for lane in scheduler.lanes if _has_timestamps(lane)}
            scheduler.profile = self
        return self

    def __exit__(self, *_: object) -> None:
        scheduler = self.runtime.scheduler
        with scheduler.lock:
            scheduler.profile = None
        try:
            if not self.runtime.closed:
                scheduler.wait()
                self._read()
        finally:
            for times in self._lanes.values():
                times.close()

    def start(self, lane: Lane, name: str, nbytes: int) -> None:
        """A task is about to be recorded; for the scheduler."""
        if lane.index in self._offsets:
            times = self._lanes.get(lane.index)
            if times is None:
                times = self._lanes[lane.index] = _LaneTimes(lane)
            times.start(name, nbytes)

    def stop(self, lane: Lane) -> None:
        """The task has been recorded; for the scheduler."""
        if lane.index in self._lanes:
            self._lanes[lane.index].stop()

    def _read(self) -> None:
        for index, times in self._lanes.items():
            self.tasks.extend(times.read(self._offsets[index]))
        self.tasks.sort(key=lambda task: task.start_ns)


def _has_timestamps(lane: Lane) -> bool:
    queue = lane.queue
    return queue.device.physical.queue_families[queue.family].timestamp_bits > 0


def _clock_offset_ns(lane: Lane) -> int:
    """What to add to the queue's timestamps to get the host's: from a timestamp whose submit and wait are as short as
    they come, taken to lie in the middle.
    """
    best = None
    with TimestampPool(lane.queue, 1) as pool:
        lane.flush()
        for _ in range(5):
            recorder = lane.open()
            pool.reset()
            recorder.timestamp(pool.handle, 0, "end")
            before = time.perf_counter_ns()
            lane.flush()
            lane.queue.wait(lane.queue.last_value)
            after = time.perf_counter_ns()
            measured = after - before, (before + after) // 2 - pool.read_ns(0, 1)[0]
            best = measured if best is None or measured < best else best
    assert best is not None  # the loop above has run
    return best[1]
