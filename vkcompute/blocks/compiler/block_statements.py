"""Statements of block programs that refuse what Triton does, or declare constants; the others are those of kernels."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from vkcompute.blocks.compiler.refusals import (
    constants_of,
    demand_bool,
    is_users,
    kept_constants,
    refuse_return,
    refuse_unused,
)
from vkcompute.blocks.compiler.types import Constexpr
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.statements import STATEMENTS
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.jit.frontend.values import is_static


def _expression(e: Evaluator, node: ast.Expr) -> None:
    refuse_unused(e, node.value)
    STATEMENTS[ast.Expr](e, node)


def _annotated(e: Evaluator, node: ast.AnnAssign) -> None:
    """Assigns a value; one annotated as tl.constexpr stays a constant, and may be declared without a value."""
    if e.value(node.annotation) is not Constexpr:
        STATEMENTS[ast.AnnAssign](e, node)
        return
    name, function = ast.unparse(node.target), e.frames[-1].function
    if node.value is None:
        e.language.declared.add((function, name))  # type: ignore[attr-defined]
    else:
        if name in e.flow.env and is_users(e.frames[-1]):
            raise UnsupportedError(f"{name} is already defined; a constexpr cannot be reassigned; take another name")
        e.flow.assign(name, e.value(node.value))


def _return(e: Evaluator, node: ast.Return) -> None:
    refuse_return(e)
    STATEMENTS[ast.Return](e, node)


class Condition(ast.expr):
    """The condition of a while loop or of a branch in a function of users."""

    _fields = ("test",)

    def __init__(self, node: ast.While | ast.If) -> None:
        super().__init__()
        self.test, self.node = node.test, node
        ast.copy_location(self, node.test)


def condition(c: Any, node: Any) -> Any:
    """Evaluates a condition. That of a loop is a bool; a branch on a number of the device assigns to no constant."""
    value = c.evaluator.value(node.test)
    if isinstance(node.node, ast.While):
        demand_bool(value)
    elif not is_static(value):
        e: Evaluator = c.evaluator
        e.flow.scopes[-1].constants |= constants_of(e, [*node.node.body, *node.node.orelse], is_loop=False)
    return value


@lru_cache(maxsize=256)
def _checked(node: ast.While | ast.If) -> ast.While | ast.If:
    """Returns a loop or branch whose condition is checked."""
    return ast.copy_location(type(node)(Condition(node), node.body, node.orelse), node)


def _while(e: Evaluator, node: ast.While) -> None:
    with kept_constants(e, constants_of(e, node.body, is_loop=True)):
        _conditional(e, node)


def _conditional(e: Evaluator, node: ast.While | ast.If) -> None:
    if not is_users(e.frames[-1]):
        STATEMENTS[type(node)](e, node)
        return
    with kept_constants(e, {}):
        STATEMENTS[type(node)](e, _checked(node))


BLOCK_STATEMENTS: dict[type[ast.AST], Callable[[Evaluator, Any], Any]] = {
    **STATEMENTS, ast.AnnAssign: _annotated, ast.Expr: _expression, ast.If: _conditional, ast.Return: _return,
    ast.While: _while,
}  # fmt: skip
