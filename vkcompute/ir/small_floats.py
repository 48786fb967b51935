"""Floats of 8 and 16 bits held as float32 of the same value: rounding, and conversions to and from their bits.

The formats are IEEE's binary16, bfloat16, and those of 8 bits of P. Micikevicius et al.: FP8 formats for deep learning
(2022), with the forms "fnuz" of B. Noune et al.: 8-bit numerical formats for deep neural networks (2022).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from vkcompute.float_formats import FloatFormat
from vkcompute.ir.function import Value
from vkcompute.ir.types import FLOAT8_E4B15, FLOAT16, FLOAT32, INT32, SCALARS, UINT32, Scalar, SmallFloat, Type

_SIGN, _INFINITY, _QUIET = 0x80000000, 0x7F800000, 0x400000


class Builder(Protocol):
    """Builds operations on numbers, or on blocks of them. Constants have the shape of the operands."""

    def const(self, value: Any, kind: Scalar, /) -> Value:
        """Returns a constant."""

    def compute(self, code: str, /, *args: Value) -> Value:
        """Builds an operation."""

    def cast(self, value: Value, kind: Type, /) -> Value:
        """Converts numbers."""

    def bitcast(self, value: Value, kind: Type, /) -> Value:
        """Reinterprets bits."""

    def select(self, condition: Value, one: Value, other: Value, /) -> Value:
        """Selects numbers."""


FORMATS: dict[Scalar, FloatFormat] = {FLOAT16: FloatFormat(16, 10, -14, 0x7E00, 0x7C00)} | {
    kind: kind.format for kind in (*SCALARS.values(), FLOAT8_E4B15) if isinstance(kind, SmallFloat)
}


def _dropped(f: FloatFormat) -> int:
    """Returns the bits by which the significand of float32 is longer."""
    return 23 - f.mantissa


def _rebias(f: FloatFormat) -> int:
    """Returns the difference of the biases of the exponents, in float32's bits."""
    return (f.least + 126) << 23


def rounded(b: Builder, value: Value, kind: Scalar, *, saturates: bool = False) -> Value:
    """Rounds float32 to the nearest number of a type, to even between two or as its format says; a NaN stays one.

    Greater numbers than the largest become infinite, or a NaN where the format has no infinities. If it saturates,
    they and infinity become the largest.
    """
    f, word = FORMATS[kind], b.bitcast(value, UINT32)
    sign, size = _sign(b, word), _size(b, word)
    half = 1 << _dropped(f) - 1
    if f.away:
        nearest = b.compute("add", size, _uint(b, half))
    else:
        odd = b.compute("and", b.compute("shr", size, _uint(b, _dropped(f))), _uint(b, 1))
        nearest = b.compute("add", b.compute("add", size, _uint(b, half - 1)), odd)
    largest = _INFINITY if f.infinity else _INFINITY | _QUIET
    if saturates:
        largest = int(np.float32(f.value(f.beyond - 1)).view(np.uint32))
    nearest = b.select(_at_least(b, nearest, _rebias(f) + (f.beyond << _dropped(f))), _uint(b, largest), nearest)
    special = b.select(b.compute("gt", size, _uint(b, _INFINITY)), b.compute("or", size, _uint(b, _QUIET)), nearest)
    result = b.compute("and", special, _uint(b, 0xFFFFFFFF >> _dropped(f) << _dropped(f)))
    if f.least > -126:
        steps = _whole(b, _scaled(b, b.bitcast(size, FLOAT32), f.mantissa - f.least), away=f.away)
        subnormal = b.bitcast(_scaled(b, steps, f.least - f.mantissa), UINT32)
        result = b.select(_at_least(b, size, (f.least + 127) << 23), result, subnormal)
    if f.unsigned:
        sign = b.select(b.compute("eq", result, _uint(b, 0)), _uint(b, 0), sign)
    return b.bitcast(b.compute("or", sign, result), FLOAT32)


def _whole(b: Builder, value: Value, *, away: bool) -> Value:
    """Rounds positive numbers to the nearest whole one."""
    if not away:
        return b.compute("round", value)
    below = b.compute("floor", value)
    is_above = b.compute("ge", b.compute("sub", value, below), b.const(0.5, FLOAT32))
    return b.select(is_above, b.compute("add", below, b.const(1.0, FLOAT32)), below)


def to_odd(b: Builder, value: Value, above: Value, below: Value) -> Value:
    """Rounds a number to odd: of the two float32 around it, returns that whose last bit is 1; itself if it is one.

    Args:
        value: the float32 nearest to the number.
        above, below: True if `value` is above, or below, the number.
    """
    word = b.bitcast(value, UINT32)
    is_even = b.compute("eq", b.compute("and", word, _uint(b, 1)), _uint(b, 0))
    is_negative = b.compute("ne", _sign(b, word), _uint(b, 0))
    is_moved = b.compute("and", b.compute("and", is_even, b.compute("or", above, below)), _is_not_0(b, word))
    outwards = b.compute("eq", below, b.compute("not", is_negative))
    moved = b.compute("add", word, b.select(outwards, _uint(b, 1), _uint(b, 0xFFFFFFFF)))
    return b.bitcast(b.select(is_moved, moved, word), FLOAT32)


def bits_of(b: Builder, value: Value, kind: Scalar) -> Value:
    """Returns the bits of a number of a type, which is held as float32, as uint32."""
    f, word = FORMATS[kind], b.bitcast(value, UINT32)
    sign, size = b.compute("shr", _sign(b, word), _uint(b, 32 - f.bits)), _size(b, word)
    if f.least == -126:
        return b.compute("shr", word, _uint(b, _dropped(f)))
    rebias = _uint(b, _rebias(f))
    if f.infinity:
        beyond = _rebias(f) + (f.beyond << _dropped(f))
        special = _uint(b, _INFINITY - (f.infinity << _dropped(f)))
        rebias = b.select(_at_least(b, size, beyond), special, rebias)
    normal = b.compute("shr", b.compute("sub", size, rebias), _uint(b, _dropped(f)))
    subnormal = b.cast(b.cast(_scaled(b, b.bitcast(size, FLOAT32), f.mantissa - f.least), INT32), UINT32)
    bits = b.select(_at_least(b, size, (f.least + 127) << 23), normal, subnormal)
    if f.infinity:
        return b.compute("or", sign, bits)
    is_nan = _at_least(b, size, _INFINITY)
    if f.unsigned:
        return b.select(is_nan, _uint(b, f.nan), b.compute("or", sign, bits))
    return b.compute("or", sign, b.select(is_nan, _uint(b, f.nan), bits))


def of_bits(b: Builder, word: Value, kind: Scalar) -> Value:
    """Returns the number with these bits, the lowest ones of uint32, as float32."""
    f = FORMATS[kind]
    if f.least == -126:
        return b.bitcast(b.compute("shl", word, _uint(b, _dropped(f))), FLOAT32)
    top = 1 << f.bits - 1
    sign = b.compute("shl", b.compute("and", word, _uint(b, top)), _uint(b, 32 - f.bits))
    size = b.compute("and", word, _uint(b, top - 1))
    rebias = _uint(b, _rebias(f))
    if f.infinity:
        rebias = b.select(_at_least(b, size, f.infinity), _uint(b, _INFINITY - (f.infinity << _dropped(f))), rebias)
    normal = b.compute("add", b.compute("shl", size, _uint(b, _dropped(f))), rebias)
    subnormal = b.bitcast(_scaled(b, b.cast(b.cast(size, INT32), FLOAT32), f.least - f.mantissa), UINT32)
    number = b.select(_at_least(b, size, 1 << f.mantissa), normal, subnormal)
    if f.infinity:
        return b.bitcast(b.compute("or", sign, number), FLOAT32)
    nan = _uint(b, _INFINITY | _QUIET)
    if f.unsigned:
        return b.bitcast(b.select(b.compute("eq", word, _uint(b, f.nan)), nan, b.compute("or", sign, number)), FLOAT32)
    number = b.select(_at_least(b, size, f.nan), nan, number)
    return b.bitcast(b.compute("or", sign, number), FLOAT32)


def _uint(b: Builder, value: int) -> Value:
    return b.const(value, UINT32)


def _sign(b: Builder, word: Value) -> Value:
    return b.compute("and", word, _uint(b, _SIGN))


def _size(b: Builder, word: Value) -> Value:
    """Returns the bits of the absolute value."""
    return b.compute("and", word, _uint(b, _SIGN - 1))


def _is_not_0(b: Builder, word: Value) -> Value:
    return b.compute("ne", _size(b, word), _uint(b, 0))


def _at_least(b: Builder, word: Value, least: int) -> Value:
    return b.compute("ge", word, _uint(b, least))


def _scaled(b: Builder, value: Value, exponent: int) -> Value:
    """Multiplies a float32 by a power of two."""
    return b.compute("mul", value, b.const(2.0**exponent, FLOAT32))
