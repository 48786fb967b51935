"""Random programs of launches, copies, fills, lazy arrays, host accesses and recordings, and what numpy makes of them.

They work on a few int32 arrays, so that results are exact. A program is a list of steps, each of which knows how to
run on a device and how to run on arrays.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute.runtime.scheduling.task import Update

N_ARRAYS = 4
ALIGN = 64  # elements: views start at multiples of it, 256 bytes, the most that a device may ask of a binding
LENGTH = 4 * ALIGN + 7  # not a multiple of the workgroup

HEAD = """
layout(local_size_x = 32) in;
#define I gl_GlobalInvocationID.x
"""
ADD = f"""{HEAD}
layout(binding = 0) readonly buffer A {{ int a[]; }};
layout(binding = 1) readonly buffer B {{ int b[]; }};
layout(binding = 2) writeonly buffer C {{ int c[]; }};
layout(push_constant) uniform P {{ int k; }};
void main() {{ if (I < c.length()) c[I] = a[I % a.length()] + k * b[I % b.length()]; }}
"""
SCALE = f"""{HEAD}
layout(binding = 0) buffer A {{ int a[]; }};
layout(push_constant) uniform P {{ int k; int d; }};
void main() {{ if (I < a.length()) a[I] = a[I] * k + d; }}
"""
# Two outputs, one of them read too: hazards inside of one launch.
SPLIT = f"""{HEAD}
layout(binding = 0) writeonly buffer A {{ int a[]; }};
layout(binding = 1) buffer B {{ int b[]; }};
void main() {{ uint n = min(a.length(), b.length()); if (I < n) {{ a[I] = b[I] * 3; b[I] += int(I); }} }}
"""


class Hosts(list):
    """NumPy arrays for the device arrays, and for the lazy ones what they were when they were made."""

    def __init__(self, arrays: Iterable[np.ndarray], lazy: dict[int, np.ndarray]) -> None:
        super().__init__(arrays)
        self.lazy = lazy


class Machine:
    """A runtime with the kernels and the arrays of a program; lazy arrays by number."""

    def __init__(self, runtime: vc.Runtime) -> None:
        self.runtime = runtime
        self.add, self.scale, self.split = (runtime.kernel(vc.glsl(source)) for source in (ADD, SCALE, SPLIT))
        self.arrays = [runtime.empty(LENGTH, np.int32) for _ in range(N_ARRAYS)]
        self.lazy: dict[int, Any] = {}


@dataclass(frozen=True)
class View:
    """Part of an array."""

    array: int
    start: int
    stop: int
    step: int = 1

    def of(self, arrays: Sequence[Any]) -> Any:
        return arrays[self.array][self.start : self.stop : self.step]

    @property
    def elements(self) -> range:
        return range(self.start, self.stop, self.step)

    @property
    def length(self) -> int:
        return len(self.elements)

    def overlaps(self, other: View) -> bool:
        return self.array == other.array and self.start < other.stop and other.start < self.stop


@st.composite
def blocks(draw: st.DrawFn) -> View:
    """A view that a kernel can be bound to."""
    start = draw(st.integers(0, 4)) * ALIGN
    return View(draw(st.integers(0, N_ARRAYS - 1)), start, draw(st.integers(start + 1, LENGTH)))


@st.composite
def slices(draw: st.DrawFn) -> View:
    """Any view."""
    start = draw(st.integers(0, LENGTH - 1))
    stop = draw(st.integers(start + 1, LENGTH))
    return View(draw(st.integers(0, N_ARRAYS - 1)), start, stop, draw(st.sampled_from([1, 1, 1, 2, 3])))


@dataclass(frozen=True)
class Step:
    """One step: what it does on a machine, and on arrays; `recordable` into a graph."""

    text: str
    on_device: Callable[[Any], object]
    on_arrays: Callable[[Any], object]
    recordable: bool = True

    def __repr__(self) -> str:
        return self.text


SMALL = st.integers(-3, 3)


@st.composite
def adds(draw: st.DrawFn) -> Step:
    out, k = draw(blocks()), draw(SMALL)
    # inputs that overlap the output would race inside of the launch
    a, b = (draw(blocks().filter(lambda view: not view.overlaps(out))) for _ in range(2))

    def on_arrays(arrays: list[np.ndarray]) -> None:
        at = np.arange(out.length)
        out.of(arrays)[:] = a.of(arrays)[at % a.length] + np.int32(k) * b.of(arrays)[at % b.length]

    return Step(
        f"add({a}, {b}, {out}, {k})",
        lambda m: m.add(a.of(m.arrays), b.of(m.arrays), out.of(m.arrays), k),
        on_arrays,
    )


@st.composite
def scales(draw: st.DrawFn) -> Step:
    view, k, d = draw(blocks()), draw(SMALL), draw(SMALL)

    def on_arrays(arrays: list[np.ndarray]) -> None:
        part = view.of(arrays)
        part[:] = part * np.int32(k) + np.int32(d)

    return Step(f"scale({view}, {k}, {d})", lambda m: m.scale(view.of(m.arrays), k, d), on_arrays)


@st.composite
def splits(draw: st.DrawFn) -> Step:
    b = draw(blocks())
    a = draw(blocks().filter(lambda view: not view.overlaps(b)))

    def on_arrays(arrays: list[np.ndarray]) -> None:
        n = min(a.length, b.length)
        a.of(arrays)[:n] = b.of(arrays)[:n] * np.int32(3)
        b.of(arrays)[:n] += np.arange(n, dtype=np.int32)

    groups = -(-min(a.length, b.length) // 32)
    return Step(f"split({a}, {b})", lambda m: m.split(a.of(m.arrays), b.of(m.arrays), grid=groups), on_arrays)


@st.composite
def copies(draw: st.DrawFn) -> Step:
    target = draw(slices())
    n = target.length

    def fits(view: View) -> bool:
        """Long enough, and with no element of the target; elements between those of the target are good."""
        shared = {*view.elements[:n]} & {*target.elements} if view.array == target.array else set()
        return view.length >= n and not shared

    source = draw(slices().filter(fits))
    return Step(
        f"copy({source}[:{n}] -> {target})",
        lambda m: target.of(m.arrays).copy_from(source.of(m.arrays)[:n]),
        lambda arrays: target.of(arrays).__setitem__(slice(None), source.of(arrays)[:n]),
    )


@st.composite
def fills(draw: st.DrawFn) -> Step:
    view, value = draw(slices()), draw(SMALL)
    return Step(
        f"fill({view}, {value})",
        lambda m: view.of(m.arrays).fill(value),
        lambda arrays: view.of(arrays).fill(value),
        recordable=view.step == 1,
    )


@st.composite
def updates(draw: st.DrawFn) -> Step:
    """Bytes that are known when the task is launched, as those of a kernel's parameters."""
    view, value = draw(slices().filter(lambda view: view.step == 1)), draw(SMALL)
    data = np.full(view.length, value, np.int32).tobytes()
    return Step(
        f"update({view}, {value})",
        lambda m: m.runtime.scheduler.launch(Update(view.of(m.arrays).range, data)),
        lambda arrays: view.of(arrays).fill(value),
    )


@st.composite
def writes(draw: st.DrawFn) -> Step:
    view, seed = draw(slices()), draw(st.integers(0, 99))
    data = np.random.default_rng(seed).integers(-9, 9, view.length, np.int32)
    return Step(
        f"write({view}, {seed})",
        lambda m: view.of(m.arrays).write(data),
        lambda arrays: view.of(arrays).__setitem__(slice(None), data),
        recordable=False,
    )


@st.composite
def reads(draw: st.DrawFn) -> Step:
    """What the host sees goes into the first array, so that a wrong sight shows in the result."""
    view = draw(slices())

    def on_device(m: Machine) -> None:
        m.arrays[0][0] = view.of(m.arrays).numpy().sum(dtype=np.int32)

    def on_arrays(arrays: list[np.ndarray]) -> None:
        arrays[0][0] = view.of(arrays).sum(dtype=np.int32)

    return Step(f"read({view})", on_device, on_arrays, recordable=False)


@st.composite
def replacements(draw: st.DrawFn) -> Step:
    """An array is dropped, with work on it pending, and its memory may be used again at once."""
    number = draw(st.integers(0, N_ARRAYS - 1))

    def on_device(m: Machine) -> None:
        m.arrays[number] = m.runtime.full(LENGTH, number, np.int32)

    return Step(f"replace({number})", on_device, lambda arrays: arrays[number].fill(number), recordable=False)


NUMBERS = st.integers(0, 2)


@st.composite
def expressions(draw: st.DrawFn) -> Step:
    """A lazy array of a view, which may be written before it is computed."""
    whole = st.builds(View, st.integers(0, N_ARRAYS - 1), st.just(0), st.just(LENGTH))
    number, view, k, d = draw(NUMBERS), draw(st.one_of(slices(), whole)), draw(SMALL), draw(SMALL)

    def run(m: Any, arrays: Any) -> None:
        m.lazy[number] = view.of(arrays) * np.int32(k) + np.int32(d)

    return Step(f"lazy[{number}] = {view} * {k} + {d}", lambda m: run(m, m.arrays), lambda hosts: run(hosts, hosts))


def _chosen(lazy: dict[int, Any], number: int) -> Any:
    return lazy[sorted(lazy)[number % len(lazy)]]


@st.composite
def combinations(draw: st.DrawFn) -> Step:
    """A lazy array of others; of one, if they do not broadcast."""
    number, a, b, kind = draw(NUMBERS), draw(NUMBERS), draw(NUMBERS), draw(st.sampled_from(["sum", "-", "where"]))

    def run(m: Any) -> None:
        if not m.lazy:
            return
        x, y = _chosen(m.lazy, a), _chosen(m.lazy, b)
        y = y if len({len(x), len(y)} - {1}) < 2 else x
        if kind == "sum":
            m.lazy[number] = (x - y * np.int32(2)).sum(dtype=np.int32, keepdims=True)
        else:
            m.lazy[number] = np.where(x > y, x, y + np.int32(1)) if kind == "where" else x * np.int32(3) - y

    return Step(f"lazy[{number}] = lazy[{a}] {kind} lazy[{b}]", run, run)


@st.composite
def assignments(draw: st.DrawFn) -> Step:
    """A lazy array is computed into a view, by itself or in an expression of the view."""
    number, array, start, step = (
        draw(NUMBERS),
        draw(st.integers(0, N_ARRAYS - 1)),
        draw(st.integers(0, LENGTH)),
        draw(NUMBERS),
    )
    kind, keep = draw(st.sampled_from(["=", "+=", "add.out"])), draw(st.booleans())

    def run(m: Any, arrays: Any) -> None:
        if not m.lazy:
            return
        value = _chosen(m.lazy, number)
        if not keep:
            m.lazy.pop(number, None)
        n = len(value)
        stride = step + 1 if n * (step + 1) <= LENGTH else 1
        first = start % (LENGTH - n * stride + 1)
        target = View(array, first, first + n * stride, stride).of(arrays)
        if kind == "=":
            target[...] = value
        elif kind == "+=":
            target += value
        else:
            np.add(value, np.int32(7), out=target)

    text = f"array {array} from {start} by {step} {kind} lazy[{number}]{'' if keep else ', dropped'}"
    return Step(text, lambda m: run(m, m.arrays), lambda hosts: run(hosts, hosts))


def lazies() -> list[st.SearchStrategy[Step]]:
    """Steps of lazy arrays. Of their kernels, a trace cannot tell what is only read."""
    return [expressions(), combinations(), assignments()]


def simple(*, lazy: bool) -> st.SearchStrategy[Step]:
    more = lazies() if lazy else []
    return st.one_of(adds(), scales(), splits(), copies(), fills(), updates(), writes(), reads(), *more)


@st.composite
def recordings(draw: st.DrawFn, *, lazy: bool) -> Step:
    """A graph of a few steps, run a few times, something else in between."""
    commands = st.one_of(adds(), scales(), splits(), copies(), fills(), updates(), *(lazies() if lazy else []))
    inner = draw(st.lists(commands.filter(lambda s: s.recordable), max_size=5))
    between = draw(simple(lazy=lazy))
    times = draw(st.integers(1, 3))

    def on_device(m: Machine) -> None:
        recorded = copy.copy(m)
        recorded.lazy = dict(m.lazy)  # those that it makes are of a run
        with m.runtime.record() as graph:
            for step in inner:
                step.on_device(recorded)
        graph.submit(times)
        between.on_device(m)
        graph.run()

    def on_arrays(arrays: Hosts) -> None:
        before, outside = dict(arrays.lazy), arrays.lazy
        for round_ in range(times + 1):
            if round_ == times:
                between.on_arrays(arrays)
            arrays.lazy = dict(before)
            for step in inner:
                step.on_arrays(arrays)
            arrays.lazy = outside

    return Step(f"record({inner}, times={times}, then {between})", on_device, on_arrays, recordable=False)


def programs(*, lazy: bool = False) -> st.SearchStrategy[list[Step]]:
    """Lists of steps, also of lazy arrays if `lazy`."""
    one = simple(lazy=lazy)
    return st.lists(st.one_of(one, one, replacements(), recordings(lazy=lazy)), min_size=1, max_size=20)


def check(machine: Machine, program: list[Step]) -> None:
    """Run the program on both, and compare every array."""
    hosts = Hosts([np.random.default_rng(i).integers(-9, 9, LENGTH, np.int32) for i in range(N_ARRAYS)], {})
    machine.lazy = {}
    for array, host in zip(machine.arrays, hosts, strict=True):
        array.write(host)
    for step in program:
        step.on_device(machine)
        step.on_arrays(hosts)
    for number, (array, host) in enumerate(zip(machine.arrays, hosts, strict=True)):
        result = array.numpy()
        wrong = np.flatnonzero(result != host)
        assert not len(wrong), f"array {number} differs at {wrong}: {result[wrong]} for {array[wrong]}"
    for number, host in hosts.lazy.items():
        np.testing.assert_array_equal(machine.lazy[number].numpy(), host)
