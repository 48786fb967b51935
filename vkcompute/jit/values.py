"""What a name stands for while a kernel is compiled, and the types of numbers.

A value is a `Number` (computed on the device), a `Vector` of such, an `Array` (a tensor argument), a tuple of values,
or any other Python object, which is known at compile time. Numbers promote as numpy's do, with one exception: a float64
that numpy makes of operands of at most 32 bits each (int32 / int32, int32 * float32) is the kernel's own float, which
is float32 unless an argument is float64. Python's ints and floats are weak, as in NEP 50: they take the type of what
they meet.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, TypeGuard

import numpy as np

from vkcompute.ir.function import Value
from vkcompute.ir.memory import Memory
from vkcompute.ir.types import BOOL, FLOAT32, FLOAT64, INT32, INT64, SCALARS, UINT32, UINT64, Scalar
from vkcompute.jit.source import Refused

PLAIN = int, float, str, np.generic, type(None)
"""Types of constants that are the same where they look the same"""


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a number, and whether it yields to others."""

    type: Scalar
    weak: bool = False

    def __str__(self) -> str:
        return f"a Python {'float' if self.type.kind == 'f' else 'int'}" if self.weak else self.type.name


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A number that the device computes."""

    value: Value
    kind: Kind


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """A tensor argument, or a shared array.

    Attributes:
        position: among the kernel's parameters; -1 if it is shared.
        element: of the tensor; the memory holds uint8 where that is bool.
        shape: of a shared array; a tensor's is known at the launch.
    """

    name: str
    position: int
    element: Scalar
    ndim: int
    memory: Memory
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The elements along an array's last axis, where the other indices are given: loaded and stored as vectors are."""

    array: Array
    indices: tuple[Any, ...]


class Vector(tuple[Any, ...]):
    """Two to four numbers of one type, or such types: operators and functions work on each; else it is as a tuple."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Unset:
    """A variable without a value that can be used, and why."""

    why: str


def is_python(value: object) -> bool:
    """Whether it is a Python number, which is weak and known at compile time."""
    return isinstance(value, (int, float)) and not isinstance(value, np.generic)


def holder(number: int) -> Scalar:
    """The type of a Python int that meets no other: the first of int32, uint32, int64, uint64 that holds it."""
    for kind in (INT32, UINT32, INT64, UINT64):
        if fits(number, kind):
            return kind
    raise Refused(f"integers have at most 64 bits in kernels; this takes {number.bit_length()}; write a float")


def fits(number: int, kind: Scalar) -> bool:
    """Whether an integer type holds the number."""
    limits = np.iinfo(kind.name)
    return bool(limits.min <= number <= limits.max)


def kind_of(value: Any, real: Scalar) -> Any:
    """The type of a value: a Kind, a tuple of such, or the object itself; `real` is that of Python's floats."""
    if isinstance(value, Number):
        return value.kind
    if isinstance(value, np.generic) and value.dtype.name in SCALARS:
        return Kind(SCALARS[value.dtype.name])
    if isinstance(value, bool):
        return Kind(BOOL)
    if isinstance(value, int):
        return Kind(holder(value), True)
    if isinstance(value, float):
        return Kind(real, True)
    return like(value, [kind_of(each, real) for each in value]) if isinstance(value, tuple) else value


def like(model: tuple[Any, ...], parts: Iterable[Any]) -> tuple[Any, ...]:
    """A tuple of these elements, of the model's class: a vector, a named tuple, or another subclass of tuple."""
    if isinstance(model, Vector):
        return Vector(parts)
    kind = type(model)
    return kind._make(parts) if is_named(kind) else kind(parts)


def is_named(kind: type) -> TypeGuard[Any]:
    """Whether it is a class of named tuples."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def promoted(one: Kind, other: Kind, real: Scalar) -> Kind:
    """The type in which two numbers are combined."""
    if one.type is other.type:
        return Kind(one.type, one.weak and other.weak)
    if one.weak and other.weak:
        found = _numpy_result(one.type, other.type, real)
        return Kind(found, found in (INT32, real))
    if one.weak or other.weak:
        weak, typed = (one.type, other.type) if one.weak else (other.type, one.type)
        if typed.kind == "f" or (weak.kind != "f" and typed is not BOOL):
            return Kind(typed)
        return Kind(weak if typed is BOOL else floating(typed, real))
    return Kind(_numpy_result(one.type, other.type, real))


def floating(kind: Scalar, real: Scalar) -> Scalar:
    """The type of a quotient of such numbers: a float's own, float64 for 64-bit integers, else the kernel's float."""
    return kind if kind.kind == "f" else FLOAT64 if kind.bits == 64 else real


@functools.cache
def _numpy_result(one: Scalar, other: Scalar, real: Scalar) -> Scalar:
    found = SCALARS[np.result_type(one.numpy, other.numpy).name]
    return real if found is FLOAT64 and max(one.bits, other.bits) < 64 else found


def joined(one: Any, other: Any, real: Scalar) -> Any:
    """The type of a variable that has one type or the other, depending on the way taken.

    Raises:
        Refused: there is none.
    """
    if isinstance(one, Kind) and isinstance(other, Kind):
        return promoted(one, other, real)
    alike = isinstance(one, Vector) == isinstance(other, Vector)
    if alike and isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        model = one if isinstance(one, Vector) or type(one) is type(other) else ()
        return like(model, [joined(a, b, real) for a, b in zip(one, other, strict=True)])
    if one is other or (isinstance(one, str) and one == other):
        return one
    raise Refused(f"{describe(one)} on one way and {describe(other)} on another")


def unpacked(kind: Any, values: Iterator[Value]) -> Any:
    """The value of this type that is made of the next device values."""
    if isinstance(kind, Kind):
        return Number(next(values), kind)
    return like(kind, [unpacked(each, values) for each in kind]) if isinstance(kind, tuple) else kind


def is_static(value: Any) -> bool:
    """Whether nothing of it is computed on the device."""
    return all(map(is_static, value)) if isinstance(value, tuple) else not isinstance(value, Number)


def same(one: Any, other: Any) -> bool:
    """Whether two objects are the same constant: 1 is neither 1.0 nor True, and nan is nan."""
    if one is other or type(one) is not type(other):
        return one is other
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, PLAIN) and plain_text(one) == plain_text(other)


def plain_text(constant: Any) -> str:
    """A constant of PLAIN by its type's name and its value, whatever `repr` gives where the type is a program's own."""
    name = type(constant).__name__
    if isinstance(constant, np.generic):
        return f"{name} {constant.dtype.str} {constant.tobytes().hex()}"
    base: Any = next(each for each in (int, float, str, type(None)) if isinstance(constant, each))
    return f"{name} {base.__repr__(constant)}"


def describe(value: Any) -> str:
    """A value or its type in words, for errors."""
    match value:
        case Kind():
            return str(value)
        case Array():
            what = "tensor" if value.shape is None else "shared array"
            return f"the {what} {value.name} ({value.element}, {value.ndim}-D)"
        case Row():
            return f"a row of {describe(value.array)}"
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
    found = kind_of(value, FLOAT32)
    if isinstance(found, Kind):
        return str(found)
    return repr(value) if value is None or isinstance(value, (type, str)) else f"a {type(value).__name__}"
