"""Performance goals on lavapipe.

Two contenders are compared by the median of ratios (or differences) of consecutive samples. A temporary slowdown of the
machine then does not affect the result.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from measure import Row

MIB = 1 << 20
Rows = Mapping[tuple[str, str], Row]
"""(case, program) -> row"""


@dataclass(frozen=True)
class Goal:
    """A measured value and its limit.

    Attributes:
        value: in `unit`.
        at_slowest: True for an upper limit, False for a lower one.
    """

    text: str
    value: float
    limit: float
    unit: str
    at_slowest: bool

    @property
    def reached(self) -> bool:
        """True if the value is within its limit."""
        return self.value <= self.limit if self.at_slowest else self.value >= self.limit

    def __str__(self) -> str:
        state, bound = "reached" if self.reached else "MISSED", "at most" if self.at_slowest else "at least"
        return f"{state:8}{self.text:42}{self.value:8.3g} {self.unit:4}{bound} {self.limit:g}"


def goals(rows: Iterable[Row]) -> list[Goal]:
    """The goals that have been measured."""
    by_case = {(row.case, row.program): row for row in rows if row.verified}
    return [goal for rule in _RULES if (goal := rule(by_case)) is not None]


Rule = Callable[[Rows], Goal | None]


def _speed(text: str, case: str, program: str, other: str, limit: float) -> Rule:
    """The program's speed relative to `other`."""

    def rule(rows: Rows) -> Goal | None:
        mine, theirs = rows.get((case, program)), rows.get((case, other))
        if mine is None or theirs is None:
            return None
        ratios = [b / a for a, b in zip(mine.samples, theirs.samples, strict=True)]
        return Goal(text, statistics.median(ratios), limit, "x", at_slowest=False)

    return rule


def _over(text: str, case: str, program: str, other: str, limit_us: float) -> Rule:
    """The program's time in excess of `other`, in microseconds."""

    def rule(rows: Rows) -> Goal | None:
        mine, theirs = rows.get((case, program)), rows.get((case, other))
        if mine is None or theirs is None:
            return None
        differences = [a - b for a, b in zip(mine.samples, theirs.samples, strict=True)]
        return Goal(text, 1e6 * statistics.median(differences), limit_us, "us", at_slowest=True)

    return rule


def _time(text: str, case: str, program: str, limit: float, unit: str, scale: float) -> Rule:
    def rule(rows: Rows) -> Goal | None:
        row = rows.get((case, program))
        return Goal(text, scale * statistics.median(row.samples), limit, unit, at_slowest=True) if row else None

    return rule


def _slowest(text: str, case: str, limit_us: float) -> Rule:
    """The time of the slowest program of the case."""

    def rule(rows: Rows) -> Goal | None:
        medians = [statistics.median(row.samples) for (key, _), row in rows.items() if key == case]
        return Goal(text, 1e6 * max(medians), limit_us, "us", at_slowest=True) if medians else None

    return rule


def _growth(text: str, case: str, limit: float) -> Rule:
    """The largest ratio of a program's time to that of the case's first program."""

    def rule(rows: Rows) -> Goal | None:
        first, *others = [row.samples for (key, _), row in rows.items() if key == case] or [[]]
        ratios = [statistics.median(b / a for a, b in zip(first, other, strict=True)) for other in others]
        return Goal(text, max(ratios), limit, "x", at_slowest=True) if ratios else None

    return rule


def _overlap(text: str, case: str, limit: float) -> Rule:
    """The achieved fraction of the maximum gain from overlapping."""

    def rule(rows: Rows) -> Goal | None:
        names = "plain loop", "stream", "copies alone", "kernels alone"
        samples = [rows[case, name].samples for name in names if (case, name) in rows]
        if len(samples) < len(names):
            return None
        turns = zip(*samples, strict=True)
        fractions = [loop / stream * max(copy, work) / (copy + work) for loop, stream, copy, work in turns]
        return Goal(text, statistics.median(fractions), limit, "x", at_slowest=False)

    return rule


def _peak(text: str, case: str, program: str, figure: str, limit_mib: float) -> Rule:
    def rule(rows: Rows) -> Goal | None:
        row = rows.get((case, program))
        if row is None or figure not in row.extra:
            return None
        return Goal(text, row.extra[figure] / MIB, limit_mib, "MiB", at_slowest=True)

    return rule


_KOMPUTE = (
    ("replay", "sync, dispatch, sync", 146.0, "us", 1e6),
    ("eager", "one operation", 106.0, "us", 1e6),
    ("many", "100 dispatches", 3.2, "ms", 1e3),
    ("manager", "a Manager", 20.0, "ms", 1e3),
    ("logistic.5", "logistic, 5 rows", 7.0, "ms", 1e3),
    ("logistic.1000", "logistic, 1,000 rows", 8.0, "ms", 1e3),
    ("logistic.100000", "logistic, 100,000 rows", 174.0, "ms", 1e3),
    ("logistic.1000000", "logistic, 1,000,000 rows", 1757.0, "ms", 1e3),
)
"""Kompute's programs, and their times with its C++ library on lavapipe, on the same machine as the other limits."""

_SELECTIONS = (
    ("sort of 1M", "sort", "numpy", 0.3),
    ("argsort of 1M", "argsort", "numpy", 0.6),
    ("unique of 1M integers", "unique", "sort", 0.67),
    ("nonzero of 16 Mi", "nonzero", "numpy", 0.5),
    ("argmin of 16 Mi", "argmin", "numpy", 0.5),
    ("mean of 4,096 rows", "mean_0", "numpy", 0.7),
    ("cumulative sum of 10M", "cumsum", "numpy", 1.0),
    ("k-means, 64 clusters", "kmeans", "scikit-learn", 0.5),
    ("sums of 100 groups", "groups", "polars", 0.25),
    ("first 5 of 10,000 rows", "topk", "numpy", 0.67),
)
"""Cases of selections.py: what is done, the case, the other program, and the least speed in that of the other."""

_RULES: tuple[Rule, ...] = (
    _speed("multiply, 1 Mi, speed over naive GLSL", "multiply.small", "vkcompute", "vkcompute, naive GLSL", 2.0),
    _speed("multiply, large, speed over numpy", "multiply.large", "vkcompute", "numpy", 0.5),
    _speed("logistic, 100,000 rows, fit() over numpy", "logistic.100000", "vkcompute fit()", "numpy", 1.0),
    _speed("logistic, 1,000,000 rows, fit() over numpy", "logistic.1000000", "vkcompute fit()", "numpy", 1.0),
    _speed("5 operations on 64 Mi, speed over numpy", "algorithms.expression_64 Mi", "vkcompute", "numpy", 2.0),
    _speed("5 operations on 1 Mi, speed over numpy", "algorithms.expression_1 Mi", "vkcompute", "numpy", 0.5),
    *(
        _speed(f"{name} along axis {axis}, speed over numpy", f"algorithms.{name}_{axis}", "vkcompute", "numpy", 0.7)
        for name in ("mean", "var")
        for axis in (0, 1)
    ),
    _speed("cumulative sum, speed over numpy", "algorithms.cumsum", "vkcompute", "numpy", 0.5),
    _speed("elements of a mask, speed over numpy", "algorithms.mask", "vkcompute", "numpy", 0.5),
    _speed("sort, speed over numpy", "algorithms.sort", "vkcompute", "numpy", 0.1),
    _speed("matrix product of 1,024 rows, speed over numpy", "algorithms.matmul_1024", "vkcompute", "numpy", 0.15),
    _speed("softmax, speed over PyTorch", "networks.softmax", "vkcompute", "pytorch", 0.67),
    _speed("layer norm, speed over PyTorch", "networks.layer_norm", "vkcompute", "pytorch", 0.67),
    _speed("2-D convolution, speed over PyTorch", "networks.conv2d", "vkcompute", "pytorch", 0.1),
    _speed("k-means, speed over scikit-learn", "algorithms.kmeans", "vkcompute", "scikit-learn", 0.5),
    *(
        _speed(f"{name}, over {other}", f"selections.{key}", "vkcompute", other, limit)
        for name, key, other, limit in _SELECTIONS
    ),
    _over("replay, time over the raw calls", "launch.replay", "vkcompute graph.run()", "raw calls", 10.0),
    _time("eager launch, enqueued", "launch.enqueue", "vkcompute", 10.0, "us", 1e6),
    _slowest("launches in a row, host time each", "scheduling.tasks", 10.0),
    _growth("the same, many over few", "scheduling.tasks", 1.2),
    _slowest("the same on 256 windows of an array", "scheduling.windows", 10.0),
    _growth("the same, many over few", "scheduling.windows", 1.2),
    _time("replayed launch, host time", "scheduling.replay", "vkcompute", 1.0, "us", 1e3),
    _time("process start to first result", "start", "vkcompute", 0.3, "s", 1.0),
    _speed("two devices, over the faster one", "devices", "balanced", "the faster alone", 1.1),
    _speed("two devices, balanced over the best split", "devices", "balanced", "best fixed split", 0.95),
    _speed("stream over the plain loop", "overlap.one", "stream", "plain loop", 0.95),
    _speed("stream over the plain loop", "overlap.queues", "stream", "plain loop", 1.6),
    _overlap("the same, fraction of the maximum gain", "overlap.queues", 0.85),
    _peak("streaming, device memory", "streaming", "vkcompute", "device_peak_bytes", 300.0),
    _peak("streaming, RssAnon", "streaming", "vkcompute", "rss_anon_peak_bytes", 600.0),
    _time("compile of a Python kernel of 20 lines", "python.compile", "compiled", 15.0, "ms", 1e3),
    _time("the same, from the disk cache", "python.compile", "from the disk", 0.3, "ms", 1e3),
    _time("launch of a block program", "triton.launch", "vkcompute", 10.0, "us", 1e6),
    _time("compile of Triton's softmax", "triton.softmax", "compiled", 30.0, "ms", 1e3),
    _time("compile of Triton's matrix product", "triton.matmul", "compiled", 80.0, "ms", 1e3),
    _time("the same, from the disk cache", "triton.matmul", "from the disk", 0.3, "ms", 1e3),
    _speed("launch of a Python kernel, speed over GLSL's", "python.launch", "Python", "GLSL", 1.0),
    *[
        _speed(f"{name} in Python, speed over GLSL", f"python.{name}", "Python", "GLSL", 0.95)
        for name in ("saxpy", "multiply", "gradients", "histogram", "mandelbrot", "matmul", "kick")
    ],
    _speed("launch of Numba's kernel over a bare one", "numba.launch", "cuda.jit", "vc.elementwise", 0.67),
    _speed("the same with arrays of the host", "numba.hosts", "cuda.jit", "vc.elementwise", 0.95),
    _speed("compile of 50 lines, Numba's over ours", "numba.compile", "cuda.jit", "vc.kernel", 0.83),
    _speed("the same, from the disk cache", "numba.disk", "cuda.jit", "vc.kernel", 0.91),
    *[
        _speed(f"{name} in Numba's, speed over GLSL", f"numba.{name}", "Numba's", "GLSL", 0.91)
        for name in ("saxpy", "multiply", "gradients", "histogram", "mandelbrot", "matmul", "kick")
    ],
    *[
        rule
        for key, text, limit, unit, scale in _KOMPUTE
        for rule in (
            _time(f"kp: {text}", f"kompute.{key}", "compat", limit, unit, scale),
            _speed(f"kp: {text}, over Kompute", f"kompute.{key}", "compat", "kompute", 1.0),
        )
    ],
)
