"""Measures what the device does, a pair of timestamps around every task, and what the host does meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from vkcompute.core.clock import Clock, Reading, read_both
from vkcompute.core.timestamp_pool import TimestampPool
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.profiling.trace import HostTime, TaskTime, Trace
from vkcompute.runtime.scheduling.command_queue import Lane

_POOL_QUERIES = 1024


class _LaneTimes:
    """The timestamps of one lane: pairs of queries in as many pools as are needed."""

    def __init__(self, lane: Lane) -> None:
        self.lane, self._before = lane, _read_both(lane)
        self._pools: list[TimestampPool] = []
        self._used = _POOL_QUERIES
        self._finished: list[tuple[int, HostTime, TimestampPool, int]] = []

    def start(self) -> None:
        """Writes the first timestamp of a task."""
        if self._used == _POOL_QUERIES:
            self._pools.append(TimestampPool(self.lane.queue, _POOL_QUERIES))
            self._pools[-1].reset()
            self._used = 0
        self.lane.open().timestamp(self._pools[-1].handle, self._used)
        self._used += 2

    def stop(self, launch: HostTime) -> None:
        """Writes the second one."""
        self.lane.open().timestamp(self._pools[-1].handle, self._used - 1)
        self._finished.append((self.lane.task, launch, self._pools[-1], self._used - 2))

    def read(self) -> Iterator[TaskTime]:
        """The finished tasks."""
        if not self._finished:
            return
        queue, after = f"{self.lane.queue.role} {self.lane.index}", _read_both(self.lane)
        clock = Clock(self._pools[0].ns_per_tick, self._pools[0].bits, self._before, after)
        for task, launch, pool, first in self._finished:
            if self.lane.failure_of(task) is not None:  # its timestamps will never be written
                continue
            if (ticks := pool.read(first, 2)) is not None:  # else its batch could not be submitted
                start, stop = map(clock.host_ns, ticks)
                yield TaskTime(launch.what, queue, start, stop, launch.start_ns, launch.thread, launch.nbytes)

    def close(self) -> None:
        for pool in self._pools:
            pool.close()


class Profile(Trace):
    """`with runtime.profile() as profile: …` measures every task that is launched in between, by any thread.

    The tasks are known when the block is left, which waits for them. Measuring costs two timestamps per task; without
    a profile nothing is measured and nothing is paid. Queues that have no timestamps are left out.
    """

    def __init__(self, runtime: Context) -> None:
        super().__init__(str(runtime.device))
        self.runtime = runtime
        self._lanes: dict[int, _LaneTimes] = {}
        self._threads: dict[threading.Thread, str] = {}
        self._undo = ExitStack()

    def __enter__(self) -> Profile:
        scheduler = self.runtime.scheduler
        self.runtime.require_open()
        with scheduler.lock:
            if scheduler.profile is not None:
                raise ValueError("this runtime is being profiled already; leave that `with runtime.profile()` first")
            try:
                self._begin(scheduler.lanes)
                scheduler.profile = self
            except BaseException:
                self._undo.close()
                raise
        return self

    def _begin(self, lanes: list[Lane]) -> None:
        self._lanes = {lane.index: _LaneTimes(lane) for lane in lanes if _has_timestamps(lane)}
        for lane in lanes:
            self._observe(lane.queue, "submit")
            self._observe(lane.queue, "wait")
        self._observe(self.runtime.transfers, "upload")
        self._observe(self.runtime.transfers, "download")

    def __exit__(self, *_: object) -> None:
        scheduler, runtime = self.runtime.scheduler, self.runtime
        with ExitStack() as last:
            for times in self._lanes.values():
                last.callback(times.close)
            try:
                if not runtime.closed:
                    scheduler.wait()
            finally:
                with scheduler.lock:
                    scheduler.profile = None
                    self._undo.close()
            if not runtime.closed:
                scheduler.wait()  # for what other threads have launched since
                self._read()

    def start(self, lane: Lane) -> int:
        """A task is about to be recorded; for the scheduler, which gives what comes back to `stop`."""
        if lane.index in self._lanes:
            self._lanes[lane.index].start()
        return time.perf_counter_ns()

    def stop(self, lane: Lane, name: str, nbytes: int, start_ns: int) -> None:
        """The task has been recorded."""
        launch = self._noted("launch", start_ns, nbytes, name)
        if lane.index in self._lanes:
            self._lanes[lane.index].stop(launch)

    def _observe(self, owner: Any, method: str) -> None:
        """Notes the times of a method's calls: the owner gets one of its own, so that it pays nothing otherwise."""
        function = getattr(owner, method)

        def call(*args: Any, **options: Any) -> Any:
            start_ns = time.perf_counter_ns()
            try:
                return function(*args, **options)
            finally:
                self._noted(method, start_ns, next((arg.nbytes for arg in args if hasattr(arg, "nbytes")), 0))

        self._undo.callback(vars(owner).pop, method, None)
        setattr(owner, method, call)

    def _noted(self, name: str, start_ns: int, nbytes: int, what: str = "") -> HostTime:
        thread = threading.current_thread()
        if thread not in self._threads:
            track = "host" if thread is threading.main_thread() else f"host, {thread.name}"
            self._threads[thread] = f"{track} ({len(self._threads)})" if track in self._threads.values() else track
        noted = HostTime(name, what, self._threads[thread], start_ns, time.perf_counter_ns(), nbytes)
        self.host.append(noted)
        return noted

    def _read(self) -> None:
        with self.runtime.scheduler.lock:
            for times in self._lanes.values():
                self.tasks.extend(times.read())
        self.tasks.sort(key=lambda task: task.start_ns)
        self.host.sort(key=lambda call: (call.start_ns, -call.stop_ns))


def _has_timestamps(lane: Lane) -> bool:
    queue = lane.queue
    return queue.device.physical.queue_families[queue.family].timestamp_bits > 0


def _read_both(lane: Lane) -> Reading:
    """The clocks of queue and host: as the device reads them together, or where it cannot, by a timestamp whose submit
    and wait are as short as they come, taken to lie in the middle.
    """
    if (calibrated := read_both(lane.queue.device)) is not None:
        return calibrated
    tries = []
    with TimestampPool(lane.queue, 1) as pool:
        lane.flush()
        for _ in range(5):
            recorder = lane.open()
            pool.reset()
            recorder.timestamp(pool.handle, 0)
            before = time.perf_counter_ns()
            lane.recorded = lane.task = lane.task + 1
            lane.point(lane.task).wait()
            took = time.perf_counter_ns() - before
            if (ticks := pool.read(0, 1)) is not None:
                tries.append(Reading(ticks[0], before + took // 2, took // 2))
    return min(tries, key=lambda each: each.error_ns)
