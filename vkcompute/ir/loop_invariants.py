"""Loop-invariant code motion (LICM)."""

from __future__ import annotations

from vkcompute.ir.function import Function, Op, Region, Value


def hoist_loop_invariants(function: Function) -> Function:
    """Moves loop-invariant operations in front of their loops, in place; of nested loops, as far out as possible."""
    _visit(function.body, set(), None)
    return function


def _visit(region: Region, defined: set[Value], hoisted: list[Op] | None) -> None:
    """Moves the invariant operations of the innermost loop to `hoisted`, which is None outside of loops.

    Args:
        defined: the values defined in that loop so far; the region's are added.
    """
    kept: list[Op] = []

    def hoist(op: Op) -> None:
        movable = op.operation.repeatable and not op.operation.may_trap
        if hoisted is None or not movable or defined.intersection(op.args):
            kept.append(op)
            defined.update((op, *op.results))
        else:
            hoisted.append(op)

    for op in region.ops:
        if op.code == "loop":
            for invariant in _invariants(op, defined):
                hoist(invariant)
        else:
            for inner in op.regions:
                _visit(inner, defined, hoisted)
        hoist(op)
    region.ops = kept


def _invariants(loop: Op, defined: set[Value]) -> list[Op]:
    """Removes and returns the invariant operations of a loop; adds the values defined in it to `defined`."""
    invariants: list[Op] = []
    body: set[Value] = {*loop.params}
    _visit(loop.regions[0], body, invariants)
    defined |= body
    return invariants
