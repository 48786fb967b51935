"""Profiles: a pair of timestamps around every task on the device, and the times of the host's calls for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from vkcompute.core.clock import Clock, Reading, read_both
from vkcompute.core.interrupts import BlockExit, begin_block
from vkcompute.core.timestamp_pool import TimestampPool
from vkcompute.runtime.memory.context import Context, contexts
from vkcompute.runtime.profiling.trace import HostTime, TaskTime, Trace
from vkcompute.runtime.scheduling.command_queue import CommandQueue

_POOL_QUERIES = 1024


class _QueueTimes:
    """The timestamps of one queue: pairs of queries, in as many pools as they need."""

    def __init__(self, queue: CommandQueue) -> None:
        self._queue, self._before = queue, _read_both(queue)
        self._pools: list[TimestampPool] = []
        self._n_used = _POOL_QUERIES
        self._finished: list[tuple[int, HostTime, TimestampPool, int]] = []

    def start(self) -> None:
        """Writes the first timestamp of a task."""
        if self._n_used == _POOL_QUERIES:
            self._pools.append(TimestampPool(self._queue.device_queue, _POOL_QUERIES))
            self._pools[-1].reset()
            self._n_used = 0
        self._queue.open().timestamp(self._pools[-1].handle, self._n_used)
        self._n_used += 2

    def stop(self, launch: HostTime) -> None:
        """Writes the second timestamp."""
        self._queue.open().timestamp(self._pools[-1].handle, self._n_used - 1)
        self._finished.append((self._queue.task, launch, self._pools[-1], self._n_used - 2))

    def read(self) -> Iterator[TaskTime]:
        """Yields the times of the tasks, which have finished."""
        if not self._finished:
            return
        queue, after = f"{self._queue.device_queue.role} {self._queue.index}", _read_both(self._queue)
        clock = Clock(self._pools[0].ns_per_tick, self._pools[0].bits, self._before, after)
        for task, launch, pool, first in self._finished:
            if self._queue.failure_of(task) is not None:  # its timestamps will never be written
                continue
            if (ticks := pool.read(first, 2)) is not None:  # else its batch could not be submitted
                start, stop = map(clock.host_ns, ticks)
                yield TaskTime(launch.what, queue, start, stop, launch.start_ns, launch.thread, launch.nbytes)

    def close(self) -> None:
        for pool in self._pools:
            pool.close()


class Profile(Trace):
    """`with runtime.profile() as profile: …` measures every task launched in the block, by any thread.

    The measurements are complete when the block ends, which waits for the tasks. They cost two timestamps per task;
    without a profile they cost nothing. Queues without timestamps are left out.
    """

    def __init__(self, runtime: Context) -> None:
        super().__init__(str(runtime.device))
        self.runtime = runtime
        self._queues: dict[int, _QueueTimes] = {}
        self._threads: dict[threading.Thread, str] = {}
        self._undo = ExitStack()
        self._before: dict[int, int] = {}

    def __enter__(self) -> Profile:
        scheduler = self.runtime.scheduler
        self.runtime.require_open()
        begin_block(self)
        self._before = {id(context): _count(context) for context in contexts()}
        with scheduler.device.lock:
            if scheduler.profile is not None:
                raise ValueError("this runtime is being profiled already; leave that `with runtime.profile()` first")
            try:
                self._begin(scheduler.queues)
                scheduler.profile = self
            except BaseException:
                self._undo.close()
                raise
        return self

    def _begin(self, queues: Sequence[CommandQueue]) -> None:
        self._queues = {queue.index: _QueueTimes(queue) for queue in queues if _has_timestamps(queue)}
        for queue in queues:
            self._observe(queue.device_queue, "submit")
            self._observe(queue.device_queue, "wait")
        self._observe(self.runtime.transfers, "upload")
        self._observe(self.runtime.transfers, "download")

    def _exit(self, *_: object) -> None:
        scheduler, runtime = self.runtime.scheduler, self.runtime
        with ExitStack() as last:
            for times in self._queues.values():
                last.callback(times.close)
            try:
                if not runtime.closed:
                    scheduler.wait()
            finally:
                self.stop_measuring()
            if not runtime.closed:
                scheduler.wait()  # for launches by other threads since
                self._read()
        self.note = "" if self.tasks else self._elsewhere()

    def stop_measuring(self) -> None:
        """Measures no more; does nothing the second time."""
        scheduler = self.runtime.scheduler
        with scheduler.device.lock:
            if scheduler.profile is self:
                scheduler.profile = None
            self._undo.close()

    def abandon(self) -> None:
        """Ends a profile whose end was interrupted: it has no times."""
        self.stop_measuring()
        for times in self._queues.values():
            times.close()

    __exit__ = BlockExit(_exit, abandon)

    def _elsewhere(self) -> str:
        """Returns a note on the runtimes on which tasks ran meanwhile."""
        ran = [(context, _count(context) - self._before.get(id(context), 0)) for context in contexts()]
        others = [f"{n} on {context!r}" for context, n in ran if n > 0 and context is not self.runtime]
        return f"No task ran on this runtime, but {', '.join(others)}; profile that one" if others else ""

    def start(self, queue: CommandQueue) -> int:
        """Called by the scheduler before it records a task; returns the time for `stop`."""
        if queue.index in self._queues:
            self._queues[queue.index].start()
        return time.perf_counter_ns()

    def stop(self, queue: CommandQueue, name: str, nbytes: int, start_ns: int) -> None:
        """Called by the scheduler after it has recorded the task."""
        launch = self._add_host_time("launch", start_ns, nbytes, name)
        if queue.index in self._queues:
            self._queues[queue.index].stop(launch)

    def _observe(self, owner: Any, method: str) -> None:
        """Measures the calls of a method, which the owner's instance overrides as long as the profile lasts."""
        function = getattr(owner, method)

        def call(*args: Any, **options: Any) -> Any:
            start_ns = time.perf_counter_ns()
            try:
                return function(*args, **options)
            finally:
                self._add_host_time(method, start_ns, next((arg.nbytes for arg in args if hasattr(arg, "nbytes")), 0))

        self._undo.callback(vars(owner).pop, method, None)
        setattr(owner, method, call)

    def _add_host_time(self, name: str, start_ns: int, nbytes: int, what: str = "") -> HostTime:
        thread = threading.current_thread()
        if thread not in self._threads:
            track = "host" if thread is threading.main_thread() else f"host, {thread.name}"
            self._threads[thread] = f"{track} ({len(self._threads)})" if track in self._threads.values() else track
        added = HostTime(name, what, self._threads[thread], start_ns, time.perf_counter_ns(), nbytes)
        self.host.append(added)
        return added

    def _read(self) -> None:
        with self.runtime.scheduler.device.lock:
            for times in self._queues.values():
                self.tasks.extend(times.read())
        self.tasks.sort(key=lambda task: task.start_ns)
        self.host.sort(key=lambda call: (call.start_ns, -call.stop_ns))


def _count(runtime: Context) -> int:
    """Returns the number of tasks so far."""
    return sum([queue.task for queue in runtime.scheduler.queues])


def _has_timestamps(queue: CommandQueue) -> bool:
    device_queue = queue.device_queue
    return device_queue.device.physical.queue_families[device_queue.family].timestamp_bits > 0


def _read_both(queue: CommandQueue) -> Reading:
    """Reads the clocks of the queue and of the host together.

    If the device cannot calibrate them, the time of a timestamp is taken to be in the middle of its submit and wait,
    for the shortest of several.
    """
    if (calibrated := read_both(queue.device_queue.device)) is not None:
        return calibrated
    tries = []
    with TimestampPool(queue.device_queue, 1) as pool:
        queue.flush()
        for _ in range(5):
            recorder = queue.open()
            pool.reset()
            recorder.timestamp(pool.handle, 0)
            before = time.perf_counter_ns()
            queue.recorded = queue.task = queue.task + 1
            queue.point(queue.task).wait()
            took = time.perf_counter_ns() - before
            if (ticks := pool.read(0, 1)) is not None:
                tries.append(Reading(ticks[0], before + took // 2, took // 2))
    return min(tries, key=lambda sample: sample.error_ns)
