"""Timing: contenders take turns, their results are checked, and what is left are medians with their spread.

A contender is made, run once and checked against numpy before it is timed, and checked again after. Turns go round
(A B C A B C …), so that a machine that slows down slows all of them; one sample is the mean of `loops` runs in a row.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Clock = Callable[[], float]
_TURN_S = 0.02  # short programs run in loops of about this long, so that the clock's own cost does not count
_MOST_LOOPS = 500
_PAUSE_S = 0.015  # before a turn: some peers' threads spin for 10 ms after their work, and would hold a core


class Unavailable(Exception):
    """A contender cannot take part; the message says why, for the table."""


class WrongResult(Exception):
    """A contender computes something else than numpy; its time does not count."""


class Program(Protocol):
    """Work that can be started and awaited, again and again."""

    def enqueue(self) -> None:
        """Starts the work once."""

    def wait(self) -> None:
        """Waits for all work started so far."""

    def result(self) -> Array:
        """What the last run computed."""


class Contender(ABC):
    """One row of a table.

    Attributes:
        name: the row's label.
        loops: runs per sample; None lets the first runs decide.
        about: what it runs on in its own words, where that is in doubt.
        extra: other figures of the contender than its time, by name.
    """

    def __init__(self, name: str, loops: int | None = None) -> None:
        self.name, self.loops = name, loops
        self.about = ""
        self.extra: dict[str, float] = {}

    @abstractmethod
    def prepare(self) -> None:
        """Makes the program and runs it once.

        Raises:
            Unavailable: it cannot take part.
        """

    @abstractmethod
    def sample(self, loops: int) -> float:
        """Seconds for `loops` runs."""

    @abstractmethod
    def check(self) -> None:
        """Raises WrongResult if the last run's result is not numpy's."""

    def close(self) -> None:  # noqa: B027  # most own nothing
        """Lets go of the program."""


class Local(Contender):
    """A program of this process.

    Args:
        make: makes the program.
        expected: numpy's result.
        tolerance: relative; 0 asks for equality.
        burst: None times each run with its wait; a number times the starts of so many, and not their wait.
        clock: what tells the time, in seconds.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Program],
        expected: Callable[[], Array],
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
            raise Unavailable("it has not been prepared")
        return self._program


def timed(program: Program, loops: int, burst: int | None = None, clock: Clock = perf_counter) -> float:
    """Seconds for `loops` runs, each awaited; or, with `burst`, for starting them, a wait untimed after so many."""
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


def compare(found: Array, expected: Array, tolerance: float = 0.0) -> None:
    """Raises WrongResult with the first place where the two differ by more than `tolerance`, relative to the largest.

    NaN is equal to nothing.
    """
    if found.shape != expected.shape or found.dtype != expected.dtype:
        raise WrongResult(f"a result {found.shape} of {found.dtype}, not {expected.shape} of {expected.dtype}")
    if tolerance:
        wrong = ~(np.abs(found - expected) <= tolerance * np.abs(expected).max(initial=0))
    else:
        wrong = found != expected
    if wrong.any():
        at = int(np.argmax(wrong))
        raise WrongResult(f"element {at} is {found.flat[at]!r}, numpy has {expected.flat[at]!r}")


@dataclass
class Case:
    """Contenders for one piece of work.

    Attributes:
        key: the case's name in the JSON and for `goals`.
        title: the table's headline.
        baseline: the contender that the others are set against.
    """

    key: str
    title: str
    baseline: str
    contenders: Sequence[Contender]


@dataclass
class Row:
    """What came of one contender: samples in seconds, or a note in words why there are none."""

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


def race(case: Case, repeat: int) -> list[Row]:
    """A row for each contender of the case: of `repeat` samples taken in turns, or of a note."""
    entries = [(contender, Row(case.key, contender.name)) for contender in case.contenders]
    with ExitStack() as owned:
        for contender, _ in entries:
            owned.callback(contender.close)
        for step in (_prepare, *[_take_turn] * repeat, _finish):
            for contender, row in entries:
                if not row.note:
                    _attempt(step, contender, row)
    return [row for _, row in entries]


def _attempt(step: Callable[[Contender, Row], None], contender: Contender, row: Row) -> None:
    """Takes a step; a failure puts the contender out of the race, with a note instead of samples."""
    try:
        step(contender, row)
    except Exception as error:
        row.note, row.samples, row.verified = in_words(error), [], False


def _prepare(contender: Contender, row: Row) -> None:
    contender.prepare()
    contender.check()
    row.about = contender.about
    if contender.loops is not None:
        row.loops = contender.loops
    else:
        once = min(contender.sample(1), contender.sample(1))
        row.loops = max(1, min(_MOST_LOOPS, int(_TURN_S / max(once, 1e-9))))


def _take_turn(contender: Contender, row: Row) -> None:
    time.sleep(_PAUSE_S)
    row.samples.append(contender.sample(row.loops) / row.loops)


def _finish(contender: Contender, row: Row) -> None:
    contender.check()
    row.extra = dict(contender.extra)
    row.verified = True


def in_words(error: Exception) -> str:
    """A failure in a line for the table."""
    said = " ".join(str(error).split())[:300]
    return said if isinstance(error, (Unavailable, WrongResult)) and said else f"{type(error).__name__}: {said}"
