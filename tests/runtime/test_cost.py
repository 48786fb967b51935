"""Submits stay within the limit: launches on a device on paper, with a clock on paper beside it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from itertools import product
from math import prod
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper_device import PaperBuffer, PaperDevice, PaperPool, PaperQueue, PaperRecorder, on_paper

from vkcompute.runtime.graphs.recording_cache import RecordingCache
from vkcompute.runtime.scheduling import command_queue, recording
from vkcompute.runtime.scheduling.cost import NOTHING, Cost, Costs, Mix, split_grid
from vkcompute.runtime.scheduling.recording import Recording
from vkcompute.runtime.scheduling.scheduler import BATCH_TASKS, Scheduler
from vkcompute.runtime.scheduling.task import Task

pytestmark = pytest.mark.pure

LIMIT_S, HOST_S = 0.5, 1e-5  # the latter is what a call takes the host


@given(grid=st.tuples(*[st.integers(1, 40)] * 3), n_parts=st.integers(1, 64))
def test_parts_are_the_grid(grid: tuple[int, int, int], n_parts: int) -> None:
    parts = list(split_grid(grid, n_parts))
    groups = [
        tuple(first + i for first, i in zip(base, at, strict=True))
        for base, size in parts
        for at in product(*map(range, size))
    ]
    assert sorted(groups) == sorted(product(*map(range, grid)))
    sizes = [prod(size) for _, size in parts]
    assert len(parts) == min(n_parts, max(grid))
    assert max(sizes) - min(sizes) <= prod(grid) // max(grid), "alike but for one row of groups"


def test_no_workgroups_are_one_part() -> None:
    assert list(split_grid((0, 1, 1), 16)) == [((0, 0, 0), (0, 1, 1))]
    assert list(split_grid((0, 0, 0), 16)) == [((0, 0, 0), (0, 0, 0))]


class TimedQueue(PaperQueue):
    """Runs one submit after the other, each as long as its launches take."""

    now = 0.0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.observed_completion = 0, 0.0
        self.ends, self.took = [0.0], [0.0]

    def submit(self, command_buffers: Sequence[Any], waits: Any = ()) -> int:
        seconds = sum(item() for buffer in command_buffers for item in buffer if isinstance(item, partial))
        self.ends.append(max(self.now, self.ends[-1]) + seconds)
        self.took.append(seconds)
        return super().submit(command_buffers, waits)

    def poll(self) -> int:
        self.completed = bisect_right(self.ends, self.now) - 1
        return self.completed

    def wait(self, value: int, timeout_s: float | None = None) -> bool:
        if self.ends[value] > self.now:
            self.now = self.ends[value]
            self.observed_completion = value, self.now
        self.completed = max(self.completed, value)
        return True


class TimedRecorder(PaperRecorder):
    """Takes down how long launches take."""

    def dispatch(self, seconds: Any, grid: Any, base: Any = None) -> None:
        self.items.append(partial(seconds, prod(grid)))


class TimedTask(Task):
    """A launch in a recording: of a kernel on so many workgroups."""

    def __init__(self, machine: Machine, kernel: int, n_groups: int) -> None:
        super().__init__(*[[(machine.data, 0, 4)]] * 2)
        self._machine, self._kernel, self._grid = machine, kernel, (n_groups, 1, 1)
        self.cost = machine.costs[kernel].of(self._grid)

    def record(self, recorder: Any) -> None:
        recorder.dispatch(partial(self._machine.seconds, self._kernel), self._grid)

    def launch(self, scheduler: Scheduler, queue: int) -> None:
        self._machine.launch(self._kernel, self._grid[0], depends=True)


class Machine:
    """A scheduler with a limit, and kernels whose workgroups take so long each."""

    def __init__(self, group_s: Sequence[float], *, divisible: bool) -> None:
        device = PaperDevice([(0, "compute")])
        device.queues = (self.queue,) = [TimedQueue(device, 0, 0, "compute")]
        self.scheduler = Scheduler(device, None, LIMIT_S)  # type: ignore[arg-type]
        self.group_s, self.costs = group_s, [Costs(LIMIT_S, divisible=divisible) for _ in group_s]
        self.data: Any = PaperBuffer()
        command_queue.time = SimpleNamespace(perf_counter=lambda: self.queue.now)

    def launch(self, kernel: int, n_groups: int, *, depends: bool) -> Any:
        self.queue.now += HOST_S
        grid = n_groups, 1, 1
        name: Any = SimpleNamespace(name="launch")
        ranges = [(self.data, 0, 4)] if depends else []
        command = partial(self.seconds, kernel), grid
        return self.scheduler.dispatch(command, ranges, ranges, None, (name, name, self.costs[kernel].of(grid)))

    def seconds(self, kernel: int, n_groups: int) -> float:
        return self.group_s[kernel] * n_groups

    def record(self, launches: Sequence[tuple[int, int]]) -> Recording:
        pool: Any = PaperPool(self.queue)
        return Recording(pool, [TimedTask(self, *launch) for launch in launches], LIMIT_S)

    def run(self, recording: Recording, times: int) -> None:
        graph: Any = RecordingCache.__new__(RecordingCache)
        graph._runtime, graph.family, graph._n_runs = SimpleNamespace(scheduler=self.scheduler), 0, 0
        graph.replay(recording, None, times)


@pytest.fixture
def _timed() -> Any:
    time = command_queue.time
    with on_paper() as _, pytest.MonkeyPatch.context() as patch:
        for module in (command_queue, recording):
            patch.setattr(module, "Recorder", TimedRecorder)
        yield
    command_queue.time = time


STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans(), st.integers(1, 40)),
        st.tuples(st.integers(0, 3), st.integers(1, 10)),
        st.sampled_from(["wait", "sleep", "flush"]),
    ),
    min_size=1,
    max_size=30,
)


@pytest.mark.usefixtures("_timed")
@pytest.mark.parametrize("divisible", [False, True])
@given(
    seconds=st.lists(st.floats(1e-6, 4.0), min_size=3, max_size=3),  # of a launch on the largest of the grids
    graphs=st.lists(
        st.lists(st.tuples(st.integers(0, 2), st.sampled_from([16, 64, 256, 1024])), max_size=20),
        min_size=4,
        max_size=4,
    ),
    steps=STEPS,
)
def test_no_submit_takes_longer_than_the_limit(
    seconds: list[float], graphs: list[Any], steps: list[Any], divisible: bool
) -> None:
    grids = [16, 64, 256, 1024]
    machine = Machine([second / grids[-1] for second in seconds], divisible=divisible)
    longest = 0.0
    recorded = [machine.record(launches) for launches in graphs]
    for step in steps:
        if step == "wait":
            machine.scheduler.wait()
        elif step == "sleep":
            machine.queue.now += 3.0
        elif step == "flush":
            machine.scheduler.flush()
        elif len(step) == 2:
            machine.run(recorded[step[0]], step[1])
            longest = max([longest, *(machine.group_s[kernel] * n for kernel, n in graphs[step[0]])])
        else:
            kernel, size, depends, times = step
            for _ in range(times):
                machine.launch(kernel, grids[size], depends=depends)
            longest = max(longest, machine.group_s[kernel] * grids[size])
    machine.scheduler.wait()
    # Four seconds in 16 parts are within it; what cannot be divided has a submit of its own.
    assert max(machine.queue.took) <= max(LIMIT_S, 0.0 if divisible else longest) * (1 + 1e-6)


@pytest.mark.usefixtures("_timed")
@pytest.mark.parametrize("waits", [False, True])
def test_short_launches_soon_go_in_full_batches_again(waits: bool) -> None:
    machine = Machine([1e-7], divisible=True)
    for _ in range(30):
        machine.launch(0, 64, depends=True)
        if waits:
            machine.scheduler.wait()
    known = machine.queue.last_value
    for _ in range(10 * BATCH_TASKS):
        machine.launch(0, 64, depends=True)
    assert machine.queue.last_value - known <= 11


@pytest.mark.usefixtures("_timed")
def test_launches_that_become_long_are_cut_again() -> None:
    machine = Machine([1e-6], divisible=True)
    for _ in range(500):
        machine.launch(0, 100, depends=True)
    machine.scheduler.wait()
    machine.group_s = [1e-2]
    for _ in range(64):  # a batch of which nothing is known
        machine.launch(0, 100, depends=True)
    machine.scheduler.wait()
    known = machine.queue.last_value
    for _ in range(20):
        for _ in range(64):
            machine.launch(0, 100, depends=True)
        machine.scheduler.wait()
    took = machine.queue.took[known + 1 :]
    assert took[0] == pytest.approx(1.0), "what the wait has shown is noted with the next launch"
    assert max(took[1:]) <= LIMIT_S * 1.01


@pytest.mark.usefixtures("_timed")
@pytest.mark.parametrize("eager", [False, True])
def test_a_graph_whose_launches_become_long_is_cut_again(eager: bool) -> None:
    machine = Machine([1e-6], divisible=True)
    graph = machine.record([(0, 100)])
    for _ in range(500):
        machine.run(graph, 1)
        machine.scheduler.wait()
    machine.group_s = [1e-2]
    if eager:
        machine.launch(0, 100, depends=True)
    else:
        machine.run(graph, 1)
    machine.scheduler.wait()
    known = machine.queue.last_value
    machine.run(graph, 10)
    machine.scheduler.wait()
    assert max(machine.queue.took[known + 1 :]) <= LIMIT_S * 1.01


def test_without_a_limit_nothing_is_learnt() -> None:
    cost = Costs(None, divisible=True).of((1000, 1, 1))
    assert cost is NOTHING
    assert (cost.load, cost.n_parts) == (0, 1)


@given(
    notes=st.lists(st.tuples(st.integers(0, 1 << 20), st.floats(1e-6, 100.0)), max_size=10), n=st.integers(0, 1 << 20)
)
def test_larger_grids_are_taken_to_take_longer(notes: list[tuple[int, float]], n: int) -> None:
    costs = Costs(LIMIT_S, divisible=True)
    for n_groups, seconds in notes:
        costs.of((n_groups, 1, 1)).learn(1, seconds, seconds)
    here, there = costs.of((n, 1, 1)), costs.of((2 * n + 1, 1, 1))
    assert here.load <= here.n_parts or here.n_parts == 1024
    fresh = [n_groups for n_groups, _ in notes if n_groups.bit_length() in (n.bit_length(), (2 * n + 1).bit_length())]
    if not fresh:
        assert there.load >= here.load


@st.composite
def mixes(draw: st.DrawFn) -> tuple[list[float], list[list[int]]]:
    """What three kinds of launches take, in seconds, and how many of each there are in some submits."""
    counts = st.lists(st.integers(0, 50), min_size=3, max_size=3).filter(any)
    return draw(st.lists(st.floats(1e-6, 4.0), min_size=3, max_size=3)), draw(st.lists(counts, min_size=1, max_size=20))


@given(found=mixes())
def test_a_mix_is_never_known_to_take_less_than_it_does(found: tuple[list[float], list[list[int]]]) -> None:
    seconds, submits = found
    costs = [Cost(LIMIT_S) for _ in seconds]
    for counts in submits:
        took = sum(n * second for n, second in zip(counts, seconds, strict=True))
        inner = Mix({cost: n for cost, n in zip(costs[1:], counts[1:], strict=True) if n})
        inner.update()
        Mix({inner: 1, costs[0]: counts[0]} if counts[0] else {inner: 1}).learn(1, 0.0, took)
    for cost, second in zip(costs, seconds, strict=True):
        assert cost.load == 16 or cost.load >= second / LIMIT_S * (1 - 1e-9)


@given(found=mixes())
def test_a_mix_that_has_become_longer_is_known_to_be(found: tuple[list[float], list[list[int]]]) -> None:
    seconds, submits = found
    costs = [Cost(LIMIT_S, second / LIMIT_S / 100) for second in seconds]
    for counts in submits:
        took = sum(n * second for n, second in zip(counts, seconds, strict=True))
        mix = Mix({cost: n for cost, n in zip(costs, counts, strict=True) if n})
        mix.learn(1, took, took)
        assert mix.load >= took / LIMIT_S * (1 - 1e-9)
