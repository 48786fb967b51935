"""Workgroup memory that is indexed for another local size: elements outside, and elements that no invocation writes."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from vkcompute.ir.function import Function, Op, Value, walk
from vkcompute.ir.invocation_masks import Access, accesses
from vkcompute.ir.invocation_values import Array, broadcasts
from vkcompute.ir.memory import Memory


class Misfit(NamedTuple):
    """An access to workgroup memory that does not fit the local size.

    Attributes:
        access: the operation.
        element: its index.
        is_outside: True if the array has no such element, False if no invocation writes it.
    """

    access: Op
    element: int
    is_outside: bool


def local_size_misfit(function: Function) -> Misfit | None:
    """Returns the first access that is outside of its array, or reads what no invocation of a group writes.

    Loads of which a `select` may discard the result do not count.
    """
    if not function.shared_memory:
        return None
    entries = [access for access in accesses(function) if access.op.memory in function.shared_memory]
    written = _written(entries)
    discarded = {arg for op in walk(function.body) if op.code == "select" for arg in op.args}
    for access in entries:
        if access.op.memory in written and access.op.code in ("load", "store"):
            misfit = _misfit(access, written[access.op.memory], discarded, function.local_size)
            if misfit is not None:
                return misfit
    return None


def _written(entries: Collection[Access]) -> dict[Memory, Array]:
    """Returns which elements of each array an invocation may write."""
    written: dict[Memory, Array] = {}
    for op, index, mask in entries:
        if op.memory is None or not op.operation.writes:
            continue
        elements = written.setdefault(op.memory, np.zeros(op.memory.length or 0, bool))
        known = index[()] if index is not None and len(index) == 1 else None
        if (
            known is None
            or op.code not in ("store", "atomic", "compare_exchange")
            or not broadcasts(known, mask.possible)
        ):
            elements[:] = True
        else:
            numbers = _selected(known, mask.possible)
            elements[numbers[(numbers >= 0) & (numbers < len(elements))]] = True
    return written


def _misfit(
    access: Access, written: Array, discarded: Collection[Value], local_size: tuple[int, int, int]
) -> Misfit | None:
    op, index, mask = access
    if index is None or len(index) > 1 or op in discarded or not broadcasts(index[()], mask.certain):
        return None
    numbers = _selected(index[()], mask.certain)
    outside = (numbers < 0) | (numbers >= len(written))
    unwritten = ~outside & ~written[numbers.clip(0, len(written) - 1)]
    for wrong, is_outside in ((outside, True), (unwritten, False)):
        if op.code == "store" and not is_outside:
            continue
        # Invocations at an end may ignore what they load from a neighbour, where no condition excludes them.
        may_ignore = op.code == "load" and mask.certain.all() and _is_neighbour(index[()], local_size)
        if wrong.size and (wrong.all() if may_ignore else wrong.any()):
            last = numbers[wrong].max() if (numbers[wrong] >= 0).any() else numbers[wrong].min()
            return Misfit(op, int(last), is_outside)
    return None


def _selected(numbers: Array, mask: Array) -> Array:
    """Returns the numbers of the invocations in a mask."""
    numbers, mask = np.broadcast_arrays(numbers, mask)
    selected: Array = numbers[mask]
    return selected


def _is_neighbour(numbers: Array, local_size: tuple[int, int, int]) -> bool:
    """True for the own index of an invocation and that of a neighbour, such as local_id(0) + 1."""
    if numbers.size != numbers.shape[-1]:  # it depends on a counter
        return False
    by_axis = np.broadcast_to(numbers.reshape(-1), int(np.prod(local_size))).reshape(local_size[::-1])
    steps = [np.diff(by_axis, axis=axis) for axis in range(3) if by_axis.shape[axis] > 1]
    return numbers.size > 1 and all(int(step.min()) == int(step.max()) >= 0 for step in steps)
