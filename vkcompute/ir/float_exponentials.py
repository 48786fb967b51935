"""Exponentials of float64 in fixed point, on devices without float64; each is rounded once.

By the operations of float64 that compute it elsewhere, an exponential takes four times as many instructions.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from vkcompute.ir.builder import Builder
from vkcompute.ir.float_pairs import BIAS, FloatPairBuilder
from vkcompute.ir.float_polynomials import Polynomial, fixed_sum
from vkcompute.ir.function import Value
from vkcompute.ir.integer_pairs import Pair, PairBuilder
from vkcompute.ir.types import INT32, UINT32

_LN_2 = Fraction(0xB17217F7D1CF79ABC9E3B39803F2F6AF, 1 << 128)
_LOG2_E = 0xB8AA3B295C17F0BB, 0xBE87FED0  # 1.44 with 63 fraction bits, and the next 32 bits
_EXP = Polynomial(tuple([_LN_2**k / math.factorial(k) for k in range(14)]), -1)
_NAN, _INFINITY = 0x7FF8 << 48, 0x7FF << 52


class Exponential(NamedTuple):
    """e ** x * 2 ** n, the attribute of an operation "in_fixed_point".

    Attributes:
        base: 2 for a power of 2; 0 for one of e.
    """

    n: int
    base: int = 0


def exponential(b: Builder, pairs: PairBuilder, floats: FloatPairBuilder, x: Pair, function: Exponential) -> Pair:
    """The power of e or 2."""
    number = floats.unpacked(x)
    exponent = b.compute("sub", number.exponent, b.const(BIAS, INT32))
    parts, most = (_fixed, 11) if function.base == 2 else (_times_log2_e, 10)
    whole, fraction = parts(b, pairs, number.significand, exponent)
    negative = b.compute("ne", number.sign, pairs.word(0))
    result = power_of_two(b, pairs, floats, whole, fraction, negative, function.n)
    huge = pairs.select(negative, pairs.constant(0), pairs.constant(_INFINITY))
    result = pairs.select(b.compute("ge", exponent, b.const(most, INT32)), huge, result)
    return pairs.select(floats.is_nan(x), pairs.constant(_NAN), result)


def power_of_two(
    b: Builder, pairs: PairBuilder, floats: FloatPairBuilder, whole: Value, fraction: Pair, negative: Value, n: int = 0
) -> Pair:
    """2 ** (n + whole + fraction), or with the other sign of these two: an int32, and a fraction of 64 bits."""
    fraction = pairs.select(negative, pairs.neg(fraction), fraction)
    # -(whole + fraction) is ~whole plus the complement of the fraction, which is not 0 where this matters.
    is_whole = b.compute("not", pairs.is_nonzero(fraction))
    below = b.select(is_whole, b.compute("neg", whole), b.compute("not", whole))
    half = b.compute("shr", fraction.high, pairs.word(31))
    whole = b.compute("add", b.select(negative, below, whole), b.bitcast(half, INT32))
    total = fixed_sum(b, pairs, pairs.abs(fraction), b.compute("ne", half, pairs.word(0)), [_EXP])
    power = b.compute("add", whole, b.const(BIAS + 63 - _EXP.scales[0] + n, INT32))
    return floats.rounded(pairs.word(0), *floats.normalized(power, total))


def _fixed(b: Builder, pairs: PairBuilder, significand: Pair, exponent: Value) -> tuple[Value, Pair]:
    """The whole part of |x| < 2048, an int32, and the fraction of 64 bits."""
    zero, shift = b.const(0, INT32), b.compute("add", exponent, b.const(1, INT32))
    left = b.bitcast(b.compute("min", b.compute("max", shift, zero), b.const(11, INT32)), UINT32)
    right = b.bitcast(b.compute("min", b.compute("max", b.compute("neg", shift), zero), b.const(63, INT32)), UINT32)
    back = b.compute("xor", left, pairs.word(31))
    whole = b.compute("shr", b.compute("shr", significand.high, pairs.word(1)), back)
    return b.bitcast(whole, INT32), pairs.shr(pairs.shl(significand, left), right, signed=False)


def _times_log2_e(b: Builder, pairs: PairBuilder, significand: Pair, exponent: Value) -> tuple[Value, Pair]:
    """The product of |x| < 1024 and log2(e): the whole part, an int32, and the fraction of 64 bits."""
    zero = b.const(0, INT32)
    below = b.compute("min", b.compute("max", b.compute("neg", exponent), zero), b.const(63, INT32))
    significand = pairs.shr(significand, b.bitcast(below, UINT32), signed=False)
    first, rest = _LOG2_E
    upper, lower = pairs.wide_product(significand, pairs.constant(first))
    added = pairs.add(lower, pairs.product(significand.high, pairs.word(rest)))
    carry = b.cast(pairs.compare("lt", added, lower, signed=False), UINT32)
    upper = pairs.add(upper, Pair(carry, pairs.word(0)))
    exponent = b.compute("min", b.compute("max", exponent, zero), b.const(9, INT32))
    shift = b.compute("add", b.bitcast(exponent, UINT32), pairs.word(2))
    back = b.compute("sub", pairs.word(32), shift)
    words = upper.high, upper.low, added.high
    high, low = [
        b.compute("or", b.compute("shl", words[k], shift), b.compute("shr", words[k + 1], back)) for k in range(2)
    ]
    return b.bitcast(b.compute("shr", upper.high, back), INT32), Pair(low, high)
