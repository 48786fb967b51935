"""Error and gamma functions in the kernel language. `form` has the constants of a float type (coefficients.py)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vkcompute.jit.library.elementary import (
    bits,
    cut,
    log,
    pair,
    polynomial,
    power_of_two,
    reduced,
    rounding_error,
    scaled,
    signed,
)


def erf(x: Any, form: Any) -> Any:
    """Error function."""
    size = abs(x)
    near = size + size * polynomial(size * size, form.ERF)
    near = np.where(size < 2.0**-form.SHIFT, size * (2 / math.sqrt(math.pi)), near)  # small products may be 0
    result = signed(np.where(size < 1, near, 1 - _far_erfc(size, form)), x, form)
    return np.where(bits(size) > form.INF, x, result)


def erfc(x: Any, form: Any) -> Any:
    """1 - erf(x)."""
    size = abs(x)
    far = _far_erfc(size, form)
    near = 1 - (x + x * polynomial(x * x, form.ERF))
    result = np.where(size < 0.5, near, np.where(x < 0, 2 - far, far))
    return np.where(bits(size) > form.INF, x, result)


def _far_erfc(x: Any, form: Any) -> Any:
    """erfc(x) for x >= 1/2: exp(-x²), with an exact square, times a polynomial."""
    x = min(x, 30.0)
    first = cut(x, form)
    high, low, n = reduced(max(-first * first, form.LEAST_EXP), form)
    rest = (first - x) * (first + x)
    r = high + rest
    e = 1 + (r + (r * r * polynomial(r, form.EXP) + (low + rounding_error(high, rest, r))))
    return scaled(e * (polynomial((x - 4) / (x + 4), form.ERFC) / (1 + 2 * x)), n, form)


def gamma(x: Any, form: Any) -> Any:
    """Gamma function: Stirling's formula above 8, the reflection formula for negative x."""
    size = abs(x)
    f, times, over = _near_two(size, form)
    shift = np.where(size > 32, 64, form.real(0))  # the divisor of the reflection may overflow
    shift = np.where(x < 0, shift, 0)
    result = np.where(size < 8, times / (polynomial(f, form.RGAMMA) * over), _far_gamma(min(size, 256), shift, form))
    wave, odd, whole = _half_wave(size, form)
    below = math.pi * np.where(shift == 0, 1, 2.0**-64) / (size * result * wave)
    result = np.where(x < 0, np.where(odd, below, -below), result)
    result = np.where(size == 0, signed(form.real(math.inf), x, form), result)
    result = np.where((x < 0) & (whole | (bits(size) == form.INF)), form.real(math.nan), result)
    return np.where(bits(size) > form.INF, x, result)


def lgamma(x: Any, form: Any) -> Any:
    """Logarithm of |gamma(x)|."""
    size = abs(x)
    f, times, over = _near_two(size, form)
    low, large = size < 1.25, size >= 8
    logarithm = log(np.where(large, size, np.where(low, over, times)), form)
    rest = (0.5 * math.log(2 * math.pi) - 0.5) + polynomial(1 / (size * size), form.STIRLING) / size
    near = f * polynomial(f, form.LGAMMA) + np.where(low, -logarithm, logarithm)
    result = np.where(large, (size - 0.5) * (logarithm - 1) + rest, near)
    wave, _, whole = _half_wave(size, form)
    below = log(math.pi / (size * wave), form) - result
    result = np.where((x < 0) & (size > 2.0**-form.SHIFT), below, result)
    result = np.where((bits(size) == form.INF) | ((x <= 0) & whole), form.real(math.inf), result)
    return np.where(bits(size) > form.INF, x, result)


def _near_two(x: Any, form: Any) -> Any:
    """f near 0, `times` and `over` such that gamma(x) = gamma(2 + f) * times / over; times or over is 1."""
    f = np.where(x < 0.25, x, np.where(x < 1.25, x - 1, min(x, 8) - 2))
    over = np.where(x < 0.25, x * (1 + x), np.where(x < 1.25, x, 1))
    times = form.real(1)
    for _ in range(6):
        times = np.where(f > 0.5, times * (f + 1), times)
        f = np.where(f > 0.5, f - 1, f)
    return f, times, over


def _far_gamma(x: Any, shift: Any, form: Any) -> Any:
    """gamma(x) / 2 ** shift for x >= 8."""
    high, low, k = pair(x, None, form.LOG2, form.LOG2_LOW, form)
    k = k - form.LOG2_E
    log = cut(k + (high + low), form)
    low = low + (high - (log - k)) - form.LOG2_E_LOW
    n = x - 0.5
    first = cut(n, form)
    rest = 0.5 * (math.log2(2 * math.pi) - 1 / math.log(2))
    rest = rest + polynomial(1 / (x * x), form.STIRLING) / x * (1 / math.log(2))
    return power_of_two(first * log - shift, (n - first) * log + n * low + rest, form)


def _half_wave(x: Any, form: Any) -> Any:
    """|sin(pi x)|, True if sin(pi x) < 0 for x > 0, and True if it is 0."""
    n = np.rint(x)
    rest = x - n
    far = abs(rest) > 0.25
    q = np.where(far, 0.5 - abs(rest), abs(rest)) * math.pi
    z = q * q
    wave = np.where(far, 1 + (z * z * polynomial(z, form.COS) - 0.5 * z), q + q * z * polynomial(z, form.SIN))
    odd = np.floor(n * 0.5) != n * 0.5
    return wave, odd ^ (rest < 0), rest == 0
