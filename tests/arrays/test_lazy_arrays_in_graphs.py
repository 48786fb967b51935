"""Lazy arrays in recordings: nested graphs, other threads and tasks, and inputs that share memory."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from runtimes import open_runtime

import vkcompute as vc
import vkcompute.numpy as vnp


def on_thread(work: Callable[[], Any]) -> list[Any]:
    """Returns what `work` returns, or its error, on another thread."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results


@pytest.mark.parametrize("times", [1, 2])
def test_an_operand_that_a_nested_graph_overwrites(gpu: vc.Runtime, times: int) -> None:
    x, z, host = gpu.zeros(8, np.int32), gpu.zeros(8, np.int32), np.zeros(8, np.int32)
    given = gpu.zeros(8, np.int32)
    with gpu.record(x=given) as inner:
        inner["x"][...] += 1
    with gpu.record() as outer:
        y = x + 100
        again = x * 10
        inner.run(times, x=x)
        y.read(host)
        z[...] = again
    outer.run()
    assert (host[0], z[0].item(), x[0].item()) == (100, 0, times)
    outer.run()
    assert (host[0], z[0].item(), x[0].item()) == (100 + times, 10 * times, 2 * times)


def record_another(gpu: vc.Runtime, x: vc.Array) -> None:
    with gpu.record():
        x.fill(5)


WORK: dict[str, Callable[[vc.Runtime, vc.Array], Any]] = {
    "flush": lambda gpu, x: gpu.flush(),
    "wait": lambda gpu, x: gpu.wait(),
    "recording": record_another,
    "fill": lambda gpu, x: x.fill(5),
    "upload": lambda gpu, x: x.write(np.full(8, 5, np.int32)),
    "copy": lambda gpu, x: x.copy_from(gpu.full(8, 5, np.int32)),
    "launch": lambda gpu, x: x.__iadd__(5),
}


@pytest.mark.parametrize("kind", WORK)
@pytest.mark.parametrize("of_input", [False, True])
def test_work_of_other_threads_leaves_a_recording_alone(gpu: vc.Runtime, kind: str, *, of_input: bool) -> None:
    x, z, w = gpu.zeros(8, np.int32), gpu.zeros(8, np.int32), gpu.zeros(8, np.int32)
    with gpu.record(w=w) as graph:
        y = x + (graph["w"] if of_input else 1)
        (result,) = on_thread(lambda: WORK[kind](gpu, x))
        assert not isinstance(result, Exception)
        z[...] = y
    for value in (10, 20):
        x.fill(value)
        w.fill(1)
        graph.run()
        assert z.tolist() == [value + 1] * 8


def test_other_threads_cannot_compute_what_a_recording_made(gpu: vc.Runtime) -> None:
    x, z = gpu.zeros(8, np.int32), gpu.zeros(8, np.int32)
    with gpu.record() as graph:
        y = x + 1
        for work in (lambda: y.numpy(), lambda: y + 1, lambda: y.sum(), lambda: y[2:], lambda: z.copy_from(y)):
            (error,) = on_thread(work)
            assert isinstance(error, ValueError)
            assert "made by a graph that another thread or task records" in str(error)
        z[...] = y
    x.fill(7)
    graph.run()
    assert z.tolist() == [8] * 8


def test_a_recording_takes_the_present_value_of_another_threads_array(gpu: vc.Runtime) -> None:
    x, z = gpu.zeros(8, np.int32), gpu.zeros(8, np.int32)
    with gpu.record() as graph:
        (made,) = on_thread(lambda: x + 1)
        y = made * 2
        x.fill(9)
        z[...] = y
    graph.run()
    graph.run()
    assert z.tolist() == [2] * 8
    assert x.tolist() == [9] * 8


def test_tasks_of_one_thread_record_and_wait(gpu: vc.Runtime) -> None:
    x, z, other = gpu.zeros(8, np.int32), gpu.zeros(8, np.int32), gpu.zeros(8, np.int32)

    async def record(release: asyncio.Event, begun: asyncio.Event) -> vc.Graph:
        with gpu.record() as graph:
            y = x + 1
            begun.set()
            await release.wait()
            z[...] = y
        return graph

    async def meanwhile(release: asyncio.Event, begun: asyncio.Event) -> vc.Graph:
        await begun.wait()
        with gpu.record() as graph:
            other.fill(3)
        gpu.wait()
        release.set()
        return graph

    async def both() -> list[vc.Graph]:
        events = asyncio.Event(), asyncio.Event()
        return list(await asyncio.gather(record(*events), meanwhile(*events)))

    first, second = asyncio.run(both())
    x.fill(10)
    first.run()
    second.run()
    assert (z.tolist(), other.tolist()) == ([11] * 8, [3] * 8)


def test_threads_record_graphs_of_lazy_arrays(gpu: vc.Runtime) -> None:
    wrong: list[Any] = []

    def work() -> None:
        x, z = gpu.zeros(64, np.int32), gpu.zeros(64, np.int32)
        for turn in range(40):
            x.fill(turn)
            with gpu.record(k=x) as graph:
                z[...] = graph["k"] * 2 + 1 + x
            x.fill(turn + 1)
            graph.run()
            if z[5].item() != 3 * turn + 4:
                wrong.append((turn, z[5].item()))

    with ThreadPoolExecutor(3) as pool:
        for each in [pool.submit(work) for _ in range(3)]:
            each.result()
    assert not wrong


@pytest.mark.rotates
@pytest.mark.filterwarnings("ignore::vkcompute.SpillWarning")
def test_a_copy_while_memory_is_short_changes_its_target_alone(gpu: vc.Runtime) -> None:
    """The pending array that reads the target takes memory, for which buffers move."""
    n, moved = 1 << 14, 0
    for n_kept in range(56, 66):
        with open_runtime(memory_limit_bytes=4 << 20) as runtime:
            recent = [runtime.full(n, 1000 + i, np.int32) for i in range(3)]
            source, target = runtime.full(n, 7, np.int32), runtime.zeros(n, np.int32)
            kept = [runtime.full(n, 100 + i, np.int32) for i in range(n_kept)]
            pending = target + 1
            for each in [*recent, *kept[-20:]]:
                each.fill(5)
            target.copy_from(source)
            moved += runtime.memory().spilled
            assert (target == 7).all()
            assert (pending == 1).all()
            assert all((item == 100 + i).all() for i, item in enumerate(kept[:-20]))
            assert all((item == 5).all() for item in [*recent, *kept[-20:]])
    assert moved


REFUSED = r"overlaps memory that the graph writes before it has read the input.*pass a \.copy\(\)"


@pytest.mark.parametrize("kind", ["elementwise", "reduced", "nested operands"])
@pytest.mark.parametrize("nested", [False, True], ids=["", "nested graph"])
def test_inputs_that_share_memory_with_what_is_written(gpu: vc.Runtime, kind: str, *, nested: bool) -> None:
    """A run must not read what it has written since: it is refused, as its recording did not know of the overlap."""
    values = np.arange(8, dtype=np.int32)
    x, w, out = gpu.array(values), gpu.zeros(8, np.int32), gpu.zeros(8, np.int32)
    with gpu.record(a=x, b=w) as graph:
        y = graph["a"].sum() if kind == "reduced" else graph["a"] + 100
        y = y * 2 if kind == "nested operands" else y
        graph["b"].fill(0)
        out[...] = y
    if nested:
        inner = graph
        with gpu.record(a=x, b=w) as graph:
            inner.run(a=graph["a"], b=graph["b"])
    expected = {"elementwise": values + 100, "reduced": values * 0 + 28, "nested operands": values * 2 + 200}[kind]
    graph.run()
    assert np.array_equal(out.numpy(), expected)
    with pytest.raises(ValueError, match=REFUSED):
        graph.run(b=x)
    assert np.array_equal(x.numpy(), values)
    graph.run(b=x.copy())
    assert np.array_equal(out.numpy(), expected)


def test_an_input_that_shares_memory_with_an_array_of_the_recording(gpu: vc.Runtime) -> None:
    x, w, out = gpu.full(8, 5, np.int32), gpu.zeros(8, np.int32), gpu.zeros(8, np.int32)
    with gpu.record(b=w) as graph:
        y = x + 100
        graph["b"].fill(0)
        out[...] = y
    with pytest.raises(ValueError, match=REFUSED):
        graph.run(b=x)
    graph.run()
    assert out.tolist() == [105] * 8

    def record_with_it() -> None:
        with gpu.record(a=x) as graph:
            y = graph["a"] + 100
            x.fill(0)
            out[...] = y

    with pytest.raises(ValueError, match=REFUSED):
        record_with_it()
    assert x.tolist() == [5] * 8


def test_an_input_may_be_written_after_it_was_read(gpu: vc.Runtime) -> None:
    """The same array as two inputs, or as an input and an array of the recording."""
    x, out = gpu.full(8, 5, np.int32), gpu.zeros(8, np.int32)
    with gpu.record(a=x, b=x) as graph:
        y = graph["a"] + 100
        out[...] = y
        graph["b"][...] = y
        z = graph["b"] * 2
        x[...] = z
    graph.run()
    assert (out.tolist(), x.tolist()) == ([105] * 8, [210] * 8)
    graph.run(b=out)
    assert (out.tolist(), x.tolist()) == ([310] * 8, [620] * 8)


def test_what_nobody_needs_of_a_recording_is_not_computed(gpu: vc.Runtime) -> None:
    x, out = gpu.zeros(8, np.int32), gpu.zeros(8, np.int32)
    with gpu.record() as graph:
        y = x + 1
        z = vc.elementwise("x * 2")(y)
        left = z * 3 - y
        out[...] = z
    assert "3 tasks" in repr(graph)  # y, z and the copy
    for array in (y, left):
        assert not array.is_pending
        with pytest.raises(ValueError, match="has memory only while the graph runs"):
            array.numpy()
    with contextlib.suppress(ZeroDivisionError), gpu.record():
        failed = x + 1
        raise ZeroDivisionError
    x.fill(7)
    with pytest.raises(ValueError, match="has memory only while the graph runs"):
        failed.numpy()


MADE: dict[str, Callable[[], Any]] = {
    "arange": lambda: vnp.arange(5),
    "arange of floats": lambda: vnp.arange(0, 1, 0.25),
    "linspace": lambda: vnp.linspace(0, 1, 5),
    "logspace": lambda: vnp.logspace(0, 1, 5),
    "geomspace": lambda: vnp.geomspace(1, 16, 5),
    "eye": lambda: vnp.eye(3, k=1),
    "identity": lambda: vnp.identity(3),
    "tri": lambda: vnp.tri(3),
    "triu": lambda: vnp.triu(vnp.ones((3, 3))),
    "indices": lambda: vnp.indices((2, 3)),
    "fftfreq": lambda: vnp.fft.fftfreq(6),
    "hanning": lambda: vnp.hanning(6),
    "fromfunction": lambda: vnp.fromfunction(lambda i, j: i + j, (2, 3)),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_each_run_begins_with_what_a_function_of_numbers_has_made(gpu: vc.Runtime, make: Callable[[], Any]) -> None:
    expected = make().numpy()
    out, changed = gpu.empty(expected.shape, expected.dtype), gpu.empty(expected.shape, expected.dtype)
    with gpu.record() as graph:
        made = make()
        out[...] = made
        made += 1
        changed[...] = made
    for _ in range(2):
        graph.run()
        assert np.array_equal(out.numpy(), expected)
        assert np.array_equal(changed.numpy(), expected + 1)


def test_data_of_the_caller_are_no_constants_of_a_recording(gpu: vc.Runtime) -> None:
    with pytest.raises(ValueError, match=r"cannot be recorded into a graph.*make arrays before"), gpu.record():
        gpu.array([1, 2])
