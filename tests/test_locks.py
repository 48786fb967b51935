"""Locks and their order, and the calls that wait for a thread to hold none."""

from __future__ import annotations

import threading

import checked_locks
import pytest
from hang_limit import hang_limit_s

from vkcompute import deferred_calls, locks
from vkcompute.core.interrupts import Guarded
from vkcompute.errors import VkComputeError

pytestmark = pytest.mark.pure


def test_a_lower_rank_is_refused() -> None:
    device, graph = locks.make(locks.Rank.DEVICE), locks.make(locks.Rank.GRAPH)
    with graph, device, graph, device:  # those that it has, again
        assert locks.are_held()
        assert locks.are_held(locks.Rank.DEVICE)
        assert not locks.are_held(locks.Rank.SUBMIT)
    with device, pytest.raises(AssertionError, match="GRAPH is taken with DEVICE held"):
        graph.acquire()
    with device, pytest.raises(AssertionError, match="DEVICE is taken with DEVICE held"):
        locks.make(locks.Rank.DEVICE).acquire()
    assert len(checked_locks.violations) == 2
    checked_locks.violations.clear()
    assert not locks.are_held()


def test_a_handler_that_takes_a_lower_rank_gets_an_error() -> None:
    device, graph = Guarded(locks.Rank.DEVICE), Guarded(locks.Rank.GRAPH)
    with graph.lock, device.lock:
        pass
    with device.lock, pytest.raises(VkComputeError, match="finalizer"):
        _ = graph.lock
    assert not locks.are_held()


def test_calls_wait_for_the_locks_and_keep_their_order() -> None:
    done: list[int] = []
    with locks.make(locks.Rank.DEVICE):
        for number in range(3):
            deferred_calls.call(lambda number=number: done.append(number))
        deferred_calls.run()
        assert done == []
    deferred_calls.call(lambda: done.append(3))
    assert done == [0, 1, 2, 3]


def test_an_error_is_raised_by_the_thread_whose_work_it_was() -> None:
    raised: list[Exception] = []
    deferred, may_run = threading.Event(), threading.Event()

    def work() -> None:
        with locks.make(locks.Rank.DEVICE):
            deferred_calls.call(lambda: 1 / 0)
        deferred.set()
        may_run.wait(hang_limit_s(60))
        try:
            deferred_calls.run()
        except ZeroDivisionError as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    deferred.wait(hang_limit_s(60))
    done: list[int] = []
    deferred_calls.call(lambda: done.append(1))  # makes the other thread's call, and does not raise its error
    deferred_calls.run()
    may_run.set()
    thread.join()
    assert done == [1]
    assert len(raised) == 1
    assert not deferred_calls.waiting


def test_the_error_of_a_thread_that_has_ended_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[type[BaseException]] = []
    monkeypatch.setattr("sys.unraisablehook", lambda told: printed.append(told.exc_type))

    def work() -> None:
        with locks.make(locks.Rank.DEVICE):
            deferred_calls.call(lambda: 1 / 0)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    deferred_calls.run()
    assert printed == [ZeroDivisionError]
    assert not deferred_calls.waiting


def test_calls_on_behalf_of_a_thread_are_its_own() -> None:
    with deferred_calls.on_behalf_of(threading.main_thread().ident or 0), pytest.raises(ZeroDivisionError):
        deferred_calls.call(lambda: 1 / 0)


def test_a_call_that_raises_is_dropped_and_the_others_wait() -> None:
    done: list[int] = []
    with locks.make(locks.Rank.DEVICE):
        deferred_calls.call(lambda: 1 / 0)
        deferred_calls.call(lambda: done.append(1))
    with pytest.raises(ZeroDivisionError):
        deferred_calls.run()
    assert done == []
    deferred_calls.run()
    assert done == [1]
