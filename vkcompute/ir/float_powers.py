"""Powers of float64 in fixed point, on devices without float64; each is rounded once.

The power is 2 ** (y * log2(x)). The logarithm has 96 bits, as the product makes its error up to 2**17 times larger.
That of 1 + r is r / log(2), with 96 bits of the constant, less r**2 times a polynomial in r.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from vkcompute.ir.builder import Builder
from vkcompute.ir.float_exponentials import power_of_two
from vkcompute.ir.float_logarithms import LogarithmBuilder, Reduced, constants_of, natural
from vkcompute.ir.float_pairs import BIAS, FloatPairBuilder, Unpacked
from vkcompute.ir.float_polynomials import Polynomial, fixed_sum
from vkcompute.ir.function import Value
from vkcompute.ir.integer_pairs import Pair, PairBuilder
from vkcompute.ir.types import INT32, UINT32

_ONE, _INFINITY, _NAN = BIAS << 52, 0x7FF << 52, 0x7FF8 << 48
_BITS = 96  # fraction bits of the logarithm
_UNIT = 1 / natural(Fraction(2))  # 1.44
_WIDE_UNIT = round(_UNIT * 2**95)
_TAIL = Polynomial(
    tuple([Fraction((-1) ** k, k + 2) * _UNIT for k in range(8)]), -6
)  # log2(1 + r) = r * unit - r**2 * tail
_ALIGNED = 28  # fraction bits that the product with the unit has beyond the other one

Words = tuple[Value, ...]
"""A number of 96 bits, the lowest word first."""


class Power(NamedTuple):
    """x ** y, the attribute of an operation "in_fixed_point" of two numbers."""


class _Logarithm(NamedTuple):
    """A logarithm to base 2.

    Attributes:
        negative: True if it is negative.
        size: the magnitude, with the first bit at the top.
        bits: the fraction bits of the magnitude, an int32.
    """

    negative: Value
    size: Words
    bits: Value


class PowerBuilder:
    """Appends the operations of a power."""

    def __init__(self, b: Builder, pairs: PairBuilder, floats: FloatPairBuilder) -> None:
        self._b, self._pairs, self._floats = b, pairs, floats
        self._logarithms = LogarithmBuilder(b, pairs, floats)

    def value(self, x: Pair, y: Pair) -> Pair:
        """x ** y, with the special cases of C's pow."""
        b, pairs = self._b, self._pairs
        base, exponent = self._floats.unpacked(x), self._floats.unpacked(y)
        logarithm = self._logarithm(base)
        negative = b.compute("ne", logarithm.negative, b.compute("ne", exponent.sign, pairs.word(0)))
        whole, fraction, huge = self._product(logarithm, exponent)
        result = power_of_two(b, pairs, self._floats, whole, fraction, negative)
        infinity, zero, one = pairs.constant(_INFINITY), pairs.constant(0), pairs.constant(_ONE)
        result = pairs.select(huge, pairs.select(negative, zero, infinity), result)
        size = self._floats.abs(x)
        is_one = pairs.compare("eq", size, one, signed=False)
        return self._special(x, y, base, exponent, pairs.select(is_one, one, result))

    def _special(self, x: Pair, y: Pair, base: Unpacked, exponent: Unpacked, result: Pair) -> Pair:
        """The result, with its sign, or that of zeros, infinities and NaN."""
        b, pairs, floats = self._b, self._pairs, self._floats
        fractional, odd = self._parity(exponent)
        is_zero, is_infinite = floats.is_zero(x), floats.is_infinite(x)
        below, y_below = [b.compute("ne", number.sign, pairs.word(0)) for number in (base, exponent)]
        result = pairs.select(b.compute("and", below, fractional), pairs.constant(_NAN), result)
        ends = b.compute("eq", is_zero, y_below)
        end = pairs.select(ends, pairs.constant(_INFINITY), pairs.constant(0))
        result = pairs.select(b.compute("or", is_zero, is_infinite), end, result)
        sign = b.select(odd, base.sign, pairs.word(0))
        result = Pair(result.low, b.compute("or", result.high, sign))
        is_nan = b.compute("or", floats.is_nan(x), floats.is_nan(y))
        result = pairs.select(is_nan, pairs.constant(_NAN), result)
        one = pairs.constant(_ONE)
        is_one = b.compute("or", pairs.compare("eq", x, one, signed=False), floats.is_zero(y))
        return pairs.select(is_one, one, result)

    def _parity(self, y: Unpacked) -> tuple[Value, Value]:
        """True for a number that is not whole, and for an odd one."""
        b, pairs = self._b, self._pairs
        power = b.compute("sub", y.exponent, b.const(BIAS, INT32))
        below = b.compute("lt", power, b.const(0, INT32))
        shift = b.compute("min", b.compute("max", power, b.const(0, INT32)), b.const(63, INT32))
        shifted = pairs.shl(y.significand, b.bitcast(shift, UINT32))  # with the ones at the top
        rest = pairs.is_nonzero(pairs.shl(shifted, pairs.word(1)))
        fractional = b.compute("or", below, rest)
        is_odd = b.compute("lt", b.bitcast(shifted.high, INT32), b.const(0, INT32))
        return fractional, b.compute("and", is_odd, b.compute("not", fractional))

    # -- the logarithm ------------------------------------------------------------------------------------------------

    def _logarithm(self, x: Unpacked) -> _Logarithm:
        """log2 of |x|."""
        b, pairs = self._b, self._pairs
        exponent = b.compute("sub", x.exponent, b.const(BIAS, INT32))
        reduced = self._logarithms.normalized(self._logarithms.reduced(x.significand, exponent, constants_of(2, _BITS)))
        part = self._part(reduced)
        # Of 96 fraction bits, the sum with the logarithm of the constants; near 1, the part alone has more.
        more = 69 + 95 - 64 - _BITS
        moved = self._right(part, pairs.word(more))
        mask = b.compute("sub", pairs.word(0), b.cast(reduced.negative, UINT32))
        one = b.cast(reduced.negative, UINT32)
        signed = tuple([b.compute("xor", word, mask) for word in moved])
        fraction = self._logarithms.added(self._logarithms.added(reduced.offset, signed), (one, *[pairs.word(0)] * 2))
        whole = b.compute("sub", b.bitcast(reduced.power, UINT32), b.cast(reduced.below, UINT32))
        negative = b.compute("lt", b.bitcast(whole, INT32), b.const(0, INT32))
        mask = b.compute("sub", pairs.word(0), b.cast(negative, UINT32))
        whole, *rest = [b.compute("xor", word, mask) for word in (whole, *fraction)]
        is_wide = b.compute("ne", whole, pairs.word(0))
        size = [b.select(is_wide, one, other) for one, other in zip((*rest[1:], whole), rest, strict=True)]
        size = [b.select(reduced.near, one, other) for one, other in zip(part, size, strict=True)]
        near_bits = b.compute("add", reduced.zeros, pairs.word(_BITS + more))
        bits = b.select(reduced.near, near_bits, b.select(is_wide, pairs.word(_BITS - 32), pairs.word(_BITS)))
        zeros = b.compute("sub", pairs.word(31), b.compute("find_msb", size[2]))
        return _Logarithm(
            b.select(reduced.near, reduced.negative, negative),
            self._left(size, zeros),
            b.bitcast(b.compute("add", bits, zeros), INT32),
        )

    def _part(self, reduced: Reduced) -> Words:
        """|log2(1 + r)|, of 96 bits."""
        b, pairs = self._b, self._pairs
        unit = Pair(pairs.word(_WIDE_UNIT >> 32), pairs.word(_WIDE_UNIT >> 64))
        upper, lower = pairs.wide_product(reduced.factor, unit)
        low = pairs.product(reduced.factor.high, pairs.word(_WIDE_UNIT)).high
        low = b.compute("add", lower.high, low)
        carry = b.cast(b.compute("lt", low, lower.high), UINT32)
        upper = pairs.add(upper, Pair(carry, pairs.word(0)))
        tail = fixed_sum(b, pairs, reduced.size, reduced.negative, [_TAIL])
        small = pairs.wide_product(reduced.factor, pairs.wide_product(reduced.size, tail)[0])[0]
        wide = pairs.shl(small, pairs.word(_ALIGNED))
        aligned = (wide.low, wide.high, b.compute("shr", small.high, pairs.word(32 - _ALIGNED)))
        # r * unit - r**2 * tail, of which the second part counts with the first for a negative r.
        mask = b.compute("sub", b.cast(reduced.negative, UINT32), pairs.word(1))
        signed = tuple([b.compute("xor", word, mask) for word in aligned])
        one = b.compute("and", mask, pairs.word(1))
        added = self._logarithms.added((low, upper.low, upper.high), signed)
        return self._logarithms.added(added, (one, *[pairs.word(0)] * 2))

    def _left(self, x: Words | list[Value], amount: Value) -> Words:
        """x << amount, of 0 to 31."""
        b, back = self._b, self._b.compute("xor", amount, self._pairs.word(31))
        words = [b.compute("shl", word, amount) for word in x]
        carried = [b.compute("shr", b.compute("shr", word, self._pairs.word(1)), back) for word in x[:-1]]
        return words[0], *[b.compute("or", *both) for both in zip(words[1:], carried, strict=True)]

    def _right(self, x: Words | list[Value], amount: Value) -> Words:
        """x >> amount, of 0 to 31."""
        b, back = self._b, self._b.compute("xor", amount, self._pairs.word(31))
        words = [b.compute("shr", word, amount) for word in x]
        carried = [b.compute("shl", b.compute("shl", word, self._pairs.word(1)), back) for word in x[1:]]
        return *[b.compute("or", *both) for both in zip(words[:-1], carried, strict=True)], words[-1]

    # -- the product --------------------------------------------------------------------------------------------------

    def _product(self, logarithm: _Logarithm, y: Unpacked) -> tuple[Value, Pair, Value]:
        """|y * log2(x)|: the whole part, an int32, the fraction of 64 bits, and True if it is beyond all powers."""
        b, pairs = self._b, self._pairs
        low, middle, high = logarithm.size
        upper, lower = pairs.wide_product(Pair(middle, high), y.significand)
        rest = b.compute("add", lower.high, pairs.product(low, y.significand.high).high)
        carry = b.cast(b.compute("lt", rest, lower.high), UINT32)
        upper = pairs.add(upper, Pair(carry, pairs.word(0)))
        # The product has 96 bits of 160, and fraction bits of the logarithm, and of y with the first bit for 1.
        power = b.compute("sub", y.exponent, b.const(BIAS, INT32))
        shift = b.compute("sub", b.compute("sub", logarithm.bits, power), b.const(65, INT32))
        huge = b.compute("lt", shift, b.const(20, INT32))
        limited = b.bitcast(b.compute("min", b.compute("max", shift, b.const(20, INT32)), b.const(95, INT32)), UINT32)
        words = [rest, upper.low, upper.high]
        for count in (32, 64):
            is_far = b.compute("ge", limited, pairs.word(count))
            words = [
                b.select(is_far, one, other) for one, other in zip((*words[1:], pairs.word(0)), words, strict=True)
            ]
        low, high, whole = self._right(words, b.compute("and", limited, pairs.word(31)))
        return b.bitcast(whole, INT32), Pair(low, high), huge
