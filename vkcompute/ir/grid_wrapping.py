"""Wrapped grids: workgroups along x continue along y, for more of them than the device allows along x."""

from __future__ import annotations

from functools import partial

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Push, Region, Value
from vkcompute.ir.rewriting import expand
from vkcompute.ir.types import UINT32


def wrap_grid(function: Function) -> Function:
    """Gives a kernel for a wrapped grid the IDs and sizes of the grid before, which has one workgroup along y.

    Its number of workgroups is one more push constant, the last. The rows of the wrapped grid may have more workgroups;
    these return at once, all invocations of one alike, so that no barrier is divergent.
    """
    n_groups, start = function.push("n_groups", UINT32), Region()
    builder = Builder(function)
    with builder.into(start):
        beyond = builder.compute("ge", _group(builder), n_groups)
        with builder.if_(beyond).then:
            builder.return_()
    expand(function, _is_wrapped, partial(_unwrapped, n_groups))
    function.body.ops[:0] = start.ops[:-1]  # without the terminator
    return function


def _is_wrapped(op: Op) -> bool:
    return op.code == "builtin" and op.attribute[0] in ("global_id", "group_id", "n_groups") and op.attribute[1] < 2


def _group(b: Builder) -> Value:
    """Returns the ID along x of a workgroup of the grid before."""
    return b.compute("add", b.builtin("group_id"), b.compute("mul", b.builtin("group_id", 1), b.builtin("n_groups")))


def _unwrapped(n_groups: Push, b: Builder, op: Op) -> Value:
    name, axis = op.attribute
    if axis == 1:
        return b.builtin("local_id", 1) if name == "global_id" else b.const(name == "n_groups", UINT32)
    if name == "n_groups":
        return n_groups
    if name == "group_id":
        return _group(b)
    first = b.compute("mul", _group(b), b.const(b.function.local_size[0], UINT32))
    return b.compute("add", first, b.builtin("local_id"))
