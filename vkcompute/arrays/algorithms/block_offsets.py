"""Limits of the offsets of block programs, and lengths rounded to blocks."""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute.runtime.memory.array import Array

LARGEST = 1 << 31
"""Elements that an array of a block program has fewer of: offsets are int32."""


def is_too_large(x: Array, sizes: Sequence[int]) -> bool:
    """True if offsets in an array of one of these sizes exceed int32, or a binding cannot hold it."""
    return max(sizes) >= LARGEST or max(sizes) * x.dtype.itemsize > x.runtime.device.max_binding_bytes


def rounded(n: int, multiple: int) -> int:
    """Returns a number rounded up to a multiple."""
    return -(-n // multiple) * multiple
