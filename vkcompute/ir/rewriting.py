"""Replacement of operations by others, in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Region, Value, falls_through, walk
from vkcompute.ir.memory import Memory

Replace = Callable[[Op, dict[Value, Value]], list[Op] | None]
"""(operation, replaced values) -> the operations to put in its place, None to keep it.

Adds the values that replace its results to the dictionary. The operations may end with a terminator.
"""


def rewrite(function: Function, replace: Replace) -> None:
    """Replaces operations, inner regions first, and removes operations that become unreachable."""
    replaced: dict[Value, Value] = {}

    def visit(region: Region) -> None:
        kept: list[Op] = []
        for op in region.ops:
            if not replaced.keys().isdisjoint(op.args):
                op.args = tuple([replaced.get(value, value) for value in op.args])
            for inner in op.regions:
                visit(inner)
            ops = replace(op, replaced)
            if ops is None:
                kept.append(op)
            else:
                kept += ops
            if kept and kept[-1].operation.terminator:
                break
            if kept and kept[-1].regions and not falls_through(kept[-1]):
                kept += [] if region is function.body else [Op("unreachable", None)]
                break
        region.ops = kept

    visit(function.body)


def replace_memories(function: Function, memories: Mapping[Memory | None, Memory]) -> None:
    """Declares other memories in place of a function's, in place; the caller replaces the accesses."""
    for declared in (function.buffers, function.shared_memory):
        declared[:] = [memories.get(memory, memory) for memory in declared]
    function.aliased = frozenset([memories.get(memory, memory) for memory in function.aliased])


def expand(function: Function, chosen: Callable[[Op], bool], build: Callable[[Builder, Op], Value | None]) -> Function:
    """Replaces each chosen operation by those that `build` appends; it returns the new result, if there is one."""
    if not any(map(chosen, walk(function.body))):
        return function
    builder = Builder(function)

    def replace(op: Op, replaced: dict[Value, Value]) -> list[Op] | None:
        if not chosen(op):
            return None
        region = Region()
        with builder.into(region), builder.at(op.loc):
            replacement = build(builder, op)
        if replacement is not None:
            replaced[op] = replacement
        return region.ops[:-1]  # without the terminator

    rewrite(function, replace)
    return function
