"""Constants of float64 on devices without it, whose polynomials are evaluated in fixed point."""

from __future__ import annotations

from vkcompute.ir import Polynomial
from vkcompute.jit.library.coefficients import Double

BOUNDS = {
    "SIN": 0, "COS": 0, "TAN": 0, "ATAN": 0, "SINH": 0, "ERF": 0, "ERFC": 0, "RGAMMA": 0, "LGAMMA": 0, "TANH": -1,
    "EXP": -1, "ASIN": -2, "LOG": -5, "PAIR": -5, "STIRLING": -6,
}  # fmt: skip
"""Polynomial -> log2 of the bound of its variable, wherever its value matters."""


class FixedPoint(Double):
    """Constants of float64, with bounds for polynomials."""


for _name, _bound in BOUNDS.items():
    setattr(FixedPoint, _name, Polynomial(getattr(Double, _name), _bound))
