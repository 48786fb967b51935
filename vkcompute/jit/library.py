"""Functions that have no instruction, written in the language of kernels and compiled where they are called."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def device_power(x: Any, y: Any) -> Any:
    """The device's own x ** y, for x > 0 only; `functions.py` gives it its meaning."""
    raise NotImplementedError


def float_power(x: Any, y: Any) -> Any:
    """x ** y of floats, as C's pow."""
    if y == 0 or x == 1:
        return 1
    if x == 0:
        if y < 0:
            return math.inf
        return 0
    size = abs(x)
    if size != 1:
        size = device_power(size, y)
    if x < 0:
        if np.floor(y) != y:
            return math.nan
        if np.floor(y * 0.5) != y * 0.5:
            return -size
    return size


def integer_power(x: Any, n: Any) -> Any:
    """x ** n of integers, by squaring; 0 for negative n, as 1 / x truncates."""
    result = 1
    if n < 0:
        result = 0
    while n > 0:
        if n & 1:
            result *= x
        x *= x
        n >>= 1
    return result


def hypot(x: Any, y: Any) -> Any:
    """sqrt(x² + y²), scaled so that the squares stay in range."""
    large = max(abs(x), abs(y))
    if large == 0 or math.isinf(large):
        return large
    return large * math.sqrt((x / large) ** 2 + (y / large) ** 2)


def log10(x: Any) -> Any:
    """The decimal logarithm."""
    return math.log(x) * (1 / math.log(10))


def log1p(x: Any) -> Any:
    """log(1 + x), exact for small x too (Goldberg 1991, theorem 4)."""
    u = 1 + x
    if u == 1:
        return x
    return math.log(u) * x / (u - 1)


def expm1(x: Any) -> Any:
    """exp(x) - 1, exact for small x too (Higham 2002, section 1.14.1)."""
    u = math.exp(x)
    if u == 1:
        return x
    if u - 1 == -1 or math.isinf(u):
        return u - 1
    return (u - 1) * x / math.log(u)


def degrees(x: Any) -> Any:
    """Radians in degrees."""
    return x * (180 / math.pi)


def radians(x: Any) -> Any:
    """Degrees in radians."""
    return x * (math.pi / 180)


def copysign(x: Any, y: Any) -> Any:
    """The size of x with the sign of y."""
    if y < 0 or (y == 0 and 1 / y < 0):
        return -abs(x)
    return abs(x)


def cbrt(x: Any) -> Any:
    """The cube root."""
    return copysign(abs(x) ** (1 / 3), x)


def isfinite(x: Any) -> Any:
    """Whether x is neither infinite nor nan."""
    return not (math.isinf(x) or math.isnan(x))


def clip(x: Any, low: Any, high: Any) -> Any:
    """The number of those from low to high that is next to x; high where there is none, as numpy's."""
    return min(max(x, low), high)


def square(x: Any) -> Any:
    """x²."""
    return x * x


def dot(a: Any, b: Any) -> Any:
    """The sum of the products of two vectors' elements."""
    return a @ b


def length(v: Any) -> Any:
    """The length of a vector: the root of the sum of its elements' squares."""
    return np.sqrt(v @ v)


def normalize(v: Any) -> Any:
    """The vector of length 1 in the same direction; NaNs for a vector of zeros."""
    return v / np.sqrt(v @ v)


def cross(a: Any, b: Any) -> Any:
    """The cross product of two vectors of three."""
    return a.yzx * b.zxy - a.zxy * b.yzx
