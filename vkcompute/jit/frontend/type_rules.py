"""The rules by which a language types numbers, and those of kernels.

A language gives its compiler an object with the methods of `TypeRules`; nothing else decides a type. `KernelTypes` has
the rules of kernels: numbers promote as in numpy, with one exception. Operands of at most 32 bits do not become float64
(int32 / int32, int32 * float32). They become the kernel's default float: float32, or float64 if an argument is float64.
Python's ints and floats are weak (NEP 50): they take the type of the other operand. No int changes its value by that:

- A constant must fit the type, which is checked at compile time; an argument must, too, which is checked at the launch.
- An int computed in the kernel (`-1 if c else 1`, `b + 1`, an item of a tuple, the sum in `s = 0` and `s += x`) counts
  as int32. It takes uint32 and uint64 only if it is known not to be negative.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from numbers import Number as PlainNumber
from typing import Any, Protocol

import numpy as np

from vkcompute.dtypes import as_dtype, promote
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir.types import BOOL, FLOAT64, INT32, INT64, SCALARS, UINT64, Scalar
from vkcompute.jit.frontend.values import (
    ELEMENTS,
    NATURAL,
    PARTS,
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
    like,
    weak_kind,
)


class TypeRules(Protocol):
    """The rules by which a language types numbers.

    Operands are values of numbers: a `Number`, or a constant of Python or NumPy.
    """

    @property
    def real(self) -> Scalar:
        """The type of Python's floats where nothing else types them."""

    @property
    def integer(self) -> Scalar:
        """The type of `int(x)` of a bool, and the narrowest one in which sums are computed."""

    def whole(self, kind: Scalar) -> Scalar:
        """Returns the type of `int(x)` of a float of this type."""

    def constant(self, number: bool | int | float) -> Kind:
        """Returns the type of a Python number."""

    def fitted(self, number: int, target: Scalar) -> int:
        """Returns the value that an int constant has in an integer type.

        Raises:
            UnsupportedError: the language refuses it there.
        """

    def common(self, *operands: Any) -> Kind:
        """Returns the common type of arguments of a function."""

    def binary(self, sign: str, one: Any, other: Any) -> Kind:
        """Returns the type in which `one sign other` is computed, which the result has.

        That of a quotient is a float type, unless the language refuses it.
        """

    def unary(self, sign: str, operand: Any) -> Kind:
        """Returns the same for `sign operand`."""

    def compared(self, one: Any, other: Any) -> Scalar:
        """Returns the type in which numbers are compared; signed integers beside unsigned ones compare by value."""

    def joined(self, one: Kind, other: Kind) -> Kind:
        """Returns the type of a variable that has either type, depending on the path taken."""

    def variable(self, kind: Kind) -> Kind:
        """Returns the type of a variable with a value of this type, where control flow joins."""

    def accumulator(self, kind: Kind) -> Kind:
        """Returns the type of a variable that has this one before a loop that assigns to it."""

    def assigned(self, before: Any, value: Any) -> Kind | None:
        """Returns the type that a variable takes with a value; None for the value's own.

        Args:
            before: its last value; None for a new variable.
        """

    def floating(self, kind: Scalar) -> Scalar:
        """Returns the type of functions of floats, such as a root, for an argument of this type."""

    def index(self, kind: Scalar) -> Scalar | None:
        """Returns the type that an index of this type is converted to; None if a number of it is no index."""

    def range_types(self, bounds: Sequence[Any]) -> list[Scalar]:
        """Returns the types of the start, stop and step of a range."""


def kind_of(value: Any, rules: TypeRules) -> Any:
    """Returns the type of a value: a Kind, a tuple of types, or a constant that is no number itself."""
    if isinstance(value, Number):
        return value.kind
    if isinstance(value, np.generic) and value.dtype.name in SCALARS:
        return Kind(SCALARS[value.dtype.name])
    if isinstance(value, (bool, int, float)):
        return rules.constant(value)
    if isinstance(value, (complex, np.complexfloating)):
        is_typed = isinstance(value, np.generic)
        kind = Kind(PARTS[ELEMENTS[value.dtype.name]]) if is_typed else rules.constant(0.0)  # type: ignore[union-attr]
        return Complex((kind, kind))
    return like(value, [kind_of(part, rules) for part in value]) if isinstance(value, tuple) else value


def number_kind(value: Any, rules: TypeRules) -> Kind:
    """Returns the type of a number.

    Raises:
        UnsupportedError: the value is something else.
    """
    if isinstance(value, Number):
        return value.kind
    kind = kind_of(value, rules)
    if not isinstance(kind, Kind):
        raise UnsupportedError(f"this takes numbers; got {describe(value)}{_remedy(value)}")
    return kind


def _remedy(value: Any) -> str:
    if isinstance(value, Vector):
        return "; take an element, as v.x"
    if isinstance(value, Row):
        return f"; give it a length, as vc.{value.array.element}x3({value.array.name}[i])"
    if is_complex(value):
        return "; take z.real, z.imag or abs(z)"
    if isinstance(value, PlainNumber):
        return "; write float(…) outside of the kernel"
    if not isinstance(value, ArrayValue):
        return ""
    return f"; index it, as {value.name}[{', '.join('ijklmn'[: value.ndim]) or '()'}]"


# -- types of variables, of any structure ---------------------------------------------------------------------------


def joined(one: Any, other: Any, rules: TypeRules) -> Any:
    """Returns the type of a variable that has either type, depending on the path taken.

    Raises:
        UnsupportedError: the types have no common type.
    """
    if isinstance(one, Kind) and isinstance(other, Kind):
        return rules.joined(one, other)
    if all(isinstance(kind, (Kind, Complex)) for kind in (one, other)):
        return _joined_complex(one, other, rules)
    alike = isinstance(one, Vector) == isinstance(other, Vector)
    if alike and isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        model = one if isinstance(one, Vector) or type(one) is type(other) else ()
        return like(model, [joined(a, b, rules) for a, b in zip(one, other, strict=True)])
    if one is other or (isinstance(one, str) and one == other):
        return one
    remedy = "; make one before, and assign its elements" if isinstance(one, ArrayValue) else ""
    raise UnsupportedError(f"{describe(one)} on one path and {describe(other)} on another{remedy}")


def _joined_complex(one: Any, other: Any, rules: TypeRules) -> Complex:
    """Returns the complex type that also holds a real type."""
    parts = [kind for kinds in (one, other) for kind in ((kinds,) if isinstance(kinds, Kind) else kinds)]
    part = functools.reduce(rules.joined, [Kind(part.type, part.weak) for part in parts])
    kind = Kind(part.type, part.weak)
    return Complex((kind, kind))


def stored(kind: Any, rules: TypeRules) -> Any:
    """Returns the type of a variable with a value of this type."""
    if isinstance(kind, Kind):
        return rules.variable(kind)
    return like(kind, [stored(part, rules) for part in kind]) if isinstance(kind, tuple) else kind


def started(kind: Any, rules: TypeRules) -> Any:
    """Returns the type of an accumulator that starts with a value of this type."""
    if isinstance(kind, Kind):
        return rules.accumulator(kind)
    return like(kind, [started(part, rules) for part in kind]) if isinstance(kind, tuple) else kind


# -- the rules of kernels -------------------------------------------------------------------------------------------


class KernelTypes:
    """The types of numbers in kernels; `TypeRules`.

    Attributes:
        real: the default float.
        integer: int32.
    """

    integer = INT32

    def __init__(self, real: Scalar) -> None:
        self.real = real

    def constant(self, number: bool | int | float) -> Kind:
        """Returns the type of a Python number: that of an int and of a float is weak."""
        return weak_kind(number, self.real)

    def fitted(self, number: int, target: Scalar) -> int:
        """Returns an int constant, which must fit."""
        if not fits(number, target):
            raise UnsupportedError(f"{number} does not fit {target}; convert the other operand, as vc.int64(x)")
        return number

    def common(self, *operands: Any) -> Kind:
        """Returns the common type of operands.

        Python's constants and int arguments take the type of typed integers; other Python ints are settled. The result
        is natural if all operands are.
        """
        takes = kinds = [number_kind(operand, self) for operand in operands]
        if all(kind.type is kinds[0].type and not kind.weak and kind.argument is None for kind in kinds):
            return kinds[0]
        typed = [kind for kind in kinds if is_typed_integer(kind)]
        if typed:
            target = functools.reduce(self.promoted, typed).type
            adapts = [is_python(x) or kind.argument is not None for x, kind in zip(operands, kinds, strict=True)]
            takes = [
                Kind(kind.type, kind.type is not BOOL) if adapting else settled(kind, target)
                for kind, adapting in zip(kinds, adapts, strict=True)
            ]
        common = functools.reduce(self.promoted, takes)
        return Kind(common.type, common.weak, NATURAL if all(kind.is_natural for kind in takes) else None)

    def binary(self, sign: str, one: Any, other: Any) -> Kind:
        """Returns the type of `one sign other`. Sums of natural numbers are natural, unless they wrap as int32."""
        kind = self.common(one, other)
        if sign == "/" and kind.type.kind in "iu":
            return Kind(self.floating(kind.type), kind.weak)
        if not kind.weak or kind.type.kind == "f" or sign == "**":
            return kind
        natural = [number_kind(operand, self).is_natural for operand in (one, other)]
        is_natural = {"-": False, "<<": False, ">>": natural[0], "%": natural[1], "&": any(natural)}.get(
            sign, all(natural)
        )
        return Kind(kind.type, True, NATURAL if is_natural else None)

    def unary(self, sign: str, operand: Any) -> Kind:
        """Returns the operand's type."""
        kind = number_kind(operand, self)
        return Kind(kind.type, kind.weak)

    def compared(self, one: Any, other: Any) -> Scalar:
        """Returns the type in which numbers are compared, into which no operand is narrowed."""
        kinds = [(operand, number_kind(operand, self)) for operand in (one, other)]
        first, second = [k if is_python(x) or k.type.kind == "f" else Kind(k.type) for x, k in kinds]
        return self.promoted(first, second).type

    def joined(self, one: Kind, other: Kind) -> Kind:
        """Returns the type of a variable that has either type; an int that has one of both values is settled."""
        if not other.weak:
            one = settled(one, other.type, narrow=True)
        elif not one.weak:
            other = settled(other, one.type, narrow=True)
        common = self.promoted(one, other)
        spans = [kind.span for kind in (one, other) if kind.span is not None and common.weak]
        return Kind(common.type, common.weak, (min(spans)[0], max(s[1] for s in spans)) if len(spans) == 2 else None)

    def variable(self, kind: Kind) -> Kind:
        """Returns the type of a variable with a value of this type: only int32 and the default float stay weak."""
        weak = kind.weak and kind.type in (INT32, self.real)
        return Kind(kind.type, weak, kind.span if weak else None)

    def accumulator(self, kind: Kind) -> Kind:
        """Returns the type of an accumulator that starts with a value of this type: an int may become any other."""
        return Kind(kind.type, kind.weak, NATURAL if kind.is_natural else None)

    def assigned(self, before: Any, value: Any) -> Kind | None:
        """Returns None: a variable takes the type of each value."""
        return None

    def floating(self, kind: Scalar) -> Scalar:
        """Returns the type of a quotient: a float's own type, float64 for 64-bit integers, else the default float."""
        return kind if kind.kind == "f" else FLOAT64 if kind.bits == 64 else self.real

    def whole(self, kind: Scalar) -> Scalar:
        """Returns the type of `int(x)` of a float: int64 for float64, else int32."""
        return INT64 if kind.bits == 64 else self.integer

    def index(self, kind: Scalar) -> Scalar | None:
        """Returns the type of an index: that of the integer, of at least 32 bits."""
        if kind.kind not in "iu":
            return None
        return kind if kind.bits >= 32 else INT32

    def range_types(self, bounds: Sequence[Any]) -> list[Scalar]:
        """Returns the types of the start, stop and step of a range: int32, or int64 if one has 64 bits.

        Those that are unsigned of this size stay unsigned.
        """
        kinds = [number_kind(bound, self) for bound in bounds]
        bits = max(32, *[kind.type.bits for kind in kinds])
        signed, unsigned = SCALARS[f"int{bits}"], SCALARS[f"uint{bits}"]
        return [
            unsigned if kind.type is unsigned and not is_python(bound) else signed
            for bound, kind in zip(bounds, kinds, strict=True)
        ]

    def promoted(self, one: Kind, other: Kind) -> Kind:
        """Returns the common type of two operands; a weak one is known to fit."""
        if one.type is other.type:
            return Kind(one.type, one.weak and other.weak)
        if one.weak and other.weak:
            scalar = _numpy_result(one.type, other.type, self.real)
            return Kind(scalar, scalar in (INT32, self.real))
        if one.weak or other.weak:
            weak, typed = (one.type, other.type) if one.weak else (other.type, one.type)
            if typed.kind == "f" or (weak.kind != "f" and typed is not BOOL):
                return Kind(typed)
            return Kind(weak if typed is BOOL else self.floating(typed))
        return Kind(_numpy_result(one.type, other.type, self.real))


def is_typed_integer(kind: Kind) -> bool:
    """True for the type of an integer that is neither Python's nor an int argument of a kernel."""
    return not kind.weak and kind.argument is None and kind.type.kind in "iu"


def settled(kind: Kind, other: Scalar, *, narrow: bool = False) -> Kind:
    """Returns the type with which an int that is computed in the kernel meets a type: weak if it may take the other.

    Args:
        narrow: True to let it take a type of less than 32 bits, too, if it fits; arithmetic might wrap there.

    Raises:
        UnsupportedError: the int may be negative, and the type is uint64.
    """
    if not kind.weak or "f" in (kind.type.kind, other.kind) or other is BOOL:
        return kind
    if kind.span and all(fits(bound, other) for bound in kind.span) and (narrow or other.bits >= 32):
        return kind
    if other is UINT64:
        raise UnsupportedError("a Python int that may be negative meets uint64; convert one of them, as vc.uint64(n)")
    return Kind(kind.type)


@functools.cache
def _numpy_result(one: Scalar, other: Scalar, real: Scalar) -> Scalar:
    scalar = SCALARS[promote(as_dtype(one.name), as_dtype(other.name)).name]
    return real if scalar is FLOAT64 and max(one.bits, other.bits) < 64 else scalar
