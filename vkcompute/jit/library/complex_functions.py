"""Functions of complex numbers in the kernel language: tuples of the real and the imaginary part.

Special values are those of C99, annex G, as the Array API standard has them. Branch cuts follow the sign of zero.
Sources: W. Kahan, Branch Cuts for Complex Elementary Functions (1987); R. L. Smith, Algorithm 116 (1962).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class Single:
    """Limits for float32.

    Attributes:
        EXP: a number below the logarithm of the largest float; twice it is beyond the largest.
        BIG, SMALL: powers of 4. Squares of numbers between them neither overflow nor lose digits.
        FAR: 1 + FAR**2 == FAR**2, and its square is finite.
        FLAT: tanh is 1 for it.
    """

    EXP, BIG, SMALL, FAR, FLAT = 80.0, 2.0**60, 2.0**-60, 2.0**20, 12.0


class Double:
    """Limits for float64, as those for float32."""

    EXP, BIG, SMALL, FAR, FLAT = 700.0, 2.0**500, 2.0**-500, 2.0**40, 24.0


def add(x: Any, y: Any) -> Any:
    """x + y."""
    return x[0] + y[0], x[1] + y[1]


def subtract(x: Any, y: Any) -> Any:
    """x - y."""
    return x[0] - y[0], x[1] - y[1]


def multiply(x: Any, y: Any) -> Any:
    """x * y."""
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def divide(x: Any, y: Any) -> Any:
    """x / y, by Smith's algorithm, as in NumPy."""
    a, b, c, d = x[0], x[1], y[0], y[1]
    swap = abs(c) < abs(d)
    large, small = np.where(swap, d, c), np.where(swap, c, d)
    is_zero = (c == 0) & (d == 0)
    ratio = np.where(is_zero, 0.0, small / large)
    scale = large + small * ratio
    p, q = np.where(swap, b, a), np.where(swap, a, b)
    re, im = (p + q * ratio) / scale, np.where(swap, p * ratio - q, q - p * ratio) / scale
    return np.where(is_zero, a / abs(c), re), np.where(is_zero, b / abs(c), im)


def reciprocal(x: Any) -> Any:
    """1 / x, by Smith's algorithm, with the signs of zero of the conjugate."""
    swap = abs(x[0]) <= abs(x[1])
    large, small = np.where(swap, x[1], x[0]), np.where(swap, x[0], x[1])
    ratio = small / large
    scale = large + small * ratio
    one, other = 1.0 / scale, ratio / scale
    is_zero = (x[0] == 0) & (x[1] == 0)
    re, im = np.where(swap, other, one), np.where(swap, -one, -other)
    return np.where(is_zero, math.inf, re), np.where(is_zero, math.nan, im)


def negative(x: Any) -> Any:
    """-x."""
    return -x[0], -x[1]


def conjugate(x: Any) -> Any:
    """The number with the other sign of the imaginary part."""
    return x[0], -x[1]


def square(x: Any) -> Any:
    """x * x."""
    return x[0] * x[0] - x[1] * x[1], x[0] * x[1] + x[1] * x[0]


def equal(x: Any, y: Any) -> Any:
    """True if both parts are equal."""
    return (x[0] == y[0]) & (x[1] == y[1])


def not_equal(x: Any, y: Any) -> Any:
    """True if a part differs."""
    return (x[0] != y[0]) | (x[1] != y[1])


def less(x: Any, y: Any) -> Any:
    """True if `x` precedes `y` by real parts, or for equal ones by imaginary parts, as in NumPy; False for NaN."""
    is_number = ~(np.isnan(x[1]) | np.isnan(y[1]))
    return ((x[0] < y[0]) & is_number) | ((x[0] == y[0]) & (x[1] < y[1]))


def less_equal(x: Any, y: Any) -> Any:
    """True if `x` precedes `y` as for `less`, or is equal."""
    return less(x, y) | equal(x, y)


def greater(x: Any, y: Any) -> Any:
    """True if `y` precedes `x`."""
    return less(y, x)


def greater_equal(x: Any, y: Any) -> Any:
    """True if `y` precedes `x` or is equal."""
    return less_equal(y, x)


def _either(first: Any, x: Any, y: Any) -> Any:
    return np.where(first, x[0], y[0]), np.where(first, x[1], y[1])


def maximum(x: Any, y: Any) -> Any:
    """The later of two numbers in the order of `less`; the first NaN if there is one."""
    return _either(isnan(x) | less_equal(y, x), x, y)


def minimum(x: Any, y: Any) -> Any:
    """The earlier of two numbers in the order of `less`; the first NaN if there is one."""
    return _either(isnan(x) | less_equal(x, y), x, y)


def fmax(x: Any, y: Any) -> Any:
    """The later of two numbers in the order of `less`; NaN if both are."""
    return _either(isnan(y) | less_equal(y, x), x, y)


def fmin(x: Any, y: Any) -> Any:
    """The earlier of two numbers in the order of `less`; NaN if both are."""
    return _either(isnan(y) | less_equal(x, y), x, y)


def isnan(x: Any) -> Any:
    """True if a part is NaN."""
    return np.isnan(x[0]) | np.isnan(x[1])


def isinf(x: Any) -> Any:
    """True if a part is infinite."""
    return np.isinf(x[0]) | np.isinf(x[1])


def isfinite(x: Any) -> Any:
    """True if both parts are finite."""
    return np.isfinite(x[0]) & np.isfinite(x[1])


def truth(x: Any) -> Any:
    """True unless both parts are 0."""
    return (x[0] != 0) | (x[1] != 0)


def absolute(x: Any) -> Any:
    """The distance from 0."""
    return np.hypot(x[0], x[1])


def angle(x: Any) -> Any:
    """The angle from the positive real axis."""
    return np.arctan2(x[1], x[0])


def rint(x: Any) -> Any:
    """The number with both parts rounded, halves to even."""
    return np.rint(x[0]), np.rint(x[1])


def sign(x: Any) -> Any:
    """x / |x|; 0 for 0."""
    infinite, scale = isinf(x), np.where(np.isinf(np.hypot(x[0], x[1])), 0.25, 1.0)
    a = np.where(infinite, np.where(np.isinf(x[0]), np.copysign(1.0, x[0]), 0.0), x[0] * scale)
    b = np.where(infinite, np.where(np.isinf(x[1]), np.copysign(1.0, x[1]), 0.0), x[1] * scale)
    size = np.hypot(a, b)
    return np.where(size == 0, 0.0, a / size), np.where(size == 0, 0.0, b / size)


def exp(x: Any, form: Any) -> Any:
    """e ** x."""
    a, b = x
    extra = np.where(a > form.EXP, min(a - form.EXP, form.EXP), 0.0)  # e ** a may overflow where the result does not
    size, factor = np.exp(a - extra), np.exp(extra)
    unknown = ~np.isfinite(b)
    re = np.where(b == 0, size * factor, size * np.cos(b) * factor)
    im = np.where(b == 0, b, size * np.sin(b) * factor)
    re = np.where(unknown & (a == math.inf), a, np.where(unknown & (a == -math.inf), 0.0, re))
    return re, np.where(unknown & (a == -math.inf), np.copysign(0.0, b), im)


def exp2(x: Any, form: Any) -> Any:
    """2**x."""
    return exp((x[0] * math.log(2), x[1] * math.log(2)), form)


def expm1(x: Any, form: Any) -> Any:
    """e ** x - 1."""
    a, b = x
    re, im = exp(x, form)
    half = np.sin(b * 0.5)
    near = np.expm1(a) * np.cos(b) - 2 * half * half
    re = np.where((b == 0) | (a == -math.inf), np.expm1(a), np.where(abs(a) < 1, near, re - 1))
    return np.where(re == 0, 0.0, re), im


def log(x: Any, form: Any) -> Any:
    """Natural logarithm."""
    a, b = abs(x[0]), abs(x[1])
    large, small = max(a, b), min(a, b)
    scale = np.where(large > form.BIG, form.SMALL, np.where(large < form.SMALL, form.BIG, 1.0))
    shift = np.where(large > form.BIG, math.log(form.BIG), np.where(large < form.SMALL, math.log(form.SMALL), 0.0))
    far = np.log(np.hypot(a * scale, b * scale)) + shift
    near = np.log1p((large - 1) * (large + 1) + small * small) * 0.5
    is_near = (large > 0.5) & (large < 2) & ~isnan(x)
    return np.where(is_near, near, far), np.arctan2(x[1], x[0])


def log1p(x: Any, form: Any) -> Any:
    """log(1 + x)."""
    a, b = x
    far = log((1 + a, b), form)
    near = np.log1p(a * (2 + a) + b * b) * 0.5
    return np.where((abs(a) < 0.5) & (abs(b) < 0.5), near, far[0]), far[1]


def log2(x: Any, form: Any) -> Any:
    """Logarithm to base 2."""
    re, im = log(x, form)
    return re * (1 / math.log(2)), im * (1 / math.log(2))


def log10(x: Any, form: Any) -> Any:
    """Logarithm to base 10."""
    re, im = log(x, form)
    return re * (1 / math.log(10)), im * (1 / math.log(10))


def sqrt(x: Any, form: Any) -> Any:
    """Square root."""
    large = max(abs(x[0]), abs(x[1]))
    big, small = large > form.BIG, large < form.SMALL
    scale = np.where(big, form.SMALL, np.where(small, form.BIG, 1.0))
    root = np.where(big, math.sqrt(form.BIG), np.where(small, math.sqrt(form.SMALL), 1.0))
    a, b = x[0] * scale, x[1] * scale
    size = np.sqrt((abs(a) + np.hypot(a, b)) * 0.5)
    other = np.where(size == 0, abs(b), abs(b) * 0.5 / size)
    is_left = a < 0
    re = np.where(is_left, other, size) * root
    im = np.copysign(np.where(is_left, size, other), b) * root
    a, b = x
    re = np.where(a == -math.inf, np.where(np.isnan(b), b, 0.0), np.where(a == math.inf, a, re))
    im = np.where(a == -math.inf, np.copysign(math.inf, b), im)
    im = np.where(a == math.inf, np.where(np.isnan(b), b, np.copysign(0.0, b)), np.where(np.isnan(a), a, im))
    return np.where(np.isinf(b), math.inf, re), np.where(np.isinf(b), b, im)


def _without_overflow(a: Any, form: Any) -> Any:
    """Returns a number whose exponential is finite, and a factor: exp(a) is the exponential of one times the other."""
    size = abs(a)
    extra = np.where(size > form.EXP, min(size - form.EXP, form.EXP), 0.0)
    return np.copysign(size - extra, a), np.where(extra > 0, np.exp(extra), 1.0)


def cosh(x: Any, form: Any) -> Any:
    """Hyperbolic cosine."""
    a, b = x
    rest, factor = _without_overflow(a, form)
    sine = np.sin(b)
    re, im = np.cosh(rest) * np.cos(b) * factor, np.sinh(rest) * sine * factor
    re = np.where(b == 0, np.cosh(a), np.where(np.isinf(a) & ~np.isfinite(b), math.inf, re))
    zero = np.copysign(0.0, np.where(np.isnan(a), 0.0, a))
    zero *= np.copysign(1.0, np.where((b != 0) & np.isfinite(b), sine, b))
    return re, np.where((a == 0) | (b == 0), zero, im)


def sinh(x: Any, form: Any) -> Any:
    """Hyperbolic sine."""
    a, b = x
    rest, factor = _without_overflow(a, form)
    cosine, unknown = np.cos(b), ~np.isfinite(b)
    re, im = np.sinh(rest) * cosine * factor, np.cosh(rest) * np.sin(b) * factor
    zero = np.where(unknown, a, np.copysign(0.0, a) * np.copysign(1.0, cosine))
    re = np.where(b == 0, np.sinh(a), np.where(a == 0, zero, np.where(np.isinf(a) & unknown, a, re)))
    return re, np.where(b == 0, b, im)


def tanh(x: Any, form: Any) -> Any:
    """Hyperbolic tangent, by Kahan's algorithm."""
    a, b = x
    tangent = np.tan(b)
    size = np.where(np.isnan(a), a, np.sinh(max(min(a, form.FLAT), -form.FLAT)))
    beta, rho = 1 + tangent * tangent, np.sqrt(1 + size * size)
    below = 1 + beta * size * size
    re, im = beta * rho * size / below, tangent / below
    flat = abs(a) > form.FLAT
    re = np.where(flat & ~(np.isnan(b) | np.isinf(b)) | np.isinf(a), np.copysign(1.0, a), re)
    wave = np.sin(b) * np.cos(b)
    zero = np.copysign(0.0, np.where(np.isfinite(b), wave, b))
    im = np.where(np.isinf(a), zero, np.where(flat, 4 * wave * np.exp(-2 * abs(a)), im))
    re = np.where(a == 0, a, np.where((b == 0) & np.isnan(a), a, re))
    return re, np.where(b == 0, b, im)


def sin(x: Any, form: Any) -> Any:
    """Sine."""
    re, im = sinh((-x[1], x[0]), form)
    return im, -re


def cos(x: Any, form: Any) -> Any:
    """Cosine."""
    return cosh((-x[1], x[0]), form)


def tan(x: Any, form: Any) -> Any:
    """Tangent."""
    re, im = tanh((-x[1], x[0]), form)
    return im, -re


def _distant(x: Any, form: Any) -> Any:
    """log(2 * |x|) of a large number."""
    scale = form.SMALL
    return np.log(np.hypot(x[0] * scale, x[1] * scale)) + (math.log(form.BIG) + math.log(2))


def arccos(x: Any, form: Any) -> Any:
    """Inverse cosine, by Kahan's formula."""
    a, b = x
    one, other = sqrt((1 - a, -b), form), sqrt((1 + a, b), form)
    re = 2 * np.arctan2(one[0], other[0])
    im = np.arcsinh(other[0] * one[1] - other[1] * one[0])
    far = (abs(a) > form.FAR) | (abs(b) > form.FAR)
    re = np.where(a == 0, math.pi / 2, np.where(far, np.arctan2(abs(b), a), re))
    return re, np.where(far, -np.copysign(_distant(x, form), b), im)


def arcsin(x: Any, form: Any) -> Any:
    """Inverse sine, by Kahan's formula."""
    a, b = x
    one, other = sqrt((1 - a, -b), form), sqrt((1 + a, b), form)
    re = np.arctan2(a, one[0] * other[0] - one[1] * other[1])
    im = np.arcsinh(one[0] * other[1] - one[1] * other[0])
    far = (abs(a) > form.FAR) | (abs(b) > form.FAR)
    re = np.where(a == 0, a, np.where(far, np.arctan2(a, abs(b)), re))
    im = np.where(far, np.copysign(_distant(x, form), b), im)
    near = (abs(a) < 1 / form.FAR) & (abs(b) < 1 / form.FAR)  # products of small parts would underflow
    im = np.where(near | ((b == 0) & (abs(a) <= 1)), b, im)
    return np.where(near, a, re), im


def arcsinh(x: Any, form: Any) -> Any:
    """Inverse hyperbolic sine."""
    re, im = arcsin((x[1], -x[0]), form)
    return -im, re


def arccosh(x: Any, form: Any) -> Any:
    """Inverse hyperbolic cosine."""
    re, im = arccos(x, form)
    return abs(im), np.copysign(re, x[1])


def arctanh(x: Any, form: Any) -> Any:
    """Inverse hyperbolic tangent."""
    a, b, size = x[0], x[1], abs(x[0])
    distance = np.hypot(1 - size, b)
    near = np.log(np.hypot(1 + size, b)) - np.log(distance)
    squared = (1 - size) * (1 - size) + b * b
    re = np.where(distance < form.SMALL, near * 0.5, np.log1p(4 * size / squared) * 0.25)
    im = np.arctan2(2 * b, (1 - size) * (1 + size) - b * b) * 0.5
    far = (size > form.FAR) | (abs(b) > form.FAR)
    modulus = np.hypot(a, b)
    re = np.where(far, np.where(np.isinf(modulus), 0.0, size / modulus / modulus), re)
    im = np.where(far & ~np.isnan(b), np.copysign(math.pi / 2, b), np.where(far, b, im))
    im = np.where(np.isnan(a) & ~np.isinf(b), a, im)
    return np.where(a == 0, a, np.copysign(re, a)), im


def arctan(x: Any, form: Any) -> Any:
    """Inverse tangent."""
    re, im = arctanh((-x[1], x[0]), form)
    return im, -re


def power(x: Any, y: Any, form: Any) -> Any:
    """x ** y: products for whole numbers below 100, else exp(y * log(x))."""
    found = exp(multiply(y, log(x, form)), form)
    n = abs(y[0])
    if (y[1] == 0) & (n < 100) & (np.trunc(n) == n):
        left, base, whole = np.int32(n), x, (n * 0 + 1, n * 0)
        lowest = left & -left  # a product with 1 would make NaN of infinite parts
        for k in (1, 2, 4, 8, 16, 32, 64):
            if left & k != 0:
                whole = _either(lowest == k, base, multiply(whole, base))
            base = square(base)
        found = whole
        if y[0] < 0:
            found = divide((1.0, 0.0), whole)
    if (x[0] == 0) & (x[1] == 0) & ((y[0] != 0) | (y[1] != 0)):
        nothing = np.where(y[0] > 0, 0.0, math.nan) * abs(x[0] * 0 + 1)
        found = nothing, nothing
    return found
