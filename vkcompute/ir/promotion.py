"""Promotion of private arrays to values: each element becomes a value in single assignment.

It takes the arrays whose indices are all constant, and builds what a compiler's mem2reg builds. Control flow is
structured, so that branches and loops pass the elements on: those that are written inside, and used outside, too. An
array that is used only inside of a branch or a loop is written there before it is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from vkcompute.ir.folding import fold
from vkcompute.ir.function import Constant, Function, Op, Param, Region, Result, Value, exits, walk
from vkcompute.ir.memory import Memory

MAX_LENGTH = 256
"""Of a promoted array: as many registers as an invocation has on a GPU."""

Slot = tuple[Memory, int]
"""An element."""


def promote_arrays(function: Function) -> Function:
    """Replaces private arrays whose indices are all constant by values, in place."""
    uses = Counter(op.memory for op in walk(function.body) if op.memory is not None and op.memory.private)
    kept = {op.memory for op in walk(function.body) if op.memory in uses and not _is_constant(op)}
    if len(kept) < len(uses):
        _Promotion(function, {memory: n for memory, n in uses.items() if memory not in kept}).region(function.body, {})
    return function


def _is_constant(op: Op) -> bool:
    """True for an access that promotion replaces."""
    memory, index = op.attribute, op.args[0]
    known = op.code == "fill" or (isinstance(index, Constant) and 0 <= int(index.value) < memory.length)
    return known and memory.length <= MAX_LENGTH


class _Promotion:
    """One pass over a function.

    Args:
        uses: the promoted arrays, and the number of their accesses.
    """

    def __init__(self, function: Function, uses: dict[Memory | None, int]) -> None:
        self._function, self._uses = function, uses
        self._replaced: dict[Value, Value] = {}
        self._passed: dict[Op, list[Slot]] = {}  # loop -> the elements that it passes on

    def region(self, region: Region, env: dict[Slot, Value]) -> None:
        """Rewrites a region; `env` has the present values of elements, and is changed."""
        kept: list[Op] = []
        for op in region.ops:
            folded = self._renamed(op)
            if folded is not None:
                self._replaced[op] = folded
            elif op.memory in self._uses:
                self._access(op, env)
            else:
                kept.append(op)
                if op.code == "if":
                    self._if(op, env)
                elif op.code == "loop":
                    self._loop(op, env)
                elif op.code in ("break", "continue"):
                    op.args += self._values(self._passed[op.attribute], env)
        region.ops = kept

    def _renamed(self, op: Op) -> Value | None:
        """Replaces the operands of an operation; returns its result where it is known by that."""
        args = tuple([self._replaced.get(value, value) for value in op.args])
        changed, op.args = args != op.args, args
        return fold(self._function, op.code, args, op.attribute, op.type) if changed and op.has_result else None

    def _access(self, op: Op, env: dict[Slot, Value]) -> None:
        memory = op.attribute
        if op.code == "fill":
            env.update({(memory, k): op.args[0] for k in range(memory.length)})
            return
        slot = memory, int(op.args[0].value)  # type: ignore[attr-defined]
        if op.code == "store":
            env[slot] = op.args[1]
        else:
            [self._replaced[op]] = self._values([slot], env)

    def _values(self, slots: Iterable[Slot], env: dict[Slot, Value]) -> tuple[Value, ...]:
        """Returns the present values of elements; zero for one that is not written yet."""
        return tuple([env.get(slot) or self._function.constant(0, slot[0].element) for slot in slots])

    def _written(self, op: Op) -> list[Slot]:
        """Returns the elements that are written in a branch or a loop and may be used outside."""
        inner = [access for access in walk(Region([op])) if access.memory in self._uses]
        inside = Counter(access.memory for access in inner)
        slots: dict[Slot, None] = {}
        for access in inner:
            memory = access.attribute
            if access.code == "load" or inside[memory] == self._uses[memory]:
                continue
            places = range(memory.length) if access.code == "fill" else [int(access.args[0].value)]  # type: ignore[attr-defined]
            slots.update(dict.fromkeys((memory, k) for k in places))
        return [*slots]

    def _if(self, op: Op, env: dict[Slot, Value]) -> None:
        slots = self._written(op)
        for region in op.regions:
            inner = dict(env)
            self.region(region, inner)
            if slots and region.terminator is None:
                region.ops.append(Op("yield", None))
            end = region.terminator
            if slots and end is not None and end.code == "yield":
                end.args = (*end.args[: len(op.results)], *self._values(slots, inner))
        self._add_results(op, slots, env)

    def _loop(self, op: Op, env: dict[Slot, Value]) -> None:
        slots = self._passed[op] = self._written(op)
        for end in exits(op):
            end.args = end.args[: len(op.results)]
        op.args += self._values(slots, env)
        params = tuple([Param(memory.element) for memory, _ in slots])
        op.params += params
        inner, body = {**env, **dict(zip(slots, params, strict=True))}, op.regions[0]
        self.region(body, inner)
        if body.terminator is not None and body.terminator.code == "yield":
            body.terminator.args += self._values(slots, inner)
        self._add_results(op, slots, env)

    def _add_results(self, op: Op, slots: list[Slot], env: dict[Slot, Value]) -> None:
        """Adds results to a branch or a loop, which are the elements' values after it."""
        if slots and next(exits(op), None) is not None:
            results = tuple([Result(memory.element) for memory, _ in slots])
            op.results += results
            env.update(zip(slots, results, strict=True))
