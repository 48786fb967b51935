"""Bounds of the loop iterations of an invocation, from known intervals of push constants and builtins."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any

from vkcompute.ir.builtins import BUILTINS
from vkcompute.ir.float_remainders import iterations_of
from vkcompute.ir.function import Function, Op, Region, walk
from vkcompute.ir.intervals import Interval, Intervals, only_exit

_MAX_SUBGROUP_SIZE = 128  # Vulkan's bound of subgroupSize


def most_iterations(function: Function, given: Mapping[Any, Interval]) -> int | None:
    """An upper bound of the loop iterations of invocations that run in step, all loops together.

    A driver that masks inactive lanes iterates once through a loop that no invocation enters, and once more through
    each loop to leave it. Invocations in different iterations of an outer loop wait for each other.

    Args:
        function: the kernel.
        given: known intervals of push constants, and of builtins by (name, axis).

    Returns:
        None if no bound is found.
    """
    try:
        return _most(Intervals(function.body, _first_of(given, intervals_of_builtins(function))), function.body)
    except RecursionError:
        return None


def certain_excess(function: Function, given: Mapping[Any, Interval], limit: int) -> Op | None:
    """The loop in which the first invocation of the grid certainly exceeds `limit` iterations, all loops together.

    Args:
        function: the kernel.
        given: known intervals of push constants, and of builtins by (name, axis).
        limit: the most iterations that an invocation may run.

    Returns:
        None if no loop is certain to exceed the limit.
    """
    ids = [(name, axis) for name in ("global_id", "local_id", "group_id") for axis in range(BUILTINS[name].n_axes)]
    first = dict.fromkeys([*ids, ("local_index", 0)], (0, 0))
    intervals, total = Intervals(function.body, _first_of(first, given, intervals_of_builtins(function))), 0
    try:
        for loop in _certain_loops(intervals, function.body):
            total += _least(intervals, loop)
            if total > limit:
                return loop
    except RecursionError:
        pass
    return None


def _first_of(*maps: Any) -> Mapping[Any, Interval]:
    """Returns a view of mappings, in which the first one that has a key counts; a copy would hide what is read."""
    return ChainMap(*maps)


def intervals_of_builtins(function: Function) -> dict[Any, Interval]:
    """The intervals of builtins that the local size bounds."""
    size = math.prod(function.local_size)
    return {
        **{("local_id", axis): (0, n - 1) for axis, n in enumerate(function.local_size)},
        **dict.fromkeys((("local_index", 0), ("subgroup_id", 0)), (0, size - 1)),
        ("n_subgroups", 0): (1, size),
        ("subgroup_size", 0): (1, _MAX_SUBGROUP_SIZE),
        ("subgroup_local_id", 0): (0, _MAX_SUBGROUP_SIZE - 1),
    }


def _most(intervals: Intervals, region: Region) -> int | None:
    """The sum over the loops of a region and of the regions in it."""
    total = 0
    for op in region.ops:
        n = iterations_of(op)
        for inner in op.regions:
            most = _most(intervals, inner)
            if most is None:
                return None
            n += most
        if op.code == "loop":
            trips = intervals.trips(op)
            if trips is None:
                return None
            n = (trips + 1) * (n + 1)
        total += n
    return total


def _certain_loops(intervals: Intervals, region: Region) -> Iterator[Op]:
    """Outermost loops that every invocation in the region enters; none after a possible return."""
    for op in region.ops:
        regions = op.regions
        if op.code == "loop":
            yield op
        elif op.code == "if":
            least, most = intervals.of(op.args[0])
            if least == most:
                regions = (regions[0 if least else 1],)
                yield from _certain_loops(intervals, *regions)
        if any(op.code == "return" for inner in regions for op in walk(inner)):
            return


def _least(intervals: Intervals, loop: Op) -> int:
    """A lower bound of the iterations of a loop that is entered, and of the loops in it."""
    exit_ = only_exit(loop)
    if exit_ is None or any(op.code == "return" for op in walk(loop.regions[0])):
        return 0
    inner = _certain_loops(intervals, loop.regions[0])
    return intervals.least_trips(loop, exit_) * (1 + sum(_least(intervals, exit_) for exit_ in inner))
