"""Operators without an instruction, in the kernel language; they are compiled in the place where they are used."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def integer_power(x: Any, n: Any, one: Any) -> Any:
    """x ** n of integers by squaring, with 1 in their type; 0 for negative n, since 1 / x truncates."""
    result = one
    if n < 0:
        result = one - one
    while n > 0:
        if n & 1:
            result *= x
        x *= x
        n >>= 1
    return result


def float_modulo(x: Any, y: Any) -> Any:
    """x % y of floats, as numpy.remainder."""
    rest = math.fmod(x, y)
    return np.where(rest == 0, np.where(y < 0, -0.0, 0.0), np.where((rest < 0) != (y < 0), rest + y, rest))


def float_floor_divide(x: Any, y: Any) -> Any:
    """x // y of floats, as numpy.floor_divide."""
    rest = math.fmod(x, y)
    quotient = (x - rest) / y
    quotient = np.where((rest != 0) & ((rest < 0) != (y < 0)), quotient - 1, quotient)
    whole = np.floor(quotient)
    whole = np.where(quotient - whole > 0.5, whole + 1, whole)  # the exact quotient was an integer before rounding
    return np.where((x == 0) | (y == 0), x / y, np.where(quotient == 0, 0.0, whole))
