"""Functions of float64 in fixed point, on devices without float64, with sine and cosine; each is rounded once.

By the operations of float64 that compute it elsewhere, a sine takes nine times as many instructions. Its argument is
reduced as by M. Payne and R. Hanek: Radian reduction for trigonometric functions, 1983: three words of 64 bits of 2/pi
are multiplied by the significand, modulo 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from vkcompute.ir.builder import Builder
from vkcompute.ir.float_angles import Angle, AngleBuilder, Inverse
from vkcompute.ir.float_exponentials import Exponential, exponential
from vkcompute.ir.float_logarithms import Logarithm, LogarithmBuilder
from vkcompute.ir.float_pairs import BIAS, FloatPairBuilder
from vkcompute.ir.float_polynomials import Polynomial, common_scales, fixed_sum
from vkcompute.ir.float_powers import Power, PowerBuilder
from vkcompute.ir.function import Value
from vkcompute.ir.integer_pairs import Pair, PairBuilder
from vkcompute.ir.types import INT32, UINT32

_HALF_PI = 0xC90FDAA22168C235  # 1.57 with 63 fraction bits
_SINE = Polynomial(tuple([Fraction((-1) ** k, math.factorial(2 * k + 1)) for k in range(9)]), 0)
_COSINE = Polynomial(tuple([Fraction((-1) ** k, math.factorial(2 * k)) for k in range(9)]), 0)
_LEAST = -50  # the exponent below which a cosine is 1
_WHOLE = 14  # the exponent of numbers for which the table begins with the first bits that matter
_NAN = 0x7FF8 << 48


class Wave(NamedTuple):
    """The sine of x plus some quarter turns, the attribute of an operation "in_fixed_point".

    Attributes:
        turns: quarter turns: 0 for the sine, 1 for the cosine.
        table: the bits of 2/pi, by words of 64 bits, after 40 zeros.
    """

    turns: int
    table: tuple[int, ...]


class Tangent(NamedTuple):
    """The tangent of x, the attribute of an operation "in_fixed_point".

    Attributes:
        table: as that of a `Wave`.
    """

    table: tuple[int, ...]


def in_fixed_point(
    b: Builder,
    pairs: PairBuilder,
    floats: FloatPairBuilder,
    operands: Sequence[Pair],
    function: Angle | Exponential | Inverse | Logarithm | Power | Tangent | Wave,
) -> Pair:
    """The function of a float64, or of two."""
    if isinstance(function, Angle):
        return AngleBuilder(b, pairs, floats).value(*operands)
    if isinstance(function, Power):
        return PowerBuilder(b, pairs, floats).value(*operands)
    (x,) = operands
    if isinstance(function, Inverse):
        return AngleBuilder(b, pairs, floats).inverse(x, function)
    if isinstance(function, Tangent):
        return _WaveBuilder(b, pairs, floats).tangent(x, function.table)
    if isinstance(function, Logarithm):
        return LogarithmBuilder(b, pairs, floats).value(x, function)
    if isinstance(function, Exponential):
        return exponential(b, pairs, floats, x, function)
    return _WaveBuilder(b, pairs, floats).value(x, function)


class _WaveBuilder:
    """Appends the operations of a sine or cosine."""

    def __init__(self, b: Builder, pairs: PairBuilder, floats: FloatPairBuilder) -> None:
        self._b, self._pairs, self._floats = b, pairs, floats

    def value(self, x: Pair, wave: Wave) -> Pair:
        """The sine of |x| plus quarter turns, with the sign of x for a sine."""
        b, pairs, floats = self._b, self._pairs, self._floats
        number = floats.unpacked(x)
        exponent = b.compute("sub", number.exponent, b.const(BIAS, INT32))
        turns, negative, zeros, angle = self._reduced(number.significand, exponent, wave.table)
        turns = b.compute("add", turns, pairs.word(wave.turns))
        is_cosine = b.compute("ne", b.compute("and", turns, pairs.word(1)), pairs.word(0))
        size = pairs.shr(angle, b.compute("sub", zeros, pairs.word(1)), signed=False)
        square = pairs.wide_product(size, size)[0]
        halved = pairs.shr(square, pairs.word(1), signed=False)
        total = fixed_sum(b, pairs, halved, None, [_SINE, _COSINE], is_cosine)
        factor = pairs.select(is_cosine, pairs.constant(1 << 63), angle)
        power = b.select(is_cosine, pairs.word(0), zeros)
        product = pairs.wide_product(factor, total)[0]
        power = b.compute("sub", b.const(BIAS + 64 - _scale(), INT32), b.bitcast(power, INT32))
        sign = b.compute("shl", b.compute("shr", turns, pairs.word(1)), pairs.word(31))
        sign = b.compute("xor", sign, b.select(is_cosine, pairs.word(0), negative))
        sign = sign if wave.turns else b.compute("xor", sign, number.sign)
        result = floats.rounded(sign, *floats.normalized(power, product))
        if not wave.turns:
            result = pairs.select(b.compute("lt", exponent, b.const(-28, INT32)), x, result)
        return pairs.select(b.compute("gt", exponent, b.const(BIAS, INT32)), pairs.constant(_NAN), result)

    def tangent(self, x: Pair, table: Sequence[int]) -> Pair:
        """The quotient of sine and cosine of the rest beyond quarter turns; after an odd one, of -cosine and sine."""
        b, pairs, floats = self._b, self._pairs, self._floats
        number = floats.unpacked(x)
        exponent = b.compute("sub", number.exponent, b.const(BIAS, INT32))
        turns, negative, zeros, angle = self._reduced(number.significand, exponent, table)
        size = pairs.shr(angle, b.compute("sub", zeros, pairs.word(1)), signed=False)
        halved = pairs.shr(pairs.wide_product(size, size)[0], pairs.word(1), signed=False)
        sums = [fixed_sum(b, pairs, halved, None, [polynomial]) for polynomial in (_SINE, _COSINE)]
        power = b.compute("sub", b.const(64 - _SINE.scales[0], INT32), b.bitcast(zeros, INT32))
        sine_power, sine = floats.normalized(power, pairs.wide_product(angle, sums[0])[0])
        cosine_power, cosine = floats.normalized(b.const(63 - _COSINE.scales[0], INT32), sums[1])
        odd = b.compute("ne", b.compute("and", turns, pairs.word(1)), pairs.word(0))
        one, other = pairs.select(odd, cosine, sine), pairs.select(odd, sine, cosine)
        quotient, is_large, _ = floats.significands.quotient(one, other)
        power = b.compute("sub", sine_power, cosine_power)
        power = b.select(odd, b.compute("neg", power), power)
        power = b.compute("add", b.compute("add", power, b.const(BIAS - 1, INT32)), b.cast(is_large, INT32))
        sign = b.compute("xor", b.compute("xor", number.sign, negative), b.compute("shl", turns, pairs.word(31)))
        result = pairs.select(b.compute("lt", exponent, b.const(-28, INT32)), x, floats.rounded(sign, power, quotient))
        return pairs.select(b.compute("gt", exponent, b.const(BIAS, INT32)), pairs.constant(_NAN), result)

    def _reduced(self, significand: Pair, exponent: Value, table: Sequence[int]) -> tuple[Value, Value, Value, Pair]:
        """The nearest number of quarter turns, the sign of the rest, and the rest: zeros, and 63 bits behind them."""
        b, pairs = self._b, self._pairs
        first, second, third = self._window(exponent, table)
        number = pairs.shr(significand, pairs.word(11), signed=False)
        upper, lower = pairs.wide_product(number, second)
        low = pairs.add(lower, pairs.wide_product(number, third)[0])
        carry = b.cast(pairs.compare("lt", low, lower, signed=False), UINT32)
        high = pairs.add(pairs.add(pairs.mul(number, first), upper), Pair(carry, pairs.word(0)))
        turns = b.compute("shr", b.compute("add", high.high, pairs.word(1 << 29)), pairs.word(30))
        carried = pairs.shr(low, pairs.word(62), signed=False)
        high = pairs.bitwise("or", pairs.shl(high, pairs.word(2)), carried)
        low = pairs.shl(low, pairs.word(2))
        sign = b.compute("and", high.high, pairs.word(1 << 31))
        mask = b.bitcast(b.compute("shr", b.bitcast(high.high, INT32), b.const(31, INT32)), UINT32)
        high, low = [pairs.bitwise("xor", part, Pair(mask, mask)) for part in (high, low)]
        zeros = self._pairs.leading_zeros(high)
        back = b.compute("sub", pairs.word(63), zeros)
        moved = pairs.shr(pairs.shr(low, pairs.word(1), signed=False), back, signed=False)
        rest = pairs.bitwise("or", pairs.shl(high, zeros), moved)
        return turns, sign, zeros, pairs.wide_product(rest, pairs.constant(_HALF_PI))[0]

    def _window(self, exponent: Value, table: Sequence[int]) -> list[Pair]:
        """Three words of 64 bits of the table, from a bit that depends on the exponent."""
        b, pairs = self._b, self._pairs
        limited = b.compute("min", b.compute("max", exponent, b.const(_LEAST, INT32)), b.const(BIAS, INT32))
        bit = b.bitcast(b.compute("add", limited, b.const(64 - _WHOLE, INT32)), UINT32)
        words: list[Value] = [pairs.word(half) for number in (0, *table) for half in (number >> 32, number)]
        first, n = b.compute("shr", bit, pairs.word(5)), 7
        for level in reversed(range((len(words) - n).bit_length())):
            step = 1 << level
            chosen = b.compute("ne", b.compute("and", first, pairs.word(step)), pairs.word(0))
            words = [
                b.select(chosen, words[k + step], words[k]) if k + step < len(words) else words[k]
                for k in range(min(step + n - 1, len(words)))
            ]
        shift = b.compute("and", bit, pairs.word(31))
        back = b.compute("xor", shift, pairs.word(31))
        moved = [
            b.compute("or", b.compute("shl", words[k], shift),
                      b.compute("shr", b.compute("shr", words[k + 1], pairs.word(1)), back))
            for k in range(n - 1)
        ]  # fmt: skip
        return [Pair(moved[k + 1], moved[k]) for k in (0, 2, 4)]


def _scale() -> int:
    """Fraction bits of the sums of sine and cosine."""
    return common_scales([_SINE, _COSINE])[0]
