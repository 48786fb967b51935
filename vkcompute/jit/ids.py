"""Where an invocation stands in the grid: names for kernels, without a value anywhere else."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import NoReturn

from vkcompute.errors import KernelError

SIMULATED: ContextVar[Callable[[str, int], int] | None] = ContextVar("SIMULATED", default=None)
"""What knows the place of the invocation that is being simulated, for a debugger that asks."""


def outside(name: str) -> NoReturn:
    """Raises the error of a name that is used where no kernel is compiled."""
    raise KernelError(
        f"vc.{name} has a value inside of a function that vc.kernel compiles; it was called outside of one"
    )


def _place(name: str, axis: int) -> int:
    place = SIMULATED.get()
    return place(name, axis) if place is not None else outside(f"{name}({axis})")


def global_id(axis: int = 0) -> int:
    """The invocation's number in the whole grid along an axis: 0, 1 or 2; int32."""
    return _place("global_id", axis)


def local_id(axis: int = 0) -> int:
    """The invocation's number in its workgroup along an axis; int32."""
    return _place("local_id", axis)


def group_id(axis: int = 0) -> int:
    """The workgroup's number along an axis; int32."""
    return _place("group_id", axis)


def local_size(axis: int = 0) -> int:
    """How many invocations a workgroup has along an axis, known at compile time."""
    return _place("local_size", axis)


def num_groups(axis: int = 0) -> int:
    """How many workgroups the grid has along an axis; int32."""
    return _place("num_groups", axis)
