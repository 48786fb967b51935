"""Code objects of Python functions: their parts, by which definitions are compared; functions of them, or of a text."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

PROGRAM = "__vkcompute_program__"
"""Attribute of a function: a text that has it, for one that is in no file of this process."""
_PARAMETERS = "posonlyargs", "args", "kwonlyargs"


def last_line(code: CodeType) -> int:
    """Returns the number of the last line that has code of a function."""
    lines = [line for _, _, line in code.co_lines() if line]
    return max([*lines, *map(last_line, codes_in(code))], default=code.co_firstlineno)


def codes_in(code: CodeType) -> list[CodeType]:
    """Returns the code objects of functions and classes within a code object."""
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def has_generator(code: CodeType | None) -> bool:
    """True if a code object has a generator expression, and if there is none."""
    return code is None or code.co_name == "<genexpr>" or any(map(has_generator, codes_in(code)))


def code_parts(code: CodeType, first_line: int | None = None) -> Iterator[str]:
    """Texts of all parts of a code object but its place: the file, the first line and the enclosing scopes."""
    first_line = code.co_firstlineno if first_line is None else first_line
    flags, lines = code.co_flags & ~inspect.CO_NESTED, getattr(code, "co_linetable", b"")
    for part in (code.co_name, code.co_firstlineno - first_line, lines, flags, code.co_code, code.co_names):
        yield repr(part)
    for part in (code.co_argcount, code.co_kwonlyargcount, code.co_varnames, code.co_freevars, code.co_cellvars):
        yield repr(part)
    paths = tuple([f".<locals>.{inner.co_name}" for inner in codes_in(code)])  # before Python 3.11, these are constants
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from code_parts(const, first_line)
        elif not (isinstance(const, str) and const.endswith(paths)):
            yield f"{type(const).__name__} {sorted(map(repr, const)) if isinstance(const, frozenset) else const!r}"


def nested_function(definition: ast.FunctionDef, outer: FunctionType, defaults: Mapping[str, Any]) -> FunctionType:
    """Returns a function with the name and the parameters of a nested one, for its signature; it has no body."""
    args = definition.args
    names = [arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    parts: dict[str, Any] = {name: [ast.arg(arg.arg) for arg in getattr(args, name)] for name in _PARAMETERS}
    parts |= {name: arg and ast.arg(arg.arg) for name, arg in (("vararg", args.vararg), ("kwarg", args.kwarg))}
    plain = ast.arguments(**parts, kw_defaults=[None] * len(args.kwonlyargs), defaults=[])
    stub = ast.FunctionDef(definition.name, plain, [ast.Pass()], [])
    unit = compile(ast.fix_missing_locations(ast.Module([stub], [])), outer.__code__.co_filename, "exec")
    positional = tuple([defaults[name] for name in names if name in defaults and name not in _keywords(args)])
    function = FunctionType(codes_in(unit)[0], outer.__globals__, definition.name, positional)
    function.__kwdefaults__ = {name: defaults[name] for name in names if name in defaults and name in _keywords(args)}
    return function


def _keywords(args: ast.arguments) -> set[str]:
    return {arg.arg for arg in args.kwonlyargs}


def function_of_text(text: str, name: str, names: Mapping[str, Any]) -> Any:
    """Returns the function `name` that a text defines; its functions know the text as their source.

    Args:
        text: definitions, which may be indented.
        name: of one of them.
        names: the globals of the text.
    """
    text = textwrap.dedent(text)
    # A name of this package would count as one whose globals never change.
    scope: dict[str, Any] = {"__name__": "<generated>", **names}
    exec(compile(text, "<generated>", "exec"), scope)
    for key, value in scope.items():
        if isinstance(value, FunctionType) and key not in names:
            vars(value)[PROGRAM] = text
    return scope[name]
