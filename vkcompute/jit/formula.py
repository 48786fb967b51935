"""Functions that are given in short: as an expression in a string, or as a lambda."""

from __future__ import annotations

import ast
import functools
import inspect
import math
from types import FunctionType
from typing import Any

import numpy as np

from vkcompute.jit.functions import FUNCTIONS
from vkcompute.jit.source import Source, definition, read

Written = tuple[FunctionType, Source]
"""A function, and where it is written"""
_FILE = "<expression>"


def function_of(given: Any, what: str, arguments: str | None = None) -> Written:
    """What is meant by a function written in Python, a lambda, or a string; `arguments` are a string's, in order.

    Raises:
        TypeError: it is none of them.
        KernelError: no source is found, or the string is no expression.
    """
    if isinstance(given, str):
        return _parsed(given, arguments)
    if not isinstance(given, FunctionType) or arguments is not None:
        raise TypeError(f"{what} is a function written in Python or an expression; got {type(given).__name__}")
    source = read(given)
    for parameter in inspect.signature(given).parameters.values():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise source.error(source.tree, f"{what} takes plain parameters; {parameter} is none")
    return given, source


def _parsed(given: str, arguments: str | None) -> Written:
    """A function that returns the expression. Python never runs it: the compiler of kernels reads the tree."""
    text = " ".join(given.split())
    try:
        body = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        place = ast.Pass(lineno=1, col_offset=(error.offset or len(text) + 1) - 1)
        raise _source(text, [], ast.Constant(None, lineno=1, col_offset=0)).error(
            place, f"this is no expression: {error.msg}"
        ) from None
    names, found = known(), dict[str, ast.Name]()
    nodes = sorted((node for node in ast.walk(body) if isinstance(node, ast.Name)), key=lambda node: node.col_offset)
    called = {id(node.func) for node in ast.walk(body) if isinstance(node, ast.Call)}
    for node in nodes:
        if node.id not in names:
            found.setdefault(node.id, node)
            if id(node) in called:
                raise _source(text, [], body).error(node, f"kernels know no function {node.id}; see vc.kernel")
    order = list(found) if arguments is None else arguments.replace(",", " ").split()
    source = _source(text, order, body)
    if sorted(order) != sorted(found):
        raise source.error(body, f"the arguments are {', '.join(found) or 'none'}; got {', '.join(order) or 'none'}")
    code = compile(f"lambda {', '.join(order)}: ({text})", _FILE, "eval").co_consts[0]
    return FunctionType(code, names, text), source


def _source(text: str, arguments: list[str], body: ast.expr) -> Source:
    names = ast.arguments([], [ast.arg(each) for each in arguments], None, [], [], None, [])
    return Source(_FILE, [text], 0, 0, definition(names, body))


@functools.cache
def known() -> dict[str, Any]:
    """What names that are no arguments stand for in an expression: functions, numpy's where several have the name."""
    functions = [each for each in FUNCTIONS if not isinstance(each, FunctionType)]
    functions.sort(key=lambda each: getattr(np, each.__name__, None) is each)
    return {each.__name__: each for each in functions} | {"math": math, "np": np}
