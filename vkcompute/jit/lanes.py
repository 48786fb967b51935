"""Calls of what `subgroup.py` names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from vkcompute.ir import BOOL, INT32, SUBGROUP_OPERATIONS, UINT32, Value
from vkcompute.jit.source import Refused
from vkcompute.jit.values import Kind, Number, Vector, describe

if TYPE_CHECKING:
    from vkcompute.jit.expressions import Expressions

_MOST_LANES = 128  # of a subgroup, by Vulkan's limit on its size


def _place(name: str, c: Expressions) -> Number:
    return Number(c.builder.cast(c.builder.builtin(name), INT32), Kind(INT32))


def _combined(name: str, c: Expressions, x: Any) -> Number | Vector:
    """A reduction, a scan, or what the first lane has."""
    if isinstance(x, Vector):
        return c.each(partial(_combined, name, c), x)
    kind = c.kind(x)
    c.demand_kind("".join(SUBGROUP_OPERATIONS[name].opcodes), kind, f"subgroup_{name}", x)
    return Number(c.builder.subgroup(name, c.cast(x, kind.type)), kind)


def _vote(name: str, c: Expressions, condition: Any) -> Any:
    truth = c.truth(condition)
    found = c.builder.subgroup(name, c.builder.const(truth, BOOL) if isinstance(truth, bool) else truth)
    if name != "ballot":
        return Number(found, Kind(BOOL))
    return Vector([Number(c.builder.extract(found, k), Kind(UINT32)) for k in range(4)])


def _elect(c: Expressions) -> Number:
    return Number(c.builder.subgroup("elect"), Kind(BOOL))


def _shuffled(name: str, c: Expressions, x: Any, lane: Any) -> Number | Vector:
    if isinstance(x, Vector):
        return c.each(lambda each: _shuffled(name, c, each, lane), x)
    kind, number = c.kind(x), _lane(c, lane)
    if name in ("shuffle_up", "shuffle_down"):
        number, name = _neighbour(c, number, up=name == "shuffle_up"), "shuffle"
    return Number(c.builder.subgroup(name, c.cast(x, kind.type), number), kind)


def _lane(c: Expressions, lane: Any) -> Value:
    """A lane's number, uint32."""
    if isinstance(lane, int) and not 0 <= lane < _MOST_LANES:
        raise Refused(f"lanes of a subgroup are 0 to {_MOST_LANES - 1}; got {describe(lane)} {lane}")
    return c.builder.cast(c.index(lane), UINT32)


def _neighbour(c: Expressions, delta: Value, *, up: bool) -> Value:
    """The lane so far below or above, the invocation's own where there is none."""
    b = c.builder
    own, size = b.builtin("subgroup_local_id"), b.builtin("subgroup_size")
    outside = b.binary("lt", own, delta) if up else b.binary("ge", delta, b.binary("sub", size, own))
    return b.select(outside, own, b.binary("sub" if up else "add", own, delta))


CALLS: dict[str, tuple[Callable[..., Any], int]] = {
    **{f"subgroup_{name}": (partial(_place, f"subgroup_{name}"), 0) for name in ("size", "id", "local_id")},
    "num_subgroups": (partial(_place, "n_subgroups"), 0),
    **{f"subgroup_{name}": (partial(_combined, name), 1) for name in SUBGROUP_OPERATIONS},
    **{f"subgroup_{name}": (partial(_vote, name), 1) for name in ("all", "any", "ballot")},
    "subgroup_elect": (_elect, 0),
    "subgroup_broadcast": (partial(_shuffled, "shuffle"), 2),
    **{f"subgroup_{name}": (partial(_shuffled, name), 2) for name in ("shuffle", "shuffle_xor")},
    **{f"subgroup_{name}": (partial(_shuffled, name), 2) for name in ("shuffle_up", "shuffle_down")},
}
"""Name -> what a call becomes, from the compiler and the arguments; how many arguments it takes"""
