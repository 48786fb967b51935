"""Polynomials of float64 in fixed point, on devices without float64: a step is a product of integers and a sum.

A step takes 30 instructions, and a product and a sum of float64 take 300. The result is rounded once, so that it is at
least as near as by Horner's rule in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from vkcompute.ir.builder import Builder
from vkcompute.ir.float_pairs import BIAS, FloatPairBuilder
from vkcompute.ir.function import Value
from vkcompute.ir.integer_pairs import Pair, PairBuilder
from vkcompute.ir.types import INT32, UINT32

_BITS = 62  # of sums, beside the sign, with one to spare


class Polynomial(NamedTuple):
    """A polynomial, the attribute of an operation "polynomial".

    Attributes:
        coefficients: the constant one first.
        bound: |x| is at most 2 ** bound. Beyond it, the result is undefined.
    """

    coefficients: tuple[float | Fraction, ...]
    bound: int

    @property
    def scales(self) -> list[int]:
        """For each coefficient, the number of fraction bits that sums from it on can have."""
        scales, most = list[int](), 0.0
        for coefficient in reversed(self.coefficients):
            most = abs(float(coefficient)) + math.ldexp(most, self.bound)
            scales.append(_BITS - math.frexp(most)[1])
        return scales[::-1]


def evaluated(b: Builder, pairs: PairBuilder, floats: FloatPairBuilder, x: Pair, polynomial: Polynomial) -> Pair:
    """The value of a polynomial, as a float64: the sum of coefficients, of which odd ones get the sign of x."""
    number = floats.unpacked(x)
    above = b.compute("sub", b.const(BIAS + polynomial.bound, INT32), number.exponent)
    above = b.compute("min", b.bitcast(above, UINT32), pairs.word(63))
    size = pairs.shr(number.significand, above, signed=False)  # of 63 - bound fraction bits
    negative = b.compute("ne", number.sign, pairs.word(0))
    total = fixed_sum(b, pairs, size, negative, [polynomial])
    sign = b.compute("and", total.high, pairs.word(1 << 31))
    exponent = b.const(BIAS + 63 - polynomial.scales[0], INT32)
    return floats.rounded(sign, *floats.normalized(exponent, pairs.abs(total)))


def common_scales(polynomials: Sequence[Polynomial]) -> list[int]:
    """For each coefficient of polynomials of one degree, the number of fraction bits that all sums can have."""
    return [min(scales) for scales in zip(*[polynomial.scales for polynomial in polynomials], strict=True)]


def fixed_sum(
    b: Builder,
    pairs: PairBuilder,
    size: Pair,
    negative: Value | None,
    polynomials: Sequence[Polynomial],
    takes_second: Value | None = None,
) -> Pair:
    """The value of a polynomial, an int64, with the fraction bits of the first of the common scales.

    Args:
        size: |x|, with 63 fraction bits less the bound, by Horner's rule.
        negative: True where x is negative; None if it never is.
        polynomials: one, or two of one degree and bound.
        takes_second: True for the second one.
    """
    scales, bound = common_scales(polynomials), polynomials[0].bound
    total: Pair | None = None
    for k in reversed(range(len(scales))):
        numbers = [round(Fraction(each.coefficients[k]) * 2 ** scales[k]) for each in polynomials]
        first, *others = [_signed(pairs, number, negative if k % 2 else None) for number in numbers]
        coefficient = pairs.select(takes_second, others[0], first) if takes_second is not None else first
        if total is None:
            total = coefficient
            continue
        shift = scales[k] - (scales[k + 1] - 1 - bound)
        total = pairs.add(_shifted(pairs, _product_above(b, pairs, total, size), shift), coefficient)
    assert total is not None
    return total


def _signed(pairs: PairBuilder, number: int, negative: Value | None) -> Pair:
    """A constant, with the other sign if `negative` holds."""
    if negative is None:
        return pairs.constant(number)
    return pairs.select(negative, pairs.constant(-number), pairs.constant(number))


def _shifted(pairs: PairBuilder, x: Pair, shift: int) -> Pair:
    if shift < 0:
        return pairs.shr(x, pairs.word(-shift), signed=True)
    return pairs.shl(x, pairs.word(shift))


def _product_above(b: Builder, pairs: PairBuilder, x: Pair, size: Pair) -> Pair:
    """The upper 64 bits of an int64 times a uint64, less 0 to 2: the product of the low words is left out."""
    upper, zero = pairs.product(x.high, size.high), pairs.word(0)
    for one, other in ((x.high, size.low), (x.low, size.high)):
        upper = pairs.add(upper, Pair(b.compute("mul_high", one, other), zero))
    sign = b.bitcast(b.compute("shr", b.bitcast(x.high, INT32), b.const(31, INT32)), UINT32)
    return pairs.sub(upper, pairs.bitwise("and", size, Pair(sign, sign)))
