"""Named tuples as constants of a program."""

from __future__ import annotations

from typing import Any, TypeGuard

from vkcompute.frontend.unsupported import UnsupportedError


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
    return value[kind._fields.index(name)]
