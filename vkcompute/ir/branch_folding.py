"""Branch folding: an `if` on a constant is replaced by the region that it takes."""

from __future__ import annotations

from vkcompute.ir.function import Constant, Function, Op, Value
from vkcompute.ir.rewriting import rewrite


def fold_branches(function: Function) -> Function:
    """Folds branches on constants, in place."""
    rewrite(function, _taken)
    return function


def _taken(op: Op, replaced: dict[Value, Value]) -> list[Op] | None:
    if op.code != "if" or not isinstance(op.args[0], Constant):
        return None
    ops = op.regions[0 if op.args[0].value else 1].ops
    if not ops or ops[-1].code != "yield":
        return ops
    replaced.update(zip(op.results, ops[-1].args, strict=False))  # unused results are not listed
    return ops[:-1]
