"""The scheduler: hazards between launches on all queues, graphs, streams, threads and copies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

import vkcompute as vc
from vkcompute.gpu_report.items import Item, Items, Session, equal

_N, _STEPS = 20_000, 300


def items() -> Items:
    """Returns the items by name, the most doubtful first."""
    by_name: dict[str, Item] = {
        "hazards": hazards,
        "queues in turns": queues_in_turns,
        "a stream": a_stream,
        "a stream from an iterator": a_stream_from_an_iterator,
        "a stream with halo": a_stream_with_halo,
        "a graph": a_graph,
        "a graph with inputs": a_graph_with_inputs,
        "threads": threads,
        "copies of views": copies_of_views,
        "futures": futures,
        "memory is reused": memory_is_reused,
        "a large array": a_large_array,
    }
    return by_name


@vc.kernel
def _advance(x: Any, y: Any, out: Any, k: vc.uint32) -> None:
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] * 1664525 + (y[i] ^ k)


def _host(x: Any, y: Any, k: int) -> Any:
    return x * np.uint32(1664525) + (y ^ np.uint32(k))


def _random_launches(session: Session, queues: list[int | None]) -> None:
    """Launches on random arrays; hazards order them, whatever their queue."""
    random = np.random.default_rng(3)
    hosts = [random.integers(0, 2**32, _N, np.uint32) for _ in range(6)]
    arrays = [session.gpu.array(host) for host in hosts]
    for k in range(_STEPS):
        one, other, target = random.integers(0, 6, 3)
        _advance(arrays[one], arrays[other], arrays[target], k, queue=queues[k % len(queues)])
        hosts[target] = _host(hosts[one], hosts[other], k)
        if k % 50 == 49:
            arrays[target].fill(k)
            hosts[target] = np.full(_N, k, np.uint32)
    for array, host in zip(arrays, hosts, strict=True):
        equal(array, host)


def hazards(session: Session) -> None:
    """Launches on random arrays, placed by the scheduler."""
    _random_launches(session, [None])


def queues_in_turns(session: Session) -> dict[str, Any]:
    """Launches on random arrays, each on the next queue."""
    queues = [number for number, queue in enumerate(session.gpu.device.queues) if queue.role == "compute"]
    _random_launches(session, [*queues])
    return {"queues": len(queues)}


def _launch(up: vc.Array, down: vc.Array) -> None:
    _advance(up, up, down, 7)


def a_stream(session: Session) -> None:
    """An array in chunks: upload, kernel and download at the same time."""
    source = np.arange(1_000_003, dtype=np.uint32)
    out = np.zeros_like(source)
    session.gpu.stream(source, _launch, out, chunk_bytes=1 << 18)
    equal(out, _host(source, source, 7))


def a_stream_from_an_iterator(session: Session) -> None:
    """Chunks of an iterator that reuses its memory."""
    pieces: list[Any] = []

    def chunks() -> Iterator[Any]:
        memory = np.zeros(5000, np.uint32)
        for k in range(30):
            memory[:] = np.arange(5000, dtype=np.uint32) + k
            yield memory

    session.gpu.stream(chunks(), _launch, lambda rows, array: pieces.append(array.copy()))
    base = np.arange(5000, dtype=np.uint32)
    expected = [_host(base + np.uint32(k), base + np.uint32(k), 7) for k in range(30)]
    equal(np.concatenate(pieces), np.concatenate(expected))


def a_stream_with_halo(session: Session) -> None:
    """A moving sum, whose chunks have rows of their neighbours."""
    source, out = np.arange(100_001, dtype=np.int32), np.zeros(100_001, np.int32)

    def moving(x: Any, result: Any) -> None:
        result[...] = x[:-2] + x[1:-1] + x[2:]

    session.gpu.stream(source, moving, out, halo=1, edge=0, chunk_bytes=1 << 16)
    padded = np.pad(source, 1)
    equal(out, padded[:-2] + padded[1:-1] + padded[2:])


def a_graph(session: Session) -> None:
    """Dependent and independent launches, recorded and replayed."""
    x = np.random.default_rng(4).integers(0, 2**32, _N, np.uint32)
    a, b, c = session.gpu.array(x), session.gpu.zeros(_N, np.uint32), session.gpu.zeros(_N, np.uint32)
    with session.gpu.record() as graph:
        _advance(a, b, b, 1)
        _advance(a, c, c, 2)
        _advance(b, c, a, 3)
    graph.run(times=5)
    one, two, three = x, np.zeros_like(x), np.zeros_like(x)
    for _ in range(5):
        two, three = _host(one, two, 1), _host(one, three, 2)
        one = _host(two, three, 3)
    for array, host in zip((a, b, c), (one, two, three), strict=True):
        equal(array, host)


def a_graph_with_inputs(session: Session) -> None:
    """A graph that runs with other arrays and numbers."""
    x = session.gpu.array(np.arange(_N, dtype=np.uint32))
    out = session.gpu.zeros(_N, np.uint32)
    with session.gpu.record(x=x, k=np.uint32(1)) as graph:
        _advance(graph["x"], graph["x"], out, graph["k"])
    for k in (5, 9):
        host = np.arange(k, _N + k, dtype=np.uint32)
        graph.run(x=session.gpu.array(host), k=np.uint32(k))
        equal(out, _host(host, host, k))


def threads(session: Session) -> None:
    """Four threads that launch, write and read on one runtime."""
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            host = np.random.default_rng(seed).integers(0, 2**32, _N, np.uint32)
            array = session.gpu.array(host)
            for k in range(60):
                _advance(array, array, array, k + seed)
                host = _host(host, host, k + seed)
                if k % 20 == seed:
                    equal(array, host)
            equal(array, host)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]


def copies_of_views(session: Session) -> None:
    """Copies between views of other strides and offsets."""
    host = np.arange(60 * 80, dtype=np.uint16).reshape(60, 80)
    array, target = session.gpu.array(host), session.gpu.zeros((60, 80), np.uint16)
    target[1::2, ::-1].copy_from(array[::2])
    expected = np.zeros_like(host)
    expected[1::2, ::-1] = host[::2]
    equal(target, expected)
    array[5:50, 3] = 9
    host[5:50, 3] = 9
    equal(array[::-1].T, host[::-1].T)


def futures(session: Session) -> None:
    """Futures that complete in order of their work."""
    array = session.gpu.zeros(_N, np.uint32)
    launched = [_advance(array, array, array, k) for k in range(20)]
    launched[-1].result(timeout_s=20)
    if not all(future.done() for future in launched):
        raise AssertionError("a launch has not completed before one that depends on it")


def memory_is_reused(session: Session) -> None:
    """Temporary arrays that are freed while work is pending."""
    total = session.gpu.zeros(_N, np.uint32)
    expected = np.zeros(_N, np.uint32)
    for k in range(200):
        host = np.full(_N, k, np.uint32)
        _advance(session.gpu.array(host), total, total, k)
        expected = _host(host, expected, k)
    equal(total, expected)


def a_large_array(session: Session) -> dict[str, Any]:
    """An array that is larger than the binding of many devices, or the largest that fits in a quarter of the memory."""
    is_cpu = session.gpu.device.physical.kind == "cpu"
    n = min(session.gpu.memory().free // 4, ((256 << 20) if is_cpu else (4 << 30)) + 4096) // 4
    array = session.gpu.zeros(n, np.uint32)
    array[n - 3 :].fill(5)
    _advance(array, array, array, 7)
    last = np.array([0, 0, 5, 5, 5], np.uint32)
    equal(array[n - 5 :], _host(last, last, 7))
    equal(array[:5], np.full(5, 7, np.uint32))
    return {"nbytes": n * 4}
