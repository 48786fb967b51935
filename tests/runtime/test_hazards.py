"""Hazards against a model that knows, of every byte, who wrote it last and who has read it since."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkcompute.runtime.scheduling.access_history import AccessHistory, Dependencies

pytestmark = pytest.mark.pure

NBYTES = 24
Task = tuple[int, int]
"""(timeline, number), numbers from 1 on"""


@dataclass
class Byte:
    """The history of one byte."""

    writer: Task | None = None
    readers: set[Task] = field(default_factory=set)


@dataclass
class Step:
    """One task of a program: the ranges (start, stop) that it writes and reads."""

    timeline: int
    writes: list[tuple[int, int]]
    reads: list[tuple[int, int]]
    task: int = 0


def ranges() -> st.SearchStrategy[list[tuple[int, int]]]:
    one = st.tuples(st.integers(0, NBYTES), st.integers(0, NBYTES)).map(lambda pair: (min(pair), max(pair)))
    return st.lists(one, max_size=3)


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    n_timelines = draw(st.integers(1, 4))
    steps = draw(
        st.lists(st.builds(Step, st.integers(0, n_timelines - 1), ranges(), ranges()), min_size=1, max_size=25)
    )
    newest = dict.fromkeys(range(n_timelines), 0)
    for step in steps:
        newest[step.timeline] += 1
        step.task = newest[step.timeline]
    return steps


def conflicts(memory: list[Byte], step: Step) -> set[Task]:
    """The earlier tasks that the step must come dependencies, and the memory's history brought up to date."""
    me = (step.timeline, step.task)
    written = {at for start, stop in step.writes for at in range(start, stop)}
    read = {at for start, stop in step.reads for at in range(start, stop)}
    results: set[Task] = set()
    for at in written | read:
        if memory[at].writer:
            results.add(memory[at].writer)
        if at in written:
            results |= memory[at].readers
    for at in written:
        memory[at] = Byte(me)
    for at in read - written:
        memory[at].readers.add(me)
    return results - {me}


def note(history: AccessHistory, step: Step) -> Dependencies:
    dependencies: Dependencies = {}
    for start, stop in step.writes:
        history.write(start, stop, step.timeline, step.task, dependencies)
    for start, stop in step.reads:
        history.read(start, stop, step.timeline, step.task, dependencies)
    return dependencies


@given(programs())
def test_every_conflict_is_ordered_and_nothing_else(steps: list[Step]) -> None:
    history, memory = AccessHistory(), [Byte() for _ in range(NBYTES)]
    before: dict[Task, set[Task]] = {}  # what is ordered before each task, by what AccessHistory said so far
    for step in steps:
        expected = conflicts(memory, step)
        dependencies = note(history, step)
        ordered: set[Task] = set()
        for timeline, task in dependencies.items():
            assert (timeline, task) in expected, "it orders what has no conflict"
            for earlier in range(1, task + 1):  # to wait for a task is to wait for the earlier ones of its timeline
                ordered |= {(timeline, earlier)} | before.get((timeline, earlier), set())
        assert (step.timeline, step.task) not in ordered
        assert expected <= ordered, "a conflict is not ordered"
        before[step.timeline, step.task] = ordered


@given(programs(), st.integers(0, NBYTES), st.integers(0, NBYTES))
def test_what_the_host_waits_for(steps: list[Step], one: int, other: int) -> None:
    start, stop = min(one, other), max(one, other)
    history, memory = AccessHistory(), [Byte() for _ in range(NBYTES)]
    for step in steps:
        conflicts(memory, step)
        note(history, step)
    touched = memory[start:stop]
    writers = {byte.writer for byte in touched if byte.writer}
    everyone = writers | {reader for byte in touched for reader in byte.readers}
    assert history.last_writers(start, stop) == latest(writers)
    assert history.last_accesses(start, stop) == latest(everyone)
    assert history.last_writers(start, stop) == latest(writers), "asking changes nothing"


def latest(tasks: set[Task]) -> Dependencies:
    return {timeline: max(task for other, task in tasks if other == timeline) for timeline, _ in tasks}


@given(programs(), st.data())
def test_forgetting_keeps_what_is_unfinished(steps: list[Step], data: st.DataObject) -> None:
    """With calls of forget() in between, every conflict with an unfinished task is still reported."""
    history, memory = AccessHistory(), [Byte() for _ in range(NBYTES)]
    newest = dict.fromkeys(range(4), 0)
    finished = dict.fromkeys(range(4), 0)
    for step in steps:
        if data.draw(st.booleans()):
            finished = {s: data.draw(st.integers(finished[s], newest[s])) for s in newest}
            history.prune(finished)
        pending = {(s, t) for s, t in conflicts(memory, step) if t > finished[s]}
        newest[step.timeline] = step.task
        dependencies = note(history, step)
        assert latest(pending).items() <= dependencies.items(), "a dependency on unfinished work is lost"
    history.prune(newest)
    assert len(history) == 0, "all is finished, and nothing is left"


@given(programs())
def test_segments_stay_few(steps: list[Step]) -> None:
    """Never more segments than there are different ends of ranges."""
    history = AccessHistory()
    ends: set[int] = set()
    for step in steps:
        note(history, step)
        ends |= {end for pair in (*step.writes, *step.reads) for end in pair}
        assert len(history) <= max(0, len(ends) - 1)


def test_one_write_over_many_pieces_leaves_one_segment() -> None:
    history = AccessHistory()
    for at in range(1000):
        history.write(4 * at, 4 * at + 4, 0, at + 1, {})
    assert len(history) == 1000
    dependencies: Dependencies = {}
    history.write(0, 4000, 1, 1, dependencies)
    assert (dependencies, len(history)) == ({0: 1000}, 1)


def test_a_read_of_all_joins_the_pieces_that_reads_of_parts_have_left() -> None:
    history, dependencies = AccessHistory(), {}
    history.write(0, 64, 0, 1, {})
    history.read(16, 32, 0, 2, {})
    history.read(40, 48, 1, 1, {})
    history.read(0, 64, 0, 3, {})
    assert len(history) == 3, "the other timeline has read a part alone"
    history.read(0, 64, 1, 2, {})
    assert len(history) == 1
    history.write(0, 8, 2, 1, dependencies)
    assert dependencies == {0: 3, 1: 2}


def test_last_writers() -> None:
    history = AccessHistory()
    assert history.last_writers(0, 8) == {}
    history.read(0, 8, 2, 1, {})
    assert history.last_writers(0, 8) == {}, "a read is no write"
    history.write(4, 8, 3, 1, {})
    assert (history.last_writers(0, 4), history.last_writers(0, 5), history.last_writers(8, 9)) == ({}, {3: 1}, {})


def test_ranges_beyond_32_bits() -> None:
    history, dependencies = AccessHistory(), {}
    history.write(0, 1 << 40, 0, 1, {})
    history.read(1 << 39, (1 << 39) + 4, 1, 1, dependencies)
    assert dependencies == {0: 1}
    assert len(history) == 3


@pytest.mark.parametrize("lag", [0, 300, 5_000, 10**9])
def test_forgetting_costs_a_task_no_more_the_more_windows_have_work(lag: int) -> None:
    """Of 4,096 windows written in turn, whatever part is unfinished: few segments are looked at per task, few stay."""
    history, looked_at, most = AccessHistory(), 0, 0
    for task in range(1, 40_001):
        if history.needs_pruning:
            looked_at += len(history)
            history.prune({0: task - lag})
        start = task % 4096 * 8
        history.write(start, start + 8, 0, task, {})
        most = max(most, len(history))
    assert looked_at <= 4 * task
    assert most <= max(65, 2 * min(lag, 4096) + 2)


@given(programs(), st.integers(1, NBYTES))
def test_a_write_of_the_next_owner_follows_all_tasks_of_the_former(steps: list[Step], nbytes: int) -> None:
    """Wherever they accessed the memory: a kernel that stores whole vectors writes behind the elements, too."""
    history, newest = AccessHistory(), dict[int, int]()
    for step in steps:
        note(history, step)
        if any(start < stop for start, stop in (*step.writes, *step.reads)):
            newest[step.timeline] = step.task
    uses = history.last_uses()
    assert uses.items() <= newest.items()
    history.hand_over(nbytes)
    first, following = Step(9, [(0, nbytes)], [], 1), Step(8, [(0, 1)], [], 1)
    assert note(history, first) == uses
    assert history.writers(0, nbytes) == [(9, 1)]
    assert note(history, following) == {9: 1}
