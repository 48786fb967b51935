"""Values that a driver's compiler would compute again at each use behind a barrier."""

from __future__ import annotations

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Region, Value, walk
from vkcompute.ir.rewriting import expand

_BARRIERS = "barrier", "subgroup_barrier"


def prevent_recomputation(function: Function) -> Function:
    """Passes each computed value that lives across a barrier through a shuffle from the own lane, in place.

    LLVM stores a shuffle's result, as it stores what is loaded, and computes again what depends on operands alone.
    """
    if not _has_barrier(function.body):
        return function
    crossing = _Crossing()
    crossing.visit(function.body)

    def shuffled(b: Builder, op: Op) -> Value:
        copies: dict[Value, Value] = {}
        b.copy(op, copies)
        return b.subgroup("shuffle", copies[op], b.builtin("subgroup_local_id"))

    return expand(function, lambda op: op in crossing.values, shuffled)


class _Crossing:
    """Finds the computed values that are used behind a barrier after them.

    A loop with a barrier counts as having one more at its start, which stands for those of the iteration before.

    Attributes:
        values: those found.
    """

    def __init__(self) -> None:
        self.values = set[Value]()
        self._n_barriers = 0
        self._n_before: dict[Value, int] = {}  # computed value -> number of barriers before it

    def visit(self, region: Region) -> None:
        """Visits the operations of a region."""
        for op in region.ops:
            n = self._n_barriers
            self.values.update([value for value in op.args if self._n_before.get(value, n) < n])
            if op.code in _BARRIERS or (op.code == "loop" and _has_barrier(op.regions[0])):
                self._n_barriers += 1
            for inner in op.regions:
                self.visit(inner)
            if op.has_result and op.args and op.operation.repeatable:
                self._n_before[op] = n


def _has_barrier(region: Region) -> bool:
    return any(op.code in _BARRIERS for op in walk(region))
