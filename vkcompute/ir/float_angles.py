"""Angles of points in float64 in fixed point, on devices without float64; each is rounded once.

In the octant below 45 degrees, a is at most b, and k/16 is near a/b. Then atan(a/b) is atan(k/16), from a table, and
the arc tangent of (16 a - k b) / (16 b + k a), which is at most 1/32: a polynomial.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import NamedTuple

from vkcompute.ir.builder import Builder
from vkcompute.ir.float_pairs import BIAS, FloatPairBuilder, Unpacked
from vkcompute.ir.float_polynomials import Polynomial, fixed_sum
from vkcompute.ir.function import Value
from vkcompute.ir.integer_pairs import Pair, PairBuilder
from vkcompute.ir.types import BOOL, FLOAT32, INT32, UINT32

_NAN = 0x7FF8 << 48
_HALF_PI = 0x6487ED5110B4611A  # 1.57 with 62 fraction bits
_SERIES = Polynomial(tuple([Fraction((-1) ** k, 2 * k + 1) for k in range(7)]), -9)  # atan(r) / r, in r**2
_STEPS = 16  # of the table, per unit


class Angle(NamedTuple):
    """The angle of the point (x, y), the attribute of an operation "in_fixed_point" of y and x."""


class Inverse(NamedTuple):
    """The inverse sine or cosine, the attribute of an operation "in_fixed_point".

    Attributes:
        of_cosine: True for the inverse of the cosine.
    """

    of_cosine: bool


class _Ratio(NamedTuple):
    """The magnitude of (16 a - k b) / (16 b + k a).

    Attributes:
        quotient: with the first bit at the top.
        shift: the ratio is the quotient / 2 ** (64 + shift); an int32.
        negative: True if the ratio is negative.
        step: k, a word.
    """

    quotient: Pair
    shift: Value
    negative: Value
    step: Value


@functools.cache
def _table() -> tuple[int, ...]:
    """Returns atan(k / 16), with 64 fraction bits."""
    return tuple([_arc_tangent(Fraction(k, _STEPS)) for k in range(_STEPS + 1)])


def _arc_tangent(t: Fraction) -> int:
    """The arc tangent with 64 fraction bits, by L. Euler's series, which converges for 1, too."""
    square = t * t / (1 + t * t)
    term, total, k = int(t / (1 + t * t) * 2**100), 0, 0
    while term:
        total += term
        k += 1
        term = int(term * square * Fraction(2 * k, 2 * k + 1))
    return (total + (1 << 35)) >> 36


class AngleBuilder:
    """Appends the operations of an angle."""

    def __init__(self, b: Builder, pairs: PairBuilder, floats: FloatPairBuilder) -> None:
        self._b, self._pairs, self._floats = b, pairs, floats

    def value(self, y: Pair, x: Pair) -> Pair:
        """The angle, with the sign of y."""
        b, pairs, floats = self._b, self._pairs, self._floats
        swaps = pairs.compare("gt", floats.abs(y), floats.abs(x), signed=False)
        small, large = floats.unpacked(pairs.select(swaps, x, y)), floats.unpacked(pairs.select(swaps, y, x))
        infinite = b.compute("and", floats.is_infinite(pairs.select(swaps, y, x)),
                             b.compute("not", floats.is_infinite(pairs.select(swaps, x, y))))  # fmt: skip
        significand = pairs.select(infinite, pairs.constant(0), small.significand)
        sign_x, sign_y = [b.compute("and", number.high, pairs.word(1 << 31)) for number in (x, y)]
        left = b.compute("ne", sign_x, pairs.word(0))
        result = self._angle(small._replace(significand=significand), large, swaps, left, sign_y)
        is_nan = b.compute("or", floats.is_nan(x), floats.is_nan(y))
        return pairs.select(is_nan, pairs.constant(_NAN), result)

    def inverse(self, x: Pair, function: Inverse) -> Pair:
        """The inverse sine or cosine: an angle of the point of the unit circle with this coordinate."""
        b, pairs, floats = self._b, self._pairs, self._floats
        size, one = floats.abs(x), pairs.constant(BIAS << 52)
        number = floats.unpacked(x)
        other = self._other_coordinate(number, pairs.compare("eq", size, one, signed=False))
        same = b.compute("eq", number.exponent, other.exponent)
        more = pairs.compare("gt", number.significand, other.significand, signed=False)
        swaps = b.compute("or", b.compute("gt", number.exponent, other.exponent), b.compute("and", same, more))
        small = self._chosen(swaps, other, number)
        large = self._chosen(swaps, number, other)
        if function.of_cosine:
            left = b.compute("ne", number.sign, pairs.word(0))
            result = self._angle(small, large, b.compute("not", swaps), left, pairs.word(0))
        else:
            result = self._angle(small, large, swaps, b.const(False, BOOL), number.sign)
        beyond = pairs.compare("gt", size, one, signed=False)  # or NaN
        return pairs.select(beyond, pairs.constant(_NAN), result)

    def _chosen(self, condition: Value, one: Unpacked, other: Unpacked) -> Unpacked:
        exponent = self._b.select(condition, one.exponent, other.exponent)
        return Unpacked(one.sign, exponent, self._pairs.select(condition, one.significand, other.significand))

    def _other_coordinate(self, x: Unpacked, is_one: Value) -> Unpacked:
        """sqrt(1 - x**2) for |x| of at most 1."""
        b, pairs, floats = self._b, self._pairs, self._floats
        upper, lower = pairs.wide_product(x.significand, x.significand)
        power = b.compute("sub", b.const(BIAS - 1, INT32), x.exponent)
        amount = b.compute("min", b.compute("max", power, b.const(0, INT32)), b.const(31, INT32))
        right = b.compute("shl", b.bitcast(amount, UINT32), pairs.word(1))
        back = b.compute("xor", right, pairs.word(63))
        carried = pairs.shl(pairs.shl(upper, pairs.word(1)), back)
        lower = pairs.bitwise("or", pairs.shr(lower, right, signed=False), carried)
        # 1 - x**2 less 2**-128, modulo 1.
        upper = pairs.bitwise("not", pairs.shr(upper, right, signed=False))
        lower = pairs.bitwise("not", lower)
        zeros = pairs.leading_zeros(upper)
        moved = pairs.shr(pairs.shr(lower, pairs.word(1), signed=False),
                          b.compute("xor", zeros, pairs.word(63)), signed=False)  # fmt: skip
        significand = pairs.bitwise("or", pairs.shl(upper, zeros), moved)
        exponent = b.compute("sub", b.const(BIAS - 1, INT32), b.bitcast(zeros, INT32))
        exponent, _, root = floats.estimated_root(exponent, significand)
        root = pairs.select(is_one, pairs.constant(0), root)
        return Unpacked(pairs.word(0), b.select(is_one, b.const(-(1 << 14), INT32), exponent), root)

    def _angle(self, small: Unpacked, large: Unpacked, swaps: Value, left: Value, sign: Value) -> Pair:
        """The angle of a point in the upper half plane, with a sign."""
        ratio = self._ratio(small, large)
        size, bits = self._octant(ratio)
        size, bits = self._reflected(size, bits, swaps, left)
        exponent = self._b.compute("sub", self._b.const(BIAS + 63, INT32), bits)
        return self._floats.rounded(sign, *self._floats.normalized(exponent, size))

    def _ratio(self, small: Unpacked, large: Unpacked) -> _Ratio:
        """The rest of the ratio of two numbers beyond the nearest step of the table."""
        b, pairs, floats = self._b, self._pairs, self._floats
        distance = b.compute("max", b.compute("sub", large.exponent, small.exponent), b.const(0, INT32))
        amount = b.compute("add", b.compute("min", distance, b.const(62, INT32)), b.const(1, INT32))
        one = pairs.shr(small.significand, b.bitcast(amount, UINT32), signed=False)
        other = pairs.shr(large.significand, pairs.word(1), signed=False)
        index = self._index(one.high, other.high)
        factor = Pair(index, pairs.word(0))
        rest = pairs.sub(pairs.shl(one, pairs.word(4)), pairs.mul(other, factor))  # modulo 2**64, of which it is half
        total = pairs.add(other, pairs.mul(pairs.shr(one, pairs.word(4), signed=False), factor))
        negative = b.compute("lt", b.bitcast(rest.high, INT32), b.const(0, INT32))
        near = b.compute("eq", index, pairs.word(0))  # then the numbers themselves are more precise
        rest = pairs.abs(rest)
        zeros, back = pairs.leading_zeros(rest), pairs.leading_zeros(total)
        dividend = pairs.select(near, small.significand, pairs.shl(rest, zeros))
        divisor = pairs.select(near, large.significand, pairs.shl(total, back))
        quotient, is_large, _ = floats.significands.quotient(dividend, divisor)
        far = b.bitcast(b.compute("add", b.compute("sub", zeros, back), pairs.word(4)), INT32)
        shift = b.compute("sub", b.select(near, distance, far), b.cast(is_large, INT32))
        return _Ratio(quotient, shift, b.compute("and", negative, b.compute("not", near)), index)

    def _index(self, one: Value, other: Value) -> Value:
        """The ratio of two words in steps of the table, rounded; it may be off where it is between two."""
        b = self._b
        divisor = b.compute("max", b.cast(other, FLOAT32), b.const(1, FLOAT32))
        ratio = b.compute("div", b.cast(one, FLOAT32), divisor)
        steps = b.compute("add", b.compute("mul", ratio, b.const(_STEPS, FLOAT32)), b.const(0.5, FLOAT32))
        return b.compute("min", b.cast(steps, UINT32), b.const(_STEPS, UINT32))

    def _octant(self, ratio: _Ratio) -> tuple[Pair, Value]:
        """The angle below 45 degrees, and its fraction bits: 64, or more for a small one."""
        b, pairs = self._b, self._pairs
        # r with 68 fraction bits, whose square has 72.
        limited = b.compute("min", b.compute("max", ratio.shift, b.const(4, INT32)), b.const(66, INT32))
        moved = b.bitcast(b.compute("sub", limited, b.const(4, INT32)), UINT32)
        r = pairs.shr(ratio.quotient, moved, signed=False)
        total = fixed_sum(b, pairs, pairs.wide_product(r, r)[0], None, [_SERIES])
        arc = pairs.wide_product(ratio.quotient, total)[0]
        more = _SERIES.scales[0]  # fraction bits, with those of the shift
        amount = b.compute("min", b.compute("sub", limited, b.const(64 - more, INT32)), b.const(63, INT32))
        part = pairs.shr(arc, b.bitcast(amount, UINT32), signed=False)
        step = self._entry(ratio.step)
        angle = pairs.select(ratio.negative, pairs.sub(step, part), pairs.add(step, part))
        near = b.compute("eq", ratio.step, pairs.word(0))
        bits = b.select(near, b.compute("add", ratio.shift, b.const(more, INT32)), b.const(64, INT32))
        return pairs.select(near, arc, angle), bits

    def _entry(self, index: Value) -> Pair:
        """The entry of the table: that of 16, or by the bits of the index."""
        b, pairs, table = self._b, self._pairs, _table()
        rows = [pairs.constant(number) for number in table[:_STEPS]]
        while len(rows) > 1:
            level = len(rows) // 2
            chosen = b.compute("ne", b.compute("and", index, pairs.word(level)), pairs.word(0))
            rows = [pairs.select(chosen, rows[k + level], rows[k]) for k in range(level)]
        is_last = b.compute("eq", index, pairs.word(_STEPS))
        return pairs.select(is_last, pairs.constant(table[_STEPS]), rows[0])

    def _reflected(self, size: Pair, bits: Value, swaps: Value, left: Value) -> tuple[Pair, Value]:
        """The angle in the upper half plane: of a point left of the axis, and of one above the diagonals."""
        b, pairs = self._b, self._pairs
        amount = b.compute("min", b.compute("sub", bits, b.const(62, INT32)), b.const(63, INT32))
        fixed = pairs.shr(size, b.bitcast(b.compute("max", amount, b.const(0, INT32)), UINT32), signed=False)
        adds = b.compute("and", swaps, left)
        base = pairs.select(swaps, pairs.constant(_HALF_PI), pairs.constant(2 * _HALF_PI))
        turned = pairs.select(adds, pairs.add(base, fixed), pairs.sub(base, fixed))
        reflects = b.compute("or", swaps, left)
        return pairs.select(reflects, turned, size), b.select(reflects, b.const(62, INT32), bits)
