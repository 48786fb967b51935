"""Random graphs with inputs, temporaries, arrays of the host and graphs within them, and what numpy makes of them.

Arrays 0 to 2 of the machine are inputs of every graph, and a run is given them in any order; array 3 is the same in
all runs. So no two names of a program stand for the same bytes, which would be a race inside of a launch.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from machine import (
    LENGTH,
    N_ARRAYS,
    SMALL,
    Hosts,
    Machine,
    Step,
    View,
    adds,
    blocks,
    copies,
    fills,
    lazies,
    replacements,
    scales,
    simple,
    slices,
    splits,
    writes,
)

import vkcompute as vc

INPUTS = (0, 1, 2)


class Arrays(Hosts):
    """NumPy arrays for the device arrays, the number for the input `k`, and what was fetched, by its step.

    Attributes:
        recorded: the lazy arrays at the recording, which each of its runs begins with.
    """

    k = 0

    def __init__(self, arrays: Sequence[np.ndarray], fetched: dict[int, np.ndarray]) -> None:
        super().__init__(arrays, {})
        self.fetched = fetched
        self.recorded: dict[int, np.ndarray] = {}


class GraphMachine(Machine):
    """A machine that also fetches."""

    def __init__(self, runtime: vc.Runtime) -> None:
        super().__init__(runtime)
        self.graph: Any = None  # that is being recorded
        self.k: Any = 0
        self.nested: dict[int, vc.Graph] = {}
        self.fetched: dict[int, np.ndarray] = {}
        self.futures: list[vc.Future] = []


@dataclass(frozen=True)
class Run:
    """Arguments of a run: which array stands for which input, `k`, how often, and whether it is waited for."""

    order: tuple[int, ...]
    k: int
    times: int
    wait: bool

    def inputs(self, arrays: Sequence[Any]) -> dict[str, Any]:
        return {f"t{i}": arrays[j] for i, j in zip(INPUTS, self.order, strict=True)} | {"k": self.k}

    def arrays(self, current: Arrays, base: Arrays) -> Arrays:
        given = Arrays([*(current[j] for j in self.order), *base[len(INPUTS) :]], current.fetched)
        given.lazy = dict(base.recorded)
        given.k = self.k
        return given


@dataclass(frozen=True)
class ScaleByInput:
    view: View

    def on_device(self, m: GraphMachine) -> None:
        m.scale(self.view.of(m.arrays), m.k, 1)

    def on_arrays(self, arrays: Arrays, _base: Arrays) -> None:
        part = self.view.of(arrays)
        part[:] = part * np.int32(arrays.k) + np.int32(1)


@dataclass(frozen=True)
class Fetch:
    view: View

    def on_device(self, m: GraphMachine) -> None:
        m.fetched[id(self)] = np.zeros(self.view.length, np.int32)
        self.view.of(m.arrays).read(m.fetched[id(self)])

    def on_arrays(self, arrays: Arrays, _base: Arrays) -> None:
        arrays.fetched[id(self)] = self.view.of(arrays).copy()


@dataclass(frozen=True)
class Temporaries:
    """From here on these arrays are others, that last as long as the run."""

    numbers: frozenset[int]

    def on_device(self, m: GraphMachine) -> None:
        for number in sorted(self.numbers):
            m.arrays[number] = m.graph.empty(LENGTH, np.int32).fill(number)

    def on_arrays(self, arrays: Arrays, _base: Arrays) -> None:
        for number in self.numbers:
            arrays[number] = np.full(LENGTH, number, np.int32)


@dataclass(frozen=True)
class Plain:
    step: Step

    def on_device(self, m: GraphMachine) -> None:
        self.step.on_device(m)

    def on_arrays(self, arrays: Arrays, _base: Arrays) -> None:
        self.step.on_arrays(arrays)


@dataclass(frozen=True)
class Nested:
    program: Program
    run: Run

    def on_device(self, m: GraphMachine) -> None:
        m.nested[id(self)].submit(self.run.times, **self.run.inputs(m.arrays))

    def on_arrays(self, arrays: Arrays, base: Arrays) -> None:
        self.program.on_arrays(arrays, base, self.run)


@dataclass(frozen=True)
class Program:
    """What a graph records."""

    parts: tuple[Any, ...]

    def record(self, m: GraphMachine) -> vc.Graph:
        nested = {id(part): part.program.record(m) for part in self.parts if isinstance(part, Nested)}
        inputs = {f"t{i}": m.arrays[i] for i in INPUTS}
        with m.runtime.record(**inputs, k=2) as graph:
            inner = copy.copy(m)
            inner.graph, inner.nested, inner.k, inner.lazy = graph, nested, graph["k"], dict(m.lazy)
            inner.arrays = [*(graph[name] for name in inputs), *m.arrays[len(INPUTS) :]]
            for part in self.parts:
                part.on_device(inner)
        return graph

    def on_arrays(self, current: Arrays, base: Arrays, run: Run) -> None:
        for _ in range(run.times):
            given = run.arrays(current, base)
            for part in self.parts:
                part.on_arrays(given, base)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    order = tuple(draw(st.permutations(INPUTS)))
    return Run(order, draw(SMALL), draw(st.integers(1, 3)), draw(st.booleans()))


def graph_programs(depth: int = 2, *, lazy: bool) -> st.SearchStrategy[Program]:
    more = lazies() if lazy else []
    steps = st.one_of(adds(), scales(), splits(), copies(), fills(), writes(), *more).map(Plain)
    parts = [
        steps,
        steps,
        blocks().map(ScaleByInput),
        slices().map(Fetch),
        st.frozensets(st.integers(0, N_ARRAYS - 1), min_size=1, max_size=3).map(Temporaries),
    ]
    if depth:
        parts.append(st.builds(Nested, graph_programs(depth - 1, lazy=lazy), runs()))
    return st.lists(st.one_of(*parts), min_size=4 * lazy, max_size=14 if lazy else 7).map(
        lambda result: Program(tuple(result))
    )


@st.composite
def graph_steps(draw: st.DrawFn, *, lazy: bool) -> Step:
    """A graph that is recorded, and run a few times with other work in between."""
    program = draw(graph_programs(lazy=lazy))
    made = draw(st.lists(st.tuples(runs(), simple(lazy=lazy)), min_size=1, max_size=5))

    def on_device(m: Machine) -> None:
        assert isinstance(m, GraphMachine)
        graph = program.record(m)
        for run, between in made:
            if run.wait:
                graph.run(run.times, **run.inputs(m.arrays))
            else:
                m.futures.append(graph.submit(run.times, **run.inputs(m.arrays)))
            between.on_device(m)

    def on_arrays(arrays: list[np.ndarray]) -> None:
        assert isinstance(arrays, Arrays)
        arrays.recorded = dict(arrays.lazy)
        for run, between in made:
            program.on_arrays(arrays, arrays, run)
            between.on_arrays(arrays)

    return Step(f"graph({program}, {made})", on_device, on_arrays, recordable=False)


def programs(*, lazy: bool = False) -> st.SearchStrategy[list[Step]]:
    """Lists of graphs and other steps, also of lazy arrays if `lazy`."""
    return st.lists(st.one_of(graph_steps(lazy=lazy), simple(lazy=lazy), replacements()), min_size=1, max_size=6)


def check(machine: GraphMachine, program: list[Step]) -> None:
    """Run the program on both, and compare every array and all that was fetched."""
    hosts = Arrays([np.random.default_rng(i).integers(-9, 9, LENGTH, np.int32) for i in range(N_ARRAYS)], {})
    machine.lazy = {}
    for array, host in zip(machine.arrays, hosts, strict=True):
        array.write(host)
    for step in program:
        step.on_device(machine)
        step.on_arrays(hosts)
    for future in machine.futures[::-1]:
        future.result()
    for array, host in zip(machine.arrays, hosts, strict=True):
        np.testing.assert_array_equal(array.numpy(), host)
    for key, host in hosts.fetched.items():
        np.testing.assert_array_equal(machine.fetched[key], host)
    for number, host in hosts.lazy.items():
        np.testing.assert_array_equal(machine.lazy[number].numpy(), host)
    machine.futures.clear()
    machine.fetched.clear()
