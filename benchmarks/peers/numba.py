"""Numba: a loop compiled for all cores of the CPU."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from peers import Target
from peers.work import Blocking, Floats, Outcome

HINT = "pip install numba"
DISTRIBUTIONS = ("numba", "llvmlite")


class Peer:
    """The compiled loop."""

    def __init__(self, target: Target) -> None:
        self.about = "the CPU"
        numba = import_module("numba")
        prange = numba.prange

        def multiply(a: Any, b: Any, c: Any) -> None:
            for i in prange(c.size):
                c[i] = a[i] * b[i]

        self._multiply = numba.njit(parallel=True)(multiply)

    def resident(self, a: Floats, b: Floats) -> Resident:
        """The product, written to an existing array."""
        return Resident(self._multiply, a, b, fresh=False)

    def from_host(self, a: Floats, b: Floats) -> Resident:
        """The product in a new array."""
        return Resident(self._multiply, a, b, fresh=True)


class Resident(Blocking, Outcome):
    """The product of host arrays on the CPU."""

    def __init__(self, multiply: Any, a: Floats, b: Floats, *, fresh: bool) -> None:
        self._multiply, self._a, self._b, self._fresh = multiply, a, b, fresh
        self.out = np.empty_like(a)

    def enqueue(self) -> None:
        """Computes the product."""
        if self._fresh:
            self.out = np.empty_like(self._a)
        self._multiply(self._a, self._b, self.out)
