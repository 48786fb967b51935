"""Arrays of a launch of a block program: their limits, which have bytes in common, and which wide accesses fit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from vkcompute.compiled.block_access import ElementBlock
from vkcompute.compiled.blocks import fits
from vkcompute.ir.function import Function, walk
from vkcompute.ir.memory import Memory
from vkcompute.runtime.graphs.aliasing import may_overlap
from vkcompute.runtime.launching.arguments import needs_strides
from vkcompute.runtime.memory.array import Array
from vkcompute.tile.registers import ADJACENT

_WRITES = "store_block", "atomic_block"
_WORDS = ElementBlock(ADJACENT)
LARGEST = 1 << 31
"""Elements that an array of a block program has fewer of: offsets are int32."""
Overlaps = tuple[tuple[int, int, bool], ...] | None
"""Pairs of arrays that have bytes in common: their indices, and True if they are the same; None if any may have."""


def overlaps_of(arrays: Sequence[Array]) -> Overlaps:
    """Returns the pairs of arrays that have bytes in common, or may have some in a run of a graph."""
    pairs = []
    for (at, one), (other_at, other) in combinations(enumerate(arrays), 2):
        maybe = may_overlap(one, other)
        if maybe or one.overlaps(other):
            pairs.append((at, other_at, one.launch_key == other.launch_key and not maybe))
    return tuple(pairs)


def is_wide(array: Array) -> bool:
    """True if a program may load and store four adjacent elements together, up to the end of the array."""
    return not needs_strides(array) and array.contiguous and fits(array, _WORDS)


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


def is_too_large(x: Array, sizes: Sequence[int]) -> bool:
    """True if offsets in an array of one of these sizes exceed int32, or a binding cannot hold it."""
    return max(sizes) >= LARGEST or max(sizes) * x.dtype.itemsize > x.runtime.device.max_binding_bytes


def rounded(n: int, multiple: int) -> int:
    """Returns a number rounded up to a multiple."""
    return -(-n // multiple) * multiple
