"""Removes loop-carried values that never change, and checks.

The block part of a pointer whose scalar part advances is such a value.
"""

from __future__ import annotations

from vkcompute.ir import Function, Value
from vkcompute.ir.elimination import remove_unused
from vkcompute.ir.function import Op, Region, back_edges, walk


def remove_invariants(function: Function) -> Function:
    """Replaces loop-carried values that each iteration passes on unchanged by their initial values, in place."""
    changed = True
    while changed:
        replaced: dict[Value, Value] = {}
        for op in walk(function.body):
            if op.code == "loop":
                _remove(op, replaced)
        for op in walk(function.body):
            op.args = tuple([_final(value, replaced) for value in op.args])
        changed = bool(replaced)
    return function


def _final(value: Value, replaced: dict[Value, Value]) -> Value:
    while value in replaced:
        value = replaced[value]
    return value


def _remove(loop: Op, replaced: dict[Value, Value]) -> None:
    """Removes the invariant values of one loop, and notes what stands in their place."""
    ends = list(back_edges(loop))
    kept = []
    for at, param in enumerate(loop.params):
        if all(end.args[at] in (param, loop.args[at]) for end in ends):
            replaced[param] = loop.args[at]
        else:
            kept.append(at)
    if len(kept) < len(loop.params):
        for inner in (loop, *ends):
            inner.args = tuple([inner.args[at] for at in kept])
        loop.params = tuple([loop.params[at] for at in kept])


def remove_checks(function: Function) -> None:
    """Removes reports that fail, and their operands, in place.

    Before layouts are chosen: blocks would be computed in the layouts of reports, too.
    """
    if any(_is_check(op) for op in walk(function.body)):
        _remove_checks(function.body)
        remove_unused(function.body)


def _is_check(op: Op) -> bool:
    return op.code == "report" and bool(op.attribute.fails)


def _remove_checks(region: Region) -> None:
    region.ops = [op for op in region.ops if not _is_check(op)]
    for op in region.ops:
        for inner in op.regions:
            _remove_checks(inner)
