"""Composite arguments, as tuples: flattened into leaves and a form.

A launch types, binds and copies each leaf as an argument of its own. The program is compiled for the form, and
assembles the composite values from the leaves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple


class Form(NamedTuple):
    """A composite argument without its leaves.

    Attributes:
        kind: tuple, a class of named tuples or a dataclass; or what makes another value of its parts.
        parts: the form of each part; None for a leaf.
        constants: what the language knows beside the parts.
    """

    kind: Any
    parts: tuple[Any, ...]
    constants: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        """The form in the key on disk: the same text in all processes."""
        return f"{self.kind.__name__}{fields_of(self.kind)}{self.parts}{self.constants}"

    @property
    def suffixes(self) -> Sequence[str]:
        """The texts behind the name of the argument in the names of its parts."""
        if self.kind is tuple:
            return [f"[{at}]" for at in range(len(self.parts))]
        names = fields_of(self.kind)
        return [f".{name}" for name in names] or getattr(self.kind, "part_suffixes", [""] * len(self.parts))


Forms = tuple["Form | None", ...]
"""The form of each argument of a launch; None for a leaf."""


def fields_of(kind: Any) -> tuple[str, ...]:
    """Returns the names of the fields of a class of named tuples or of a dataclass; none for another class."""
    if dataclasses.is_dataclass(kind):
        return tuple([field.name for field in dataclasses.fields(kind)])
    return tuple(getattr(kind, "_fields", ()))


def is_composite(arg: Any) -> bool:
    """True for a tuple and for an instance of a dataclass."""
    return isinstance(arg, tuple) or dataclasses.is_dataclass(type(arg))


def form_of(arg: Any, leaves: list[Any], part: Callable[[Any, list[Any]], Form | None] | None = None) -> Form | None:
    """Returns the form of an argument, None for a leaf, and adds its leaves to a list.

    Args:
        part: does so for a part of it, in a language with further forms.
    """
    if not is_composite(arg):
        leaves.append(arg)
        return None
    if not isinstance(arg, tuple):
        kind, parts = type(arg), [getattr(arg, name) for name in fields_of(type(arg))]
    else:
        kind, parts = type(arg) if hasattr(arg, "_fields") else tuple, [*arg]
    return Form(kind, tuple([(part or form_of)(value, leaves) for value in parts]))


def flattened(args: Sequence[Any]) -> tuple[Forms | None, tuple[Any, ...]]:
    """Returns the forms of arguments, None if none is composite, and their leaves."""
    if not any(map(is_composite, args)):
        return None, tuple(args)
    leaves: list[Any] = []
    return tuple([form_of(arg, leaves) for arg in args]), tuple(leaves)


def all_leaf_names(names: Sequence[str], forms: Forms | None) -> list[str]:
    """Returns the names of the leaves of all arguments, given the names of the parameters."""
    if forms is None:
        return [*names]
    return [leaf for pair in zip(names, forms, strict=True) for leaf in leaf_names(*pair)]


def leaf_names(name: str, form: Form | None) -> list[str]:
    """Returns the leaves of an argument as expressions: `x[0]`, `x.field`."""
    if form is None:
        return [name]
    pairs = zip(form.suffixes, form.parts, strict=True)
    return [leaf for suffix, part in pairs for leaf in leaf_names(name + suffix, part)]


def assembled(forms: Forms | None, leaves: Iterable[Any]) -> list[Any]:
    """Returns the values of all parameters, assembled from those of their leaves in order."""
    given = iter(leaves)
    return [*given] if forms is None else [_assembled(form, given) for form in forms]


def _assembled(form: Form | None, leaves: Iterator[Any]) -> Any:
    return next(leaves) if form is None else made(form.kind, [_assembled(part, leaves) for part in form.parts])


def made(kind: Any, parts: Sequence[Any]) -> Any:
    """Returns a value of a class, in a program: a dataclass has named fields there, as a named tuple has."""
    if kind is tuple:
        return tuple(parts)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        kind = _named(kind)
    return kind._make(parts) if hasattr(kind, "_make") else kind(*parts)


class Fields(tuple[Any, ...]):
    """The fields of a dataclass in a program, by name only."""

    _fields: tuple[str, ...] = ()

    @classmethod
    def _make(cls, parts: Iterable[Any]) -> Fields:
        return cls(parts)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({values})"


@lru_cache(maxsize=256)
def _named(kind: type) -> Any:
    """Returns the class of a dataclass in programs."""
    names = fields_of(kind)
    members = {name: property(itemgetter(at)) for at, name in enumerate(names)}
    return type(kind.__name__, (Fields,), {**members, "_fields": names, "__module__": kind.__module__})
