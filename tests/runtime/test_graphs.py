"""Graphs: recorded once, run in order with everything else, refused where that cannot be."""

from __future__ import annotations

import contextvars
import threading

import numpy as np
import pytest
from machine import ADD, SCALE
from runtimes import open_runtime

import vkcompute as vc

pytestmark = pytest.mark.queues


@pytest.fixture
def scale(gpu: vc.Runtime) -> vc.Kernel:
    return gpu.kernel(vc.glsl(SCALE))


def test_what_is_recorded_does_not_run(gpu: vc.Runtime, scale: vc.Kernel) -> None:
    x = gpu.zeros(10, np.int32)
    with gpu.record() as graph:
        scale(x, 1, 1)
        y = x.copy()
        y.fill(7)
    assert x.numpy().tolist() == [0] * 10
    graph.run(5)
    assert x.numpy().tolist() == [5] * 10
    assert y.numpy().tolist() == [7] * 10


def test_runs_are_ordered_with_launches_copies_and_host_accesses(gpu: vc.Runtime, scale: vc.Kernel) -> None:
    x, y = gpu.zeros(1000, np.int32), gpu.empty(1000, np.int32)
    with gpu.record() as graph:
        scale(x, 3, 1)
        y.copy_from(x)
    expected = 0
    for i in range(20):
        x.write(np.full(1000, expected + i, np.int32))
        graph.submit(2)
        scale(y, 1, i)
        x.copy_from(y)
        expected = 3 * (3 * (expected + i) + 1) + 1 + i
        if i % 5 == 0:
            assert set(y.numpy().tolist()) == {expected}
        expected %= 1000
        x.fill(expected)
    assert set(x.numpy().tolist()) == {expected}


def test_a_run_of_many_times(gpu: vc.Runtime, scale: vc.Kernel) -> None:
    x = gpu.zeros(10, np.int32)
    with gpu.record() as graph:
        scale(x, 1, 1)
    graph.run(5000)
    assert x.numpy().tolist() == [5000] * 10


def test_an_empty_graph(gpu: vc.Runtime) -> None:
    with gpu.record() as graph:
        pass
    graph.run()
    graph.submit(3).result()
    assert graph.submit().done() in (True, False)


def test_push_constants_are_those_of_the_recording(gpu: vc.Runtime, scale: vc.Kernel) -> None:
    x = gpu.zeros(10, np.int32)
    values = [1, 2, 3]
    with gpu.record() as graph:
        for value in values:
            scale(x, 10, value)
    scale(x, 5, 5)
    x.fill(0)
    graph.run()
    assert x.numpy().tolist() == [123] * 10


@pytest.mark.parametrize("times", [0, -1])
def test_a_run_of_no_times(gpu: vc.Runtime, times: int) -> None:
    with gpu.record() as graph:
        pass
    with pytest.raises(ValueError, match=f"got times={times}"):
        graph.run(times)


def _graph(gpu: vc.Runtime) -> vc.Graph:
    """An empty one, recorded elsewhere."""
    graph = gpu.record()
    context = contextvars.Context()
    context.run(graph.__enter__)
    context.run(graph.__exit__, None, None, None)
    return graph


@pytest.mark.parametrize(
    ("what", "use"),
    [
        ("numpy", lambda gpu, x: x.numpy()),
        ("strided numpy", lambda gpu, x: x[::2].numpy()),
        ("array", lambda gpu, x: gpu.array([1, 2])),
        ("end", lambda gpu, x: _graph(gpu).run(until=x[:1])),
        ("dlpack", lambda gpu, x: x.__dlpack__()),
    ],
)
def test_what_the_host_does_is_not_recorded(gpu: vc.Runtime, scale: vc.Kernel, what: str, use: object) -> None:
    x = gpu.zeros(10, np.int32)
    with gpu.record() as graph:
        scale(x, 1, 1)
        with pytest.raises(ValueError, match="graph"):
            use(gpu, x)
        scale(x, 1, 1)
    graph.run()
    assert x.numpy().tolist() == [2] * 10, "the recording goes on after it"


def test_states(gpu: vc.Runtime, scale: vc.Kernel) -> None:
    graph, x = gpu.record(), gpu.zeros(10, np.int32)
    with pytest.raises(ValueError, match="still being recorded"):
        graph.run()
    with graph:
        with pytest.raises(ValueError, match="still being recorded"):
            graph.run()
        with pytest.raises(ValueError, match="recording a graph already"), gpu.record():
            pass
        scale(x, 1, 1)
    graph.run()
    with pytest.raises(ValueError, match="recorded once"), graph:
        pass
    graph.close()
    graph.close()
    for use in (graph.run, graph.submit):
        with pytest.raises(vc.ClosedError, match="record a new one"):
            use()
    assert x.numpy().tolist() == [1] * 10
    assert "closed" in repr(graph)


def test_a_recording_that_fails_is_closed(gpu: vc.Runtime, scale: vc.Kernel) -> None:
    x = gpu.zeros(10, np.int32)
    with pytest.raises(ZeroDivisionError), gpu.record() as graph:  # noqa: PT012
        scale(x, 1, 1)
        _ = 1 / 0
    with pytest.raises(vc.ClosedError, match="recording failed"):
        graph.run()
    scale(x, 1, 5)
    assert x.numpy().tolist() == [5] * 10, "launches are launched again"


def test_a_graph_closed_while_it_is_recorded(gpu: vc.Runtime, scale: vc.Kernel) -> None:
    x = gpu.zeros(10, np.int32)
    with gpu.record() as graph:
        scale(x, 1, 1)
        graph.close()
        with pytest.raises(vc.ClosedError):
            scale(x, 1, 1)
    with pytest.raises(vc.ClosedError):
        graph.run()
    scale(x, 1, 5)
    assert x.numpy().tolist() == [5] * 10


def test_other_threads_launch_while_one_records(gpu: vc.Runtime, scale: vc.Kernel) -> None:
    x, y = gpu.zeros(100, np.int32), gpu.zeros(100, np.int32)

    def work() -> None:
        for _ in range(50):
            scale(y, 1, 1)

    thread = threading.Thread(target=work)
    with gpu.record() as graph:
        thread.start()
        for _ in range(50):
            scale(x, 1, 1)
        thread.join()
    assert y.numpy().tolist() == [50] * 100
    assert x.numpy().tolist() == [0] * 100
    graph.run()
    assert (x.numpy().tolist(), y.numpy().tolist()) == ([50] * 100, [50] * 100)


def test_two_threads_record_at_once(gpu: vc.Runtime) -> None:
    add = gpu.kernel(vc.glsl(ADD))
    one = gpu.full(10, 1, np.int32)
    outs = [gpu.zeros(10, np.int32) for _ in range(4)]
    graphs: list[vc.Graph] = []
    both = threading.Barrier(4)

    def record(out: vc.Array) -> None:
        with gpu.record() as graph:
            both.wait()
            for _ in range(10):
                add(one, one, out, 2)
        graphs.append(graph)

    threads = [threading.Thread(target=record, args=(out,)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for graph in graphs:
        graph.submit()
    assert [set(out.numpy().tolist()) for out in outs] == [{3}] * 4


def test_a_graph_runs_on_the_queue_family_that_it_was_recorded_for() -> None:
    """A command buffer goes to queues of its pool's family only (VUID-vkQueueSubmit-pCommandBuffers-00074)."""
    with open_runtime(queues=1, timelines=3) as gpu:
        scale = gpu.kernel(vc.glsl(SCALE))
        arrays = [gpu.zeros(10, np.int32) for _ in range(3)]
        for queue, array in zip(gpu.scheduler.placement.compute, arrays, strict=True):
            scale(array, 1, 1, queue=queue.index)
        for queue in gpu.scheduler.placement.compute[1:]:
            queue.device_queue.family = 7
        graphs = []
        for array in arrays:
            with gpu.record() as graph:
                scale(array, 1, 10)
            graphs.append(graph)
        submits = [queue.device_queue.last_value for queue in gpu.scheduler.placement.compute]
        for graph in graphs:
            graph.submit()
        gpu.scheduler.wait()
        for queue in gpu.scheduler.placement.compute:
            queue.device_queue.family = 0
        assert gpu.scheduler.placement.compute[0].device_queue.last_value >= submits[0] + 3
        assert [array.numpy().tolist() for array in arrays] == [[11] * 10] * 3


def test_every_goes_with_until(gpu: vc.Runtime) -> None:
    a, flag = gpu.zeros(4), gpu.zeros(1, np.int32)
    with gpu.record() as graph:
        a.fill(1)
    with pytest.raises(ValueError, match=r"every=4 .* `until`"):
        graph.run(8, every=4)
    assert graph.run(8, until=flag, every=4) == 8
