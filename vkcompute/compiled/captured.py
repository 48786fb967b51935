"""Constants from outside of a program, which its code depends on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

PLAIN = int, float, complex, str, np.generic, type(None)


class NamedConstant:
    """A constant of a language, as a type, that its class and its name identify.

    Attributes:
        name: another one for each other constant of the class.
    """

    name: str

    @property
    def fingerprint(self) -> str:
        """The name, with that of the class."""
        return f"{type(self).__module__}.{type(self).__qualname__} {self.name}"


class CapturedGlobal(NamedTuple):
    """A constant or function from outside of a kernel.

    Attributes:
        lookup: finds it again by its name.
        name: the name.
        value: its value when the kernel was compiled.
        owner: the namespace, cell or object that has it.
    """

    lookup: Callable[[str], Any]
    name: str
    value: Any
    owner: Any


class Table:
    """A NumPy array from outside of a kernel, as it was when the kernel was compiled.

    Attributes:
        array: a copy.
    """

    def __init__(self, array: np.ndarray[Any, Any], lookup: Callable[[Any], Any]) -> None:
        self.array = np.array(array, order="C")
        self._lookup, self._bytes = lookup, self.array.tobytes()

    def look_up(self, key: Any) -> Any:
        """Returns this table while the array has the same elements, or else the other value."""
        value = self._lookup(key)
        if type(value) is not np.ndarray or (value.dtype, value.shape) != (self.array.dtype, self.array.shape):
            return value
        return self if value.tobytes() == self._bytes else value


def unchanged(captured: Iterable[CapturedGlobal]) -> bool:
    """True if all captured globals still have the value that they had at compile time."""
    try:
        return all(same(lookup(name), value) for lookup, name, value, _ in captured)
    except (AttributeError, KeyError, ValueError):
        return False


def same(one: Any, other: Any) -> bool:
    """True if two objects are the same constant: 1 differs from 1.0 and True, and nan equals nan."""
    if one is other or type(one) is not type(other):
        return one is other
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, PLAIN) and plain_text(one) == plain_text(other)


def plain_text(constant: Any) -> str:
    """Returns the type name and value of a constant of PLAIN, independent of the `repr` of user-defined subclasses."""
    name = type(constant).__name__
    if isinstance(constant, np.generic):
        return f"{name} {constant.dtype.str} {constant.tobytes().hex()}"
    base: Any = next(kind for kind in (int, float, complex, str, type(None)) if isinstance(constant, kind))
    return f"{name} {base.__repr__(constant)}"
