"""Measures what the device does: a pair of timestamps around every task."""

from __future__ import annotations

import time
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
        self.pools: list[TimestampPool] = []
        self.noted: list[tuple[str, int, int]] = []
        self._used = _POOL_QUERIES

    def start(self, name: str, nbytes: int) -> None:
        recorder = self.lane.open()
        if self._used == _POOL_QUERIES:
            self.pools.append(TimestampPool(self.lane.queue, _POOL_QUERIES))
            self._used = 0
            recorder.reset_queries(self.pools[-1].handle, 0, _POOL_QUERIES)
        recorder.timestamp(self.pools[-1].handle, self._used, "end")
        self.noted.append((name, nbytes, time.perf_counter_ns()))

    def stop(self) -> None:
        self.lane.open().timestamp(self.pools[-1].handle, self._used + 1, "end")
        self._used += 2

    def read_ns(self) -> list[int]:
        times: list[int] = []
        for pool in self.pools:
            n = min(_POOL_QUERIES, 2 * len(self.noted) - len(times))
            times += pool.read_ns(0, n)
        return times

    def close(self) -> None:
        for pool in self.pools:
            pool.close()


class Profile(Timeline):
    """`with runtime.profile() as profile: …` measures every task that is launched in between, by any thread.

    The tasks are known when the block is left, which waits for them. Measuring costs two timestamps per task; without
    a profile nothing is measured and nothing is paid.
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
            self._offsets = {lane.index: _clock_offset_ns(lane) for lane in scheduler.lanes}
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
        times = self._lanes.get(lane.index)
        if times is None:
            times = self._lanes[lane.index] = _LaneTimes(lane)
        times.start(name, nbytes)

    def stop(self, lane: Lane) -> None:
        """The task has been recorded; for the scheduler."""
        self._lanes[lane.index].stop()

    def _read(self) -> None:
        for index, times in self._lanes.items():
            queue, offset = f"{times.lane.queue.role} {index}", self._offsets[index]
            stamps = times.read_ns()
            for (name, nbytes, enqueued), start, stop in zip(times.noted, stamps[::2], stamps[1::2], strict=True):
                self.tasks.append(TaskTime(name, queue, start + offset, stop + offset, enqueued, nbytes))
        self.tasks.sort(key=lambda task: task.start_ns)


def _clock_offset_ns(lane: Lane) -> int:
    """What to add to the queue's timestamps to get the host's: from a timestamp whose submit and wait are as short as
    they come, taken to lie in the middle.
    """
    best = None
    with TimestampPool(lane.queue, 1) as pool:
        lane.flush()
        for _ in range(5):
            recorder = lane.open()
            recorder.reset_queries(pool.handle, 0, 1)
            recorder.timestamp(pool.handle, 0, "end")
            before = time.perf_counter_ns()
            lane.flush()
            lane.queue.wait(lane.queue.last_value)
            after = time.perf_counter_ns()
            measured = after - before, (before + after) // 2 - pool.read_ns(0, 1)[0]
            best = measured if best is None or measured < best else best
    assert best is not None  # the loop above has run
    return best[1]
