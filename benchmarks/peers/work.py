"""What every peer computes, and the arrays that it gets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

LOCAL_SIZE = 64
WINDOW = 65_535 * LOCAL_SIZE
"""Elements of a launch at most: groups that every device can launch in one dimension, bytes that every one can bind."""


@lru_cache(maxsize=1)
def pair(n: int) -> tuple[Floats, Floats]:
    """Two arrays of `n` float32 in [0.5, 1.5): no product is subnormal, which some devices flush to zero."""
    random = np.random.default_rng(0)
    a, b = (random.random(n, np.float32) for _ in range(2))
    return np.add(a, 0.5, out=a), np.add(b, 0.5, out=b)


def product(n: int) -> Floats:
    """numpy's product of the pair."""
    a, b = pair(n)
    found: Floats = a * b
    return found


def windows(n: int) -> Iterator[tuple[int, int]]:
    """(first element, elements) of the launches that cover `n` elements."""
    for start in range(0, n, WINDOW):
        yield start, min(WINDOW, n - start)


class Blocking:
    """The `wait` of programs whose `enqueue` returns when the work is done."""

    def wait(self) -> None:
        """Nothing is left to wait for."""


class Outcome:
    """The `result` of programs that keep it as a host array in `out`."""

    out: Any

    def result(self) -> Floats:
        """What the last run computed."""
        found: Floats = self.out
        return found
