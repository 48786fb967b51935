"""Arrays of a launch of a block program: their limits, which have bytes in common, and which wide accesses fit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from vkcompute.compiled.block_access import ElementBlock
from vkcompute.compiled.blocks import fits
from vkcompute.runtime.graphs.aliasing import may_overlap
from vkcompute.runtime.launching.arguments import needs_strides
from vkcompute.runtime.memory.array import Array
from vkcompute.tile.overlaps import Overlaps
from vkcompute.tile.registers import ADJACENT

_WORDS = ElementBlock(ADJACENT)
LARGEST = 1 << 31
"""Elements that an array of a block program has fewer of: offsets are int32."""


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


def is_too_large(x: Array, sizes: Sequence[int]) -> bool:
    """True if offsets in an array of one of these sizes exceed int32, or a binding cannot hold it."""
    return max(sizes) >= LARGEST or max(sizes) * x.dtype.itemsize > x.runtime.device.max_binding_bytes


def rounded(n: int, multiple: int) -> int:
    """Returns a number rounded up to a multiple."""
    return -(-n // multiple) * multiple
