"""Values that a function takes from closures, globals and attributes: a recording holds for these, and no others."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, partial
from itertools import islice
from operator import getitem, is_
from pathlib import PurePath
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from vkcompute.core.buffer import Buffer
from vkcompute.runtime.memory.array import Array

_MOST_OBJECTS = 1 << 16
_MOST_NAMED = 1 << 12  # values that are compared at each call, the nearest ones
_MOST_ITEMS = 256  # plain values of a list or a dict that are compared
_MOST_BYTES = 1 << 14  # of a NumPy array whose content is compared
_PLAIN = (str, bytes, int, float, complex, type(None), np.generic)
"""types of values that are compared by type and value"""
_VALUES = (*_PLAIN, np.ndarray, np.dtype, CodeType)
"""types of objects that hold no arrays"""
_LIBRARIES = (sys.stdlib_module_names | {"vkcompute", "numpy", "torch"}) - {"__main__"}
"""packages whose functions, classes and modules hold no arrays of the user's"""
_NOT_CALLED = {"__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__", "__repr__", "__del__"}
"""special methods that a function does not call just because it uses the object"""


class _Item(NamedTuple):
    """A value where a function, an object or a container has it.

    Attributes:
        holder, key: `holder[key]` is the value.
        name: what code has to name to read the value; None if whoever has the holder reads it.
    """

    holder: Any
    key: Any
    value: Any
    name: str | None = None


class Captured(NamedTuple):
    """A value where a function reads it: an item of a dict, a list, a cell of a closure, or an attribute."""

    holder: Any
    key: Any
    value: Any


def are_current(values: Iterable[Captured]) -> bool:
    """True if each of these is still there."""
    try:
        return all([holder[key] is value for holder, key, value in values])  # noqa: C419 - faster
    except LookupError:
        return False


class Watched:
    """The values for which a recording holds.

    Objects are compared by identity, numbers and texts by type and value, and small NumPy arrays by their bytes, too.
    """

    __slots__ = ("_contents", "_holders", "_keys", "_values")

    def __init__(self, values: Iterable[Captured]) -> None:
        unique = {(id(entry.holder), entry.key): entry for entry in values}.values()
        self._holders = [entry.holder for entry in unique]
        self._keys = [entry.key for entry in unique]
        self._values = [entry.value for entry in unique]
        self._contents = [
            (entry.key, entry.value, entry.value.tobytes())
            for entry in unique
            if isinstance(entry.value, np.ndarray) and entry.value.nbytes <= _MOST_BYTES
        ]

    def is_current(self) -> bool:
        """True if each of the values is still there, or one that is equal."""
        try:
            same = all(map(is_, map(getitem, self._holders, self._keys), self._values))
        except LookupError:
            return False
        return (same and not self._contents) or self.changed is None

    @property
    def changed(self) -> str | None:
        """The name, or the index, of a value that is no longer there; None if there is none."""
        for at, (holder, key, value) in enumerate(zip(self._holders, self._keys, self._values, strict=True)):
            try:
                now = holder[key]
            except LookupError:
                return str(key)
            if now is not value:
                if not (type(now) is type(value) and isinstance(now, _PLAIN) and repr(now) == repr(value)):
                    return str(key)
                self._values[at] = now  # the next comparison is by identity
        return next((str(key) for key, array, data in self._contents if array.tobytes() != data), None)


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


class Reached:
    """The values that a function reaches by the names in its code, and by the functions and objects there.

    Args:
        constants: arguments that are no arrays, whose attributes count, too.

    Raises:
        ValueError: the user's objects that it reaches are too many.
    """

    def __init__(self, function: Callable[..., Any], constants: Iterable[Any]) -> None:
        self._root = (function, *constants)
        self._from: dict[int, tuple[int, _Item]] = {}  # by the id of a value: who has it, and where it was seen first
        self._items: list[tuple[int, _Item]] = []
        known: set[int] = set()
        own = _package(function)
        pending, later = deque([(id(self._root), item) for item in _items(self._root)]), deque[tuple[int, _Item]]()
        while (pending or later) and len(known) < _MOST_OBJECTS:
            queue = pending or later
            owner, item = queue.popleft()
            self._items.append((owner, item))
            value = item.value
            if isinstance(value, (Array, *_VALUES)) or id(value) in known:
                continue
            known.add(id(value))
            self._from[id(value)] = owner, item
            package = _package(value)
            if package != "builtins":  # what a container holds is as near as the container
                queue = later if _is_installed(package) and package != own else pending
            queue.extend([(id(value), item) for item in _items(value)])
        if pending:
            name = getattr(function, "__qualname__", repr(function))
            raise ValueError(
                f"{name} reaches more than {_MOST_OBJECTS:,} objects by its closure, globals and attributes, too many "
                "to see when another array takes the place of one; pass arrays as arguments"
            )

    def arrays(self) -> list[Captured]:
        """Returns the arrays, also those that are not computed."""
        return [entry for _, entry in self._arrays(None)]

    def needed(self, buffers: Collection[Buffer]) -> Iterator[Captured]:
        """Yields the arrays on these buffers, each with the objects by which it is reached."""
        for owner, entry in self._arrays(buffers):
            yield entry
            while owner in self._from:
                owner, item = self._from[owner]
                yield from _current(item)

    def _arrays(self, buffers: Collection[Buffer] | None) -> Iterator[tuple[int, Captured]]:
        for owner, (holder, key, value, _) in self._items:
            if isinstance(value, Array) and not value.closed:
                entry = Captured(holder, key, value)
                is_used = buffers is None or (not value.is_pending and value.buffer in buffers)
                if is_used and are_current([entry]):  # an attribute of a class that another one hides is not current
                    yield owner, entry

    def named(self) -> list[Captured]:
        """Returns the values but arrays that the function names, and those that the functions name that it calls."""
        reached, names, n_before = {id(self._root)}, set[str](), (-1, -1)
        while (len(reached), len(names)) != n_before:
            n_before = len(reached), len(names)
            for owner, item in self._items:
                if owner in reached and (item.name is None or item.name in names) and id(item.value) not in reached:
                    reached.add(id(item.value))
                    if isinstance(item.value, FunctionType):
                        names |= _global_names(item.value.__code__)
        read = (
            entry
            for owner, item in self._items
            if owner in reached and (item.name is None or item.name in names) and not isinstance(item.value, Array)
            for entry in _current(item)
        )
        return list(islice(read, _MOST_NAMED))


def _current(item: _Item) -> Iterator[Captured]:
    """Yields the value of an item, unless it is not there, as a method, or never changes, as in a tuple."""
    entry = Captured(item.holder, item.key, item.value)
    if not isinstance(item.holder, tuple) and are_current([entry]):
        yield entry


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
    """Yields what a container, a function, or an object or class of the user's has."""
    if isinstance(value, dict):
        yield from _elements(value, list(value.items()))
    elif isinstance(value, (list, tuple, deque)):
        yield from _elements(value, enumerate(list(value)))
    elif isinstance(value, MethodType):
        yield from _items((value.__func__, value.__self__))
    elif isinstance(value, partial):
        yield from _items((value.func, value.args, value.keywords))
    elif isinstance(value, (FunctionType, type)):
        if not _is_of_library(value.__module__):
            yield from _named(value) if isinstance(value, FunctionType) else _members(value, value)
    else:
        yield from _held(value)


def _elements(holder: Any, pairs: Iterable[tuple[Any, Any]]) -> Iterator[_Item]:
    """Yields the elements of a container; of numbers and texts only the first ones."""
    n_plain = 0
    for key, value in pairs:
        n_plain += isinstance(value, _VALUES)
        if n_plain <= _MOST_ITEMS or not isinstance(value, _VALUES):
            yield _Item(holder, key, value)


def _held(value: Any) -> Iterator[_Item]:
    """Yields what an object has. Of one of ours, only the function that it wraps counts."""
    kind, held = type(value), getattr(value, "__dict__", None)
    package = kind.__module__.partition(".")[0]
    if isinstance(held, dict) and package != "builtins":
        names = ["__wrapped__"] if package == "vkcompute" else list(held)
        yield from [
            _Item(held, name, held[name], None if name == "__wrapped__" else name) for name in names if name in held
        ]
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
                yield _Item((member.fget,), 0, member.fget, name)
            elif type(member).__name__ == "member_descriptor" and value is not kind:
                yield _Item(attributes, name, getattr(value, name, None), name)
            elif not name.startswith("__") or isinstance(member, FunctionType):
                is_called = name.startswith("__") and name not in _NOT_CALLED
                yield _Item(attributes, name, getattr(member, "__wrapped__", member), None if is_called else name)


def _named(function: FunctionType) -> Iterator[_Item]:
    """Yields the closure and the defaults of a function, and the globals that it names, also in modules."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        holder = _Cell(cell)
        try:
            yield _Item(holder, name, holder[name])
        except LookupError:
            continue
    yield from _items((function.__defaults__, function.__kwdefaults__))
    names = {name for name in _global_names(function.__code__) if name.isidentifier()}  # not pytest's "@pytest_ar"
    scopes = [function.__globals__]
    for scope in scopes:
        for name in names & scope.keys():
            value = scope[name]
            if not isinstance(value, ModuleType):
                yield _Item(scope, name, value)
            elif not _is_of_library(value.__name__) and all(vars(value) is not known for known in scopes):
                scopes.append(vars(value))


def _global_names(code: CodeType) -> set[str]:
    inner = [_global_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)
