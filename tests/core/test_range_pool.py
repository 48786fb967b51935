"""The pool of ranges that closed buffers leave: which one is taken, and that none is lost."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
from faults import interrupted

from vkcompute.core.range_pool import MemoryRange, RangePool

pytestmark = pytest.mark.pure


class Heap:
    """Counts the ranges that are not free."""

    def __init__(self) -> None:
        self.deferred: list[Any] = []
        self.pool = RangePool(self.deferred.append, list.clear)
        self.made = 0

    def range(self, nbytes: int = 64, history: Any = None) -> MemoryRange:
        self.made += 1
        memory = MemoryRange(nbytes)
        memory.location = self.made
        memory.allocations.append((None, self.made))
        memory.history = history
        return memory

    def free(self) -> list[int]:
        """Runs the deletions, and returns the offsets that they free."""
        offsets = []
        for free, allocations in self.deferred:
            offsets += [offset for _, offset in allocations]
            free(allocations)
        self.deferred.clear()
        return sorted(offsets)


@pytest.fixture
def heap() -> Heap:
    return Heap()


def take(pool: RangePool, nbytes: int = 64) -> int | None:
    """Takes a range, and returns its offset."""
    taken: list[MemoryRange] = []
    pool.take(nbytes, taken)
    return taken[0].allocations[0][1] if taken else None


def test_the_range_of_a_size_with_the_lowest_location_is_taken(heap: Heap) -> None:
    ranges = [heap.range(nbytes) for nbytes in (64, 128, 64, 64)]
    for at in (2, 0, 1, 3):
        heap.pool.leave(ranges[at])
    assert heap.pool.nbytes == 320
    assert [take(heap.pool) for _ in range(4)] == [1, 3, 4, None]
    assert take(heap.pool, 256) is None
    heap.pool.clear()
    assert (heap.pool.nbytes, heap.free()) == (0, [2])


def test_equal_steps_have_equal_locations_whatever_the_order_of_frees(heap: Heap) -> None:
    held, steps = [heap.range() for _ in range(6)], []
    for order in itertools.islice(itertools.permutations(range(6)), 0, None, 97):
        for at in order:
            heap.pool.leave(held[at])
        held = []
        for _ in range(6):
            heap.pool.take(64, held_now := [])
            held += held_now
        steps.append([memory.location for memory in held])
    assert steps == [steps[0]] * len(steps)


def test_ranges_that_do_not_suit_stay(heap: Heap) -> None:
    asked: list[str] = []
    heap.pool.suits = lambda history: asked.append(history) or history == "done"  # type: ignore[func-returns-value]
    for history in ("late", "busy", "done"):
        heap.pool.leave(heap.range(history=history))
    assert (take(heap.pool), asked) == (3, ["late", "busy", "done"])
    assert take(heap.pool) is None
    assert heap.pool.nbytes == 128


def test_ranges_that_did_not_suit_are_tried_after_the_others(heap: Heap) -> None:
    heap.pool.suits = lambda history: history == "mine"
    for at in range(8):
        heap.pool.leave(heap.range(history="mine" if at == 7 else "other"))
    assert (take(heap.pool), take(heap.pool)) == (None, 8)
    heap.pool.suits = None
    assert [take(heap.pool) for _ in range(8)] == [*range(1, 8), None]


def test_few_are_tried_that_do_not_suit(heap: Heap) -> None:
    asked: list[object] = []
    heap.pool.suits = lambda history: bool(asked.append(history))  # type: ignore[func-returns-value]
    for _ in range(50):
        heap.pool.leave(heap.range())
    assert take(heap.pool) is None
    assert (len(asked), heap.pool.nbytes) == (4, 50 * 64)


def test_an_interrupt_at_any_moment_loses_no_range(heap: Heap) -> None:
    heap.pool.suits = lambda history: history == "done"
    for after in itertools.count():
        for history in ("late", "busy", "done"):
            heap.pool.leave(heap.range(history=history))
        taken: list[MemoryRange] = []
        with interrupted(after) as come:
            heap.pool.take(64, taken)
        for memory in taken:
            heap.pool.leave(memory)
        with interrupted(after):
            heap.pool.clear()
        heap.pool.clear()
        assert len(heap.free()) == 3, after
        if not come:
            break
    assert after > 4


def test_the_pool_is_bounded(heap: Heap) -> None:
    for _ in range(3000):
        heap.pool.leave(heap.range())
    for nbytes in range(1, 500):
        heap.pool.leave(heap.range(64 * nbytes))
    n_free = len(heap.free())
    assert heap.pool.nbytes <= 64 * 64 * 500
    heap.pool.clear()
    assert n_free + len(heap.free()) == heap.made


def test_threads_take_each_range_once(heap: Heap) -> None:
    for _ in range(1000):
        heap.pool.leave(heap.range())
    taken: list[list[int]] = [[], []]

    def work(mine: list[int]) -> None:
        while (offset := take(heap.pool)) is not None:
            mine.append(offset)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken[0] + taken[1]) == list(range(1, 1001))
