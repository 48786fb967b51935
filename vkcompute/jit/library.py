"""Functions that have no instruction, written in the language of kernels and compiled where they are called."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vkcompute.jit.elementary import bits, number, signed


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


def float_modulo(x: Any, y: Any) -> Any:
    """x % y of floats, as numpy's remainder."""
    rest = math.fmod(x, y)
    return np.where(rest == 0, np.where(y < 0, -0.0, 0.0), np.where((rest < 0) != (y < 0), rest + y, rest))


def float_floor_divide(x: Any, y: Any) -> Any:
    """x // y of floats, as numpy's floor_divide."""
    rest = math.fmod(x, y)
    quotient = (x - rest) / y
    quotient = np.where((rest != 0) & ((rest < 0) != (y < 0)), quotient - 1, quotient)
    whole = np.floor(quotient)
    whole = np.where(quotient - whole > 0.5, whole + 1, whole)  # it was a whole number before it was rounded
    return np.where((x == 0) | (y == 0), x / y, np.where(quotient == 0, 0.0, whole))


def degrees(x: Any) -> Any:
    """Radians in degrees."""
    return x * (180 / math.pi)


def radians(x: Any) -> Any:
    """Degrees in radians."""
    return x * (math.pi / 180)


def copysign(x: Any, y: Any, form: Any) -> Any:
    """The size of x with the sign of y."""
    return signed(number(bits(x) & (form.SIGN - 1)), y, form)


def isfinite(x: Any) -> Any:
    """Whether x is neither infinite nor nan."""
    return not (math.isinf(x) or math.isnan(x))


def maximum(x: Any, y: Any) -> Any:
    """The larger of two floats; NaN where one is, which the devices' own may lose."""
    return np.where((x > y) | np.isnan(x), x, y)


def minimum(x: Any, y: Any) -> Any:
    """The smaller of two floats; NaN where one is."""
    return np.where((x < y) | np.isnan(x), x, y)


def reciprocal(x: Any) -> Any:
    """1 / x of integers, which truncates: 0 but for 1 and -1."""
    return np.where(abs(x) == 1, x, 0)


def square(x: Any) -> Any:
    """x²."""
    return x * x


class Half:
    """What coefficients.py has of the other types' bits."""

    real, uint, sint = np.float16, np.uint16, np.int16
    WIDTH, SHIFT, BIAS, INF, ONE, SIGN = 16, 10, 15, 0x7C00, 0x3C00, 0x8000


def signbit(x: Any, form: Any) -> Any:
    """Whether it is negative, or -0."""
    return bits(x) >= form.SIGN


def remainder(x: Any, y: Any, form: Any) -> Any:
    """x less the multiple of y that is next to it, of two the even one, as IEEE 754 has it."""
    size = abs(y)
    rest = math.fmod(abs(x), size + size)  # of which nothing below is rounded
    less = rest - size
    found = np.where(rest + rest <= size, rest, np.where(less + less < size, less, less - size))
    return np.where(np.isnan(rest), rest, number(bits(found) ^ (bits(x) & form.SIGN)))


def frexp(x: Any, form: Any) -> Any:
    """The m from 1/2 to 1 and the n for which x is m * 2 ** n."""
    size = bits(x) & (form.SIGN - 1)
    tiny = size < 1 << form.SHIFT
    u = np.where(tiny, bits(form.real(size)), size)
    n = np.int32(u >> form.SHIFT) + np.where(tiny, 2 - 2 * form.BIAS - form.SHIFT, 1 - form.BIAS)
    m = number((u & ((1 << form.SHIFT) - 1)) | (form.ONE - (1 << form.SHIFT)) | (bits(x) & form.SIGN))
    as_is = (size == 0) | (size >= form.INF)
    return np.where(as_is, x, m), np.where(as_is, 0, n)


def ldexp(x: Any, n: Any, form: Any) -> Any:
    """x * 2 ** n: from its fraction in two steps, as the whole power may be no number; the last one alone rounds."""
    most = form.BIAS + form.SHIFT + 1
    fraction, exponent = frexp(x, form)
    n = np.int32(min(max(n, -3 * most), 3 * most)) + exponent
    n = min(max(n, -most), most)
    first = number(form.uint((n >> 1) + form.BIAS) << form.SHIFT)
    return fraction * first * number(form.uint(n - (n >> 1) + form.BIAS) << form.SHIFT)


def modf(x: Any, form: Any) -> Any:
    """The fraction and the whole part, both with the sign of x."""
    whole = np.trunc(x)
    return signed(np.where(np.isinf(x), 0, abs(x - whole)), x, form), whole


def nextafter(x: Any, y: Any, form: Any) -> Any:
    """The next number from x towards y."""
    size, other = bits(x) & (form.SIGN - 1), bits(y) & (form.SIGN - 1)
    here = np.where(signbit(x, form), -form.sint(size), form.sint(size))
    there = np.where(signbit(y, form), -form.sint(other), form.sint(other))
    step = np.where(here < there, here + 1, here - 1)
    sign = np.where((step < 0) | ((step == 0) & signbit(x, form)), form.uint(form.SIGN), form.uint(0))
    found = np.where(here == there, y, number(form.uint(abs(step)) | sign))
    return np.where((size > form.INF) | (other > form.INF), x + y, found)


def ulp(x: Any, form: Any) -> Any:
    """From its size to the next larger one: the unit of its last place."""
    size = bits(x) & (form.SIGN - 1)
    n = np.int32(max(size >> form.SHIFT, 1))
    normal = form.uint(max(n - form.SHIFT, 0)) << form.SHIFT
    unit = np.where(n > form.SHIFT, normal, form.uint(1) << form.uint(min(n, form.SHIFT) - 1))
    return number(np.where(size >= form.INF, size, unit))


def spacing(x: Any, form: Any) -> Any:
    """From x to the next one that is larger in size, as numpy's."""
    size = bits(x) & (form.SIGN - 1)
    unit = np.where(size == form.INF - 1, form.real(math.inf), ulp(x, form))
    return np.where(np.isinf(x), form.real(math.nan), np.where(x == 0, unit, signed(unit, x, form)))


def isclose(a: Any, b: Any, *, rel_tol: Any = 1e-9, abs_tol: Any = 0.0) -> Any:
    """Whether two numbers differ little, as math's."""
    far = np.isinf(a) | np.isinf(b)
    return (a == b) | ((not far) & (abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol)))


def isclose_to(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: Any = False) -> Any:
    """Whether one differs little from the other, as numpy's."""
    near = (a == b) | ((not np.isinf(b)) & (abs(a - b) <= atol + rtol * abs(b)))
    return near | (np.isnan(a) & np.isnan(b) & equal_nan)


NAMED: dict[Any, Any] = {math.isclose: isclose, np.isclose: isclose_to}
"""Functions of which a kernel names arguments -> what they are."""


def gcd(a: Any, b: Any) -> Any:
    """The greatest common divisor of unsigned integers."""
    while b != 0:
        a, b = b, a % b
    return a


def lcm(a: Any, b: Any) -> Any:
    """The least common multiple of unsigned integers."""
    return a // max(gcd(a, b), 1) * b


def isqrt(n: Any, bit: Any) -> Any:
    """The whole part of the root, found from the highest bit that it may have, squared, on."""
    root = n - n
    while bit > 0:
        larger = n >= root + bit
        n = np.where(larger, n - root - bit, n)
        root = np.where(larger, (root >> 1) + bit, root >> 1)
        bit = bit >> 2
    return root


def heaviside(x: Any, y: Any) -> Any:
    """The step from 0 to 1, which is y at 0."""
    return np.where(np.isnan(x), x, np.where(x < 0, 0, np.where(x == 0, y, 1)))


def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x)."""
    y = np.where(x == 0, 1, x) * math.pi
    return np.where(x == 0, 1, np.sin(y) / y)


def fmin(x: Any, y: Any) -> Any:
    """The lesser one; a number rather than NaN."""
    return np.where((x < y) | np.isnan(y), x, y)


def fmax(x: Any, y: Any) -> Any:
    """The greater one; a number rather than NaN."""
    return np.where((x > y) | np.isnan(y), x, y)


def logaddexp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y))."""
    return np.where(x == y, x + math.log(2), max(x, y) + np.log1p(np.exp(-abs(x - y))))


def logaddexp2(x: Any, y: Any) -> Any:
    """log2(2 ** x + 2 ** y)."""
    return np.where(x == y, x + 1, max(x, y) + np.log1p(np.exp2(-abs(x - y))) / math.log(2))


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
