"""Makes vkcompute/jit/coefficients.py: the numbers in the functions of floats, found with mpmath (pip install mpmath).

Polynomials interpolate at Chebyshev's points, with as many terms as it takes for an error below 1/16 ulp of the result.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mpmath import mp, mpf

mp.dps = 420
_TARGET = Path(__file__).parents[1] / "vkcompute/jit/coefficients.py"
_HEAD = '''"""Numbers in the functions of floats, made by scripts/coefficients.py: edit that.

Polynomials are of x² unless they say otherwise, the constant term first.
"""

from __future__ import annotations

import numpy as np

# fmt: off
'''


class Format(NamedTuple):
    """A type of floats: its bits, those of the mantissa with the leading one, and the name of its class."""

    bits: int
    precision: int
    name: str
    words: int
    """of the table of 2/pi"""
    whole: int
    """bits that quarter turns take which are reduced by subtracting"""


_FORMATS = Format(32, 24, "Single", 7, 6), Format(64, 53, "Double", 19, 14)


def _odd(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """(f(x) - x) / x³ by x²."""

    def rest(z: Any) -> Any:
        x = mp.sqrt(z)
        return (f(x) - x) / (x * z)

    return rest


def _cosine(z: Any) -> Any:
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


def _exponential(x: Any) -> Any:
    return (mp.expm1(x) - x) / x**2


def _logarithm(z: Any) -> Any:
    """2 atanh(s) = 2 s + s z f(z), for z = s²."""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2) / z


def _long_logarithm(z: Any) -> Any:
    """2 atanh(s) = 2/3 s (3 + z + z² f(z))."""
    s = mp.sqrt(z)
    return (3 * mp.atanh(s) / s - 3 - z) / z**2


def _scaled_erfc(y: Any) -> Any:
    """exp(x²) erfc(x) (1 + 2 x), which is nearly flat, by y = (x - 4) / (x + 4) (Shepherd and Laframboise 1981)."""
    x = 4 * (1 + y) / (1 - y)
    return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)


def _stirling(z: Any) -> Any:
    """What Stirling's formula for log(gamma(x)) leaves, times x, by 1 / x²."""
    x = 1 / mp.sqrt(z)
    return (mp.loggamma(x) - ((x - 0.5) * mp.log(x) - x + mp.log(2 * mp.pi) / 2)) * x


def _plain(z: Any) -> Any:
    return z


def _square(z: Any) -> Any:
    return z * z


_POLYNOMIALS: dict[str, tuple[Callable[[Any], Any], Any, Any, Callable[[Any], Any], int]] = {
    "SIN": (_odd(mp.sin), 0, (mp.pi / 4) ** 2, _plain, 4),
    "COS": (_cosine, 0, (mp.pi / 4) ** 2, _square, 4),
    "TAN": (_odd(mp.tan), 0, (mp.pi / 4) ** 2, _plain, 4),
    "ASIN": (_odd(mp.asin), 0, mpf("0.25"), _plain, 4),
    "ATAN": (_odd(mp.atan), 0, 1, _plain, 4),
    "SINH": (_odd(mp.sinh), 0, 1, _plain, 4),
    "TANH": (_odd(mp.tanh), 0, mpf("0.55") ** 2, _plain, 4),
    "EXP": (_exponential, -mp.log(2) / 2, mp.log(2) / 2, _square, 4),
    "LOG": (_logarithm, 0, mpf("0.02945"), lambda z: z / 2, 4),
    "ERF": (lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 0, 1, lambda z: 1, 4),
    "ERFC": (_scaled_erfc, mpf("-0.78"), mpf("0.75"), lambda y: 1, 4),
    "RGAMMA": (lambda f: mp.rgamma(2 + f), mpf("-0.75"), mpf("0.5"), lambda f: 1, 4),
    "LGAMMA": (lambda f: mp.loggamma(2 + f) / f, mpf("-0.75"), mpf("0.5"), lambda f: 4, 4),
    "STIRLING": (_stirling, 0, mpf(1) / 64, lambda z: mpf(1) / 8, 4),
    "PAIR": (_long_logarithm, 0, mpf("0.02945"), lambda z: z * z / 3, 11),
}
"""name -> the function, its interval, what an error counts in the result, and bits beyond the type's own"""


def _fitted(form: Format, name: str) -> list[str]:
    """The coefficients, the constant one first, with as many digits as matter."""
    f, low, high, weight, extra = _POLYNOMIALS[name]
    bits = form.precision + (extra if extra == 4 or form.bits == 64 else 10)
    mp.dps = 60
    middle, half = (mpf(low) + high) / 2, (mpf(high) - low) / 2
    for n in range(2, 40):
        points = [middle + half * mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)]
        system = mp.matrix([[x**k for k in range(n)] for x in points])
        found = list(mp.lu_solve(system, mp.matrix([f(x) for x in points])))
        tests = [middle + half * mpf(k) / 200 + mpf("1e-20") for k in range(-200, 200)]
        if max(abs((mp.polyval(found[::-1], x) - f(x)) * weight(x)) for x in tests) < mpf(2) ** -bits:
            # An error of a coefficient counts as much as its power does at the interval's end.
            far = max(abs(mpf(low)), abs(mpf(high)))
            return [_short(form, x, bits, far**k * weight(mpf(high))) for k, x in enumerate(found)]
    raise ArithmeticError(f"{name} is not found")


def _cut(x: Any, bits: int) -> Any:
    """The first bits of a number."""
    if x == 0:
        return x
    unit = mpf(2) ** (mp.floor(mp.log(abs(x), 2)) + 1 - bits)
    return mp.floor(x / unit) * unit


def _text(form: Format, x: Any) -> str:
    return str(_rounded(form, x))


def _short(form: Format, x: Any, bits: int, counts: Any) -> str:
    """The shortest text of a number whose error, times what it counts, is below 2 ** -bits / 16."""
    for n_digits in range(2, 18):
        text = f"{float(x):.{n_digits}g}"
        if abs(mpf(text) - x) * counts < mpf(2) ** (-bits - 4):
            return str(float(text))
    return _text(form, x)


def _parts(x: Any, *bits: int) -> list[Any]:
    """A number as a sum of numbers of so many bits."""
    found = []
    for n in bits:
        found.append(_cut(x, n))
        x -= found[-1]
    return found


def _constants(form: Format) -> dict[str, Any]:
    p, half, e = form.precision, form.precision // 2, form.bits - form.precision
    low = 3 - (1 << e - 1)  # the exponent of the smallest normal number, and one more
    one, third = mp.log(2), mpf(2) / 3
    whole = p - form.whole
    return {
        **dict(zip(("LN2", "LN2_LOW"), _parts(one, p - e - 4, p), strict=True)),
        **dict(zip(("HALF_PI", "HALF_PI_2", "HALF_PI_3"), _parts(mp.pi / 2, whole, whole, p), strict=True)),
        **dict(zip(("HALF_PI_CUT", "HALF_PI_LOW"), _parts(mp.pi / 2, half, p), strict=True)),
        "MOST": (2**form.whole - 1) * mp.pi / 2,
        "PI_LOW": mp.pi - mpf(float(_rounded(form, mp.pi))),
        **dict(zip(("THIRDS", "THIRDS_LOW"), _parts(third, half, p), strict=True)),
        **dict(zip(("LOG2", "LOG2_LOW"), _parts(third / one, half, p), strict=True)),
        **dict(zip(("LOG10", "LOG10_LOW"), _parts(third / mp.log(10), half, p), strict=True)),
        **dict(zip(("LOG2_E", "LOG2_E_LOW"), _parts(1 / one, half, p), strict=True)),
        **dict(zip(("DECADES", "DECADES_LOW"), _parts(mp.log10(2), p - e - 4, p), strict=True)),
        "LEAST_EXP": (low - p - 2) * one,
        "MOST_EXP": (3 - low) * one + mpf("0.2"),
    }


def _rounded(form: Format, x: Any) -> Any:
    return (np.float32 if form.bits == 32 else np.float64)(float(x))


def _class(form: Format) -> str:
    lines = [f"class {form.name}:", f'    """Of float{form.bits}."""', ""]
    p, bits = form.precision, form.bits
    lines += [f"    real, uint, sint = np.float{bits}, np.uint{bits}, np.int{bits}"]
    bias = (1 << bits - p - 1) - 1
    lines += [f"    WIDTH, SHIFT, BIAS, CUT, WHOLE = {bits}, {p - 1}, {bias}, {(1 << p - p // 2) - 1:#x}, {form.whole}"]
    lines += [f"    INF, ONE, SIGN = {(2 * bias + 1) << p - 1:#x}, {bias << p - 1:#x}, {1 << bits - 1:#x}"]
    lines += [f"    CUBE = {(2 * bias << p - 1) // 3 - (1 << p - 1) // 30:#x}"]
    mp.dps = 420
    for name, number in _constants(form).items():
        lines.append(f"    {name} = {_text(form, number)}")
    shift = {32: 19, 64: 40}[bits]
    table = int(mp.floor(2 / mp.pi * mpf(2) ** (form.words * bits - shift)))
    words = [table >> bits * (form.words - 1 - n) & (1 << bits) - 1 for n in range(form.words)]
    lines.append(f"    TURNS = ({', '.join(map(hex, words))})")
    for name in _POLYNOMIALS:
        lines.append(f"    {name} = ({', '.join(_fitted(form, name))})")
    return "\n".join(textwrap.fill(line, 120, subsequent_indent=" " * 8) for line in lines)


if __name__ == "__main__":
    _TARGET.write_text("\n\n".join([_HEAD, *map(_class, _FORMATS)]) + "\n")
