"""Python's operators on values. Constants are folded; the rest becomes operations."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from enum import Enum
from functools import partial, reduce
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from vkcompute.compiled.captured import PLAIN
from vkcompute.frontend.control_flow import ControlFlow, Location
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT32, INT32, SCALARS, UINT64, Constant, Value
from vkcompute.ir.types import element_of
from vkcompute.jit.frontend import complex_values
from vkcompute.jit.frontend.number_conversion import NumberConversion
from vkcompute.jit.frontend.tuples import compared_in_order, contains
from vkcompute.jit.frontend.type_rules import (
    kind_of,
)
from vkcompute.jit.frontend.values import (
    ArrayValue,
    Complex,
    Kind,
    Number,
    Row,
    Vector,
    describe,
    fits,
    is_complex,
    is_python,
    is_static,
    like,
    unpacked,
)
from vkcompute.operations import FUNCTIONS, Emitter, division, loops

_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_OPERATORS = {row.sign: row for row in FUNCTIONS.values() if row.sign and row.arity == 2}
_BITS = "&", "|", "^"
_OF_BOOLS = {"+": "|", "*": "&"}
"""Operators that are logical for two bools, as in numpy, which has no others for them."""
COMPARISONS = {sign: row.code for sign, row in _OPERATORS.items() if row.types == "comparison"}
"""Sign of a comparison -> operation."""
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Sign of a comparison -> that with the operands exchanged."""
_DIVISIONS = {"//": division.quotient, "%": division.remainder}
_MEANT = {
    "^": "write x ** y for a power, or ",
    "&": "write 'and' between conditions, or ",
    "|": "write 'or' between conditions, or ",
}
_MOST_SELECTED = 4096  # lavapipe and SwiftShader compile it in 1 to 3 s; their time grows faster than the number
_CONSTANTS = *PLAIN, Enum, type, np.dtype, np.ufunc, FunctionType, BuiltinFunctionType, ModuleType
"""Types of objects from outside whose truth and equality never change."""
_MOST_FACTORS = 64  # powers of integers with a constant exponent up to this become products
_MOST_FLOAT_FACTORS = 3  # of floats: each product is rounded, and the result is to be within 2 ulp


class Arithmetic:
    """Operators of numbers, vectors and tuples.

    Args:
        numbers: convert operands. Their host is the language whose operators compute with parts of operands.
        flow: builds branches.
        call: inlines a function of this package that is written in the kernel language.
        loaded: loads a row of elements, given their number.
    """

    def __init__(
        self,
        numbers: NumberConversion,
        flow: ControlFlow,
        call: Callable[..., Any],
        loaded: Callable[[Row, int], Vector],
    ) -> None:
        self._numbers, self._flow, self._call, self._loaded = numbers, flow, call, loaded
        self._builder, self._rules, self._host = numbers.builder, numbers.rules, numbers.host

    def accumulated(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other`, for `one sign= other`; a Python int does not become an integer of 8 or 16 bits."""
        return self._host.binary(sign, one, self._numbers.widened(other) if type(one) is int else other)

    def truth(self, value: Any) -> Value | bool:
        """Returns the truth of a value: a device value, or a constant."""
        if isinstance(value, Number):
            truth = self._builder.cast(value.value, BOOL)
            return bool(truth.value) if isinstance(truth, Constant) else truth
        if isinstance(value, Complex):
            return complex_values.truth(self._numbers, value)
        if isinstance(value, (ArrayValue, Vector, np.ndarray)):
            remedy = "write any(v) or all(v)" if isinstance(value, Vector) else "compare an element of it"
            raise UnsupportedError(f"{describe(value)} has no truth value; {remedy}")
        _require_constants(value)
        return bool(value)

    def boolean(self, value: Any) -> Number | bool:
        """Converts a value to a bool."""
        truth = self._host.truth(value)
        return truth if isinstance(truth, bool) else Number(truth, Kind(BOOL))

    def elementwise(self, work: Callable[..., Any], *values: Any) -> Vector:
        """Applies a function of numbers to each element of vectors and rows; other values are repeated."""
        vectors = [value for value in values if isinstance(value, Vector)]
        n = len(vectors[0])
        given = [self._loaded(value, n) if isinstance(value, Row) else value for value in values]
        vectors = [value for value in given if isinstance(value, Vector)]
        if len({len(vector) for vector in vectors}) > 1:
            got = " and ".join(map(describe, vectors))
            raise UnsupportedError(f"operands are vectors of one length; got {got}; take parts, as v.xy")
        rows = [value if isinstance(value, Vector) else (value,) * n for value in given]
        return Vector([work(*row) for row in zip(*rows, strict=True)])

    def computed(self, value: Any) -> Any:
        """Returns a value as one that the kernel computes: an int has the type that both sides of a branch have.

        `1 if u >= 0 else -1` has it as well if u is unsigned, and the condition is known.
        """
        kind = kind_of(value, self._rules)
        return unpacked(kind, iter(self._numbers.packed(value, kind)))

    def where(self, condition: Any, one: Any, other: Any) -> Any:
        """Selects one of two values that have both been computed."""
        truth = self._host.truth(condition)
        if isinstance(truth, bool):
            chosen = one if truth else other
            return self.computed(chosen) if isinstance(condition, Number) else chosen
        kind = self._host.joined(kind_of(one, self._rules), kind_of(other, self._rules))
        pairs = zip(self._numbers.packed(one, kind), self._numbers.packed(other, kind), strict=True)
        return unpacked(kind, iter([self._builder.select(truth, x, y) for x, y in pairs]))

    def known(self, condition: Any, value: Any) -> Any:
        """Returns the side of a conditional expression that a condition known at compile time takes."""
        return self.computed(value) if isinstance(condition, Number) else value

    def selected(self, truth: Value, one: Any, other: Any) -> Any:
        """Selects one of two values that have both been computed."""
        return self.where(Number(truth, Kind(BOOL)), one, other)

    def connected(self, is_and: bool, first: Any, second: Callable[[], Any], where: Location, *, is_cheap: bool) -> Any:
        """Builds `first and second()` or `first or second()`; a second one that is not cheap is in a branch."""
        truth = self._host.truth(first)
        if isinstance(truth, bool):
            return self.known(first, second() if truth == is_and else first)
        if not is_cheap:
            sides = (second, lambda: first) if is_and else (lambda: first, second)
            return self._flow.choose(truth, *sides, where)
        other = second()
        if kind_of(first, self._rules) == kind_of(other, self._rules) == Kind(BOOL):
            return self._host.binary("&" if is_and else "|", first, other)
        return self.where(first, *((other, first) if is_and else (first, other)))

    def element(self, values: tuple[Any, ...], index: Any) -> Any:
        """Returns an element of a tuple or vector.

        A device value as index selects among numbers, or among tuples of the same type and length.
        """
        if isinstance(index, Number) and _are_rows(values):
            return like(values[0], [self._host.element(column, index) for column in zip(*values, strict=True)])
        if isinstance(index, Number) and values and self.has_numbers(values):
            return self._selected(values, self._numbers.index(index))
        if type(index) is not int or not -len(values) <= index < len(values):
            got = index if type(index) is int else describe(index)
            what = describe(values) if isinstance(values, Vector) else f"a tuple of {len(values)}"
            raise UnsupportedError(f"{what} is indexed by a constant in range; got {got}")
        return values[index]

    def has_numbers(self, values: tuple[Any, ...]) -> bool:
        """True if all items are numbers, or tuples of one type and length with such items."""
        if _are_rows(values):
            return all(map(self.has_numbers, zip(*values, strict=True)))
        return all(isinstance(kind_of(x, self._rules), Kind) for x in values)

    def _selected(self, values: tuple[Any, ...], index: Value) -> Number:
        """Selects an element by the bits of an index, the lowest first; the first one for an index out of range.

        Drivers need about twice the time for a chain of comparisons.
        """
        if len(values) > _MOST_SELECTED:
            raise UnsupportedError(
                f"a tuple that is indexed by a variable has at most {_MOST_SELECTED} elements, as drivers take long to "
                f"compile them; got {len(values)}; pass the elements in an array"
            )
        b, kind = self._builder, SCALARS[f"uint{element_of(index.type).bits}"]
        common, row = self._host.to_common_type(*values)
        position, zero = b.cast(index, kind), b.const(0, kind)
        position = b.select(b.compute("lt", position, b.const(len(values), kind)), position, zero)
        bit = 1
        while len(row) > 1:
            is_set = b.compute("ne", b.compute("and", position, b.const(bit, kind)), zero)
            pairs = zip(row[::2], row[1::2], strict=False)
            row = [*[b.select(is_set, odd, even) for even, odd in pairs], *row[len(row) & ~1 :]]
            bit *= 2
        return Number(row[0], common)

    # -- operators ----------------------------------------------------------------------------------------------------

    def binary(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other`."""
        if sign == "@":
            return self._dot(one, other)
        if isinstance(one, Vector) or isinstance(other, Vector):
            return self.elementwise(partial(self._host.binary, sign), one, other)
        if _is_plain(one) and _is_plain(other):
            return _folded(sign, one, other)
        if (is_complex(one) or is_complex(other)) and all(_is_number(x) for x in (one, other)):
            return complex_values.binary(self._numbers, sign, one, other)
        if isinstance(one, tuple) or isinstance(other, tuple):
            return self._concatenated(sign, one, other)
        if sign == "**":
            return self._power(one, other)
        if sign in ("<<", ">>"):
            other = self._count(one, other)
        kind = self._rules.binary(sign, one, other)
        self._numbers.restrict((one, other))
        if kind.type is BOOL:
            sign = _OF_BOOLS.get(sign, sign)
        if sign in _BITS or sign in ("<<", ">>"):
            self._host.demand_kind("iub" if sign in _BITS else "iu", kind, sign, one, other)
        else:
            self._host.demand_kind("iuf", kind, sign, one, other)
        if sign in ("/", "//", "%") and not isinstance(other, Number) and other == 0:
            whole = sign != "/" and kind.type.kind != "f"
            remedy = "integers have no infinity: change the divisor" if whole else "write math.inf or math.nan"
            raise UnsupportedError(f"division by zero; {remedy}")  # of constants lavapipe makes 0
        f, x, y = Emitter(self._builder), self._host.cast(one, kind.type), self._host.cast(other, kind.type)
        if sign in _DIVISIONS:
            return Number(_DIVISIONS[sign](f, f.operand(x), f.operand(y)).value, kind)
        return Number(f.emit(_OPERATORS[sign], x, y), kind)

    def _count(self, shifted: Any, count: Any) -> Any:
        """Returns the count of a shift. Of uint64, a signed one becomes uint64, too: negative counts are large."""
        of_uint64 = self._numbers.kind(shifted) == Kind(UINT64)
        return (
            self._numbers.converted(count, UINT64)
            if of_uint64 and self._numbers.kind(count).type.kind == "i"
            else count
        )

    def _concatenated(self, sign: str, one: Any, other: Any) -> Any:
        """Returns the sum of two tuples, or a tuple repeated a number of times that is known at compile time."""
        if sign == "+" and isinstance(one, tuple) and isinstance(other, tuple):
            return (*one, *other)
        values, n = (one, other) if isinstance(one, tuple) else (other, one)
        if sign != "*" or not isinstance(n, (int, np.integer)):
            rule = "tuples have + of two tuples, and * of an int known at compile time"
            raise UnsupportedError(f"{rule}; got {describe(one)} {sign} {describe(other)}; write a for loop")
        if len(values) * n > _MOST_SELECTED:
            raise UnsupportedError(f"a tuple has at most {_MOST_SELECTED:,} items; got {len(values) * n:,}; use a list")
        return tuple(values) * int(n)

    def _dot(self, one: Any, other: Any) -> Any:
        rows = [isinstance(operand, Row) for operand in (one, other)]
        if all(rows) or not all(isinstance(operand, (Vector, Row)) for operand in (one, other)):
            got = f"{describe(one)} and {describe(other)}"
            raise UnsupportedError(f"@ takes two vectors; got {got}; multiply and add elements of arrays in loops")
        return reduce(partial(self._host.binary, "+"), self.elementwise(partial(self._host.binary, "*"), one, other))

    def demand_kind(self, allowed: str, kind: Kind, sign: str, *operands: Any) -> None:
        """Raises UnsupportedError unless the type of the operands is of an allowed kind: "b", "i", "u", "f"."""
        if kind.type.kind in allowed:
            return
        got = " and ".join(describe(operand) for operand in operands)
        remedy = (
            "use & | ^ or not, or count with int(x)"
            if kind.type is BOOL
            else _MEANT.get(sign, "") + "convert with int(x)"
        )
        raise UnsupportedError(f"{sign} takes {'numbers' if 'f' in allowed else 'integers'}; got {got}; {remedy}")

    def _power(self, one: Any, other: Any) -> Any:
        kind = self._rules.binary("**", one, other)
        self._numbers.restrict((one, other))
        self._host.demand_kind("iuf", kind, "**", one, other)
        if is_python(other) and kind.type.kind == "f":
            known = self._float_power(one, other, kind)
            if known is not None:
                return known
        elif is_python(other) and abs(other) <= _MOST_FACTORS:
            if other < 0:
                raise UnsupportedError("an integer to a negative power is not an integer; write float(x) ** y")
            return self._product(Number(self._host.cast(one, kind.type), kind), int(other))
        operands = [Number(self._host.cast(operand, kind.type), kind) for operand in (one, other)]
        if kind.type.kind != "f":
            return self._call(loops.integer_power, *operands, self._numbers.converted(1, kind.type))
        return Number(self._builder.compute("pow", *[operand.value for operand in operands]), kind)

    def _float_power(self, one: Any, exponent: Any, kind: Kind) -> Number | None:
        """Returns a power of a float with few roundings, of float16 in float32; None for other exponents."""
        x = self._host.cast(one, kind.type)
        if exponent == 0.5:
            return Number(self._builder.compute("sqrt", x), kind)
        if exponent == -1:
            return Number(self._builder.compute("div", self._builder.const(1, kind.type), x), kind)
        if exponent % 1 or not 0 <= exponent <= _MOST_FLOAT_FACTORS:
            return None
        wide = FLOAT32 if kind.type.bits < 32 else kind.type
        product = self._product(Number(self._builder.cast(x, wide), Kind(wide)), int(exponent))
        return Number(self._builder.cast(product.value, kind.type), kind)

    def _product(self, x: Number, n: int) -> Number:
        result = Number(self._builder.const(1, x.kind.type), x.kind)
        while n:
            result = self._host.binary("*", result, x) if n & 1 else result
            x, n = self._host.binary("*", x, x) if n > 1 else x, n >> 1
        return result

    def compare(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other`, a bool."""
        if sign in ("is", "is not"):
            if not any(operand is None or isinstance(operand, Enum) for operand in (one, other)):
                raise UnsupportedError(
                    f"{sign} compares with None and enums only; write {'==' if sign == 'is' else '!='}"
                )
            return (one is other) == (sign == "is")
        if sign not in COMPARISONS:
            return contains(self._host, one, other, is_in=sign == "in")
        if isinstance(one, Vector) or isinstance(other, Vector):
            return self.elementwise(partial(self._host.compare, sign), one, other)
        if (isinstance(one, Complex) or isinstance(other, Complex)) and all(_is_number(x) for x in (one, other)):
            return complex_values.binary(self._numbers, sign, one, other)
        if isinstance(one, tuple) and isinstance(other, tuple):
            return compared_in_order(self._host, sign, one, other)
        if (
            is_static(one)
            and is_static(other)
            and not isinstance(one, ArrayValue)
            and not isinstance(other, ArrayValue)
        ):
            _require_constants(one, other)
            return bool(_folded(sign, one, other))
        as_ints = self._out_of_range(one, other)
        if as_ints:
            return Number(self._builder.const(_FOLD[sign](*as_ints), BOOL), Kind(BOOL))
        for value, other_side, turned in ((other, one, sign), (one, other, _TURNED.get(sign, sign))):
            if type(value) is float and self._compares_by_value(other_side, value):
                return self._compared_with_float(turned, other_side, value)
        return Number(self._compared(sign, one, other), Kind(BOOL))

    def _compared(self, sign: str, one: Any, other: Any) -> Value:
        """Compares by value as Python does: -1 is less than every uint, and no operand is narrowed."""
        kinds = [self._numbers.kind(operand) for operand in (one, other)]
        kind, signed = self._rules.compared(one, other), None
        for x, mine, its in ((one, *kinds), (other, *kinds[::-1])):
            if not is_python(x) and (mine.type.kind, its.type.kind) == ("i", "u") and mine.type.bits <= its.type.bits:
                kind, signed = its.type, x
        if kind is BOOL and sign not in ("==", "!="):
            kind = INT32
        result = self._builder.compute(COMPARISONS[sign], self._host.cast(one, kind), self._host.cast(other, kind))
        if signed is None:
            return result
        number = self._host.cast(signed, self._numbers.kind(signed).type)
        below = self._builder.compute("lt", number, self._host.cast(0, self._numbers.kind(signed).type))
        less = _FOLD[sign](-1, 0) if signed is one else _FOLD[sign](0, -1)
        return self._builder.select(below, self._host.cast(less, BOOL), result)

    def _compares_by_value(self, operand: Any, value: float) -> bool:
        """True for an integer that is compared with a Python float exactly: those of 64 bits round from 2**53 on."""
        kind = self._numbers.kind(operand).type
        return kind.kind in "iu" and not (kind.bits == 64 and 2**53 <= abs(value) < math.inf)

    def _compared_with_float(self, sign: str, number: Any, value: float) -> Any:
        """Compares an integer with a Python float by an integer next to it, as float32 might round the integer."""
        is_between = not value.is_integer()  # or NaN, or infinite
        if is_between and sign not in ("==", "!=") and math.isfinite(value):
            sign, value = ("<=", math.floor(value)) if sign.startswith("<") else (">=", math.ceil(value))
        elif is_between or not fits(int(value), self._numbers.kind(number).type):
            return Number(self._builder.const(_FOLD[sign](0, value), BOOL), Kind(BOOL))
        return self._host.compare(sign, number, int(value))

    def _out_of_range(self, one: Any, other: Any) -> tuple[int, int] | None:
        """Returns ints that compare the same, if one operand is a Python int outside of the other's range."""
        for number, typed, flip in ((one, other, False), (other, one, True)):
            kind = self._numbers.kind(typed)
            if type(number) is int and kind.type.kind in "iu" and not kind.weak and not fits(number, kind.type):
                return (0, number) if flip else (number, 0)
        return None

    def unary(self, sign: str, value: Any) -> Any:
        """Returns `sign value`, for + - ~ and not."""
        if sign == "not":
            truth = self._host.truth(value)
            return not truth if isinstance(truth, bool) else Number(self._builder.compute("not", truth), Kind(BOOL))
        if isinstance(value, Vector):
            return self.elementwise(partial(self._host.unary, sign), value)
        if isinstance(value, complex) and not isinstance(value, np.generic) and sign in "+-":
            return -value if sign == "-" else value
        if is_complex(value):
            return complex_values.unary(self._numbers, sign, value)
        self._numbers.kind(value)
        if is_python(value) and not (sign == "~" and isinstance(value, float)):
            return -value if sign == "-" else ~int(value) if sign == "~" else +value
        kind = self._rules.unary(sign, value)
        self._host.demand_kind("iub" if sign == "~" else "iuf", kind, sign, value)
        if sign == "+" and kind.type is self._numbers.kind(value).type:
            return value
        x = self._host.cast(value, kind.type)
        if sign == "+":
            return Number(x, kind)
        if sign == "-" and kind.type.kind == "u":
            return Number(self._builder.compute("sub", self._builder.const(0, kind.type), x), kind)
        return Number(self._builder.compute("not" if sign == "~" else "neg", x), kind)


def _require_constants(*values: Any) -> None:
    """Raises UnsupportedError for objects that may change without being replaced: such a change is not noticed."""
    for value in values:
        if isinstance(value, tuple):
            _require_constants(*value)
        elif not isinstance(value, _CONSTANTS):
            raise UnsupportedError(
                f"{describe(value)} may change, and kernels are compiled for constants; use a number, a string or a "
                "tuple of it"
            )


def _are_rows(values: tuple[Any, ...]) -> bool:
    """True if all values are tuples of one type and length."""
    return all(isinstance(one, tuple) for one in values) and len({(type(one), len(one)) for one in values}) == 1


def _is_plain(value: Any) -> bool:
    """True for a number of Python, complex ones included."""
    return is_python(value) or (isinstance(value, complex) and not isinstance(value, np.generic))


def _is_number(value: Any) -> bool:
    """True for a number of the kernel, and for a constant number."""
    return isinstance(value, (Number, bool, int, float, np.generic)) or is_complex(value)


def _folded(sign: str, one: Any, other: Any) -> Any:
    if type(one) is type(other) is int and one and sign in ("**", "<<"):  # estimate the size before computing it
        n_bits = one.bit_length() + other if sign == "<<" else (one.bit_length() - 1) * other + 1
        if n_bits > 64:
            raise UnsupportedError(f"the result of this {sign} exceeds 64 bits")
    if sign in ("<<", ">>") and other < 0:
        raise UnsupportedError(f"{sign} takes a non-negative number of bits; got {other}")
    try:
        result = _FOLD[sign](one, other)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise UnsupportedError(str(error)) from None
    if isinstance(result, complex) and not any(isinstance(x, complex) for x in (one, other)):
        raise UnsupportedError(f"{one} ** {other} is complex; write complex({one}) for a complex result")
    return result
