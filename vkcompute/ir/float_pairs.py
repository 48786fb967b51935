"""Arithmetic on float64 by its bits, as pairs of words: each result is the nearest float64, ties to even (IEEE 754).

Subnormal numbers, infinities, NaN and the signs of zeros are kept. A significand has 64 bits here, with the first one
at the top. Its last bit is set if lower ones were lost: D. Goldberg: What every computer scientist should know about
floating-point arithmetic, 1991; J. R. Hauser: Berkeley SoftFloat 3e.
"""

from __future__ import annotations

from typing import NamedTuple

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Value
from vkcompute.ir.integer_pairs import Pair, PairBuilder
from vkcompute.ir.significands import SignificandBuilder, Wide
from vkcompute.ir.types import BOOL, FLOAT16, FLOAT32, INT32, UINT32, Scalar

BIAS = 1023
_MOST = 0x7FF  # the exponent of infinity and NaN
_EXTRA = 11  # bits of a significand here beyond the 53 of float64
_INFINITY, _NAN = _MOST << 52, 0x7FF8 << 48


class Unpacked(NamedTuple):
    """A float64 in parts.

    Attributes:
        sign: the sign's bit, at the top of a word.
        exponent: biased; of a subnormal number, that of its significand with the first bit at the top, an int32.
        significand: with the first bit at the top; 0 for zeros. Undefined for infinities and NaN.
    """

    sign: Value
    exponent: Value
    significand: Pair


class FloatPairBuilder:
    """Appends operations on float64 as pairs of words."""

    def __init__(self, builder: Builder, pairs: PairBuilder) -> None:
        self._b, self._pairs = builder, pairs
        self.significands = SignificandBuilder(builder, pairs)

    # -- bits ---------------------------------------------------------------------------------------------------------

    def _int(self, number: int) -> Value:
        return self._b.const(number, INT32)

    def _word(self, number: int) -> Value:
        return self._pairs.word(number)

    def _select(self, condition: Value, one: Pair, other: Pair) -> Pair:
        return self._pairs.select(condition, one, other)

    def _any(self, *conditions: Value) -> Value:
        first, *others = conditions
        for other in others:
            first = self._b.compute("or", first, other)
        return first

    def _all(self, *conditions: Value) -> Value:
        first, *others = conditions
        for other in others:
            first = self._b.compute("and", first, other)
        return first

    def _magnitude(self, x: Pair) -> Pair:
        return Pair(x.low, self._b.compute("and", x.high, self._word(~(1 << 31))))

    def _sign(self, x: Pair) -> Value:
        return self._b.compute("and", x.high, self._word(1 << 31))

    def _with_sign(self, x: Pair, sign: Value) -> Pair:
        return Pair(x.low, self._b.compute("or", x.high, sign))

    def _biased(self, x: Pair) -> Value:
        """The exponent's field, as a word."""
        return self._b.compute("and", self._b.compute("shr", x.high, self._word(20)), self._word(_MOST))

    def _exceeds(self, magnitude: Pair, limit: int) -> Value:
        """True if a magnitude is above a constant, of which the low word and the last bit of the high one are 0."""
        lowest = self._b.compute("min", magnitude.low, self._word(1))
        return self._b.compute("gt", self._b.compute("or", magnitude.high, lowest), self._word(limit >> 32))

    def is_nan(self, x: Pair) -> Value:
        """True for NaN."""
        return self._exceeds(self._magnitude(x), _INFINITY)

    def is_infinite(self, x: Pair) -> Value:
        """True for both infinities."""
        return self._pairs.compare("eq", self._magnitude(x), self._pairs.constant(_INFINITY), signed=False)

    def is_zero(self, x: Pair) -> Value:
        return self._b.compute("not", self._pairs.is_nonzero(self._magnitude(x)))

    def _is_finite(self, x: Pair) -> Value:
        return self._b.compute("ne", self._biased(x), self._word(_MOST))

    def neg(self, x: Pair) -> Pair:
        """-x."""
        return Pair(x.low, self._b.compute("xor", x.high, self._word(1 << 31)))

    def abs(self, x: Pair) -> Pair:
        """The magnitude."""
        return self._magnitude(x)

    def sign(self, x: Pair) -> Pair:
        """-1, 0 or 1; NaN stays."""
        one = self._with_sign(self._pairs.constant(BIAS << 52), self._sign(x))
        one = self._select(self.is_zero(x), self._pairs.constant(0), one)
        return self._select(self.is_nan(x), x, one)

    # -- significands -------------------------------------------------------------------------------------------------

    def unpacked(self, x: Pair) -> Unpacked:
        """The parts of a number."""
        b, pairs = self._b, self._pairs
        field, is_normal, fraction = self._fields(x)
        zeros = b.select(is_normal, self._word(_EXTRA), self._pairs.leading_zeros(fraction))
        significand = pairs.shl(fraction, zeros)
        exponent = b.select(is_normal, field, b.compute("sub", self._word(_EXTRA + 1), zeros))
        return Unpacked(self._sign(x), b.bitcast(exponent, INT32), significand)

    def _fields(self, x: Pair) -> tuple[Value, Value, Pair]:
        """The exponent's field, True for a normal number, and the fraction, which has its first bit then."""
        b, field = self._b, self._biased(x)
        is_normal = b.compute("ne", field, self._word(0))
        first = b.select(is_normal, self._word(1 << 20), self._word(0))
        high = b.compute("or", b.compute("and", x.high, self._word((1 << 20) - 1)), first)
        return field, is_normal, Pair(x.low, high)

    def _is_none(self, x: Unpacked) -> Value:
        """True for zeros, whose significand alone has no bit at the top."""
        return self._b.compute("eq", x.significand.high, self._word(0))

    def normalized(self, exponent: Value, significand: Pair) -> tuple[Value, Pair]:
        """Shifts the first bit to the top."""
        zeros = self._pairs.leading_zeros(significand)
        return self._b.compute("sub", exponent, self._b.bitcast(zeros, INT32)), self._pairs.shl(significand, zeros)

    def rounded(self, sign: Value, exponent: Value, significand: Pair) -> Pair:
        """The number of these parts: rounded, subnormal or infinite. A significand of 0 gives a zero."""
        b, pairs = self._b, self._pairs
        is_zero = b.compute("eq", significand.high, self._word(0))
        below = b.compute("max", b.compute("sub", self._int(1), exponent), self._int(0))
        significand = self.significands.shifted_right(significand, b.bitcast(below, UINT32))
        exponent = b.compute("min", b.compute("max", exponent, self._int(1)), self._int(_MOST + 1))
        rest = b.compute("and", significand.low, self._word((1 << _EXTRA) - 1))
        kept = pairs.shr(significand, self._word(_EXTRA), signed=False)
        odd = b.compute("and", kept.low, self._word(1))
        up = b.cast(b.compute("gt", b.compute("add", rest, odd), self._word(1 << _EXTRA - 1)), UINT32)
        # The first bit of a normal number adds one to the exponent, and so does a carry.
        exponent = b.select(is_zero, self._int(1), exponent)
        field = b.compute("shl", b.bitcast(b.compute("sub", exponent, self._int(1)), UINT32), self._word(20))
        bits = pairs.add(pairs.add(kept, Pair(self._word(0), field)), Pair(up, self._word(0)))
        infinite = b.compute("ge", bits.high, self._word(_MOST << 20))
        return self._with_sign(self._select(infinite, pairs.constant(_INFINITY), bits), sign)

    # -- arithmetic ---------------------------------------------------------------------------------------------------

    def add(self, x: Pair, y: Pair) -> Pair:
        """x + y."""
        b, pairs = self._b, self._pairs
        swaps = pairs.compare("lt", self._magnitude(x), self._magnitude(y), signed=False)
        x, y = self._select(swaps, y, x), self._select(swaps, x, y)
        large, small = self._fixed(x), self._fixed(y)
        distance = b.compute("sub", large[0], small[0])
        shifted = self.significands.shifted_right(small[1], distance)
        differ = b.compute("ne", self._sign(x), self._sign(y))
        total = self._select(differ, pairs.sub(large[1], shifted), pairs.add(large[1], shifted))
        sign = b.select(self._all(differ, b.compute("not", pairs.is_nonzero(total))), self._word(0), self._sign(x))
        exponent = b.compute("add", b.bitcast(large[0], INT32), self._int(1))
        result = self.rounded(sign, *self.normalized(exponent, total))
        invalid = self._any(self.is_nan(x), self._all(differ, self.is_infinite(y)))
        special = self._select(invalid, pairs.constant(_NAN), x)
        return self._select(self._is_finite(x), result, special)

    def _fixed(self, x: Pair) -> tuple[Value, Pair]:
        """The exponent, at least 1, and the significand with the first bit of normal numbers below the top."""
        field, _, fraction = self._fields(x)
        exponent = self._b.compute("max", field, self._word(1))
        return exponent, self._pairs.shl(fraction, self._word(_EXTRA - 1))

    def sub(self, x: Pair, y: Pair) -> Pair:
        """x - y."""
        return self.add(x, self.neg(y))

    def mul(self, x: Pair, y: Pair) -> Pair:
        """x * y."""
        b, pairs = self._b, self._pairs
        one, other = self.unpacked(x), self.unpacked(y)
        sign = b.compute("xor", one.sign, other.sign)
        upper, lower = pairs.wide_product(one.significand, other.significand)
        significand = self.significands.with_rest(upper, pairs.is_nonzero(lower))
        exponent = b.compute("sub", b.compute("add", one.exponent, other.exponent), self._int(BIAS - 1))
        result = self.rounded(sign, *self._doubled(exponent, significand))
        invalid = self._any(self.is_nan(x), self.is_nan(y), self._is_none(one), self._is_none(other))
        special = self._select(invalid, pairs.constant(_NAN), self._with_sign(pairs.constant(_INFINITY), sign))
        finite = self._all(self._is_finite(x), self._is_finite(y))
        return self._select(finite, result, special)

    def _doubled(self, exponent: Value, significand: Pair) -> tuple[Value, Pair]:
        """Shifts a significand by one bit if its first bit is not at the top."""
        b = self._b
        is_low = b.compute("ge", b.bitcast(significand.high, INT32), self._int(0))
        doubled = self._pairs.shl(significand, self._word(1))
        return b.compute("sub", exponent, b.cast(is_low, INT32)), self._select(is_low, doubled, significand)

    def div(self, x: Pair, y: Pair) -> Pair:
        """x / y."""
        b, pairs = self._b, self._pairs
        one, other = self.unpacked(x), self.unpacked(y)
        sign = b.compute("xor", one.sign, other.sign)
        quotient, is_large, rest = self.significands.quotient(one.significand, other.significand)
        exponent = b.compute("add", b.compute("sub", one.exponent, other.exponent), self._int(BIAS - 1))
        exponent = b.compute("add", exponent, b.cast(is_large, INT32))
        result = self.rounded(sign, exponent, self.significands.with_rest(quotient, pairs.is_nonzero(rest)))
        x_zero, y_zero = self._is_none(one), self._is_none(other)
        # Infinite, or NaN, which is selected last.
        x_infinite, y_infinite = b.compute("not", self._is_finite(x)), b.compute("not", self._is_finite(y))
        invalid = self._any(
            self.is_nan(x), self.is_nan(y), self._all(x_zero, y_zero), self._all(x_infinite, y_infinite)
        )
        result = self._select(self._any(y_zero, x_infinite), self._with_sign(pairs.constant(_INFINITY), sign), result)
        result = self._select(self._any(x_zero, y_infinite), self._with_sign(pairs.constant(0), sign), result)
        return self._select(invalid, pairs.constant(_NAN), result)

    def sqrt(self, x: Pair) -> Pair:
        """The square root."""
        b, pairs = self._b, self._pairs
        number = self.unpacked(x)
        exponent, radicand, root = self.estimated_root(number.exponent, number.significand)
        # The estimate is at most 2 too large. Where results change is a multiple of 8, so the nearest one decides.
        near = pairs.bitwise("and", pairs.add(root, pairs.constant(4)), pairs.constant(~7))
        upper, lower = pairs.wide_product(near, near)
        above = pairs.compare("gt", upper, radicand, signed=False)
        same = pairs.compare("eq", upper, radicand, signed=False)
        has_rest = pairs.is_nonzero(lower)
        too_large = self._any(above, self._all(same, has_rest))
        root = self._select(too_large, pairs.sub(near, pairs.constant(1)), near)
        is_exact = self._all(same, b.compute("not", has_rest))
        result = self.rounded(self._word(0), exponent, self.significands.with_rest(root, b.compute("not", is_exact)))
        negative = b.compute("ne", number.sign, self._word(0))
        result = self._select(negative, pairs.constant(_NAN), result)
        keeps = self._any(self.is_zero(x), self._all(b.compute("not", negative), self.is_infinite(x)))
        result = self._select(keeps, x, result)
        return self._select(self.is_nan(x), pairs.constant(_NAN), result)

    def estimated_root(self, exponent: Value, significand: Pair) -> tuple[Value, Pair, Pair]:
        """The root of a number: the exponent, the radicand over 2**64, and its root, which is at most 2 too large."""
        b = self._b
        is_odd = b.compute("ne", b.compute("and", exponent, self._int(1)), self._int(0))
        # An odd exponent is that of an even power, as the bias is odd.
        radicand = self.significands.halved_if(is_odd, significand)
        halved = b.compute("shr", b.compute("add", exponent, self._int(BIAS)), self._int(1))
        return halved, radicand, self.significands.estimated_root(radicand)

    def rsqrt(self, x: Pair) -> Pair:
        """1 / sqrt(x), rounded twice."""
        return self.div(self._pairs.constant(BIAS << 52), self.sqrt(x))

    def fma(self, x: Pair, y: Pair, z: Pair) -> Pair:
        """x * y + z, rounded once: the sum has 128 bits."""
        b, pairs = self._b, self._pairs
        one, other, third = self.unpacked(x), self.unpacked(y), self.unpacked(z)
        sign = b.compute("xor", one.sign, other.sign)
        product = Wide(*pairs.wide_product(one.significand, other.significand))
        exponent = b.compute("sub", b.compute("add", one.exponent, other.exponent), self._int(BIAS - 1))
        product_zero, z_zero = self._any(self._is_none(one), self._is_none(other)), self._is_none(third)
        far = self._int(-(1 << 14))  # zeros are below all others
        exponent = b.select(product_zero, far, exponent)
        added = Wide(pairs.shr(third.significand, self._word(1), signed=False), pairs.constant(0))
        z_exponent = b.select(z_zero, far, b.compute("add", third.exponent, self._int(1)))
        # The first bit is below the top, which is left for a carry.
        is_top = b.compute("lt", b.bitcast(product.high.high, INT32), self._int(0))
        product = self.significands.select(is_top, self.significands.halved(product), product)
        exponent = b.compute("add", exponent, b.cast(is_top, INT32))
        total, exponent, total_sign = self._sum((product, exponent, sign), (added, z_exponent, third.sign))
        significand = self.significands.with_rest(total.high, pairs.is_nonzero(total.low))
        result = self.rounded(total_sign, exponent, significand)
        exact = self._select(product_zero, z, result)
        both = self._with_sign(pairs.constant(0), b.compute("and", sign, third.sign))
        result = self._select(self._all(product_zero, z_zero), both, exact)
        infinite = b.compute("not", self._all(self._is_finite(x), self._is_finite(y)))  # or NaN, which comes last
        z_infinite = b.compute("not", self._is_finite(z))
        clashes = self._all(infinite, z_infinite, b.compute("ne", sign, third.sign))
        invalid = self._any(*map(self.is_nan, (x, y, z)), self._all(infinite, product_zero), clashes)
        result = self._select(z_infinite, z, result)
        result = self._select(infinite, self._with_sign(pairs.constant(_INFINITY), sign), result)
        return self._select(invalid, pairs.constant(_NAN), result)

    def _sum(self, one: tuple[Wide, Value, Value], other: tuple[Wide, Value, Value]) -> tuple[Wide, Value, Value]:
        """The sum of two (significand, exponent, sign), with the first bit at the top; the sign of no 0 is negative.

        The lower half of the second significand is 0.
        """
        b, pairs = self._b, self._pairs
        (x, x_exponent, x_sign), (y, y_exponent, y_sign) = one, other
        same = b.compute("eq", x_exponent, y_exponent)
        is_less = pairs.compare("lt", x.high, y.high, signed=False)
        less = self._any(b.compute("lt", x_exponent, y_exponent), self._all(same, is_less))
        large, small = self.significands.select(less, y, x), self.significands.select(less, x, y)
        exponent = b.select(less, y_exponent, x_exponent)
        distance = b.compute("sub", exponent, b.select(less, x_exponent, y_exponent))
        small = self.significands.wide_shifted_right(small, b.bitcast(distance, UINT32))
        differ = b.compute("ne", x_sign, y_sign)
        total = self.significands.sum(large, small, differ)
        total, shift = self.significands.normalized(total)
        is_zero = b.compute("not", pairs.is_nonzero(total.high))
        sign = b.select(is_zero, self._word(0), b.select(less, y_sign, x_sign))
        return total, b.compute("sub", exponent, shift), sign

    # -- comparisons --------------------------------------------------------------------------------------------------

    def compare(self, code: str, x: Pair, y: Pair) -> Value:
        """A comparison, by its name in the table of operations; False with NaN, but for "ne"."""
        b = self._b
        if code == "ne":
            return b.compute("not", self.compare("eq", x, y))
        ordered = b.compute("not", self._any(self.is_nan(x), self.is_nan(y)))
        return self._all(ordered, self._pairs.compare(code, self._key(x), self._key(y), signed=True))

    def _key(self, x: Pair) -> Pair:
        """An int64 in the order of the numbers."""
        pairs = self._pairs
        size = self._magnitude(x)
        negative = self._b.compute("ne", self._sign(x), self._word(0))
        return self._select(negative, pairs.neg(size), size)

    def extreme(self, code: str, x: Pair, y: Pair) -> Pair:
        """The minimum or maximum of two; one of them with NaN."""
        one, other = (x, y) if code == "min" else (y, x)
        return self._select(self.compare("lt", x, y), one, other)

    # -- whole numbers ------------------------------------------------------------------------------------------------

    def integral(self, code: str, x: Pair) -> Pair:
        """Rounds to a whole number: "trunc", "floor", "ceil", or "round" (ties to even)."""
        b, pairs = self._b, self._pairs
        size, sign = self._magnitude(x), self._sign(x)
        unit = b.compute("sub", self._word(BIAS + 52), self._biased(x))  # the position of the bit that counts ones
        unit = b.compute("and", unit, self._word(63))
        below = pairs.sub(pairs.shl(pairs.constant(1), unit), pairs.constant(1))
        one = pairs.constant(BIAS << 52)
        if code == "round":
            odd = b.compute("and", pairs.shr(size, unit, signed=False).low, self._word(1))
            added = pairs.shr(below, self._word(1), signed=False)
            added = pairs.add(added, Pair(odd, self._word(0)))
            away = self._exceeds(size, (BIAS - 1) << 52)
        else:
            up = b.const(code == "ceil", BOOL) if code != "trunc" else None
            negative = b.compute("ne", sign, self._word(0))
            grows = b.const(False, BOOL) if up is None else b.compute("xor", negative, up)
            added = self._select(grows, below, pairs.constant(0))
            away = self._all(grows, pairs.is_nonzero(size))
        whole = pairs.bitwise("and", pairs.add(size, added), pairs.bitwise("not", below))
        is_small = b.compute("lt", self._biased(x), self._word(BIAS))
        whole = self._select(is_small, self._select(away, one, pairs.constant(0)), whole)
        is_whole = b.compute("ge", self._biased(x), self._word(BIAS + 52))
        return self._select(is_whole, x, self._with_sign(whole, sign))

    # -- conversions --------------------------------------------------------------------------------------------------

    def of_pair(self, x: Pair, *, signed: bool) -> Pair:
        """Converts an int64 or uint64."""
        size = self._pairs.abs(x) if signed else x
        sign = self._b.compute("and", x.high, self._word(1 << 31)) if signed else self._word(0)
        return self.rounded(sign, *self.normalized(self._int(BIAS + 63), size))

    def to_pair(self, x: Pair) -> Pair:
        """Converts to an int64 or uint64; undefined outside of its range."""
        b, pairs = self._b, self._pairs
        number = self.unpacked(x)
        amount = b.compute("sub", self._int(BIAS + 63), number.exponent)
        whole = pairs.shr(number.significand, b.bitcast(amount, UINT32), signed=False)
        is_small = b.compute("lt", number.exponent, self._int(BIAS))
        size = self._select(is_small, pairs.constant(0), whole)
        return self._select(b.compute("ne", number.sign, self._word(0)), pairs.neg(size), size)

    def of_number(self, value: Value, kind: Scalar) -> Pair:
        """Converts a number of another type, or a bool."""
        b, pairs = self._b, self._pairs
        if kind is BOOL:
            return self._select(value, pairs.constant(BIAS << 52), pairs.constant(0))
        if kind.kind == "f":
            return self._of_single(b.cast(value, FLOAT32))
        return self.of_pair(pairs.of_number(value), signed=kind.kind == "i")

    def to_number(self, x: Pair, kind: Scalar) -> Value:
        """Converts to a number of another type, or a bool; to a float, rounded to the nearest, ties to even."""
        if kind is BOOL:
            return self._b.compute("not", self.is_zero(x))
        if kind.kind in "iu":
            return self._b.cast(self.to_pair(x).low, kind)
        single = self._to_single(x, odd=kind is FLOAT16)
        return self._b.cast(single, kind)

    def _of_single(self, value: Value) -> Pair:
        b, pairs = self._b, self._pairs
        bits = b.bitcast(value, UINT32)
        sign, size = b.compute("and", bits, self._word(1 << 31)), b.compute("and", bits, self._word(~(1 << 31)))
        wide = pairs.shl(Pair(size, self._word(0)), self._word(29))
        normal = pairs.add(wide, pairs.constant((BIAS - 127) << 52))
        special = pairs.bitwise("or", wide, pairs.constant(_INFINITY))
        special = self._select(b.compute("gt", size, self._word(0x7F800000)), pairs.constant(_NAN), special)
        position = b.compute("find_msb", size)
        fraction = pairs.shl(Pair(size, self._word(0)), b.compute("sub", self._word(52), position))
        exponent = b.compute("add", position, self._word(BIAS - 149 - 1))  # the first bit adds one
        small = pairs.add(fraction, Pair(self._word(0), b.compute("shl", exponent, self._word(20))))
        small = self._select(b.compute("eq", size, self._word(0)), pairs.constant(0), small)
        result = self._select(b.compute("lt", size, self._word(1 << 23)), small, normal)
        result = self._select(b.compute("ge", size, self._word(0x7F800000)), special, result)
        return self._with_sign(result, sign)

    def _to_single(self, x: Pair, *, odd: bool) -> Value:
        """Rounds to a float32; to the one with an odd last bit, if it is not exact, as a step to float16."""
        b, pairs = self._b, self._pairs
        number = self.unpacked(x)
        top = b.compute(
            "or", number.significand.high, b.cast(b.compute("ne", number.significand.low, self._word(0)), UINT32)
        )
        exponent = b.compute("sub", number.exponent, self._int(BIAS - 127))
        below = b.compute("max", b.compute("sub", self._int(1), exponent), self._int(0))
        top = self.significands.shifted_right(Pair(top, self._word(0)), b.bitcast(below, UINT32)).low
        rest = b.compute("and", top, self._word(0xFF))
        kept = b.compute("shr", top, self._word(8))
        last = b.compute("and", kept, self._word(1))
        if odd:
            kept = b.compute("or", kept, b.cast(b.compute("ne", rest, self._word(0)), UINT32))
        else:
            kept = b.compute(
                "add", kept, b.cast(b.compute("gt", b.compute("add", rest, last), self._word(0x80)), UINT32)
            )
        exponent = b.compute("min", b.compute("max", exponent, self._int(1)), self._int(0xFF))
        bits = b.compute(
            "add", b.compute("shl", b.bitcast(b.compute("sub", exponent, self._int(1)), UINT32), self._word(23)), kept
        )
        bits = b.compute("min", bits, self._word(0x7F800000))
        bits = b.select(self._is_finite(x), bits, self._word(0x7F800000))
        bits = b.select(pairs.is_nonzero(self._magnitude(x)), bits, self._word(0))
        bits = b.select(self.is_nan(x), self._word(0x7FC00000), bits)
        return b.bitcast(b.compute("or", bits, number.sign), FLOAT32)
