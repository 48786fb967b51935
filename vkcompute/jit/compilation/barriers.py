"""Barriers that some invocations of a workgroup may not reach: refused, checked at run time, or predicated."""

from __future__ import annotations

from collections.abc import Collection

from vkcompute import ir
from vkcompute.compiled.report import Reports, Site, escaped
from vkcompute.errors import KernelError
from vkcompute.ir import UINT32, Divergence, Function, Memory, Value
from vkcompute.ir.divergence import UNIFORM, UNPROVED, unproved_branches
from vkcompute.ir.function import Op, Region, walk
from vkcompute.jit.library.workgroup import DIVERGENT

_DIFFERED = (
    "only some invocations of the workgroup reach this barrier: a condition on memory or on other lanes around it "
    "differs among them; put a barrier before the condition, or vc.barrier() after the branch, at {{invocation}} of "
    "{name}{{more}}"
)
_MANY = 16  # bits of the number of invocations with a condition that is True; above them, those where it is False


def with_uniform_barriers(
    function: Function, reports: Reports | None, aliased: Collection[Memory] = (), *, in_branches: bool = False
) -> Function:
    """Returns a function whose barriers all invocations of a workgroup reach, also those that have returned.

    Args:
        function: changed in place.
        reports: take conditions that differ at run time; without them, conditions that are not proved are refused.
        aliased: buffers that may have elements in common.
        in_branches: True to make invocations that do not take a branch wait at its barriers, too.

    Raises:
        KernelError: a barrier is in control flow that differs, and `in_branches` is False.
    """
    if not any(op.operation.through_memory for op in walk(function.body)):
        return function
    ir.move_returns_out(function)
    divergence = Divergence(function, aliased=aliased)
    while divergence.level > UNIFORM and not in_branches:
        barrier, branches = divergence.barrier, unproved_branches(function, divergence)
        if divergence.level > UNPROVED or reports is None or not branches:
            assert barrier is not None
            if isinstance(barrier.loc, KernelError):
                raise barrier.loc
            break
        _agree(function, dict(branches), reports)
        divergence = Divergence(function, aliased=aliased)
    return ir.expand_warps(ir.expand_workgroup_sums(ir.predicate(function, divergence)))


def _agree(function: Function, barriers: dict[Op, Op], reports: Reports) -> None:
    """Makes the invocations of a workgroup agree about conditions, and reports those that differ."""

    def visit(region: Region) -> None:
        ops: list[Op] = []
        for op in region.ops:
            for inner in op.regions:
                visit(inner)
            if op in barriers:
                start = Region()
                with reports.builder.into(start):
                    condition = _agreed(reports, op.args[0], barriers[op])
                ops += start.ops[:-1]
                op.args = (condition,)
            ops.append(op)
        region.ops = ops

    visit(function.body)


def _agreed(reports: Reports, condition: Value, barrier: Op) -> Value:
    """Returns True if a condition holds for any invocation; a failure for those where it does not is reported."""
    b = reports.builder
    none, one, other = (b.const(number, UINT32) for number in (0, 1, 1 << _MANY))
    total = b.workgroup_sum(b.select(condition, one, other))
    holds = b.compute("ne", b.compute("and", total, b.const((1 << _MANY) - 1, UINT32)), none)
    differs = b.compute("and", holds, b.compute("not", condition))
    branch = b.if_(differs)
    with branch.then:
        text = _DIFFERED.format(name=b.function.name)
        reports.add(Site(escaped(str(barrier.loc)).replace(escaped(DIVERGENT), text), (), True), ())
    return holds
