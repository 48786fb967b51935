"""A check of kernels: barriers separate accesses to workgroup memory by several invocations.

All of workgroup memory counts as one array, and each access as one of all its elements: exchanges take turns in it, and
each waits for those before. A kernel may be in order without that rule, but block programs keep it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from vkcompute import ir
from vkcompute.ir import Function
from vkcompute.ir.function import Op, Region, walk
from vkcompute.ir.types import Matrix
from vkcompute.spirv.interface import Interface, InterfaceBlock, Member
from vkcompute.spirv.module import Module
from vkcompute.spirv.reflection import reflect

READ, WRITTEN, READ_BY_SUBGROUP, WRITTEN_BY_SUBGROUP, IN_SUBGROUP = range(5)
"""What has happened on some path since the last barrier; IN_SUBGROUP: each subgroup accesses a part of its own."""
State = frozenset[int]
LOOP_CUTS = "exited"
"""The array by which kernels detect that a driver cuts loops; each invocation writes an element of its own."""


def verify_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has every kernel of block programs verified, and the interface of its module compared with its reflection."""
    lower = ir.lower

    def checked(function: Function, *target: ir.Target) -> ir.KernelModule:
        ir.verify(function)
        check_barriers(function)
        result = lower(function, *target)
        missing = target[0].missing_types if target else ()
        assert in_words(result.interface, missing) == reflect(Module.parse(result.spirv))
        return result

    monkeypatch.setattr(ir, "lower", checked)


def in_words(interface: Interface, missing: Collection[str]) -> Interface:
    """The interface of a module that declares parameters of these types of 64 bits as vectors of two words."""

    def members(block: InterfaceBlock) -> tuple[Member, ...]:
        return tuple(
            replace(member, dtype="uint32", shape=(2,), strides_bytes=(4,))
            if member.dtype in missing and member.nbytes == 8
            else member
            for member in block.members
        )

    def block_in_words(block: InterfaceBlock | None) -> InterfaceBlock | None:
        return None if block is None else replace(block, members=members(block))

    bindings = [
        replace(binding, block=block_in_words(binding.block)) if binding.kind == "uniform_buffer" else binding
        for binding in interface.bindings
    ]
    return replace(interface, push_constants=block_in_words(interface.push_constants), bindings=tuple(bindings))


def check_barriers(function: Function) -> None:
    """Checks all paths of a kernel.

    Raises:
        AssertionError: an access may come before those of other invocations that it needs, or overwrite what they read.
    """
    codes = {op.code for op in walk(function.body)}
    _Check(subgroups="barrier" in codes).region(function.body, frozenset())


class _Check:
    """The check of one kernel.

    Args:
        subgroups: True if a workgroup has several, so that a barrier of a subgroup orders its own accesses only.
    """

    def __init__(self, *, subgroups: bool) -> None:
        self._subgroups = subgroups
        self._ends: dict[tuple[Op, str], set[State]] = {}  # at the breaks and continues of a loop

    def region(self, region: Region, state: State) -> State | None:
        """Returns the state at the end of a region; None if its last operation leaves it."""
        for op in region.ops:
            if op.code in ("break", "continue"):
                self._ends.setdefault((op.attribute, op.code), set()).add(state)
                return None
            if op.code in ("return", "unreachable"):
                return None
            result = self._operation(op, state)
            if result is None:
                return None
            state = result
        return state

    def _operation(self, op: Op, state: State) -> State | None:
        if op.code == "if":
            return _union([self.region(region, state) for region in op.regions])
        if op.code == "loop":
            return self._loop(op, state)
        if op.code == "barrier" or (op.code == "subgroup_barrier" and not self._subgroups):
            return frozenset()
        if op.code == "subgroup_barrier":
            return state & {READ, WRITTEN} | {IN_SUBGROUP}
        if op.memory is None or op.memory.length is None or op.memory.private or op.memory.name == LOOP_CUTS:
            return state
        return self._accessed(op, state)

    def _loop(self, op: Op, state: State) -> State | None:
        while True:
            end = self.region(op.regions[0], state)
            again = _union([state, end, *self._ends.pop((op, "continue"), set())])
            if again is None or again == state:
                return _union(self._ends.pop((op, "break"), set()))
            state = again

    def _accessed(self, op: Op, state: State) -> State:
        of_sums = op.code == "store_matrix" or (isinstance(getattr(op, "type", None), Matrix) and op.type.use == "sums")
        own = IN_SUBGROUP in state
        assert own or not of_sums or not self._subgroups, (
            f"{op.code} of {op.memory} without a barrier of the subgroup before"
        )
        if op.operation.writes:
            wrong = {READ, READ_BY_SUBGROUP} | ({WRITTEN} if own else {WRITTEN_BY_SUBGROUP})
            new = WRITTEN_BY_SUBGROUP if own else WRITTEN
        else:
            wrong = {WRITTEN, WRITTEN_BY_SUBGROUP}
            new = READ_BY_SUBGROUP if own else READ
        assert not state & wrong, f"{op.code} of {op.memory.name} after {sorted(state)} at {op.loc}"
        return state | {new}


def _union(states: Collection[State | None]) -> State | None:
    """Returns what may have happened where paths join; None if none arrives."""
    known = [state for state in states if state is not None]
    return frozenset().union(*known) if known else None
