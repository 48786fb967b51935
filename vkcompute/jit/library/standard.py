"""Functions without an instruction, in the kernel language; they are compiled in the place where they are called."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vkcompute.jit.library.elementary import bits, number, signed


def degrees(x: Any) -> Any:
    """Converts radians to degrees."""
    return x * (180 / math.pi)


def radians(x: Any) -> Any:
    """Converts degrees to radians."""
    return x * (math.pi / 180)


def copysign(x: Any, y: Any, form: Any) -> Any:
    """Magnitude of x with the sign of y."""
    return signed(number(bits(x) & (form.SIGN - 1)), y, form)


def isfinite(x: Any) -> Any:
    """True if x is neither infinite nor NaN."""
    return not (math.isinf(x) or math.isnan(x))


def maximum(x: Any, y: Any) -> Any:
    """Larger of two floats; NaN if one is NaN, which the instruction may lose."""
    return np.where((x > y) | np.isnan(x), x, y)


def minimum(x: Any, y: Any) -> Any:
    """Smaller of two floats; NaN if one is NaN."""
    return np.where((x < y) | np.isnan(x), x, y)


def reciprocal(x: Any) -> Any:
    """1 / x of integers, truncated: 0 except for 1 and -1."""
    return np.where(abs(x) == 1, x, 0)


def square(x: Any) -> Any:
    """x²."""
    return x * x


class Half:
    """Bit format of float16, with the names that coefficients.py has for the other types."""

    real, uint, sint = np.float16, np.uint16, np.int16
    WIDTH, SHIFT, BIAS, INF, ONE, SIGN = 16, 10, 15, 0x7C00, 0x3C00, 0x8000


def signbit(x: Any, form: Any) -> Any:
    """True if x is negative or -0."""
    return bits(x) >= form.SIGN


def remainder(x: Any, y: Any, form: Any) -> Any:
    """x minus the nearest multiple of y, ties to the even one (IEEE 754 remainder)."""
    size = abs(y)
    rest = math.fmod(abs(x), size + size)  # all that follows is exact
    less = rest - size
    found = np.where(rest + rest <= size, rest, np.where(less + less < size, less, less - size))
    return np.where(np.isnan(rest), rest, number(bits(found) ^ (bits(x) & form.SIGN)))


def frexp(x: Any, form: Any) -> Any:
    """m in [1/2, 1) and n such that x = m * 2 ** n."""
    size = bits(x) & (form.SIGN - 1)
    tiny = size < 1 << form.SHIFT
    u = np.where(tiny, bits(form.real(size)), size)
    n = np.int32(u >> form.SHIFT) + np.where(tiny, 2 - 2 * form.BIAS - form.SHIFT, 1 - form.BIAS)
    m = number((u & ((1 << form.SHIFT) - 1)) | (form.ONE - (1 << form.SHIFT)) | (bits(x) & form.SIGN))
    as_is = (size == 0) | (size >= form.INF)
    return np.where(as_is, x, m), np.where(as_is, 0, n)


def ldexp(x: Any, n: Any, form: Any) -> Any:
    """x * 2 ** n, in two steps, since 2 ** n may overflow; only the last one rounds."""
    most = form.BIAS + form.SHIFT + 1
    fraction, exponent = frexp(x, form)
    n = np.int32(min(max(n, -3 * most), 3 * most)) + exponent
    n = min(max(n, -most), most)
    first = number(form.uint((n >> 1) + form.BIAS) << form.SHIFT)
    return fraction * first * number(form.uint(n - (n >> 1) + form.BIAS) << form.SHIFT)


def modf(x: Any, form: Any) -> Any:
    """Fractional and integral part, both with the sign of x."""
    whole = np.trunc(x)
    return signed(np.where(np.isinf(x), 0, abs(x - whole)), x, form), whole


def nextafter(x: Any, y: Any, form: Any) -> Any:
    """Next representable number from x towards y; y where they are equal, as -0.0 and 0.0 are."""
    size, other = bits(x) & (form.SIGN - 1), bits(y) & (form.SIGN - 1)
    here = np.where(signbit(x, form), -form.sint(size), form.sint(size))
    there = np.where(signbit(y, form), -form.sint(other), form.sint(other))
    step = np.where(here < there, here + 1, here - 1)
    sign = np.where((step < 0) | ((step == 0) & signbit(x, form)), form.uint(form.SIGN), form.uint(0))
    found = np.where(here == there, y, number(form.uint(abs(step)) | sign))
    return np.where((size > form.INF) | (other > form.INF), x + y, found)


def ulp(x: Any, form: Any) -> Any:
    """Unit in the last place of x."""
    size = bits(x) & (form.SIGN - 1)
    n = np.int32(max(size >> form.SHIFT, 1))
    normal = form.uint(max(n - form.SHIFT, 0)) << form.SHIFT
    unit = np.where(n > form.SHIFT, normal, form.uint(1) << form.uint(min(n, form.SHIFT) - 1))
    return number(np.where(size >= form.INF, size, unit))


def spacing(x: Any, form: Any) -> Any:
    """Distance from x to the adjacent number of larger magnitude, as numpy.spacing."""
    size = bits(x) & (form.SIGN - 1)
    unit = np.where(size == form.INF - 1, form.real(math.inf), ulp(x, form))
    return np.where(np.isinf(x), form.real(math.nan), np.where(x == 0, unit, signed(unit, x, form)))


def half_spacing(x: Any, form: Any) -> Any:
    """`spacing` as numpy has it for float16: the distance to the next number above x, also below 0."""
    below = (x < 0) & np.logical_not(np.isinf(x))
    return np.where(below, ulp(number(bits(x) - form.uint(below)), form), spacing(x, form))


def isclose(a: Any, b: Any, *, rel_tol: Any = 1e-9, abs_tol: Any = 0.0) -> Any:
    """math.isclose."""
    far = np.isinf(a) | np.isinf(b)
    return (a == b) | ((not far) & (abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol)))


def isclose_to(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: Any = False) -> Any:
    """numpy.isclose."""
    near = (a == b) | ((not np.isinf(b)) & (abs(a - b) <= atol + rtol * abs(b)))
    return near | (np.isnan(a) & np.isnan(b) & equal_nan)


def around(a: Any, decimals: Any = 0) -> Any:
    """numpy.round."""
    return np.round(a, decimals)


def to_decimals(x: Any, factor: Any) -> Any:
    """Rounds a float to multiples of 1 / factor as numpy; x itself is one if the product overflows."""
    scaled = x * factor
    return np.where(np.isinf(scaled), x, np.rint(scaled) / factor)


def to_powers_of_ten(x: Any, factor: Any) -> Any:
    """Rounds a float to multiples of factor as numpy."""
    return np.rint(x / factor) * factor


def to_multiples(x: Any, factor: Any) -> Any:
    """Rounds an integer to multiples of factor, halves to even ones."""
    rest = x % factor
    down = x - rest
    half = (rest == factor - rest) & (x // factor % 2 == 1)
    return np.where((rest > factor - rest) | half, down + factor, down)


def gcd(a: Any, b: Any) -> Any:
    """Greatest common divisor of unsigned integers."""
    while b != 0:
        a, b = b, a % b
    return a


def lcm(a: Any, b: Any) -> Any:
    """Least common multiple of unsigned integers."""
    return a // max(gcd(a, b), 1) * b


def isqrt(n: Any, bit: Any) -> Any:
    """Integer square root, bit by bit; `bit` is the square of the highest bit that the root may have."""
    root = n - n
    while bit > 0:
        larger = n >= root + bit
        n = np.where(larger, n - root - bit, n)
        root = np.where(larger, (root >> 1) + bit, root >> 1)
        bit = bit >> 2
    return root


def heaviside(x: Any, y: Any) -> Any:
    """Step function: 0 for x < 0, y for x == 0, 1 for x > 0."""
    return np.where(np.isnan(x), x, np.where(x < 0, 0, np.where(x == 0, y, 1)))


def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x)."""
    y = np.where(x == 0, 1, x) * math.pi
    return np.where(x == 0, 1, np.sin(y) / y)


def fmin(x: Any, y: Any) -> Any:
    """Smaller of two floats; the other one if one is NaN."""
    return np.where((x < y) | np.isnan(y), x, y)


def fmax(x: Any, y: Any) -> Any:
    """Larger of two floats; the other one if one is NaN."""
    return np.where((x > y) | np.isnan(y), x, y)


def logaddexp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y))."""
    return np.where(x == y, x + math.log(2), max(x, y) + np.log1p(np.exp(-abs(x - y))))


def logaddexp2(x: Any, y: Any) -> Any:
    """log2(2 ** x + 2 ** y)."""
    return np.where(x == y, x + 1, max(x, y) + np.log1p(np.exp2(-abs(x - y))) / math.log(2))
