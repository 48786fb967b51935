"""Lines about work that takes seconds, so that it is not taken for a hang."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger("vkcompute")

_SETTING = "VKCOMPUTE_ANNOUNCE_AFTER_S"
_FIRST_S, _FACTOR, _LONGEST_S = 3.0, 2.0, 60.0
_JOIN_S = 1.0


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Logs a warning while the block runs: after 3 s, then at growing intervals, with the seconds so far.

    Args:
        what: the work, as "compiling the kernel scale".

    Raises:
        ValueError: VKCOMPUTE_ANNOUNCE_AFTER_S, which sets the 3 s, is not a number of seconds.
    """
    done = threading.Event()
    thread = threading.Thread(target=_announce, args=(what, done, _first_s()), daemon=True)
    try:
        thread.start()  # inside, since Ctrl-C in it would leave the thread announcing for ever
        yield
    finally:
        done.set()
        if thread.is_alive():
            thread.join(_JOIN_S)  # a handler of log records may block


def _first_s() -> float:
    """Returns the seconds before the first line."""
    text = os.environ.get(_SETTING, "")
    if not text:
        return _FIRST_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        raise ValueError(f"{_SETTING} is a number of seconds above 0; got {text!r}; unset it for {_FIRST_S:g} s")
    return seconds


def _announce(what: str, done: threading.Event, interval_s: float) -> None:
    start = time.monotonic()
    while not done.wait(interval_s):
        elapsed_s = time.monotonic() - start
        logger.warning("%s has taken %.0f s so far; the result is kept for later runs", what, elapsed_s)
        interval_s = min(_FACTOR * interval_s, _LONGEST_S)
