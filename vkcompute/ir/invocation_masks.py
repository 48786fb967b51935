"""The memory accesses of a kernel, each with the invocations of a workgroup that execute it.

A branch whose condition depends on local ids and constants divides the invocations. One that compares an id of the grid
with a length, such as `if group_id * 16 + local_id < n`, does not: some workgroup of a large array is inside of it.
After any other condition, an invocation may execute the branch, and none is known to.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vkcompute.ir.function import Function, Op, Region, Result, Value, exits, walk
from vkcompute.ir.intervals import only_exit
from vkcompute.ir.invocation_values import Array, InvocationValues, Polynomial, broadcasts, difference, grows

_ALL, _NONE = np.array([True]), np.array([False])


class Mask(NamedTuple):
    """The invocations that execute something in some workgroup, and those that may, as arrays of bools."""

    certain: Array
    possible: Array

    def __and__(self, other: Mask) -> Mask:
        if not broadcasts(*self, *other):
            return _UNKNOWN
        return Mask(self.certain & other.certain, self.possible & other.possible)

    def __or__(self, other: Mask) -> Mask:
        if not broadcasts(*self, *other):
            return _UNKNOWN
        return Mask(self.certain | other.certain, self.possible | other.possible)


class Access(NamedTuple):
    """An operation on an element of memory, its index if known, and its invocations."""

    op: Op
    element: Polynomial | None
    mask: Mask


_EVERY, _UNKNOWN = Mask(_ALL, _ALL), Mask(_NONE, _ALL)
_COMPARISONS = {"lt": 1, "le": 1, "gt": -1, "ge": -1, "eq": 0, "ne": 0}
"""Comparison -> the sign of a growing difference for which it ends to hold; 0 for none."""


def accesses(function: Function) -> list[Access]:
    """Returns the accesses to workgroup memory and buffers, as if all loops of which nothing is known start."""
    walker = _Walker(function)
    walker.region(function.body, _EVERY)
    return walker.accesses


class _Walker:
    """A walk through a kernel.

    Attributes:
        accesses: those so far.
    """

    def __init__(self, function: Function) -> None:
        self._values = InvocationValues(function)
        self._owners = {result: op for op in walk(function.body) if op.code == "if" for result in op.results}
        self.accesses: list[Access] = []

    def region(self, region: Region, mask: Mask, loop: Op | None = None) -> Mask | None:
        """Walks through a region; returns the invocations at its end, None if all have left it.

        Args:
            region: the operations.
            mask: the invocations that enter it.
            loop: that of which this is the body.
        """
        exit_ = None if loop is None else only_exit(loop)
        for op in region.ops:
            if op.code == "if":
                after = self._branch(op, mask, loop if op is exit_ else None)
                if after is None:
                    return None
                mask = after
            elif op.code == "loop":
                self.region(op.regions[0], mask, op)
                if any(inner.code == "return" for inner in walk(op.regions[0])):
                    mask = mask & _UNKNOWN
            elif op.memory is not None and not op.memory.private and op.args:
                self.accesses.append(Access(op, self._values.of(op.args[0]), mask))
            elif op.code in ("return", "break", "continue", "unreachable"):
                return None
        return mask

    def _branch(self, op: Op, mask: Mask, loop: Op | None) -> Mask | None:
        """Walks through a branch, which is the only exit of a loop unless that is None."""
        sides = self._sides(op.args[0])
        is_known = any(side.certain.any() for side in sides)
        if loop is not None and not is_known and not self._values.differs(op.args[0]):
            sides = (Mask(self._values.starts(loop), _ALL),) * 2
        ends = [self.region(inner, mask & side) for inner, side in zip(op.regions, sides, strict=True)]
        staying = [end for end in ends if end is not None]
        if len(staying) < 2:
            return staying[0] if staying else None
        is_left = any(inner.operation.terminator and inner.code != "yield" for r in op.regions for inner in walk(r))
        return staying[0] | staying[1] if is_left else mask

    def _sides(self, condition: Value) -> tuple[Mask, Mask]:
        """Returns the invocations for which a condition holds, and those for which it does not."""
        known = self._values.known(condition)
        if known is not None:
            holds = known != 0
            return Mask(holds, holds), Mask(~holds, ~holds)
        if isinstance(condition, Result) and condition in self._owners:
            branch = self._owners[condition]
            passed = [end.args[branch.results.index(condition)] for end in exits(branch)]
            return self._chosen(branch.args[0], *passed) if len(passed) == 2 else (_UNKNOWN, _UNKNOWN)
        if not isinstance(condition, Op):
            return _UNKNOWN, _UNKNOWN
        if condition.code == "not":
            holds_not, holds_ = self._sides(condition.args[0])
            return holds_, holds_not
        if condition.code in ("and", "or"):
            (a, not_a), (b, not_b) = map(self._sides, condition.args)
            return (a & b, not_a | not_b) if condition.code == "and" else (a | b, not_a & not_b)
        if condition.code == "select":
            return self._chosen(*condition.args)
        return self._compared(condition) if condition.code in _COMPARISONS else (_UNKNOWN, _UNKNOWN)

    def _chosen(self, condition: Value, one: Value, other: Value) -> tuple[Mask, Mask]:
        """The sides of `one if condition else other`."""
        (c, not_c), (a, not_a), (b, not_b) = map(self._sides, (condition, one, other))
        return (c & a) | (not_c & b), (c & not_a) | (not_c & not_b)

    def _compared(self, comparison: Op) -> tuple[Mask, Mask]:
        """The sides of a comparison: of an id of the grid with a length, all are inside in some workgroup."""
        one, other = map(self._values.of, comparison.args)
        rest: Any = None if one is None or other is None else difference(one, other)
        if rest is None:
            return _UNKNOWN, _UNKNOWN
        growing = [factors for monomial, factors in rest.items() if any(map(grows, monomial))]
        bounds = [monomial for monomial in rest if monomial and not any(map(grows, monomial))]
        sign = _COMPARISONS[comparison.code]
        if not growing or not sign:
            return _UNKNOWN, _UNKNOWN
        if all((sign * factors > 0).all() for factors in growing):  # it holds for small ids, up to a length
            return (_EVERY, _UNKNOWN) if bounds else (_UNKNOWN, _UNKNOWN)
        if all((sign * factors < 0).all() for factors in growing):  # it holds for large ids
            return (_EVERY, _UNKNOWN) if not bounds else (_UNKNOWN, _EVERY)
        return _UNKNOWN, _UNKNOWN
