"""Loops over tuples that no variable indexes, as those of arrays: their body is built once per item."""

from __future__ import annotations

import ast
from copy import deepcopy

from vkcompute.frontend.desugaring import leaves_loop
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.statements import STATEMENTS
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.jit.frontend.compiler import KERNEL_STATEMENTS, Compiler


def for_or_unrolled(e: Evaluator, node: ast.For) -> None:
    """Builds a for loop."""
    assert isinstance(e.language, Compiler), "only kernels have these statements"
    length = _length(e, e.language, node)
    if length is None:
        STATEMENTS[ast.For](e, node)
        return
    if any(map(leaves_loop, node.body)):
        raise UnsupportedError("a loop over a tuple of arrays or of several types has no break and no continue; use if")
    bodies = [deepcopy(node.body) for _ in range(length)]
    e.language.unrolled(node, bodies)
    for index, body in enumerate(bodies):
        e.flow.env[node.target.id] = index  # type: ignore[attr-defined]
        e.block(body)
        if not e.flow.alive:
            return
    e.block(node.orelse)


def _length(e: Evaluator, c: Compiler, node: ast.For) -> int | None:
    """Returns the number of items of an unrolled loop; None for another loop.

    A loop over a sequence begins with an assignment of an item, and has one argument of range, its length.
    """
    match node:
        case ast.For(ast.Name(index), ast.Call(args=[length]), [ast.Assign(value=item), *_]) if " " in index:
            items = [part for part in ast.walk(item) if isinstance(part, ast.Subscript) and _is_hidden(part.value)]
            if any(c.unrolls(e.value(part.value)) for part in items):
                n = e.value(length)
                return n if type(n) is int else None
    return None


def _is_hidden(node: ast.expr) -> bool:
    """True for a variable that no program can name."""
    return isinstance(node, ast.Name) and " " in node.id


KERNEL_STATEMENTS[ast.For] = for_or_unrolled
