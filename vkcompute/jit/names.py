"""What `import vkcompute` offers for kernels written in Python, besides numpy's types."""

from __future__ import annotations

from vkcompute.jit.ids import global_id, group_id, local_id, local_size, num_groups
from vkcompute.jit.kernel import kernel
from vkcompute.jit.workgroup import (
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

__all__: list[str] = [  # its type is said because the package asks for it in a circle
    "kernel", "global_id", "group_id", "local_id", "local_size", "num_groups", "shared", "barrier",
    "atomic_add", "atomic_and", "atomic_compare_exchange", "atomic_exchange", "atomic_max", "atomic_min", "atomic_or",
    "atomic_xor",
]  # fmt: skip
