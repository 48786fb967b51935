"""`literal_unroll`: loops over tuples whose items differ in type, which are built once per item."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.statements import STATEMENTS
from vkcompute.frontend.unsupported import UnsupportedError


class Unrolled(tuple[Any, ...]):
    """A tuple over which a for loop is unrolled."""


def literal_unroll(container: Any) -> Any:
    """Returns the tuple; in a kernel, a loop over it takes items of different types."""
    return container


def unrolled(c: Any, value: Any) -> Unrolled:
    """Returns a tuple as one that is unrolled; arrays from outside of the kernel are constant tables.

    Raises:
        UnsupportedError: it is no tuple.
    """
    if not isinstance(value, tuple):
        raise UnsupportedError("literal_unroll takes a tuple, known at compile time; write a for loop over an array")
    line, take = c.evaluator.node.lineno, c.evaluator.captured_value
    return Unrolled(
        [
            take(value, k, f"item{k}_of_{line}", item=True) if isinstance(item, np.ndarray) else item
            for k, item in enumerate(value)
        ]
    )


def for_or_unrolled(e: Evaluator, node: ast.For) -> None:
    """Builds a for loop; the body of one over `literal_unroll(…)` once per item."""
    match node:
        case ast.For(target=ast.Name(index), iter=ast.Call(args=[ast.Call(args=[ast.Name() as name])])):
            items = e.value(name)
        case _:
            items = None
    if not isinstance(items, Unrolled):
        STATEMENTS[ast.For](e, node)
        return
    if any(isinstance(inner, (ast.Break, ast.Continue)) for part in node.body for inner in ast.walk(part)):
        raise UnsupportedError("a loop over literal_unroll(…) has no break and no continue; write an if")
    for k in range(len(items)):
        e.flow.env[index] = k
        e.block(node.body)
