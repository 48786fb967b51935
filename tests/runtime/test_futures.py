"""Futures tell when work is finished: without being kept, in time, and with nothing else to drive them."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from hang_limit import hang_limit_s
from machine import SCALE
from runtimes import open_runtime

import vkcompute as vc
from vkcompute.runtime.scheduling.watcher import _QueueWatcher

# One invocation counts: the time that it takes depends on `n` alone.
SPIN = """
layout(local_size_x = 1) in;
layout(binding = 0) buffer X { uint x[]; };
layout(push_constant) uniform P { uint n; };
void main() { uint v = x[0]; for (uint i = 0; i < n; i++) v = v * 1664525u + 1013904223u; x[0] = v; }
"""
ROUND = 60_000  # lavapipe cuts loops at 65,535


def long_work(gpu: vc.Runtime, seconds: float, x: vc.Array | None = None) -> vc.Future:
    """Launches work of about that length, on `x` of shape (1,) and uint32."""
    spin, x = gpu.kernel(vc.glsl(SPIN)), gpu.zeros(1, np.uint32) if x is None else x
    spin(x, ROUND).result()
    start = time.perf_counter()
    for _ in range(100):
        future = spin(x, ROUND)
    future.result()
    for _ in range(int(100 * seconds / (time.perf_counter() - start)) + 1):
        future = spin(x, ROUND)
    return future


def timed_out(future: vc.Future, timeout_s: float) -> str:
    """The message of a timeout; "" if the work was done in time."""
    try:
        future.result(timeout_s)
    except TimeoutError as error:
        return str(error)
    return ""


def test_result_in_time_and_not(gpu: vc.Runtime) -> None:
    for seconds in (1.0, 8.0, 64.0):  # until the work takes longer than the three calls
        future = long_work(gpu, seconds)
        messages = [timed_out(future, timeout_s) for timeout_s in (0, 0.05, -1)]
        if not future.done():
            break
    assert all("it keeps running" in message for message in messages), messages
    assert future.result(hang_limit_s(300)) is None
    assert future.done()
    assert future.result(0) is None


def test_done_without_any_other_call(gpu: vc.Runtime) -> None:
    x = gpu.zeros(1000, np.int32)
    future = gpu.kernel(vc.glsl(SCALE))(x, 1, 1)
    end = time.monotonic() + hang_limit_s(30)
    while not future.done():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_each_launch_has_its_own_moment(gpu: vc.Runtime) -> None:
    x, kernel = gpu.zeros(1000, np.int32), gpu.kernel(vc.glsl(SCALE))
    futures = [kernel(x, 1, 1) for _ in range(300)]
    futures[10].result()
    assert futures[0].done()
    futures[299].result()
    assert all(future.done() for future in futures)
    moments = [future.point().value for future in futures]
    assert moments == sorted(moments)


def test_copies_and_graphs_have_futures_and_recorded_launches_have_none(gpu: vc.Runtime) -> None:
    x, y, kernel = gpu.zeros(1000, np.int32), gpu.empty(1000, np.int32), gpu.kernel(vc.glsl(SCALE))
    y.copy_from(x).result(hang_limit_s(30))
    with gpu.record() as graph:
        recorded = kernel(y, 1, 1)
    graph.submit().result(hang_limit_s(30))
    assert set(y.numpy().tolist()) == {1}
    for use in (recorded.result, recorded.done, recorded.point):
        with pytest.raises(ValueError, match="recorded into a graph"):
            use()


class FinishedQueue:
    """A queue whose work is finished, as some other thread has found out."""

    completed = 5

    def wait(self, value: int) -> bool:
        if value > self.completed:
            raise AssertionError("nobody will ever submit this")
        return True


def test_a_watcher_waits_for_nothing_that_was_not_submitted() -> None:
    told: list[Exception | None] = []
    called = threading.Event()
    watcher = _QueueWatcher(FinishedQueue())
    watcher.watch(5, lambda error: (told.append(error), called.set()))
    assert called.wait(hang_limit_s(10))
    watcher.close(vc.ClosedError("closed"))
    watcher.thread.join(hang_limit_s(10))
    assert not watcher.thread.is_alive()
    assert told == [None]


def test_several_threads_wait_for_one_future(gpu: vc.Runtime) -> None:
    future = long_work(gpu, 0.3)
    seen: list[bool] = []

    def wait() -> None:
        future.result()
        seen.append(future.done())

    threads = [threading.Thread(target=wait) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(hang_limit_s(60))
    assert seen == [True] * 6


@pytest.mark.parametrize("way", ["result", "exception", "runtime", "numpy"])
def test_other_threads_run_while_one_waits(gpu: vc.Runtime, way: str) -> None:
    """The wait gives the interpreter away, and uses no processor time of its own."""
    x = gpu.zeros(1, np.uint32)
    future = long_work(gpu, 0.5, x)
    waits = {"result": future.result, "exception": future.exception, "runtime": gpu.wait, "numpy": x.numpy}
    used, turns, waiting = [], 0, threading.Event()

    def wait() -> None:
        gpu.flush()
        before = time.thread_time()
        waiting.set()
        waits[way]()
        used.append(time.thread_time() - before)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    while not future.done():
        turns += 1
        time.sleep(0.001)
    thread.join()
    assert turns > 1, "a wait that keeps the interpreter leaves no turn after the first sleep"
    assert used[0] < 0.1


def test_reading_one_array_does_not_wait_for_work_on_another() -> None:
    with open_runtime(timelines=2) as gpu:
        other = gpu.full(10, 5, np.int32)
        gpu.wait()
        future = long_work(gpu, 0.8)
        gpu.flush()
        start = time.perf_counter()
        assert other.numpy().tolist() == [5] * 10
        took = time.perf_counter() - start
        assert not future.done() or took < 0.2
