"""Special functions of floats: Bessel and Airy functions, the scaled erfc, and quantiles of normal numbers.

Each is one Chebyshev series where its argument is small, and one in its reciprocal beyond (`series.py`), times the
factor that the Digital Library of Mathematical Functions (DLMF) gives.
"""

from __future__ import annotations

import math
from typing import Any

from vkcompute.operations import series as of
from vkcompute.operations.function import define


def _series(f: Any, t: Any, terms: tuple[float, ...]) -> Any:
    """The sum of Chebyshev polynomials by Clenshaw's recurrence; float32 takes the terms that it sees."""
    least = f.epsilon(t) / 256.0 * max(map(abs, terms))
    n = max(n for n, term in enumerate(terms) if abs(term) > least)
    twice, after, total = t * 2.0, 0.0, terms[n]
    for term in terms[n - 1 : 0 : -1]:
        total, after = twice * total - after + term, total
    return t * total - after + terms[0]


def _reciprocal(f: Any, x: Any, least: float, terms: tuple[float, ...]) -> Any:
    """A series in 1 / x, for x from a limit on."""
    return _series(f, 2.0 * least / x - 1.0, terms)


def _limit(f: Any, x: Any, low: float, high: float = math.inf) -> Any:
    """x between two limits, so that the branch that is not chosen is finite; NaN becomes one of them."""
    x = f.where(x > low, x, low)
    return x if high == math.inf else f.where(x < high, x, high)


def _scaled_i(f: Any, size: Any, order: int) -> Any:
    """exp(-x) I(x) for x >= 0, DLMF 10.40.1; 0 of infinity."""
    near, far = (of.I1_NEAR, of.I1_FAR) if order else (of.I0_NEAR, of.I0_FAR)
    small, large = _limit(f, size, 0.0, 8.0), _limit(f, size, 8.0)
    below = _series(f, small * 0.25 - 1.0, near)
    beyond = _reciprocal(f, large, 8.0, far) / f.sqrt(large)
    return f.where(size < 8.0, below * small if order else below, beyond)


def _with_nan(f: Any, result: Any, x: Any) -> Any:
    return f.where(f.isnan(x), x, result)


def _i(order: int, *, is_scaled: bool) -> Any:
    def definition(f: Any, x: Any) -> Any:
        size = abs(x)
        result = _scaled_i(f, size, order)
        if not is_scaled:
            half = f.exp(size * 0.5)  # its square may be infinite where the result is not
            result = f.where(f.isinf(x), size, half * result * half)
        return _with_nan(f, f.where(x < 0.0, -result, result) if order else result, x)

    return definition


def _k(order: int, *, is_scaled: bool) -> Any:
    """K(x), DLMF 10.31.1 and 10.40.2."""
    near, far = (of.K1_NEAR, of.K1_FAR) if order else (of.K0_NEAR, of.K0_FAR)

    def definition(f: Any, x: Any) -> Any:
        small, large = _limit(f, x, 0.0, 2.0), _limit(f, x, 2.0)
        rest = _series(f, small * small * 0.5 - 1.0, near)
        grown = f.exp(small)
        product = f.log(small * 0.5) * (_scaled_i(f, small, order) * grown)
        below = product + rest / small if order else rest - product
        beyond = _reciprocal(f, large, 2.0, far) / f.sqrt(large)
        if is_scaled:
            below = below * grown
        else:
            half = f.exp(large * -0.5)
            beyond = half * beyond * half
        result = f.where(x <= 2.0, below, beyond)
        result = f.where(x == 0.0, math.inf, f.where(x < 0.0, math.nan, result))
        return _with_nan(f, result, x)

    return definition


def _waves(f: Any, x: Any, order: int) -> tuple[Any, Any]:
    """J(x) and Y(x) for x >= 8: DLMF 10.17.3 and 10.17.4, with the sine and the cosine of x - pi/4 - order pi/2."""
    even, odd = (of.P1, of.Q1) if order else (of.P0, of.Q0)
    over = 8.0 / x
    t = over * over * 2.0 - 1.0
    p, q = _series(f, t, even), _series(f, t, odd) * over
    size = f.sqrt(1.0 / (math.pi * x))
    minus, plus = f.sin(x) - f.cos(x), f.sin(x) + f.cos(x)
    cosine, sine = (minus, -plus) if order else (plus, minus)
    return size * (p * cosine - q * sine), size * (p * sine + q * cosine)


def _j(order: int) -> Any:
    def definition(f: Any, x: Any) -> Any:
        size = abs(x)
        near = f.where(size < 8.0, x, 0.0)
        t = near * near * 0.03125 - 1.0
        below = near * _series(f, t, of.J1_NEAR) if order else _series(f, t, of.J0_NEAR)
        beyond = f.where(f.isinf(x), 0.0, _waves(f, _limit(f, size, 8.0), order)[0])
        result = f.where(size < 8.0, below, f.where(x < 0.0, -beyond, beyond) if order else beyond)
        return _with_nan(f, result, x)

    return definition


def _y(order: int) -> Any:
    """Y(x), DLMF 10.8.1."""

    def definition(f: Any, x: Any) -> Any:
        near = _limit(f, x, 0.0, 8.0)
        t = near * near * 0.03125 - 1.0
        if order:
            logarithm = f.log(near) * (near * _series(f, t, of.J1_NEAR)) - 1.0 / near
            below = near * _series(f, t, of.Y1_NEAR) + 2.0 / math.pi * logarithm
        else:
            below = _series(f, t, of.Y0_NEAR) + 2.0 / math.pi * (f.log(near) * _series(f, t, of.J0_NEAR))
        beyond = f.where(f.isinf(x), 0.0, _waves(f, _limit(f, x, 8.0), order)[1])
        result = f.where(x < 8.0, below, beyond)
        result = f.where(x == 0.0, -math.inf, f.where(x < 0.0, math.nan, result))
        return _with_nan(f, result, x)

    return definition


def _spherical_j0(f: Any, x: Any) -> Any:
    """sin(x) / x, DLMF 10.49.3."""
    y = f.where(x == 0.0, 1.0, x)
    return f.where(x == 0.0, 1.0, f.where(f.isinf(x), 0.0, f.sin(y) / y))


_AIRY_LOW = -7.0
_AIRY_PHASE = 2.0 / 3.0 * 7.0**1.5


def _airy_ai(f: Any, x: Any) -> Any:
    """Ai(x), DLMF 9.7.5 above 1 and 9.7.9 below -7."""
    middle = _series(f, (_limit(f, x, _AIRY_LOW, 1.0) + 7.0) * 0.25 - 1.0, of.AIRY_NEAR)
    high = _limit(f, x, 1.0, 1e4)
    root = f.sqrt(high)
    phase = root * high * (2.0 / 3.0)
    above = f.exp(-phase) * _reciprocal(f, phase, 2.0 / 3.0, of.AIRY_FAR) / (2.0 * math.sqrt(math.pi) * f.sqrt(root))
    low = _limit(f, -x, -_AIRY_LOW)
    root = f.sqrt(low)
    phase = root * low * (2.0 / 3.0)
    over = _AIRY_PHASE / phase
    t = over * over * 2.0 - 1.0
    sine, cosine = f.sin(phase), f.cos(phase)
    wave = (cosine + sine) * _series(f, t, of.AIRY_COS) + (sine - cosine) * (_series(f, t, of.AIRY_SIN) * over)
    below = f.where(f.isinf(x), 0.0, wave / (math.sqrt(2 * math.pi) * f.sqrt(root)))
    return _with_nan(f, f.where(x > 1.0, above, f.where(x < _AIRY_LOW, below, middle)), x)


def _erfcx(f: Any, x: Any) -> Any:
    """exp(x²) erfc(x); of negative numbers by DLMF 7.4.2."""
    size = _limit(f, abs(x), 0.0, 1e30)
    scaled = _series(f, (size - 4.0) / (size + 4.0), of.ERFCX) / (1.0 + 2.0 * size)
    below = f.exp(_limit(f, x, -30.0, 0.0) * _limit(f, x, -30.0, 0.0)) * 2.0 - scaled
    return _with_nan(f, f.where(x < 0.0, below, f.where(f.isinf(x), 0.0, scaled)), x)


def _log_ndtr(f: Any, x: Any) -> Any:
    """log(erfc(-x / sqrt(2)) / 2)."""
    y = x * math.sqrt(0.5)
    low = _limit(f, y, -math.inf, -0.7)
    below = f.log(_erfcx(f, -low) * 0.5) - low * low
    return _with_nan(f, f.where(x < -1.0, f.where(f.isinf(x), x, below), f.log1p(f.erfc(y) * -0.5)), x)


def _ndtri(f: Any, p: Any) -> Any:
    """The x of which a normal number is smaller with probability p."""
    u = _limit(f, p - 0.5, -0.375, 0.375)
    middle = u * _series(f, u * u * (2.0 / 0.375**2) - 1.0, of.NDTRI_NEAR)
    tail = f.minimum(p, 1.0 - p)
    z = f.sqrt(f.log(_limit(f, tail, 0.0, 0.125)) * -2.0)
    low, high = 1.0 / (38.7 + 4.0), 1.0 / (2.03 + 4.0)
    t = (1.0 / (_limit(f, z, 2.03, 38.7) + 4.0) - low) * (2.0 / (high - low)) - 1.0
    far = f.where(tail == 0.0, math.inf, z * _series(f, t, of.NDTRI_FAR))
    result = f.where(tail >= 0.125, middle, f.where(p > 0.5, far, -far))
    return _with_nan(f, f.where(tail < 0.0, math.nan, result), p)


# name, meaning, definition, CUDA's name
for _name, _meaning, _definition, _blocks in (
    ("i0", "the modified Bessel function of the first kind of order 0", _i(0, is_scaled=False), "cyl_bessel_i0"),
    ("i0e", "exp(-|x|) i0(x)", _i(0, is_scaled=True), ""),
    ("i1", "the modified Bessel function of the first kind of order 1", _i(1, is_scaled=False), "cyl_bessel_i1"),
    ("i1e", "exp(-|x|) i1(x)", _i(1, is_scaled=True), ""),
    ("k0", "the modified Bessel function of the second kind of order 0", _k(0, is_scaled=False), ""),
    ("k0e", "exp(x) k0(x)", _k(0, is_scaled=True), ""),
    ("k1", "the modified Bessel function of the second kind of order 1", _k(1, is_scaled=False), ""),
    ("k1e", "exp(x) k1(x)", _k(1, is_scaled=True), ""),
    ("j0", "the Bessel function of the first kind of order 0", _j(0), "j0"),
    ("j1", "the Bessel function of the first kind of order 1", _j(1), "j1"),
    ("y0", "the Bessel function of the second kind of order 0", _y(0), "y0"),
    ("y1", "the Bessel function of the second kind of order 1", _y(1), "y1"),
    ("spherical_j0", "the spherical Bessel function sin(x) / x", _spherical_j0, ""),
    ("airy_ai", "the Airy function Ai(x)", _airy_ai, ""),
    ("erfcx", "exp(x * x) erfc(x)", _erfcx, "erfcx"),
    ("log_ndtr", "the logarithm of the normal distribution function of x", _log_ndtr, ""),
    ("ndtri", "the number below which a normal one is with probability x", _ndtri, "normcdfinv"),
):
    define(_name, 1, "float", _meaning, {"f": _definition}, blocks=(_blocks,) if _blocks else (), wide=True, cost=96)
