"""Common-subexpression elimination (CSE)."""

from __future__ import annotations

from vkcompute.ir.function import Function, Op, Region, Value


def eliminate_common_subexpressions(function: Function) -> Function:
    """Replaces operations by an equal one that dominates them, in place."""
    replaced: dict[Value, Value] = {}
    available: dict[object, Op] = {}

    def visit(region: Region) -> None:
        kept, known = [], len(available)
        for op in region.ops:
            if replaced:
                op.args = tuple([replaced.get(value, value) for value in op.args])
            if op.operation.repeatable:
                args = tuple(sorted(op.args, key=id)) if op.operation.commutative else op.args
                first = available.setdefault((op.code, args, op.attribute), op)
                if first is not op:
                    replaced[op] = first
                    continue
            kept.append(op)
            for inner in op.regions:
                visit(inner)
        region.ops = kept
        while len(available) > known:  # what the region has added does not dominate what follows it
            available.popitem()

    visit(function.body)
    return function
