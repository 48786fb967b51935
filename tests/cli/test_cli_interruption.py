"""Signals raise at once, but for work in steps: between two of them."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from vkcompute.cli import interruption, stderr
from vkcompute.cli.interruption import Stopped

pytestmark = [pytest.mark.pure, pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")]


@pytest.fixture(autouse=True)
def _handlers_are_put_back() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before


def _send(number: int) -> None:
    signal.raise_signal(number)


@pytest.mark.parametrize(
    ("number", "error"), [("SIGINT", KeyboardInterrupt), ("SIGTERM", Stopped), ("SIGHUP", Stopped)]
)
def test_a_signal_raises_at_once(number: str, error: type[BaseException]) -> None:
    with interruption.signals_as_exceptions(), pytest.raises(error):
        _send(signal.Signals[number])


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_work_in_steps_finishes_its_step(number: str) -> None:
    steps = []

    def work() -> None:
        with interruption.deferred_signals() as check:
            for step in range(5):
                if step == 2:
                    _send(signal.Signals[number])
                steps.append(step)
                check()

    with interruption.signals_as_exceptions(), pytest.raises((KeyboardInterrupt, Stopped)):
        work()
    assert steps == [0, 1, 2]


def test_a_second_signal_does_not_wait() -> None:
    def work() -> None:
        with interruption.deferred_signals():
            _send(signal.SIGTERM)
            _send(signal.SIGINT)
            pytest.fail("the second one waited")

    with interruption.signals_as_exceptions():
        with pytest.raises(KeyboardInterrupt):
            work()
        with interruption.deferred_signals() as check:
            check()  # the first one is not left over


def test_a_signal_after_the_last_step_is_not_lost() -> None:
    def work() -> None:
        with interruption.deferred_signals():
            _send(signal.SIGTERM)

    with interruption.signals_as_exceptions(), pytest.raises(Stopped, match="SIGTERM"):
        work()


def test_an_error_in_the_work_comes_before_a_signal_that_waits() -> None:
    def work() -> None:
        with interruption.deferred_signals():
            _send(signal.SIGINT)
            raise KeyError

    with interruption.signals_as_exceptions():
        with pytest.raises(KeyError):
            work()
        with interruption.deferred_signals() as check:
            check()


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        with interruption.signals_as_exceptions():
            _send(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_leave_signals_alone() -> None:
    def run() -> None:
        with interruption.signals_as_exceptions(), interruption.deferred_signals() as check:
            check()
            done.append(True)

    done: list[bool] = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done == [True]


def test_the_progress_of_quiet_work_is_where_it_stops() -> None:
    def work() -> None:
        with interruption.progress_bar("work", unit="", quiet=True) as update:
            update(1, 3)
            _send(signal.SIGINT)
            update(2, 3)
            pytest.fail("it went on")

    with interruption.signals_as_exceptions(), pytest.raises(KeyboardInterrupt):
        work()


@pytest.mark.parametrize(
    ("first", "status"), [(KeyboardInterrupt(), 130), (Stopped(signal.SIGTERM), 128 + signal.SIGTERM)]
)
def test_an_error_while_giving_up_does_not_hide_the_interruption(
    first: BaseException, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stderr.report(_error_after(first)) == status
    assert "error" not in capsys.readouterr().err


def test_an_error_on_its_own_is_no_interruption(capsys: pytest.CaptureFixture[str]) -> None:
    assert stderr.report(_error_after(KeyError("spam"))) == 2
    assert capsys.readouterr().err == "vkcompute: error: cleaning up failed\n"


def _error_after(first: BaseException) -> BaseException:
    """An error that came up while `first` was on its way."""

    def fail() -> None:
        try:
            raise first
        finally:
            raise ValueError("cleaning up failed")

    return _caught(fail)


def _caught(call: Callable[[], None]) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")
