"""Python's constants, as a program has them: equality, texts and named tuples."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from vkcompute.frontend.unsupported import UnsupportedError

PLAIN = int, float, str, np.generic, type(None)
"""Types of constants that are equal where their texts (`plain_text`) are."""


def is_named(kind: type) -> TypeGuard[Any]:
    """True for a class of named tuples."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def made_tuple(kind: type, args: list[Any], named: dict[str, Any]) -> Any:
    """Returns a named tuple of this class.

    Raises:
        UnsupportedError: the arguments do not fit its fields.
    """
    try:
        return kind(*args, **named)
    except TypeError as error:
        raise UnsupportedError(str(error).replace(".__new__", "")) from None


def field_of(value: Any, name: str) -> Any:
    """Returns a field of a named tuple.

    Raises:
        UnsupportedError: it has no such field.
    """
    kind = type(value)
    member = None if name in kind._fields else getattr(kind, name, None)
    if isinstance(member, property) or callable(member):
        what = "property" if isinstance(member, property) else "method"
        raise UnsupportedError(f"{kind.__name__}.{name} is a {what}; write a function of its fields")
    if name not in kind._fields:
        fields = ", ".join(kind._fields)
        raise UnsupportedError(f"{kind.__name__} has no attribute {name}; its fields are {fields}")
    return getattr(value, name)


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
    base: Any = next(kind for kind in (int, float, str, type(None)) if isinstance(constant, kind))
    return f"{name} {base.__repr__(constant)}"
