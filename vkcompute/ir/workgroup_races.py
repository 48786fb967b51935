"""Loads whose element another invocation of the workgroup may write at the same time: results can differ within it.

Barriers divide the paths through a kernel into intervals. A load races with a write of the same memory in its interval,
before it or after it, as invocations run at different speeds. Of memory that several workgroups change by atomic
operations, each load races.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from vkcompute.ir.function import Function, Op, Region, walk
from vkcompute.ir.memory import Memory

State = frozenset[Op]
"""The loads and the writes since the last barrier, on some path."""


def racing_loads(function: Function, aliased: Collection[Memory]) -> set[Op]:
    """Returns the loads that race with a write, to their memory or to one of those that may have elements in common."""
    shared = function.shared_memory
    accesses = [op for op in walk(function.body) if op.memory is not None and not op.memory.private]
    written = [op for op in accesses if op.operation.writes]
    races = _Races(aliased, written)
    if written:
        races.region(function.body, frozenset())
    atomic = {races.array(op) for op in written if op.code != "store" and op.memory not in shared}
    return races.loads | {op for op in accesses if op.code == "load" and races.array(op) in atomic}


class _Races:
    """The loads that race, in the regions so far.

    Args:
        aliased: memories that may have elements in common.
        written: the writes of the kernel.
    """

    def __init__(self, aliased: Collection[Memory], written: Iterable[Op]) -> None:
        self._aliased = aliased
        self._written = {self.array(op) for op in written}
        self._ends: dict[tuple[Op, str], State] = {}  # at the breaks and continues of a loop
        self.loads = set[Op]()

    def array(self, op: Op) -> Memory | None:
        """The memory of an access; None for all that are aliased."""
        return None if op.memory in self._aliased else op.memory

    def region(self, region: Region, state: State) -> State | None:
        """Returns the state at the end of a region; None if control does not reach it."""
        for op in region.ops:
            if op.code in ("break", "continue"):
                key = op.attribute, op.code
                self._ends[key] = self._ends.get(key, frozenset()) | state
                return None
            if op.code in ("return", "unreachable"):
                return None
            after = self._op(op, state)
            if after is None:
                return None
            state = after
        return state

    def _op(self, op: Op, state: State) -> State | None:
        if op.code == "if":
            return _union([self.region(inner, state) for inner in op.regions])
        if op.code == "loop":
            return self._loop(op, state)
        if op.code in ("barrier", "workgroup_sum"):
            return frozenset()
        if op.memory is None or op.memory.private or self.array(op) not in self._written:
            return state
        return self._access(op, state) if op.operation.reads or op.operation.writes else state

    def _loop(self, loop: Op, state: State) -> State | None:
        before = None
        while before != state:  # until another iteration adds nothing
            before = state
            state = _union([state, self.region(loop.regions[0], state), self._ends.get((loop, "continue"))]) or state
        return self._ends.get((loop, "break"))

    def _access(self, op: Op, state: State) -> State:
        for other in state:
            if self.array(other) is self.array(op) and (op.operation.writes or other.operation.writes):
                self.loads |= {access for access in (op, other) if not access.operation.writes}
        return state | {op}


def _union(states: Iterable[State | None]) -> State | None:
    known = [state for state in states if state is not None]
    return frozenset().union(*known) if known else None
