"""Removes loop-carried values that never change, such as the block part of a pointer whose scalar part advances."""

from __future__ import annotations

from vkcompute.ir import Function, Value
from vkcompute.ir.function import Op, back_edges, walk


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
        for each in (loop, *ends):
            each.args = tuple([each.args[at] for at in kept])
        loop.params = tuple([loop.params[at] for at in kept])
