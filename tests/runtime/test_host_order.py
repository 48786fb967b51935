"""Host arrays that graphs and transfers share: they end as if everything had run in the order of the program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine import SCALE
from runtimes import open_runtime

import vkcompute as vc

N_HOST, N_DEVICE = 24, 8


class Machine:
    """A runtime with arrays, host arrays with their expected contents, and pending runs."""

    def __init__(self, runtime: vc.Runtime) -> None:
        self.runtime, self.scale = runtime, runtime.kernel(vc.glsl(SCALE))
        self.arrays = [runtime.zeros(N_DEVICE, np.int32) for _ in range(3)]
        self.host = [np.zeros(N_HOST, np.int32) for _ in range(2)]

    def reset(self) -> None:
        self.hosts = [np.arange(N_DEVICE, dtype=np.int32) + 100 * i for i in range(3)]
        self.expected = [np.arange(N_HOST, dtype=np.int32) - 100 * i for i in range(2)]
        self.futures: list[vc.Future] = []
        for ours, theirs in zip((*self.host, *self.arrays), (*self.expected, *self.hosts), strict=True):
            ours[:] = theirs


@dataclass(frozen=True)
class Transfer:
    """A read or a write between part of an array and a view of a host array."""

    reads: bool
    array: int
    host: int
    n: int
    start: int
    step: int
    shape: tuple[int, ...]

    def view(self, arrays: list[np.ndarray]) -> np.ndarray:
        part = arrays[self.host][self.start :: self.step] if self.step > 0 else arrays[self.host][:: self.step]
        return part[: self.n].reshape(self.shape)  # a view: the axes of a strided array are split

    def on_device(self, m: Machine) -> None:
        array = m.arrays[self.array][: self.n].reshape(self.shape)
        (array.read if self.reads else array.write)(self.view(m.host))

    def on_arrays(self, m: Machine) -> None:
        host, kept = self.view(m.expected), m.hosts[self.array][: self.n].reshape(self.shape)
        if self.reads:
            host[...] = kept
        else:
            kept[...] = host


@dataclass(frozen=True)
class Change:
    """A fill, or a launch."""

    array: int
    value: int
    fills: bool

    def on_device(self, m: Machine) -> None:
        array = m.arrays[self.array]
        array.fill(self.value) if self.fills else m.scale(array, 3, self.value)

    def on_arrays(self, m: Machine) -> None:
        host = m.hosts[self.array]
        host[:] = self.value if self.fills else host * np.int32(3) + np.int32(self.value)


@dataclass(frozen=True)
class Recorded:
    """A graph with steps, some of which are graphs. Steps that it rejects are no part of it."""

    steps: tuple[Any, ...]
    times: int

    def record(self, m: Machine) -> tuple[vc.Graph, list[Any]]:
        """The graph, and the steps that it takes: with those of the graphs in it."""
        inner = {id(step): step.record(m) for step in self.steps if isinstance(step, Recorded)}
        kept: list[Any] = []
        with m.runtime.record() as graph:
            for step in self.steps:
                recorded, steps = inner.get(id(step), (None, [step]))
                times = step.times if recorded else 1
                rejected = feeds_back(m, [*kept, *steps * times])
                with pytest.raises(ValueError, match="reads into") if rejected else nullcontext():
                    recorded.run(times) if recorded else step.on_device(m)
                kept += [] if rejected else steps * times
        return graph, kept


def feeds_back(m: Machine, steps: list[Any]) -> bool:
    """True if a step writes from memory that an earlier one reads into."""
    transfers = [step for step in steps if isinstance(step, Transfer)]
    return any(
        first.reads and not then.reads and np.shares_memory(first.view(m.host), then.view(m.host))
        for i, first in enumerate(transfers)
        for then in transfers[i + 1 :]
    )


@dataclass(frozen=True)
class Submit:
    """Runs of a graph, waited for or not."""

    graph: int
    times: int
    waits: bool


@st.composite
def transfers(draw: st.DrawFn) -> Transfer:
    n = draw(st.integers(1, N_DEVICE // 2)) * 2
    step = draw(st.sampled_from([1, 2, 3, -1, -2]))
    start = draw(st.integers(0, N_HOST - abs(step) * n)) if abs(step) * n <= N_HOST else 0
    step = step if abs(step) * n <= N_HOST else 1
    shape = draw(st.sampled_from([(n,), (2, n // 2), (n // 2, 2)]))
    return Transfer(draw(st.booleans()), draw(st.integers(0, 2)), draw(st.integers(0, 1)), n, start, step, shape)


CHANGES = st.builds(Change, st.integers(0, 2), st.integers(-9, 9), st.booleans())


def recorded(depth: int) -> st.SearchStrategy[Recorded]:
    steps = [transfers(), transfers(), CHANGES, *([recorded(depth - 1)] if depth else [])]
    return st.builds(Recorded, st.lists(st.one_of(*steps), max_size=6).map(tuple), st.integers(1, 2))


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[Recorded], list[Any], bool]:
    graphs = draw(st.lists(recorded(1), min_size=2, max_size=2))
    submits = st.builds(Submit, st.integers(0, 1), st.integers(1, 2), st.booleans())
    steps = draw(st.lists(st.one_of(submits, submits, transfers(), CHANGES), max_size=10))
    return graphs, steps, draw(st.booleans())


OPTIONS: dict[str, dict[str, Any]] = {
    "one queue": {},
    "queues, staging": {"timelines": (2, 1), "staging": True},
    "each launch in parts": {"timelines": (2, 1), "submit_limit_s": 1e-9},
}


@pytest.fixture(scope="module", params=OPTIONS.values(), ids=OPTIONS)
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    with open_runtime(**request.param) as runtime:
        yield Machine(runtime)


@given(program=programs())
def test_host_arrays_end_as_in_the_order_of_the_program(
    machine: Machine, program: tuple[list[Recorded], list[Any], bool]
) -> None:
    graphs, steps, by_futures = program
    machine.reset()
    made = [graph.record(machine) for graph in graphs]
    for step in steps:
        if isinstance(step, Submit):
            graph, parts = made[step.graph]
            future = graph.submit(step.times)
            future.result() if step.waits else machine.futures.append(future)
            for part in parts * step.times:
                part.on_arrays(machine)
        else:
            step.on_device(machine)
            step.on_arrays(machine)
    if by_futures:
        for future in machine.futures[::-1]:
            future.result()
    else:
        machine.futures.clear()
        machine.runtime.wait()
    for got, expected in zip((*machine.host, *machine.arrays), (*machine.expected, *machine.hosts), strict=True):
        np.testing.assert_array_equal(np.asarray(got), expected)


def reading(array: vc.Array, out: np.ndarray) -> vc.Graph:
    """A graph that reads an array."""
    with array.runtime.record() as graph:
        array.read(out)
    return graph


def test_the_last_of_two_reads_into_one_array_is_kept(rt: vc.Runtime) -> None:
    x, out = rt.full(4, 3, np.int32), np.zeros(4, np.int32)
    with rt.record() as inner:
        x.read(out)
        x.fill(7)
        x.read(out)
    inner.run()
    assert out.tolist() == [7] * 4
    with rt.record() as outer:
        inner.run()
        x.fill(9)
        x[1:3].read(out[1:3])
    outer.run()
    assert out.tolist() == [7, 9, 9, 7]


def test_views_of_one_array_are_filled_in_the_order_of_the_runs(rt: vc.Runtime) -> None:
    x, y, out = rt.full(4, 1, np.int32), rt.full(4, 2, np.int32), np.zeros(6, np.int32)
    first, second = reading(x, out[:4]).submit(), reading(y, out[2:]).submit()
    second.result()
    first.result()
    assert out.tolist() == [1, 1, 2, 2, 2, 2]


def test_transfers_are_ordered_with_pending_runs(rt: vc.Runtime) -> None:
    x, y, out = rt.full(4, 1, np.int32), rt.full(4, 2, np.int32), np.zeros(4, np.int32)
    run = reading(x, out).submit()
    y[:2].read(out[::-1][:2])
    run.result()
    assert out.tolist() == [1, 1, 2, 2]
    for i, write in enumerate((y.write, lambda data: y.copy_from(rt.array(data)), y.write)):
        x.fill(i)
        reading(x, out).submit()
        write(memoryview(out) if i == 2 else out)
        assert y.numpy().tolist() == [i] * 4


def test_runs_of_two_runtimes_fill_one_array_in_their_order(rt: vc.Runtime) -> None:
    with vc.Runtime() as other:
        out = np.zeros(4, np.int32)
        first, second = (
            reading(other.full(4, 1, np.int32), out).submit(),
            reading(rt.full(4, 2, np.int32), out).submit(),
        )
        second.result()
        first.result()
        assert out.tolist() == [2] * 4


def test_results_of_graphs_that_nobody_has_arrive(rt: vc.Runtime) -> None:
    out = np.zeros(100, np.int32)
    for i in range(100):
        reading(rt.full(1, i, np.int32), out[i : i + 1]).submit()
    rt.wait()
    assert out.tolist() == list(range(100))
    assert not rt.transfers.downloads


def test_a_run_that_fails_is_still_reported_after_its_array_is_used(rt: vc.Runtime) -> None:
    x, out = rt.zeros(4, np.int32), np.full(4, 5, np.int32)

    @vc.kernel(check_bounds=True)
    def wrong(x: Any) -> None:
        x[x.size] = 1

    with rt.record() as graph:
        wrong(x, grid=1)
        x.read(out)
    graph.submit()
    rt.full(4, 6, np.int32).read(out)
    assert out.tolist() == [6] * 4
    with pytest.raises(vc.KernelError, match="index 4"):
        rt.wait()
