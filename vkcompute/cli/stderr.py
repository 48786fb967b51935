"""What a command says on stderr, a line each: log records, warnings, and why it ends early with which exit status."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from vkcompute.cli.interruption import Stopped
from vkcompute.errors import (
    CompileError,
    DeviceLost,
    OutOfDeviceMemory,
    ValidationError,
    VkComputeError,
    VulkanError,
)

FAULT, BAD_INPUT, BY_SIGNAL = 1, 2, 128
_SIGPIPE = 13


class UsageError(Exception):
    """A command line that cannot be understood."""


# What a caller brings about: wrong input, or a machine that lacks what is asked for.
_BAD_INPUT = (UsageError, VkComputeError, OSError, ValueError, TypeError, MemoryError, ImportError)


def one_line(text: str) -> str:
    """`text` without line breaks, and with what is not printable (a file's name may hold anything) escaped."""
    lines = text.strip().splitlines()
    joined = re.sub(r"\s+", " ", " ".join(lines)) if len(lines) > 1 else text.strip()
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in joined)


def report(error: BaseException, *, verbose: bool = False) -> int:
    """Tells the user what went wrong; gives the exit status."""
    if verbose and not isinstance(error, (BrokenPipeError, UsageError)):
        import traceback

        say("".join(traceback.format_exception(error)).rstrip())
    status, message = _describe(_interruption(error))
    if message:
        say(f"vkcompute: {message}")
    for stream in (sys.stdout, sys.stderr):
        _settle(stream)
    return status


def say(text: str) -> None:
    """Writes a line to stderr, if there is one that can be written to."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(text, file=sys.stderr, flush=True)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(f"vkcompute: {record.levelname.lower()}: {one_line(record.getMessage())}")


@contextlib.contextmanager
def records(*, verbose: bool = False, quiet: bool = False) -> Iterator[None]:
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


def flush() -> None:
    """Writes what is buffered for stdout, while an error can still be told."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _interruption(error: BaseException) -> BaseException:
    """The interruption that `error` came of while the work was given up, if there was one; else `error` itself."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, (KeyboardInterrupt, Stopped)):
        seen = seen.__context__
    return seen or error


def _describe(error: BaseException) -> tuple[int, str]:
    if isinstance(error, KeyboardInterrupt):
        return BY_SIGNAL + signal.SIGINT, "interrupted"
    if isinstance(error, Stopped):
        return BY_SIGNAL + error.number, str(error)
    if isinstance(error, BrokenPipeError):  # whoever read our output has seen enough
        return BY_SIGNAL + _SIGPIPE, ""
    if isinstance(error, CompileError):  # shows file, line and source text of every error, on lines of their own
        return BAD_INPUT, f"error: {error}"
    drivers = isinstance(error, (VulkanError, ValidationError, DeviceLost)) and not isinstance(error, OutOfDeviceMemory)
    if isinstance(error, _BAD_INPUT):
        return FAULT if drivers else BAD_INPUT, f"error: {one_line(_text(error))}"
    what = one_line(f"{type(error).__name__}: {error}")
    return FAULT, f"error: internal error, {what}; run with --verbose for the traceback"


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{os.fspath(error.filename)}: {error.strerror}" if error.filename else error.strerror
    return str(error) or ("out of memory" if isinstance(error, MemoryError) else type(error).__name__)


def _settle(stream: Any) -> None:
    """Flushes a stream; what cannot be written is dropped, or Python would complain of it at exit."""
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
