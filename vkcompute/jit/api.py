"""Public names of kernels in Python, besides numpy's scalar types."""

from __future__ import annotations

from vkcompute.jit.elementwise.elementwise import elementwise, vectorize
from vkcompute.jit.elementwise.reduction import reduce
from vkcompute.jit.kernel import function, kernel
from vkcompute.jit.library.ids import global_id, group_id, local_id, local_size, num_groups
from vkcompute.jit.library.subgroup import (
    num_subgroups,
    subgroup_add,
    subgroup_all,
    subgroup_and,
    subgroup_any,
    subgroup_ballot,
    subgroup_broadcast,
    subgroup_broadcast_first,
    subgroup_elect,
    subgroup_exclusive_add,
    subgroup_exclusive_max,
    subgroup_exclusive_min,
    subgroup_exclusive_mul,
    subgroup_id,
    subgroup_inclusive_add,
    subgroup_inclusive_max,
    subgroup_inclusive_min,
    subgroup_inclusive_mul,
    subgroup_local_id,
    subgroup_max,
    subgroup_min,
    subgroup_mul,
    subgroup_or,
    subgroup_shuffle,
    subgroup_shuffle_down,
    subgroup_shuffle_up,
    subgroup_shuffle_xor,
    subgroup_size,
    subgroup_xor,
)
from vkcompute.jit.library.vectors import (
    cross,
    dot,
    float16x2,
    float16x3,
    float16x4,
    float32x2,
    float32x3,
    float32x4,
    float64x2,
    float64x3,
    float64x4,
    int32x2,
    int32x3,
    int32x4,
    length,
    normalize,
    uint32x2,
    uint32x3,
    uint32x4,
)
from vkcompute.jit.library.workgroup import (
    atomic_add,
    atomic_and,
    atomic_compare_exchange,
    atomic_exchange,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xor,
    barrier,
    shared,
)

__all__: list[str] = [  # annotated, because vkcompute/__init__.py extends its own __all__ by it
    "kernel", "function", "elementwise", "vectorize", "reduce", "shared", "barrier",
    "global_id", "group_id", "local_id", "local_size", "num_groups",
    "atomic_add", "atomic_and", "atomic_compare_exchange", "atomic_exchange", "atomic_max", "atomic_min", "atomic_or",
    "atomic_xor",
    "num_subgroups", "subgroup_add", "subgroup_all", "subgroup_and", "subgroup_any", "subgroup_ballot",
    "subgroup_broadcast", "subgroup_broadcast_first", "subgroup_elect", "subgroup_exclusive_add",
    "subgroup_exclusive_max", "subgroup_exclusive_min", "subgroup_exclusive_mul", "subgroup_id",
    "subgroup_inclusive_add", "subgroup_inclusive_max", "subgroup_inclusive_min", "subgroup_inclusive_mul",
    "subgroup_local_id", "subgroup_max", "subgroup_min", "subgroup_mul", "subgroup_or", "subgroup_shuffle",
    "subgroup_shuffle_down", "subgroup_shuffle_up", "subgroup_shuffle_xor", "subgroup_size", "subgroup_xor",
    "float16x2", "float16x3", "float16x4", "float32x2", "float32x3", "float32x4", "float64x2", "float64x3",
    "float64x4", "int32x2", "int32x3", "int32x4", "uint32x2", "uint32x3", "uint32x4", "cross", "dot", "length",
    "normalize",
]  # fmt: skip
