"""Arithmetic on integers of 64 bits as pairs of words.

Quotients by a variable are those of H. S. Warren: Hacker's Delight, 2nd edition, sections 9-2 and 9-5: three quotients
of words and no loop. Quotients by a constant are products: T. Granlund and P. L. Montgomery: Division by invariant
integers using multiplication, 1994, figures 4.2, 5.2 and 6.2.
"""

from __future__ import annotations

from typing import NamedTuple

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Constant, Value
from vkcompute.ir.types import BOOL, FLOAT32, FLOAT64, INT32, UINT32, Scalar, element_of, vector

_BIAS, _FRACTION = 127, 23  # of float32: the exponent's bias, the bits of the fraction


class Pair(NamedTuple):
    """An integer of 64 bits as two words, uint32."""

    low: Value
    high: Value


class PairBuilder:
    """Appends operations on pairs of words.

    `signed` says whether a pair is an int64 or a uint64, where that makes a difference.
    """

    def __init__(self, builder: Builder) -> None:
        self._b = builder

    # -- words --------------------------------------------------------------------------------------------------------

    def word(self, number: int) -> Constant:
        """A constant word."""
        return self._b.const(number & 0xFFFFFFFF, UINT32)

    def constant(self, number: int) -> Pair:
        """A constant pair."""
        return Pair(self.word(number), self.word(number >> 32))

    def _signed(self, word: Value) -> Value:
        return self._b.bitcast(word, INT32)

    def _unsigned(self, word: Value) -> Value:
        return self._b.bitcast(word, UINT32)

    def _of_bool(self, condition: Value) -> Value:
        return self._b.cast(condition, UINT32)

    def _sign_word(self, word: Value) -> Value:
        """All ones if the word is negative as an int32, else 0."""
        if isinstance(word, Constant):
            return self.word(-(int(word.value) >> 31))
        return self._unsigned(self._b.compute("shr", self._signed(word), self._b.const(31, INT32)))

    def _is_negative(self, x: Pair) -> Value:
        return self._b.compute("lt", self._signed(x.high), self._b.const(0, INT32))

    def _zeros_of_word(self, word: Value) -> Value:
        """The zeros above the highest one; 32 for 0."""
        return self._b.compute("sub", self.word(31), self._b.compute("find_msb", word))

    def leading_zeros(self, x: Pair) -> Value:
        """The zeros above the highest one, a word; undefined for 0."""
        b = self._b
        is_low = b.compute("eq", x.high, self.word(0))
        zeros = self._zeros_of_word(b.select(is_low, x.low, x.high))
        return b.compute("add", zeros, b.select(is_low, self.word(32), self.word(0)))

    def _product(self, x: Value, y: Value) -> Value:
        """The low word of a product of words."""
        if any(isinstance(factor, Constant) and not factor.value for factor in (x, y)):
            return self.word(0)
        return self._b.compute("mul", x, y)

    def _product_above(self, x: Value, y: Value) -> Value:
        """The high word of a product of words."""
        if any(isinstance(factor, Constant) and int(factor.value) < 2 for factor in (x, y)):
            return self.word(0)
        return self._b.compute("mul_high", x, y)

    def select(self, condition: Value, one: Pair, other: Pair) -> Pair:
        """`one` if a condition is True, else `other`."""
        return Pair(*[self._b.select(condition, *words) for words in zip(one, other, strict=True)])

    # -- sums, products and bits --------------------------------------------------------------------------------------

    def bitwise(self, code: str, *args: Pair) -> Pair:
        """And, or, xor or not."""
        return Pair(*[self._b.compute(code, *words) for words in zip(*args, strict=True)])

    def add(self, x: Pair, y: Pair) -> Pair:
        """x + y."""
        low = self._b.compute("add", x.low, y.low)
        folded = low is x.low or low is y.low
        carry = self.word(0) if folded else self._of_bool(self._b.compute("lt", low, x.low))
        return Pair(low, self._b.compute("add", self._b.compute("add", x.high, y.high), carry))

    def sub(self, x: Pair, y: Pair) -> Pair:
        """x - y."""
        low = self._b.compute("sub", x.low, y.low)
        borrow = self.word(0) if low is x.low else self._of_bool(self._b.compute("lt", x.low, y.low))
        return Pair(low, self._b.compute("sub", self._b.compute("sub", x.high, y.high), borrow))

    def neg(self, x: Pair) -> Pair:
        """-x."""
        return self.sub(self.constant(0), x)

    def abs(self, x: Pair) -> Pair:
        """The magnitude of an int64, as a uint64: (x ^ sign) - sign."""
        return self._with_sign_of(x, self._sign_word(x.high))

    def _with_sign_of(self, magnitude: Pair, sign: Value) -> Pair:
        """-magnitude where the sign word is all ones."""
        if isinstance(sign, Constant):
            return self.neg(magnitude) if sign.value else magnitude
        signs = Pair(sign, sign)
        return self.sub(self.bitwise("xor", magnitude, signs), signs)

    def sign(self, x: Pair) -> Pair:
        """-1, 0 or 1."""
        high = self._sign_word(x.high)
        return Pair(self._b.compute("or", high, self._of_bool(self.is_nonzero(x))), high)

    def mul(self, x: Pair, y: Pair) -> Pair:
        """x * y."""
        crossed = self._b.compute("add", self._product(x.low, y.high), self._product(x.high, y.low))
        high = self._b.compute("add", self._product_above(x.low, y.low), crossed)
        return Pair(self._product(x.low, y.low), high)

    def product(self, x: Value, y: Value) -> Pair:
        """The product of two words."""
        return Pair(self._product(x, y), self._product_above(x, y))

    def wide_product(self, x: Pair, y: Pair) -> tuple[Pair, Pair]:
        """The upper and the lower 64 bits of the product of two uint64."""
        one, other = self.product(x.low, y.high), self.product(x.high, y.low)
        lower, zero = self.product(x.low, y.low), self.word(0)
        middle = self.add(Pair(lower.high, zero), Pair(one.low, zero))
        middle = self.add(middle, Pair(other.low, zero))
        upper = self.product(x.high, y.high)
        for word in (one.high, other.high, middle.high):
            upper = self.add(upper, Pair(word, zero))
        return upper, Pair(lower.low, middle.low)

    def shl(self, x: Pair, amount: Value) -> Pair:
        """x << amount, of 0 to 63."""
        if isinstance(amount, Constant):
            return self._shl_by(x, int(amount.value) & 63)
        within, is_word, back = self._shift(amount)
        carried = self._b.compute("shr", self._b.compute("shr", x.low, self.word(1)), back)
        low = self._b.compute("shl", x.low, within)
        high = self._b.compute("or", self._b.compute("shl", x.high, within), carried)
        return self.select(is_word, Pair(self.word(0), low), Pair(low, high))

    def shr(self, x: Pair, amount: Value, *, signed: bool) -> Pair:
        """x >> amount, of 0 to 63."""
        if isinstance(amount, Constant):
            return self._shr_by(x, int(amount.value) & 63, signed=signed)
        within, is_word, back = self._shift(amount)
        carried = self._b.compute("shl", self._b.compute("shl", x.high, self.word(1)), back)
        low = self._b.compute("or", self._b.compute("shr", x.low, within), carried)
        if signed:
            high = self._unsigned(self._b.compute("shr", self._signed(x.high), self._signed(within)))
        else:
            high = self._b.compute("shr", x.high, within)
        filled = self._sign_word(x.high) if signed else self.word(0)
        return self.select(is_word, Pair(high, filled), Pair(low, high))

    def _shl_by(self, x: Pair, amount: int) -> Pair:
        if amount >= 32:
            return Pair(self.word(0), self._b.compute("shl", x.low, self.word(amount - 32)))
        if not amount:
            return x
        carried = self._b.compute("shr", x.low, self.word(32 - amount))
        high = self._b.compute("or", self._b.compute("shl", x.high, self.word(amount)), carried)
        return Pair(self._b.compute("shl", x.low, self.word(amount)), high)

    def _shr_by(self, x: Pair, amount: int, *, signed: bool) -> Pair:
        filled = self._sign_word(x.high) if signed else self.word(0)
        if not amount:
            return x
        n = amount - 32 if amount >= 32 else amount
        if signed:
            high = self._unsigned(self._b.compute("shr", self._signed(x.high), self._b.const(n, INT32)))
        else:
            high = self._b.compute("shr", x.high, self.word(n))
        if amount >= 32:
            return Pair(high, filled)
        carried = self._b.compute("shl", x.high, self.word(32 - amount))
        return Pair(self._b.compute("or", self._b.compute("shr", x.low, self.word(amount)), carried), high)

    def _shift(self, amount: Value) -> tuple[Value, Value, Value]:
        """The shift within a word, True for one by a word at least, and 31 less the first."""
        within = self._b.compute("and", amount, self.word(31))
        is_word = self._b.compute("ne", self._b.compute("and", amount, self.word(32)), self.word(0))
        return within, is_word, self._b.compute("xor", within, self.word(31))

    # -- comparisons --------------------------------------------------------------------------------------------------

    def is_nonzero(self, x: Pair) -> Value:
        """x != 0."""
        return self._b.compute("ne", self._b.compute("or", x.low, x.high), self.word(0))

    def compare(self, code: str, x: Pair, y: Pair, *, signed: bool) -> Value:
        """A comparison, by its name in the table of operations."""
        b = self._b
        if code in ("eq", "ne"):
            differs = self.bitwise("xor", x, y)
            return b.compute(code, b.compute("or", differs.low, differs.high), self.word(0))
        if code in ("gt", "le"):
            x, y, code = y, x, {"gt": "lt", "le": "ge"}[code]
        highs = [self._signed(word) if signed else word for word in (x.high, y.high)]
        decided, equal = b.compute("lt", *highs), b.compute("eq", x.high, y.high)
        less = b.compute("or", decided, b.compute("and", equal, b.compute("lt", x.low, y.low)))
        return b.compute("not", less) if code == "ge" else less

    def extreme(self, code: str, x: Pair, y: Pair, *, signed: bool) -> Pair:
        """The minimum or maximum of two."""
        one, other = (x, y) if code == "min" else (y, x)
        return self.select(self.compare("lt", x, y, signed=signed), one, other)

    # -- quotients ----------------------------------------------------------------------------------------------------

    def divide(self, code: str, x: Pair, y: Pair, *, signed: bool) -> Pair:
        """A quotient that truncates ("div"), or a remainder with the sign of dividend ("rem") or divisor ("mod")."""
        divisor = _number(y)
        if divisor and signed and code == "mod":
            return self.divide_down(code, x, divisor)
        if divisor:
            divisor = divisor if signed else divisor % 2**64
            quotient = self._by_signed_constant(x, divisor) if signed else self._by_constant(x, divisor)
            remainder = self._rest(x, quotient, divisor, signed=signed)
        elif signed:
            quotient, remainder = self._divided(self.abs(x), self.abs(y))
            sign = self._sign_word(x.high)
            quotient = self._with_sign_of(quotient, self._b.compute("xor", sign, self._sign_word(y.high)))
            remainder = self._with_sign_of(remainder, sign)
        else:
            quotient, remainder = self._divided(x, y)
        if code == "div":
            return quotient
        if code == "rem" or not signed:
            return remainder
        sign, other = self._sign_word(remainder.high), self._sign_word(y.high)
        differ = self._b.compute("ne", sign, other)
        corrected = self._b.compute("and", differ, self.is_nonzero(remainder))
        return self.select(corrected, self.add(remainder, y), remainder)

    def _divided(self, x: Pair, y: Pair) -> tuple[Pair, Pair]:
        """Quotient and remainder of two uint64."""
        b = self._b
        is_word = b.compute("eq", y.high, self.word(0))
        shift = b.compute("and", self._zeros_of_word(y.high), self.word(31))
        back = b.compute("xor", shift, self.word(31))
        # The divisor's first 32 bits, and half of the dividend, so that the quotient is a word.
        first = b.compute(
            "or", b.compute("shl", y.high, shift), b.compute("shr", b.compute("shr", y.low, self.word(1)), back)
        )
        half = self.shr(x, self.word(1), signed=False)
        top_divisor = b.select(is_word, y.low, first)
        top_quotient = b.compute("div", x.high, top_divisor)
        top_rest = b.compute("sub", x.high, b.compute("mul", top_quotient, top_divisor))
        dividend = self.select(is_word, Pair(x.low, top_rest), half)
        quotient, rest = self.word_quotient(dividend, top_divisor)
        estimate = b.compute("shr", quotient, back)
        estimate = b.compute("sub", estimate, self._of_bool(b.compute("ne", estimate, self.word(0))))
        remainder = self.sub(x, self.mul(Pair(estimate, self.word(0)), y))
        is_low = self.compare("ge", remainder, y, signed=False)
        estimate = b.compute("add", estimate, self._of_bool(is_low))
        remainder = self.select(is_low, self.sub(remainder, y), remainder)
        zero = self.word(0)
        return (
            self.select(is_word, Pair(quotient, top_quotient), Pair(estimate, zero)),
            self.select(is_word, Pair(rest, zero), remainder),
        )

    def word_quotient(self, x: Pair, y: Value) -> tuple[Value, Value]:
        """Quotient and remainder of a uint64 by a word that is larger than its high word: two digits of 16 bits."""
        b = self._b
        shift = self._zeros_of_word(y)
        y = b.compute("shl", y, shift)
        x = self.shl(x, shift)
        digits, rest = [], x.high
        for part in (b.compute("shr", x.low, self.word(16)), b.compute("and", x.low, self.word(0xFFFF))):
            digit = self._digit(rest, part, y)
            joined = b.compute("or", b.compute("shl", rest, self.word(16)), part)
            rest = b.compute("sub", joined, b.compute("mul", digit, y))
            digits.append(digit)
        quotient = b.compute("add", b.compute("shl", digits[0], self.word(16)), digits[1])
        return quotient, b.compute("shr", rest, shift)

    def _digit(self, rest: Value, part: Value, y: Value) -> Value:
        """A digit of 16 bits of the quotient of (rest, part) by y: an estimate from the upper half, less 0 to 2."""
        b, base = self._b, self.word(1 << 16)
        upper, lower = b.compute("shr", y, self.word(16)), b.compute("and", y, self.word(0xFFFF))
        digit = b.compute("div", rest, upper)
        over = b.compute("sub", rest, b.compute("mul", digit, upper))
        for _ in range(2):
            product, limit = (
                b.compute("mul", digit, lower),
                b.compute("or", b.compute("shl", over, self.word(16)), part),
            )
            large = b.compute("or", b.compute("ge", digit, base), b.compute("gt", product, limit))
            lowered = b.compute("and", b.compute("lt", over, base), large)
            digit = b.compute("sub", digit, self._of_bool(lowered))
            over = b.select(lowered, b.compute("add", over, upper), over)
        return digit

    def _by_constant(self, x: Pair, divisor: int, limit: int = 2**64 - 1) -> Pair:
        """The quotient of a uint64, of at most `limit`, by a positive constant."""
        zeros = (divisor & -divisor).bit_length() - 1
        if divisor == 1 << zeros:
            return self.shr(x, self.word(zeros), signed=False)
        for dropped in (0, zeros):
            if reciprocal := _reciprocal(divisor >> dropped, limit >> dropped):
                factor, shift = reciprocal
                upper = self.wide_product(self.shr(x, self.word(dropped), signed=False), self.constant(factor))[0]
                return self.shr(upper, self.word(shift), signed=False)
        length = divisor.bit_length()
        factor = (1 << 64) * ((1 << length) - divisor) // divisor + 1
        upper = self.wide_product(x, self.constant(factor))[0]
        half = self.shr(self.sub(x, upper), self.word(1), signed=False)
        return self.shr(self.add(upper, half), self.word(length - 1), signed=False)

    def divide_down(self, code: str, x: Pair, divisor: int) -> Pair:
        """A quotient of an int64 by a constant that is rounded down ("div"), or the remainder ("mod")."""
        quotient = self._floored(x, divisor)
        if code == "div":
            return quotient
        return self._rest(x, quotient, divisor, signed=divisor < 0)

    def _rest(self, x: Pair, quotient: Pair, divisor: int, *, signed: bool) -> Pair:
        """The remainder to a quotient by a constant; only a signed one may be negative."""
        if abs(divisor) > 2**31:
            return self.sub(x, self.mul(quotient, self.constant(divisor)))
        b = self._b
        low = b.compute("sub", x.low, b.compute("mul", quotient.low, self.word(divisor)))
        return Pair(low, self._sign_word(low) if signed else self.word(0))

    def _floored(self, x: Pair, divisor: int) -> Pair:
        """The quotient of an int64 by a constant, rounded down: ~(~x // n) for a negative x and a positive n."""
        if divisor > 0 and divisor & (divisor - 1) == 0:
            return self.shr(x, self.word(divisor.bit_length() - 1), signed=True)
        given, x = x, x if divisor > 0 else self.neg(x)
        # The negated least number is 2**63.
        high = x.high if divisor > 0 else self._b.compute("and", x.high, self._b.compute("not", given.high))
        signs = Pair(self._sign_word(high), self._sign_word(high))
        return self.bitwise("xor", self._by_constant(self.bitwise("xor", x, signs), abs(divisor), 2**63), signs)

    def _by_signed_constant(self, x: Pair, divisor: int) -> Pair:
        """The quotient of an int64 by a constant, rounded to zero."""
        size, sign = abs(divisor), self._sign_word(x.high)
        signs, shift = Pair(sign, sign), (size - 1).bit_length()
        if size == 1:
            quotient = x
        elif size == 1 << shift:
            rounded = self.add(x, self.shr(signs, self.word(64 - shift), signed=False))
            quotient = self.shr(rounded, self.word(shift), signed=True)
        else:
            factor = self.constant((1 << 63 + shift) // size + 1)
            upper = self.sub(self.wide_product(x, factor)[0], self.bitwise("and", signs, factor))
            quotient = self.sub(self.shr(upper, self.word(shift - 1), signed=True), signs)
        return self.neg(quotient) if divisor < 0 else quotient

    # -- conversions --------------------------------------------------------------------------------------------------

    def of_number(self, value: Value) -> Pair:
        """Converts a number or bool of another type; undefined for a float outside of the range."""
        b, kind = self._b, element_of(value.type)
        if kind is FLOAT64:
            return self._of_double(value)
        if kind.kind == "f":
            return self._of_float(b.cast(value, FLOAT32))
        if kind.kind == "i":
            word = self._unsigned(b.cast(value, INT32))
            return Pair(word, self._sign_word(word))
        return Pair(b.cast(value, UINT32), self.word(0))

    def to_number(self, x: Pair, kind: Scalar, *, signed: bool) -> Value:
        """Converts to a number of another type, or a bool; to a float, rounded to the nearest, ties to even."""
        b = self._b
        if kind is BOOL:
            return self.is_nonzero(x)
        if kind.kind in "iu":
            return b.cast(x.low, kind)
        if kind is FLOAT64:
            high = b.cast(self._signed(x.high) if signed else x.high, FLOAT64)
            return b.rounded("add", b.rounded("mul", high, b.const(2.0**32, FLOAT64)), b.cast(x.low, FLOAT64))
        if kind is FLOAT32:
            return self._to_float(x, signed=signed)
        # All beyond 2**24, from where float32 is not exact, is infinite as a float16.
        size = self.abs(x) if signed else x
        limit = self.constant(1 << 24)
        number = b.cast(b.cast(self.extreme("min", size, limit, signed=False).low, FLOAT32), kind)
        return b.select(self._is_negative(x), b.compute("neg", number), number) if signed else number

    def _of_float(self, value: Value) -> Pair:
        """Converts a float32: its 24 bits, shifted by its exponent."""
        b = self._b
        bits = b.bitcast(value, UINT32)
        fraction = b.compute("or", b.compute("and", bits, self.word((1 << _FRACTION) - 1)), self.word(1 << _FRACTION))
        exponent = b.compute("and", b.compute("shr", bits, self.word(_FRACTION)), self.word(0xFF))
        is_small = b.compute("lt", exponent, self.word(_BIAS + _FRACTION))
        left = b.compute("sub", exponent, self.word(_BIAS + _FRACTION))
        right = b.compute("min", b.compute("sub", self.word(_BIAS + _FRACTION), exponent), self.word(31))
        large = self.shl(Pair(fraction, self.word(0)), left)
        size = self.select(is_small, Pair(b.compute("shr", fraction, right), self.word(0)), large)
        return self._with_sign_of(size, self._sign_word(bits))

    def _of_double(self, value: Value) -> Pair:
        """Converts a float64, of which the magnitude's words are exact."""
        b = self._b
        size = b.compute("abs", b.compute("trunc", value))
        high = b.compute("floor", b.rounded("mul", size, b.const(2.0**-32, FLOAT64)))
        low = b.rounded("sub", size, b.rounded("mul", high, b.const(2.0**32, FLOAT64)))
        words = Pair(b.cast(low, UINT32), b.cast(high, UINT32))
        bits = b.extract(b.bitcast(value, vector(UINT32, 2)), 1)
        return self._with_sign_of(words, self._sign_word(bits))

    def _to_float(self, x: Pair, *, signed: bool) -> Value:
        """Converts to a float32, whose bits are put together."""
        b = self._b
        size = self.abs(x) if signed else x
        is_word = b.compute("eq", size.high, self.word(0))
        zeros = b.select(
            is_word,
            b.compute("add", self._zeros_of_word(size.low), self.word(32)),
            self._zeros_of_word(size.high),
        )
        scaled = self.shl(size, zeros)
        sticky = self._of_bool(b.compute("ne", scaled.low, self.word(0)))
        top = b.compute("or", scaled.high, sticky)
        unused = 31 - _FRACTION
        mantissa = b.compute("shr", top, self.word(unused))
        # Half a unit less one, plus one for an odd mantissa: ties go to even.
        odd = b.compute("and", mantissa, self.word(1))
        rounded = b.compute("add", b.compute("and", top, self.word((1 << unused) - 1)), odd)
        up = self._of_bool(b.compute("gt", rounded, self.word(1 << unused - 1)))
        exponent = b.compute("sub", self.word(_BIAS + 63 - 1), zeros)  # the mantissa's first bit adds one
        bits = b.compute("add", b.compute("shl", exponent, self.word(_FRACTION)), b.compute("add", mantissa, up))
        bits = b.select(self.is_nonzero(x), bits, self.word(0))
        if signed:
            bits = b.compute("or", bits, b.compute("and", x.high, self.word(1 << 31)))
        return b.bitcast(bits, FLOAT32)


def _number(x: Pair) -> int | None:
    """The int64 of a constant pair; None for others."""
    if not (isinstance(x.low, Constant) and isinstance(x.high, Constant)):
        return None
    bits = int(x.low.value) | int(x.high.value) << 32
    return bits - (bits >> 63 << 64)


def _reciprocal(divisor: int, limit: int) -> tuple[int, int] | None:
    """A factor and a shift: the upper 64 bits of x * factor, shifted, are x // divisor for x up to the limit.

    None if the factor would have more than 64 bits.
    """
    for shift in range(64):
        factor = -(-(1 << 64 + shift) // divisor)
        if factor < 1 << 64 and (factor * divisor - (1 << 64 + shift)) * limit < 1 << 64 + shift:
            return factor, shift
    return None
