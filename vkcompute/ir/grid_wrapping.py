"""Wrapped grids: workgroups along x continue along y, for more of them than the device allows along x."""

from __future__ import annotations

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Value
from vkcompute.ir.rewriting import expand
from vkcompute.ir.types import UINT32


def wrap_grid(function: Function) -> Function:
    """Gives a kernel for a wrapped grid the IDs and sizes of the grid before, which has one workgroup along y."""
    return expand(function, _is_wrapped, _unwrapped)


def _is_wrapped(op: Op) -> bool:
    return op.code == "builtin" and op.attribute[0] in ("global_id", "group_id", "n_groups") and op.attribute[1] < 2


def _unwrapped(b: Builder, op: Op) -> Value:
    name, axis = op.attribute
    if axis == 1:
        return b.builtin("local_id", 1) if name == "global_id" else b.const(name == "n_groups", UINT32)
    columns = b.builtin("n_groups")
    if name == "n_groups":
        return b.compute("mul", columns, b.builtin("n_groups", 1))
    group = b.compute("add", b.builtin("group_id"), b.compute("mul", b.builtin("group_id", 1), columns))
    if name == "group_id":
        return group
    first = b.compute("mul", group, b.const(b.function.local_size[0], UINT32))
    return b.compute("add", first, b.builtin("local_id"))
