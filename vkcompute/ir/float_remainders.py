"""Exact remainders of floats; a device computes x - y * trunc(x / y), whose quotient is rounded."""

from __future__ import annotations

from typing import NamedTuple

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Value, walk
from vkcompute.ir.types import FLOAT16, FLOAT32, SCALARS, Type, Vector, element_of


class _Format(NamedTuple):
    """A floating-point format, and how it is divided.

    Attributes:
        bits: of the significand, including the leading one.
        bias: of the exponent.
        step: quotient bits per iteration. The error of a quotient's estimate is then below 0.4, even with the 2.5 ULP
            that Vulkan allows for a division. With the 0.5 of rounding to an integer, the rest is smaller than the
            divisor, though it may be negative.
        iterations: upper bound: all bits of a quotient, and one iteration to leave.
    """

    bits: int
    bias: int
    step: int
    iterations: int


_FORMATS = {32: _Format(24, 127, 19, 16), 64: _Format(53, 1023, 48, 45)}


def is_float_remainder(op: Op) -> bool:
    """True for the remainder of floats, which has the sign of the dividend."""
    return op.code == "rem" and element_of(op.args[0].type).kind == "f"


def iterations_of(op: Op) -> int:
    """An upper bound of the loop iterations that computing an operation takes; 0 for all but remainders of floats."""
    if not is_float_remainder(op):
        return 0
    n = op.type.n if isinstance(op.type, Vector) else 1
    return n * _FORMATS[max(element_of(op.type).bits, 32)].iterations


def expand_float_remainders(function: Function) -> Function:
    """A function with integer operations in place of remainders of floats; the function itself if it has none.

    Every device computes integers exactly, subnormal dividends and divisors included.
    """
    if not any(map(is_float_remainder, walk(function.body))):
        return function
    built = function.empty_copy()
    builder, env = _Expanding(built), dict[Value, Value]()
    for op in function.body.ops:
        builder.copy(op, env)
    return built


class _Expanding(Builder):
    """Copies operations, and expands remainders."""

    def copy(self, op: Op, env: dict[Value, Value]) -> None:
        """Appends a copy, as `Builder.copy`."""
        if not is_float_remainder(op):
            super().copy(op, env)
            return
        with self.at(op.loc):
            env[op] = _remainder(self, *[env.get(value, value) for value in op.args])


def _remainder(b: Builder, x: Value, y: Value) -> Value:
    kind: Type = x.type
    if isinstance(kind, Vector):
        return b.vector(*[_remainder(b, b.extract(x, n), b.extract(y, n)) for n in range(kind.n)])
    if kind is FLOAT16:
        return b.cast(_remainder(b, b.cast(x, FLOAT32), b.cast(y, FLOAT32)), FLOAT16)
    return _Remainder(b, x, y).value


class _Remainder:
    """One remainder.

    A float is an integer, its significand, times a power of two. So the dividend's significand, times two to the
    difference of the exponents, is divided by the divisor's, some quotient bits at a time. Products are computed modulo
    2**32 (2**64), which holds the rest of the dividend however large they are.
    """

    def __init__(self, b: Builder, x: Value, y: Value) -> None:
        self._b, self._float, self._format = b, x.type, _FORMATS[element_of(x.type).bits]
        width = element_of(x.type).bits
        self._int, self._uint = SCALARS[f"int{width}"], SCALARS[f"uint{width}"]
        self._fraction = self._format.bits - 1
        self._inf = self._number((2 * self._format.bias + 1) << self._fraction)
        bits, below_sign = b.bitcast(x, self._int), self._number((1 << width - 1) - 1)
        one, other = b.compute("and", bits, below_sign), b.compute("and", b.bitcast(y, self._int), below_sign)
        (dividend, high), (divisor, low) = self._decomposed(one), self._decomposed(other)
        zero, undefined = self._number(0), self._undefined(one, other)
        exponent = b.select(undefined, zero, b.compute("max", b.compute("sub", high, low), zero))
        remainder = self._composed(self._divided(dividend, divisor, exponent), low)
        remainder = b.compute("or", remainder, b.compute("xor", bits, one))
        remainder = b.select(b.compute("lt", one, other), bits, remainder)
        nan = b.compute("add", self._inf, self._number(1 << self._fraction - 1))
        self.value = b.bitcast(b.select(undefined, nan, remainder), self._float)

    def _number(self, value: int) -> Value:
        return self._b.const(value, self._int)

    def _decomposed(self, bits: Value) -> tuple[Value, Value]:
        """The significand with its leading one, and the biased exponent, which is below 1 for subnormals."""
        b, one = self._b, self._number(1 << self._fraction)
        least = self._format.bias + self._fraction - 1  # the negated exponent of the least subnormal
        scaled = b.compute("sub", self._bits_of(bits), self._number(least << self._fraction))
        bits = b.select(b.compute("lt", bits, one), scaled, bits)
        fraction = b.compute("and", bits, self._number((1 << self._fraction) - 1))
        return b.compute("or", fraction, one), b.compute("shr", bits, self._number(self._fraction))

    def _bits_of(self, whole: Value) -> Value:
        """The bits of the float that equals an integer."""
        return self._b.bitcast(self._b.cast(whole, self._float), self._int)

    def _divided(self, dividend: Value, divisor: Value, exponent: Value) -> Value:
        """The remainder of dividend * 2**exponent by the divisor."""
        b, by = self._b, self._b.cast(divisor, self._float)
        loop = b.loop(exponent, dividend)
        with loop.body:
            before, dividend = loop.params
            step = b.compute("min", before, self._number(self._format.step))
            biased = b.compute("add", step, self._number(self._format.bias))
            power = b.compute("shl", biased, self._number(self._fraction))
            scaled = b.compute("mul", b.cast(dividend, self._float), b.bitcast(power, self._float))
            nearly = b.compute("add", b.compute("div", scaled, by), b.const(0.5, element_of(self._float)))
            product = b.compute("mul", b.cast(nearly, self._int), divisor)
            rest = b.compute("sub", b.compute("shl", dividend, step), product)
            rest = b.select(b.compute("lt", rest, self._number(0)), b.compute("add", rest, divisor), rest)
            left = b.compute("sub", before, step)
            with b.if_(b.compute("le", left, self._number(0))).then:
                b.break_(loop, rest)
            b.yield_(left, rest)
        return loop.results[0]

    def _composed(self, whole: Value, exponent: Value) -> Value:
        """The bits of the float whole * 2**(exponent - bias - fraction)."""
        b, one = self._b, self._number(1)
        normal = b.compute("max", exponent, one)
        whole = b.compute("shr", whole, b.compute("sub", normal, exponent))
        near = b.compute("min", normal, self._number(self._format.bits))
        is_small = b.compute("lt", whole, b.compute("shr", self._number(1 << self._format.bits), near))
        shift = b.compute("sub", normal, self._number(self._format.bias + self._fraction))
        large = b.compute("add", self._bits_of(whole), b.compute("shl", shift, self._number(self._fraction)))
        return b.select(is_small, b.compute("shl", whole, b.compute("sub", near, one)), large)

    def _undefined(self, one: Value, other: Value) -> Value:
        """True for an infinite or NaN dividend, and for a zero or NaN divisor; takes the bits without signs."""
        b = self._b
        divisor = b.bitcast(b.compute("sub", other, self._number(1)), self._uint)
        wrong = b.compute("ge", divisor, b.bitcast(self._inf, self._uint))
        return b.compute("or", b.compute("ge", one, self._inf), wrong)
