"""How many rows each of several devices gets: in proportion to how fast it has been found to be. No device here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

Shares = tuple[float, ...]
"""The fraction of the rows that each device gets; together 1."""


def fractions(shares: Sequence[float], n_devices: int) -> Shares:
    """`shares` in any unit as fractions.

    Raises:
        ValueError: not one finite number from 0 on per device, or none is above 0.
    """
    total = sum(shares)
    if len(shares) != n_devices or not all(0 <= share < math.inf for share in shares) or not 0 < total < math.inf:
        raise ValueError(f"shares are {n_devices} finite numbers from 0 on, one above 0; got {tuple(shares)}")
    return tuple(share / total for share in shares)


def split_rows(n_rows: int, shares: Shares) -> tuple[range, ...]:
    """Consecutive rows for each device, within one of its share; none for one whose share is less than half a row."""
    stops = [min(n_rows, round(n_rows * reach)) for reach in accumulate(shares)]
    stops[-1] = n_rows
    return tuple(map(range, [0, *stops], stops))


def learned(shares: Shares, n_rows: Sequence[int], seconds: Sequence[float], n_before: int) -> Shares:
    """The shares in which all devices would have taken the same time, mixed with those of `n_before` measurements.

    It is their mean, in which a measurement weighs a third at least: one that was disturbed is made up for, and a
    device that has become slower is noticed. A device that had no rows, or no time, keeps its share.
    """
    weight = 1 / (1 + min(n_before, 2))
    speeds = [n / s if n and s > 0 else 0.0 for n, s in zip(n_rows, seconds, strict=True)]
    measured = sum(share for share, speed in zip(shares, speeds, strict=True) if speed)
    total = sum(speeds)
    return tuple(
        share + weight * (measured * speed / total - share) if speed else share
        for share, speed in zip(shares, speeds, strict=True)
    )
