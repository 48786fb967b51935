"""Formats of floats of 8 and 16 bits: their numbers, and rounding to them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class FloatFormat(NamedTuple):
    """A format of floats of 8 or 16 bits.

    Attributes:
        bits: all of them.
        mantissa: the bits of the fraction.
        least: the exponent of the least normal number.
        nan: the bits of NaN, without the sign.
        infinity: those of infinity; 0 for a format without.
        unsigned: True if 0 and NaN have no sign: NaN then has the bits of -0.
        away: True if conversions round what is halfway between two numbers away from 0, not to even.
    """

    bits: int
    mantissa: int
    least: int
    nan: int
    infinity: int = 0
    unsigned: bool = False
    away: bool = False

    @property
    def beyond(self) -> int:
        """The bits of the first number of this precision that the format has not."""
        return self.infinity or (1 << self.bits - 1 if self.unsigned else self.nan)

    def value(self, bits: int) -> float:
        """Returns the positive number with these bits."""
        exponent, fraction = divmod(bits, 1 << self.mantissa)
        return float(
            (fraction + (1 << self.mantissa) * min(exponent, 1))
            * 2.0 ** (self.least - self.mantissa + max(exponent - 1, 0))
        )

    def rounded(self, values: Any) -> np.ndarray[Any, Any]:
        """Returns numbers rounded to nearest, as float64."""
        with np.errstate(all="ignore"):
            numbers = np.asarray(values).astype(np.float64)
            _, exponent = np.frexp(numbers)
            exponent = np.maximum(exponent - 1, self.least) - self.mantissa
            steps = np.ldexp(numbers, -exponent)
            whole = np.rint(steps)
            if self.away:
                cut = np.trunc(steps)
                whole = cut + np.copysign(np.abs(steps - cut) >= 0.5, steps)
            nearest = np.ldexp(whole, exponent)
            largest = np.inf if self.infinity else np.nan
            nearest = np.where(np.abs(nearest) >= self.value(self.beyond), np.copysign(largest, numbers), nearest)
            nearest = np.where(np.isfinite(numbers), nearest, numbers if self.infinity else np.nan)
            result: np.ndarray[Any, Any] = np.where(nearest == 0, 0.0, nearest) if self.unsigned else nearest
            return result

    def encoded(self, values: Any) -> np.ndarray[Any, Any]:
        """Returns the bits of rounded numbers, as integers of their size."""
        with np.errstate(all="ignore"):
            numbers = self.rounded(values)
            size = np.abs(np.where(np.isfinite(numbers), numbers, 0))
            _, exponent = np.frexp(size)
            exponent = np.where(size > 0, np.maximum(exponent - 1, self.least), self.least)
            steps = np.ldexp(size, self.mantissa - exponent).astype(np.int64)
            bits = steps + ((exponent - self.least) << self.mantissa)
            bits = np.where(np.isinf(numbers), self.infinity, np.where(np.isnan(numbers), self.nan, bits))
            sign = np.where(np.isnan(numbers) & self.unsigned, 0, np.signbit(numbers)) << self.bits - 1
            codes: np.ndarray[Any, Any] = bits | sign
            return codes.astype(f"u{self.bits // 8}")

    def decoded(self, bits: Any) -> np.ndarray[Any, Any]:
        """Returns the numbers with these bits, as float32."""
        codes = np.asarray(bits).astype(np.int64)
        size = codes & (1 << self.bits - 1) - 1
        exponent, fraction = size >> self.mantissa, size & (1 << self.mantissa) - 1
        whole = fraction + (np.minimum(exponent, 1) << self.mantissa)
        numbers = np.ldexp(whole.astype(np.float64), self.least - self.mantissa + np.maximum(exponent - 1, 0))
        if self.unsigned:
            numbers = np.where(codes == self.nan, np.nan, numbers)
        else:
            numbers = np.where(size >= self.beyond, np.nan, numbers)
            numbers = np.where(size == self.infinity, np.inf, numbers) if self.infinity else numbers
        signed: np.ndarray[Any, Any] = np.copysign(numbers, np.where(codes >> self.bits - 1, -1.0, 1.0))
        return signed.astype(np.float32)
