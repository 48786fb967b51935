"""Rules for the width of a histogram's bins, by NumPy's names; the statistics are computed on the device.

Sources: H. A. Sturges, The choice of a class interval (1926); D. P. Doane, Aesthetic frequency classifications (1976);
D. W. Scott, On optimal and data-based histograms (1979); D. Freedman, P. Diaconis, On the histogram as a density
estimator: L2 theory (1981); C. J. Stone, An asymptotically optimal histogram selection rule (1984).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vkcompute.arrays.expressions.promotion import floating
from vkcompute.arrays.expressions.ufunc import apply, astype
from vkcompute.arrays.functions import reductions
from vkcompute.arrays.functions.statistics import percentile
from vkcompute.arrays.functions.variance import std
from vkcompute.runtime.memory.array import Array

Counts = Callable[[int], Any]
"""Returns the counts of a number of equal bins as a NumPy array."""


def width_of_bins(rule: str, x: Array, counts: Counts) -> float:
    """Returns the width of the bins of a vector that is not empty; 0 for a single bin. Waits for statistics.

    Raises:
        ValueError: there is no such rule.
    """
    if rule not in _RULES:
        raise ValueError(f"bins are a number, edges, or one of the rules {', '.join(_RULES)}; got {rule!r}")
    width = _RULES[rule](x, counts)
    return max(width, 1.0) if x.dtype.kind in "biu" and width else width


def _spread(x: Array) -> float:
    """Returns the largest number minus the smallest."""
    return float(reductions.max(x)) - float(reductions.min(x))


def _by_root(x: Array, _: Counts) -> float:
    return _spread(x) / math.sqrt(x.size)


def _by_sturges(x: Array, _: Counts) -> float:
    return _spread(x) / (math.log2(x.size) + 1)


def _by_rice(x: Array, _: Counts) -> float:
    return _spread(x) / (2 * float(np.cbrt(x.size)))


def _by_scott(x: Array, _: Counts) -> float:
    return float(np.cbrt(24 * math.sqrt(math.pi) / x.size)) * float(std(x))


def _by_doane(x: Array, _: Counts) -> float:
    n, deviation = x.size, float(std(x))
    if n < 3 or deviation == 0:
        return 0.0
    scaled = apply("divide", apply("subtract", x, float(reductions.mean(x))), deviation)
    skewness = float(reductions.mean(apply("multiply", apply("multiply", scaled, scaled), scaled)))
    error = math.sqrt(6 * (n - 2) / ((n + 1) * (n + 3)))
    return _spread(x) / (1 + math.log2(n) + math.log2(1 + abs(skewness) / error))


def _by_quartiles(x: Array, _: Counts) -> float:
    low, high = percentile(astype(x, floating(x.dtype)), np.array([25.0, 75.0])).tolist()
    return float(2 * (high - low) / float(np.cbrt(x.size)))


def _by_stone(x: Array, counts: Counts) -> float:
    n, spread = x.size, _spread(x)
    if n < 2 or spread == 0:
        return 0.0

    def error(n_bins: int) -> float:
        frequencies = counts(n_bins) / n
        return float((2 - (n + 1) * frequencies.dot(frequencies)) * n_bins / spread)

    return spread / min(range(1, max(100, math.isqrt(n)) + 1), key=error)


def _automatic(x: Array, counts: Counts) -> float:
    return min(max(_by_quartiles(x, counts), _by_root(x, counts) / 2), _by_sturges(x, counts))


_RULES: dict[str, Callable[[Array, Counts], float]] = {
    "auto": _automatic, "doane": _by_doane, "fd": _by_quartiles, "rice": _by_rice, "scott": _by_scott,
    "sqrt": _by_root, "stone": _by_stone, "sturges": _by_sturges,
}  # fmt: skip
