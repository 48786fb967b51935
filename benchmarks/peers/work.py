"""The work of every peer: its arrays and its expected result."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

LOCAL_SIZE = 64
WINDOW = 65_535 * LOCAL_SIZE
"""Maximum elements per launch, within every device's limits of workgroups per axis and of bytes per binding."""


@lru_cache(maxsize=1)
def pair(n: int) -> tuple[Floats, Floats]:
    """Two arrays of `n` float32 in [0.5, 1.5). Their products are not subnormal; some devices flush those to zero."""
    random = np.random.default_rng(0)
    a, b = (random.random(n, np.float32) for _ in range(2))
    return np.add(a, 0.5, out=a), np.add(b, 0.5, out=b)


def product(n: int) -> Floats:
    """numpy's product of the pair."""
    a, b = pair(n)
    result: Floats = a * b
    return result


def windows(n: int) -> Iterator[tuple[int, int]]:
    """(first element, elements) of the launches that cover `n` elements."""
    for start in range(0, n, WINDOW):
        yield start, min(WINDOW, n - start)


class Blocking:
    """A program whose `enqueue` returns when the work is complete."""

    def wait(self) -> None:
        """Returns at once."""


class Outcome:
    """A program that keeps its result as a host array in `out`."""

    out: Any

    def result(self) -> Floats:
        """Returns the result of the last run."""
        computed: Floats = self.out
        return computed
