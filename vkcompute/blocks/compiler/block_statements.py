"""Statements of block programs that refuse what Triton does, or declare constants; the others are those of kernels."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from vkcompute.blocks.compiler.refusals import is_users, refuse_return, refuse_unused
from vkcompute.blocks.compiler.types import Constexpr
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.statements import STATEMENTS
from vkcompute.frontend.unsupported import UnsupportedError


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


BLOCK_STATEMENTS: dict[type[ast.AST], Callable[[Evaluator, Any], Any]] = {
    **STATEMENTS, ast.AnnAssign: _annotated, ast.Expr: _expression, ast.Return: _return,
}  # fmt: skip
