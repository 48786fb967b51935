"""Interval analysis: the ranges of integers and bools, and the trip counts of loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from vkcompute.ir.function import (
    Constant,
    Op,
    Param,
    Region,
    Result,
    Value,
    back_edges,
    exits,
    falls_through,
    walk,
)
from vkcompute.ir.types import BOOL, Scalar, Type

Interval = tuple[Any, Any]
"""The least and the greatest number, both included. Bools are 0 and 1; floats are unbounded."""
Comparison = tuple[str, Value, Value]

_NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


class Intervals:
    """The intervals of the values in a region, computed on demand.

    Args:
        given: known intervals of push constants, and of builtins by (name, axis).
    """

    def __init__(self, region: Region, given: Mapping[Any, Interval]) -> None:
        self._given = given
        self._known: dict[Value, Interval] = {}
        self._refined: dict[Value, Interval] = {}  # under the assumption in `_less`
        self._open: set[Value] = set()
        self._less: set[tuple[Value, Value]] = set()  # pairs whose first value is assumed to be less than the second
        self._owners = {
            value: (op, at)
            for op in walk(region)
            for values in (op.params, op.results)
            for at, value in enumerate(values)
        }

    # -- loops --------------------------------------------------------------------------------------------------------

    def trips(self, loop: Op) -> int | None:
        """An upper bound of the times that a loop starts over."""
        if next(back_edges(loop), None) is None:
            return 0
        counts = (self._counted(loop, *condition) for condition in self._conditions(loop))
        return next((count[0] for count in counts if count), None)

    def least_trips(self, loop: Op, exit_: Op) -> int:
        """A lower bound of the times that a loop with this only exit starts over."""
        condition, stays = exit_.args[0], _breaks(exit_.regions[1])
        if not isinstance(condition, Op) or condition.code not in _NEGATED:
            return 0
        comparisons = self._counters(loop, self._holding(condition, stays))
        return max([self._fewest(loop, *comparison) for comparison in comparisons], default=0)

    def _conditions(self, loop: Op) -> Iterator[Comparison]:
        """Comparisons of a carried value that hold whenever the loop starts over."""
        for op in loop.regions[0].ops:
            if any(edge.code == "continue" and edge.attribute is loop for inner in op.regions for edge in walk(inner)):
                return
            for region, stays in zip(op.regions, (False, True), strict=False):
                end = region.terminator if op.code == "if" else None
                if end is not None and end.code in ("break", "return"):
                    yield from self._counters(loop, self._holding(op.args[0], stays))

    def _counters(self, loop: Op, comparisons: Iterable[Comparison]) -> Iterator[Comparison]:
        """The comparisons whose left operand is an integer that the loop carries, swapped where needed."""
        for code, one, other in comparisons:
            for comparison in ((code, one, other), (_SWAPPED[code], other, one)):
                if comparison[1] in loop.params and _is_whole(comparison[1].type):
                    yield comparison

    def _holding(self, condition: Value, truth: bool) -> Iterator[Comparison]:
        """Comparisons that hold where a bool has this value."""
        conjuncts: tuple[Value, ...] = ()
        if isinstance(condition, Result) and condition in self._owners:
            branch, at = self._owners[condition]
            passed = [end.args[at] for end in exits(branch)]
            if branch.code == "if" and len(passed) == 2:
                conjuncts = _conjuncts(branch.args[0], *passed, truth=truth)
        elif isinstance(condition, Op) and condition.code in _NEGATED:
            yield (condition.code if truth else _NEGATED[condition.code], *condition.args)  # type: ignore[misc]
        elif isinstance(condition, Op) and condition.code == "not":
            yield from self._holding(condition.args[0], not truth)
        elif isinstance(condition, Op) and condition.code == ("and" if truth else "or"):
            conjuncts = condition.args
        elif isinstance(condition, Op) and condition.code == "select":
            conjuncts = _conjuncts(*condition.args, truth=truth)
        for conjunct in conjuncts:
            yield from self._holding(conjunct, truth)

    def _counted(self, loop: Op, code: str, counter: Value, bound: Value) -> tuple[int, Interval] | None:
        """The most trips of a loop that starts over only while this holds, and the counter's interval."""
        at = self._owners[counter][1]
        following = [end.args[at] for end in back_edges(loop)]
        (least, most), (low, high) = self.of(loop.args[at]), self.of(bound)
        lowest, highest = _limits(counter.type)
        if code in ("gt", "ne") and (low, high) == (0, 0) <= (least, 0):
            halves = [_factor(value, counter, ("shr", "div"), rounded=code == "gt") for value in following]
            if all(halves):
                return most.bit_length(), (-1, most)
        if code in ("lt", "le") and least > 0:
            end = max(high + (code == "le"), 1)
            doubles = [_factor(value, counter, ("shl", "mul")) for value in following]
            reach = least, max(most, (end - 1) * max(doubles, default=1))
            if all(doubles) and reach[1] <= highest:
                return (end - 1).bit_length(), reach
        step = _union([self._change(value, counter) for value in following])
        if step is None:
            return None
        if code in ("lt", "le") and step[0] > 0:
            end = high + (code == "le")
            trips, reach = -((least - end) // step[0]), (least, max(most, end - 1 + step[1]))
        elif code in ("gt", "ge") and step[1] < 0:
            end = low - (code == "ge")
            trips, reach = -((end - most) // -step[1]), (min(least, end + 1 + step[0]), most)
        else:
            return None
        return (max(trips, 0), reach) if lowest <= reach[0] and reach[1] <= highest else None

    def _fewest(self, loop: Op, code: str, counter: Value, bound: Value) -> int:
        """The fewest trips of a loop that starts over exactly while this holds."""
        at = self._owners[counter][1]
        step = _union([self._change(end.args[at], counter) for end in back_edges(loop)])
        (least, most), (low, high) = self.of(loop.args[at]), self.of(bound)
        if step is None:
            return 0
        if code in ("lt", "le") and step[0] >= 0 and step[1] > 0:
            return max(int(-((most - low - (code == "le")) // step[1])), 0)
        if code in ("gt", "ge") and step[1] <= 0 and step[0] < 0:
            return max(int(-((high - least - (code == "ge")) // -step[0])), 0)
        return 0

    def _change(self, value: Value, counter: Value) -> Interval | None:
        """The interval of value - counter."""
        if value is counter:
            return 0, 0
        op, at = self._owners.get(value, (None, 0))
        if op is not None and op.code == "if":
            return _union([self._change(end.args[at], counter) for end in exits(op)])
        if not isinstance(value, Op) or value.code not in ("add", "sub", "select"):
            return None
        if value.code == "select":
            return _union([self._change(arg, counter) for arg in value.args[1:]])
        for one, other in (value.args, value.args[::-1])[: 2 if value.operation.commutative else 1]:
            before = self._change(one, counter)
            if before is not None:
                return _RULES[value.code](before, self.of(other))
        return None

    # -- values -------------------------------------------------------------------------------------------------------

    def of(self, value: Value) -> Interval:
        """The interval of a value at its definition; the limits of its type if it depends on itself."""
        limits, less = _limits(value.type), self._less
        if less and value in self._refined:
            return self._refined[value]
        if not isinstance(value, Op):  # it may be of another iteration, where the assumption does not hold
            self._less = set()
        known = self._refined if self._less else self._known
        if value not in known and value not in self._open and _is_whole(value.type):
            self._open.add(value)
            interval = self._found(value)
            self._open.discard(value)
            fits = interval is not None and limits[0] <= interval[0] and interval[1] <= limits[1]
            known[value] = interval if interval is not None and fits else limits
        self._less = less
        return known.get(value, limits)

    def _found(self, value: Value) -> Interval | None:
        if isinstance(value, Constant):
            return int(value.value), int(value.value)
        if isinstance(value, Param) and value in self._owners:
            return self._carried(value)
        if isinstance(value, Result) and value in self._owners:
            op, at = self._owners[value]
            return _union([self.of(end.args[at]) for end in exits(op)])
        if not isinstance(value, Op):
            return self._given.get(value)
        if value.code == "builtin":
            return self._given.get(value.attribute)
        if value.code == "select":
            return self._selected(*value.args)
        rule = _RULES.get(value.code)
        interval = rule(*map(self.of, value.args)) if rule is not None else None
        if interval is not None and value.code == "sub" and (value.args[1], value.args[0]) in self._less:
            return max(interval[0], 1), interval[1]
        return interval

    def _carried(self, param: Param) -> Interval | None:
        loop, at = self._owners[param]
        following = [end.args[at] for end in back_edges(loop)]
        if all(value is param for value in following):
            return self.of(loop.args[at])
        counts = (self._counted(loop, *condition) for condition in self._conditions(loop) if condition[1] is param)
        return next((count[1] for count in counts if count), None)

    def _selected(self, condition: Value, one: Value, other: Value) -> Interval | None:
        least, most = self.of(condition)
        if least == most:
            return self.of(one if least else other)
        if self._less:
            return _union([self.of(one), self.of(other)])
        holding = self._holding(condition, True)
        pairs = {(a, b) if c == "lt" else (b, a) for c, a, b in holding if c in ("lt", "gt") and _is_whole(a.type)}
        for less, more in pairs:
            (low, high), (least, most) = self.of(less), self.of(more)
            if low < most:
                self._refined |= {less: (low, min(high, most - 1)), more: (max(least, low + 1), most)}
        self._less = pairs
        taken = self.of(one)
        self._less, self._refined = set(), {}
        return _union([taken, self.of(other)])


def only_exit(loop: Op) -> Op | None:
    """The branch at the top level of the body with the only break; None if the loop exits or continues elsewhere."""
    body = loop.regions[0]
    edges = [op for op in walk(body) if op.code in ("break", "continue") and op.attribute is loop]
    if len(edges) != 1 or edges[0].code != "break" or body.ops[-1].code != "yield":
        return None
    branches = [
        op for op in body.ops if op.code == "if" and any(region.terminator is edges[0] for region in op.regions)
    ]
    return branches[0] if branches and falls_through(branches[0]) else None


def _breaks(region: Region) -> bool:
    end = region.terminator
    return end is not None and end.code == "break"


def _conjuncts(condition: Value, one: Value, other: Value, *, truth: bool) -> tuple[Value, ...]:
    """The bools that have this value, too, if `condition ? one : other` has it."""
    short, long = (other, one) if truth else (one, other)
    decided = isinstance(short, Constant) and bool(short.value) is not truth
    return (condition, long) if short is condition or decided else ()


def _factor(value: Value, counter: Value, codes: tuple[str, str], *, rounded: bool = False) -> int:
    """The constant above 1 by which the counter is shifted, multiplied or divided to give the value, or 0.

    If `rounded`, a bool may be subtracted from that, as in a division that rounds down.
    """
    if not isinstance(value, Op):
        return 0
    if rounded and value.code == "sub":
        one, less = value.args
        is_bool = isinstance(less, Op) and less.code == "cast" and less.args[0].type is BOOL
        return _factor(one, counter, codes) if is_bool else 0
    if value.code not in codes or value.args[0] is not counter or not isinstance(by := value.args[1], Constant):
        return 0
    factor = 1 << min(int(by.value), 64) if value.code == codes[0] else int(by.value)
    return factor if factor > 1 else 0


def _is_whole(kind: Type) -> bool:
    return isinstance(kind, Scalar) and kind.kind in "biu"


@cache
def _limits(kind: Type) -> Interval:
    if not isinstance(kind, Scalar) or kind.kind not in "iu":
        return (0, 1) if _is_whole(kind) else (-np.inf, np.inf)
    limits = np.iinfo(kind.name)
    return int(limits.min), int(limits.max)


# -- rules ------------------------------------------------------------------------------------------------------------


def _union(intervals: Iterable[Interval | None]) -> Interval | None:
    every = list(intervals)
    known = [interval for interval in every if interval is not None]
    return (min(x[0] for x in known), max(x[1] for x in known)) if known and len(known) == len(every) else None


def _corners(compute: Callable[[Any, Any], Any], x: Interval, y: Interval) -> Interval:
    ends = [compute(a, b) for a in x for b in y]
    return min(ends), max(ends)


def _decided(always: bool, never: bool) -> Interval:
    return int(always), int(not never)


def _divided(x: Interval, y: Interval) -> Interval | None:
    return _corners(lambda a, b: abs(a) // b * (1 if a > 0 else -1), x, y) if y[0] > 0 else None


def _modulo(x: Interval, y: Interval) -> Interval | None:
    return (0, min(x[1], y[1] - 1) if x[0] >= 0 else y[1] - 1) if y[0] > 0 else None


def _and(x: Interval, y: Interval) -> Interval | None:
    if x[0] == x[1] and y[0] == y[1]:
        return x[0] & y[0], x[0] & y[0]
    tops = [interval[1] for interval in (x, y) if interval[0] >= 0]
    return (0, min(tops)) if tops else None


_RULES: dict[str, Callable[..., Interval | None]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": lambda x, y: _corners(lambda a, b: a * b, x, y),
    "div": _divided,
    "mod": _modulo,
    "rem": lambda x, y: _modulo(x, y) if x[0] >= 0 else None,
    "min": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "max": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "and": _and,
    "shl": lambda x, y: _corners(lambda a, b: a << b, x, y) if 0 <= y[0] <= y[1] < 64 else None,
    "shr": lambda x, y: _corners(lambda a, b: a >> b, x, y) if 0 <= y[0] <= y[1] < 64 else None,
    "neg": lambda x: (-x[1], -x[0]),
    "abs": lambda x: (0 if x[0] <= 0 <= x[1] else min(map(abs, x)), max(map(abs, x))),
    "cast": lambda x: x,
    "bitcast": lambda x: x,
    "lt": lambda x, y: _decided(x[1] < y[0], x[0] >= y[1]),
    "le": lambda x, y: _decided(x[1] <= y[0], x[0] > y[1]),
    "gt": lambda x, y: _decided(x[0] > y[1], x[1] <= y[0]),
    "ge": lambda x, y: _decided(x[0] >= y[1], x[1] < y[0]),
    "eq": lambda x, y: _decided(x[0] == x[1] == y[0] == y[1], x[1] < y[0] or x[0] > y[1]),
    "ne": lambda x, y: _decided(x[1] < y[0] or x[0] > y[1], x[0] == x[1] == y[0] == y[1]),
}
"""Operation -> the interval of its result, from those of its operands; None, as without a rule, if it is unknown."""
