"""Deferred calls of the user's code: what a kernel prints, warnings, logging.

Such code may take any lock, such as that of a stream, while another thread that holds it waits for a lock of the
library. So it runs when this thread holds none.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Any

from vkcompute import locks

waiting: deque[Callable[[], Any]] = deque()
"""The calls, in their order. `if waiting: run()` costs a launch little."""


def call(function: Callable[[], Any]) -> None:
    """Calls a function now, or once this thread holds no lock of the library; its result is dropped."""
    waiting.append(function)
    run()


def run() -> None:
    """Makes the calls, in their order; does nothing while this thread holds a lock of the library.

    A call that raises is not repeated, and leaves those behind it for the next `run`.
    """
    if not waiting or locks.are_held():
        return
    while waiting:
        try:
            function = waiting.popleft()
        except IndexError:  # another thread has taken it
            return
        function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=waiting.clear)  # the parent makes them
