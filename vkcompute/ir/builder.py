"""Builds a function, operation by operation; constants are folded on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from vkcompute.errors import IrError
from vkcompute.ir.fold import fold
from vkcompute.ir.function import (
    TERMINATORS,
    Constant,
    Function,
    Memory,
    Op,
    Param,
    Region,
    Result,
    Value,
    endings,
    falls_through,
)
from vkcompute.ir.rules import result_type
from vkcompute.ir.types import UINT32, Scalar, Type

Mark = tuple[Region, int]


class Builder:
    """Appends operations to a function's body, or to the region of whichever `with` block is open.

    Every method raises IrError where the operation does not take what it is given (ir/rules.py).
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self._region = function.body
        self._loc: object = None

    # -- values -------------------------------------------------------------------------------------------------------

    def const(self, value: Any, kind: Scalar) -> Constant:
        """A constant; converted as numpy's `astype` does."""
        return self.function.constant(value, kind)

    def binary(self, code: str, one: Value, other: Value) -> Value:
        """An arithmetic operation or a comparison of two values of one type.

        `div` truncates on integers; `rem` has the sign of the dividend, and is exact for floats; `mod` has that of the
        divisor, and takes integers. `eq` and the like are False where one is NaN, `ne` is True.
        """
        return self._value(code, (one, other))

    def unary(self, code: str, value: Value) -> Value:
        """A function of one value; `round` goes to the even one of two neighbours."""
        return self._value(code, (value,))

    def cast(self, value: Value, kind: Type) -> Value:
        """The number in another type, as numpy's `astype` has it; what does not fit is undefined from floats."""
        return value if value.type is kind else self._value("cast", (value,), kind)

    def bitcast(self, value: Value, kind: Type) -> Value:
        """The same bits as another type of that width."""
        return value if value.type is kind else self._value("bitcast", (value,), kind)

    def select(self, condition: Value, one: Value, other: Value) -> Value:
        """`one` where the condition holds, else `other`; both have been computed."""
        return self._value("select", (condition, one, other))

    def vector(self, *elements: Value) -> Value:
        """A vector of 2 to 4 scalars."""
        return self._value("vector", elements)

    def extract(self, value: Value, index: int) -> Value:
        """An element of a vector."""
        return self._value("extract", (value,), index)

    def builtin(self, name: str, axis: int = 0) -> Value:
        """`global_id`, `local_id`, `group_id`, `n_groups` along an axis, or another of rules.BUILTINS; uint32."""
        return self._value("builtin", (), (name, axis))

    def linear_id(self) -> tuple[Value, Value]:
        """The invocation's number in the whole grid, x fastest, and how many there are; uint32."""
        index: Value = self.const(0, UINT32)
        n: Value = self.const(1, UINT32)
        for axis, size in reversed(tuple(enumerate(self.function.local_size))):
            length = self.binary("mul", self.builtin("n_groups", axis), self.const(size, UINT32))
            index = self.binary("add", self.binary("mul", index, length), self.builtin("global_id", axis))
            n = self.binary("mul", n, length)
        return index, n

    def subgroup(self, name: str, *args: Value) -> Value:
        """What the subgroup's invocations that come here compute together; `name` is one of rules.SUBGROUP.

        Scans go by the numbers of the lanes. `shuffle` gives the value of the lane that each names, and `shuffle_xor`
        that of the lane whose number differs by these bits: undefined if that lane is none, or does not come here.
        """
        return self._value("subgroup", args, name)

    # -- memory -------------------------------------------------------------------------------------------------------

    def load(self, memory: Memory, index: Value) -> Value:
        """An element."""
        return self._value("load", (index,), memory)

    def store(self, memory: Memory, index: Value, value: Value) -> None:
        """Writes an element."""
        self._append("store", (index, value), memory)

    def length(self, memory: Memory) -> Value:
        """How many elements the memory has, uint32."""
        if memory.length is not None:
            return self.const(memory.length, UINT32)
        return self._value("length", (), memory)

    def atomic(self, name: str, memory: Memory, index: Value, value: Value) -> Value:
        """Combines an element with `value` in one step (rules.ATOMICS or SIGNED); gives the one before."""
        return self._value("atomic", (index, value), (name, memory))

    def compare_exchange(self, memory: Memory, index: Value, expected: Value, new: Value) -> Value:
        """Replaces an element by `new` if it is `expected`; gives the one before."""
        return self._value("compare_exchange", (index, expected, new), memory)

    def barrier(self) -> None:
        """Waits for all invocations of the workgroup; what they wrote before is seen by all after."""
        self._append("barrier")

    # -- control ------------------------------------------------------------------------------------------------------

    def if_(self, condition: Value) -> Branch:
        """A branch, whose `then` and `otherwise` are to be filled."""
        return Branch(self, self._append("if", (condition,), regions=(Region(), Region())))

    def loop(self, *initial: Value) -> Loop:
        """A loop that carries values and ends by a break (or return) only."""
        op = self._append("loop", initial, regions=(Region(),))
        op.params = tuple(Param(value.type) for value in initial)
        return Loop(self, op)

    def yield_(self, *values: Value) -> None:
        """Ends the region: hands values to the `if` that owns it, or starts the loop that owns it over with them."""
        self._append("yield", values)

    def continue_(self, loop: Loop, *values: Value) -> None:
        """Ends the region: starts the loop, which is the innermost around, over with these carried values."""
        self._append("continue", values, loop.op)

    def break_(self, loop: Loop, *values: Value) -> None:
        """Ends the region and the loop, which is the innermost around; the values are its results."""
        self._append("break", values, loop.op)

    def return_(self) -> None:
        """Ends the region and the invocation."""
        self._append("return")

    def copy(self, op: Op, env: dict[Value, Value]) -> None:
        """Appends a copy of an operation; `env` has what stands for the values that it uses, and gets its results."""
        args = [env.get(value, value) for value in op.args]
        with self.at(op.loc):
            if op.has_result:
                folded = fold(self.function, op.code, args, op.attribute)
                env[op] = folded or self._add(Op(op.code, op.type, args, op.attribute, (), op.loc))
                return
            leads = op.code in ("break", "continue")
            attribute = env.get(op.attribute, op.attribute) if leads else op.attribute
            regions = [Region() for _ in op.regions]
            new = env[op] = self._append(op.code, args, attribute, regions, anyway=op.code in TERMINATORS)
        new.params = tuple(Param(value.type) for value in op.params)
        new.results = tuple(Result(value.type) for value in op.results)
        env.update(zip((*op.params, *op.results), (*new.params, *new.results), strict=True))
        for old, region in zip(op.regions, regions, strict=True):
            with self.into(region):
                for each in old.ops:
                    self.copy(each, env)

    @property
    def reachable(self) -> bool:
        """Whether what is appended next can run: the region has not ended, nor does its last operation never end."""
        ops = self._region.ops
        return self._region.end() is None and not (ops and ops[-1].regions and not falls_through(ops[-1]))

    # -- places -------------------------------------------------------------------------------------------------------

    @contextmanager
    def at(self, loc: object) -> Iterator[None]:
        """Notes `loc` on the operations made inside."""
        before, self._loc = self._loc, loc
        try:
            yield
        finally:
            self._loc = before

    def checkpoint(self) -> Mark:
        """The present place, for `rewind`."""
        return self._region, len(self._region.ops)

    def rewind(self, mark: Mark) -> None:
        """Drops what has been built since, and goes on at that place."""
        self._region, n = mark
        del self._region.ops[n:]

    @contextmanager
    def into(self, region: Region) -> Iterator[None]:
        """Appends to this region, and ends it if nobody has; `Branch` and `Loop` offer it for theirs."""
        before, self._region = self._region, region
        try:
            yield
            self.finish(region)
        finally:
            self._region = before

    def finish(self, region: Region) -> None:
        """Ends a region that has no terminator yet; it yields nothing."""
        if region.end() is None:
            before, self._region = self._region, region
            self._append("yield" if self.reachable else "unreachable", anyway=True)
            self._region = before

    def _value(self, code: str, args: Sequence[Value], attribute: Any = None) -> Value:
        kind = result_type(code, args, attribute)  # before a wrong operation is folded away
        folded = fold(self.function, code, args, attribute)
        return self._add(Op(code, kind, args, attribute, (), self._loc)) if folded is None else folded

    def _append(
        self,
        code: str,
        args: Sequence[Value] = (),
        attribute: Any = None,
        regions: Sequence[Region] = (),
        *,
        anyway: bool = False,
    ) -> Op:
        return self._add(
            Op(code, result_type(code, args, attribute), args, attribute, regions, self._loc), anyway=anyway
        )

    def _add(self, op: Op, *, anyway: bool = False) -> Op:
        if not anyway and not self.reachable:
            raise IrError(f"{op.code} cannot be reached: the region has ended")
        self._region.ops.append(op)
        return op


class Branch:
    """An `if` that is being built."""

    def __init__(self, builder: Builder, op: Op) -> None:
        self._builder, self.op = builder, op
        self.then, self.otherwise = (builder.into(region) for region in op.regions)

    @property
    def results(self) -> tuple[Result, ...]:
        """What the branches yield, of whichever yield; known once both are built."""
        for region in self.op.regions:
            self._builder.finish(region)
        return _results(self.op)


class Loop:
    """A loop that is being built.

    Attributes:
        params: the carried values as the body finds them.
    """

    def __init__(self, builder: Builder, op: Op) -> None:
        self.op, self.params = op, op.params
        self.body = builder.into(op.regions[0])

    @property
    def results(self) -> tuple[Result, ...]:
        """What the breaks give; known once the body is built."""
        return _results(self.op)


def _results(op: Op) -> tuple[Result, ...]:
    end = next(endings(op), None)
    if not op.results and end is not None:
        op.results = tuple(Result(value.type) for value in end.args)
    return op.results
