"""Arrays of the host that graphs send and fetch, and runs until a flag is set."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import itertools
import threading
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
from hang_limit import hang_limit_s
from machine import ADD, ALIGN, SCALE
from runtimes import open_runtime

import vkcompute as vc

N = 4 * ALIGN
SLOW = """
layout(local_size_x = 32) in;
layout(binding = 0) buffer A { int a[]; };
layout(push_constant) uniform P { uint n; };
void main() {
    int x = a[gl_GlobalInvocationID.x];
    for (uint i = 0; i < n; i++) x = x * 3 + 1;
    a[gl_GlobalInvocationID.x] = x == 77777 ? 1 : 0;
}
"""


@pytest.fixture
def scale(rt: vc.Runtime) -> vc.Kernel:
    return rt.kernel(vc.glsl(SCALE))


def doubled(rt: vc.Runtime, scale: vc.Kernel, n: int = N) -> tuple[vc.Graph, Any, Any]:
    """A graph that fetches twice what it sends."""
    sent, fetched, x = np.zeros(n, np.int32), np.full(n, -1, np.int32), rt.zeros(n, np.int32)
    with rt.record() as graph:
        x.write(sent)
        scale(x, 2, 0)
        x.read(fetched)
    return graph, sent, fetched


def busy(rt: vc.Runtime) -> None:
    """Work that takes the device a while."""
    rt.kernel(vc.glsl(SLOW))(rt.zeros(1 << 13, np.int32), 20000)


def test_each_run_takes_what_the_array_holds(rt: vc.Runtime, scale: vc.Kernel) -> None:
    graph, sent, fetched = doubled(rt, scale)
    assert set(fetched) == {-1}
    for i in range(5):
        sent[:] = i
        graph.run(1 + i % 2)
        assert set(fetched) == {2 * i}


def test_more_runs_than_there_is_staging_memory_for(rt: vc.Runtime, scale: vc.Kernel) -> None:
    """None overwrites what an earlier one has yet to read, and results land in the order of the runs."""
    total = rt.zeros(N, np.int32)
    add = rt.kernel(vc.glsl(ADD))
    sent, fetched, x = np.zeros(N, np.int32), np.zeros(N, np.int32), rt.zeros(N, np.int32)
    with rt.record() as graph:
        x.write(sent)
        add(x, total, part := graph.empty(N, np.int32), 1)
        total.copy_from(part)
        part.read(fetched)
    busy(rt)
    futures = []
    for i in range(1, 11):
        sent[:] = i
        futures.append(graph.submit())
    sent[:] = 1000
    for future in futures[::-1]:
        future.result()
        assert set(fetched) == {55}, "an earlier run's results do not come over a later one's"
    graph.run()
    assert set(fetched) == {1055}


def test_where_staging_memory_is_short_runs_wait_for_those_before() -> None:
    n = 12 << 20
    fetched, source = np.zeros(n, np.int32), vc.glsl(SLOW)
    with vc.Runtime(memory_limit_bytes=160 << 20) as runtime:
        large, small = runtime.zeros(n, np.int32), runtime.zeros(1 << 15, np.int32)
        with runtime.record() as graph:
            runtime.kernel(source)(small, 20000)
            large.read(fetched)
        futures = []
        for i in range(1, 5):
            large.fill(i)
            futures.append(graph.submit())
        for future in futures:
            future.result()
    assert fetched.min() == fetched.max() == 4


def test_results_are_there_when_the_future_is_done(rt: vc.Runtime, scale: vc.Kernel) -> None:
    graph, sent, fetched = doubled(rt, scale)

    def submit(value: int) -> vc.Future:
        busy(rt)
        sent[:] = value
        return graph.submit()

    seen: list[int] = []
    called = threading.Event()
    future = submit(1)
    future.add_done_callback(lambda _: (seen.append(int(fetched[0])), called.set()))
    assert called.wait(hang_limit_s(60))
    future = submit(2)
    while not future.done():
        pass
    seen.append(int(fetched[0]))
    concurrent.futures.wait([submit(3)])
    seen.append(int(fetched[0]))

    async def main() -> None:
        await submit(4)
        seen.append(int(fetched[0]))

    asyncio.run(main())
    assert submit(5).exception() is None
    seen.append(int(fetched[0]))
    assert seen == [2, 4, 6, 8, 10]


def test_results_land_once(rt: vc.Runtime, scale: vc.Kernel) -> None:
    graph, _, fetched = doubled(rt, scale)
    future = graph.submit()
    assert future.exception() is None
    fetched[:] = 7
    for use in (future.result, future.done, lambda: concurrent.futures.wait([future]), graph.close, future.result):
        use()
    assert set(fetched) == {7}


def test_results_of_a_graph_that_is_gone(rt: vc.Runtime, scale: vc.Kernel) -> None:
    graph, sent, fetched = doubled(rt, scale)
    sent[:] = 21
    busy(rt)
    future = graph.submit()
    graph.close()
    del graph
    gc.collect()
    others = [rt.full(N, 5, np.int32) for _ in range(5)]
    future.result()
    assert set(fetched) == {42}
    del others


@pytest.mark.usefixtures("clean_handles")
def test_results_that_nobody_waits_for_and_a_runtime_that_is_closed() -> None:
    with vc.Runtime() as runtime:
        graph, sent, fetched = doubled(runtime, runtime.kernel(vc.glsl(SCALE)))
        sent[:] = 1
        graph.submit()
        gc.collect()
        future = graph.submit()
    future.result()
    assert set(fetched) == {2}
    with pytest.raises(vc.ClosedError):
        graph.run()


@pytest.mark.usefixtures("clean_handles")
@pytest.mark.parametrize("staging", [False, True], ids=["direct", "staging"])
def test_graphs_dropped_with_runs_pending(staging: bool) -> None:
    """All that they hold comes back without the collector of circles, and not before the device has finished."""
    with open_runtime(staging=staging, timelines=(2, 1)) as runtime:
        scale, total = runtime.kernel(vc.glsl(SCALE)), runtime.zeros(N, np.int32)
        fetched = np.zeros(N, np.int32)
        runtime.device.collect(wait=True)
        before = runtime.device.memory.used_bytes
        gc.disable()
        try:
            for i in range(12):
                with runtime.record(x=total, d=1) as inner:
                    part = inner.empty(N, np.int32)
                    part.copy_from(inner["x"])
                    scale(part, 1, inner["d"])
                    inner["x"].copy_from(part)
                with runtime.record(x=runtime.zeros(N, np.int32)) as graph:
                    inner.run(x=graph["x"], times=2)
                    graph["x"].read(fetched)
                graph.submit()
                future = graph.submit(x=total)
                if i % 2:
                    graph.close()
                dead = weakref.ref(graph), weakref.ref(inner)
                del graph, inner, part
                assert [item() for item in dead] == [None, None]
            future.result()
            del future
            runtime.device.collect(wait=True)
            assert runtime.device.memory.used_bytes <= before + (2 << 23), "of the ring that staged transfers keep"
        finally:
            gc.enable()
        assert set(fetched) == {24} == set(total.numpy())


def test_threads_run_one_graph(rt: vc.Runtime, scale: vc.Kernel) -> None:
    graph, sent, fetched = doubled(rt, scale)
    sent[:] = 3
    failures: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(20):
                graph.run()
                if set(fetched) != {6}:
                    failures.append(ValueError(fetched))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(hang_limit_s(60))
    assert failures == []


def test_odd_arrays_and_arrays(rt: vc.Runtime) -> None:
    x, y = rt.zeros((4, 6), np.int16), rt.zeros(10, np.bool_)
    rows, cells = np.arange(6, dtype=np.int16)[::-1], np.zeros((4, 12), np.int16)[:, ::2]
    wide = np.array(3, np.int32)
    with rt.record() as graph:
        x.write(rows)
        x[1:3, ::2].write(wide)
        x[0, 0] = 9
        x.read(cells)
        y[3:5] = True
        y[7:8].fill(True)
        part = np.zeros((2, 3), np.int16)
        x[1:3, ::2].read(part)
    want = np.tile(np.arange(6)[::-1], (4, 1))
    want[1:3, ::2], want[0, 0] = 3, 9
    graph.run()
    assert np.array_equal(cells, want)
    assert np.array_equal(part, np.full((2, 3), 3))
    assert y.numpy().nonzero()[0].tolist() == [3, 4, 7]
    wide[...], rows[:] = 5, 0
    graph.run()
    want[:], want[1:3, ::2], want[0, 0] = 0, 5, 9
    assert np.array_equal(cells, want)


@pytest.mark.parametrize(
    ("error", "out"),
    [
        (TypeError, [0] * 4),
        (ValueError, np.zeros(4, np.int64)),
        (ValueError, np.zeros(5, np.int32)),
        (ValueError, np.broadcast_to(np.int32(0), (4,))),
    ],
)
def test_arrays_that_cannot_be_filled(rt: vc.Runtime, error: type[Exception], out: Any) -> None:
    x = rt.zeros(4, np.int32)
    with pytest.raises(error, match="is read into"):
        x.read(out)
    with rt.record(), pytest.raises(error, match="is read into"):
        x.read(out)
    with rt.record(), pytest.raises(ValueError, match="broadcast"):
        x.write(np.zeros(5, np.int32))
    with rt.record(), pytest.raises(TypeError, match="astype"):
        x.write(np.zeros(4, np.float32))


def test_arrays_of_a_graph_in_a_graph(rt: vc.Runtime, scale: vc.Kernel) -> None:
    inner, sent, fetched = doubled(rt, scale)
    late = np.zeros(1, np.int32)
    with rt.record(k=1) as outer:
        flag = outer.empty(1, np.int32)
        inner.run()
        flag.write(late)
        scale(flag, outer["k"], 1)
        flag.read(late)
    sent[:] = 4
    outer.run(2)
    outer.run(k=10)
    assert set(fetched) == {8}
    assert late.tolist() == [21], "each run takes what the one before fetched"


def test_arrays_of_what_could_not_be_recorded_are_left_alone(rt: vc.Runtime, scale: vc.Kernel) -> None:
    fetched, sent = np.full(8, -7, np.int32), np.zeros(8, np.int32)
    x, y = rt.zeros(8, np.int32), rt.full(8, 1, np.int32)
    with rt.record(x=x, y=y) as inner:
        temporary = inner.empty(8, np.int32)
        scale(temporary, 1, 0)
        inner["x"].copy_from(inner["y"])
        inner["x"].read(fetched)
    with rt.record() as graph:
        for wrong in (lambda: temporary.read(fetched), lambda: temporary.write(sent), lambda: inner.run(x=y)):
            with pytest.raises(ValueError, match=r"another graph's recording|share bytes"):
                wrong()
        scale(x, 1, 5)
    graph.run(2)
    assert set(fetched) == {-7}
    assert set(x.numpy()) == {10}


def test_a_graph_is_recorded_into_another_as_a_whole_or_not_at_all(rt: vc.Runtime, scale: vc.Kernel) -> None:
    x = rt.zeros(8, np.int32)
    with rt.record(x=x) as inner:
        scale(x, 1, 1)
        scale(inner["x"], 1, 10)
    with rt.record() as third:
        temporary = third.empty(8, np.int32)
        temporary.fill(0)
    with rt.record() as graph:
        with pytest.raises(ValueError, match="another graph's recording"):
            inner.run(x=temporary)
        scale(x, 1, 100)
    graph.run()
    assert set(x.numpy()) == {100}


# -- until ------------------------------------------------------------------------------------------------------------


def counting(rt: vc.Runtime, stop: int) -> tuple[vc.Graph, vc.Array, vc.Array]:
    """A graph that counts its runs, and sets a flag in the run of number `stop`."""
    source = """
        layout(local_size_x = 1) in;
        layout(binding = 0) buffer A { int runs; };
        layout(binding = 1) buffer B { uint flag; };
        layout(push_constant) uniform P { int stop; };
        void main() { if (++runs == stop) flag = 8; }
    """
    runs, flag = rt.zeros(1, np.int32), rt.zeros(1, np.uint32)
    with rt.record(stop=stop) as graph:
        rt.kernel(vc.glsl(source))(runs, flag, graph["stop"], grid=1)
    return graph, runs, flag


@pytest.mark.parametrize(("stop", "every"), [(1, 1), (1, 4), (9, 4), (12, 4), (13, 5), (40, 100), (99, 7)])
def test_runs_until_a_flag(rt: vc.Runtime, stop: int, every: int) -> None:
    graph, runs, flag = counting(rt, stop)
    made = graph.run(times=50, until=flag, every=every)
    assert runs.item() == made
    assert min(stop, 50) <= made <= min(stop + 2 * every - 1, 50)
    assert (flag.item() == 8) == (stop <= 50)
    assert graph.run(2) == 2
    assert runs.item() == made + 2


def test_runs_until_a_flag_with_inputs_and_arrays(rt: vc.Runtime) -> None:
    graph, runs, flag = counting(rt, 1000)
    out = np.zeros(1, np.int32)
    with rt.record(stop=7) as outer:
        graph.run(stop=outer["stop"])
        runs.read(out)
    made = outer.run(30, until=flag.view(np.int32), every=2, stop=11)
    assert 11 <= made <= 14
    assert out.tolist() == [made]


def test_flags_that_are_none(rt: vc.Runtime) -> None:
    graph, runs, flag = counting(rt, 5)
    for wrong in (True, np.zeros(1), rt.zeros(1), rt.zeros(1, np.int64)):
        with pytest.raises(TypeError, match="until is a device array of"):
            graph.run(3, until=wrong)
    with pytest.raises(ValueError, match="one element"):
        graph.run(3, until=rt.zeros(2, np.bool_))
    with rt.record(flag=flag) as outer:
        graph.run()
    with pytest.raises(ValueError, match="one element in memory of"):
        outer.run(3, until=outer["flag"])
    with rt.zeros(1, np.bool_) as closed:
        pass
    with pytest.raises(vc.ClosedError):
        graph.run(3, until=closed)
    assert runs.item() == 0
    with vc.Runtime() as other, pytest.raises(ValueError, match="one element in memory of"):
        graph.run(3, until=other.zeros(1, np.bool_))
    for times, every in ((0, 1), (3, 0), (2.5, 1), (3, 1.5)):
        with pytest.raises(ValueError, match="from 1"):
            graph.run(times, until=flag, every=every)


@pytest.mark.parametrize("asked", list(itertools.permutations(range(4))))
def test_the_later_run_of_two_graphs_has_the_last_word(asked: tuple[int, ...], rt: vc.Runtime) -> None:
    arrays, out = [rt.zeros(8, np.int32) for _ in range(2)], np.zeros(8, np.int32)
    graphs = []
    for array in arrays:
        with rt.record() as graph:
            array.read(out)
        graphs.append(graph)
    futures = []
    for number in range(4):
        arrays[number % 2].fill(number + 1)
        futures.append(graphs[number % 2].submit())
    for number in asked:
        futures[number].result()
    assert set(out.tolist()) == {4}


def test_numpy_arrays_beside_device_arrays_are_copied_in_each_run(gpu: vc.Runtime) -> None:
    x, host = gpu.zeros((2, 3)), np.ones(3, np.float32)
    y, out = gpu.zeros(3), gpu.zeros(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with gpu.record() as graph:
            x[0] += host
            out[...] = y + host * 1 + [1, 2, 3]
    assert not x.numpy().any()
    graph.run()
    host[:] = 10
    graph.run()
    assert x.numpy().tolist() == [[11, 11, 11], [0, 0, 0]]
    assert out.numpy().tolist() == [2, 3, 4], "host * 1 is another array"
