"""The axes of the ids that a kernel reads: of two invocations with the same ids, both do the same."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from vkcompute.ir.builtins import BUILTINS
from vkcompute.ir.function import Function, Value, walk


class IdAxes(NamedTuple):
    """The axes along which a kernel reads ids.

    Attributes:
        of_groups: of ids that tell workgroups apart: global and workgroup ids.
        in_group: of ids that tell the invocations of a workgroup apart: global and local ids. Positions in a subgroup
            and operations on its active lanes count as ids along all axes.
    """

    of_groups: tuple[int, ...] = ()
    in_group: tuple[int, ...] = ()


def id_axes(function: Function, ids: Collection[Value]) -> IdAxes:
    """Returns the axes along which a function uses these ids. Others are those by which reports name invocations."""
    used: set[Value] = {value for op in walk(function.body) if op.operation.terminator for value in op.args}
    of_groups, in_group = set[int](), set[int]()
    for op in reversed(walk(function.body)):  # uses precede definitions, as in `remove_unused`
        if not (op.operation.effect or op in used or op.regions):
            continue
        used.update(op.args)
        if op.operation.active_lanes:
            in_group.update(range(3))
        elif op in ids:
            name, axis = op.attribute
            if name in ("global_id", "group_id"):
                of_groups.add(axis)
            if name in ("global_id", "local_id"):
                in_group.add(axis)
            elif not BUILTINS[name].uniform:
                in_group.update(range(3))
    return IdAxes(tuple(sorted(of_groups)), tuple(sorted(in_group)))
