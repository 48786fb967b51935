"""Subgroup operations: functions that have a value in kernels only.

A subgroup is the part of a workgroup that runs in lockstep: 32 invocations on NVIDIA, 32 or 64 on AMD, 8 to 32 on
Intel, at most 128. `local_id()` is the lane of an invocation. The device decides which invocations form a
subgroup; the last subgroup of a workgroup may have inactive lanes.

All of these functions operate on the active lanes: in a branch the lanes that take it, after a return those that did
not. Calls in different places never combine.
"""

from __future__ import annotations

from functools import partial
from keyword import iskeyword
from typing import Any

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, SUBGROUP_OPERATIONS, UINT32, Value
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import intrinsic
from vkcompute.jit.frontend.values import Kind, Number, Vector, describe
from vkcompute.jit.library.ids import builtin, refuse_outside_kernel

__all__ = """
    add all and_ any ballot broadcast broadcast_first count elect exclusive_add exclusive_max exclusive_min
    exclusive_mul id inclusive_add inclusive_max inclusive_min inclusive_mul local_id max min mul or_ shuffle
    shuffle_down shuffle_up shuffle_xor size xor
""".split()

_MOST_LANES = 128  # Vulkan's maximum of subgroupSize


def _combined(name: str, c: Compiler, x: Any) -> Number | Vector:
    """Builds a reduction, a scan or a broadcast of the first lane."""
    if isinstance(x, Vector):
        return c.elementwise(partial(_combined, name, c), x)
    kind = c.kind(x)
    c.demand_kind("".join(SUBGROUP_OPERATIONS[name].opcodes), kind, f"subgroup.{name}{'_' * iskeyword(name)}", x)
    return Number(c.builder.subgroup(name, c.cast(x, kind.type)), Kind(kind.type, kind.weak))


def _vote(name: str, c: Compiler, condition: Any) -> Any:
    truth = c.truth(condition)
    result = c.builder.subgroup(name, c.builder.const(truth, BOOL) if isinstance(truth, bool) else truth)
    if name != "ballot":
        return Number(result, Kind(BOOL))
    return Vector([Number(c.builder.extract(result, k), Kind(UINT32)) for k in range(4)])


def _elect(c: Compiler) -> Number:
    return Number(c.builder.subgroup("elect"), Kind(BOOL))


def _shuffled(name: str, c: Compiler, x: Any, lane: Any) -> Number | Vector:
    if isinstance(x, Vector):
        return c.elementwise(lambda value: _shuffled(name, c, value, lane), x)
    kind, number = c.kind(x), _lane(c, lane)
    if name in ("shuffle_up", "shuffle_down"):
        number, name = _neighbor(c, number, up=name == "shuffle_up"), "shuffle"
    return Number(c.builder.subgroup(name, c.cast(x, kind.type), number), Kind(kind.type, kind.weak))


def _lane(c: Compiler, lane: Any) -> Value:
    """Converts a lane to uint32."""
    if isinstance(lane, int) and not 0 <= lane < _MOST_LANES:
        raise UnsupportedError(f"lanes of a subgroup are 0 to {_MOST_LANES - 1}; got {describe(lane)} {lane}")
    return c.builder.cast(c.index(lane), UINT32)


def _neighbor(c: Compiler, delta: Value, *, up: bool) -> Value:
    """Returns the lane `delta` below or above, or the invocation's own where there is none."""
    b = c.builder
    own, size = b.builtin("subgroup_local_id"), b.builtin("subgroup_size")
    refuse_outside_kernel = b.compute("lt", own, delta) if up else b.compute("ge", delta, b.compute("sub", size, own))
    return b.select(refuse_outside_kernel, own, b.compute("sub" if up else "add", own, delta))


@intrinsic(partial(builtin, "subgroup_size"))
def size() -> int:
    """Number of lanes of a subgroup, a power of two; int32. Unlike vc.local_size, it is known on the device only."""
    refuse_outside_kernel("subgroup.size()")


@intrinsic(partial(builtin, "n_subgroups"))
def count() -> int:
    """Number of subgroups of the workgroup; int32."""
    refuse_outside_kernel("subgroup.count()")


@intrinsic(partial(builtin, "subgroup_id"))
def id() -> int:
    """Index of the subgroup in its workgroup; int32."""
    refuse_outside_kernel("subgroup.id()")


@intrinsic(partial(builtin, "subgroup_local_id"))
def local_id() -> int:
    """Lane of the invocation: its index in the subgroup; int32."""
    refuse_outside_kernel("subgroup.local_id()")


@intrinsic(partial(_combined, "add"))
def add(value: Any) -> Any:
    """Sum over the subgroup, of the type of the value. The order in which floats are added is up to the device."""
    refuse_outside_kernel("subgroup.add(value)")


@intrinsic(partial(_combined, "mul"))
def mul(value: Any) -> Any:
    """Product over the subgroup."""
    refuse_outside_kernel("subgroup.mul(value)")


@intrinsic(partial(_combined, "min"))
def min(value: Any) -> Any:
    """Minimum over the subgroup."""
    refuse_outside_kernel("subgroup.min(value)")


@intrinsic(partial(_combined, "max"))
def max(value: Any) -> Any:
    """Maximum over the subgroup."""
    refuse_outside_kernel("subgroup.max(value)")


@intrinsic(partial(_combined, "and"))
def and_(value: Any) -> Any:
    """Bitwise and over the subgroup, of integers or bools."""
    refuse_outside_kernel("subgroup.and_(value)")


@intrinsic(partial(_combined, "or"))
def or_(value: Any) -> Any:
    """Bitwise or over the subgroup, of integers or bools."""
    refuse_outside_kernel("subgroup.or_(value)")


@intrinsic(partial(_combined, "xor"))
def xor(value: Any) -> Any:
    """Bitwise xor over the subgroup, of integers or bools."""
    refuse_outside_kernel("subgroup.xor(value)")


@intrinsic(partial(_combined, "inclusive_add"))
def inclusive_add(value: Any) -> Any:
    """Inclusive prefix sum: over the lanes up to and including this one."""
    refuse_outside_kernel("subgroup.inclusive_add(value)")


@intrinsic(partial(_combined, "inclusive_mul"))
def inclusive_mul(value: Any) -> Any:
    """Inclusive prefix product: over the lanes up to and including this one."""
    refuse_outside_kernel("subgroup.inclusive_mul(value)")


@intrinsic(partial(_combined, "inclusive_min"))
def inclusive_min(value: Any) -> Any:
    """Inclusive prefix minimum: over the lanes up to and including this one."""
    refuse_outside_kernel("subgroup.inclusive_min(value)")


@intrinsic(partial(_combined, "inclusive_max"))
def inclusive_max(value: Any) -> Any:
    """Inclusive prefix maximum: over the lanes up to and including this one."""
    refuse_outside_kernel("subgroup.inclusive_max(value)")


@intrinsic(partial(_combined, "exclusive_add"))
def exclusive_add(value: Any) -> Any:
    """Exclusive prefix sum: over the lanes below this one; 0 in the first lane."""
    refuse_outside_kernel("subgroup.exclusive_add(value)")


@intrinsic(partial(_combined, "exclusive_mul"))
def exclusive_mul(value: Any) -> Any:
    """Exclusive prefix product: over the lanes below this one; 1 in the first lane."""
    refuse_outside_kernel("subgroup.exclusive_mul(value)")


@intrinsic(partial(_combined, "exclusive_min"))
def exclusive_min(value: Any) -> Any:
    """Exclusive prefix minimum; in the first lane the largest value of the type, infinity for floats."""
    refuse_outside_kernel("subgroup.exclusive_min(value)")


@intrinsic(partial(_combined, "exclusive_max"))
def exclusive_max(value: Any) -> Any:
    """Exclusive prefix maximum; in the first lane the smallest value of the type, -infinity for floats."""
    refuse_outside_kernel("subgroup.exclusive_max(value)")


@intrinsic(partial(_vote, "all"))
def all(condition: Any) -> bool:
    """True if the condition is true in all lanes."""
    refuse_outside_kernel("subgroup.all(condition)")


@intrinsic(partial(_vote, "any"))
def any(condition: Any) -> bool:
    """True if the condition is true in at least one lane."""
    refuse_outside_kernel("subgroup.any(condition)")


@intrinsic(partial(_vote, "ballot"))
def ballot(condition: Any) -> Any:
    """Mask of lanes in which the condition is true: a uint32x4; lane k is bit k of x, lane 32 + k of y, and so on."""
    refuse_outside_kernel("subgroup.ballot(condition)")


@intrinsic(_elect)
def elect() -> bool:
    """True in the lowest active lane, False in the others."""
    refuse_outside_kernel("subgroup.elect()")


@intrinsic(partial(_shuffled, "shuffle"))
def broadcast(value: Any, lane: int) -> Any:
    """Value of one lane, the same for the whole subgroup; like `shuffle`, but faster for a constant lane."""
    refuse_outside_kernel("subgroup.broadcast(value, lane)")


@intrinsic(partial(_combined, "broadcast_first"))
def broadcast_first(value: Any) -> Any:
    """Value of the lowest active lane."""
    refuse_outside_kernel("subgroup.broadcast_first(value)")


@intrinsic(partial(_shuffled, "shuffle"))
def shuffle(value: Any, lane: int) -> Any:
    """Value of another lane, chosen by each lane for itself.

    It is undefined for a lane that does not exist or is inactive: shuffle outside of branches.
    """
    refuse_outside_kernel("subgroup.shuffle(value, lane)")


@intrinsic(partial(_shuffled, "shuffle_xor"))
def shuffle_xor(value: Any, mask: int) -> Any:
    """Value of the lane `local_id() ^ mask`; the mask is less than the subgroup size."""
    refuse_outside_kernel("subgroup.shuffle_xor(value, mask)")


@intrinsic(partial(_shuffled, "shuffle_up"))
def shuffle_up(value: Any, delta: int) -> Any:
    """Value of the lane `delta` below; where there is none, the invocation's own value."""
    refuse_outside_kernel("subgroup.shuffle_up(value, delta)")


@intrinsic(partial(_shuffled, "shuffle_down"))
def shuffle_down(value: Any, delta: int) -> Any:
    """Value of the lane `delta` above; where there is none, the invocation's own value."""
    refuse_outside_kernel("subgroup.shuffle_down(value, delta)")


def __dir__() -> list[str]:
    return __all__
