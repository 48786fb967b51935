"""Functions without an instruction, in the kernel language; they are compiled in the place where they are called."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from vkcompute.jit.library.elementary import bits, number, signed


class Half:
    """Bit format of float16, with the names that coefficients.py has for the other types."""

    real, uint, sint = np.float16, np.uint16, np.int16
    WIDTH, SHIFT, BIAS, INF, ONE, SIGN = 16, 10, 15, 0x7C00, 0x3C00, 0x8000


def remainder(x: Any, y: Any, form: Any) -> Any:
    """x minus the nearest multiple of y, ties to the even one (IEEE 754 remainder)."""
    size = abs(y)
    rest = math.fmod(abs(x), size + size)  # all that follows is exact
    less = rest - size
    result = np.where(rest + rest <= size, rest, np.where(less + less < size, less, less - size))
    return np.where(np.isnan(rest), rest, number(bits(result) ^ (bits(x) & form.SIGN)))


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


def polar(z: Any) -> Any:
    """cmath.polar."""
    return abs(z), cmath.phase(z)


def rect(r: Any, phi: Any) -> Any:
    """cmath.rect; an infinite radius along an axis has a zero beside it, and a radius of 0 ends at 0."""
    x, y = math.cos(phi), math.sin(phi)
    real, imag = np.where(x == 0, x, r * x), np.where(y == 0, y, r * y)
    has_direction = np.isfinite(phi)
    far = np.where(np.isinf(r), math.inf, np.where(r == 0, 0, real))
    return complex(np.where(has_direction, real, far), np.where(has_direction | (r != 0), imag, 0))


def log_to_base(z: Any, base: Any) -> Any:
    """cmath.log with a base."""
    return cmath.log(z) / cmath.log(base)


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


def isqrt(n: Any, bit: Any) -> Any:
    """Integer square root, bit by bit; `bit` is the square of the highest bit that the root may have."""
    root = n - n
    while bit > 0:
        larger = n >= root + bit
        n = np.where(larger, n - root - bit, n)
        root = np.where(larger, (root >> 1) + bit, root >> 1)
        bit = bit >> 2
    return root
