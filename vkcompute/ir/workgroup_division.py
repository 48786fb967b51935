"""Division of workgroups that have more invocations than a device runs, if invocations are independent."""

from __future__ import annotations

import math

from vkcompute.ir.builder import Builder
from vkcompute.ir.builtins import BUILTINS
from vkcompute.ir.function import Function, Op, Value, walk
from vkcompute.ir.rewriting import expand
from vkcompute.ir.types import UINT32

_IDS = "local_id", "group_id", "n_groups", "local_index"


def is_divisible(function: Function) -> bool:
    """True for a function without barriers, shared memory and operations of subgroups or warps."""
    ops = walk(function.body)
    joint = any(op.operation.through_memory or op.operation.active_lanes or op.operation.waits for op in ops)
    subgroups = any(op.code == "builtin" and BUILTINS[op.attribute[0]].subgroup for op in ops)
    return not (function.shared_memory or joint or subgroups)


def divide_workgroups(function: Function, most: int) -> Function:
    """Divides workgroups of more than `most` invocations, if possible, in place; the ids remain those of whole ones.

    The grid has more workgroups along an axis, by the factor by which `local_size` has become smaller.
    """
    sizes = function.local_size
    if math.prod(sizes) <= most or not is_divisible(function):
        return function
    parts = _part(sizes, most)
    factors = [size // part for size, part in zip(sizes, parts, strict=True)]
    function.local_size = parts[0], parts[1], parts[2]

    def built(b: Builder, op: Op) -> Value:
        name, axis = op.attribute
        if name == "local_index":
            x, y, z = (_id(b, "local_id", axis, parts, factors) for axis in range(3))
            row = b.compute("add", b.compute("mul", z, b.const(sizes[1], UINT32)), y)
            return b.compute("add", b.compute("mul", row, b.const(sizes[0], UINT32)), x)
        return _id(b, name, axis, parts, factors)

    return expand(function, lambda op: op.code == "builtin" and op.attribute[0] in _IDS, built)


def _id(b: Builder, name: str, axis: int, parts: list[int], factors: list[int]) -> Value:
    """Returns an id or a size of whole workgroups."""
    if factors[axis] == 1:
        return b.builtin(name, axis)
    factor = b.const(factors[axis], UINT32)
    if name != "local_id":
        return b.compute("div", b.builtin(name, axis), factor)
    part = b.compute("rem", b.builtin("group_id", axis), factor)
    first = b.compute("mul", part, b.const(parts[axis], UINT32))
    return b.compute("add", first, b.builtin("local_id", axis))


def _part(sizes: tuple[int, int, int], most: int) -> list[int]:
    """Returns the largest local size found by dividing axes by their prime factors, the last axes first."""
    parts = list(sizes)
    while math.prod(parts) > most:
        axis = max(axis for axis in range(3) if parts[axis] > 1)
        size = parts[axis]
        parts[axis] //= next((n for n in range(2, math.isqrt(size) + 1) if size % n == 0), size)
    return parts
