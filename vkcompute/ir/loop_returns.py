"""Returns in loops without barriers become breaks, with a return after the loop."""

from __future__ import annotations

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Region, Result, exits, terminators, walk
from vkcompute.ir.types import BOOL


def move_returns_out(function: Function) -> None:
    """Moves returns out of loops before the last barrier in which no invocation waits for all others, in place."""
    ops = function.body.ops
    n = 1 + max((at for at, op in enumerate(ops) if _has_barrier(op)), default=-1)
    start = Region(ops[:n])
    _visit(Builder(function), start)
    function.body.ops[:n] = start.ops


def _visit(builder: Builder, region: Region) -> None:
    ops: list[Op] = []
    for op in region.ops:
        for inner in op.regions:
            _visit(builder, inner)
        ops.append(op)
        returns = op.code == "loop" and any(end.code == "return" for end in terminators(op.regions[0]))
        if returns and not _has_barrier(op):
            ops.append(_return_after(builder, op))
    region.ops = ops


def _return_after(builder: Builder, loop: Op) -> Op:
    """Turns the returns of a loop into breaks; returns the branch to put after it."""
    end = next(exits(loop), None)
    kinds = [] if end is None else [value.type for value in end.args]
    for region in [loop.regions[0], *[inner for op in walk(loop.regions[0]) for inner in op.regions]]:
        end = region.terminator
        if end is not None and end.code == "break" and end.attribute is loop:
            end.args = (*end.args, builder.const(False, BOOL))
        elif end is not None and end.code == "return":
            builder.rewind((region, len(region.ops) - 1))
            values = [*map(builder.zero, kinds), builder.const(True, BOOL)]
            builder.append(Op("break", None, values, loop, (), end.loc))
    returned = Result(BOOL)
    loop.results = (*(loop.results or map(Result, kinds)), returned)
    return Op("if", None, (returned,), None, (Region([Op("return", None)]), Region([Op("yield", None)])))


def _has_barrier(op: Op) -> bool:
    return any(inner.operation.through_memory for inner in walk(Region([op])))
