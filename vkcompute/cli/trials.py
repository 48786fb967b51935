"""Trials as the checks of `vkcompute doctor` ask for them: in a process of their own, with limits, or in this one."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from vkcompute.child_process import Finished, Limits, run_python
from vkcompute.cli import trial
from vkcompute.cli.trial import END, Record

logger = logging.getLogger("vkcompute")

_TIMES_S = {"devices": 30.0, "page": 60.0, "compiler": 30.0, "computations": 120.0}
_SILENT_S = {"page": 10.0}  # a command's output says the same as soon as it can
_TIME_S = 20.0
_OUTPUT_NBYTES = 4 << 20
_MEMORY_NBYTES = 2 << 30


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a trial.

    Attributes:
        records: its records, without the last one.
        problem: the reason why it has not ended by itself, in one line; empty if it has.
        said: what it wrote to standard error.
    """

    records: list[Record]
    problem: str = ""
    said: str = ""


class Ask(Protocol):
    """A function that makes a trial: `what` is waited for, `name` is the trial's."""

    def __call__(self, what: str, name: str, *arguments: str) -> Answer: ...


def _limit_s(name: str) -> float:
    """Returns a trial's limit under the present load: that of an idle machine, times the processes per core."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return round(_TIMES_S.get(name, _TIME_S) * max(1.0, load / (os.cpu_count() or 1)), 1)


def in_a_process(
    what: str,
    name: str,
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    main: Callable[..., None] = trial.main,
) -> Answer:
    """Makes a trial in a process of its own, which runs `main`, with the loader's errors in `said`."""
    given = dict(os.environ if environ is None else environ)
    limits = Limits(_limit_s(name), _OUTPUT_NBYTES, _MEMORY_NBYTES, _SILENT_S.get(name))
    waiting = partial(logger.warning, "waiting for %s, for at most %g s", what, limits.timeout_s)
    try:
        if any("\0" in argument for argument in arguments):
            return Answer([], "its name has a NUL character")
        given["VK_LOADER_DEBUG"] = given.get("VK_LOADER_DEBUG", "error")
        done = run_python(main, name, *arguments, limits=limits, environ=given, waiting=waiting)
    except (OSError, ValueError) as error:
        return Answer([], f"no process can be started for it: {error}")
    said = done.errors.decode(errors="replace")
    records = [json.loads(line) for line in done.output.splitlines(keepends=True) if line.endswith(b"\n")]
    if END in records:
        return Answer(records[:-1], said=said)
    return Answer(records, _problem(done, said), said)


def in_this_process(what: str, name: str, *arguments: str) -> Answer:
    """Makes a trial in this process, which is faster."""
    try:
        return Answer(list(trial.TRIALS[name](*arguments)))
    except Exception as error:
        return Answer([], f"{type(error).__name__}: {error}")


def _problem(done: Finished, said: str) -> str:
    if done.problem:
        return done.problem
    if done.status < 0:
        return f"the process {done.ending}"
    if done.status == 0:
        return "the process ended before it had answered, with status 0"
    return _error_line(said) or f"the process {done.ending}"


def _error_line(text: str) -> str:
    """Returns the error of a traceback, without its notes; the last line of another text."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    at = max((number + 1 for number, line in enumerate(lines) if line.startswith(" ")), default=len(lines))
    return next(iter(lines[at:] or lines[-1:]), "").strip().removeprefix("vkcompute.errors.")
