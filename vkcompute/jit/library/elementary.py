"""Exponentials, logarithms, powers and hyperbolic functions in the kernel language.

`form` has the constants of a float type (coefficients.py).
Where a float has too few bits for a number, it is the unevaluated sum of two floats, `high` and `low`.
"""

from __future__ import annotations

import math
from functools import partial, reduce
from typing import Any

import numpy as np

from vkcompute.ir import FLOAT64, SCALARS, Polynomial
from vkcompute.ir.function import Op
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import intrinsic
from vkcompute.jit.frontend.values import Kind, Number
from vkcompute.jit.library.fixed_point import FixedPoint


def _as(kind: str, c: Compiler, x: Any) -> Number:
    value = c.cast(x, c.kind(x).type)
    target = SCALARS[f"{kind}{c.kind(x).type.bits}"]
    return Number(c.builder.bitcast(value, target), Kind(target))


def _polynomial(c: Compiler, x: Any, coefficients: tuple[float, ...] | Polynomial) -> Any:
    if isinstance(coefficients, Polynomial):
        value = c.cast(x, FLOAT64)
        return Number(c.builder.append(Op("polynomial", FLOAT64, (value,), coefficients)), Kind(FLOAT64))
    return reduce(lambda sum, term: c.binary("+", c.binary("*", sum, x), term), coefficients[::-1])


def _in_fixed_point(c: Compiler, x: Any, function: Any, y: Any = None) -> Number:
    operands = tuple([c.cast(operand, FLOAT64) for operand in (x, y) if operand is not None])
    return Number(c.builder.append(Op("in_fixed_point", FLOAT64, operands, function)), Kind(FLOAT64))


def _table_entries(c: Compiler, table: tuple[int, ...], first: Number, n: int) -> tuple[Any, ...]:
    """Selects entries of a table by the bits of the index, the highest first, halving the table each time."""
    rows = [c.converted(entry, first.kind.type) for entry in table]
    n_bits = (len(table) - n).bit_length()
    rows += [rows[-1]] * ((1 << n_bits) + n - 1 - len(rows))
    for bit in reversed(range(n_bits)):
        chosen = c.compare("!=", c.binary("&", first, 1 << bit), 0)
        rows = [c.where(chosen, rows[k + (1 << bit)], rows[k]) for k in range((1 << bit) + n - 1)]
    return tuple(rows)


@intrinsic(partial(_as, "uint"))
def bits(x: Any) -> Any:
    """Bits of a float, as an unsigned integer."""
    raise NotImplementedError


@intrinsic(partial(_as, "float"))
def number(x: Any) -> Any:
    """Float with these bits."""
    raise NotImplementedError


@intrinsic(_polynomial)
def polynomial(x: Any, coefficients: Any) -> Any:
    """Polynomial with these coefficients, the constant one first, by Horner's rule."""
    raise NotImplementedError


@intrinsic(lambda _, form: form is FixedPoint)
def in_words(form: Any) -> Any:
    """True where functions of float64 are computed in fixed point."""
    raise NotImplementedError


@intrinsic(_in_fixed_point)
def in_fixed_point(x: Any, function: Any, y: Any = None) -> Any:
    """Function of a float64, or of two, on a device without (ir/float_functions.py)."""
    raise NotImplementedError


@intrinsic(_table_entries)
def table_entries(table: Any, first: Any, n: Any) -> Any:
    """`n` consecutive entries of a table of constants, unsigned integers of the type of the index."""
    raise NotImplementedError


def cut(x: Any, form: Any) -> Any:
    """Float with the upper half of the significand of x; the product of two of these is exact."""
    return number(bits(x) & (form.SIGN + form.SIGN - 1 - form.CUT))


def signed(size: Any, x: Any, form: Any) -> Any:
    """Non-negative number with the sign of x."""
    return number(bits(size) | (bits(x) & form.SIGN))


def exp(x: Any, form: Any) -> Any:
    """e ** x."""
    return _scaled_exp(x, 0, form)


def exp2(x: Any, form: Any) -> Any:
    """2 ** x."""
    if in_words(form):
        return in_fixed_point(x, form.POWER_OF_TWO)
    return np.where(bits(abs(x)) > form.INF, x, power_of_two(x, 0, form))


def expm1(x: Any, form: Any) -> Any:
    """exp(x) - 1 = 2ⁿ (exp(r) - 1) + (2ⁿ - 1)."""
    high, low, n = reduced(max(min(x, form.MOST_EXP), -form.LN2 * (form.SHIFT + 3)), form)
    small = high + (high * high * polynomial(high, form.EXP) + low)
    half = _two_to(n - 1, form)
    result = np.where(n == 0, small, 2 * (half * small + (half - 0.5)))
    return np.where((bits(abs(x)) > form.INF) | (x == 0), x, result)


def log(x: Any, form: Any) -> Any:
    """Natural logarithm."""
    if in_words(form):
        return in_fixed_point(x, form.NATURAL_LOG)
    m, k = _split(x, form)
    f = m - 1
    s = f / (2 + f)
    z = s * s
    half = 0.5 * f * f
    rest = s * (half + z * polynomial(z, form.LOG)) + k * form.LN2_LOW
    return _logarithm(x, k * form.LN2 - ((half - rest) - f), form)


def log2(x: Any, form: Any) -> Any:
    """Logarithm to base 2."""
    if in_words(form):
        return in_fixed_point(x, form.BINARY_LOG)
    high, low, k = pair(x, None, form.LOG2, form.LOG2_LOW, form)
    return _logarithm(x, _sum(k, high, low), form)


def log10(x: Any, form: Any) -> Any:
    """Logarithm to base 10."""
    if in_words(form):
        return in_fixed_point(x, form.DECIMAL_LOG)
    high, low, k = pair(x, None, form.LOG10, form.LOG10_LOW, form)
    return _logarithm(x, _sum(k * form.DECADES, high, low + k * form.DECADES_LOW), form)


def log1p(x: Any, form: Any) -> Any:
    """log(1 + x)."""
    if in_words(form):
        return in_fixed_point(x, form.LOG_OF_SUM)
    return _log1p(x, 0, form)


def pow(x: Any, y: Any, form: Any) -> Any:
    """x ** y, with the special cases of C's pow."""
    if in_words(form):
        return np.where(y == 2, x * x, in_fixed_point(x, form.POWER, y))
    size = abs(x)
    whole = np.floor(y) == y
    odd = whole & (np.floor(y * 0.5) != y * 0.5)
    high, low, k = pair(size, None, form.LOG2, form.LOG2_LOW, form)
    log = cut(k + (high + low), form)
    low = low + (high - (log - k))
    most = 2.0 ** (form.SHIFT + form.WIDTH // 2)  # beyond it, results are 0, 1 or infinity
    n = max(min(y, most), -most)
    first = cut(n, form)
    result = power_of_two(first * log, (n - first) * log + n * low, form)
    result = np.where(
        (size == 0) | (bits(size) == form.INF), np.where((size == 0) == (y < 0), form.real(math.inf), 0), result
    )
    result = np.where((x < 0) & ~whole & (bits(size) != form.INF), form.real(math.nan), result)
    result = number(bits(result) | np.where(odd, bits(x) & form.SIGN, form.uint(0)))
    result = np.where((bits(size) > form.INF) | (bits(abs(y)) > form.INF), x + y, result)
    result = np.where(y == 2, x * x, np.where(y == 3, _cube(x, form), result))
    one = (y == 0) | (x == 1) | ((x == -1) & (bits(abs(y)) == form.INF))
    return np.where(one, form.real(1), result)


def _cube(x: Any, form: Any) -> Any:
    """x ** 3, with the rounding errors of both products added. These would be 0 for small x, which are scaled."""
    up = (form.BIAS - 1) // 3
    small = abs(x) < 2.0 ** -(form.BIAS // 4)
    size = abs(x) * np.where(small, 2.0**up, form.real(1))
    square, first = _product(size, size, form)
    cube, second = _product(square, size, form)
    cube = np.where(bits(cube) < form.INF, cube + (first * size + second), cube)
    return signed(cube * np.where(small, 2.0 ** (-3 * up), form.real(1)), x, form)


def _product(x: Any, y: Any, form: Any) -> Any:
    """x * y as high and low part.

    T. J. Dekker: A floating-point technique for extending the available precision. 1971.
    """
    high, a, b = x * y, cut(x, form), cut(y, form)
    return high, ((a * b - high) + (a * (y - b) + (x - a) * b)) + (x - a) * (y - b)


def sinh(x: Any, form: Any) -> Any:
    """Hyperbolic sine."""
    z = x * x
    e = _scaled_exp(abs(x), -1, form)
    result = np.where(abs(x) < 1, abs(x) + abs(x) * z * polynomial(z, form.SINH), e - 0.25 / e)
    return signed(result, x, form)


def cosh(x: Any, form: Any) -> Any:
    """Hyperbolic cosine."""
    e = _scaled_exp(abs(x), -1, form)
    return e + 0.25 / e


def tanh(x: Any, form: Any) -> Any:
    """Hyperbolic tangent."""
    z = x * x
    size = abs(x)
    near = size + size * z * polynomial(z, form.TANH)
    far = 1 - 2 / (_scaled_exp(2 * size, 0, form) + 1)
    return signed(np.where(size < 0.55, near, far), x, form)


def asinh(x: Any, form: Any) -> Any:
    """Inverse hyperbolic sine, log(x + sqrt(x² + 1)) without cancellation."""
    size = abs(x)
    z = size * size
    return signed(_area(size, z / (1 + math.sqrt(z + 1)), form), x, form)


def acosh(x: Any, form: Any) -> Any:
    """Inverse hyperbolic cosine, log(x + sqrt(x² - 1))."""
    t = x - 1
    return np.where(t < 0, form.real(math.nan), _area(t, math.sqrt(t * t + 2 * t), form))


def atanh(x: Any, form: Any) -> Any:
    """Inverse hyperbolic tangent, log((1 + x) / (1 - x)) / 2."""
    size = abs(x)
    result = 0.5 * _area(2 * size, 2 * size * size / (1 - size), form)
    return np.where(size > 1, form.real(math.nan), signed(result, x, form))


def cbrt(x: Any, form: Any) -> Any:
    """Cube root: an estimate from the bits, and three steps of Halley's method, the last one from half the bits."""
    u = bits(abs(x))
    tiny = u < 1 << form.SHIFT
    size = np.where(tiny, form.real(u) * 2.0 ** ((1 - form.BIAS - form.SHIFT) % 3), abs(x))
    third = number(bits(size) // 3 + form.CUBE)
    for _ in range(2):
        third = third * (0.5 + 1.5 / (2 * third * third * (third / size) + 1))
    third = cut(third, form)
    rest = size / (third * third)
    third = third + third * ((rest - third) / (third + third + rest))
    third = np.where(tiny, third * 2.0 ** ((1 - form.BIAS - form.SHIFT) // 3), third)
    return np.where((u >= form.INF) | (u == 0), x, signed(third, x, form))


def hypot(x: Any, y: Any, form: Any) -> Any:
    """sqrt(x² + y²), scaled so that the squares neither overflow nor underflow."""
    large, small = max(abs(x), abs(y)), min(abs(x), abs(y))
    up, down = 2.0 ** (form.BIAS // 4 * 3), 2.0 ** -(form.BIAS // 4 * 3)
    big, tiny = large > 2.0 ** (form.BIAS // 2), large < 2.0 ** -(form.BIAS // 4)
    scale = np.where(big, down, np.where(tiny, up, form.real(1)))
    a, b = large * scale, small * scale
    first = cut(a, form)
    root = math.sqrt(first * first + ((a - first) * (a + first) + b * b))
    result = root * np.where(big, up, np.where(tiny, down, form.real(1)))
    infinite = (bits(abs(x)) == form.INF) | (bits(abs(y)) == form.INF)
    nan = (bits(abs(x)) > form.INF) | (bits(abs(y)) > form.INF)
    return np.where(infinite, form.real(math.inf), np.where(nan, x + y, result))


def reduced(x: Any, form: Any) -> Any:
    """x - n log(2) for the nearest n, as high and low part, and n."""
    n = np.rint(x * (1 / math.log(2)))
    first, second = x - n * form.LN2, n * form.LN2_LOW
    high = first - second
    return high, (first - high) - second, np.int32(n)


def _scaled_exp(x: Any, n: Any, form: Any) -> Any:
    """e ** x * 2 ** n."""
    if in_words(form):
        return in_fixed_point(x, form.POWERS[-n])
    high, low, k = reduced(max(min(x, form.MOST_EXP + 1), form.LEAST_EXP), form)
    result = scaled(1 + (high + (high * high * polynomial(high, form.EXP) + low)), k + n, form)
    return np.where(bits(abs(x)) > form.INF, x, result)


def power_of_two(x: Any, low: Any, form: Any) -> Any:
    """2 ** (x + low); undefined for NaN."""
    n = np.rint(max(min(x + low, 2.0 * form.BIAS), -2.0 * form.BIAS))
    f = np.where(abs(n) < 2 * form.BIAS, (x - n) + low, 0)
    r = f * form.real(math.log(2))
    return scaled(1 + (r + r * r * polynomial(r, form.EXP)), np.int32(n), form)


def _two_to(n: Any, form: Any) -> Any:
    """2 ** n, where it is a normal number."""
    return number(form.uint(n + form.BIAS) << form.SHIFT)


def scaled(x: Any, n: Any, form: Any) -> Any:
    """x * 2 ** n, in two steps, since 2 ** n may overflow."""
    half = n >> 1
    return x * _two_to(half, form) * _two_to(n - half, form)


def _split(x: Any, form: Any) -> Any:
    """m between sqrt(1/2) and sqrt(2), and k as a float, such that x = m * 2 ** k."""
    u = bits(x)
    tiny = u < 1 << form.SHIFT  # many devices flush subnormals to 0, but keep their bits
    u = np.where(tiny, bits(form.real(u)), u)
    root = bits(form.real(math.sqrt(0.5)))
    u = u + (form.ONE - root)
    k = np.int32(u >> form.SHIFT) - np.where(tiny, 2 * form.BIAS + form.SHIFT - 1, form.BIAS)
    return number((u & ((1 << form.SHIFT) - 1)) + root), form.real(k)


def pair(x: Any, rest: Any, unit: Any, unit_low: Any, form: Any) -> Any:
    """Logarithm of m for x + rest = m * 2 ** k, as high and low part, and k.

    log(m) = 2/3 s t with s = (m - 1) / (m + 1) and t = 3 + s² + …; the products of high parts are exact.

    Args:
        unit, unit_low: 2/3 in the base of the logarithm, as high and low part.
    """
    m, k = _split(x, form)
    f = m - 1
    d = m + 1
    s = f / d
    s_high, d_high = cut(s, form), cut(d, form)
    s_low = ((f - s_high * d_high) - s_high * (f - (d_high - 2))) / d
    if rest is not None:
        s_low = s_low + 0.5 * rest / x
    z, z_high = s * s, s_high * s_high
    r = z * z * polynomial(z, form.PAIR)
    t_high = cut(3 + (z_high + r), form)
    t_low = (r - ((t_high - 3) - z_high)) + s_low * (s + s_high)
    p = s_high * t_high
    p_low = s_low * t_high + s * t_low
    p_high = cut(p + p_low, form)
    p_low = p_low - (p_high - p)
    return p_high * unit, p_low * form.real(unit + unit_low) + p_high * unit_low, k


def _sum(k: Any, high: Any, low: Any) -> Any:
    """k + high + low, where k is 0 or larger than the others."""
    total = k + high
    return total + (low + ((k - total) + high))


def _log1p(x: Any, rest: Any, form: Any) -> Any:
    """log(1 + x + rest) for a small rest."""
    u = 1 + x
    if in_words(form):
        return in_fixed_point(x, form.LOG_OF_SUM) + np.where(bits(u) >= form.INF, 0, rest) / u
    rest = np.where(bits(u) >= form.INF, 0, rounding_error(x, form.real(1), u) + rest)
    high, low, k = pair(u, rest, form.THIRDS, form.THIRDS_LOW, form)
    result = _logarithm(u, _sum(k * form.LN2, high, low + k * form.LN2_LOW), form)
    return np.where(abs(x) < 2.0 ** -(form.SHIFT + 2), x, result)


def _area(x: Any, more: Any, form: Any) -> Any:
    """log(1 + x + more); for huge x, log(2 x)."""
    huge = x > 2.0**form.SHIFT
    total = np.where(huge, x, x + more)
    rest = np.where(huge, 0, rounding_error(x, more, total))
    return _log1p(total, rest, form) + np.where(huge, form.real(math.log(2)), 0)


def rounding_error(x: Any, y: Any, total: Any) -> Any:
    """Rounding error of `total`, the rounded sum of x and y."""
    large = np.where(abs(x) > abs(y), x, y)
    return (large - total) + np.where(abs(x) > abs(y), y, x)


def _logarithm(x: Any, logarithm: Any, form: Any) -> Any:
    """`logarithm`, with the special cases of a logarithm of x: 0, infinity, negative numbers and NaN."""
    u = bits(x)
    logarithm = np.where(u >= form.INF, form.real(math.nan), logarithm)
    return np.where(u == form.INF, x, np.where(u << 1 == 0, form.real(-math.inf), logarithm))
