"""Copies between tensors, and fills: what may be copied into what, and which bytes go where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vkcompute.core import vk
from vkcompute.runtime import layout
from vkcompute.runtime.future import Future

if TYPE_CHECKING:
    from vkcompute.core.buffer import Buffer
    from vkcompute.runtime.scheduler import Range
    from vkcompute.runtime.tensor import Tensor

Offsets = npt.NDArray[np.int64]


def copy_tensor(source: Tensor, target: Tensor) -> Future:
    """Copies `source`, broadcast to the shape of `target`, into it on the device.

    Raises:
        ValueError: the shapes do not fit, the runtimes differ, or the two share some of their bytes.
        TypeError: the dtypes differ.
    """
    runtime = target.runtime
    if source.runtime is not runtime:
        raise ValueError("the other tensor belongs to another runtime; copy through the host: write(other.numpy())")
    if source.dtype != target.dtype:
        raise TypeError(
            f"a copy keeps the dtype; got {source.dtype} into {target.dtype}; convert on the host: "
            f"write(other.numpy().astype({target.dtype.name!r}))"
        )
    strides = layout.broadcast_strides(source.shape, source.strides, target.shape)
    if not target.size or _same_place(source, strides, target):
        return runtime.scheduler.nothing()
    starts, nbytes = _runs(source, strides, target)
    if source.buffer is target.buffer:
        refuse_overlap(*starts, nbytes)
    table = np.empty((len(starts[0]), 3), np.uint64)
    table[:, 0], table[:, 1] = starts[0] + source.buffer.offset, starts[1] + target.buffer.offset
    table[:, 2] = nbytes
    regions = vk.ffi.from_buffer("VkBufferCopy[]", table)
    return runtime.scheduler.copy(regions, len(table), source.range, target.range)


def fill_tensor(tensor: Tensor, element: bytes) -> None:
    """Writes the bytes of one element into every element.

    Elements of up to 4 bytes are vkCmdFillBuffer's words; of 8, the first one is written and then doubled by copies.
    Views that do not consist of whole words are written from the host.
    """
    scheduler, (buffer, start, stop) = tensor.runtime.scheduler, tensor.range
    if not tensor.contiguous or start % 4 or (stop % 4 and stop != buffer.used_bytes):
        tensor.write(np.frombuffer(element, tensor.dtype)[0])
        return
    stop += -stop % 4
    if len(element) <= 4 or element[:4] == element[4:]:
        scheduler.fill((buffer, start, stop), int.from_bytes((element * 4)[:4], "little"))
        return
    scheduler.fill((buffer, start, start + 4), int.from_bytes(element[:4], "little"))
    scheduler.fill((buffer, start + 4, start + 8), int.from_bytes(element[4:], "little"))
    done = 8
    while done < stop - start:
        nbytes = min(done, stop - start - done)
        region = copy_region(buffer, start, buffer, start + done, nbytes)
        source, target = (buffer, start, start + nbytes), (buffer, start + done, start + done + nbytes)
        scheduler.copy(region, 1, source, target)
        done += nbytes


def sources(regions: Any, n_regions: int, source: Range, target: Range) -> tuple[Range, ...]:
    """What has to be there for a copy of regions of one length: the target too, where it writes only parts of it."""
    return (source,) if regions[0].size * n_regions == target[2] - target[1] else (source, target)


def _same_place(source: Tensor, strides: layout.Shape, target: Tensor) -> bool:
    return source.buffer is target.buffer and source.offset == target.offset and strides == target.strides


def _runs(source: Tensor, strides: layout.Shape, target: Tensor) -> tuple[tuple[Offsets, Offsets], int]:
    """Where runs of bytes start in each buffer, and their length: as long as both sides allow."""
    itemsize = target.dtype.itemsize
    sides = [layout.runs(target.shape, each, itemsize) for each in (strides, target.strides)]
    nbytes = min(length for _, length in sides)
    first, second = (
        (np.add.outer(offsets, np.arange(0, length, nbytes)) + tensor.offset).reshape(-1)
        for (offsets, length), tensor in zip(sides, (source, target), strict=True)
    )
    return (first, second), nbytes


def refuse_overlap(first: Offsets, second: Offsets, nbytes: int) -> None:
    """Raises ValueError if runs of `nbytes` that start at `first` and at `second` overlap."""
    ordered = np.sort(second)
    following = np.searchsorted(ordered, first - nbytes, side="right")
    inside = following < len(ordered)
    if np.any(ordered[following[inside]] < first[inside] + nbytes):
        raise ValueError("source and target share bytes; copy through a third tensor: target.copy_from(source.copy())")


def copy_region(source: Buffer, source_offset: int, target: Buffer, target_offset: int, nbytes: int) -> object:
    """One VkBufferCopy; offsets in bytes from the start of each buffer."""
    region = vk.ffi.new("VkBufferCopy*")
    region.srcOffset, region.dstOffset = source.offset + source_offset, target.offset + target_offset
    region.size = nbytes
    return region
