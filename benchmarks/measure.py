"""Timing of contenders in turns, with checked results; the results are medians and quartiles.

A contender runs once before it is timed, and its result is compared with numpy's before and after. Samples of all
contenders are interleaved (A B C A B C …), so that a slowdown of the machine affects all. A sample is the mean of
`loops` consecutive runs.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

HostArray = npt.NDArray[Any]
Clock = Callable[[], float]
_TURN_S = 0.02  # duration of a sample of short programs, to make the clock's overhead negligible
_PAUSE_S = 0.015  # before a turn: threads of some peers spin for 10 ms after their work


class Unavailable(Exception):
    """A contender cannot run; the message is the reason, for the table."""


class WrongResult(Exception):
    """A contender's result differs from numpy's; its time does not count."""


class Program(Protocol):
    """Repeatable work."""

    def enqueue(self) -> None:
        """Starts the work."""

    def wait(self) -> None:
        """Waits for all work that was started."""

    def result(self) -> HostArray:
        """Returns the result of the last run."""


class Contender(ABC):
    """A row of a table.

    Attributes:
        name: the row's label.
        loops: runs per sample; None derives it from the first runs.
        about: the peer's description of its device, if that is uncertain.
        extra: other results than times, by name.
    """

    def __init__(self, name: str, loops: int | None = None) -> None:
        self.name, self.loops = name, loops
        self.about = ""
        self.extra: dict[str, float] = {}

    @abstractmethod
    def prepare(self) -> None:
        """Creates the program and runs it once.

        Raises:
            Unavailable: the contender cannot run.
        """

    def renew(self, loops: int) -> None:  # noqa: B027  # optional
        """Creates the program again before a turn of `loops` runs, if each turn needs a new one."""

    @abstractmethod
    def sample(self, loops: int) -> float:
        """Seconds for `loops` runs."""

    @abstractmethod
    def check(self) -> None:
        """Raises WrongResult if the last result differs from numpy's."""

    def close(self) -> None:  # noqa: B027  # optional
        """Releases the program."""


class Local(Contender):
    """A program in this process.

    Args:
        make: creates the program.
        expected: computes numpy's result.
        tolerance: relative; 0 means equality.
        burst: None times each run with its wait; a number times so many starts without their wait.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Program],
        expected: Callable[[], HostArray],
        *,
        tolerance: float = 0.0,
        burst: int | None = None,
        loops: int | None = None,
        clock: Clock = perf_counter,
    ) -> None:
        super().__init__(name, loops)
        self._make, self._expected, self._tolerance = make, expected, tolerance
        self._burst, self._clock = burst, clock
        self._program: Program | None = None

    def prepare(self) -> None:
        self._program = self._make()
        self.sample(1)

    def sample(self, loops: int) -> float:
        return timed(self._opened(), loops, self._burst, self._clock)

    def check(self) -> None:
        compare(self._opened().result(), self._expected(), self._tolerance)

    def close(self) -> None:
        self._program = None

    def _opened(self) -> Program:
        if self._program is None:
            raise Unavailable("the contender has not been prepared")
        return self._program


def timed(program: Program, loops: int, burst: int | None = None, clock: Clock = perf_counter) -> float:
    """Seconds for `loops` runs with their waits. With `burst`: for the starts only, with an untimed wait per burst."""
    seconds = 0.0
    for first in range(0, loops, burst or loops):
        n = min(burst or loops, loops - first)
        start = clock()
        for _ in range(n):
            program.enqueue()
            if burst is None:
                program.wait()
        seconds += clock() - start
        if burst is not None:
            program.wait()
    return seconds


def compare(computed: HostArray, expected: HostArray, tolerance: float = 0.0) -> None:
    """Raises WrongResult with the first element that differs by more than `tolerance`, relative to the largest.

    NaN differs from everything.
    """
    if computed.shape != expected.shape or computed.dtype != expected.dtype:
        raise WrongResult(f"a result {computed.shape} of {computed.dtype}, not {expected.shape} of {expected.dtype}")
    if tolerance:
        wrong = ~(np.abs(computed - expected) <= tolerance * np.abs(expected).max(initial=0))
    else:
        wrong = computed != expected
    if wrong.any():
        index = int(np.argmax(wrong))
        raise WrongResult(f"element {index} is {computed.flat[index]!r}, numpy has {expected.flat[index]!r}")


@dataclass
class Case:
    """Contenders with the same work.

    Attributes:
        key: the case's name in JSON and in `goals`.
        title: the table's headline.
        baseline: the contender that others are compared with.
    """

    key: str
    title: str
    baseline: str
    contenders: Sequence[Contender]


@dataclass
class Row:
    """A contender's result: samples in seconds, or a note with the reason why there are none."""

    case: str
    program: str
    loops: int = 1
    samples: list[float] = field(default_factory=list)
    verified: bool = False
    note: str = ""
    about: str = ""
    extra: dict[str, float] = field(default_factory=dict)

    def spread(self) -> dict[str, float]:
        """Median, minimum and quartiles, in seconds; empty without samples."""
        if not self.samples:
            return {}
        low, middle, high = np.quantile(self.samples, (0.25, 0.5, 0.75)).tolist()
        return {"median_s": middle, "min_s": min(self.samples), "q1_s": low, "q3_s": high}


def race(case: Case, repeat: int, max_loops: int) -> list[Row]:
    """Measures a case, with `repeat` interleaved samples per contender, of at most `max_loops` runs."""
    entries = [(contender, Row(case.key, contender.name)) for contender in case.contenders]
    with ExitStack() as owned:
        for contender, _ in entries:
            owned.callback(contender.close)
        for step in (partial(_prepare, max_loops), *[_take_turn] * repeat, _finish):
            for contender, row in entries:
                if not row.note:
                    _attempt(step, contender, row)
    return [row for _, row in entries]


def _attempt(step: Callable[[Contender, Row], None], contender: Contender, row: Row) -> None:
    """Runs a step. After a failure the contender has a note instead of samples, and takes no further steps."""
    try:
        step(contender, row)
    except Exception as error:
        row.note, row.samples, row.verified = as_note(error), [], False


def _prepare(max_loops: int, contender: Contender, row: Row) -> None:
    contender.prepare()
    contender.check()
    row.about = contender.about
    if contender.loops is not None:
        row.loops = contender.loops
    else:
        once = min(contender.sample(1), contender.sample(1))
        row.loops = max(1, min(max_loops, int(_TURN_S / max(once, 1e-9))))


def _take_turn(contender: Contender, row: Row) -> None:
    contender.renew(row.loops)
    time.sleep(_PAUSE_S)
    row.samples.append(contender.sample(row.loops) / row.loops)


def _finish(contender: Contender, row: Row) -> None:
    contender.check()
    row.extra = dict(contender.extra)
    row.verified = True


def as_note(error: Exception) -> str:
    """An error as a line of the table."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, (Unavailable, WrongResult)) and text else f"{type(error).__name__}: {text}"
