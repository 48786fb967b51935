"""Everything that is opened is closed: in any order, by hand or by the garbage collector, with work pending or not."""

from __future__ import annotations

import contextlib
import gc
import itertools
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from faults import interrupted
from hang_limit import hang_limit_s
from machine import SCALE
from runtimes import open_runtime

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.core.lifetime import live_counts
from vkcompute.runtime.scheduling.command_queue import FEW_BATCHES

pytestmark = pytest.mark.usefixtures("clean_handles")


@pytest.fixture(scope="module", autouse=True)
def _no_default_runtime() -> None:
    """Closes the default runtime that tests of other modules have opened, before handles are counted."""
    vc.default_runtime().close()


def busy(runtime: vc.Runtime, n: int = 200) -> tuple[vc.Kernel, vc.Array]:
    """A kernel and an array with work on them that is not finished."""
    kernel, array = runtime.kernel(vc.glsl(SCALE)), runtime.zeros(1 << 16, np.int32)
    for _ in range(n):
        kernel(array, 1, 1)
    return kernel, array


PARTS = ("array", "view", "kernel", "graph", "runtime")


def parts(runtime: vc.Runtime) -> dict[str, object]:
    kernel, array = busy(runtime)
    with runtime.record() as graph:
        kernel(array, 1, 1)
    graph.submit(3)
    return {"array": array, "view": array[100:], "kernel": kernel, "graph": graph, "runtime": runtime}


@pytest.mark.parametrize("order", [*itertools.permutations(("array", "graph", "runtime"))], ids="-".join)
def test_closed_in_any_order(order: tuple[str, ...]) -> None:
    made = parts(vc.Runtime())
    for name in (*order, *order):
        made[name].close()


@pytest.mark.parametrize("order", [*itertools.permutations(PARTS)][::13], ids="-".join)
def test_dropped_in_any_order(order: tuple[str, ...]) -> None:
    made = parts(vc.Runtime())
    for name in order:
        del made[name]
        gc.collect()


@pytest.mark.parametrize("repeat", range(3))
def test_everything_dropped_at_once(repeat: int) -> None:
    """The collector finalizes a circle in an order of its own."""
    made = parts(vc.Runtime())
    made["circle"] = made
    del made
    gc.collect()


def test_a_dropped_runtime_is_collected() -> None:
    runtime = vc.Runtime()
    busy(runtime)
    dead = weakref.ref(runtime)
    del runtime
    gc.collect()
    assert dead() is None


def test_a_dropped_runtime_whose_futures_were_watched_is_collected() -> None:
    runtime = vc.Runtime()
    kernel, array = busy(runtime)
    for pause_s in (0, 1.5):  # with the thread that watches, and with a new one
        told = threading.Event()
        kernel(array, 1, 1).add_done_callback(lambda future, told=told: told.set())
        assert told.wait(hang_limit_s(30))
        time.sleep(pause_s)
    dead = weakref.ref(runtime)
    del runtime, kernel, array
    end = time.monotonic() + hang_limit_s(10)
    while dead() is not None and time.monotonic() < end:
        time.sleep(0.1)
        gc.collect()
    assert dead() is None


def test_drops_while_work_is_pending() -> None:
    with vc.Runtime() as runtime:
        kernel = runtime.kernel(vc.glsl(SCALE))
        for i in range(50):
            array = runtime.full(10_000, i, np.int32)
            for _ in range(10):
                kernel(array, 1, 1)
            with runtime.record() as graph:
                kernel(array, 2, 0)
            graph.submit(2)
            last = array
            del array, graph
        assert set(last.numpy().tolist()) == {(49 + 10) * 4}


def test_a_kernel_and_its_arrays_dropped_with_work_pending() -> None:
    with vc.Runtime() as runtime:
        kernel, array = busy(runtime, 1000)
        view = array[-1:]
        runtime._kernels.clear()
        del kernel, array
        gc.collect()
        assert view.numpy().tolist() == [1000]


def test_a_graph_keeps_what_it_uses() -> None:
    with vc.Runtime() as runtime:
        result = runtime.zeros(1000, np.int32)
        kernel, step = runtime.kernel(vc.glsl(SCALE)), runtime.full(1000, 7, np.int32)
        with runtime.record() as graph:
            kernel(step, 1, 1)
            result.copy_from(step)
        runtime._kernels.clear()
        del kernel, step
        gc.collect()
        others = [runtime.full(1000, -1, np.int32) for _ in range(10)]
        graph.run(3)
        assert set(result.numpy().tolist()) == {10}
        assert {n for other in others for n in other.numpy().tolist()} == {-1}


def test_a_graph_closed_or_dropped_with_runs_pending() -> None:
    with vc.Runtime() as runtime:
        kernel, array = runtime.kernel(vc.glsl(SCALE)), runtime.zeros(1 << 16, np.int32)
        for i in range(20):
            with runtime.record() as graph:
                kernel(array, 1, 1)
            graph.submit(5)
            if i % 2:
                graph.close()
            del graph
        assert set(array.numpy().tolist()) == {100}


def test_memory_seen_through_dlpack_outlives_the_runtime() -> None:
    with open_runtime(staging=False) as runtime:
        if not runtime.device.memory.unified:
            pytest.skip("the host does not see this device's memory")
        arrays = [np.from_dlpack(runtime.full(1 << 20, i)) for i in range(3)]
        device = weakref.ref(runtime.device)
    assert [set(array.tolist()) for array in arrays] == [{0}, {1}, {2}]
    view = arrays[2][10:20]
    del arrays, runtime
    gc.collect()
    assert device() is not None
    assert view.tolist() == [2] * 10
    del view
    gc.collect()
    assert device() is None


def test_memory_comes_back() -> None:
    with vc.Runtime() as runtime:
        device = runtime.device
        before = device.memory.used_bytes
        arrays = [runtime.full(1000, i) for i in range(100)]
        views = [array[10:] for array in arrays]
        del arrays
        device.collect(wait=True)
        assert device.memory.used_bytes >= before + 400_000
        del views
        device.collect(wait=True)
        assert device.memory.used_bytes == before


def test_many_arrays_in_turn_take_no_more_memory() -> None:
    """A new result per launch, and nobody waits: dead ones make room, and the host does not run ahead for ever."""
    with vc.Runtime() as runtime:
        kernel, most = runtime.kernel(vc.glsl(SCALE)), 0
        for _ in range(1500):
            out = runtime.empty(1 << 18, np.int32)
            kernel(out, 1, 1, grid=1)
            most = max(most, runtime.device.memory.allocated_bytes)
        memory = runtime.device.memory
        assert most <= memory.keep_bytes + 4 * memory.block_bytes
        del out


def test_the_host_does_not_run_ahead_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vkcompute.runtime.scheduling.command_queue._MAX_BATCHES", 6)
    with vc.Runtime() as runtime:
        kernel, array = runtime.kernel(vc.glsl(SCALE)), runtime.zeros(1 << 14, np.int32)
        queue, most = runtime.device.queues[0], 0
        for _ in range(64 * 40):
            kernel(array, 1, 1)
            most = max(most, queue.last_value - queue.poll())
        assert most <= 7
        assert set(array.numpy().tolist()) == {64 * 40}


@pytest.mark.parametrize("path", ["graph", "assignment", "copy", "concatenation"])
def test_the_host_waits_for_a_device_that_lags(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound in time holds for each way to enqueue work; here it is passed at once."""
    monkeypatch.setattr("vkcompute.runtime.scheduling.scheduler.BATCH_TASKS", 1)
    monkeypatch.setattr("vkcompute.runtime.scheduling.command_queue._MAX_AHEAD_S", 1e-6)
    with closing(vc.Runtime()) as runtime:
        x, y, most = runtime.zeros(1 << 20), runtime.zeros(1 << 20), 0
        with runtime.record() as graph:
            x += 1
        calls: dict[str, Callable[[], Any]] = {
            "graph": graph.submit,
            "assignment": lambda: x.__setitem__(..., x + 1),
            "copy": lambda: y.copy_from(x),
            "concatenation": lambda: vnp.concatenate((x, y)).compute(),
        }
        queue = runtime.device.queues[0]
        for _ in range(60):
            calls[path]()
            most = max(most, queue.last_value - queue.poll())
        assert most <= FEW_BATCHES + 4


def test_what_is_dropped_without_any_launch_is_freed_too() -> None:
    with vc.Runtime() as runtime:
        most = 0
        for _ in range(3000):
            runtime.empty(1000)
            most = max(most, runtime.device.memory.used_bytes)
        assert most < 1000 * 4096


def test_live_counts_name_what_is_open() -> None:
    before = live_counts()
    with vc.Runtime() as runtime:
        array = runtime.zeros(3)
        counts = live_counts()
        for kind in ("Runtime", "Instance", "Device", "Buffer", "Queue"):
            assert counts[kind] > before.get(kind, 0)
        del array


def test_an_interrupt_neither_loses_counts_nor_blocks_them() -> None:
    with vc.Runtime() as gpu:
        for after in range(8):
            many = [gpu.empty(1) for _ in range(600)]
            with contextlib.suppress(KeyboardInterrupt), interrupted(after):
                many[0].buffer.close()
            counting = threading.Thread(target=live_counts, daemon=True)
            counting.start()
            counting.join(hang_limit_s(60))
            assert not counting.is_alive()


USES: dict[str, Callable[[vc.Runtime], object]] = {
    "empty": lambda r: r.empty(3),
    "zeros": lambda r: r.zeros(3),
    "full": lambda r: r.full(3, 1),
    "array": lambda r: r.array([1, 2]),
    "kernel": lambda r: r.kernel("multiply_float32"),
    "record": lambda r: r.record().__enter__(),
    "flush": lambda r: r.flush(),
    "wait": lambda r: r.wait(),
    "with": lambda r: r.__enter__(),
    "buffer": lambda r: r.device.buffer(16),
}


@pytest.mark.parametrize("use", USES)
def test_a_closed_runtime_says_so(use: str) -> None:
    runtime = vc.Runtime()
    runtime.close()
    runtime.close()
    assert runtime.closed
    assert "closed" in repr(runtime)
    with pytest.raises(vc.ClosedError, match="closed"):
        USES[use](runtime)


def test_what_a_closed_runtime_made_says_so() -> None:
    with vc.Runtime() as runtime:
        kernel, array = busy(runtime)
        future = kernel(array, 1, 1)
        with runtime.record() as graph:
            kernel(array, 1, 1)
    for use in (
        lambda: kernel(array, 1, 1),
        lambda: kernel(array, 1, 1, grid=1),
        graph.run,
        graph.submit,
        lambda: graph.__enter__(),
        array.numpy,
    ):
        with pytest.raises((vc.ClosedError, ValueError)):
            use()
    assert future.done(), "closing waits for the work"
    future.result()
    graph.close()
    array.close()


def test_a_runtime_closed_while_a_graph_is_recorded() -> None:
    runtime = vc.Runtime()
    kernel, array = busy(runtime)
    with pytest.raises(vc.ClosedError), runtime.record() as graph:  # noqa: PT012
        kernel(array, 1, 1)
        runtime.close()
        kernel(array, 1, 1)
    with pytest.raises(vc.ClosedError):
        graph.run()
    runtime = vc.Runtime()
    with pytest.raises(vc.ClosedError), runtime.record():
        runtime.close()


def test_default_runtime_is_made_anew_after_it_was_closed() -> None:
    first = vc.default_runtime()
    assert vc.default_runtime() is first
    first.close()
    second = vc.default_runtime()
    assert second is not first
    assert second.full(3, 1.0).numpy().tolist() == [1, 1, 1]
    second.close()


def test_a_queue_has_little_work_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the process waits for it, also for that of daemon threads."""
    monkeypatch.setattr("vkcompute.runtime.scheduling.command_queue._MAX_AHEAD_S", 1e-9)
    with vc.Runtime(submit_limit_s=None) as runtime:
        kernel, array, most = runtime.kernel(vc.glsl(SCALE)), runtime.zeros(1 << 14, np.int32), 0
        queue = runtime.device.queues[0]
        for _ in range(64 * 10):
            kernel(array, 1, 1)
            most = max(most, queue.last_value - queue.poll())
        assert 0 < most <= 3
        assert set(array.numpy().tolist()) == {64 * 10}
