"""Load balancing: the rows of each of several devices, in proportion to their measured speed. Arithmetic only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

Weights = tuple[float, ...]
"""the fraction of the rows that each device gets; their sum is 1"""


def normalized(weights: Sequence[float], n_devices: int) -> Weights:
    """Converts weights in any unit to fractions.

    Raises:
        ValueError: there is not one finite number from 0 on per device, or none is above 0.
    """
    total = sum(weights)
    if len(weights) != n_devices or not all(0 <= weight < math.inf for weight in weights) or not 0 < total < math.inf:
        raise ValueError(f"weights are {n_devices} finite numbers from 0 on, one above 0; got {tuple(weights)}")
    return tuple(weight / total for weight in weights)


def split_rows(n_rows: int, weights: Weights) -> tuple[range, ...]:
    """Splits rows into consecutive ranges, one per device, each within one row of its weight."""
    stops = [min(n_rows, round(n_rows * reach)) for reach in accumulate(weights)]
    stops[-1] = n_rows
    return tuple(map(range, [0, *stops], stops))


def learned(weights: Weights, n_rows: Sequence[int], seconds: Sequence[float], n_before: int) -> Weights:
    """Updates weights by a measurement: with the new ones, all devices would have taken the same time.

    The result is the mean of this measurement and the `n_before` earlier ones, with a third or more for the new one.
    This corrects a disturbed measurement, and follows a device that has become slower. A device without rows, or
    without time, keeps its weight.

    Raises:
        ValueError: a number of rows is negative, NaN or infinite.
    """
    if wrong := [n for n in n_rows if not 0 <= n < math.inf]:
        raise ValueError(f"balance: each device computes 0 rows or more; got {wrong[0]}, of {list(n_rows)}")
    share = 1 / (1 + min(n_before, 2))
    speeds = [n / s if n and s > 0 else 0.0 for n, s in zip(n_rows, seconds, strict=True)]
    measured = sum(weight for weight, speed in zip(weights, speeds, strict=True) if speed)
    total = sum(speeds)
    return tuple(
        weight + share * (measured * speed / total - weight) if speed else weight
        for weight, speed in zip(weights, speeds, strict=True)
    )
