"""Dead-code elimination (DCE)."""

from __future__ import annotations

from vkcompute.ir.function import Function, Region, Value, walk


def eliminate_dead_code(function: Function) -> Function:
    """Removes operations without an effect whose results are unused, in place."""
    remove_unused(function.body)
    return function


def remove_unused(region: Region) -> None:
    """Removes operations without an effect whose results are unused from a region, in place.

    Operands of terminators count as used. So one walk from the end meets each use before its definition, except those
    of loop-carried values, which are such operands.
    """
    used: set[Value] = {value for op in walk(region) if op.operation.terminator for value in op.args}

    def visit(region: Region) -> None:
        kept = []
        for op in reversed(region.ops):
            if op.operation.effect or op in used or not used.isdisjoint(op.results):
                for inner in op.regions:
                    visit(inner)
                used.update(op.args)
                kept.append(op)
        region.ops = kept[::-1]

    visit(region)
