"""Predication: invocations that have returned take part in later barriers, and do nothing else.

All invocations of a workgroup go through the branches and loops with barriers. Each has a mask, which is False once it
has returned; other operations are in branches on the mask. Conditions of branches and loops that all go through depend
on uniform values only, which invocations that have returned compute, too.

Branches and loops through which invocations go different ways are linearized: their parts follow each other, each with
the mask of its invocations. A loop then ends when no invocation is left in it.
"""

from __future__ import annotations

from vkcompute.ir.builder import Branch, Builder, Loop
from vkcompute.ir.divergence import Divergence
from vkcompute.ir.function import Function, Op, Region, Value, exits, walk
from vkcompute.ir.predication_plan import PredicationPlan
from vkcompute.ir.types import BOOL, UINT32, Type


def predicate(function: Function, divergence: Divergence) -> Function:
    """Returns a function whose barriers are reached by invocations that have returned, too.

    Args:
        function: no return is in a loop without a barrier. At barriers in control flow that differs, all invocations
            of the workgroup wait.
        divergence: of the function.
    """
    plan = PredicationPlan(function, divergence)
    return _Predication(function, plan).run() if plan.is_needed else function


class _LinearLoop:
    """The current iteration of a linearized loop.

    Attributes:
        following: the carried values of the next iteration.
        results: those of invocations that have left the loop.
        continued, left: the masks of invocations that continue, and of those that have left in this iteration.
    """

    def __init__(self, following: list[Value], results: list[Value], nobody: Value) -> None:
        self.following, self.results, self.continued, self.left = following, results, nobody, nobody


class _Predication:
    """Builds the new function."""

    def __init__(self, function: Function, plan: PredicationPlan) -> None:
        self._old, self._plan = function, plan
        self._new = function.empty_copy()
        self._b = Builder(self._new)
        self._env: dict[Value, Value] = {}
        self._loops: dict[Op, Loop | _LinearLoop] = {}
        self._true, self._false = (self._b.const(value, BOOL) for value in (True, False))
        self._mask: Value = self._true  # of the current place
        self._n_linear = 0  # linearized branches and loops around it

    def run(self) -> Function:
        """Returns the new function."""
        n = self._plan.n_ops
        self._ops(self._old.body.ops[:n])
        if self._mask is not self._true and self._old.body.ops[n:] and self._b.reachable:
            self._return_unless(self._mask)
        for op in self._old.body.ops[n:]:
            if self._b.reachable:
                self._b.copy(op, self._env)
        return self._new

    # -- regions ------------------------------------------------------------------------------------------------------

    def _ops(self, ops: list[Op]) -> Op | None:
        """Builds operations; returns the terminator, if control reaches one."""
        segment: list[Op] = []
        for op in ops:
            if op.operation.terminator:
                self._flush(segment)
                return op
            if op in self._plan.structural or op.operation.through_memory:
                self._flush(segment)
                segment = []
                self._structural(op)
                if not self._b.reachable:
                    return None
            elif self._unguarded(op, segment):
                self._b.copy(op, self._env)
            else:
                segment.append(op)
        self._flush(segment)
        return None

    def _unguarded(self, op: Op, segment: list[Op]) -> bool:
        """True for an operation that all invocations may perform before those of a segment."""
        row = op.operation
        if op in self._plan.needed or self._mask is self._true:
            return True
        if op.regions or row.effect or row.reads or row.active_lanes or row.may_trap:
            return False
        return not any(value in (other, *other.results) for other in segment for value in op.args)

    def _flush(self, segment: list[Op]) -> None:
        """Builds operations for the invocations of the mask."""
        if not segment or self._mask is self._false:
            self._forget(segment)
            return
        inside = {inner for op in segment for inner in (op, *[x for region in op.regions for x in walk(region)])}
        defined = [value for op in segment for value in ((op,) if op.has_result else op.results)]
        used = [value for value in defined if not inside.issuperset(self._plan.users[value])]
        branch = self._b.if_(self._mask)
        with branch.then:
            for op in segment:
                if self._b.reachable:
                    self._b.copy(op, self._env)
            if self._b.reachable:
                self._b.yield_(*[self._env[value] for value in used])
        with branch.otherwise:
            self._b.yield_(*[self._b.zero(value.type) for value in used])
        self._env.update(zip(used, branch.results, strict=True))

    def _forget(self, segment: list[Op]) -> None:
        """Gives the values of operations that no invocation performs."""
        for op in segment:
            for value in (op,) if op.has_result else op.results:
                self._env[value] = self._b.zero(value.type)

    def _values(self, op: Op) -> list[Value]:
        return [self._env.get(value, value) for value in op.args]

    def _kinds(self, op: Op) -> list[Type]:
        """Returns the types of the values that a branch or a loop gives."""
        end = next(exits(op), None)
        return [] if end is None else [value.type for value in end.args]

    # -- structural operations ----------------------------------------------------------------------------------------

    def _structural(self, op: Op) -> None:
        if op.operation.through_memory:
            self._together(op)
            return
        real = self._plan.is_real(op)
        if op.code == "if":
            (self._branch if real else self._linear_branch)(op)
        else:
            (self._loop if real else self._linear_loop)(op)
        if self._plan.loads and self._plan.returns(op) and self._b.reachable:
            self._return_if_all_have()

    def _together(self, op: Op) -> None:
        values = self._values(op)
        if values and self._mask is not self._true:  # which gives nothing to a sum, and takes no part in a warp
            values[-1] = self._b.select(self._mask, values[-1], self._b.zero(values[-1].type))
        kind = op.type if op.has_result else None
        self._env[op] = self._b.append(Op(op.code, kind, values, op.attribute, (), op.loc))

    def _return_unless(self, condition: Value) -> None:
        branch = self._b.if_(condition)
        with branch.otherwise:
            self._b.return_()

    def _return_if_all_have(self) -> None:
        """Ends the workgroup if all its invocations have returned: elements that decide are not written then.

        In a linearized part, the mask also lacks invocations that have not returned, and only go another way.
        """
        if self._mask is not self._true and not self._n_linear:
            self._return_unless(self._any(self._mask))

    def _any(self, mask: Value) -> Value:
        """True if the mask of any invocation of the workgroup is True."""
        one, none = self._b.const(1, UINT32), self._b.const(0, UINT32)
        return self._b.compute("ne", self._b.workgroup_sum(self._b.select(mask, one, none)), none)

    def _branch(self, op: Op) -> None:
        """Builds a branch in which all invocations go the same way."""
        mask, returns, kinds = self._mask, self._plan.returns(op), self._kinds(op)
        branch = self._b.if_(self._env.get(op.args[0], op.args[0]))
        for region, target in zip(op.regions, (branch.then, branch.otherwise), strict=True):
            self._mask = mask
            with target:
                self._end(self._ops(region.ops), kinds, returns)
        self._leave(op, branch, mask, returns)

    def _loop(self, op: Op) -> None:
        """Builds a loop that all invocations leave together."""
        mask, returns, kinds = self._mask, self._plan.returns(op), self._kinds(op)
        loop = self._b.loop(*self._values(op), *[mask] * returns)
        self._loops[op], self._env[op] = loop, loop.op
        with loop.body:
            self._env.update(zip(op.params, loop.params, strict=False))
            if returns:
                self._mask = loop.params[-1]
                self._return_if_all_have()
            terminator = self._ops(op.regions[0].ops)
            if terminator is not None and terminator.code == "return":
                self._b.break_(loop, *map(self._b.zero, kinds), *[self._false] * returns)
            else:
                self._end(terminator, [], returns)
        self._leave(op, loop, mask, returns)

    def _end(self, terminator: Op | None, kinds: list[Type], returns: bool) -> None:
        """Builds the terminator of a region that all invocations go through."""
        if not self._b.reachable:
            return
        if terminator is not None and terminator.code == "return" and self._mask is self._true:
            self._b.return_()
            return
        if terminator is None or terminator.code in ("return", "unreachable"):
            self._b.yield_(*map(self._b.zero, kinds), *[self._false] * returns)
            return
        values = self._values(terminator)
        if terminator.code == "yield":
            self._b.yield_(*values, *[self._mask] * returns)
            return
        loop = self._loops[terminator.attribute]
        assert isinstance(loop, Loop), "a linearized loop is left in linearized branches"
        end = self._b.break_ if terminator.code == "break" else self._b.continue_
        end(loop, *values, *[self._mask] * self._plan.returns(terminator.attribute))

    def _leave(self, op: Op, built: Branch | Loop, mask: Value, returns: bool) -> None:
        """Takes the values after a branch or a loop."""
        results = built.results
        self._env.update(zip(op.results, results, strict=False))
        self._mask = results[-1] if returns and results else mask

    # -- linearized operations ----------------------------------------------------------------------------------------

    def _linear_branch(self, op: Op) -> None:
        mask, condition = self._mask, self._env.get(op.args[0], op.args[0])
        given: list[list[Value] | None] = []
        masks: list[Value] = []
        for region, chosen in zip(op.regions, (condition, self._b.compute("not", condition)), strict=True):
            self._mask = chosen if mask is self._true else self._b.compute("and", mask, chosen)
            given.append(self._linear_region(region))
            masks.append(self._mask)
        self._mask = self._b.compute("or", *masks) if self._plan.leaves(op) else mask
        one, other = given
        for at, result in enumerate(op.results):
            if one is None or other is None:
                self._env[result] = (one or other or [])[at]
            else:
                self._env[result] = self._b.select(condition, one[at], other[at])

    def _linear_region(self, region: Region) -> list[Value] | None:
        """Builds a part of a linearized branch or loop; returns what it yields."""
        self._n_linear += 1
        terminator = self._ops(region.ops)
        self._n_linear -= 1
        if terminator is None:
            return []
        values = self._values(terminator)
        if terminator.code == "yield":
            return values
        if terminator.code in ("break", "continue"):
            loop = self._loops[terminator.attribute]
            assert isinstance(loop, _LinearLoop), "a loop that all leave together is left in branches that all take"
            self._leave_iteration(loop, terminator.code, values)
        self._mask = self._false
        return None

    def _leave_iteration(self, loop: _LinearLoop, code: str, values: list[Value]) -> None:
        """Notes that the invocations of the mask leave a loop, or continue it."""
        mask = self._mask
        kept = loop.results if code == "break" else loop.following
        kept[:] = [self._b.select(mask, value, old) for value, old in zip(values, kept, strict=True)]
        if code == "break":
            loop.left = self._b.compute("or", loop.left, mask)
        else:
            loop.continued = self._b.compute("or", loop.continued, mask)

    def _linear_loop(self, op: Op) -> None:
        mask, n, kinds = self._mask, len(op.params), self._kinds(op)
        loop = self._b.loop(*self._values(op), *map(self._b.zero, kinds), mask, mask)
        with loop.body:
            values: list[Value] = list(loop.params[:-2])
            self._env.update(zip(op.params, values, strict=False))
            state = self._loops[op] = _LinearLoop(values[:n], values[n:], self._false)
            active = self._mask = loop.params[-2]
            yielded = self._linear_region(op.regions[0])
            if yielded is not None:
                self._leave_iteration(state, "continue", yielded)
            b, following = self._b, state.continued
            still = b.compute("or", b.compute("or", state.left, following), b.compute("not", active))
            alive = b.compute("and", loop.params[-1], still)
            branch = b.if_(self._any(following))
            with branch.otherwise:
                b.break_(loop, *state.results, alive)
            b.yield_(*state.following, *state.results, following, alive)
        self._env.update(zip(op.results, loop.results, strict=False))
        self._mask = loop.results[-1] if self._plan.returns(op) else mask
