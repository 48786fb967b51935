"""Where log records and warnings go while a command runs: to stderr, one line each."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any

from vkcompute.cli.failure import one_line, say


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(f"vkcompute: {record.levelname.lower()}: {one_line(record.getMessage())}")


@contextlib.contextmanager
def on_stderr(*, verbose: bool = False, quiet: bool = False) -> Iterator[None]:
    """Within, warnings are shown; with `verbose` all that is logged too, with `quiet` only errors."""
    logger, handler = logging.getLogger("vkcompute"), _Handler()
    before = logger.level
    logger.setLevel(logging.DEBUG if verbose else logging.ERROR if quiet else logging.WARNING)
    logger.addHandler(handler)

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if not quiet:
            say(f"vkcompute: warning: {one_line(str(message))}")

    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
