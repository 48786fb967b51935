"""NumPy: one core, no device; the baseline of all."""

from __future__ import annotations

import numpy as np

from peers.work import Blocking, Floats, Outcome


class Resident(Blocking, Outcome):
    """The product into an array that exists already."""

    def __init__(self, a: Floats, b: Floats) -> None:
        self._a, self._b = a, b
        self.out = np.empty_like(a)

    def enqueue(self) -> None:
        """Multiplies."""
        np.multiply(self._a, self._b, out=self.out)


class FromHost(Blocking, Outcome):
    """The product in a new array, as `a * b` gives it."""

    def __init__(self, a: Floats, b: Floats) -> None:
        self._a, self._b = a, b

    def enqueue(self) -> None:
        """Multiplies."""
        self.out = self._a * self._b
