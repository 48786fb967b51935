"""Workgroup memory that is indexed for another local size: elements outside, and elements that no invocation writes.

Indices are linear in local ids and counters of loops, such as `local_id(1) * 16 + k`: all combinations of these are
reached, so both ends of their interval are. Everything else counts as unknown.
"""

from __future__ import annotations

from typing import NamedTuple

from vkcompute.ir.function import Constant, Function, Op, Region, Value, back_edges, walk
from vkcompute.ir.intervals import Interval, Intervals, only_exit
from vkcompute.ir.iterations import intervals_of_builtins
from vkcompute.ir.memory import Memory

Atom = Value | tuple[str, int] | None
"""A counter, the name and axis of a local id, or None for 1."""


class Misfit(NamedTuple):
    """An access to workgroup memory that does not fit the local size.

    Attributes:
        access: the operation.
        element: its index.
        written: the least and the greatest index of the elements that are written; None if `element` is outside of the
            array.
    """

    access: Op
    element: int
    written: Interval | None


def local_size_misfit(function: Function) -> Misfit | None:
    """Returns the first access that is certainly outside of its array, or reads what no invocation of a group writes.

    Accesses in branches, after a return in one, and loads of which a `select` may discard the result do not count.
    """
    if not function.shared_memory:
        return None
    ops, intervals = walk(function.body), Intervals(function.body, intervals_of_builtins(function))
    written: dict[Memory, Interval] = {}
    for op in ops:
        if op.memory in function.shared_memory and op.operation.writes:
            low, high = intervals.of(op.args[0]) if op.code in ("store", "atomic", "compare_exchange") else (0, 1 << 32)
            least, most = written.get(op.memory, (low, high))
            written[op.memory] = min(low, least), max(high, most)
    discarded = {arg for op in ops if op.code == "select" for arg in op.args}
    reached = _Reached(function)
    for op in reached.certain(function.body):
        if op.memory in written and op.code in ("load", "store") and op not in discarded:
            found, last = reached.of(op.args[0]), (op.memory.length or 0) - 1
            if found is None:
                continue
            (least, most), is_stencil = found
            for limits in ((0, last), written[op.memory])[: 2 if op.code == "load" else 1]:
                below, above = least < limits[0], most > limits[1]
                if op.code == "load" and is_stencil:  # invocations at an end may ignore what they load
                    below, above = most < limits[0], least > limits[1]
                if below or above:
                    return Misfit(op, most if above else least, None if limits == (0, last) else limits)
    return None


class _Reached:
    """The intervals of which invocations of a workgroup reach both ends."""

    def __init__(self, function: Function) -> None:
        self._local_size = function.local_size
        self._counters: dict[Value, Interval] = {}

    def certain(self, region: Region) -> list[Op]:
        """Returns the operations outside of branches that all invocations execute, if all loops start."""
        found: list[Op] = []
        for op in region.ops:
            if op.code == "loop":
                self._count(op)
                found += self.certain(op.regions[0])
            found.append(op)
            if any(inner.code == "return" for each in op.regions for inner in walk(each)):
                break
        return found

    def _count(self, loop: Op) -> None:
        """Notes the interval of a counter with a constant start and end, and steps of 1."""
        exit_ = only_exit(loop)
        condition = exit_.args[0] if exit_ is not None else None
        if not isinstance(condition, Op) or condition.code != "lt" or condition.args[0] not in loop.params:
            return
        counter, end = condition.args
        at = loop.params.index(counter)
        start, steps = loop.args[at], [edge.args[at] for edge in back_edges(loop)]
        if isinstance(start, Constant) and isinstance(end, Constant) and all(_is_next(step, counter) for step in steps):
            first, last = int(start.value), int(end.value) - 1
            if first <= last:
                self._counters[counter] = first, last

    def of(self, value: Value) -> tuple[Interval, bool] | None:
        """The least and the greatest number that a value has in the workgroup; None if unknown.

        With True for the own index of an invocation and that of a neighbour, such as local_id(0) + 1.
        """
        terms = self._terms(value)
        if terms is None:
            return None
        low = high = 0
        for atom, factor in terms.items():
            ends = [factor * n for n in self._interval(atom)]
            low, high = low + min(ends), high + max(ends)
        is_stencil = all(isinstance(atom, tuple) and factor > 0 for atom, factor in terms.items() if atom is not None)
        return (low, high), is_stencil

    def _interval(self, atom: Atom) -> Interval:
        if atom is None:
            return 1, 1
        return (0, self._local_size[atom[1]] - 1) if isinstance(atom, tuple) else self._counters[atom]

    def _terms(self, value: Value) -> dict[Atom, int] | None:
        """Returns the factors of counters and local ids, and that of 1 by None; None unless the value is their sum."""
        if isinstance(value, Constant):
            return {None: int(value.value)}
        if value in self._counters:
            return {value: 1}
        if not isinstance(value, Op):
            return None
        if value.code == "builtin":
            return {value.attribute: 1} if value.attribute[0] == "local_id" else None
        if value.code in ("cast", "bitcast") and value.args[0].type.bits == value.type.bits == 32:
            return self._terms(value.args[0])
        if value.code not in ("add", "sub", "mul", "shl"):
            return None
        left, right = map(self._terms, value.args)
        if left is None or right is None:
            return None
        if value.code in ("add", "sub"):
            sign = 1 if value.code == "add" else -1
            return {atom: left.get(atom, 0) + sign * right.get(atom, 0) for atom in left.keys() | right.keys()}
        if value.code == "mul" and left.keys() == {None}:
            left, right = right, left
        if right.keys() != {None}:
            return None
        factor = right[None] if value.code == "mul" else 1 << right[None]
        return {atom: n * factor for atom, n in left.items()}


def _is_next(value: Value, counter: Value) -> bool:
    """True for counter + 1."""
    if not isinstance(value, Op) or value.code != "add" or value.args[0] is not counter:
        return False
    return isinstance(value.args[1], Constant) and value.args[1].value == 1
