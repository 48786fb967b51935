"""Functions that are given in short: as an expression in a string, or as a lambda."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from vkcompute.jit.annotations import parameters_of
from vkcompute.jit.functions import FUNCTIONS
from vkcompute.jit.source import Source, Written, definition, read

_FILE = "<expression>"


def function_of(given: Any, what: str, arguments: str | None = None, rule: str = "") -> Written:
    """What is meant by a function written in Python, a lambda, or a string.

    Args:
        arguments: of a string, in order.
        rule: why it has these, for errors.

    Raises:
        TypeError: it is none of them.
        KernelError: no source is found, or the string is no expression.
    """
    if isinstance(given, str):
        return _parsed(given, arguments, rule)
    if isinstance(written := getattr(given, "written", None), Written):  # of vc.vectorize
        return written
    if not isinstance(given, FunctionType) or arguments is not None:
        remedy = "; write a lambda that calls it" if callable(given) else ""
        raise TypeError(f"{what} is a function written in Python or an expression; got {type(given).__name__}{remedy}")
    source = read(given)
    for parameter in parameters_of(given).parameters.values():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise source.error(source.tree, f"{what} takes plain parameters; {parameter} is none")
    return Written(given, source)


def _parsed(given: str, arguments: str | None, rule: str) -> Written:
    """A function that returns the expression. Python never runs it: the compiler of kernels reads the tree."""
    text = " ".join(given.split())
    try:
        body = ast.parse(text, mode="eval").body
        order = _arguments(text, body, arguments, rule)
        source = _source(text, body, order)
        tree = ast.copy_location(ast.Expression(ast.Lambda(source.tree.args, body)), body)
        code = compile(ast.fix_missing_locations(tree), _FILE, "eval").co_consts[0]
    except SyntaxError as error:
        end = ast.Constant(None, lineno=1, col_offset=(error.offset or len(text) + 1) - 1)
        raise _source(text, end).error(end, f"this is no expression: {error.msg}") from None
    except (MemoryError, RecursionError):  # the first is what the parser raises
        start = ast.Constant(None, lineno=1, col_offset=0)
        raise _source(text, start).error(
            start, "this is nested too deeply; write a function for vc.vectorize"
        ) from None
    return Written(FunctionType(code, known(), text), source)


def _arguments(text: str, body: ast.expr, given: str | None, rule: str) -> list[str]:
    """The names in an expression that are arguments, in the order in which they appear or are `given`."""
    called = {id(node.func) for node in ast.walk(body) if isinstance(node, ast.Call)}
    names = [node for node in ast.walk(body) if isinstance(node, ast.Name)]
    for node in names:
        if id(node) not in called and node.id in known() and not isinstance(known()[node.id], ModuleType):
            raise _source(text, body).error(
                node, f"{node.id} is a function, and no argument's name; rename the argument"
            )
    names = [node for node in names if node.id not in known()]
    for node in names:
        if id(node) in called:
            raise _source(text, body).error(node, f"kernels know no function {node.id}; see vc.kernel")
    found = list(dict.fromkeys(node.id for node in sorted(names, key=lambda node: node.col_offset)))
    order = found if given is None else given.replace(",", " ").split()
    if sorted(order) != sorted(found):
        has = ", ".join(found) or "none"
        message = f"{rule}; got {has}" if rule else f"the arguments are {has}; got {', '.join(order) or 'none'}"
        raise _source(text, body).error(body, message)
    return order


def _source(text: str, body: ast.expr, arguments: Sequence[str] = ()) -> Source:
    names = ast.arguments([], [ast.arg(each) for each in arguments], None, [], [], None, [])
    return Source(_FILE, [text], 0, 0, definition(names, body))


@functools.cache
def known() -> dict[str, Any]:
    """What names that are no arguments stand for in an expression: numpy's function of the name, or else Python's."""
    own = __name__.partition(".")[0]  # whose functions are for kernels; numpy's are of Python, too, before 1.25
    functions = [each for each in FUNCTIONS if not (isinstance(each, FunctionType) and each.__module__.startswith(own))]
    functions.sort(key=lambda each: (vars(np).get(each.__name__) is each, getattr(each, "__module__", "") != "math"))
    return {each.__name__: each for each in functions} | {"math": math, "np": np}
