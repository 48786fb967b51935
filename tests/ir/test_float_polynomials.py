"""Polynomials of float64 in fixed point: against exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from test_wide_types import computed

import vkcompute as vc
from vkcompute import ir
from vkcompute.ir.function import Op
from vkcompute.jit.library.fixed_point import BOUNDS, FixedPoint

SIGNED = {"EXP", "ERFC", "RGAMMA", "LGAMMA"}
"""Polynomials of a variable of both signs."""


def variables(name: str, seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Numbers within the bound of a polynomial: of all exponents, and at its ends."""
    rng = np.random.default_rng(seed)
    size = np.append(rng.random(60), [0, 1, 1 - 2.0**-53, *2.0 ** -rng.integers(1, 80, 20)]) * 2.0 ** BOUNDS[name]
    return size * rng.choice([1, -1], len(size)) if name in SIGNED else size


@pytest.mark.parametrize("names", [[*BOUNDS][:5], [*BOUNDS][5:10], [*BOUNDS][10:]])
def test_polynomials_are_as_near_as_float64(gpu: vc.Runtime, names: list[str]) -> None:
    x = [variables(name, at) for at, name in enumerate(names)]
    builds = [
        (lambda b, *x, at=at, name=name: b.append(Op("polynomial", ir.FLOAT64, [x[at]], getattr(FixedPoint, name))),
         "float64")
        for at, name in enumerate(names)
    ]  # fmt: skip
    for name, given, found in zip(names, x, computed(gpu, x, builds), strict=True):
        coefficients = [Fraction(number) for number in getattr(FixedPoint, name).coefficients]
        for number, value in zip(given.tolist(), found.tolist(), strict=True):
            exact = sum((c * Fraction(number) ** k for k, c in enumerate(coefficients)), Fraction())
            error = abs(Fraction(value) - exact)
            # Half a unit of the rounded result, and of the sums a part of what they may be.
            assert error <= abs(exact) / 2**53 + Fraction(1, 2**54) * abs(coefficients[0]), (name, number)
