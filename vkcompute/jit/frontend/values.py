"""Compile-time values, and the types of numbers.

A value is a `Number` (computed on the device), a `Complex` or a `Vector` of numbers, an `ArrayValue` (an array argument
or shared array), or a tuple of values. Any other Python object is a compile-time constant.

Numbers promote as in numpy, with one exception: operands of at most 32 bits do not become float64 (int32 / int32, int32
* float32). They become the kernel's default float: float32, or float64 if an argument is float64.
Python's ints and floats are weak (NEP 50): they take the type of the other operand. No int changes its value by that:

- A constant must fit the type, which is checked at compile time; an argument must, too, which is checked at the launch.
- An int computed in the kernel (`-1 if c else 1`, `b + 1`, an item of a tuple, the sum in `s = 0` and `s += x`) counts
  as int32. It takes uint32 and uint64 only if it is known not to be negative.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from vkcompute.dtypes import as_dtype, promote
from vkcompute.frontend.constants import is_named
from vkcompute.frontend.control_flow import Unset
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir.function import Value
from vkcompute.ir.memory import Memory
from vkcompute.ir.types import BOOL, FLOAT32, FLOAT64, INT32, INT64, SCALARS, UINT32, UINT64, Scalar

_SWIZZLES = "xyzw", "rgba"


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a number. A weak one takes the type of the other operand.

    Attributes:
        span: of a weak int, the least and the largest possible value; None if unknown.
        argument: of a Python int that is an argument, the index of its push constant.
    """

    type: Scalar
    weak: bool = False
    span: tuple[int, int] | None = None
    argument: int | None = None

    @property
    def is_natural(self) -> bool:
        """True for a weak int that is known not to be negative."""
        return self.span is not None and self.span[0] >= 0

    def __str__(self) -> str:
        return f"a Python {'float' if self.type.kind == 'f' else 'int'}" if self.weak else self.type.name


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A number computed on the device."""

    value: Value
    kind: Kind


@dataclass(frozen=True, slots=True, eq=False)
class ArrayValue:
    """An array argument, a shared array, a private array or a list, which is a private array.

    Attributes:
        position: index of the kernel's parameter; -1 for other arrays.
        element: type of the elements.
        shape: shape of a shared or private array; None for an argument, whose shape is a launch parameter.
        strided: True for an array that may be any view: its offset and strides are launch parameters.
        constant: True for a table from outside of the kernel.
        item: the type of a list's items, which may be weak; None for other arrays.
        origin: of a private array, the syntax nodes of its expression and of the calls that led there.
    """

    name: str
    position: int
    element: Scalar
    ndim: int
    memory: Memory
    shape: tuple[int, ...] | None = None
    strided: bool = False
    constant: bool = False
    item: Kind | None = None
    origin: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The elements along the last axis of an array, at given other indices. It is loaded and stored like a vector."""

    array: ArrayValue
    indices: tuple[Any, ...]


class Vector(tuple[Any, ...]):
    """Two to four numbers of one type, or their types. Operators and functions apply to each element."""

    __slots__ = ()


class Complex(tuple[Any, ...]):
    """A complex number: its real and its imaginary part, numbers of one float type; or their types."""

    __slots__ = ()


ELEMENTS = {**SCALARS, "complex64": Scalar("complex64", "c", 64), "complex128": Scalar("complex128", "c", 128)}
"""Types of the elements of arrays. In memory, a complex number is its two parts."""
PARTS = {ELEMENTS["complex64"]: FLOAT32, ELEMENTS["complex128"]: FLOAT64}
"""Complex type -> the type of the parts."""
_WHOLE = {part: whole for whole, part in PARTS.items()}
_LIMITS = {
    kind: (int(np.iinfo(kind.name).min), int(np.iinfo(kind.name).max)) for kind in SCALARS.values() if kind.kind in "iu"
}
NATURAL = 0, _LIMITS[INT32][1]
"""The span of a weak int that is only known not to be negative."""


def is_python(value: object) -> bool:
    """True for a Python number: a weak compile-time constant."""
    return isinstance(value, (int, float)) and not isinstance(value, np.generic)


def int_type_of(number: int) -> Scalar:
    """Returns the type of a Python int on its own: the first of int32, uint32, int64, uint64 that holds it."""
    for kind in (INT32, UINT32, INT64, UINT64):
        if fits(number, kind):
            return kind
    raise UnsupportedError(
        f"integers have at most 64 bits in kernels; this one needs {number.bit_length()}; write a float"
    )


def fits(number: int, kind: Scalar) -> bool:
    """True if an integer type can represent the number."""
    low, high = _LIMITS[kind]
    return low <= number <= high


def includes(wide: Scalar, narrow: Scalar) -> bool:
    """True if an integer type can represent all numbers of another."""
    return all(fits(bound, wide) for bound in _LIMITS[narrow])


def kind_of(value: Any, real: Scalar) -> Any:
    """Returns the type of a value: a Kind, a tuple of types, or a constant itself; Python floats are `real`."""
    if isinstance(value, Number):
        return value.kind
    if isinstance(value, np.generic) and value.dtype.name in SCALARS:
        return Kind(SCALARS[value.dtype.name])
    if isinstance(value, bool):
        return Kind(BOOL)
    if isinstance(value, int):
        return Kind(int_type_of(value), True, (value, value))
    if isinstance(value, float):
        return Kind(real, True)
    if isinstance(value, (complex, np.complexfloating)):
        kind = Kind(PARTS[ELEMENTS[value.dtype.name]]) if isinstance(value, np.generic) else Kind(real, True)
        return Complex((kind, kind))
    return like(value, [kind_of(part, real) for part in value]) if isinstance(value, tuple) else value


def like(model: tuple[Any, ...], parts: Iterable[Any]) -> tuple[Any, ...]:
    """Returns a vector, named tuple or tuple of these parts, of the same class as the model."""
    if isinstance(model, (Vector, Complex)):
        return (Vector if isinstance(model, Vector) else Complex)(parts)
    kind = type(model)
    return kind._make(parts) if is_named(kind) else kind(parts)


def promoted(one: Kind, other: Kind, real: Scalar) -> Kind:
    """Returns the common type of two operands; a weak one is known to fit."""
    if one.type is other.type:
        return Kind(one.type, one.weak and other.weak)
    if one.weak and other.weak:
        scalar = _numpy_result(one.type, other.type, real)
        return Kind(scalar, scalar in (INT32, real))
    if one.weak or other.weak:
        weak, typed = (one.type, other.type) if one.weak else (other.type, one.type)
        if typed.kind == "f" or (weak.kind != "f" and typed is not BOOL):
            return Kind(typed)
        return Kind(weak if typed is BOOL else floating(typed, real))
    return Kind(_numpy_result(one.type, other.type, real))


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


def stored(kind: Any, real: Scalar) -> Any:
    """Returns the type of a variable with a value of this type: only int32 and the default float stay weak."""
    if isinstance(kind, Kind):
        weak = kind.weak and kind.type in (INT32, real)
        return Kind(kind.type, weak, kind.span if weak else None)
    return like(kind, [stored(part, real) for part in kind]) if isinstance(kind, tuple) else kind


def started(kind: Any) -> Any:
    """Returns the type of an accumulator that starts with a value of this type: an int may become any other."""
    if isinstance(kind, Kind):
        return Kind(kind.type, kind.weak, NATURAL if kind.is_natural else None)
    return like(kind, map(started, kind)) if isinstance(kind, tuple) else kind


def floating(kind: Scalar, real: Scalar) -> Scalar:
    """Returns the type of a quotient: a float's own type, float64 for 64-bit integers, else the default float."""
    return kind if kind.kind == "f" else FLOAT64 if kind.bits == 64 else real


@functools.cache
def _numpy_result(one: Scalar, other: Scalar, real: Scalar) -> Scalar:
    scalar = SCALARS[promote(as_dtype(one.name), as_dtype(other.name)).name]
    return real if scalar is FLOAT64 and max(one.bits, other.bits) < 64 else scalar


def joined(one: Any, other: Any, real: Scalar) -> Any:
    """Returns the type of a variable that has either type, depending on the path taken.

    Raises:
        UnsupportedError: the types have no common type.
    """
    if isinstance(one, Kind) and isinstance(other, Kind):
        if not other.weak:
            one = settled(one, other.type, narrow=True)
        elif not one.weak:
            other = settled(other, one.type, narrow=True)
        common = promoted(one, other, real)
        spans = [kind.span for kind in (one, other) if kind.span is not None and common.weak]
        return Kind(common.type, common.weak, (min(spans)[0], max(s[1] for s in spans)) if len(spans) == 2 else None)
    if all(isinstance(kind, (Kind, Complex)) for kind in (one, other)):
        return _joined_complex(one, other, real)
    alike = isinstance(one, Vector) == isinstance(other, Vector)
    if alike and isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        model = one if isinstance(one, Vector) or type(one) is type(other) else ()
        return like(model, [joined(a, b, real) for a, b in zip(one, other, strict=True)])
    if one is other or (isinstance(one, str) and one == other):
        return one
    remedy = "; make one before, and assign its elements" if isinstance(one, ArrayValue) else ""
    raise UnsupportedError(f"{describe(one)} on one path and {describe(other)} on another{remedy}")


def _joined_complex(one: Any, other: Any, real: Scalar) -> Complex:
    """Returns the complex type that also holds a real type."""
    part = functools.reduce(
        functools.partial(promoted, real=real),
        [kind for kinds in (one, other) for kind in ((kinds,) if isinstance(kinds, Kind) else kinds)],
    )
    kind = Kind(part.type, part.weak)
    return Complex((kind, kind))


def whole_of(kind: Any) -> Scalar:
    """Returns the type of elements for a type of numbers: a complex type for that of a pair."""
    return _WHOLE[kind[0].type] if isinstance(kind, Complex) else kind.type


def unpacked(kind: Any, values: Iterator[Value]) -> Any:
    """Returns a value of this type, made of the next device values."""
    if isinstance(kind, Kind):
        return Number(next(values), kind)
    return like(kind, [unpacked(part, values) for part in kind]) if isinstance(kind, tuple) else kind


def is_static(value: Any) -> bool:
    """True if no part of the value is computed on the device."""
    return all(map(is_static, value)) if isinstance(value, tuple) else not isinstance(value, Number)


def swizzled(vector: Vector, name: str) -> Any:
    """Returns the element or the vector of two to four elements named by `name`, as in `v.x` and `v.zy`."""
    for letters in _SWIZZLES:
        if len(name) <= 4 and set(name) <= set(letters[: len(vector)]):
            picked = [vector[letters.index(letter)] for letter in name]
            return Vector(picked) if len(picked) > 1 else picked[0]
    letters = " or ".join(letters[: len(vector)] for letters in _SWIZZLES)
    raise UnsupportedError(
        f"{describe(vector)} has no attribute {name}; it has up to four letters of {letters}, as v.{letters[:2]}"
    )


def sliced(values: tuple[Any, ...], bounds: slice) -> Any:
    """Returns a slice of a tuple or a vector. The bounds are constants; a slice of a vector has at least 2 elements."""
    if not all(bound is None or type(bound) is int for bound in (bounds.start, bounds.stop, bounds.step)):
        raise UnsupportedError("the bounds of a slice are constants")
    if bounds.step == 0:
        raise UnsupportedError("the step of a slice is not 0")
    part = values[bounds]
    if not isinstance(values, Vector):
        return part
    if len(part) < 2:
        raise UnsupportedError(f"a vector has 2 to 4 elements; this slice has {len(part)}; write v[i] for one")
    return Vector(part)


def _class_of(array: ArrayValue) -> str:
    if array.memory.private:
        return "private array" if array.item is None else "list"
    return "array" if array.shape is None else "constant array" if array.constant else "shared array"


def describe(value: Any) -> str:
    """Describes a value or its type, for error messages."""
    match value:
        case Kind():
            return str(value)
        case ArrayValue():
            return f"the {_class_of(value)} {value.name} ({value.element}, {value.ndim}-D)"
        case Row():
            return f"a row of {describe(value.array)}"
        case Complex():
            part = value[0] if isinstance(value[0], Kind) else kind_of(value[0], FLOAT32)
            return "a Python complex number" if part.weak else whole_of(Complex((part, part))).name
        case Vector():
            first = value[0] if isinstance(value[0], Kind) else kind_of(value[0], FLOAT32)
            return f"{first.type}x{len(value)}"
        case tuple():
            return f"a tuple of {len(value)}"
        case FunctionType():
            return f"the function {value.__name__}"
        case ModuleType():
            return f"the module {value.__name__}"
        case Unset():
            return "nothing"
    kind = kind_of(value, FLOAT32)
    if isinstance(kind, Kind):
        return str(kind)
    if isinstance(kind, Complex):
        return describe(kind)
    return repr(value) if value is None or isinstance(value, (type, str)) else f"a {type(value).__name__}"
