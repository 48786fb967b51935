"""Phases of a kernel with grid barriers: the parts between two of them, one dispatch each.

The host follows the branches and loops around barriers, as it knows their conditions at the launch: these are computed
from constants, int arguments and the size of the grid. Of the values that a later phase uses, the host passes those
that it can compute as push constants. Invocations keep the others in memory (ir/grid_barriers.py).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vkcompute.errors import KernelError
from vkcompute.ir.function import (
    Constant,
    Function,
    GridPhases,
    Op,
    Region,
    Value,
    back_edges,
    exits,
    terminators,
    walk,
)
from vkcompute.ir.types import BOOL, Scalar, element_of

BARRIER = "grid_barrier"
_EVALUATED = frozenset(
    "add sub mul div rem mod min max and or xor shl shr neg abs not eq ne lt le gt ge select cast".split()
)
"""Operations on integers and bools of which the host computes the results of devices."""

_End = tuple[Op, list[Any]] | None
"""The terminator that left a branch or a loop from inside, with its values."""
_Barriers = Generator[tuple[Op, list[Any]], None, _End]


@dataclass(frozen=True, slots=True, eq=False)
class GridPlan:
    """Grid barriers, and the control flow that leads to them.

    Attributes:
        barriers: in order; their numbers begin at 1.
        structural: the branches and loops around barriers, and the branches that leave or continue such a loop.
        unknown: values that the host cannot compute.
    """

    barriers: tuple[Op, ...]
    structural: frozenset[Op]
    unknown: frozenset[Value]

    def highest(self, op: Op) -> int:
        """Returns the number of the last barrier in an operation; 0 without one."""
        inside = {inner for region in op.regions for inner in walk(region)}
        return max([number for number, barrier in enumerate(self.barriers, 1) if barrier in inside], default=0)

    def is_known(self, value: Value) -> bool:
        """True for a value that the host computes and passes as a push constant."""
        return _is_whole(value) and (value.type is BOOL or value.type.bits >= 32) and value not in self.unknown


def plan_of(function: Function) -> GridPlan:
    """Returns the plan of a function with grid barriers.

    Raises:
        KernelError: the host does not know which barriers a launch passes.
    """
    structural = _structural(function.body)
    unknown = _unknown(function.body, structural)
    barriers = tuple([op for op in walk(function.body) if op.code == BARRIER])
    if any(op.code == "if" and op.args[0] in unknown for op in structural):
        loc = barriers[0].loc
        raise loc if isinstance(loc, KernelError) else KernelError(str(loc))
    return GridPlan(barriers, structural, unknown)


def _structural(body: Region) -> frozenset[Op]:
    chosen: set[Op] = set()
    while True:
        rest = [op for op in walk(body) if op.regions and op not in chosen]
        more = {op for op in rest if _leads_to_barrier(op, chosen)}
        if not more:
            return frozenset(chosen)
        chosen |= more


def _leads_to_barrier(op: Op, chosen: set[Op]) -> bool:
    inside = [inner for region in op.regions for inner in walk(region)]
    left = [end.attribute for region in op.regions for end in terminators(region) if end.code in ("break", "continue")]
    return any(inner.code == BARRIER or inner in chosen for inner in inside) or any(
        loop in chosen and loop is not op for loop in left
    )


def _unknown(body: Region, structural: frozenset[Op]) -> frozenset[Value]:
    """Returns the values that depend on more than ints that are constants or arguments, and the size of the grid."""
    unknown: set[Value] = set()
    n_before = -1
    while len(unknown) > n_before:
        n_before = len(unknown)
        for op in walk(body):
            for value, needed in _needed(op, structural):
                if needed is None or unknown & needed or not all(map(_is_whole, needed)):
                    unknown.add(value)
    return frozenset(unknown)


def _needed(op: Op, structural: frozenset[Op]) -> Iterator[tuple[Value, set[Value] | None]]:
    """Yields the values that an operation defines, with those from which the host computes them; None if it cannot."""
    if op.has_result:
        yield op, {*op.args} if _is_evaluated(op) else None
    for values, ends, first in ((op.params, back_edges, op.args), (op.results, exits, ())):
        for at, value in enumerate(values):
            others = [end.args[at] for end in ends(op)] if op in structural else None
            yield value, None if others is None else {*others, *first[at : at + 1]}


def _is_evaluated(op: Op) -> bool:
    if op.code == "builtin":
        return bool(op.attribute[0] == "n_groups")
    return op.code in _EVALUATED and _is_whole(op)


def _is_whole(value: Value) -> bool:
    return isinstance(value.type, Scalar) and value.type.kind in "iub"


def phase_pushes(phases: GridPhases, numbers: Sequence[Any], n_groups: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yields the further push constants of each phase: the number of the barrier where it starts, and known values.

    Args:
        numbers: the push constants of the kernel.

    Raises:
        ValueError: one of them is given with each run of a graph.
    """
    barriers = [op for op in walk(phases.body) if op.code == BARRIER]
    steps = _Walk(phases, numbers, n_groups).region(phases.body)
    yield (0, *[0] * len(phases.known))
    for barrier, values in steps:
        yield barriers.index(barrier) + 1, *[0 if value is None else int(value) for value in values]


class _Walk:
    """One walk of the host through the branches and loops around barriers."""

    def __init__(self, phases: GridPhases, numbers: Sequence[Any], n_groups: Sequence[int]) -> None:
        self._phases, self._n_groups = phases, (*n_groups, 1, 1)
        self._values: dict[Value, Any] = {}
        for push, number in zip(phases.arguments, numbers, strict=False):
            if not isinstance(number, (int, float, np.generic)):
                raise ValueError(
                    "a kernel with grid barriers takes no number that each run of a graph is given; record it with the "
                    "number"
                )
            if _is_whole(push):
                self._values[push] = np.asarray(number).astype(push.host.numpy)[()]

    def region(self, region: Region) -> _Barriers:
        """Yields the barriers that a region passes, with the known values there; returns how it ended."""
        for op in region.ops:
            if op.code == BARRIER:
                yield op, [self._value(value, {}) for value in self._phases.known]
            elif op.operation.terminator:
                return op, [self._value(value, {}) for value in op.args]
            elif op in self._phases.structural:
                end = yield from self._branch(op) if op.code == "if" else self._loop(op)
                if end is not None:
                    return end
        return None

    def _branch(self, op: Op) -> _Barriers:
        end = yield from self.region(op.regions[0 if self._value(op.args[0], {}) else 1])
        if end is not None and end[0].code != "yield":
            return end
        self._values.update(zip(op.results, end[1] if end else (), strict=False))
        return None

    def _loop(self, op: Op) -> _Barriers:
        values = [self._value(value, {}) for value in op.args]
        while True:
            self._values.update(zip(op.params, values, strict=True))
            end = yield from self.region(op.regions[0])
            code = "return" if end is None else end[0].code
            if end is None or (code != "yield" and end[0].attribute is not op):
                return end
            if code == "break":
                self._values.update(zip(op.results, end[1], strict=False))
                return None
            values = end[1]

    def _value(self, value: Value, done: dict[Value, Any]) -> Any:
        """Returns a value; None for one that is not known."""
        if isinstance(value, Constant):
            return value.value
        if not isinstance(value, Op):
            return self._values.get(value)
        if value not in done:
            done[value] = self._result(value, done)
        return done[value]

    def _result(self, op: Op, done: dict[Value, Any]) -> Any:
        if not _is_evaluated(op):
            return None
        if op.code == "builtin":
            return np.uint32(self._n_groups[op.attribute[1]])
        if op.code == "select":
            return self._value(op.args[1 if self._value(op.args[0], done) else 2], done)
        args, row = [self._value(arg, done) for arg in op.args], op.operation
        if any(arg is None for arg in args) or not (row.foldable is None or row.foldable(args, op.attribute)):
            return None  # undefined on devices, too
        assert row.evaluate is not None
        with np.errstate(all="ignore"):
            return np.asarray(row.evaluate(args, op.attribute)).astype(element_of(op.type).numpy)[()]
