"""float64 in fixed point: polynomials against exact fractions, functions against NumPy's longdouble."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from test_wide_types import computed

import vkcompute as vc
from vkcompute import ir
from vkcompute.ir.float_exponentials import Exponential
from vkcompute.ir.function import Op
from vkcompute.jit.library.fixed_point import BOUNDS, FixedPoint

HostArray = np.ndarray[Any, np.dtype[np.float64]]
SIGNED = {"EXP", "ERFC", "RGAMMA", "LGAMMA"}
"""Polynomials of a variable of both signs."""


def variables(name: str, seed: int) -> HostArray:
    """Numbers within the bound of a polynomial: of all exponents, and at its ends."""
    rng = np.random.default_rng(seed)
    size = np.append(rng.random(60), [0, 1, 1 - 2.0**-53, *2.0 ** -rng.integers(1, 80, 20)]) * 2.0 ** BOUNDS[name]
    return size * rng.choice([1, -1], len(size)) if name in SIGNED else size


@pytest.mark.parametrize("names", [[*BOUNDS][:6], [*BOUNDS][6:]])
def test_polynomials_are_as_near_as_float64(gpu: vc.Runtime, names: list[str]) -> None:
    for at, name in enumerate(names):
        given = variables(name, at)
        polynomial = getattr(FixedPoint, name)
        (result,) = computed(
            gpu, [given],
            [(lambda b, x, given=polynomial: b.append(Op("polynomial", ir.FLOAT64, [x], given)), "float64")],
        )  # fmt: skip
        coefficients = [Fraction(number) for number in polynomial.coefficients]
        for number, value in zip(given.tolist(), result.tolist(), strict=True):
            exact = sum((c * Fraction(number) ** k for k, c in enumerate(coefficients)), Fraction())
            error = abs(Fraction(value) - exact)
            # Half a unit of the rounded result, and of the sums a part of what they may be.
            assert error <= abs(exact) / 2**53 + Fraction(1, 2**54) * abs(coefficients[0]), (name, number)


SPECIAL = [
    *(0.0, 1.0, 0.1, 5e-324, 1e-310, 2.0**-1022, 2.0**-51, 2.0**-50, 2.0**-28, 2.0**-27, math.inf, math.nan, 1e300),
    *(709.78, 709.79, 708.4, 745.13, 745.14, 1023.9, 1024.0, 0.5 * math.log(2), 10.5 * math.log(2), math.pi, 25734.4),
    *(
        math.pi / 2,
        1.375,
        2.0**-7,
        6381956970095103 * 2.0**797,
        1.7976931348623157e308,
        2.0**1023,
        2.0**63,
        1e22,
        16384.0,
    ),
]
"""Numbers where a function overflows, is subnormal, changes its branch, or is near a multiple of pi/2."""
FUNCTIONS = {
    "exp": (np.exp, Exponential(0)),
    "exp2": (np.exp2, Exponential(0, 2)),
    "half of exp": (lambda x: np.exp(x) / 2, Exponential(-1)),
    "sin": (np.sin, FixedPoint.SINE),
    "cos": (np.cos, FixedPoint.COSINE),
    "tan": (np.tan, FixedPoint.TANGENT),
    "asin": (np.arcsin, FixedPoint.ARC_SINE),
    "acos": (np.arccos, FixedPoint.ARC_COSINE),
    "log": (np.log, FixedPoint.NATURAL_LOG),
    "log2": (np.log2, FixedPoint.BINARY_LOG),
    "log10": (np.log10, FixedPoint.DECIMAL_LOG),
    "log1p": (np.log1p, FixedPoint.LOG_OF_SUM),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_right_to_six_tenths_of_an_ulp(gpu: vc.Runtime, name: str) -> None:
    if np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("NumPy has no wider type here")
    oracle, function = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    x = np.concatenate([SPECIAL, rng.uniform(0, 745, 500), rng.normal(size=500) * 2.0 ** rng.integers(-60, 40, 500)])
    x = np.concatenate([x, -x, 1 + rng.uniform(-1, 1, 300) * 2.0 ** -rng.integers(1, 53, 300)])
    (result,) = computed(
        gpu, [x], [(lambda b, p: b.append(Op("in_fixed_point", ir.FLOAT64, [p], function)), "float64")]
    )
    with np.errstate(all="ignore"):
        exact = oracle(x.astype(np.longdouble))
        nearest = exact.astype(np.float64)
        error = np.abs((result - exact) / np.spacing(np.abs(nearest)))
    same = (result == nearest) & (np.signbit(result) == np.signbit(nearest)) | (np.isnan(result) & np.isnan(nearest))
    assert np.all(same | (error < 0.6)), x[~(same | (error < 0.6))]


NUMBERS = [0.0, 1.0, 2.0, 0.5, 3.0, 2.5, math.inf, math.nan, 1e308, 5e-324, 2.0**52 + 1, 2.0**53, 1 - 2.0**-53, 10.0]


def points(name: str) -> tuple[HostArray, HostArray]:
    """Pairs of special numbers, and random ones: powers of all sizes, and points of all angles."""
    special = np.array([*itertools.product([*NUMBERS, *[-number for number in NUMBERS]], repeat=2)])
    rng = np.random.default_rng(0)
    x = 1 + rng.uniform(-1, 1, 300) * 2.0 ** -rng.integers(1, 40, 300)
    x = np.concatenate([x, np.exp(rng.uniform(-700, 700, 300)), rng.uniform(0, 20, 300)])
    if name == "pow":
        y = np.append(rng.uniform(-740, 705, 600) / np.log(x[:600]), rng.uniform(-20, 20, 300))
    else:
        step = rng.integers(0, 17, 900) / 16 + rng.normal(size=900) * 2.0 ** -rng.integers(3, 50, 900)
        x, y = x * rng.choice([1, -1], 900), x * step
    return np.append(x, special[:, 0]), np.append(y, special[:, 1])


@pytest.mark.parametrize("name", ["pow", "atan2"])
def test_functions_of_two_are_right_to_six_tenths_of_an_ulp(gpu: vc.Runtime, name: str) -> None:
    if np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("NumPy has no wider type here")
    x, y = points(name)
    function, oracle = (FixedPoint.POWER, np.power) if name == "pow" else (FixedPoint.ANGLE, np.arctan2)
    (result,) = computed(
        gpu, [x, y], [(lambda b, *args: b.append(Op("in_fixed_point", ir.FLOAT64, args, function)), "float64")]
    )
    with np.errstate(all="ignore"):
        exact = oracle(x.astype(np.longdouble), y.astype(np.longdouble))
        nearest = exact.astype(np.float64)
        error = np.abs((result - exact) / np.spacing(np.abs(nearest)))
    same = (result == nearest) & (np.signbit(result) == np.signbit(nearest)) | (np.isnan(result) & np.isnan(nearest))
    wrong = ~(same | (error < 0.6))
    assert not wrong.any(), (x[wrong], y[wrong], result[wrong], nearest[wrong])
