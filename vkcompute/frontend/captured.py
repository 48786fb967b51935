"""Globals, closure variables and attributes that a kernel captures from its surroundings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from vkcompute import dtypes
from vkcompute.compiled.arguments import suggestion
from vkcompute.compiled.captured import CapturedGlobal, Table
from vkcompute.frontend.source import Definition
from vkcompute.frontend.unsupported import UnsupportedError

_STABLE = ("vkcompute", "numpy", "math")  # packages whose names mean the same while they are installed


class Captured:
    """The captured globals of one kernel, each recorded once.

    Args:
        remedy: returns "; write …" with the language's word for a name that another one has, or nothing.

    Attributes:
        takes_tables: True if arrays are constant tables.
        given: by the identity of an object, the value of the program that stands for it.
    """

    def __init__(self, remedy: Callable[[str], str]) -> None:
        self.takes_tables, self.given = False, dict[int, Any]()
        self._remedy = remedy
        self._globals: dict[tuple[int, bool, Any], CapturedGlobal] = {}

    def look_up(self, owner: Any, key: Any, name: str, *, item: bool = False) -> Any:
        """Returns an attribute or an `item` of an owner, and records it unless its package is known to be stable.

        Raises:
            UnsupportedError: there is none, or it is an array.
        """
        lookup = lookup_in(owner, item=item)
        try:
            value = lookup(key)
        except AttributeError:
            is_ours = str(getattr(owner, "__module__", None) or getattr(owner, "__name__", "")).startswith("vkcompute")
            near = (self._remedy(str(key)) if is_ours else "") or suggestion(key, dir(owner))
            if isinstance(owner, FunctionType):
                near = f"; call the function, as {owner.__name__}(…)"
            raise UnsupportedError(f"{name.rpartition('.')[0]} has no attribute {key}{near}") from None
        except ValueError:
            raise UnsupportedError(f"{name} has no value when the kernel is compiled") from None
        if id(value) in self.given:
            return self.given[id(value)]
        if type(value) is np.ndarray and self.takes_tables and dtypes.is_in_kernels(value.dtype):
            kept = self._globals.get((id(owner), item, key))
            if kept is None:
                table = Table(value, lookup)
                kept = self._globals[id(owner), item, key] = CapturedGlobal(table.look_up, key, table, owner)
            return kept.value
        if type(value) is np.ndarray and self.takes_tables:
            instead = dtypes.conversion(value.dtype, name)
            raise UnsupportedError(f"{name} is a table of {value.dtype}, which kernels lack{instead}")
        if hasattr(value, "__array__") and not isinstance(value, (np.generic, type)):
            raise UnsupportedError(f"{name} is an array from outside of the kernel; pass it as an argument")
        module = owner if item else vars(owner) if isinstance(owner, ModuleType) else {}
        if str(module.get("__name__")).partition(".")[0] not in _STABLE:
            self._globals[id(owner), item, key] = CapturedGlobal(lookup, key, value, owner)
        return value

    def all(self, *, without: Any = None) -> tuple[CapturedGlobal, ...]:
        """Returns the captured globals, except those of the owner `without`; as `with_functions`."""
        return with_functions(
            [entry for entry in self._globals.values() if without is None or entry.owner is not without]
        )


def with_functions(captured: Iterable[CapturedGlobal]) -> tuple[CapturedGlobal, ...]:
    """Adds the code and the defaults of captured functions, which programs can assign to."""
    entries = [*captured]
    for function in dict.fromkeys([function for entry in entries for function in _functions(entry.value)]):
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            part, lookup = getattr(function, name), partial(getattr, function)
            entries += [CapturedGlobal(lookup, name, part, function)] if part else []
        named = function.__kwdefaults__ or {}
        entries += [CapturedGlobal(named.get, name, value, function) for name, value in named.items()]
    return tuple(entries)


def _functions(value: Any) -> Iterator[FunctionType]:
    """The functions of users in a captured value."""
    if isinstance(value, tuple):
        for element in value:
            yield from _functions(element)
    value = getattr(value, "definition", value)  # made by vc.vectorize
    value = value.function if isinstance(value, Definition) else value
    if isinstance(value, FunctionType) and str(value.__module__).partition(".")[0] not in _STABLE:
        yield value


def lookup_in(owner: Any, *, item: bool) -> Callable[[Any], Any]:
    """Returns a function that looks up an attribute, or an `item` of a dict (None where a plain dict lacks it)."""
    if not item:
        return partial(getattr, owner)
    return owner.get if type(owner) is dict else owner.__getitem__
