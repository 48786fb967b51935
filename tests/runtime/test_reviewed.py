"""Faults that reading the code found: each of these failed before it was mended."""

from __future__ import annotations

import concurrent.futures
import gc
import threading

import numpy as np
import pytest
from runtimes import open_runtime

import vkcompute as vc
from shaders import MULTIPLY
from vkcompute.pipelines.multiply import Multiplier


def test_a_future_keeps_its_runtime_alive() -> None:
    def launched() -> vc.Future:
        gpu = vc.Runtime()
        x = gpu.zeros(1000)
        return gpu.kernel(MULTIPLY)(x, x, x)

    future = launched()
    gc.collect()
    assert future.result() is None
    assert future.done()


def test_asking_again_after_an_error_does_not_hang(gpu: vc.Runtime) -> None:
    x = gpu.zeros(8)
    with gpu.record():
        future = gpu.kernel(MULTIPLY)(x, x, x)
    for _ in range(2):
        with pytest.raises(ValueError, match="recorded into a graph"):
            concurrent.futures.wait([future], timeout=1)


@pytest.mark.parametrize("way", ["reversed", "transposed", "shifted"])
def test_a_result_over_another_view_of_an_input(gpu: vc.Runtime, way: str) -> None:
    x = np.arange(1600, dtype=np.float32).reshape(40, 40)
    source, target = {
        "reversed": (x[::-1], x),
        "transposed": (x.T, x),
        "shifted": (x.reshape(-1)[:-7], x.reshape(-1)[7:]),
    }[way]
    want = source * np.float32(2)
    vc.multiply(source, 2.0, target, runtime=gpu, chunk_bytes=256)
    assert np.array_equal(target, want)


@pytest.mark.parametrize("n", [1 << 12, 1 << 18])
def test_a_result_over_a_shifted_view_of_an_input_on_the_device(gpu: vc.Runtime, n: int) -> None:
    host = np.arange(n, dtype=np.float32)
    x = gpu.array(host)
    vc.multiply(x[:-1024], 2.0, x[1024:])
    host[1024:] = host[:-1024] * np.float32(2)
    assert np.array_equal(x.numpy(), host)


def test_the_future_of_windows_is_the_future_of_all() -> None:
    with open_runtime(timelines=3) as gpu:
        x, out = gpu.full(1 << 18, 3, np.int32), gpu.zeros(1 << 18, np.int32)
        multiplier = Multiplier(gpu, np.int32)
        multiplier._window_bytes = 1 << 16
        multiplier(x, x, out).result()
        assert all(
            point.done() for point in gpu.scheduler.points(gpu.scheduler.history(out.buffer).last_writers(0, 1 << 20))
        )
        assert len({queue.task for queue in gpu.scheduler.queues}) > 1
        assert all(queue.recorder is None or queue.n_batched == 0 for queue in gpu.scheduler.queues[1:])


def test_writes_to_strided_views_leave_their_gaps_alone(gpu: vc.Runtime) -> None:
    x = gpu.zeros((400, 2), np.int32)
    failures: list[BaseException] = []

    def write(column: int) -> None:
        try:
            for i in range(1, 40):
                x[:, column] = np.full(400, i, np.int32)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(column,)) for column in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert np.array_equal(x.numpy(), np.full((400, 2), 39, np.int32))


def test_memory_that_is_returned_while_the_device_closes(clean_handles: None) -> None:
    with vc.Runtime() as gpu:
        if not gpu.device.memory.unified:
            pytest.skip("the host does not see this device's memory, so nothing is lent")
    for _ in range(20):
        gpu = vc.Runtime()
        view = [np.from_dlpack(gpu.array(np.arange(5, dtype=np.float32)))]
        kernel, x = gpu.kernel(MULTIPLY), gpu.zeros(1 << 16)
        for _ in range(50):
            kernel(x, x, x)
        returning = threading.Thread(target=view.clear)
        returning.start()
        gpu.close()
        returning.join()
        del x, kernel, gpu


def test_arrays_are_multiplied_where_they_are(gpu: vc.Runtime) -> None:
    with vc.Runtime() as other, pytest.raises(ValueError, match="own runtime"):
        vc.multiply(gpu.zeros(3), 2.0, runtime=other)


@pytest.mark.parametrize("depth", [1, 3, 8])
def test_the_arrays_of_a_graph_are_those_of_the_chunk_that_lands(rt: vc.Runtime, depth: int) -> None:
    fetched, seen = np.zeros(10, np.int32), []
    with rt.record(x=rt.zeros(10, np.int32)) as graph:
        vc.multiply(graph["x"], 2, graph["x"])
        graph["x"].read(fetched)
    source = np.arange(50, dtype=np.int32)
    rt.stream(source, graph, progress=lambda *_: seen.extend(fetched.tolist()), depth=depth)
    assert seen == (source * 2).tolist()
