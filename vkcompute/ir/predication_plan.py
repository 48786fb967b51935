"""The plan of a predication: what all invocations of a workgroup do, also those that have returned."""

from __future__ import annotations

from collections import defaultdict

from vkcompute.ir.divergence import UNIFORM, Divergence
from vkcompute.ir.function import Function, Op, Param, Region, Result, Value, back_edges, exits, terminators, walk
from vkcompute.ir.memory import Memory


class PredicationPlan:
    """Branches and loops that all invocations go through, and the values that decide about their ways.

    Args:
        function: without returns in loops that have no barriers.

    Attributes:
        n_ops: number of operations of the body up to the last with a barrier; the others need no predication.
        structural: branches and loops that all invocations go through.
        needed: operations that invocations that have returned perform, too, as structural conditions depend on them.
        loads: True if they depend on elements or on other invocations, and are undefined once all have returned.
        users: by value, the operations with it as an operand.
    """

    def __init__(self, function: Function, divergence: Divergence) -> None:
        self._divergence = divergence
        self.structural: set[Op] = set()
        self.needed: set[Value | Memory] = set()
        self.loads = False
        self.users: dict[Value, list[Op]] = defaultdict(list)
        self._owners: dict[Op | Param | Result, Op | None] = {}
        self._writes: dict[Memory, list[Op]] = defaultdict(list)
        self._index(function.body, None)
        has_barrier = [any(map(_collective, [op, *_inside(op)])) for op in function.body.ops]
        self.n_ops = 1 + max((at for at, has in enumerate(has_barrier) if has), default=-1)
        for op in function.body.ops[: self.n_ops]:
            self._find(op)
        for op in list(self.structural):
            self._demand(op)

    @property
    def is_needed(self) -> bool:
        """True if some invocations may return before a barrier, or not reach an operation of their warp."""
        return not all(map(self.is_real, self.structural))

    def is_real(self, op: Op) -> bool:
        """True if all invocations go the same way through a branch or a loop, so that it remains one."""
        if op.code == "loop":
            return self._divergence.of(op) == UNIFORM
        ends = [end for region in op.regions for end in terminators(region) if end.code in ("break", "continue")]
        inside = {inner for inner in _inside(op) if inner.code == "loop"}
        return self._divergence.of(op.args[0]) == UNIFORM and all(
            end.attribute in inside or self.is_real(end.attribute) for end in ends
        )

    def returns(self, op: Op) -> bool:
        """True if an invocation may return in a branch or a loop."""
        return any(end.code == "return" for region in op.regions for end in terminators(region))

    def leaves(self, op: Op) -> bool:
        """True if an invocation may not reach the end of a branch."""
        inside = {op, *_inside(op)}
        ends = [end for region in op.regions for end in terminators(region)]
        return any(end.code == "return" or (end.code != "yield" and end.attribute not in inside) for end in ends)

    def _index(self, region: Region, owner: Op | None) -> None:
        for op in region.ops:
            self._owners[op] = owner
            self._owners.update(dict.fromkeys((*op.params, *op.results), op))
            for value in op.args:
                self.users[value].append(op)
            if op.memory is not None and op.operation.writes:
                self._writes[op.memory].append(op)
            for inner in op.regions:
                self._index(inner, op)

    def _find(self, op: Op) -> None:
        """Notes an operation as structural if it must be, and those inside it."""
        inside = _inside(op)
        waits = bool(op.regions) and any(map(_collective, inside))
        leaves = any(inner.code == "return" or self._leaves_structural(inner) for inner in inside)
        if waits or (op.code == "if" and leaves):
            self.structural.add(op)
        for region in op.regions if op in self.structural else ():
            for inner in region.ops:
                self._find(inner)

    def _leaves_structural(self, op: Op) -> bool:
        return op.code in ("break", "continue") and op.attribute in self.structural

    def _demand(self, op: Op) -> None:
        """Notes what decides about the ways through a structural operation."""
        if op.code == "if" and self.is_real(op):
            self._need(op.args[0])

    def _add(self, op: Op | None) -> None:
        """Makes an operation structural, and those around it."""
        if op is None or op in self.structural:
            return
        self.structural.add(op)
        self._add(self._owners[op])
        self._demand(op)
        for inner in _inside(op) if op.code == "loop" else ():
            if inner.code == "if" and any(end.attribute is op for part in inner.regions for end in terminators(part)):
                self._add(inner)

    def _need(self, value: Value) -> None:
        if value in self.needed or not isinstance(value, (Op, Param, Result)):
            return
        self.needed.add(value)
        owner = self._owners[value]
        if isinstance(value, Op):
            if value.operation.through_memory:
                self.loads = True  # it counts nobody where all have returned
            else:
                self._need_op(value, owner)
        elif owner is not None:
            self._add(owner)
            if isinstance(value, Param):
                at = owner.params.index(value)
                self._need(owner.args[at])
            else:
                at = owner.results.index(value)
            for end in list((back_edges if isinstance(value, Param) else exits)(owner)):
                self._need(end.args[at])

    def _need_op(self, op: Op, owner: Op | None) -> None:
        self.needed.add(op)
        self._add(owner)
        for value in op.args:
            self._need(value)
        memory = op.memory
        if memory is None or not op.operation.reads:
            return
        if not memory.private:
            self.loads = True
        elif memory not in self.needed:
            self.needed.add(memory)
            for write in self._writes[memory]:
                self._need_op(write, self._owners[write])


def _collective(op: Op) -> bool:
    return op.operation.through_memory


def _inside(op: Op) -> list[Op]:
    return [inner for region in op.regions for inner in walk(region)]
