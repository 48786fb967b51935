"""Invocation and workgroup IDs: functions that have a value in kernels only."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, NoReturn

from vkcompute.errors import KernelError
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import intrinsic
from vkcompute.jit.frontend.values import Kind, Number, describe

SIMULATED: ContextVar[Callable[[str, int], int] | None] = ContextVar("SIMULATED", default=None)
"""Gives the IDs of the invocation that is being simulated, for a debugger that evaluates these functions."""


def refuse_outside_kernel(name: str) -> NoReturn:
    """Raises the error for a kernel function that is called outside of a kernel."""
    raise KernelError(
        f"vc.{name} has a value inside of a function that vc.kernel compiles; it was called outside of one"
    )


def _simulated(name: str, axis: int) -> int:
    simulated = SIMULATED.get()
    return simulated(name, axis) if simulated is not None else refuse_outside_kernel(f"{name}({axis})")


def _id(name: str, c: Compiler, axis: Any = 0) -> Any:
    """Returns an ID or a size."""
    if not isinstance(axis, int) or not 0 <= axis < 3:
        got = axis if isinstance(axis, int) else describe(axis)
        raise UnsupportedError(f"an axis is 0, 1 or 2, known at compile time; got {got}")
    if name == "local_size":
        return c.function.local_size[axis]
    return builtin(name, c, axis)


def builtin(name: str, c: Compiler, axis: int = 0) -> Number:
    """Reads a built-in input of the invocation, as an int32."""
    value = c.builder.builtin(name, axis)
    c.ids.add(value)
    return Number(c.builder.cast(value, INT32), Kind(INT32))


@intrinsic(partial(_id, "global_id"))
def global_id(axis: int = 0) -> int:
    """Global invocation ID along an axis (0, 1 or 2); int32."""
    return _simulated("global_id", axis)


@intrinsic(partial(_id, "local_id"))
def local_id(axis: int = 0) -> int:
    """Local invocation ID in the workgroup along an axis; int32."""
    return _simulated("local_id", axis)


@intrinsic(partial(_id, "group_id"))
def group_id(axis: int = 0) -> int:
    """Workgroup ID along an axis; int32."""
    return _simulated("group_id", axis)


@intrinsic(partial(_id, "local_size"))
def local_size(axis: int = 0) -> int:
    """Number of invocations of a workgroup along an axis, a compile-time constant."""
    return _simulated("local_size", axis)


@intrinsic(partial(_id, "n_groups"))
def num_groups(axis: int = 0) -> int:
    """Number of workgroups of the grid along an axis; int32."""
    return _simulated("num_groups", axis)
