"""Copies between strided views, and fills, on the device."""

from __future__ import annotations

import numpy as np

from vkcompute.core import vk
from vkcompute.runtime.memory import layout
from vkcompute.runtime.memory.view import StridedView
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.task import Offsets, copy_region, refuse_overlap


def copy_view(source: StridedView, target: StridedView) -> Future:
    """Copies `source`, broadcast to the shape of `target`, into it.

    Raises:
        ValueError: the shapes do not broadcast, the runtimes differ, or the views overlap.
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
        return runtime.scheduler.completed_future()
    starts, nbytes = _runs(source, strides, target)
    if source.buffer is target.buffer:
        refuse_overlap(*starts, nbytes)
    table = np.empty((len(starts[0]), 3), np.uint64)
    table[:, 0], table[:, 1] = starts[0] + source.buffer.offset, starts[1] + target.buffer.offset
    table[:, 2] = nbytes
    regions = vk.ffi.from_buffer("VkBufferCopy[]", table)
    return runtime.scheduler.copy(regions, len(table), source.range, target.range)


def fill_view(view: StridedView, element: bytes) -> bool:
    """Writes the bytes of one element into every element. Returns False if the view does not consist of whole words.

    vkCmdFillBuffer writes words of 4 bytes. Of 8-byte elements, the first is written and then doubled by copies.
    """
    scheduler, (buffer, start, stop) = view.runtime.scheduler, view.range
    if not view.contiguous or start % 4 or (stop % 4 and stop != buffer.used_bytes):
        return False
    stop += -stop % 4
    if len(element) <= 4 or element[:4] == element[4:]:
        scheduler.fill((buffer, start, stop), int.from_bytes((element * 4)[:4], "little"))
        return True
    scheduler.fill((buffer, start, start + 4), int.from_bytes(element[:4], "little"))
    scheduler.fill((buffer, start + 4, start + 8), int.from_bytes(element[4:], "little"))
    done = 8
    while done < stop - start:
        nbytes = min(done, stop - start - done)
        region = copy_region(buffer, start, buffer, start + done, nbytes)
        source, target = (buffer, start, start + nbytes), (buffer, start + done, start + done + nbytes)
        scheduler.copy(region, 1, source, target)
        done += nbytes
    return True


def _same_place(source: StridedView, strides: layout.Shape, target: StridedView) -> bool:
    return source.buffer is target.buffer and source.offset == target.offset and strides == target.strides


def _runs(source: StridedView, strides: layout.Shape, target: StridedView) -> tuple[tuple[Offsets, Offsets], int]:
    """The starts of the runs of bytes in each buffer, and their length: the shorter of both views' runs."""
    itemsize = target.dtype.itemsize
    sides = [layout.runs(target.shape, each, itemsize) for each in (strides, target.strides)]
    nbytes = min(length for _, length in sides)
    first, second = (
        (np.add.outer(offsets, np.arange(0, length, nbytes)) + view.offset).reshape(-1)
        for (offsets, length), view in zip(sides, (source, target), strict=True)
    )
    return (first, second), nbytes
