"""An idle queue gets its first launch at once, and a long series of launches takes few submits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from happens_before import Recorded, Submit
from paper_device import Paper, PaperBuffer, on_paper

pytestmark = pytest.mark.pure


@pytest.fixture
def paper() -> Iterator[Paper]:
    with on_paper():
        yield Paper([(0, "compute")], submits_early=True)


def launched(paper: Paper, n: int, *, device_keeps_up: bool) -> list[int]:
    """Launches work, and returns how many launches each submit has."""
    x, queue, done = PaperBuffer(), paper.device.queues[0], len(paper.device.history)
    for _ in range(n):
        paper.launch([(x, 0, 4)], [(x, 0, 4)])
        if device_keeps_up:
            queue.run(queue.last_value)
    sizes, size = [], 0
    for event in paper.device.history[done:]:
        size += isinstance(event, Recorded)
        if isinstance(event, Submit):
            sizes.append(size)
            size = 0
    return sizes


def test_a_device_that_keeps_up_gets_batches_of_twice_the_length(paper: Paper) -> None:
    sizes = launched(paper, 400, device_keeps_up=True)
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 64, 64, 64, 64]


def test_a_busy_device_gets_full_batches(paper: Paper) -> None:
    assert launched(paper, 200, device_keeps_up=False) == [1, 64, 64, 64]


def test_the_first_launch_after_a_wait_begins_at_once(paper: Paper) -> None:
    launched(paper, 40, device_keeps_up=False)
    assert paper.scheduler.queues[0].n_batched == 39
    paper.scheduler.wait()
    assert launched(paper, 1, device_keeps_up=False) == [1]
    paper.scheduler.finish()
    assert launched(paper, 1, device_keeps_up=False) == [1], "also if nothing was left to submit"


def test_work_is_submitted_once_a_queue_has_become_idle(paper: Paper) -> None:
    assert launched(paper, 3, device_keeps_up=False) == [1]
    queue = paper.device.queues[0]
    queue.run(queue.last_value)
    assert launched(paper, 1, device_keeps_up=False) == []
    assert launched(paper, 60, device_keeps_up=False) == [1], "what was left, and the new ones"


def test_without_it_batches_are_full() -> None:
    with on_paper():
        paper = Paper([(0, "compute")])
        assert launched(paper, 200, device_keeps_up=True) == [64, 64, 64]
