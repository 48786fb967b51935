"""Python's operators on values. Constants are folded; the rest becomes operations."""

from __future__ import annotations

import ast
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial, reduce
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from vkcompute import ir
from vkcompute.compiled.captured import PLAIN, same
from vkcompute.frontend.control_flow import Location
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT32, INT32, SCALARS, UINT64, Constant, Scalar, Value
from vkcompute.ir.types import element_of
from vkcompute.jit.frontend import complex_values
from vkcompute.jit.frontend.context import Context
from vkcompute.jit.frontend.tuples import Operators, compared_in_order, contains
from vkcompute.jit.frontend.type_rules import (
    TypeRules,
    is_typed_integer,
    joined,
    kind_of,
    number_kind,
    started,
    stored,
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
    includes,
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


class Arithmetic(Context, ABC):
    """Types and operators of numbers and vectors.

    Attributes:
        host: the language whose operators compute with parts of operands: this one, or one that uses it.
        rules: type numbers.
        limits: (index of a push constant, dtype) for each int argument that takes a narrower type, which it must fit.
    """

    def __init__(
        self, function: ir.Function, evaluator: Evaluator, rules: TypeRules, host: Operators | None = None
    ) -> None:
        super().__init__(function, evaluator)
        self.host: Operators = host or self
        self.rules = rules
        self.limits: set[tuple[int, str]] = set()

    @abstractmethod
    def loaded(self, row: Row, n: int) -> Vector:
        """Loads a row of `n` elements."""

    @abstractmethod
    def inline(self, function: FunctionType, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """Builds the body of a function in the place of a call, and returns its value."""

    def call(self, function: Any, *args: Any) -> Any:
        """Inlines a function of this package that is written in the kernel language."""
        return self.inline(function, list(args), {}, self.evaluator.node)

    # -- kinds of variables -------------------------------------------------------------------------------------------

    def kind_of_variable(self, value: Any) -> Any:
        """Returns the type of a variable with this value."""
        return stored(kind_of(value, self.rules), self.rules)

    def kind_at_loop(self, kind: Any) -> Any:
        """Returns the type of a variable that has this one before a loop that assigns to it."""
        return started(kind, self.rules)

    def joined(self, one: Any, other: Any) -> Any:
        """Returns the type of a variable that has either type, depending on the path taken."""
        return joined(one, other, self.rules)

    def packed(self, value: Any, kind: Any) -> list[Value]:
        """Returns the device values of a value of this type; constants have none."""
        if isinstance(kind, Kind):
            return [self.host.cast(value, kind.type)]
        if isinstance(kind, Complex):
            value = complex_values.parts_of(value)
        return (
            [x for v, k in zip(value, kind, strict=True) for x in self.packed(v, k)] if isinstance(kind, tuple) else []
        )

    def unpacked(self, kind: Any, values: Iterator[Value]) -> Any:
        """Returns a value of this type, made of the next device values."""
        return unpacked(kind, values)

    def filler(self, kind: Any) -> list[Value]:
        """Returns zeros."""
        if isinstance(kind, Kind):
            return self.packed(0, kind)
        return [value for part in kind for value in self.filler(part)] if isinstance(kind, tuple) else []

    def is_same(self, one: Any, other: Any) -> bool:
        """True if both values are one constant."""
        return is_static(one) and same(one, other)

    def state(self) -> set[tuple[int, str]]:
        """Returns the limits of arguments, so far."""
        return {*self.limits}

    def restore(self, state: set[tuple[int, str]]) -> None:
        """Forgets the limits of arguments that were noted since `state`."""
        self.limits = {*state}

    # -- numbers ------------------------------------------------------------------------------------------------------

    def kind(self, value: Any) -> Kind:
        """Returns the type of a number."""
        return number_kind(value, self.rules)

    def cast(self, value: Any, target: Scalar) -> Value:
        """Converts a number as numpy's astype does; a Python int by the rules of the language."""
        if isinstance(value, Number):
            return self.builder.cast(value.value, target)
        self.kind(value)
        if is_python(value) and not isinstance(value, float) and target.kind in "iu":
            value = self.rules.fitted(value, target)
        return self.builder.const(value, target)

    def converted(self, value: Any, target: Scalar) -> Number:
        """Converts a number, and returns it with its type."""
        return Number(self.host.cast(value, target), Kind(target))

    def common_type(self, *values: Any) -> Kind:
        """Returns the common type of operands, which restricts int arguments."""
        self._restrict(values)
        return self.rules.common(*values)

    def _restrict(self, operands: Sequence[Any]) -> None:
        """Notes the int arguments that take a narrower type of other operands."""
        arguments = [x.kind for x in operands if isinstance(x, Number) and x.kind.argument is not None]
        if arguments and any(is_typed_integer(self.kind(x)) for x in operands):
            common = self.rules.common(*operands).type
            narrowed = [kind for kind in arguments if common.kind != "f" and not includes(common, kind.type)]
            self.limits |= {(kind.argument, common.name) for kind in narrowed if kind.argument is not None}

    def to_common_type(self, *values: Any) -> tuple[Kind, list[Value]]:
        """Converts numbers to their common type."""
        kind = self.host.common_type(*values)
        return kind, [self.host.cast(value, kind.type) for value in values]

    def accumulated(self, sign: str, one: Any, other: Any) -> Any:
        """Returns `one sign other`, for `one sign= other`; a Python int does not become an integer of 8 or 16 bits."""
        return self.host.binary(sign, one, self.widened(other) if type(one) is int else other)

    def widened(self, value: Any) -> Any:
        """Converts integers narrower than `int(x)` to its type; returns other values unchanged."""
        kind = kind_of(value, self.rules)
        narrow = isinstance(kind, Kind) and kind.type.kind in "iu" and kind.type.bits < self.rules.integer.bits
        return self.converted(value, self.rules.integer) if narrow else value

    def truth(self, value: Any) -> Value | bool:
        """Returns the truth of a value: a device value, or a constant."""
        if isinstance(value, Number):
            truth = self.builder.cast(value.value, BOOL)
            return bool(truth.value) if isinstance(truth, Constant) else truth
        if isinstance(value, Complex):
            return complex_values.truth(self, value)
        if isinstance(value, (ArrayValue, Vector, np.ndarray)):
            remedy = "write any(v) or all(v)" if isinstance(value, Vector) else "compare an element of it"
            raise UnsupportedError(f"{describe(value)} has no truth value; {remedy}")
        _require_constants(value)
        return bool(value)

    def boolean(self, value: Any) -> Number | bool:
        """Converts a value to a bool."""
        truth = self.host.truth(value)
        return truth if isinstance(truth, bool) else Number(truth, Kind(BOOL))

    def each(self, work: Callable[..., Any], *values: Any) -> Vector:
        """Applies a function of numbers to each element of vectors and rows; other values are repeated."""
        vectors = [value for value in values if isinstance(value, Vector)]
        n = len(vectors[0])
        given = [self.loaded(value, n) if isinstance(value, Row) else value for value in values]
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
        kind = kind_of(value, self.rules)
        return unpacked(kind, iter(self.packed(value, kind)))

    def where(self, condition: Any, one: Any, other: Any) -> Any:
        """Selects one of two values that have both been computed."""
        truth = self.host.truth(condition)
        if isinstance(truth, bool):
            chosen = one if truth else other
            return self.computed(chosen) if isinstance(condition, Number) else chosen
        kind = self.host.joined(kind_of(one, self.rules), kind_of(other, self.rules))
        pairs = zip(self.packed(one, kind), self.packed(other, kind), strict=True)
        return unpacked(kind, iter([self.builder.select(truth, x, y) for x, y in pairs]))

    def known(self, condition: Any, value: Any) -> Any:
        """Returns the side of a conditional expression that a condition known at compile time takes."""
        return self.computed(value) if isinstance(condition, Number) else value

    def selected(self, truth: Value, one: Any, other: Any) -> Any:
        """Selects one of two values that have both been computed."""
        return self.where(Number(truth, Kind(BOOL)), one, other)

    def connected(self, is_and: bool, first: Any, second: Callable[[], Any], where: Location, *, is_cheap: bool) -> Any:
        """Builds `first and second()` or `first or second()`; a second one that is not cheap is in a branch."""
        truth = self.host.truth(first)
        if isinstance(truth, bool):
            return self.known(first, second() if truth == is_and else first)
        if not is_cheap:
            sides = (second, lambda: first) if is_and else (lambda: first, second)
            return self.evaluator.flow.choose(truth, *sides, where)
        other = second()
        if kind_of(first, self.rules) == kind_of(other, self.rules) == Kind(BOOL):
            return self.host.binary("&" if is_and else "|", first, other)
        return self.where(first, *((other, first) if is_and else (first, other)))

    def element(self, values: tuple[Any, ...], index: Any) -> Any:
        """Returns an element of a tuple or vector.

        A device value as index selects among numbers, or among tuples of the same type and length.
        """
        if isinstance(index, Number) and _are_rows(values):
            return like(values[0], [self.host.element(column, index) for column in zip(*values, strict=True)])
        if isinstance(index, Number) and values and all(isinstance(kind_of(x, self.rules), Kind) for x in values):
            return self._selected(values, self.index(index))
        if type(index) is not int or not -len(values) <= index < len(values):
            got = index if type(index) is int else describe(index)
            what = describe(values) if isinstance(values, Vector) else f"a tuple of {len(values)}"
            raise UnsupportedError(f"{what} is indexed by a constant in range; got {got}")
        return values[index]

    def _selected(self, values: tuple[Any, ...], index: Value) -> Number:
        """Selects an element by the bits of an index, the lowest first; the first one for an index out of range.

        Drivers need about twice the time for a chain of comparisons.
        """
        if len(values) > _MOST_SELECTED:
            raise UnsupportedError(
                f"a tuple that is indexed by a variable has at most {_MOST_SELECTED} elements, as drivers take long to "
                f"compile them; got {len(values)}; pass the elements in an array"
            )
        b, kind = self.builder, SCALARS[f"uint{element_of(index.type).bits}"]
        common, row = self.host.to_common_type(*values)
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
            return self.each(partial(self.host.binary, sign), one, other)
        if _is_plain(one) and _is_plain(other):
            return _folded(sign, one, other)
        if (is_complex(one) or is_complex(other)) and all(_is_number(x) for x in (one, other)):
            return complex_values.binary(self, sign, one, other)
        if isinstance(one, tuple) or isinstance(other, tuple):
            return self._concatenated(sign, one, other)
        if sign == "**":
            return self._power(one, other)
        if sign in ("<<", ">>") and self.kind(one) == Kind(UINT64) and self.kind(other).type.kind == "i":
            other = self.converted(
                other, UINT64
            )  # which has no common type with signed ones; negative counts are large
        kind = self.rules.binary(sign, one, other)
        self._restrict((one, other))
        if kind.type is BOOL:
            sign = _OF_BOOLS.get(sign, sign)
        if sign in _BITS or sign in ("<<", ">>"):
            self.host.demand_kind("iub" if sign in _BITS else "iu", kind, sign, one, other)
        else:
            self.host.demand_kind("iuf", kind, sign, one, other)
        if sign in ("/", "//", "%") and not isinstance(other, Number) and other == 0:
            whole = sign != "/" and kind.type.kind != "f"
            remedy = "integers have no infinity: change the divisor" if whole else "write math.inf or math.nan"
            raise UnsupportedError(f"division by zero; {remedy}")  # of constants lavapipe makes 0
        f, x, y = Emitter(self.builder), self.host.cast(one, kind.type), self.host.cast(other, kind.type)
        if sign in _DIVISIONS:
            return Number(_DIVISIONS[sign](f, f.operand(x), f.operand(y)).value, kind)
        return Number(f.emit(_OPERATORS[sign], x, y), kind)

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
        return reduce(partial(self.host.binary, "+"), self.each(partial(self.host.binary, "*"), one, other))

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
        kind = self.rules.binary("**", one, other)
        self._restrict((one, other))
        self.host.demand_kind("iuf", kind, "**", one, other)
        if is_python(other) and kind.type.kind == "f":
            known = self._float_power(one, other, kind)
            if known is not None:
                return known
        elif is_python(other) and abs(other) <= _MOST_FACTORS:
            if other < 0:
                raise UnsupportedError("an integer to a negative power is not an integer; write float(x) ** y")
            return self._product(Number(self.host.cast(one, kind.type), kind), int(other))
        operands = [Number(self.host.cast(operand, kind.type), kind) for operand in (one, other)]
        if kind.type.kind != "f":
            return self.call(loops.integer_power, *operands, self.converted(1, kind.type))
        return Number(self.builder.compute("pow", *[operand.value for operand in operands]), kind)

    def _float_power(self, one: Any, exponent: Any, kind: Kind) -> Number | None:
        """Returns a power of a float with few roundings, of float16 in float32; None for other exponents."""
        x = self.host.cast(one, kind.type)
        if exponent == 0.5:
            return Number(self.builder.compute("sqrt", x), kind)
        if exponent == -1:
            return Number(self.builder.compute("div", self.builder.const(1, kind.type), x), kind)
        if exponent % 1 or not 0 <= exponent <= _MOST_FLOAT_FACTORS:
            return None
        wide = FLOAT32 if kind.type.bits < 32 else kind.type
        product = self._product(Number(self.builder.cast(x, wide), Kind(wide)), int(exponent))
        return Number(self.builder.cast(product.value, kind.type), kind)

    def _product(self, x: Number, n: int) -> Number:
        result = Number(self.builder.const(1, x.kind.type), x.kind)
        while n:
            result = self.host.binary("*", result, x) if n & 1 else result
            x, n = self.host.binary("*", x, x) if n > 1 else x, n >> 1
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
            return contains(self.host, one, other, is_in=sign == "in")
        if isinstance(one, Vector) or isinstance(other, Vector):
            return self.each(partial(self.host.compare, sign), one, other)
        if (isinstance(one, Complex) or isinstance(other, Complex)) and all(_is_number(x) for x in (one, other)):
            return complex_values.binary(self, sign, one, other)
        if isinstance(one, tuple) and isinstance(other, tuple):
            return compared_in_order(self.host, sign, one, other)
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
            return Number(self.builder.const(_FOLD[sign](*as_ints), BOOL), Kind(BOOL))
        return Number(self._compared(sign, one, other), Kind(BOOL))

    @abstractmethod
    def items(self, value: Any) -> Any:
        """Returns the elements of an array as a tuple, where that is possible; other values unchanged."""

    def _compared(self, sign: str, one: Any, other: Any) -> Value:
        """Compares by value as Python does: -1 is less than every uint, and no operand is narrowed."""
        kinds = [self.kind(operand) for operand in (one, other)]
        kind, signed = self.rules.compared(one, other), None
        for x, mine, its in ((one, *kinds), (other, *kinds[::-1])):
            if not is_python(x) and (mine.type.kind, its.type.kind) == ("i", "u") and mine.type.bits <= its.type.bits:
                kind, signed = its.type, x
        if kind is BOOL and sign not in ("==", "!="):
            kind = INT32
        result = self.builder.compute(COMPARISONS[sign], self.host.cast(one, kind), self.host.cast(other, kind))
        if signed is None:
            return result
        number = self.host.cast(signed, self.kind(signed).type)
        below = self.builder.compute("lt", number, self.host.cast(0, self.kind(signed).type))
        less = _FOLD[sign](-1, 0) if signed is one else _FOLD[sign](0, -1)
        return self.builder.select(below, self.host.cast(less, BOOL), result)

    def _out_of_range(self, one: Any, other: Any) -> tuple[int, int] | None:
        """Returns ints that compare the same, if one operand is a Python int outside of the other's range."""
        for number, typed, flip in ((one, other, False), (other, one, True)):
            kind = self.kind(typed)
            if type(number) is int and kind.type.kind in "iu" and not kind.weak and not fits(number, kind.type):
                return (0, number) if flip else (number, 0)
        return None

    def unary(self, sign: str, value: Any) -> Any:
        """Returns `sign value`, for + - ~ and not."""
        if sign == "not":
            truth = self.host.truth(value)
            return not truth if isinstance(truth, bool) else Number(self.builder.compute("not", truth), Kind(BOOL))
        if isinstance(value, Vector):
            return self.each(partial(self.host.unary, sign), value)
        if isinstance(value, complex) and not isinstance(value, np.generic) and sign in "+-":
            return -value if sign == "-" else value
        if is_complex(value):
            return complex_values.unary(self, sign, value)
        self.kind(value)
        if is_python(value) and not (sign == "~" and isinstance(value, float)):
            return -value if sign == "-" else ~int(value) if sign == "~" else +value
        kind = self.rules.unary(sign, value)
        self.host.demand_kind("iub" if sign == "~" else "iuf", kind, sign, value)
        if sign == "+" and kind.type is self.kind(value).type:
            return value
        x = self.host.cast(value, kind.type)
        if sign == "+":
            return Number(x, kind)
        if sign == "-" and kind.type.kind == "u":
            return Number(self.builder.compute("sub", self.builder.const(0, kind.type), x), kind)
        return Number(self.builder.compute("not" if sign == "~" else "neg", x), kind)

    def index(self, value: Any) -> Value:
        """Converts a number to an index: an integer of at least 32 bits."""
        kind = self.kind(value).type
        if kind.kind not in "iu":
            raise UnsupportedError(f"an index is an integer; got {describe(value)}; write // for /, or int(…)")
        return self.host.cast(value, kind if kind.bits >= 32 else INT32)


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
