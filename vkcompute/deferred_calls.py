"""Deferred calls of the user's code: what a kernel prints, warnings, logging.

Such code may take any lock, such as that of a stream, while another thread that holds it waits for a lock of the
library. So it runs when this thread holds none.

Any thread makes the calls of all, so that what a kernel prints does not wait for the thread that launched it. But an
error, as of a warning that is turned into one, belongs to the thread whose work it was, and is raised there.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from types import SimpleNamespace
from typing import Any

from vkcompute import locks

waiting: deque[tuple[int, Callable[[], Any] | Exception]] = deque()
"""The thread whose work it is, and a call, or the error of one that another thread made; in their order.

`if waiting: run()` costs a launch little.
"""
_current = threading.local()


@contextmanager
def on_behalf_of(thread: int) -> Iterator[None]:
    """Makes the calls that this thread defers those of another one."""
    before = getattr(_current, "thread", None)
    _current.thread = thread
    try:
        yield
    finally:
        _current.thread = before


def call(function: Callable[[], Any]) -> None:
    """Calls a function now, or once this thread holds no lock of the library; its result is dropped."""
    waiting.append((getattr(_current, "thread", None) or get_ident(), function))
    run()


def run() -> None:
    """Makes the calls, in their order; does nothing while this thread holds a lock of the library.

    A call that raises is not repeated, and leaves those behind it for the next `run`. The error of another thread's
    call waits for the next `run` of that thread; if that has ended, the interpreter prints it.
    """
    if not waiting or locks.are_held():
        return
    errors: list[tuple[int, Exception]] = []  # of other threads
    try:
        while waiting:
            try:
                thread, made = waiting.popleft()
            except IndexError:  # another thread has taken it
                return
            _make(made, thread, errors)
    finally:
        waiting.extend(errors)


def _make(made: Callable[[], Any] | Exception, thread: int, errors: list[tuple[int, Exception]]) -> None:
    """Makes a call or raises its error; adds it to the errors if it is another thread's, which still runs."""
    try:
        if isinstance(made, Exception):
            raise made
        made()
    except Exception as error:
        if thread == get_ident():
            raise
        if any(each.ident == thread for each in threading.enumerate()):
            errors.append((thread, error))
        else:
            told: Any = SimpleNamespace(
                exc_type=type(error), exc_value=error, exc_traceback=error.__traceback__, err_msg=None, object=made
            )
            sys.unraisablehook(told)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=waiting.clear)  # the parent makes them
