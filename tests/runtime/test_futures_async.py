"""Futures as the standard library knows them: callbacks, `concurrent.futures.wait`, `await`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import selectors
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from hang_limit import hang_limit_s
from test_futures import long_work

import vkcompute as vc

BUSY = """
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { uint a[]; };
layout(push_constant) uniform P { uint turns; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= a.length()) return;
    uint x = a[i];
    for (uint k = 0u; k < turns; ++k) x = x * 1664525u + 1013904223u;
    a[i] = x;
}
"""


def busy(gpu: vc.Runtime, array: vc.Array, launches: int = 4) -> list[vc.Future]:
    """Launches of about a millisecond each, one after the other."""
    kernel = gpu.kernel(vc.glsl(BUSY))
    return [kernel(array, 500) for _ in range(launches)]


def test_callbacks_are_called_once_each_on_another_thread_and_at_once_when_done(gpu: vc.Runtime) -> None:
    array = gpu.zeros(1 << 16, np.uint32)
    called: list[tuple[int, vc.Future]] = []
    all_called = threading.Event()

    def note(future: vc.Future) -> None:
        called.append((threading.get_ident(), future))
        if len(called) == 4:
            all_called.set()

    futures = busy(gpu, array)
    for future in futures:
        future.add_done_callback(note)
    assert all_called.wait(hang_limit_s(30))
    assert {id(future) for _, future in called} == {id(future) for future in futures}
    assert all(future.done() for future in futures)
    futures[0].add_done_callback(note)
    assert called[-1][0] == threading.get_ident()
    assert len(called) == 5


def test_concurrent_futures_wait_and_as_completed(gpu: vc.Runtime) -> None:
    arrays = [gpu.zeros(1 << 14, np.uint32) for _ in range(3)]
    futures = [future for array in arrays for future in busy(gpu, array)]
    done, pending = concurrent.futures.wait(futures, timeout=hang_limit_s())
    assert done == set(futures)
    assert not pending
    assert {id(future) for future in concurrent.futures.as_completed(futures, timeout=hang_limit_s())} == {
        id(f) for f in futures
    }


def test_first_completed_comes_before_the_last(gpu: vc.Runtime) -> None:
    array = gpu.zeros(1 << 15, np.uint32)
    futures = busy(gpu, array, launches=1)
    gpu.flush()
    long_work(gpu, 0.3, array[:1])
    futures += busy(gpu, array, launches=60)
    done, pending = concurrent.futures.wait(
        futures, timeout=hang_limit_s(), return_when=concurrent.futures.FIRST_COMPLETED
    )
    assert futures[0] in done
    assert pending
    gpu.wait()


def test_await_lets_the_loop_go_on(gpu: vc.Runtime) -> None:
    async def main() -> tuple[int, None]:
        ticks, future = 0, long_work(gpu, 0.2)

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticking = asyncio.ensure_future(tick())
        result = await future
        ticking.cancel()
        return ticks, result

    ticks, result = asyncio.run(main())
    assert result is None
    assert ticks > 3


def cpu_seconds(thread: threading.Thread) -> float:
    """Processor time that a thread has used."""
    assert thread.ident is not None
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="the system does not tell a thread's time")
def test_awaiting_is_no_busy_loop(gpu: vc.Runtime) -> None:
    """While work is awaited, the event loop sleeps until it is told, and so does the thread that tells it."""
    future = long_work(gpu, 0.8)
    selects = 0

    class Counting(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            nonlocal selects
            selects += 1
            return super().select(timeout)

    async def main() -> None:
        task = asyncio.ensure_future(awaited())
        await asyncio.sleep(0)
        assert not future.done()
        watchers = [thread for thread in threading.enumerate() if f"vkcompute watcher of {future.queue}" in thread.name]
        before = cpu_seconds(threading.main_thread()), list(map(cpu_seconds, watchers))
        await task
        used = cpu_seconds(threading.main_thread()) - before[0]
        assert used < 0.2
        assert watchers
        assert all(cpu_seconds(watcher) - was < 0.2 for watcher, was in zip(watchers, before[1], strict=True))

    async def awaited() -> None:
        await future

    loop = asyncio.SelectorEventLoop(Counting())
    loop.run_until_complete(main())
    loop.close()
    assert selects < 30


def test_a_timeout_of_the_standard_librarys_leaves_the_work_running(gpu: vc.Runtime) -> None:
    array = gpu.zeros(1, np.uint32)
    future = long_work(gpu, 0.3, array)

    async def main() -> None:
        with pytest.raises((TimeoutError, asyncio.TimeoutError)):
            await asyncio.wait_for(asyncio.wrap_future(future), 1e-3)  # which cancels what it waits for
        awaited = asyncio.wrap_future(future)
        awaited.cancel()
        with pytest.raises(asyncio.CancelledError):
            await awaited

    assert concurrent.futures.wait([future], timeout=0) == (set(), {future})
    with pytest.raises((TimeoutError, concurrent.futures.TimeoutError)):
        list(concurrent.futures.as_completed([future], timeout=1e-3))
    asyncio.run(main())
    assert not future.cancelled()
    assert concurrent.futures.wait([future], timeout=hang_limit_s()).done == {future}
    assert future.result() is None
    assert array.numpy()[0] != 0, "the work was done"


def test_awaiting_a_timed_out_future_again(gpu: vc.Runtime) -> None:
    async def main(future: vc.Future) -> None:
        with pytest.raises((TimeoutError, asyncio.TimeoutError)):
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), 1e-4)
        await future

    future = busy(gpu, gpu.zeros(1 << 16, np.uint32), launches=30)[-1]
    asyncio.run(main(future))
    assert future.done()
    assert future.exception() is None


def test_a_waiting_watcher_uses_no_processor_time() -> None:
    with vc.Runtime() as gpu:
        future = busy(gpu, gpu.zeros(64, np.uint32), launches=1)[0]
        future.add_done_callback(lambda _: None)
        future.result()
        time.sleep(0.05)
        before = time.process_time()
        time.sleep(0.5)
        assert time.process_time() - before < 0.1


def test_work_cannot_be_cancelled(gpu: vc.Runtime) -> None:
    future = busy(gpu, gpu.zeros(64, np.uint32), launches=1)[0]
    assert not future.cancel()
    assert future.result() is None
    assert not future.cancelled()


def test_closing_the_runtime_finishes_what_is_watched(clean_handles: None) -> None:
    threads = threading.active_count()
    with vc.Runtime() as gpu:
        futures = busy(gpu, gpu.zeros(1 << 16, np.uint32))
        called: list[BaseException | None] = []
        for future in futures:
            future.add_done_callback(lambda f: called.append(f.exception()))
    assert len(called) == len(futures)
    assert threading.active_count() == threads


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), ValueError("no")], ids=repr)
def test_callbacks_that_raise_are_logged_and_harm_no_other(
    gpu: vc.Runtime, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    def fail(_: vc.Future) -> None:
        raise error

    array = gpu.zeros(1 << 13, np.uint32)
    long_work(gpu, 0.3, array[:1])  # a callback of a future that is done is called at once, by the caller
    futures = busy(gpu, array, launches=20)
    called = [threading.Event() for _ in futures]
    for future, event in zip(futures, called, strict=True):
        future.add_done_callback(fail)
        future.add_done_callback(lambda _, event=event: event.set())
    assert all(event.wait(hang_limit_s(60)) for event in called)
    assert concurrent.futures.wait(futures, timeout=hang_limit_s()).not_done == set()
    raised = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert raised == [error] * len(futures)
    late = busy(gpu, gpu.zeros(64, np.uint32), launches=1)[0]
    late.add_done_callback(lambda _: called[0].clear())
    concurrent.futures.wait([late], timeout=hang_limit_s())
    assert late.done()


def test_the_result_of_work_cannot_be_set(gpu: vc.Runtime) -> None:
    future = busy(gpu, gpu.zeros(1 << 16, np.uint32), launches=20)[-1]
    for set_it in (
        lambda: future.set_result(None),
        lambda: future.set_exception(ValueError()),
        future.set_running_or_notify_cancel,
    ):
        with pytest.raises(concurrent.futures.InvalidStateError, match="the device sets the result"):
            set_it()
    called = threading.Event()
    future.add_done_callback(lambda _: called.set())
    assert called.wait(hang_limit_s(60))
    assert future.result() is None


class Exits:
    """A stdout whose users exit."""

    def write(self, _: str) -> int:
        raise SystemExit(4)

    def flush(self) -> None:
        pass


def test_prints_that_exit_harm_no_future(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch is complete when its texts are printed; the stream's exception is that of the thread that prints."""

    @vc.kernel
    def prints(x: Any) -> None:
        print(x[0])

    prints[1, 1](gpu.zeros(1, np.int32)).result()
    monkeypatch.setattr(sys, "stdout", Exits())
    future = prints[1, 1](gpu.zeros(1, np.int32))
    with contextlib.suppress(SystemExit):  # on this thread if the work is done
        future.add_done_callback(lambda _: None)
    assert concurrent.futures.wait([future], timeout=hang_limit_s()).done
    monkeypatch.undo()
    assert future.exception() is None
    late = busy(gpu, gpu.zeros(64, np.uint32), launches=1)[0]
    assert concurrent.futures.wait([late], timeout=hang_limit_s()).done


def test_recorded_launches_have_no_moment(gpu: vc.Runtime) -> None:
    array = gpu.zeros(64, np.uint32)
    with gpu.record() as graph:
        futures = busy(gpu, array, launches=1)
    with pytest.raises(ValueError, match="recorded into a graph"):
        futures[0].add_done_callback(lambda _: None)
    graph.submit().add_done_callback(lambda _: None)
    gpu.wait()
