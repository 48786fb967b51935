"""Logarithms of float64 in fixed point, on devices without float64; each is rounded once.

x = m * 2**e, and m is multiplied by two short constants from tables, so that the product is 1 + r with |r| < 2**-6.8,
exactly (P. T. P. Tang: Table-driven implementation of the logarithm function in IEEE floating-point arithmetic, 1990).
The logarithm of x is that of 2**e, less those of the constants, and r times a polynomial in r.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from vkcompute.ir.builder import Builder
from vkcompute.ir.float_pairs import BIAS, FloatPairBuilder, Unpacked
from vkcompute.ir.float_polynomials import Polynomial, fixed_sum
from vkcompute.ir.function import Value
from vkcompute.ir.integer_pairs import Pair, PairBuilder
from vkcompute.ir.types import INT32, UINT32

_INFINITY, _NAN = 0x7FF << 52, 0x7FF8 << 48
UNIT_BITS = 69  # fraction bits of r
_DEGREE, _BOUND = 8, -6  # of the polynomial
_SUM_BITS = {0: 65, 2: 64, 10: 66}
"""Base -> fraction bits of sums: as many as leave the logarithms of m below 1."""
_FIRST = {i: round(32 * 8 / i) for i in range(6, 12)}
"""8 m, rounded -> 32 times the first constant."""
_SECOND = {j: round(2048 * 64 / j) for j in range(59, 71)}
"""64 times the product, rounded -> 2048 times the second constant."""


class Logarithm(NamedTuple):
    """The logarithm of x, the attribute of an operation "in_fixed_point".

    Attributes:
        base: 2 or 10; 0 for the natural logarithm.
        of_sum: True for that of 1 + x.
    """

    base: int
    of_sum: bool = False


class Constants(NamedTuple):
    """Constants of a base.

    Attributes:
        bits: the fraction bits of sums.
        two: the logarithm of 2.
        first, second: those of the constants of the tables, by index, negated.
        polynomial: log(1 + r) / r.
    """

    bits: int
    two: int
    first: dict[int, int]
    second: dict[int, int]
    polynomial: Polynomial


def natural(number: Fraction) -> Fraction:
    """The natural logarithm to 100 bits, by the series of the inverse hyperbolic tangent."""
    s = (number - 1) / (number + 1)
    term, square, total = int(s * 2**110), s * s, 0
    for k in range(1, 160, 2):
        total += term // k
        term = int(term * square)
    return Fraction(2 * total, 2**110)


@functools.cache
def constants_of(base: int, bits: int) -> Constants:
    """Returns the constants of a base, for sums with so many fraction bits."""
    two = natural(Fraction(2))
    unit = {0: Fraction(1), 2: two, 10: 3 * two + natural(Fraction(5, 4))}[base]

    def fixed(number: Fraction) -> int:
        return round(-natural(number) / unit * (1 << bits))

    coefficients = [Fraction((-1) ** k, k + 1) / unit for k in range(_DEGREE + 1)]
    return Constants(
        bits,
        round(two / unit * (1 << bits)),
        {i: fixed(Fraction(factor, 32)) for i, factor in _FIRST.items()},
        {j: fixed(Fraction(factor, 2048)) for j, factor in _SECOND.items()},
        Polynomial(tuple(coefficients), _BOUND),
    )


class Reduced(NamedTuple):
    """A number as (1 + r) * 2**e over constants.

    Attributes:
        power: the exponent e, an int32.
        offset: the negated logarithm of the constants, as words, the lowest first, modulo a power of 2.
        size: |r|, with 69 fraction bits.
        negative: True if r is negative.
        factor, zeros: |r| with more bits, and their number: where the result is near 0, r alone decides it.
        near: True there.
        below: True for a logarithm below that of 2**e.
    """

    power: Value
    offset: tuple[Value, ...]
    size: Pair
    negative: Value
    factor: Pair
    zeros: Value
    near: Value
    below: Value


class LogarithmBuilder:
    """Appends the operations of a logarithm."""

    def __init__(self, b: Builder, pairs: PairBuilder, floats: FloatPairBuilder) -> None:
        self._b, self._pairs, self._floats = b, pairs, floats

    def value(self, x: Pair, logarithm: Logarithm) -> Pair:
        """The logarithm of x or of 1 + x."""
        b, pairs, floats = self._b, self._pairs, self._floats
        constants, number = constants_of(logarithm.base, _SUM_BITS[logarithm.base]), floats.unpacked(x)
        exponent = b.compute("sub", number.exponent, b.const(BIAS, INT32))
        if logarithm.of_sum:
            total, power = self._one_more(number.sign, exponent, number.significand)
            reduced = self._unless_tiny(self.reduced(total, power, constants), number, exponent)
            least = pairs.constant((1 << 63) | BIAS << 52)  # -1
            beyond, pole = [pairs.compare(code, x, least, signed=False) for code in ("gt", "eq")]
        else:
            reduced = self.normalized(self.reduced(number.significand, exponent, constants))
            beyond, pole = b.compute("ne", number.sign, pairs.word(0)), floats.is_zero(x)
        result = self._sum(reduced, constants)
        special = b.compute("eq", b.compute("and", x.high, pairs.word(_INFINITY >> 32)), pairs.word(_INFINITY >> 32))
        result = pairs.select(special, x, result)
        result = pairs.select(b.compute("or", beyond, floats.is_nan(x)), pairs.constant(_NAN), result)
        if logarithm.of_sum:
            result = pairs.select(floats.is_zero(x), x, result)
        return pairs.select(pole, pairs.constant((1 << 63) | _INFINITY), result)

    # -- reduction ----------------------------------------------------------------------------------------------------

    def _one_more(self, sign: Value, exponent: Value, significand: Pair) -> tuple[Pair, Value]:
        """1 + x for x above -1: a significand with the first bit at the top, and the exponent."""
        b, pairs = self._b, self._pairs
        zero, most = b.const(0, INT32), b.const(63, INT32)
        above = b.compute("max", exponent, zero)
        right = b.compute("min", b.compute("max", b.compute("neg", exponent), zero), most)
        size = pairs.shr(significand, b.bitcast(right, UINT32), signed=False)
        one = pairs.shr(pairs.constant(1 << 63), b.bitcast(b.compute("min", above, most), UINT32), signed=False)
        negative = b.compute("ne", sign, pairs.word(0))
        total = pairs.select(negative, pairs.sub(one, size), pairs.add(one, size))
        carries = b.compute("and", b.compute("not", negative), pairs.compare("lt", total, one, signed=False))
        halved = pairs.bitwise("or", pairs.shr(total, pairs.word(1), signed=False), pairs.constant(1 << 63))
        zeros = self._pairs.leading_zeros(total)
        power = b.compute("sub", above, b.select(carries, b.const(-1, INT32), b.bitcast(zeros, INT32)))
        return pairs.select(carries, halved, pairs.shl(total, zeros)), power

    def reduced(self, significand: Pair, exponent: Value, constants: Constants) -> Reduced:
        """Multiplies a significand by the constants of the tables."""
        b, pairs, n_words = self._b, self._pairs, constants.bits // 32
        is_large = b.compute("ge", significand.high, pairs.word(0xB0000000))  # from 1.375 on
        m = pairs.select(is_large, pairs.shr(significand, pairs.word(1), signed=False), significand)
        power = b.compute("add", exponent, b.cast(is_large, INT32))
        index = b.compute("shr", b.compute("add", m.high, pairs.word(1 << 27)), pairs.word(28))
        first, offset = self._entry(index, 3, _FIRST, constants.first, n_words)
        product = b.compute("mul", b.compute("shr", m.high, pairs.word(5)), first)
        index = b.compute("shr", b.compute("add", product, pairs.word(1 << 24)), pairs.word(25))
        second, other = self._entry(index, 4, _SECOND, constants.second, n_words)
        factor = b.compute("mul", first, second)
        # Modulo 2**64, with 69 fraction bits, of which 1 has none.
        lower = pairs.product(m.low, factor)
        upper = pairs.add(pairs.product(m.high, factor), Pair(lower.high, pairs.word(0)))
        r = pairs.shr(Pair(lower.low, upper.low), pairs.word(10), signed=False)
        high = pairs.shr(upper, pairs.word(10), signed=False).low
        r = Pair(r.low, high)
        negative = b.compute("lt", b.bitcast(r.high, INT32), b.const(0, INT32))
        is_one = b.compute("eq", factor, pairs.word(1 << 16))
        near = b.compute("and", is_one, b.compute("eq", power, b.const(0, INT32)))
        size, offset = pairs.abs(r), self.added(offset, other)
        return Reduced(power, offset, size, negative, size, pairs.word(0), near, is_large)

    def added(self, x: Sequence[Value], y: Sequence[Value]) -> tuple[Value, ...]:
        """The sum of two numbers of 2 or 3 words, modulo a power of 2."""
        b, low = self._b, Pair(x[0], x[1])
        total = self._pairs.add(low, Pair(y[0], y[1]))
        if len(x) == 2:
            return total
        carry = b.cast(self._pairs.compare("lt", total, low, signed=False), UINT32)
        return *total, b.compute("add", b.compute("add", x[2], y[2]), carry)

    def _entry(
        self, index: Value, n_bits: int, factors: Mapping[int, int], logarithms: Mapping[int, int], n_words: int
    ) -> tuple[Value, tuple[Value, ...]]:
        """A constant of a table and the words of its negated logarithm, by the lowest bits of an index."""
        b, pairs = self._b, self._pairs
        keys = {key & ((1 << n_bits) - 1): key for key in factors}
        rows = [keys.get(at, next(iter(factors))) for at in range(1 << n_bits)]
        shifts = [32 * at for at in range(n_words)]
        columns: list[tuple[Value, ...]] = [
            (pairs.word(factors[key]), *[pairs.word(logarithms[key] >> shift) for shift in shifts]) for key in rows
        ]
        for level in reversed(range(n_bits)):
            chosen = b.compute("ne", b.compute("and", index, pairs.word(1 << level)), pairs.word(0))
            half = 1 << level
            columns = [
                tuple([b.select(chosen, one, other) for one, other in zip(columns[k + half], columns[k], strict=True)])
                for k in range(half)
            ]
        factor, *words = columns[0]
        return factor, tuple(words)

    def normalized(self, reduced: Reduced) -> Reduced:
        """Shifts the first bit of |r| to the top where r alone decides the result."""
        zeros = self._b.select(reduced.near, self._pairs.leading_zeros(reduced.size), self._pairs.word(0))
        return reduced._replace(factor=self._pairs.shl(reduced.size, zeros), zeros=zeros)

    def _unless_tiny(self, reduced: Reduced, number: Unpacked, exponent: Value) -> Reduced:
        """Takes r = x for |x| below 2**-7."""
        b, pairs = self._b, self._pairs
        negative = b.compute("ne", number.sign, pairs.word(0))
        tiny = b.compute("lt", exponent, b.const(-7, INT32))
        zeros = b.compute("sub", b.const(63 - UNIT_BITS, INT32), exponent)
        limited = b.bitcast(b.compute("min", b.compute("max", zeros, b.const(0, INT32)), b.const(63, INT32)), UINT32)
        size = pairs.shr(number.significand, limited, signed=False)
        return Reduced(
            b.select(tiny, b.const(0, INT32), reduced.power),
            tuple([b.select(tiny, pairs.word(0), word) for word in reduced.offset]),
            pairs.select(tiny, size, reduced.size),
            b.select(tiny, negative, reduced.negative),
            pairs.select(tiny, number.significand, reduced.factor),
            b.select(tiny, b.bitcast(zeros, UINT32), pairs.word(0)),
            tiny,
            b.select(tiny, negative, reduced.below),
        )

    # -- the sum ------------------------------------------------------------------------------------------------------

    def _sum(self, reduced: Reduced, constants: Constants) -> Pair:
        """The logarithm: of 2**e and of the constants, and that of 1 + r, as an int32 and a fraction of 64 bits."""
        b, pairs = self._b, self._pairs
        polynomial = constants.polynomial
        total = fixed_sum(b, pairs, reduced.size, reduced.negative, [polynomial])
        product = pairs.wide_product(reduced.factor, total)[0]
        more = UNIT_BITS + polynomial.scales[0] - 64 - constants.bits  # fraction bits beyond those of sums
        product = pairs.select(reduced.near, product, pairs.shr(product, pairs.word(more), signed=False))
        signed = pairs.select(reduced.negative, pairs.neg(product), product)
        part = pairs.add(Pair(*reduced.offset), signed)
        whole, fraction = self._times(reduced.power, constants.two)
        fraction = pairs.add(fraction, part)
        carry = b.cast(pairs.compare("lt", fraction, part, signed=False), UINT32)
        # The part may be beyond 1/2, so that its highest bit is not its sign.
        whole = b.compute("add", whole, b.compute("sub", carry, b.cast(reduced.below, UINT32)))
        bits = b.select(reduced.near, b.compute("add", reduced.zeros, pairs.word(more)), pairs.word(0))
        return self._rounded(whole, fraction, b.compute("add", bits, pairs.word(constants.bits)))

    def _times(self, power: Value, two: int) -> tuple[Value, Pair]:
        """The product of an int32 and a number from 1 to 2: the whole word, and the fraction."""
        b, pairs = self._b, self._pairs
        word, two = b.bitcast(power, UINT32), two - (1 << 64)
        if not two:
            return word, pairs.constant(0)
        lower = pairs.product(word, pairs.word(two))
        upper = pairs.add(pairs.product(word, pairs.word(two >> 32)), Pair(lower.high, pairs.word(0)))
        sign = b.bitcast(b.compute("shr", power, b.const(31, INT32)), UINT32)
        upper = pairs.sub(upper, pairs.bitwise("and", pairs.constant(two), Pair(sign, sign)))
        return b.compute("add", word, upper.high), Pair(lower.low, upper.low)

    def _rounded(self, whole: Value, fraction: Pair, bits: Value) -> Pair:
        """The float64 of a sum with so many fraction bits."""
        b, pairs = self._b, self._pairs
        mask = b.bitcast(b.compute("shr", b.bitcast(whole, INT32), b.const(31, INT32)), UINT32)
        # The complement is 1 less than the negated number, a part of 2**-59 of it.
        whole = b.compute("xor", whole, mask)
        fraction = pairs.bitwise("xor", fraction, Pair(mask, mask))
        is_wide = b.compute("ne", whole, pairs.word(0))
        top = pairs.select(is_wide, Pair(fraction.high, whole), fraction)
        rest = b.select(is_wide, fraction.low, pairs.word(0))
        zeros = self._pairs.leading_zeros(top)
        shifted = pairs.shl(top, zeros)
        moved = b.compute("shr", rest, b.compute("and", b.compute("sub", pairs.word(32), zeros), pairs.word(31)))
        significand = Pair(b.compute("or", shifted.low, moved), shifted.high)
        exponent = b.compute("sub", b.select(is_wide, pairs.word(BIAS + 95), pairs.word(BIAS + 63)), zeros)
        exponent = b.bitcast(b.compute("sub", exponent, bits), INT32)
        sign = b.compute("and", mask, pairs.word(1 << 31))
        return self._floats.rounded(sign, exponent, significand)
