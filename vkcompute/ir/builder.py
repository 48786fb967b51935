"""Builds a function operation by operation, with constant folding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from vkcompute.errors import IrError
from vkcompute.ir.folding import fold
from vkcompute.ir.function import (
    NO_CONTRACTION,
    Constant,
    Function,
    Op,
    Param,
    Region,
    Result,
    Value,
    exits,
    falls_through,
)
from vkcompute.ir.memory import Memory
from vkcompute.ir.operations import result_type
from vkcompute.ir.types import BOOL, UINT32, Matrix, Scalar, Type, element_of

Mark = tuple[Region, int]
"""An insertion point."""


class Builder:
    """Appends operations to a function's body, or to the region of the innermost open `with` block.

    Every method raises IrError if the operation does not take its operands (ir/operations.py).
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self._region = function.body
        self._loc: object = None

    # -- values -------------------------------------------------------------------------------------------------------

    def const(self, value: Any, kind: Scalar) -> Constant:
        """A constant, converted as by numpy's `astype`."""
        return self.function.constant(value, kind)

    def zero(self, kind: Type) -> Value:
        """A zero, or a vector or matrix of zeros."""
        if isinstance(kind, Scalar):
            return self.const(0, kind)
        element = self.const(0, element_of(kind))
        return self.fill_matrix(kind, element) if isinstance(kind, Matrix) else self.vector(*[element] * kind.n)

    def compute(self, code: str, *args: Value) -> Value:
        """An operation on numbers of one type, by its name in the table.

        On integers `div` truncates. `rem` has the sign of the dividend, and is exact for floats; `mod` has the sign of
        the divisor, and takes integers. With NaN, `ne` is True and the other comparisons are False. `round` rounds
        halves to even.
        """
        return self._value(code, args)

    def rounded(self, code: str, *args: Value) -> Value:
        """As `compute`, of floats, where each operation must round its result as IEEE 754 has it."""
        return self._value(code, args, NO_CONTRACTION)

    def cast(self, value: Value, kind: Type) -> Value:
        """Converts a number as numpy's `astype` does; undefined for a float that does not fit an integer type."""
        if value.type is kind:
            return value
        return _unwidened(value, kind) or self._value("cast", (value,), kind)

    def bitcast(self, value: Value, kind: Type) -> Value:
        """The same bits as another type of equal width; the first element of a vector has the lowest bits."""
        return value if value.type is kind else self._value("bitcast", (value,), kind)

    def select(self, condition: Value, one: Value, other: Value) -> Value:
        """`one` if the condition is True, else `other`; both are evaluated."""
        return self._value("select", (condition, one, other))

    def vector(self, *elements: Value) -> Value:
        """A vector of 2 to 4 scalars."""
        return self._value("vector", elements)

    def extract(self, value: Value, index: int) -> Value:
        """An element of a vector."""
        return self._value("extract", (value,), index)

    def builtin(self, name: str, axis: int = 0) -> Value:
        """A built-in input (ir/builtins.py), uint32."""
        return self._value("builtin", (), (name, axis))

    def linear_id(self) -> Value:
        """The invocation's linear index in the grid, x fastest, uint32."""
        index: Value = self.const(0, UINT32)
        for axis, size in reversed(tuple(enumerate(self.function.local_size))):
            length = self.compute("mul", self.builtin("n_groups", axis), self.const(size, UINT32))
            index = self.compute("add", self.compute("mul", index, length), self.builtin("global_id", axis))
        return index

    def subgroup(self, name: str, *args: Value) -> Value:
        """A subgroup operation (ir/subgroups.py) over the active invocations.

        Scans are in order of the lanes. `shuffle` reads the value of the given lane; `shuffle_xor` that of the lane
        whose number differs by the given bits. The result is undefined if that lane is not active.
        """
        return self._value("subgroup", args, name)

    # -- memory -------------------------------------------------------------------------------------------------------

    def load(self, memory: Memory, index: Value) -> Value:
        """Reads an element."""
        return self._value("load", (index,), memory)

    def store(self, memory: Memory, index: Value, value: Value) -> None:
        """Writes an element."""
        self._append("store", (index, value), memory)

    def fill(self, memory: Memory, value: Value) -> None:
        """Writes all elements of a private memory."""
        self._append("fill", (value,), memory)

    def length(self, memory: Memory) -> Value:
        """The number of elements, uint32."""
        if memory.length is not None:
            return self.const(memory.length, UINT32)
        return self._value("length", (), memory)

    def atomic(self, name: str, memory: Memory, index: Value, value: Value) -> Value:
        """Combines an element with `value` atomically (ir/atomics.py); returns the previous value."""
        return self._value("atomic", (index, value), (name, memory))

    def compare_exchange(self, memory: Memory, index: Value, expected: Value, new: Value) -> Value:
        """Replaces an element by `new` if its bits are those of `expected`, atomically; returns the previous value."""
        return self._value("compare_exchange", (index, expected, new), memory)

    def barrier(self) -> None:
        """Waits for all invocations of the workgroup, and makes their earlier writes visible to all."""
        self._append("barrier")

    def grid_barrier(self) -> None:
        """Waits for all invocations of the grid that have not returned (ir/grid_barriers.py)."""
        self._append("grid_barrier")

    def workgroup_sum(self, value: Value) -> Value:
        """The sum of a uint32 over the invocations of the workgroup that have not returned; waits as a barrier does."""
        return self._value("workgroup_sum", (value,))

    def warp(self, name: str, *args: Value) -> Value | None:
        """An operation of the active invocations of a warp: "ballot", "shuffle", "match" or "barrier" (ir/warps.py)."""
        code, args = f"warp_{name}", (*args, self.const(True, BOOL))
        return self._append(code, args) if name == "barrier" else self._value(code, args)

    def subgroup_barrier(self) -> None:
        """Waits for the invocations of the subgroup, and makes their earlier writes visible to all of them."""
        self._append("subgroup_barrier")

    def fence(self) -> None:
        """Makes the invocation's earlier accesses to memory visible to the device before its later ones."""
        self._append("fence")

    # -- cooperative matrices -----------------------------------------------------------------------------------------

    def fill_matrix(self, kind: Matrix, value: Value) -> Value:
        """A matrix of equal elements."""
        return self._value("fill_matrix", (value,), kind)

    def load_matrix(self, kind: Matrix, memory: Memory, index: Value, stride: int) -> Value:
        """Reads a matrix from workgroup memory, row by row; index and stride count what an index of it selects."""
        return self._value("load_matrix", (index, self.const(stride, UINT32)), (kind, memory))

    def store_matrix(self, memory: Memory, index: Value, stride: int, value: Value) -> None:
        """Writes a matrix to workgroup memory, row by row; index and stride count what an index of it selects."""
        self._append("store_matrix", (index, self.const(stride, UINT32), value), memory)

    def multiply_matrices(self, left: Value, right: Value, sums: Value) -> Value:
        """Adds the product of two matrices to the sums."""
        return self._value("multiply_matrices", (left, right, sums))

    # -- control flow -------------------------------------------------------------------------------------------------

    def if_(self, condition: Value) -> Branch:
        """A branch with the empty regions `then` and `otherwise`."""
        return Branch(self, self._append("if", (condition,), regions=(Region(), Region())))

    def switch(
        self, number: Value, memories: Sequence[Memory], access: Callable[[Memory], Value | None], first: int = 0
    ) -> Value | None:
        """Builds an access to the memory with a number, in a tree of branches; returns its result, if it has one.

        Args:
            access: builds the access to a memory.
            first: the number of the first memory.
        """
        if len(memories) == 1:
            return access(memories[0])
        half = len(memories) // 2
        branch = self.if_(self.compute("lt", number, self.const(first + half, element_of(number.type))))
        halves = (branch.then, memories[:half], first), (branch.otherwise, memories[half:], first + half)
        for region, chosen, start in halves:
            with region:
                loaded = self.switch(number, chosen, access, start)
                self.yield_(*[] if loaded is None else [loaded])
        return branch.results[0] if branch.results else None

    def loop(self, *initial: Value) -> Loop:
        """A loop with these initial carried values, which ends at a break or return."""
        op = self._append("loop", initial, regions=(Region(),))
        op.params = tuple(Param(value.type) for value in initial)
        return Loop(self, op)

    def yield_(self, *values: Value) -> None:
        """Ends the region; passes values to the `if` that owns it, or to the next iteration of the loop."""
        self._append("yield", values)

    def continue_(self, loop: Loop, *values: Value) -> None:
        """Ends the region; passes carried values to the next iteration of the innermost enclosing loop."""
        self._append("continue", values, loop.op)

    def break_(self, loop: Loop, *values: Value) -> None:
        """Ends the region and the innermost enclosing loop, with its results."""
        self._append("break", values, loop.op)

    def return_(self) -> None:
        """Ends the region and the invocation."""
        self._append("return")

    def copy(self, op: Op, env: dict[Value, Value]) -> None:
        """Appends a copy of an operation; `env` maps values of the original to those of the copy, and is extended."""
        args = [env.get(value, value) for value in op.args]
        with self.at(op.loc):
            if op.has_result:
                folded = fold(self.function, op.code, args, op.attribute, op.type)
                env[op] = folded or self._add(Op(op.code, op.type, args, op.attribute, (), op.loc))
                return
            attribute = env.get(op.attribute, op.attribute) if isinstance(op.attribute, Op) else op.attribute
            regions = [Region() for _ in op.regions]
            new = env[op] = self._append(op.code, args, attribute, regions, anyway=op.operation.terminator)
        new.params = tuple(Param(value.type) for value in op.params)
        new.results = tuple(Result(value.type) for value in op.results)
        env.update(zip((*op.params, *op.results), (*new.params, *new.results), strict=True))
        for old, region in zip(op.regions, regions, strict=True):
            with self.into(region):
                for inner in old.ops:
                    self.copy(inner, env)

    @property
    def reachable(self) -> bool:
        """True if control can reach the next operation to be appended."""
        ops = self._region.ops
        return self._region.terminator is None and not (ops and ops[-1].regions and not falls_through(ops[-1]))

    # -- insertion point ----------------------------------------------------------------------------------------------

    @contextmanager
    def at(self, loc: object) -> Iterator[None]:
        """Sets the source location of the operations made inside."""
        before, self._loc = self._loc, loc
        try:
            yield
        finally:
            self._loc = before

    def checkpoint(self) -> Mark:
        """The present insertion point, for `rewind`."""
        return self._region, len(self._region.ops)

    def rewind(self, mark: Mark) -> None:
        """Returns to an insertion point, and removes the operations after it."""
        self._region, n = mark
        del self._region.ops[n:]

    @contextmanager
    def into(self, region: Region) -> Iterator[None]:
        """Appends to this region, and terminates it at the end if it is not; `Branch` and `Loop` have it for theirs."""
        before, self._region = self._region, region
        try:
            yield
            self.finish(region)
        finally:
            self._region = before

    def finish(self, region: Region) -> None:
        """Terminates a region that has no terminator, by a yield of no values."""
        if region.terminator is None:
            before, self._region = self._region, region
            self._append("yield" if self.reachable else "unreachable", anyway=True)
            self._region = before

    def append(self, op: Op) -> Op:
        """Appends an operation that was made elsewhere, of which the operands are not checked."""
        return self._add(op)

    def _value(self, code: str, args: Sequence[Value], attribute: Any = None) -> Value:
        kind = result_type(code, [value.type for value in args], attribute)  # checks operands that folding may remove
        folded = fold(self.function, code, args, attribute, kind)
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
        kind = result_type(code, [value.type for value in args], attribute)
        return self._add(Op(code, kind, args, attribute, regions, self._loc), anyway=anyway)

    def _add(self, op: Op, *, anyway: bool = False) -> Op:
        if not anyway and not self.reachable:
            raise IrError(f"{op.code} cannot be reached: the region has ended")
        self._region.ops.append(op)
        return op


def _unwidened(value: Value, kind: Type) -> Value | None:
    """Returns the integer of this type that was converted to a wider one; None if there is none.

    Conversions between signed and unsigned numbers stay: conditions bound either one (ir/intervals.py).
    """
    if not isinstance(value, Op) or value.code != "cast" or value.args[0].type is not kind:
        return None
    wide = value.type
    are_integers = isinstance(kind, Scalar) and isinstance(wide, Scalar) and kind.kind in "iu" and wide.kind in "iu"
    return value.args[0] if are_integers and wide.bits > kind.bits else None


class Branch:
    """An `if` under construction."""

    def __init__(self, builder: Builder, op: Op) -> None:
        self._builder, self.op = builder, op
        self.then, self.otherwise = (builder.into(region) for region in op.regions)

    @property
    def results(self) -> tuple[Result, ...]:
        """The values that the regions yield; known once both are built."""
        for region in self.op.regions:
            self._builder.finish(region)
        return _results(self.op)


class Loop:
    """A loop under construction.

    Attributes:
        params: the carried values at the start of the body.
    """

    def __init__(self, builder: Builder, op: Op) -> None:
        self.op, self.params = op, op.params
        self.body = builder.into(op.regions[0])

    @property
    def results(self) -> tuple[Result, ...]:
        """The values that the breaks pass; known once the body is built."""
        return _results(self.op)


def _results(op: Op) -> tuple[Result, ...]:
    end = next(exits(op), None)
    if not op.results and end is not None:
        op.results = tuple(Result(value.type) for value in end.args)
    return op.results
