"""Compile-time values, and the types of numbers.

A value is a `Number` (computed on the device), a `Complex` or a `Vector` of numbers, an `ArrayValue` (an array argument
or shared array), or a tuple of values. Any other Python object is a compile-time constant. `type_rules` types numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from vkcompute.compiled.composites import Fields
from vkcompute.frontend.constants import is_named
from vkcompute.frontend.scopes import Unset
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
        lengths: why the lengths of an argument are unknown; None if they are not.
        unit: the bytes that an offset counts, where these are fewer than an element has; 0 for whole elements.
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
    lengths: str | None = None
    unit: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A record in memory: its fields are loaded and stored where they are.

    Attributes:
        array: the array without axes whose element it is.
    """

    array: ArrayValue


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


def weak_kind(number: bool | int | float, real: Scalar) -> Kind:
    """Returns the type of a Python number that is weak, unless it is a bool; that of a float is `real`."""
    if isinstance(number, bool):
        return Kind(BOOL)
    if isinstance(number, int):
        return Kind(int_type_of(number), True, (number, number))
    return Kind(real, True)


def is_complex(value: Any) -> bool:
    """True for a complex number of the kernel, and for a complex constant."""
    return isinstance(value, (Complex, complex, np.complexfloating))


def parts_of(value: Any) -> tuple[Any, Any]:
    """Returns the real and the imaginary part of a number; that of a real one is a weak 0.0."""
    if isinstance(value, Complex):
        return value[0], value[1]
    return (value.real, value.imag) if is_complex(value) else (value, 0.0)


def fits(number: int, kind: Scalar) -> bool:
    """True if an integer type can represent the number."""
    low, high = _LIMITS[kind]
    return low <= number <= high


def includes(wide: Scalar, narrow: Scalar) -> bool:
    """True if an integer type can represent all numbers of another."""
    return all(fits(bound, wide) for bound in _LIMITS[narrow])


def like(model: tuple[Any, ...], parts: Iterable[Any]) -> tuple[Any, ...]:
    """Returns a vector, named tuple or tuple of these parts, of the same class as the model."""
    if isinstance(model, (Vector, Complex)):
        return (Vector if isinstance(model, Vector) else Complex)(parts)
    kind = type(model)
    return kind._make(parts) if is_named(kind) else kind(parts)


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


def demand_sequence(value: Any) -> None:
    """Refuses a dataclass, whose fields have names only, and a complex number."""
    if isinstance(value, Complex):
        raise UnsupportedError("a complex number has no items; take its parts, z.real and z.imag")
    if isinstance(value, Fields):
        name = type(value).__name__
        raise UnsupportedError(f"the fields of {name} are read by name; write x.{(*value._fields, 'field')[0]}")


def _class_of(array: ArrayValue) -> str:
    if array.memory.private:
        return "private array" if array.item is None else "list"
    return "array" if array.shape is None else "constant array" if array.constant else "shared array"


def _plain_kind(value: Any) -> Kind:
    """Returns the type of a number, or the type itself."""
    if isinstance(value, np.generic):
        return Kind(SCALARS[value.dtype.name])
    return value if isinstance(value, Kind) else value.kind if isinstance(value, Number) else weak_kind(value, FLOAT32)


def describe(value: Any) -> str:
    """Describes a value or its type, for error messages."""
    match value:
        case Kind():
            return str(value)
        case ArrayValue():
            return f"the {_class_of(value)} {value.name} ({value.element}, {value.ndim}-D)"
        case Row():
            return f"a row of {describe(value.array)}"
        case Record():
            return f"a record of {value.array.name}"
        case Complex():
            part = _plain_kind(value[0])
            return "a Python complex number" if part.weak else whole_of(Complex((part, part))).name
        case Vector():
            return f"{_plain_kind(value[0]).type}x{len(value)}"
        case Fields():
            return f"a {type(value).__name__}"
        case tuple():
            return f"a tuple of {len(value)}"
        case FunctionType():
            return f"the function {value.__name__}"
        case ModuleType():
            return f"the module {value.__name__}"
        case Unset():
            return "nothing"
    if isinstance(value, np.generic) and value.dtype.name in ELEMENTS:
        return str(value.dtype.name)
    if isinstance(value, (Number, bool, int, float)):
        return str(_plain_kind(value))
    if isinstance(value, complex):
        return "a Python complex number"
    return repr(value) if value is None or isinstance(value, (type, str)) else f"a {type(value).__name__}"
