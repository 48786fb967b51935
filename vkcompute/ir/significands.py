"""Fixed-point arithmetic on significands of 64 bits, as pairs of words: quotients, roots, sums of 128 bits."""

from __future__ import annotations

from typing import NamedTuple

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Value
from vkcompute.ir.integer_pairs import Pair, PairBuilder
from vkcompute.ir.types import FLOAT32, INT32, UINT32


class Wide(NamedTuple):
    """An integer of 128 bits."""

    high: Pair
    low: Pair


class SignificandBuilder:
    """Appends operations on significands, whose first bit is at the top, and on their products of 128 bits."""

    def __init__(self, builder: Builder, pairs: PairBuilder) -> None:
        self._b, self._pairs = builder, pairs

    def shifted_right(self, x: Pair, amount: Value) -> Pair:
        """x >> amount, a word, of which the last bit is set if bits were lost; also by more than 63."""
        b, pairs = self._b, self._pairs
        limited = b.compute("min", amount, pairs.word(63))
        shifted = pairs.shr(x, limited, signed=False)
        back = pairs.shl(shifted, limited)
        lost = pairs.compare("ne", back, x, signed=False)
        return Pair(b.compute("or", shifted.low, b.cast(lost, UINT32)), shifted.high)

    def with_rest(self, x: Pair, rest: Value) -> Pair:
        """x, of which the last bit is set if a condition holds."""
        return Pair(self._b.compute("or", x.low, self._b.cast(rest, UINT32)), x.high)

    def halved_if(self, condition: Value, x: Pair) -> Pair:
        """x >> 1 if a condition is True, else x."""
        return self._pairs.select(condition, self._pairs.shr(x, self._pairs.word(1), signed=False), x)

    def quotient(self, x: Pair, y: Pair) -> tuple[Pair, Value, Pair]:
        """x * 2**64 / y, or half of it where x is not less than y, which the second result tells; and the remainder.

        A divisor of 0 counts as 2**63.
        """
        is_large = self._pairs.compare("ge", x, y, signed=False)
        divisor = Pair(y.low, self._b.compute("or", y.high, self._pairs.word(1 << 31)))
        high, rest = self._digit(self.halved_if(is_large, x), divisor)
        low, rest = self._digit(rest, divisor)
        return Pair(low, high), is_large, rest

    def _digit(self, x: Pair, y: Pair) -> tuple[Value, Pair]:
        """The word that is x * 2**32 / y, of which the top bit is set and x is less; and the remainder."""
        b, pairs = self._b, self._pairs
        limit = b.compute("eq", x.high, y.high)  # then the quotient by the high word has 33 bits
        dividend = Pair(x.low, b.select(limit, pairs.word(0), x.high))
        quotient, rest = pairs.word_quotient(dividend, y.high)
        quotient = b.select(limit, pairs.word(0xFFFFFFFF), quotient)
        rest = b.select(limit, b.compute("add", x.low, y.high), rest)
        overflown = b.compute("and", limit, b.compute("lt", rest, x.low))
        for _ in range(2):
            product = pairs.product(quotient, y.low)
            is_high = pairs.compare("gt", product, Pair(pairs.word(0), rest), signed=False)
            lowered = b.compute("and", is_high, b.compute("not", overflown))
            quotient = b.compute("sub", quotient, b.cast(lowered, UINT32))
            following = b.compute("add", rest, b.select(lowered, y.high, pairs.word(0)))
            overflown = b.compute("or", overflown, b.compute("lt", following, rest))
            rest = following
        # Modulo 2**64, which the remainder is below: a carry of `rest` is left out.
        return quotient, pairs.sub(Pair(pairs.word(0), rest), pairs.product(quotient, y.low))

    def estimated_root(self, radicand: Pair) -> Pair:
        """The root of a number of 63 or 64 bits times 2**64; at most 2 too large."""
        b, pairs = self._b, self._pairs
        single = b.compute("sqrt", b.cast(radicand.high, FLOAT32))
        single = b.compute("min", single, b.const(65536 - 2.0**-8, FLOAT32))
        estimate = b.cast(b.compute("mul", single, b.const(65536.0, FLOAT32)), UINT32)
        # Of 22 bits at least; the difference has up to 44, and half its quotient corrects the estimate to 1.
        rest = pairs.sub(radicand, pairs.product(estimate, estimate))
        scaled = b.cast(b.bitcast(pairs.shr(rest, pairs.word(12), signed=True).low, INT32), FLOAT32)
        halved = b.compute("mul", scaled, b.const(2048.0, FLOAT32))
        correction = b.cast(b.compute("div", halved, b.cast(estimate, FLOAT32)), INT32)
        word = b.compute("add", estimate, b.bitcast(correction, UINT32))
        wraps = b.compute("and", b.compute("gt", correction, b.const(0, INT32)), b.compute("lt", word, estimate))
        word = b.select(wraps, pairs.word(0xFFFFFFFF), word)
        word, rest = self._exact_root(radicand, word)
        # r = w + z, and z = (radicand - w**2) / 2 w, less the square of z over 2 w.
        dividend = pairs.shl(rest, pairs.word(31))
        is_large = b.compute("ge", dividend.high, word)
        low, _ = pairs.word_quotient(Pair(dividend.low, b.select(is_large, pairs.word(0), dividend.high)), word)
        return Pair(b.select(is_large, pairs.word(0xFFFFFFFF), low), word)

    def _exact_root(self, radicand: Pair, word: Value) -> tuple[Value, Pair]:
        """The largest word whose square is at most the radicand, and the difference, from a word that is off by 1."""
        b, pairs = self._b, self._pairs
        rest = pairs.sub(radicand, pairs.product(word, word))
        is_large = b.compute("lt", b.bitcast(rest.high, INT32), b.const(0, INT32))
        word = b.compute("sub", word, b.cast(is_large, UINT32))
        rest = pairs.select(is_large, pairs.add(rest, self._odd(word)), rest)
        is_small = pairs.compare("ge", rest, self._odd(word), signed=False)
        rest = pairs.select(is_small, pairs.sub(rest, self._odd(word)), rest)
        return b.compute("add", word, b.cast(is_small, UINT32)), rest

    def _odd(self, word: Value) -> Pair:
        """2 * word + 1."""
        doubled = self._pairs.shl(Pair(word, self._pairs.word(0)), self._pairs.word(1))
        return Pair(self._b.compute("or", doubled.low, self._pairs.word(1)), doubled.high)

    def sum(self, x: Wide, y: Wide, negates: Value) -> Wide:
        """x + y, or x - y = x + not y + 1."""
        b, pairs = self._b, self._pairs
        one = b.cast(negates, UINT32)
        mask = b.compute("sub", pairs.word(0), one)
        high, low = (pairs.bitwise("xor", part, Pair(mask, mask)) for part in y)
        inner = pairs.add(x.low, low)
        carry = pairs.compare("lt", inner, low, signed=False)
        total = pairs.add(inner, Pair(one, pairs.word(0)))
        wraps = b.compute("and", negates, b.compute("not", pairs.is_nonzero(total)))
        more = b.compute("add", b.cast(carry, UINT32), b.cast(wraps, UINT32))
        return Wide(pairs.add(pairs.add(x.high, high), Pair(more, pairs.word(0))), total)

    def select(self, condition: Value, one: Wide, other: Wide) -> Wide:
        """`one` if a condition is True, else `other`."""
        return Wide(
            self._pairs.select(condition, one.high, other.high), self._pairs.select(condition, one.low, other.low)
        )

    def halved(self, x: Wide) -> Wide:
        """x >> 1, of which the last bit is 0."""
        pairs = self._pairs
        carried = pairs.shl(x.high, pairs.word(63))
        low = pairs.bitwise("or", pairs.shr(x.low, pairs.word(1), signed=False), carried)
        return Wide(pairs.shr(x.high, pairs.word(1), signed=False), low)

    def wide_shifted_right(self, x: Wide, amount: Value) -> Wide:
        """x >> amount, of which the last bit is set if bits were lost."""
        b, pairs = self._b, self._pairs
        amount = b.compute("min", amount, pairs.word(127))
        is_far = b.compute("ge", amount, pairs.word(64))
        within = b.compute("and", amount, pairs.word(63))
        carried = pairs.shl(pairs.shl(x.high, pairs.word(1)), self._back(within))
        high = pairs.shr(x.high, within, signed=False)
        low = pairs.bitwise("or", pairs.shr(x.low, within, signed=False), carried)
        lost = pairs.compare("ne", pairs.shl(pairs.shr(x.low, within, signed=False), within), x.low, signed=False)
        far = self.with_rest(high, pairs.is_nonzero(pairs.bitwise("or", carried, x.low)))
        near = Wide(high, self.with_rest(low, lost))
        return self.select(is_far, Wide(pairs.constant(0), far), near)

    def normalized(self, x: Wide) -> tuple[Wide, Value]:
        """Shifts the first bit to the top; and the bits of the shift, an int32. Undefined for 0."""
        b, pairs = self._b, self._pairs
        is_low = b.compute("not", pairs.is_nonzero(x.high))
        lifted = self.select(is_low, Wide(x.low, pairs.constant(0)), x)
        zeros = pairs.leading_zeros(lifted.high)
        joined = pairs.shr(pairs.shr(lifted.low, pairs.word(1), signed=False), self._back(zeros), signed=False)
        high = pairs.bitwise("or", pairs.shl(lifted.high, zeros), joined)
        words = b.select(is_low, b.const(64, INT32), b.const(0, INT32))
        return Wide(high, pairs.shl(lifted.low, zeros)), b.compute("add", words, b.bitcast(zeros, INT32))

    def _back(self, amount: Value) -> Value:
        """63 less an amount of 0 to 63."""
        return self._b.compute("xor", self._b.compute("and", amount, self._pairs.word(63)), self._pairs.word(63))
