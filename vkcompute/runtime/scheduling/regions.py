"""Regions of copies: VkBufferCopy structures, and the bytes that they touch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.core import vk
from vkcompute.core.buffer import Buffer
from vkcompute.runtime.scheduling.access_history import Range

Offsets = npt.NDArray[np.int64]


def copy_region(source: Buffer, source_offset: int, target: Buffer, target_offset: int, nbytes: int) -> object:
    """Makes one VkBufferCopy; offsets in bytes from the start of each buffer."""
    region = vk.ffi.new("VkBufferCopy*")
    region.srcOffset, region.dstOffset = source.offset + source_offset, target.offset + target_offset
    region.size = nbytes
    return region


def bytes_read(regions: Any, n_regions: int, source: Range, target: Range) -> tuple[Range, ...]:
    """Gives the ranges that a copy of equally long regions depends on.

    The target is one of them where the regions leave gaps in it: the bytes in the gaps keep their values.
    """
    return (source,) if regions[0].size * n_regions == target[2] - target[1] else (source, target)


def refuse_overlap(sources: Offsets, targets: Offsets, nbytes: int) -> None:
    """Raises ValueError if runs of `nbytes` that start at `sources` and at `targets` overlap."""
    ordered = np.sort(targets)
    following = np.searchsorted(ordered, sources - nbytes, side="right")
    inside = following < len(ordered)
    if np.any(ordered[following[inside]] < sources[inside] + nbytes):
        raise ValueError("source and target share bytes; copy through a third tensor: target.copy_from(source.copy())")
