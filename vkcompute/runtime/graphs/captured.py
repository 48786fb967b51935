"""Arrays that a function takes from closures, globals and attributes: a recording holds for these, and no others."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import PurePath
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from vkcompute.core.buffer import Buffer
from vkcompute.runtime.memory.array import Array

_MOST_OBJECTS = 1 << 16
_VALUES = (str, bytes, int, float, complex, type(None), np.ndarray, np.generic, np.dtype, CodeType)
"""types of objects that hold no arrays"""
_LIBRARIES = (sys.stdlib_module_names | {"vkcompute", "numpy", "torch"}) - {"__main__"}
"""packages whose functions, classes and modules hold no arrays of the user's"""

_Item = tuple[Any, Any, Any]


class Captured(NamedTuple):
    """An array where a function reads it: an item of a dict, a list, a cell of a closure, or an attribute."""

    holder: Any
    key: Any
    array: Array


def are_current(arrays: Sequence[Captured]) -> bool:
    """True if each of these is still there."""
    try:
        return all([holder[key] is array for holder, key, array in arrays])  # noqa: C419 - faster
    except LookupError:
        return False


class _Cell:
    """A cell of a closure as a holder with one key."""

    def __init__(self, cell: Any) -> None:
        self._cell = cell

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._cell.cell_contents
        except ValueError as error:
            raise LookupError("the cell is empty") from error


class _Attributes:
    """The attributes of an object, its own or those of its class; does not keep an object with weak references."""

    def __init__(self, value: Any) -> None:
        try:
            self._value: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self._value = lambda: value

    def __getitem__(self, key: Any) -> Any:
        try:
            return getattr(self._value(), key)
        except AttributeError as error:
            raise LookupError(f"the object has no attribute {key!r} now") from error


def captured(
    function: Callable[..., Any], constants: Iterable[Any], buffers: Collection[Buffer] | None = None
) -> list[Captured]:
    """Returns the arrays in what a function names, and in the functions and objects there.

    Args:
        constants: arguments that are no arrays, whose attributes count, too.
        buffers: only arrays on these, or None for all, also those that are not computed.

    Raises:
        ValueError: the user's objects that it reaches are too many.
    """
    arrays: list[Captured] = []
    known: set[int] = set()
    own = _package(function)
    pending, later = deque(_items((function, *constants))), deque[_Item]()
    while (pending or later) and len(known) < _MOST_OBJECTS:
        queue = pending or later
        holder, key, value = queue.popleft()
        if isinstance(value, Array):
            entry = Captured(holder, key, value)
            is_used = buffers is None or (not value.is_pending and value.buffer in buffers)
            if not value.closed and is_used and are_current([entry]):
                arrays.append(entry)  # an attribute of a class that another one hides is not current
        elif id(value) not in known:
            known.add(id(value))
            package = _package(value)
            if package != "builtins":  # what a container holds is as near as the container
                queue = later if _is_installed(package) and package != own else pending
            queue.extend(_items(value))
    if pending:
        name = getattr(function, "__qualname__", repr(function))
        raise ValueError(
            f"{name} reaches more than {_MOST_OBJECTS:,} objects by its closure, globals and attributes, too many to "
            "see when another array takes the place of one; pass arrays as arguments"
        )
    return arrays


def _package(value: Any) -> str:
    """Returns the package that a function, a class or the class of an object is from."""
    kind = value if isinstance(value, (FunctionType, type)) else type(value)
    return str(kind.__module__).partition(".")[0]


@cache
def _is_installed(package: str) -> bool:
    """True for a package that pip or the system has installed: what its objects hold is looked at last."""
    path = str(getattr(sys.modules.get(package), "__file__", None))
    return not {"site-packages", "dist-packages"}.isdisjoint(PurePath(path).parts)


def _items(value: Any) -> Iterator[_Item]:
    """Yields (holder, key, item) for what a container, a function, or an object or class of the user's has."""
    if isinstance(value, dict):
        yield from [(value, key, item) for key, item in list(value.items()) if not isinstance(item, _VALUES)]
    elif isinstance(value, (list, tuple, deque)):
        yield from [(value, number, item) for number, item in enumerate(value) if not isinstance(item, _VALUES)]
    elif isinstance(value, MethodType):
        yield from _items((value.__func__, value.__self__))
    elif isinstance(value, partial):
        yield from _items((value.func, value.args, value.keywords))
    elif isinstance(value, (FunctionType, type)):
        if not _is_of_library(value.__module__):
            yield from _named(value) if isinstance(value, FunctionType) else _members(value, value)
    else:
        yield from _held(value)


def _held(value: Any) -> Iterator[_Item]:
    """Yields what an object has. Of one of ours, only the function that it wraps counts."""
    kind, held = type(value), getattr(value, "__dict__", None)
    package = kind.__module__.partition(".")[0]
    if isinstance(held, dict) and package != "builtins":
        names = ["__wrapped__"] if package == "vkcompute" else list(held)
        yield from [(held, name, held[name]) for name in names if name in held]
    if not _is_of_library(kind.__module__):
        yield from _members(value, kind)


def _is_of_library(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _LIBRARIES


def _members(value: Any, kind: type) -> Iterator[_Item]:
    """Yields what an object has from its classes: arrays, methods and slots, also those that its attributes hide."""
    attributes = _Attributes(value)
    for base in kind.__mro__:
        for name, member in [] if _is_of_library(base.__module__) else list(vars(base).items()):
            if isinstance(member, property):
                yield from _items((member.fget,))
            elif type(member).__name__ == "member_descriptor" and value is not kind:
                yield attributes, name, getattr(value, name, None)
            elif not name.startswith("__") or isinstance(member, FunctionType):
                yield attributes, name, getattr(member, "__wrapped__", member)


def _named(function: FunctionType) -> Iterator[_Item]:
    """Yields the closure and the defaults of a function, and the globals that it names, also in modules."""
    for cell in function.__closure__ or ():
        holder = _Cell(cell)
        try:
            yield holder, 0, holder[0]
        except LookupError:
            continue
    yield from _items((function.__defaults__, function.__kwdefaults__))
    names = _global_names(function.__code__)
    scopes = [function.__globals__]
    for scope in scopes:
        for name in names & scope.keys():
            value = scope[name]
            if not isinstance(value, ModuleType):
                yield scope, name, value
            elif not _is_of_library(value.__name__) and all(vars(value) is not known for known in scopes):
                scopes.append(vars(value))


def _global_names(code: CodeType) -> set[str]:
    inner = [_global_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)
