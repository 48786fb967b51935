"""What the invocations of a subgroup compute together: names for kernels, as those in ids.py.

A subgroup is the part of a workgroup that runs side by side on the device: 32 invocations on NVIDIA's, 32 or 64 on
AMD's, 8 to 32 on Intel's, at most 128. `subgroup_local_id()` is an invocation's number in it, its lane. Who is in which
subgroup, the device decides; the last one of a workgroup may have lanes without an invocation.

All of these functions work on the invocations that come to the place together: in a branch those that take it, after a
return those that did not. Each is an operation of its own: two calls in two branches never meet.
"""

from __future__ import annotations

from typing import Any

from vkcompute.jit.ids import outside


def subgroup_size() -> int:
    """How many lanes a subgroup has, a power of two; int32. Other than vc.local_size it is known on the device only."""
    outside("subgroup_size()")


def num_subgroups() -> int:
    """How many subgroups the workgroup has; int32."""
    outside("num_subgroups()")


def subgroup_id() -> int:
    """The subgroup's number in the workgroup; int32."""
    outside("subgroup_id()")


def subgroup_local_id() -> int:
    """The invocation's number in its subgroup, its lane; int32."""
    outside("subgroup_local_id()")


def subgroup_add(value: Any) -> Any:
    """The sum over the subgroup, of the value's type; in which order floats are added, the device decides."""
    outside("subgroup_add(value)")


def subgroup_mul(value: Any) -> Any:
    """The product over the subgroup."""
    outside("subgroup_mul(value)")


def subgroup_min(value: Any) -> Any:
    """The smallest value of the subgroup."""
    outside("subgroup_min(value)")


def subgroup_max(value: Any) -> Any:
    """The largest value of the subgroup."""
    outside("subgroup_max(value)")


def subgroup_and(value: Any) -> Any:
    """`&` over the subgroup, of integers or bools."""
    outside("subgroup_and(value)")


def subgroup_or(value: Any) -> Any:
    """`|` over the subgroup, of integers or bools."""
    outside("subgroup_or(value)")


def subgroup_xor(value: Any) -> Any:
    """`^` over the subgroup, of integers or bools."""
    outside("subgroup_xor(value)")


def subgroup_inclusive_add(value: Any) -> Any:
    """The sum over the lanes up to this one, itself included."""
    outside("subgroup_inclusive_add(value)")


def subgroup_inclusive_mul(value: Any) -> Any:
    """The product over the lanes up to this one, itself included."""
    outside("subgroup_inclusive_mul(value)")


def subgroup_inclusive_min(value: Any) -> Any:
    """The smallest value of the lanes up to this one, itself included."""
    outside("subgroup_inclusive_min(value)")


def subgroup_inclusive_max(value: Any) -> Any:
    """The largest value of the lanes up to this one, itself included."""
    outside("subgroup_inclusive_max(value)")


def subgroup_exclusive_add(value: Any) -> Any:
    """The sum over the lanes below this one; 0 in the first."""
    outside("subgroup_exclusive_add(value)")


def subgroup_exclusive_mul(value: Any) -> Any:
    """The product over the lanes below this one; 1 in the first."""
    outside("subgroup_exclusive_mul(value)")


def subgroup_exclusive_min(value: Any) -> Any:
    """The smallest value of the lanes below this one; in the first the largest of the type, infinite for floats."""
    outside("subgroup_exclusive_min(value)")


def subgroup_exclusive_max(value: Any) -> Any:
    """The largest value of the lanes below this one; in the first the smallest of the type, -infinite for floats."""
    outside("subgroup_exclusive_max(value)")


def subgroup_all(condition: Any) -> bool:
    """Whether the condition holds for all of the subgroup."""
    outside("subgroup_all(condition)")


def subgroup_any(condition: Any) -> bool:
    """Whether the condition holds for one of the subgroup, or more."""
    outside("subgroup_any(condition)")


def subgroup_ballot(condition: Any) -> Any:
    """For which lanes the condition holds: a uint32x4, lane k is bit k of its x, lane 32 + k of its y, and so on."""
    outside("subgroup_ballot(condition)")


def subgroup_elect() -> bool:
    """True for the lowest lane that comes here, False for the others."""
    outside("subgroup_elect()")


def subgroup_broadcast(value: Any, lane: int) -> Any:
    """The value of a lane, which is to be the same for all; as `subgroup_shuffle`, and faster for a constant lane."""
    outside("subgroup_broadcast(value, lane)")


def subgroup_broadcast_first(value: Any) -> Any:
    """The value of the lowest lane that comes here."""
    outside("subgroup_broadcast_first(value)")


def subgroup_shuffle(value: Any, lane: int) -> Any:
    """The value of a lane, another one for each that asks.

    It is undefined where there is no such lane, or none that comes here: shuffle outside of branches.
    """
    outside("subgroup_shuffle(value, lane)")


def subgroup_shuffle_xor(value: Any, mask: int) -> Any:
    """The value of the lane `subgroup_local_id() ^ mask`; the mask is less than the subgroup's size."""
    outside("subgroup_shuffle_xor(value, mask)")


def subgroup_shuffle_up(value: Any, delta: int) -> Any:
    """The value of the lane `delta` below; where there is none, the invocation's own."""
    outside("subgroup_shuffle_up(value, delta)")


def subgroup_shuffle_down(value: Any, delta: int) -> Any:
    """The value of the lane `delta` above; where there is none, the invocation's own."""
    outside("subgroup_shuffle_down(value, delta)")
