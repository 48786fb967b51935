"""Trigonometric functions and their inverses in the kernel language. `form` has the constants of a float type.

See elementary.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vkcompute.jit.library.elementary import (
    bits,
    cut,
    in_fixed_point,
    in_words,
    number,
    polynomial,
    signed,
    table_entries,
)


def sin(x: Any, form: Any) -> Any:
    """Sine."""
    if in_words(form):
        return in_fixed_point(x, form.SINE)
    return _wave(x, 0, bits(x) & form.SIGN, form)


def cos(x: Any, form: Any) -> Any:
    """Cosine."""
    if in_words(form):
        return in_fixed_point(x, form.COSINE)
    return _wave(x, 1, 0, form)


def tan(x: Any, form: Any) -> Any:
    """Tangent."""
    if in_words(form):
        return in_fixed_point(x, form.TANGENT)
    high, low, turns = _turned(x, form)
    z = high * high
    rest = high * z * polynomial(z, form.TAN) + low * (1 + z)
    t = high + rest
    inverse, t_high = 1 / t, cut(t, form)
    first = cut(inverse, form)
    error = (1 - first * t_high) - first * ((t - t_high) + (rest - (t - high)))
    result = np.where((turns & 1) == 0, t, -(first + inverse * error))
    return number(bits(result) ^ (bits(x) & form.SIGN))


def asin(x: Any, form: Any) -> Any:
    """Inverse sine; above 1/2, pi/2 - 2 asin(sqrt((1 - x) / 2))."""
    if in_words(form):
        return in_fixed_point(x, form.ARC_SINE)
    size = abs(x)
    small = size <= 0.5
    high, low, r = _arc(size, small, form)
    far = form.real(math.pi / 4) - 2 * high
    far = form.real(math.pi / 4) + (far - (2 * (high * r + low * (1 + r)) - form.PI_LOW / 2))
    return signed(np.where(small, size + size * r, far), x, form)


def acos(x: Any, form: Any) -> Any:
    """Inverse cosine."""
    if in_words(form):
        return in_fixed_point(x, form.ARC_COSINE)
    small = abs(x) <= 0.5
    high, low, r = _arc(abs(x), small, form)
    near = form.real(math.pi / 2) - (x - (form.PI_LOW / 2 - x * r))
    far = 2 * (high + (low + (high + low) * r))
    return np.where(small, near, np.where(x < 0, form.real(math.pi) - (far - form.PI_LOW), far))


def atan(x: Any, form: Any) -> Any:
    """Inverse tangent."""
    return atan2(x, form.real(1), form)


def atan2(y: Any, x: Any, form: Any) -> Any:
    """Angle of the point (x, y), reduced to the octant from 0 to pi/4."""
    if in_words(form):
        return in_fixed_point(y, form.ANGLE, x)
    a, b = abs(y), abs(x)
    small, large = min(a, b), max(a, b)
    far = 2.0 ** (form.BIAS // 2)
    scale = np.where(
        large > far, 2.0**-30, np.where(large * far < 1, 2.0**30, form.real(1))
    )  # devices may divide inaccurately outside of this range
    q = (small * scale) / (large * scale)
    q = np.where(small == 0, 0, np.where(a == b, 1, q))
    z = q * q
    angle = q + q * z * polynomial(z, form.ATAN)
    angle = np.where(a > b, form.real(math.pi / 2) - (angle - form.PI_LOW / 2), angle)
    angle = np.where(bits(x) >> (form.WIDTH - 1) != 0, form.real(math.pi) - (angle - form.PI_LOW), angle)
    return np.where((bits(a) > form.INF) | (bits(b) > form.INF), y + x, signed(angle, y, form))


def _arc(size: Any, small: Any, form: Any) -> Any:
    """r = |x|, or sqrt((1 - |x|) / 2) unless `small`, as high and low part; and asin(r) / r - 1."""
    z = np.where(small, size * size, (1 - size) * 0.5)
    root = np.where(z < 0, form.real(math.nan), math.sqrt(z))
    high = cut(root, form)
    low = (z - high * high) / np.where(root == 0, 1, root + high)
    return high, low, z * polynomial(z, form.ASIN)


def _wave(x: Any, shift: Any, sign: Any, form: Any) -> Any:
    """Sine of |x| plus `shift` quarter turns, with this sign."""
    high, low, turns = _turned(x, form)
    turns = turns + shift
    z = high * high
    sine = high + (low + high * z * polynomial(z, form.SIN))
    half = z * 0.5
    one = 1 - half
    cosine = one + (((1 - one) - half) + (z * z * polynomial(z, form.COS) - high * low))
    wave = np.where((turns & 1) == 0, sine, cosine)
    return number(bits(wave) ^ (((turns >> 1) << (form.WIDTH - 1)) ^ sign))


def _turned(x: Any, form: Any) -> Any:
    """|x| - n pi/2 for the nearest n, as high and low part; and n, an unsigned integer."""
    size = abs(x)
    n = np.rint(size * (2 / math.pi))
    if bits(size) < bits(form.real(form.MOST)):
        turns = form.uint(n)
        first = size - n * form.HALF_PI
        second = n * form.HALF_PI_2
        high = first - second
        low = ((first - high) - second) - n * form.HALF_PI_3
    else:
        high, low, turns = _far(bits(size), form)
    return high, low, turns


def _far(u: Any, form: Any) -> Any:
    """Reduction of large numbers, given as bits, with the relevant bits of 2/pi (Payne and Hanek 1983)."""
    first_bit = (u >> form.SHIFT) - (form.BIAS + form.WHOLE)
    m = (u & ((1 << form.SHIFT) - 1)) | (1 << form.SHIFT)
    offset = first_bit & (form.WIDTH - 1)
    words = table_entries(form.TURNS, first_bit // form.WIDTH, 4)
    first, second, third = _moved(words, offset, form), _moved(words[1:], offset, form), _moved(words[2:], offset, form)
    low = m * second + _upper(m, third, form)
    high = m * first + _upper(m, second, form) + np.where(low < m * second, form.uint(1), form.uint(0))
    turns = (high + (form.uint(1) << (form.WIDTH - 3))) >> (form.WIDTH - 2)
    rest = form.sint((high << 2) | (low >> (form.WIDTH - 2)))
    t = cut(form.real(rest), form)
    tail = form.real(rest - form.sint(t)) + form.real(low << 2) * 2.0**-form.WIDTH
    a = t * form.HALF_PI_CUT
    b = t * form.HALF_PI_LOW + tail * form.real(math.pi / 2)
    total = a + b
    total = np.where(u >= form.INF, form.real(math.nan), total)
    return total * 2.0**-form.WIDTH, ((a - total) + b) * 2.0**-form.WIDTH, turns


def _moved(words: Any, n: Any, form: Any) -> Any:
    """Word that starts n bits after the start of two consecutive words."""
    return (words[0] << n) | ((words[1] >> 1) >> (form.WIDTH - 1 - n))


def _upper(a: Any, b: Any, form: Any) -> Any:
    """Upper word of the product of two words."""
    half, mask = form.WIDTH // 2, (1 << form.WIDTH // 2) - 1
    middle = (a >> half) * (b & mask) + (((a & mask) * (b & mask)) >> half)
    return (a >> half) * (b >> half) + (middle >> half) + (((a & mask) * (b >> half) + (middle & mask)) >> half)
