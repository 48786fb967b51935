"""All conflicts are ordered, and no barrier and no wait is superfluous: random programs, judged by a model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from happens_before import Barrier, Recorded, Submit, conflict, races, superfluous
from hypothesis import given
from hypothesis import strategies as st
from paper_device import Paper, PaperBuffer, on_paper

from vkcompute.errors import VulkanError
from vkcompute.runtime.scheduling.recording import Recording

pytestmark = pytest.mark.pure

N_BUFFERS, NBYTES = 3, 12
SEVERAL = [(0, "compute"), (1, "compute"), (1, "compute"), (2, "transfer")]
QUEUES = {"one": SEVERAL[:1], "two": SEVERAL[1:3], "four": SEVERAL}


@dataclass
class State:
    """A program under way."""

    paper: Paper
    buffers: list[PaperBuffer] = field(default_factory=lambda: [PaperBuffer() for _ in range(N_BUFFERS)])
    recordings: list[Recording] = field(default_factory=list)

    def ranges(self, places: list[tuple[int, int, int]]) -> list[Any]:
        return [(self.buffers[number], start, stop) for number, start, stop in places]

    def pin(self, number: int | None, *, copies: bool = False) -> int | None:
        queues = self.paper.scheduler.queues if copies else self.paper.scheduler.placement.compute
        return None if number is None else queues[number % len(queues)].index


@dataclass(frozen=True)
class Step:
    """One step of a program; hypothesis prints its text."""

    text: str
    run: Callable[[State], object]

    def __repr__(self) -> str:
        return self.text


@st.composite
def places(draw: st.DrawFn) -> tuple[int, int, int]:
    start = draw(st.integers(0, NBYTES - 1))
    return draw(st.integers(0, N_BUFFERS - 1)), start, draw(st.integers(start + 1, NBYTES))


PINS = st.one_of(st.none(), st.integers(0, 3))


@st.composite
def launches(draw: st.DrawFn) -> Step:
    writes, reads = draw(st.lists(places(), max_size=2)), draw(st.lists(places(), max_size=2))
    pin = draw(PINS)
    text = f"launch(writes={writes}, reads={reads}, queue={pin})"
    return Step(text, lambda s: s.paper.launch(s.ranges(writes), s.ranges(reads), s.pin(pin)))


@st.composite
def copies(draw: st.DrawFn) -> Step:
    both, pin = [draw(places()), draw(places())], draw(PINS)
    return Step(f"copy({both}, queue={pin})", lambda s: s.paper.copy(*s.ranges(both), s.pin(pin, copies=True)))


@st.composite
def fills(draw: st.DrawFn) -> Step:
    place = draw(places())
    return Step(f"fill({place})", lambda s: s.paper.scheduler.fill(s.ranges([place])[0], 0))


@st.composite
def host_accesses(draw: st.DrawFn) -> Step:
    place, write = draw(places()), draw(st.booleans())
    return Step(f"host({place}, write={write})", lambda s: s.paper.host(s.ranges([place])[0], write))


@st.composite
def progress(draw: st.DrawFn) -> Step:
    """A queue runs some of what it was given, and the host looks, or not."""
    number, part, look = draw(st.integers(0, 3)), draw(st.floats(0, 1)), draw(st.booleans())

    def run(s: State) -> None:
        queue = s.paper.device.queues[number % len(s.paper.device.queues)]
        queue.run(round(part * queue.last_value))
        if look:
            queue.poll()

    return Step(f"run({number}, {part}, look={look})", run)


@st.composite
def recordings(draw: st.DrawFn) -> Step:
    tasks = draw(st.lists(st.tuples(st.lists(places(), max_size=2), st.lists(places(), max_size=2)), max_size=5))
    times = draw(st.integers(1, 2))

    def run(s: State) -> None:
        s.recordings.append(s.paper.record([(s.ranges(writes), s.ranges(reads)) for writes, reads in tasks]))
        s.paper.replay(s.recordings[-1], times)

    return Step(f"record({tasks}, times={times})", run)


@st.composite
def replays(draw: st.DrawFn) -> Step:
    number = draw(st.integers(0, 9))
    return Step(
        f"replay({number})", lambda s: s.recordings and s.paper.replay(s.recordings[number % len(s.recordings)], 1)
    )


@st.composite
def new_owners(draw: st.DrawFn) -> Step:
    """The memory of a buffer that is gone takes a result, wherever the tasks of the former owner are."""
    number, pin = draw(st.integers(0, N_BUFFERS - 1)), draw(PINS)

    def run(s: State) -> None:
        if (history := s.buffers[number].history) is not None:
            history.hand_over(NBYTES)
        s.paper.launch(s.ranges([(number, 0, NBYTES)]), [], s.pin(pin))

    return Step(f"new_owner({number}, queue={pin})", run)


FLUSH = st.just(Step("flush", lambda s: s.paper.scheduler.flush()))
STEPS = st.one_of(
    launches(), launches(), launches(), copies(), fills(), host_accesses(), progress(), new_owners(), FLUSH
)


def run(queues: str, program: list[Step], batch_tasks: int = 4, *, submits_early: bool = False) -> Paper:
    with on_paper(batch_tasks):
        state = State(Paper(QUEUES[queues], submits_early=submits_early))
        for step in program:
            step.run(state)
        state.paper.scheduler.flush()
    return state.paper


@pytest.mark.parametrize("queues", QUEUES)
@given(program=st.lists(STEPS, max_size=30), submits_early=st.booleans())
def test_conflicts_are_ordered_by_the_fewest(queues: str, program: list[Step], *, submits_early: bool) -> None:
    history = run(queues, program, submits_early=submits_early).device.history
    assert not races(history)
    assert not superfluous(history)


@pytest.mark.parametrize("queues", QUEUES)
@given(program=st.lists(st.one_of(STEPS, recordings(), replays()), max_size=15))
def test_graphs_among_them(queues: str, program: list[Step]) -> None:
    history = run(queues, program).device.history
    assert not races(history)
    assert not superfluous(history)


def fail(state: State, n: int) -> None:
    state.paper.device.n_to_fail = n


FAILURES = st.integers(1, 3).map(lambda n: Step(f"fail({n})", lambda s: fail(s, n)))


@pytest.mark.parametrize("queues", QUEUES)
@given(program=st.lists(st.one_of(STEPS, recordings(), replays(), FAILURES), max_size=30))
def test_what_fails_takes_no_order_with_it(queues: str, program: list[Step]) -> None:
    """A barrier or a wait in a batch that was not submitted orders nothing."""
    with on_paper(batch_tasks=4):
        state = State(Paper(QUEUES[queues]))
        for step in program:
            with suppress(VulkanError):
                step.run(state)
        fail(state, 0)
        with suppress(VulkanError):
            state.paper.scheduler.flush()
    assert not races(state.paper.device.history)


@given(program=st.lists(st.one_of(launches(), copies(), fills()), max_size=30))
def test_no_order_of_one_queue_takes_fewer_barriers(program: list[Step]) -> None:
    """Of tasks each of which conflicts with the one before it, every two have a barrier between them: the longest such
    row is the least that any choice of barriers can do with.
    """
    history = run("one", program, batch_tasks=64).device.history
    tasks = [event.command for event in history if isinstance(event, Recorded)]
    least = [0]
    for j, task in enumerate(tasks):
        rows = [least[i + 1] + 1 for i in range(j) if conflict(tasks[i], task)]
        least.append(max([least[j], *rows]))
    barriers = [item for e in history if isinstance(e, Submit) for item in e.commands if isinstance(item, Barrier)]
    assert len(barriers) == least[-1]
