"""Divergence analysis: values that differ within a workgroup, and barriers that only some invocations may reach.

Vulkan leaves such barriers undefined. Invocations that have returned do not count: predication (ir/predication.py)
makes them take part in later barriers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from vkcompute.ir.builtins import BUILTINS
from vkcompute.ir.function import Function, Op, Region, Value, back_edges, exits, walk
from vkcompute.ir.memory import Memory
from vkcompute.ir.workgroup_races import racing_loads

UNIFORM, UNPROVED, DIFFERS = range(3)
"""Levels. UNPROVED values come from memory or from other lanes, DIFFERS ones are computed from ids of invocations."""


class Divergence:
    """The analysis of a function.

    Uniform values are constants, push constants, uniform builtins, elements at uniform indices that no other invocation
    may write at the same time, and values computed from these.

    Args:
        function: the kernel.
        aliased: buffers that may have elements in common.

    Attributes:
        barrier: the first barrier, or other operation of all invocations, in control flow of the highest level.
        level: that level; UNIFORM if all invocations reach all barriers.
    """

    def __init__(self, function: Function, *, aliased: Collection[Memory] = ()) -> None:
        self._racing = frozenset(racing_loads(function, aliased))
        self._levels: dict[Value | Memory, int] = {}
        self._changed = True
        self.barrier: Op | None = None
        self.level = UNIFORM
        while self._changed:
            self._changed, self.barrier, self.level = False, None, UNIFORM
            self._region(function.body, UNIFORM, UNIFORM)

    def of(self, value: Value | Memory) -> int:
        """Returns the level of a value or a private array; of a loop, that of the conditions of its exits."""
        return self._levels.get(value, UNIFORM)

    def _region(self, region: Region, level: int, within: int) -> None:
        """Analyses a region.

        Args:
            level: of the control flow that leads to it.
            within: of the part of it in the innermost loop.
        """
        for op in region.ops:
            self._op(op, level, within)

    def _op(self, op: Op, level: int, within: int) -> None:
        memory = op.memory
        if op.code == "if":
            self._if(op, level, within)
        elif op.code == "loop":
            self._loop(op, level)
        elif op.code in ("break", "continue"):
            self._raise([op.attribute], within)
        elif op.operation.collective:
            if level > self.level:
                self.barrier, self.level = op, level
        elif memory is not None and memory.private:
            self._raise([op if op.operation.reads else memory], max(level, self._most((memory, *op.args))))
        elif op.has_result:
            self._raise([op], self._of_result(op))

    def _of_result(self, op: Op) -> int:
        """Returns the level of the result of a simple operation."""
        if op.code == "builtin":
            return UNIFORM if BUILTINS[op.attribute[0]].uniform else DIFFERS
        if op.operation.divergent or op in self._racing:
            return UNPROVED
        return min(self._most(op.args), UNPROVED if op.operation.reads else DIFFERS)

    def _if(self, op: Op, level: int, within: int) -> None:
        condition = self.of(op.args[0])
        for region in op.regions:
            self._region(region, max(level, condition), max(within, condition))
        ends = list(exits(op))
        self._join(op.results, ends, condition if len(ends) > 1 else UNIFORM)

    def _loop(self, op: Op, level: int) -> None:
        for param, value in zip(op.params, op.args, strict=True):
            self._raise([param], self.of(value))
        self._region(op.regions[0], max(level, self.of(op)), UNIFORM)
        self._join(op.params, list(back_edges(op)), self.of(op))
        self._join(op.results, list(exits(op)), self.of(op))

    def _join(self, values: tuple[Value, ...], predecessors: list[Op], level: int) -> None:
        for index, value in enumerate(values):
            self._raise([value], max([level, *[self.of(end.args[index]) for end in predecessors]]))

    def _most(self, values: Iterable[Value | Memory]) -> int:
        return max(map(self.of, values), default=UNIFORM)

    def _raise(self, values: Iterable[Value | Memory], level: int) -> None:
        for value in values:
            if level > self.of(value):
                self._levels[value], self._changed = level, True


def unproved_branches(function: Function, divergence: Divergence) -> list[tuple[Op, Op]]:
    """Returns the branches whose conditions decide about a barrier and are UNPROVED, each with such a barrier.

    They contain the barrier, or leave or continue a loop with one.
    """
    pairs: list[tuple[Op, Op]] = []
    for op in walk(function.body):
        if op.code == "if" and divergence.of(op.args[0]) == UNPROVED:
            inside = [inner for region in op.regions for inner in walk(region)]
            loops = [inner.attribute for inner in inside if inner.code in ("break", "continue")]
            reached = [*inside, *[inner for loop in loops for inner in walk(loop.regions[0])]]
            barrier = next((inner for inner in reached if inner.operation.collective), None)
            if barrier is not None:
                pairs.append((op, barrier))
    return pairs
