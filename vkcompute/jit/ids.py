"""Where an invocation stands in the grid: names for kernels, without a value anywhere else."""

from __future__ import annotations

from typing import NoReturn

from vkcompute.errors import KernelError


def outside(name: str) -> NoReturn:
    """Raises the error of a name that is used where no kernel is compiled."""
    raise KernelError(
        f"vc.{name} has a value inside of a function that vc.kernel compiles; it was called outside of one"
    )


def global_id(axis: int = 0) -> int:
    """The invocation's number in the whole grid along an axis: 0, 1 or 2; int32."""
    outside(f"global_id({axis})")


def local_id(axis: int = 0) -> int:
    """The invocation's number in its workgroup along an axis; int32."""
    outside(f"local_id({axis})")


def group_id(axis: int = 0) -> int:
    """The workgroup's number along an axis; int32."""
    outside(f"group_id({axis})")


def local_size(axis: int = 0) -> int:
    """How many invocations a workgroup has along an axis, known at compile time."""
    outside(f"local_size({axis})")


def num_groups(axis: int = 0) -> int:
    """How many workgroups the grid has along an axis; int32."""
    outside(f"num_groups({axis})")
