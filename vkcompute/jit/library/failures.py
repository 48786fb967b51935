"""`raise` and `assert` in kernels: the invocation ends, and the host raises the exception after the launch."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from vkcompute.compiled.report import escaped
from vkcompute.frontend.control_flow import nothing
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.jit.frontend.compiler import KERNEL_STATEMENTS, Compiler
from vkcompute.jit.frontend.values import Number
from vkcompute.jit.library.printing import template


def _raise(e: Evaluator, node: ast.Raise) -> None:
    """Ends the invocation with an exception."""
    if node.exc is None:
        raise UnsupportedError("raise takes an exception in a kernel, which has no try; write raise ValueError(text)")
    call = node.exc if isinstance(node.exc, ast.Call) else ast.Call(node.exc, [], [])
    if call.keywords:
        raise UnsupportedError("an exception takes no keywords in a kernel; pass a text")
    given = e.value(call.func)
    name = _builtin(given)
    prefix = [] if given.__name__ == name else [given.__name__]
    _fail(e, name, prefix, call.args)


def _assert(e: Evaluator, node: ast.Assert) -> None:
    """Ends the invocation with AssertionError where a condition is false."""

    def fail() -> None:
        _fail(e, "AssertionError", [], [] if node.msg is None else [node.msg])

    e.flow.if_(e.value(node.test), nothing, fail, e.here(node))


def _fail(e: Evaluator, name: str, prefix: list[str], args: list[ast.expr]) -> None:
    values: list[Number] = []
    text = ", ".join([template(e, arg, values) for arg in args])
    assert isinstance(e.language, Compiler), "only kernels have these statements"
    e.language.report(": ".join([*map(escaped, prefix), text] if text else prefix), values, fails=True, error=name)
    e.flow.end()


def _builtin(given: Any) -> str:
    """Returns the name of Python's own exception that a class is or derives from."""
    if not (isinstance(given, type) and issubclass(given, Exception)):
        raise UnsupportedError(f"raise takes an exception; got {given!r}; write raise ValueError(text)")
    for base in given.__mro__:
        name: str = base.__name__
        if getattr(builtins, name, None) is base and not issubclass(base, UnicodeError):
            return name
    raise UnsupportedError(f"a kernel cannot raise {given.__name__}; write raise ValueError(text)")


KERNEL_STATEMENTS[ast.Raise] = _raise
KERNEL_STATEMENTS[ast.Assert] = _assert
