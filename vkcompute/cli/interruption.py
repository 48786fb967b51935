"""Progress of long work, and its end by Ctrl-C or another signal: as an exception, so that unfinished files go.

An exception out of nowhere can come at a bad moment: between a driver's object being made and being noted down, or in
a C function that swallows it. So work that reports its progress is left to finish its current step first.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

_USUAL, _WIDEST = 80, 100
_ROWS = 24  # any number: tqdm draws nothing where it asks a terminal that has no size

Update = Callable[[int, int], None]


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


@contextlib.contextmanager
def bar(what: str, *, unit: str, quiet: bool = False) -> Iterator[Update]:
    """Gives a function to be called with (done, total) after each step of the work; Ctrl-C ends the work in it.

    It draws a bar on stderr, if that is a terminal, tqdm is there, and `quiet` is not asked for.
    """
    with between_steps() as check, _drawn(what, unit, quiet) as draw:

        def update(done: int, total: int) -> None:
            check()
            if draw is not None:
                draw(done, total)

        yield update


@contextlib.contextmanager
def _drawn(what: str, unit: str, quiet: bool) -> Iterator[Update | None]:
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield None
        return
    shape = {"ncols": _columns(), "nrows": _ROWS}
    with tqdm(desc=what, unit=unit, unit_scale=True, leave=False, file=sys.stderr, **shape) as drawn:

        def draw(done: int, total: int) -> None:
            drawn.total = total
            drawn.update(done - drawn.n)

        yield draw


def _columns() -> int:
    """The width of the terminal behind stderr, within reason; some terminals do not tell theirs."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        columns = 0
    return min(columns or _USUAL, _WIDEST)
