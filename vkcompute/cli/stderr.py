"""Output to stderr, one line each: log records, warnings, and errors with their exit status."""

from __future__ import annotations

import contextlib
import logging
import os
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
    """Invalid command-line arguments."""


# Errors of the caller: invalid input, or an unsuitable machine.
_BAD_INPUT = (UsageError, VkComputeError, OSError, ValueError, TypeError, MemoryError, ImportError)
_DRIVER_ERRORS = (VulkanError, ValidationError, DeviceLost)


def one_line(text: str) -> str:
    """The text on one line, with unprintable characters (as in file names) escaped."""
    lines = text.strip().splitlines()
    joined = " ".join(" ".join(lines).split()) if len(lines) > 1 else text.strip()
    return joined if joined.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in joined)


def printable(text: str) -> str:
    """The text with unprintable characters escaped, but for line ends and tabs. All output of commands passes through.

    Names of files and devices, and texts of files, compilers and drivers may have control sequences of terminals.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() or c in "\n\t" else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def report(error: BaseException, *, verbose: bool = False) -> int:
    """Reports an error to the user. Returns the exit status."""
    if verbose and not isinstance(error, (BrokenPipeError, UsageError)):
        import traceback

        write_line("".join(traceback.format_exception(error)).rstrip())
    status, message = _describe(_interruption(error))
    if message:
        write_line(f"vkcompute: {message}")
    for stream in (sys.stdout, sys.stderr):
        _flush_or_discard(stream)
    return status


def write_line(text: str) -> None:
    """Writes a line to stderr, if that is open."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(printable(text), file=sys.stderr, flush=True)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        write_line(f"vkcompute: {record.levelname.lower()}: {one_line(record.getMessage())}")


@contextlib.contextmanager
def log_records(*, verbose: bool = False, quiet: bool = False) -> Iterator[None]:
    """Shows log records and warnings inside the block: all with `verbose`, only errors with `quiet`."""
    logger, handler = logging.getLogger("vkcompute"), _Handler()
    before = logger.level
    logger.setLevel(logging.DEBUG if verbose else logging.ERROR if quiet else logging.WARNING)
    logger.addHandler(handler)

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if not quiet:
            write_line(f"vkcompute: warning: {one_line(str(message))}")

    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def flush() -> None:
    """Flushes stdout, while an error can still be reported."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _interruption(error: BaseException) -> BaseException:
    """The interruption that led to `error`, if any; else `error` itself."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, (KeyboardInterrupt, Stopped)):
        cause = cause.__context__
    return cause or error


def _describe(error: BaseException) -> tuple[int, str]:
    if isinstance(error, KeyboardInterrupt):
        return BY_SIGNAL + signal.SIGINT, "interrupted"
    if isinstance(error, Stopped):
        return BY_SIGNAL + error.number, str(error)
    if isinstance(error, BrokenPipeError):  # the reader of our output closed the pipe
        return BY_SIGNAL + _SIGPIPE, ""
    if isinstance(error, CompileError):  # has a line per error, with file, line and source
        return BAD_INPUT, f"error: {error}"
    if isinstance(error, _BAD_INPUT):
        is_driver_error = isinstance(error, _DRIVER_ERRORS) and not isinstance(error, OutOfDeviceMemory)
        return FAULT if is_driver_error else BAD_INPUT, f"error: {one_line(_text(error))}"
    message = one_line(f"{type(error).__name__}: {error}")
    return FAULT, f"error: internal error, {message}; run with --verbose for the traceback"


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{os.fspath(error.filename)}: {error.strerror}" if error.filename else error.strerror
    return str(error) or ("out of memory" if isinstance(error, MemoryError) else type(error).__name__)


def _flush_or_discard(stream: Any) -> None:
    """Flushes a stream. Discards data that cannot be written, or Python would report it at exit."""
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
