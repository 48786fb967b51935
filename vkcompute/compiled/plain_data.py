"""Tuples, named tuples and dataclasses as JSON."""

from __future__ import annotations

import json
from typing import Any

from vkcompute.compiled.report import Site
from vkcompute.ir import ArrayBindings, IdAxes, Pack
from vkcompute.spirv import interface

_CLASSES: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        ArrayBindings,
        IdAxes,
        Pack,
        Site,
        interface.Binding,
        interface.InterfaceBlock,
        interface.Element,
        interface.Interface,
        interface.LocalSize,
        interface.Member,
        interface.SharedMemoryTerm,
        interface.SpecConstant,
        interface.Texel,
        interface.WorkgroupMemory,
    )
}


def dumps(value: Any) -> str:
    """Returns the JSON text of numbers, texts, tuples, and objects of these classes."""
    return json.dumps(_described(value))


def loads(text: str | bytes) -> Any:
    """Returns what `dumps` was given.

    Raises:
        ValueError, TypeError, LookupError: the text is malformed.
    """
    return _frozen(json.loads(text, object_hook=_made))


def _described(value: Any) -> Any:
    """Returns a value in lists, and an object as {its class: its fields}."""
    name = type(value).__name__
    if _CLASSES.get(name) is type(value):
        return {name: [_described(getattr(value, field)) for field in type(value).__match_args__]}
    return [*map(_described, value)] if isinstance(value, (tuple, list)) else value


def _made(described: dict[str, Any]) -> Any:
    ((name, fields),) = described.items()
    return _CLASSES[name](*_frozen(fields))


def _frozen(given: Any) -> Any:
    """Converts lists to tuples, which JSON does not keep."""
    if type(given) is not list:
        return given
    return tuple([_frozen(element) if type(element) is list else element for element in given])
