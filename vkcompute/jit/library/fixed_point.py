"""Constants of float64 on devices without it, whose polynomials and some functions are evaluated in fixed point."""

from __future__ import annotations

from vkcompute.ir import Polynomial
from vkcompute.ir.float_angles import Angle, Inverse
from vkcompute.ir.float_exponentials import Exponential
from vkcompute.ir.float_functions import Tangent, Wave
from vkcompute.ir.float_logarithms import Logarithm
from vkcompute.ir.float_powers import Power
from vkcompute.jit.library.coefficients import Double

BOUNDS = {
    "SIN": 0, "COS": 0, "SINH": 0, "ERF": 0, "ERFC": 0, "RGAMMA": 0, "LGAMMA": 0, "TANH": -1,
    "EXP": -1, "PAIR": -5, "STIRLING": -6,
}  # fmt: skip
"""Polynomial -> log2 of the bound of its variable, wherever its value matters."""


class FixedPoint(Double):
    """Constants of float64, with bounds for polynomials, and the functions that are no operations of float64."""

    SINE, COSINE, TANGENT = Wave(0, Double.TURNS), Wave(1, Double.TURNS), Tangent(Double.TURNS)
    ARC_SINE, ARC_COSINE = Inverse(False), Inverse(True)
    POWERS, POWER_OF_TWO = (Exponential(0), Exponential(-1)), Exponential(0, 2)
    POWER, ANGLE = Power(), Angle()
    NATURAL_LOG, BINARY_LOG, DECIMAL_LOG, LOG_OF_SUM = Logarithm(0), Logarithm(2), Logarithm(10), Logarithm(0, True)


for _name, _bound in BOUNDS.items():
    setattr(FixedPoint, _name, Polynomial(getattr(Double, _name), _bound))
