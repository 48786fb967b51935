"""Which queue a task gets, and why, on a device on paper whose queues run when the test says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper_device import Paper, PaperBuffer, on_paper

from vkcompute.runtime.scheduling.placement import DATA, FAR, IDLE, ONLY, PINNED

pytestmark = pytest.mark.pure

GPU = [(0, "compute"), (2, "compute"), (2, "compute"), (1, "transfer"), (1, "transfer")]


@pytest.fixture
def paper() -> Iterator[Paper]:
    with on_paper():
        yield Paper(GPU)


def data() -> Any:
    return PaperBuffer(), 0, 64


def got(future: Any) -> tuple[int, str]:
    return future.queue.index, future.placement


def test_independent_chains_go_to_different_queues_and_stay_there(paper: Paper) -> None:
    chains = [data() for _ in range(6)]
    assert [got(paper.launch([x], [])) for x in chains] == [(i % 3, IDLE) for i in range(6)]
    for _ in range(20):
        assert [got(paper.launch([x], [x])) for x in chains] == [(i % 3, DATA) for i in range(6)]


def test_data_whose_writing_is_finished_lies_nowhere(paper: Paper) -> None:
    x, y = data(), data()
    assert got(paper.launch([x], [], queue=1)) == (1, PINNED)
    paper.launch([y], [])
    paper.scheduler.flush()
    paper.device.queues[1].run(1)
    assert got(paper.launch([data()], [x])) == (1, DATA), "the host has not seen it yet"
    paper.device.queues[1].poll()
    paper.launch([data()], [], queue=1)
    assert got(paper.launch([data()], [x])) == (2, IDLE)


def test_what_comes_before_is_weighed_against_a_detour(paper: Paper) -> None:
    """One result with a hundred readers: some stay where it was written, the rest spread over the other queues."""
    root = data()
    paper.launch([root], [])
    results = [got(paper.launch([data()], [root])) for _ in range(100)]
    assert results[:9] == [(0, DATA)] * 9, "a detour costs about as much as these"
    assert results[9:11] == [(1, FAR), (2, FAR)]
    counts = Counter(index for index, _ in results)
    assert max(counts.values()) - min(counts.values()) <= 10
    assert set(counts) == {0, 1, 2}


def test_reads_come_before_writes_and_the_near_before_the_far(paper: Paper) -> None:
    old, new, out = data(), data(), data()
    for where, queue in ((old, 0), (new, 1), (out, 2)):
        paper.launch([where], [], queue=queue)
    assert got(paper.launch([out], [old, new])) == (0, DATA)
    for _ in range(20):
        paper.launch([data()], [], queue=0)
    assert got(paper.launch([data()], [old, new])) == (1, DATA), "20 tasks are in front on queue 0, none on 1"


def test_where_part_of_the_data_was_written(paper: Paper) -> None:
    buffer, start, stop = data()
    paper.launch([(buffer, 40, 44)], [], queue=2)
    assert got(paper.launch([data()], [(buffer, start, stop)])) == (2, DATA)
    assert got(paper.launch([data()], [(buffer, 0, 40)])) == (0, IDLE)


def test_what_was_uploaded_by_a_transfer_queue_goes_anywhere(paper: Paper) -> None:
    host, x = data(), data()
    assert got(paper.copy(host, x, "transfer")) == (3, IDLE)
    assert got(paper.launch([x], [x])) == (0, IDLE)
    assert got(paper.copy(x, data(), "transfer")) == (4, IDLE), "the first has a copy in it already"
    assert got(paper.copy(x, data())) == (0, DATA), "within the device, a compute queue copies"


def test_replays_spread_over_the_queues_of_their_family(paper: Paper) -> None:
    """The one with most queues to compute, here queues 1 and 2."""
    recordings = [paper.record([([data()], [])]) for _ in range(4)]
    assert [got(paper.replay(r, 1)) for r in recordings] == [(1, IDLE), (2, IDLE), (1, IDLE), (2, IDLE)]
    assert got(paper.replay(recordings[1], 1)) == (2, DATA)
    for queues in (GPU[:1], GPU[:2]):
        few = Paper(queues)
        assert got(few.replay(few.record([([data()], [])]), 1)) == (0, ONLY)


@given(pins=st.lists(st.none() | st.sampled_from([0, 1, 2, "compute"]), max_size=60))
def test_work_without_common_data_is_spread_evenly(pins: list[Any]) -> None:
    with on_paper():
        paper = Paper(GPU)
        load = Counter({0: 0, 1: 0, 2: 0})
        for pin in pins:
            index, why = got(paper.launch([data()], [data()], queue=pin))
            if isinstance(pin, int):
                assert (index, why) == (pin, PINNED)
            else:
                assert (index, why) == (min(load, key=lambda i: (load[i], i)), IDLE)
            load[index] += 1
