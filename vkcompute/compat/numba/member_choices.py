"""Variables and arguments that are a member of an enumeration, which a number on the device selects.

Members that are numbers themselves, as those of IntEnum, are numbers in kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, Builder, Value
from vkcompute.jit.frontend.array_choices import ArrayChoices
from vkcompute.jit.frontend.tuples import contains
from vkcompute.jit.frontend.values import Kind, Number

_SAME, _OTHER = ("==", "is"), ("!=", "is not")
_numbers: dict[str, WeakKeyDictionary[type[Enum], int]] = {}


@dataclass(frozen=True, eq=False, slots=True)
class MemberChoice:
    """A member of an enumeration.

    Attributes:
        members: all of them.
        at: the index of this one.
    """

    members: Enumeration
    at: Number

    def __str__(self) -> str:
        raise UnsupportedError("print takes numbers and text; got a member of an enumeration; print its value")


class Enumeration:
    """The kind of variables that are a member of one enumeration; called with an index, it returns the member."""

    def __init__(self, enum: type[Enum]) -> None:
        self.enum, self.members = enum, [*enum]
        values = ", ".join(f"{member.name}={member.value!r}" for member in self.members)
        text = f"{enum.__module__}.{enum.__qualname__}({values})"
        self.__name__ = f"{text} {_number(enum, text)}"  # a part of keys on disk

    def __call__(self, at: Number) -> MemberChoice:
        return MemberChoice(self, at)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Enumeration) and other.enum is self.enum

    def __hash__(self) -> int:
        return hash(self.enum)

    def index(self, member: Any) -> np.signedinteger[Any]:
        """Returns the index of a member, as kernels take it.

        Raises:
            TypeError: it is several flags, or none.
        """
        if member not in self.members:
            raise TypeError(f"kernels take one flag of {self.enum.__name__}; got {member}; give its value")
        index: np.signedinteger[Any] = np.int32(self.members.index(member))
        return index


def _number(enum: type[Enum], text: str) -> int:
    """Returns the number of an enumeration among those with the same text, which a function may define twice."""
    return _numbers.setdefault(text, WeakKeyDictionary()).setdefault(enum, len(_numbers[text]))


def is_member(value: Any) -> bool:
    """True for a member of an enumeration that is no number."""
    return isinstance(value, Enum) and not isinstance(value, (int, float, complex))


class MemberChoices:
    """Kinds of variables with those of members; the others are those of arrays and numbers."""

    def __init__(self, arrays: ArrayChoices, builder: Builder) -> None:
        self._arrays, self._builder = arrays, builder

    def kind_of_variable(self, value: Any) -> Any:
        """Returns the kind of a variable with this value."""
        return value.members if isinstance(value, MemberChoice) else self._arrays.kind_of_variable(value)

    def joined(self, one: Any, other: Any) -> Any:
        """Returns the kind of a variable that has either kind, depending on the path taken."""
        enums = {_enumeration(one), _enumeration(other)}
        if None in enums or len(enums) > 1 or one is other:
            return self._arrays.joined(one, other)
        return enums.pop()

    def packed(self, value: Any, kind: Any) -> list[Value]:
        """Returns the device values of a value of this kind: the index of the member."""
        if not isinstance(kind, Enumeration):
            return self._arrays.packed(value, kind)
        return [value.at.value if isinstance(value, MemberChoice) else self._builder.const(kind.index(value), INT32)]

    def unpacked(self, kind: Any, values: Iterator[Value]) -> Any:
        """Returns a value of this kind, made of the next device values."""
        if isinstance(kind, Enumeration):
            return kind(Number(next(values), Kind(INT32)))
        return self._arrays.unpacked(kind, values)

    def filler(self, kind: Any) -> list[Value]:
        """Returns any device values of a kind."""
        return [self._builder.const(0, INT32)] if isinstance(kind, Enumeration) else self._arrays.filler(kind)


def _enumeration(kind: Any) -> Enumeration | None:
    if is_member(kind):
        return Enumeration(type(kind))
    return kind if isinstance(kind, Enumeration) else None


def compared_members(c: Any, sign: str, one: Any, other: Any) -> Any:
    """Returns `one sign other`, of which one is a choice, or `other` a tuple; members of another enumeration differ.

    Raises:
        UnsupportedError: the sign has an order.
    """
    if sign in ("in", "not in"):
        return contains(c, one, other, is_in=sign == "in")
    if sign not in (*_SAME, *_OTHER):
        raise UnsupportedError(f"members of an enumeration have no order; got {sign}; compare their values")
    enums = [value.members if isinstance(value, MemberChoice) else _enumeration(value) for value in (one, other)]
    if enums[0] is None or enums[0] != enums[1]:
        return sign in _OTHER
    first, second = [value.at if isinstance(value, MemberChoice) else enums[0].index(value) for value in (one, other)]
    return c.arithmetic.compare("==" if sign in _SAME else "!=", first, second)


def value_of(c: Any, choice: MemberChoice) -> Any:
    """Returns the value of a member, a number.

    Raises:
        UnsupportedError: some values of the enumeration are no numbers.
    """
    values = [member.value for member in choice.members.members]
    if not all(isinstance(value, (bool, int, float, np.generic)) for value in values):
        raise UnsupportedError(f"the values of {choice.members.enum.__name__} are no numbers; compare the members")
    result = values[-1]
    for n, value in reversed([*enumerate(values[:-1])]):
        result = c.where(c.arithmetic.compare("==", choice.at, np.int32(n)), value, result)
    return result
