"""Arrays that a function takes from closures, globals and attributes: a recording holds for these, and no others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

from vkcompute.core.buffer import Buffer
from vkcompute.runtime.memory.array import Array

_MOST_OBJECTS = 4096


class Captured(NamedTuple):
    """An array where a function reads it: an item of a dict, a list or a cell of a closure."""

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


def captured(function: Callable[..., Any], buffers: Collection[Buffer]) -> list[Captured]:
    """Returns the arrays on these buffers in what a function names, and in the lists, dicts and objects there."""
    arrays: list[Captured] = []
    known: set[int] = set()
    pending = [*_named(function)]
    while pending and len(known) < _MOST_OBJECTS:
        holder, key, value = pending.pop()
        if isinstance(value, Array):
            if not (value.is_pending or value.closed) and value.buffer in buffers:
                arrays.append(Captured(holder, key, value))
        elif id(value) not in known:
            known.add(id(value))
            pending += _items(value)
    return arrays


def _named(function: Callable[..., Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Yields (holder, key, value) for the globals and the closure of a function, and for a method's object."""
    instance = getattr(function, "__self__", None)
    if instance is not None:
        yield from _items(instance)
    function = getattr(function, "__func__", function)
    for cell in getattr(function, "__closure__", None) or ():
        holder = _Cell(cell)
        try:
            yield holder, 0, holder[0]
        except LookupError:
            continue
    code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    for name in _global_names(code) if code is not None else ():
        if name in names:
            yield names, name, names[name]


def _global_names(code: CodeType) -> set[str]:
    inner = [_global_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


def _items(value: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yields what a container, or an object of the user's, holds."""
    if isinstance(value, dict):
        yield from [(value, key, item) for key, item in list(value.items())]
    elif isinstance(value, (list, tuple)):
        yield from [(value, number, item) for number, item in enumerate(value)]
    elif not isinstance(value, type) and type(value).__module__.partition(".")[0] not in ("builtins", "vkcompute"):
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict):
            yield from [(held, key, item) for key, item in list(held.items())]
