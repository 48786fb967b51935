"""NumPy on one core of the CPU: the baseline."""

from __future__ import annotations

import numpy as np

from peers.work import Blocking, Floats, Outcome


class Resident(Blocking, Outcome):
    """The product, written to an existing array."""

    def __init__(self, a: Floats, b: Floats) -> None:
        self._a, self._b = a, b
        self.out = np.empty_like(a)

    def enqueue(self) -> None:
        """Computes the product."""
        np.multiply(self._a, self._b, out=self.out)


class FromHost(Blocking, Outcome):
    """The product `a * b` in a new array."""

    def __init__(self, a: Floats, b: Floats) -> None:
        self._a, self._b = a, b

    def enqueue(self) -> None:
        """Computes the product."""
        self.out = self._a * self._b
