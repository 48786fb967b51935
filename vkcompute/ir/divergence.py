"""Divergence analysis: barriers that only some invocations of a workgroup may reach, which Vulkan leaves undefined."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from vkcompute.ir.builtins import BUILTINS
from vkcompute.ir.function import Function, Op, Region, Value, back_edges, exits, walk
from vkcompute.ir.memory import Memory
from vkcompute.ir.workgroup_races import racing_loads


def divergent_barrier(function: Function, *, aliased: Collection[Memory] = ()) -> Op | None:
    """The first barrier that is not proven to be in workgroup-uniform control flow.

    Args:
        function: the kernel.
        aliased: buffers that may have elements in common.

    Uniform values are constants, push constants, uniform builtins, elements at uniform indices that no other invocation
    may write at the same time, and values computed from these.
    """
    if not any(op.code == "barrier" for op in walk(function.body)):
        return None
    analysis = _Divergence(racing_loads(function, aliased))
    while analysis.changed:
        analysis.changed, analysis.returned, analysis.barrier = False, False, None
        analysis.region(function.body, False, ())
    return analysis.barrier


class _Divergence:
    """The state of the analysis, which is iterated to a fixed point.

    Args:
        sources: operations whose results may differ although their operands do not.

    Attributes:
        divergent: values, private arrays, and loops that invocations leave or continue at different times.
        returned: True if some invocations may have returned and others not.
        barrier: the first divergent barrier.
        changed: True if the last iteration has found a divergent value.
    """

    def __init__(self, sources: Iterable[Op]) -> None:
        self._sources = frozenset(sources)
        self.divergent: set[Value | Memory] = set()
        self.returned, self.changed = False, True
        self.barrier: Op | None = None

    def region(self, region: Region, divergent: bool, loops: tuple[Op, ...]) -> None:
        """Analyses a region in `loops`; `divergent` if only some invocations may enter it."""
        for op in region.ops:
            self._op(op, divergent or self.returned, loops)

    def _op(self, op: Op, divergent: bool, loops: tuple[Op, ...]) -> None:
        memory = op.memory
        if op.code == "if":
            self._if(op, divergent, loops)
        elif op.code == "loop":
            self._loop(op, divergent, loops)
        elif memory is not None and memory.private:
            if divergent or not self.divergent.isdisjoint((memory, *op.args)):
                self._mark(op if op.operation.reads else memory)
        elif op.has_result:
            if op not in self.divergent and (
                op in self._sources or _is_source(op) or not self.divergent.isdisjoint(op.args)
            ):
                self._mark(op)
        elif divergent and op.code == "barrier":
            self.barrier = self.barrier or op
        elif divergent and op.code in ("break", "continue"):
            self._mark(op.attribute)
        elif divergent and op.code == "return":
            self.returned = True
            self._mark(*loops)

    def _if(self, op: Op, divergent: bool, loops: tuple[Op, ...]) -> None:
        differs = op.args[0] in self.divergent
        before = self.returned
        after = before
        for region in op.regions:
            self.returned = before
            self.region(region, divergent or differs, loops)
            after |= self.returned
        self.returned = after
        self._join(op.results, list(exits(op)), differs)

    def _loop(self, op: Op, divergent: bool, loops: tuple[Op, ...]) -> None:
        for param, value in zip(op.params, op.args, strict=True):
            if value in self.divergent:
                self._mark(param)
        self.region(op.regions[0], divergent or op in self.divergent, (*loops, op))
        self._join(op.params, list(back_edges(op)), op in self.divergent)
        self._join(op.results, list(exits(op)), op in self.divergent)

    def _join(self, values: tuple[Value, ...], predecessors: list[Op], divergent: bool) -> None:
        for index, value in enumerate(values):
            if divergent or any(end.args[index] in self.divergent for end in predecessors):
                self._mark(value)

    def _mark(self, *values: Value | Memory) -> None:
        self.changed |= not self.divergent.issuperset(values)
        self.divergent.update(values)


def _is_source(op: Op) -> bool:
    """True if invocations may have different results although the operands are uniform."""
    if op.code == "builtin":
        return not BUILTINS[op.attribute[0]].uniform
    return op.operation.divergent
