"""Functions of integers with a loop per element, in the kernel language."""

from __future__ import annotations

from typing import Any


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


def gcd(a: Any, b: Any) -> Any:
    """Greatest common divisor of unsigned integers."""
    while b != 0:
        a, b = b, a % b
    return a


def lcm(a: Any, b: Any) -> Any:
    """Least common multiple of unsigned integers."""
    return a // max(gcd(a, b), 1) * b
