"""Functions of the main module, pickled by value: a worker process has another main module, or none.

A function is packed with its code, its source, and the values of the names that it uses. Functions of the main module
among these are packed, too, and modules are imported by name. All else is up to the pickler.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import dis
import functools
import importlib
import inspect
import marshal
import re
from collections.abc import Callable, Iterator
from enum import Enum
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from vkcompute.errors import KernelError
from vkcompute.frontend.code_objects import PROGRAM
from vkcompute.frontend.source import Source, imported, read, unevaluated

_MAIN = "__main__", "__mp_main__"  # multiprocessing's name of the main module in a spawned process


class ByValue:
    """A function in a pickle, by value; loaded, it is a function."""

    def __init__(self, function: FunctionType, program: str | None = None) -> None:
        """Wraps a function; `program` is a text that may have its source and those of the functions that it calls."""
        self._given = function, program

    def __reduce__(self) -> tuple[Any, ...]:
        return unpacked, (packed(*self._given),)


def portable(given: Any, program: str | None = None) -> Any:
    """Returns what to pickle in place of an object: of a function of the main module, its value."""
    return ByValue(given, program) if in_main(given) else given


class _Reference(NamedTuple):
    """A function, by its position among the packed ones."""

    position: int


class _Module(NamedTuple):
    name: str


class PackedFunction(NamedTuple):
    """A function as data. Values of attributes may contain `_Reference` and `_Module`."""

    code: bytes
    program: str | None
    attributes: dict[str, Any]
    names: dict[str, Any]
    cells: list[Any]


Packed = list[PackedFunction]


def in_main(given: Any) -> bool:
    """True for a function of the main module, which other processes cannot import."""
    return isinstance(given, FunctionType) and given.__module__ in _MAIN


def packed(function: FunctionType, program: str | None = None) -> Packed:
    """Returns the function, and the functions of the main module that it needs, as data."""
    functions = [function]
    return [_packed(function, program, functions) for function in functions]  # which grows meanwhile


def unpacked(given: Packed) -> FunctionType:
    """Returns the function, with globals of its own; the same one for equal data, so that it is compiled once."""
    try:
        return _cached(_Keyed(given))
    except _UnknownEquality:
        return _made(given)


class _UnknownEquality(Exception):
    """A value that may differ from another though it looks the same."""


class _Keyed:
    """Packed functions, equal where their code and all values are."""

    def __init__(self, given: Packed) -> None:
        self.given, self._key = given, _key(given)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self._key == other._key


def _key(value: Any) -> Any:
    """Returns what is equal for equal values: texts of plain ones, and objects that are compared by identity."""
    if isinstance(value, (tuple, list)):
        return type(value), tuple(map(_key, value))
    if type(value) is dict:
        return tuple([(_key(name), _key(entry)) for name, entry in value.items()])
    if isinstance(value, (int, float, complex, str, bytes, np.generic, type(None))) and not isinstance(value, Enum):
        return type(value), repr(value)
    compared = type, Enum, FunctionType, BuiltinFunctionType, np.ufunc
    package = type(value).__module__.partition(".")[0]
    if package in (__name__.partition(".")[0], "typing") or isinstance(value, compared):
        return value
    raise _UnknownEquality


@functools.lru_cache(maxsize=256)
def _cached(keyed: _Keyed) -> FunctionType:
    return _made(keyed.given)


def _made(given: Packed) -> FunctionType:
    functions = [_bare(data) for data in given]
    for function, data in zip(functions, given, strict=True):
        function.__globals__.update(_decoded(data.names, functions))
        for cell, value in zip(function.__closure__ or (), data.cells, strict=True):
            cell.cell_contents = _decoded(value, functions)
        for name, value in data.attributes.items():
            setattr(function, name, _decoded(value, functions))
        if data.program is not None:
            setattr(function, PROGRAM, data.program)
    return functions[0]


def _packed(function: FunctionType, program: str | None, functions: list[FunctionType]) -> PackedFunction:
    source = None
    with contextlib.suppress(KernelError):  # only kernels call it where it has one
        source = read(function, program)
    attributes = {name: getattr(function, name) for name in ("__name__", "__qualname__", "__module__", "__doc__")}
    attributes |= {name: getattr(function, name) for name in ("__defaults__", "__kwdefaults__")}
    attributes["__annotations__"] = _annotations(function)
    scope = function.__globals__
    names = {name: scope[name] for name in _names(function, source) if name in scope}
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    attributes, names, cells = (_encoded(part, functions) for part in (attributes, names, cells))
    code = marshal.dumps(function.__code__, 2)  # from version 3 on, equal code may have other bytes
    return PackedFunction(code, _text(function, source), attributes, names, cells)


def _text(function: FunctionType, source: Source | None) -> str | None:
    """Returns a text that has the function, and imports what its file imports."""
    if source is None or source.program is not None:
        return None if source is None else source.program
    text = "".join(source.lines)
    if source.tree.name == "<lambda>":  # all of its file
        return text
    names = sorted(imported(function, ""))
    return f"import {', '.join(names)}\n" * bool(names) + "if True:\n" * text[:1].isspace() + text


def _annotations(function: FunctionType) -> dict[str, Any]:
    return inspect.get_annotations(function, **unevaluated("format"))


def _names(function: FunctionType, source: Source | None) -> Iterator[str]:
    """Yields the names of globals that a function uses, or that annotations of it or in it may use."""
    codes = [function.__code__]
    for code in codes:
        yield from (
            instruction.argval
            for instruction in dis.get_instructions(code)
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
        )
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    for text in _annotations(function).values():
        yield from re.findall(r"\w+", text) if isinstance(text, str) else ()
    for node in ast.walk(source.tree) if source else ():
        if isinstance(node, ast.AnnAssign):
            yield from (name.id for name in ast.walk(node.annotation) if isinstance(name, ast.Name))


def _encoded(value: Any, functions: list[FunctionType]) -> Any:
    """Returns a value with references to packed functions and to modules."""
    if isinstance(value, FunctionType) and in_main(value):
        if value not in functions:
            functions.append(value)
        return _Reference(functions.index(value))
    if isinstance(value, ModuleType):
        return _Module(value.__name__)
    return _each(_encoded, value, functions)


def _decoded(value: Any, functions: list[FunctionType]) -> Any:
    if isinstance(value, _Reference):
        return functions[value.position]
    if isinstance(value, _Module):
        return importlib.import_module(value.name)
    return _each(_decoded, value, functions)


def _each(convert: Callable[..., Any], value: Any, functions: list[FunctionType]) -> Any:
    """Converts the items of tuples, lists and dicts."""
    if isinstance(value, tuple):
        make = getattr(value, "_make", type(value))  # of named tuples
        return make([convert(element, functions) for element in value])
    if type(value) is list:
        return [convert(element, functions) for element in value]
    if type(value) is dict:
        return {name: convert(element, functions) for name, element in value.items()}
    return value


def _bare(given: PackedFunction) -> FunctionType:
    """Makes a function without its names."""
    code = marshal.loads(given.code)
    scope = {"__name__": given.attributes["__module__"], "__builtins__": builtins}
    return FunctionType(code, scope, None, None, tuple([CellType() for _ in code.co_freevars]))
