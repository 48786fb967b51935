"""Elimination of operations that are unused, equal to one before, or in a branch that is never taken."""

from __future__ import annotations

from vkcompute.ir.function import Constant, Function, Op, Region, Value, walk
from vkcompute.ir.rewriting import rewrite


def eliminate_dead_code(function: Function) -> Function:
    """Removes operations without an effect whose results are unused, in place: dead-code elimination (DCE)."""
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


def eliminate_common_subexpressions(function: Function) -> Function:
    """Replaces operations by an equal one that dominates them, in place (CSE)."""
    replaced: dict[Value, Value] = {}
    available: dict[object, Op] = {}

    def visit(region: Region) -> None:
        kept, known = [], len(available)
        for op in region.ops:
            if not replaced.keys().isdisjoint(op.args):
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
