"""Functions of complex numbers, which are pairs of the real and the imaginary part.

Special values are those of C99, annex G, as the Array API standard has them. Branch cuts follow the sign of zero.
Sources: W. Kahan, Branch Cuts for Complex Elementary Functions (1987); R. L. Smith, Algorithm 116 (1962).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from vkcompute.ir.types import INT32


class _Limits(NamedTuple):
    """Limits of the parts.

    Attributes:
        exp: a number below the logarithm of the largest float; twice it is beyond the largest.
        big, small: powers of 4. Squares of numbers between them neither overflow nor lose digits.
        far: 1 + far**2 == far**2, and its square is finite.
        flat: tanh is 1 for it.
    """

    exp: float
    big: float
    small: float
    far: float
    flat: float


_LIMITS = {32: _Limits(80.0, 2.0**60, 2.0**-60, 2.0**20, 12.0), 64: _Limits(700.0, 2.0**500, 2.0**-500, 2.0**40, 24.0)}


def _limits(x: Any) -> _Limits:
    return _LIMITS[x[0].kind.bits]


def add(f: Any, x: Any, y: Any) -> Any:
    """x + y."""
    return x[0] + y[0], x[1] + y[1]


def subtract(f: Any, x: Any, y: Any) -> Any:
    """x - y."""
    return x[0] - y[0], x[1] - y[1]


def multiply(f: Any, x: Any, y: Any) -> Any:
    """x * y."""
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def divide(f: Any, x: Any, y: Any) -> Any:
    """x / y, by Smith's algorithm, as in NumPy."""
    a, b, c, d = x[0], x[1], y[0], y[1]
    swap = abs(c) < abs(d)
    large, small = f.where(swap, d, c), f.where(swap, c, d)
    is_zero = (c == 0) & (d == 0)
    ratio = f.where(is_zero, 0.0, small / large)
    scale = large + small * ratio
    p, q = f.where(swap, b, a), f.where(swap, a, b)
    re, im = (p + q * ratio) / scale, f.where(swap, p * ratio - q, q - p * ratio) / scale
    return f.where(is_zero, a / abs(c), re), f.where(is_zero, b / abs(c), im)


def reciprocal(f: Any, x: Any) -> Any:
    """1 / x, by Smith's algorithm, with the signs of zero of the conjugate."""
    swap = abs(x[0]) <= abs(x[1])
    large, small = f.where(swap, x[1], x[0]), f.where(swap, x[0], x[1])
    ratio = small / large
    scale = large + small * ratio
    one, other = 1.0 / scale, ratio / scale
    is_zero = (x[0] == 0) & (x[1] == 0)
    re, im = f.where(swap, other, one), f.where(swap, -one, -other)
    return f.where(is_zero, math.inf, re), f.where(is_zero, math.nan, im)


def negative(f: Any, x: Any) -> Any:
    """-x."""
    return -x[0], -x[1]


def conjugate(f: Any, x: Any) -> Any:
    """The number with the other sign of the imaginary part."""
    return x[0], -x[1]


def square(f: Any, x: Any) -> Any:
    """x * x."""
    return x[0] * x[0] - x[1] * x[1], x[0] * x[1] + x[1] * x[0]


def equal(f: Any, x: Any, y: Any) -> Any:
    """True if both parts are equal."""
    return (x[0] == y[0]) & (x[1] == y[1])


def not_equal(f: Any, x: Any, y: Any) -> Any:
    """True if a part differs."""
    return (x[0] != y[0]) | (x[1] != y[1])


def less(f: Any, x: Any, y: Any) -> Any:
    """True if `x` precedes `y` by real parts, or for equal ones by imaginary parts, as in NumPy; False for NaN."""
    is_number = ~(f.isnan(x[1]) | f.isnan(y[1]))
    return ((x[0] < y[0]) & is_number) | ((x[0] == y[0]) & (x[1] < y[1]))


def less_equal(f: Any, x: Any, y: Any) -> Any:
    """True if `x` precedes `y` as for `less`, or is equal."""
    return less(f, x, y) | equal(f, x, y)


def greater(f: Any, x: Any, y: Any) -> Any:
    """True if `y` precedes `x`."""
    return less(f, y, x)


def greater_equal(f: Any, x: Any, y: Any) -> Any:
    """True if `y` precedes `x` or is equal."""
    return less_equal(f, y, x)


def _either(f: Any, first: Any, x: Any, y: Any) -> Any:
    return f.where(first, x[0], y[0]), f.where(first, x[1], y[1])


def maximum(f: Any, x: Any, y: Any) -> Any:
    """The later of two numbers in the order of `less`; the first NaN if there is one."""
    return _either(f, isnan(f, x) | less_equal(f, y, x), x, y)


def minimum(f: Any, x: Any, y: Any) -> Any:
    """The earlier of two numbers in the order of `less`; the first NaN if there is one."""
    return _either(f, isnan(f, x) | less_equal(f, x, y), x, y)


def fmax(f: Any, x: Any, y: Any) -> Any:
    """The later of two numbers in the order of `less`; NaN if both are."""
    return _either(f, isnan(f, y) | less_equal(f, y, x), x, y)


def fmin(f: Any, x: Any, y: Any) -> Any:
    """The earlier of two numbers in the order of `less`; NaN if both are."""
    return _either(f, isnan(f, y) | less_equal(f, x, y), x, y)


def isnan(f: Any, x: Any) -> Any:
    """True if a part is NaN."""
    return f.isnan(x[0]) | f.isnan(x[1])


def isinf(f: Any, x: Any) -> Any:
    """True if a part is infinite."""
    return f.isinf(x[0]) | f.isinf(x[1])


def isfinite(f: Any, x: Any) -> Any:
    """True if both parts are finite."""
    return f.isfinite(x[0]) & f.isfinite(x[1])


def truth(f: Any, x: Any) -> Any:
    """True unless both parts are 0."""
    return (x[0] != 0) | (x[1] != 0)


def absolute(f: Any, x: Any) -> Any:
    """The distance from 0."""
    return f.hypot(x[0], x[1])


def angle(f: Any, x: Any) -> Any:
    """The angle from the positive real axis."""
    return f.arctan2(x[1], x[0])


def rint(f: Any, x: Any) -> Any:
    """The number with both parts rounded, halves to even."""
    return f.rint(x[0]), f.rint(x[1])


def sign(f: Any, x: Any) -> Any:
    """x / |x|; 0 for 0."""
    infinite, scale = isinf(f, x), f.where(f.isinf(f.hypot(x[0], x[1])), 0.25, f.number(1, x[0].kind))
    a = f.where(infinite, f.where(f.isinf(x[0]), f.copysign(1.0, x[0]), 0.0), x[0] * scale)
    b = f.where(infinite, f.where(f.isinf(x[1]), f.copysign(1.0, x[1]), 0.0), x[1] * scale)
    size = f.hypot(a, b)
    return f.where(size == 0, 0.0, a / size), f.where(size == 0, 0.0, b / size)


def exp(f: Any, x: Any) -> Any:
    """e ** x."""
    limits = _limits(x)
    a, b = x
    # e ** a may overflow where the result does not
    extra = f.where(a > limits.exp, f.op("min", a - limits.exp, limits.exp), 0.0)
    size, factor = f.exp(a - extra), f.exp(extra)
    unknown = ~f.isfinite(b)
    re = f.where(b == 0, size * factor, size * f.cos(b) * factor)
    im = f.where(b == 0, b, size * f.sin(b) * factor)
    re = f.where(unknown & (a == math.inf), a, f.where(unknown & (a == -math.inf), 0.0, re))
    return re, f.where(unknown & (a == -math.inf), f.copysign(0.0, b), im)


def exp2(f: Any, x: Any) -> Any:
    """2**x."""
    return exp(f, (x[0] * math.log(2), x[1] * math.log(2)))


def expm1(f: Any, x: Any) -> Any:
    """e ** x - 1."""
    a, b = x
    re, im = exp(f, x)
    half = f.sin(b * 0.5)
    near = f.expm1(a) * f.cos(b) - 2 * half * half
    re = f.where((b == 0) | (a == -math.inf), f.expm1(a), f.where(abs(a) < 1, near, re - 1))
    return f.where(re == 0, 0.0, re), im


def log(f: Any, x: Any) -> Any:
    """Natural logarithm."""
    limits = _limits(x)
    a, b = abs(x[0]), abs(x[1])
    large, small = f.op("max", a, b), f.op("min", a, b)
    scale = f.where(large < limits.small, limits.big, f.number(1, large.kind))
    scale = f.where(large > limits.big, limits.small, scale)
    shift = f.where(large < limits.small, math.log(limits.small), f.number(0, large.kind))
    shift = f.where(large > limits.big, math.log(limits.big), shift)
    far = f.log(f.hypot(a * scale, b * scale)) + shift
    near = f.log1p((large - 1) * (large + 1) + small * small) * 0.5
    is_near = (large > 0.5) & (large < 2) & ~isnan(f, x)
    return f.where(is_near, near, far), f.arctan2(x[1], x[0])


def log1p(f: Any, x: Any) -> Any:
    """log(f, 1 + x)."""
    a, b = x
    far = log(f, (1 + a, b))
    near = f.log1p(a * (2 + a) + b * b) * 0.5
    return f.where((abs(a) < 0.5) & (abs(b) < 0.5), near, far[0]), far[1]


def log2(f: Any, x: Any) -> Any:
    """Logarithm to base 2."""
    re, im = log(f, x)
    return re * (1 / math.log(2)), im * (1 / math.log(2))


def log10(f: Any, x: Any) -> Any:
    """Logarithm to base 10."""
    re, im = log(f, x)
    return re * (1 / math.log(10)), im * (1 / math.log(10))


def sqrt(f: Any, x: Any) -> Any:
    """Square root."""
    limits = _limits(x)
    large = f.op("max", abs(x[0]), abs(x[1]))
    big, small = large > limits.big, large < limits.small
    scale = f.where(big, limits.small, f.where(small, limits.big, f.number(1, large.kind)))
    root = f.where(small, math.sqrt(limits.small), f.number(1, large.kind))
    root = f.where(big, math.sqrt(limits.big), root)
    a, b = x[0] * scale, x[1] * scale
    size = f.sqrt((abs(a) + f.hypot(a, b)) * 0.5)
    other = f.where(size == 0, abs(b), abs(b) * 0.5 / size)
    is_left = a < 0
    re = f.where(is_left, other, size) * root
    im = f.copysign(f.where(is_left, size, other), b) * root
    a, b = x
    re = f.where(a == -math.inf, f.where(f.isnan(b), b, 0.0), f.where(a == math.inf, a, re))
    im = f.where(a == -math.inf, f.copysign(math.inf, b), im)
    im = f.where(a == math.inf, f.where(f.isnan(b), b, f.copysign(0.0, b)), f.where(f.isnan(a), a, im))
    return f.where(f.isinf(b), math.inf, re), f.where(f.isinf(b), b, im)


def _without_overflow(f: Any, a: Any) -> Any:
    """Returns a number whose exponential is finite, and a factor: exp(a) is that exponential times the factor."""
    limits = _limits((a,))
    size = abs(a)
    extra = f.where(size > limits.exp, f.op("min", size - limits.exp, limits.exp), 0.0)
    return f.copysign(size - extra, a), f.where(extra > 0, f.exp(extra), 1.0)


def cosh(f: Any, x: Any) -> Any:
    """Hyperbolic cosine."""
    a, b = x
    rest, factor = _without_overflow(f, a)
    sine = f.sin(b)
    re, im = f.cosh(rest) * f.cos(b) * factor, f.sinh(rest) * sine * factor
    re = f.where(b == 0, f.cosh(a), f.where(f.isinf(a) & ~f.isfinite(b), math.inf, re))
    zero = f.copysign(0.0, f.where(f.isnan(a), 0.0, a))
    zero *= f.copysign(1.0, f.where((b != 0) & f.isfinite(b), sine, b))
    return re, f.where((a == 0) | (b == 0), zero, im)


def sinh(f: Any, x: Any) -> Any:
    """Hyperbolic sine."""
    a, b = x
    rest, factor = _without_overflow(f, a)
    cosine, unknown = f.cos(b), ~f.isfinite(b)
    re, im = f.sinh(rest) * cosine * factor, f.cosh(rest) * f.sin(b) * factor
    zero = f.where(unknown, a, f.copysign(0.0, a) * f.copysign(1.0, cosine))
    re = f.where(b == 0, f.sinh(a), f.where(a == 0, zero, f.where(f.isinf(a) & unknown, a, re)))
    return re, f.where(b == 0, b, im)


def tanh(f: Any, x: Any) -> Any:
    """Hyperbolic tangent, by Kahan's algorithm."""
    limits = _limits(x)
    a, b = x
    tangent = f.tan(b)
    size = f.where(f.isnan(a), a, f.sinh(f.op("max", f.op("min", a, limits.flat), -limits.flat)))
    beta, rho = 1 + tangent * tangent, f.sqrt(1 + size * size)
    below = 1 + beta * size * size
    re, im = beta * rho * size / below, tangent / below
    flat = abs(a) > limits.flat
    re = f.where(flat & ~(f.isnan(b) | f.isinf(b)) | f.isinf(a), f.copysign(1.0, a), re)
    wave = f.sin(b) * f.cos(b)
    zero = f.copysign(0.0, f.where(f.isfinite(b), wave, b))
    im = f.where(f.isinf(a), zero, f.where(flat, 4 * wave * f.exp(-2 * abs(a)), im))
    re = f.where(a == 0, a, f.where((b == 0) & f.isnan(a), a, re))
    return re, f.where(b == 0, b, im)


def sin(f: Any, x: Any) -> Any:
    """Sine."""
    re, im = sinh(f, (-x[1], x[0]))
    return im, -re


def cos(f: Any, x: Any) -> Any:
    """Cosine."""
    return cosh(f, (-x[1], x[0]))


def tan(f: Any, x: Any) -> Any:
    """Tangent."""
    re, im = tanh(f, (-x[1], x[0]))
    return im, -re


def _distant(f: Any, x: Any) -> Any:
    """log(f, 2 * |x|) of a large number."""
    limits = _limits(x)
    scale = limits.small
    return f.log(f.hypot(x[0] * scale, x[1] * scale)) + (math.log(limits.big) + math.log(2))


def arccos(f: Any, x: Any) -> Any:
    """Inverse cosine, by Kahan's formula."""
    limits = _limits(x)
    a, b = x
    one, other = sqrt(f, (1 - a, -b)), sqrt(f, (1 + a, b))
    re = 2 * f.arctan2(one[0], other[0])
    im = f.arcsinh(other[0] * one[1] - other[1] * one[0])
    far = (abs(a) > limits.far) | (abs(b) > limits.far)
    re = f.where(a == 0, math.pi / 2, f.where(far, f.arctan2(abs(b), a), re))
    return re, f.where(far, -f.copysign(_distant(f, x), b), im)


def arcsin(f: Any, x: Any) -> Any:
    """Inverse sine, by Kahan's formula."""
    limits = _limits(x)
    a, b = x
    one, other = sqrt(f, (1 - a, -b)), sqrt(f, (1 + a, b))
    re = f.arctan2(a, one[0] * other[0] - one[1] * other[1])
    im = f.arcsinh(one[0] * other[1] - one[1] * other[0])
    far = (abs(a) > limits.far) | (abs(b) > limits.far)
    re = f.where(a == 0, a, f.where(far, f.arctan2(a, abs(b)), re))
    im = f.where(far, f.copysign(_distant(f, x), b), im)
    near = (abs(a) < 1 / limits.far) & (abs(b) < 1 / limits.far)  # products of small parts would underflow
    im = f.where(near | ((b == 0) & (abs(a) <= 1)), b, im)
    return f.where(near, a, re), im


def arcsinh(f: Any, x: Any) -> Any:
    """Inverse hyperbolic sine."""
    re, im = arcsin(f, (x[1], -x[0]))
    return -im, re


def arccosh(f: Any, x: Any) -> Any:
    """Inverse hyperbolic cosine."""
    re, im = arccos(f, x)
    return abs(im), f.copysign(re, x[1])


def arctanh(f: Any, x: Any) -> Any:
    """Inverse hyperbolic tangent."""
    limits = _limits(x)
    a, b, size = x[0], x[1], abs(x[0])
    distance = f.hypot(1 - size, b)
    near = f.log(f.hypot(1 + size, b)) - f.log(distance)
    squared = (1 - size) * (1 - size) + b * b
    re = f.where(distance < limits.small, near * 0.5, f.log1p(4 * size / squared) * 0.25)
    im = f.arctan2(2 * b, (1 - size) * (1 + size) - b * b) * 0.5
    far = (size > limits.far) | (abs(b) > limits.far)
    modulus = f.hypot(a, b)
    re = f.where(far, f.where(f.isinf(modulus), 0.0, size / modulus / modulus), re)
    im = f.where(far & ~f.isnan(b), f.copysign(math.pi / 2, b), f.where(far, b, im))
    im = f.where(f.isnan(a) & ~f.isinf(b), a, im)
    return f.where(a == 0, a, f.copysign(re, a)), im


def arctan(f: Any, x: Any) -> Any:
    """Inverse tangent."""
    re, im = arctanh(f, (-x[1], x[0]))
    return im, -re


def power(f: Any, x: Any, y: Any) -> Any:
    """x ** y: products for whole numbers below 100, else exp(y * log(x))."""
    result = exp(f, multiply(f, y, log(f, x)))
    n = abs(y[0])
    is_whole = (y[1] == 0) & (n < 100) & (f.trunc(n) == n)
    product = _product(f, x, f.to(f.where(is_whole, n, 0), INT32))
    one, zero = [f.number(number, n.kind) for number in (1, 0)]
    product = _either(f, y[0] < 0, divide(f, (one, zero), product), product)
    result = _either(f, is_whole, product, result)
    nothing = f.where(y[0] > 0, zero, f.number(math.nan, n.kind)) * abs(x[0] * 0 + 1)
    of_zero = (x[0] == 0) & (x[1] == 0) & ((y[0] != 0) | (y[1] != 0))
    return _either(f, of_zero, (nothing, nothing), result)


def _product(f: Any, base: Any, n: Any) -> Any:
    """base ** n of a whole number below 128."""
    result: Any = tuple([f.number(number, base[0].kind) for number in (1, 0)])
    lowest = n & -n  # a product with 1 would make NaN of infinite parts
    for k in (1, 2, 4, 8, 16, 32, 64):
        larger = _either(f, lowest == k, base, multiply(f, result, base))
        result = _either(f, (n & k) != 0, larger, result)
        base = square(f, base)
    return result
