"""Buffers of a block program that have bytes in common, and those that it writes; no device is needed for either."""

from __future__ import annotations

from vkcompute.ir.function import Function, walk
from vkcompute.ir.memory import Memory

_WRITES = "store_block", "atomic_block"
Overlaps = tuple[tuple[int, int, bool], ...] | None
"""Pairs of arrays that have bytes in common: their indices, and True if they are the same; None if any may have."""


def written_buffers(function: Function) -> set[Memory]:
    """Returns the buffers that a function of blocks writes."""
    return {op.attribute.memory for op in walk(function.body) if op.code in _WRITES}


def relevant(function: Function, overlaps: Overlaps) -> tuple[bool, bool]:
    """Returns True if two buffers may overlap without being the same, and True if two may have bytes in common.

    Those count of which the function writes one.
    """
    if overlaps is None:
        return True, True
    written = {function.buffers.index(memory) for memory in written_buffers(function)}
    same = [is_same for one, other, is_same in overlaps if not written.isdisjoint((one, other))]
    return not all(same), bool(same)
