"""Functions given as an expression in a string, as a lambda or as a Python function."""

from __future__ import annotations

import ast
import cmath
import functools
import math
from collections.abc import Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from vkcompute.compiled.arguments import suggestion
from vkcompute.frontend.source import Definition, Source, definition_of, function_def
from vkcompute.frontend.syntax import parse_expression
from vkcompute.jit.frontend.intrinsics import INTRINSICS
from vkcompute.jit.frontend.other_words import in_kernels, in_syntax
from vkcompute.jit.library import catalog  # noqa: F401
from vkcompute.operations.host import OWN

_FILE = "<expression>"
_OF_COMPLEX = {complex, np.complex64, np.complex128, np.real, np.imag, np.angle, np.conjugate} | {
    function for function in vars(cmath).values() if callable(function)
}
"""Functions of complex numbers, which expressions have not: arguments may be named after them, as `real`."""
_NUMBERED = frozenset(["i0", "i1", "j0", "j1", "k0", "k1", "y0", "y1"])
"""Functions that are known by what numbered arguments are called as well: without a call they are arguments."""


def function_of(given: Any, what: str, arguments: str | None = None, rule: str = "") -> Definition:
    """Returns the definition of a Python function, a lambda, or an expression in a string.

    Args:
        what: description of the function, for errors.
        arguments: names of the arguments of an expression, in order.
        rule: the rule for these names, for errors.

    Raises:
        TypeError: it is neither a function nor an expression.
        KernelError: no source is found, or the string is not an expression.
    """
    if isinstance(given, str):
        return _parsed(given, arguments, rule)
    if isinstance(definition := getattr(given, "definition", None), Definition):  # made by vc.vectorize
        return definition
    if not isinstance(given, FunctionType) or arguments is not None:
        remedy = "; write a lambda that calls it" if callable(given) else ""
        raise TypeError(f"{what} is a function written in Python or an expression; got {type(given).__name__}{remedy}")
    return definition_of(given, what)


def _parsed(given: str, arguments: str | None, rule: str) -> Definition:
    """Makes a function that returns the expression. Python never runs it: the compiler reads its tree."""
    text = " ".join(given.split())
    try:
        body = parse_expression(text)
        order = _arguments(text, body, arguments, rule)
        source = _source(text, body, order)
        tree = ast.copy_location(ast.Expression(ast.Lambda(source.tree.args, body)), body)
        code = compile(ast.fix_missing_locations(tree), _FILE, "eval").co_consts[0]
    except SyntaxError as error:
        end = ast.Constant(None, lineno=1, col_offset=(error.offset or len(text) + 1) - 1)
        raise _source(text, end).error(end, f"this is not an expression: {error.msg}{in_syntax(text)}") from None
    except (MemoryError, RecursionError):  # the parser raises MemoryError
        start = ast.Constant(None, lineno=1, col_offset=0)
        raise _source(text, start).error(
            start, "this is nested too deeply; write a function for vc.vectorize"
        ) from None
    return Definition(FunctionType(code, known(), text), source)


def _arguments(text: str, body: ast.expr, given: str | None, rule: str) -> list[str]:
    """Returns the arguments of an expression, in order of appearance or as `given`."""
    called = {id(node.func) for node in ast.walk(body) if isinstance(node, ast.Call)}
    names = [node for node in ast.walk(body) if isinstance(node, ast.Name)]
    numbered = _NUMBERED.difference([node.id for node in names if id(node) in called])
    others = known().keys() - numbered
    for node in names:
        if id(node) not in called and node.id in others and not isinstance(known()[node.id], ModuleType):
            raise _source(text, body).error(
                node, f"{node.id} is a function, and cannot be the name of an argument; rename the argument"
            )
    names = [node for node in names if node.id not in others]
    for node in names:
        if id(node) in called:
            hint = in_kernels(node.id) or suggestion(node.id, known()) or "; see vc.kernel"
            raise _source(text, body).error(node, f"kernels have no function {node.id}{hint}")
    arguments = list(dict.fromkeys(node.id for node in sorted(names, key=lambda node: node.col_offset)))
    order = arguments if given is None else given.replace(",", " ").split()
    if sorted(order) != sorted(arguments):
        has = ", ".join(arguments) or "none"
        message = f"{rule}; got {has}" if rule else f"the arguments are {has}; got {', '.join(order) or 'none'}"
        raise _source(text, body).error(body, message)
    return order


def _source(text: str, body: ast.expr, arguments: Sequence[str] = ()) -> Source:
    names = ast.arguments([], [ast.arg(argument) for argument in arguments], None, [], [], None, [])
    return Source(_FILE, [text], 0, 0, function_def(names, body))


@functools.cache
def known() -> dict[str, Any]:
    """Returns the namespace of expressions: numpy's functions, or Python's for names that numpy lacks."""
    own = __name__.partition(".")[0]  # its functions are left out; numpy's are FunctionType, too, before 1.25
    foreign = [fn for fn in INTRINSICS if not (isinstance(fn, FunctionType) and fn.__module__.startswith(own))]
    foreign = [fn for fn in [*foreign, *OWN.values()] if fn not in _OF_COMPLEX]
    foreign.sort(key=lambda fn: (vars(np).get(fn.__name__) is fn, getattr(fn, "__module__", "") != "math"))
    return {fn.__name__: fn for fn in foreign} | {"math": math, "np": np}
