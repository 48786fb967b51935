"""float16 held as float32 of the same value: rounding, and conversions to and from its 16 bits."""

from __future__ import annotations

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Value
from vkcompute.ir.types import FLOAT32, INT32, UINT32

_SIGN, _INFINITY, _QUIET = 0x80000000, 0x7F800000, 0x400000
_NORMAL = 0x38800000
"""The bits of the least normal float16, 2**-14, as float32; subnormal numbers are multiples of 2**-24."""
_BEYOND = 0x47800000
"""The bits of 2**16, which has no float16."""
_REBIASED = 0x38000000
"""The difference of the biases of the exponents, 127 - 15, in float32's bits."""
_DROPPED = 13
"""The bits by which the significand of float32 is longer."""


def rounded_to_half(b: Builder, value: Value) -> Value:
    """Rounds float32 to the nearest float16, to even between two; a NaN stays one."""
    word = b.bitcast(value, UINT32)
    sign, size = _sign(b, word), _size(b, word)
    odd = b.compute("and", b.compute("shr", size, _uint(b, _DROPPED)), _uint(b, 1))
    nearest = b.compute("add", b.compute("add", size, _uint(b, (1 << _DROPPED - 1) - 1)), odd)
    nearest = b.select(_at_least(b, nearest, _BEYOND), _uint(b, _INFINITY), nearest)
    special = b.select(b.compute("gt", size, _uint(b, _INFINITY)), b.compute("or", size, _uint(b, _QUIET)), nearest)
    kept = b.compute("and", special, _uint(b, 0xFFFFFFFF >> _DROPPED << _DROPPED))
    steps = b.compute("round", _scaled(b, b.bitcast(size, FLOAT32), 24))
    subnormal = b.bitcast(_scaled(b, steps, -24), UINT32)
    return b.bitcast(b.compute("or", sign, b.select(_at_least(b, size, _NORMAL), kept, subnormal)), FLOAT32)


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


def bits_of_half(b: Builder, value: Value) -> Value:
    """Returns the 16 bits of a float16, which is held as float32, as uint32."""
    word = b.bitcast(value, UINT32)
    sign, size = _sign(b, word), _size(b, word)
    exponent = b.select(_at_least(b, size, _BEYOND), _uint(b, _INFINITY - (0x7C00 << _DROPPED)), _uint(b, _REBIASED))
    normal = b.compute("shr", b.compute("sub", size, exponent), _uint(b, _DROPPED))
    subnormal = b.cast(b.cast(_scaled(b, b.bitcast(size, FLOAT32), 24), INT32), UINT32)
    magnitude = b.select(_at_least(b, size, _NORMAL), normal, subnormal)
    return b.compute("or", b.compute("shr", sign, _uint(b, 16)), magnitude)


def half_of_bits(b: Builder, word: Value) -> Value:
    """Returns the float16 with these bits, in the lower half of uint32, as float32."""
    sign = b.compute("shl", b.compute("and", word, _uint(b, 0x8000)), _uint(b, 16))
    size = b.compute("and", word, _uint(b, 0x7FFF))
    exponent = b.select(_at_least(b, size, 0x7C00), _uint(b, _INFINITY - (0x7C00 << _DROPPED)), _uint(b, _REBIASED))
    normal = b.compute("add", b.compute("shl", size, _uint(b, _DROPPED)), exponent)
    subnormal = b.bitcast(_scaled(b, b.cast(b.cast(size, INT32), FLOAT32), -24), UINT32)
    return b.bitcast(b.compute("or", sign, b.select(_at_least(b, size, 0x0400), normal, subnormal)), FLOAT32)


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
