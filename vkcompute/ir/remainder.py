"""The remainder of floats, exact: that of devices is x - y * trunc(x / y), whose quotient has been rounded."""

from __future__ import annotations

from typing import NamedTuple

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Value, walk
from vkcompute.ir.types import FLOAT16, FLOAT32, SCALARS, Type, Vector, element_of


class _Form(NamedTuple):
    """How a float is made, and how it is divided.

    Attributes:
        bits: of its significand, the leading one included.
        bias: of its exponent.
        step: bits of the quotient that a pass finds. Then a quotient's estimate is wrong by less than 0.4, even if the
            device's division is by 2.5 units in the last place, as it may be; with the 0.5 of rounding to a whole
            number, what is left is smaller than the divisor, though it may be negative.
        passes: through the loop, at most; all bits of a quotient, and one for the way out.
    """

    bits: int
    bias: int
    step: int
    passes: int


_FORMS = {32: _Form(24, 127, 19, 16), 64: _Form(53, 1023, 48, 45)}


def is_remainder(op: Op) -> bool:
    """Whether it is the remainder of floats, which keeps the sign of the dividend."""
    return op.code == "rem" and element_of(op.args[0].type).kind == "f"


def passes_of(op: Op) -> int:
    """How often the loop of a remainder passes through its body, at most; 0 for other operations."""
    if not is_remainder(op):
        return 0
    n = op.type.n if isinstance(op.type, Vector) else 1
    return n * _FORMS[max(element_of(op.type).bits, 32)].passes


def without_remainders(function: Function) -> Function:
    """A function that does the same, with what computes them in place of remainders of floats; itself if it has none.

    They are computed in integers, which every device does right: subnormal numbers, too, are found by those that take
    such floats for zero.
    """
    if not any(map(is_remainder, walk(function.body))):
        return function
    built = Function(function.name, function.local_size)
    built.buffers, built.pushes, built.shared_memory = function.buffers, function.pushes, function.shared_memory
    builder, env = _Expanding(built), dict[Value, Value]()
    for op in function.body.ops:
        builder.copy(op, env)
    return built


class _Expanding(Builder):
    """Copies what has remainders."""

    def copy(self, op: Op, env: dict[Value, Value]) -> None:
        """Appends a copy, as `Builder.copy`."""
        if not is_remainder(op):
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
    """A remainder that is being built.

    A float is a whole number, the significand, times a power of two; so the dividend's significand, times two to the
    difference of the exponents, is divided by the divisor's, some bits of the quotient at a time. Products are computed
    modulo 2**32 (2**64), within which what they leave of the dividend lies, however large they are.
    """

    def __init__(self, b: Builder, x: Value, y: Value) -> None:
        self._b, self._float, self._form = b, x.type, _FORMS[element_of(x.type).bits]
        width = element_of(x.type).bits
        self._int, self._uint = SCALARS[f"int{width}"], SCALARS[f"uint{width}"]
        self._fraction = self._form.bits - 1
        self._inf = self._number((2 * self._form.bias + 1) << self._fraction)
        bits, below_sign = b.bitcast(x, self._int), self._number((1 << width - 1) - 1)
        one, other = b.binary("and", bits, below_sign), b.binary("and", b.bitcast(y, self._int), below_sign)
        (dividend, high), (divisor, low) = self._parts(one), self._parts(other)
        zero, undefined = self._number(0), self._undefined(one, other)
        exponent = b.select(undefined, zero, b.binary("max", b.binary("sub", high, low), zero))
        found = self._joined(self._divided(dividend, divisor, exponent), low)
        found = b.binary("or", found, b.binary("xor", bits, one))
        found = b.select(b.binary("lt", one, other), bits, found)
        nan = b.binary("add", self._inf, self._number(1 << self._fraction - 1))
        self.value = b.bitcast(b.select(undefined, nan, found), self._float)

    def _number(self, value: int) -> Value:
        return self._b.const(value, self._int)

    def _parts(self, bits: Value) -> tuple[Value, Value]:
        """The significand, with its leading one, and the biased exponent; that of subnormal numbers is below 1."""
        b, one = self._b, self._number(1 << self._fraction)
        least = self._form.bias + self._fraction - 1  # the exponent of the least subnormal number, negated
        scaled = b.binary("sub", self._bits_of(bits), self._number(least << self._fraction))
        bits = b.select(b.binary("lt", bits, one), scaled, bits)
        fraction = b.binary("and", bits, self._number((1 << self._fraction) - 1))
        return b.binary("or", fraction, one), b.binary("shr", bits, self._number(self._fraction))

    def _bits_of(self, whole: Value) -> Value:
        """The bits of a whole number's float."""
        return self._b.bitcast(self._b.cast(whole, self._float), self._int)

    def _divided(self, dividend: Value, divisor: Value, exponent: Value) -> Value:
        """The remainder of dividend * 2**exponent."""
        b, by = self._b, self._b.cast(divisor, self._float)
        loop = b.loop(exponent, dividend)
        with loop.body:
            before, dividend = loop.params
            step = b.binary("min", before, self._number(self._form.step))
            power = b.binary("shl", b.binary("add", step, self._number(self._form.bias)), self._number(self._fraction))
            scaled = b.binary("mul", b.cast(dividend, self._float), b.bitcast(power, self._float))
            nearly = b.binary("add", b.binary("div", scaled, by), b.const(0.5, element_of(self._float)))
            rest = b.binary("sub", b.binary("shl", dividend, step), b.binary("mul", b.cast(nearly, self._int), divisor))
            rest = b.select(b.binary("lt", rest, self._number(0)), b.binary("add", rest, divisor), rest)
            left = b.binary("sub", before, step)
            with b.if_(b.binary("le", left, self._number(0))).then:
                b.break_(loop, rest)
            b.yield_(left, rest)
        return loop.results[0]

    def _joined(self, whole: Value, exponent: Value) -> Value:
        """The bits of the float that is this number times 2**(exponent - bias - fraction)."""
        b, one = self._b, self._number(1)
        normal = b.binary("max", exponent, one)
        whole = b.binary("shr", whole, b.binary("sub", normal, exponent))
        near = b.binary("min", normal, self._number(self._form.bits))
        is_small = b.binary("lt", whole, b.binary("shr", self._number(1 << self._form.bits), near))
        shift = b.binary("sub", normal, self._number(self._form.bias + self._fraction))
        large = b.binary("add", self._bits_of(whole), b.binary("shl", shift, self._number(self._fraction)))
        return b.select(is_small, b.binary("shl", whole, b.binary("sub", near, one)), large)

    def _undefined(self, one: Value, other: Value) -> Value:
        """Whether a dividend is infinite or nan, or a divisor 0 or nan; of both, the bits without their signs."""
        b = self._b
        divisor = b.bitcast(b.binary("sub", other, self._number(1)), self._uint)
        wrong = b.binary("ge", divisor, b.bitcast(self._inf, self._uint))
        return b.binary("or", b.binary("ge", one, self._inf), wrong)
