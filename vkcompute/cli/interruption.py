"""Signals (Ctrl-C and others) as exceptions, so that partial files are deleted, and progress bars.

An asynchronous exception may be raised between creating a driver object and recording it, or be swallowed by a C
function. Signals are therefore deferred to the end of a step if the work reports its progress.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

_DEFAULT_COLUMNS, _MAX_COLUMNS = 80, 100
_ROWS = 24  # any number: tqdm queries the terminal if none is given, and draws nothing if it has no size

Update = Callable[[int, int], None]


class Stopped(BaseException):
    """A signal other than SIGINT asked the process to end."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"stopped by {signal.Signals(number).name}")


class _Signals:
    """The signal handler. While `deferring`, the first signal is kept in `waiting` until `check`."""

    deferring = False
    waiting: int | None = None

    def receive(self, number: int, _frame: Any = None) -> None:
        if self.deferring and self.waiting is None:
            self.waiting = number
        else:  # the second one raises at once
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
def signals_as_exceptions() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP raise `Stopped`, and SIGINT KeyboardInterrupt, inside the block; main thread only."""
    names = ("SIGINT", "SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    # Ignored signals (nohup) and handlers of others are left alone.
    handlers = {number: signal.getsignal(number) for number in numbers}
    handlers = {number: by for number, by in handlers.items() if by in (signal.SIG_DFL, signal.default_int_handler)}
    for number in handlers:
        signal.signal(number, _signals.receive)
    try:
        yield
    finally:
        for number, by in handlers.items():
            signal.signal(number, by)


@contextlib.contextmanager
def deferred_signals() -> Iterator[Callable[[], None]]:
    """Defers the first signal inside the block: it raises in the next call of the yielded function, or at the end."""
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
def progress_bar(title: str, *, unit: str, quiet: bool = False) -> Iterator[Update]:
    """Yields a function to call with (done, total) after each step of the work. Deferred signals raise in it.

    Draws a bar on stderr if that is a terminal, tqdm is installed, and `quiet` is False.
    """
    with deferred_signals() as check, _drawn(title, unit, quiet) as draw:

        def update(done: int, total: int) -> None:
            check()
            if draw is not None:
                draw(done, total)

        yield update


@contextlib.contextmanager
def _drawn(title: str, unit: str, quiet: bool) -> Iterator[Update | None]:
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield None
        return
    size = {"ncols": _columns(), "nrows": _ROWS}
    with tqdm(desc=title, unit=unit, unit_scale=True, leave=False, file=sys.stderr, **size) as drawn:

        def draw(done: int, total: int) -> None:
            drawn.total = total
            drawn.update(done - drawn.n)

        yield draw


def _columns() -> int:
    """The width of stderr's terminal, limited; some terminals report 0."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        columns = 0
    return min(columns or _DEFAULT_COLUMNS, _MAX_COLUMNS)
