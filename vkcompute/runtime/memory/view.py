"""Strided views of device memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vkcompute.core.buffer import Buffer
from vkcompute.errors import ClosedError
from vkcompute.runtime.memory import layout
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.scheduling.access_history import Range


class StridedView:
    """Typed elements in device memory: (buffer, offset, shape, strides, dtype). It shares the memory with other views.

    Attributes:
        runtime: the runtime of the memory.
        shape, dtype, size, nbytes, ndim: as numpy's; nbytes counts the elements, not gaps between them.
        strides: distance of neighbours along each axis, in bytes.
        offset: of the first element in the buffer, in bytes.
        contiguous: True if the elements are C-contiguous.
    """

    __slots__ = (
        "__weakref__", "_buffer", "contiguous", "dtype", "nbytes", "offset", "runtime", "shape", "size", "slot", "span",
        "strides",
    )  # fmt: skip

    def __init__(
        self,
        runtime: Context,
        buffer: Buffer,
        offset: int,
        shape: layout.Shape,
        strides: layout.Shape,
        dtype: np.dtype[Any],
    ) -> None:
        self._buffer: Buffer | None = buffer
        self.runtime, self.offset = runtime, offset
        self.shape, self.strides, self.dtype = shape, strides, dtype
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize
        self.contiguous = layout.is_contiguous(shape, strides, dtype.itemsize)
        # What a launch needs of its arguments, ready made. On tensors with equal slots, launches are the same.
        self.slot: Any = None
        self.span: Any = None
        if self.contiguous:
            # "." marks the end of the buffer: what follows there is padding, and elsewhere it belongs to others.
            end = "." if offset + self.nbytes == buffer.used_bytes else ""
            self.slot = (buffer.block.key, buffer.offset + offset, shape, dtype.char + end)
            self.span = (buffer, offset, offset + self.nbytes)

    @property
    def buffer(self) -> Buffer:
        """The memory.

        Raises:
            ClosedError: the tensor or its runtime is closed.
        """
        if self._buffer is None:
            raise ClosedError(f"this tensor of shape {self.shape} is closed; make a new one")
        self.runtime.require_open()
        return self._buffer

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def closed(self) -> bool:
        """Whether `close()` has been called."""
        return self._buffer is None

    @property
    def range(self) -> Range:
        """The bytes that the elements lie in: (buffer, start, stop)."""
        low, high = layout.extent(self.shape, self.strides, self.dtype.itemsize)
        return self.buffer, self.offset + low, self.offset + high

    def overlaps(self, other: StridedView) -> bool:
        """Whether the bytes from its first element to its last, and those of another tensor's, have some in common."""
        (mine, start, stop), (its, first, last) = self.range, other.range
        return mine is its and start < last and first < stop

    def close(self) -> None:
        """Lets go of the memory, which is given back after its last use, once no view holds it either."""
        self._buffer = None
        self.slot = self.span = None
