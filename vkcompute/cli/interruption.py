"""Ctrl-C, and the signals that ask a process to end, as exceptions: so that unfinished files go.

An exception out of nowhere can come at a bad moment: between a driver's object being made and being noted down, or in
a C function that swallows it. So work that reports its progress is left to finish its current step first.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


class Stopped(BaseException):
    """A signal other than that of Ctrl-C asked the process to end."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"stopped by {signal.Signals(number).name}")


class _Signals:
    """Which signal has come and waits for the end of a step, and whether it has to wait at all."""

    deferring = False
    waiting: int | None = None

    def receive(self, number: int, _frame: Any = None) -> None:
        if self.deferring and self.waiting is None:
            self.waiting = number
        else:  # a second one does not wait
            self.waiting = None
            _raise(number)

    def check(self) -> None:
        number, self.waiting = self.waiting, None
        if number is not None:
            _raise(number)


_signals = _Signals()


def _raise(number: int) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Stopped(number)


@contextlib.contextmanager
def by_exception() -> Iterator[None]:
    """Within, SIGTERM and SIGHUP raise `Stopped`, and SIGINT raises KeyboardInterrupt; for the main thread."""
    names = ("SIGINT", "SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    # What is ignored, as under nohup, or has a handler of somebody else's, stays so.
    found = {number: signal.getsignal(number) for number in numbers}
    found = {number: by for number, by in found.items() if by in (signal.SIG_DFL, signal.default_int_handler)}
    for number in found:
        signal.signal(number, _signals.receive)
    try:
        yield
    finally:
        for number, by in found.items():
            signal.signal(number, by)


@contextlib.contextmanager
def between_steps() -> Iterator[Callable[[], None]]:
    """Within, the first signal raises in the next call of the function that is given, at the latest at the end."""
    _signals.deferring = True
    try:
        yield _signals.check
    except BaseException:
        _signals.waiting = None
        raise
    finally:
        _signals.deferring = False
    _signals.check()
