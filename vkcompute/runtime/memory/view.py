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
    """Typed elements in device memory: (buffer, offset, shape, strides, dtype). Views may share memory.

    Attributes:
        runtime: the runtime of the memory.
        shape, dtype, size, nbytes, ndim: as in numpy; nbytes counts the elements, without gaps between them.
        strides: distance between neighbours along each axis, in bytes.
        offset: of the first element in the buffer, in bytes.
        contiguous: True if the elements are C-contiguous.
        launch_key: of contiguous views: equal keys mean equal bindings and default grids, so launches reuse a plan.
        span: of contiguous views: the range of the elements, as `range` gives it.
    """

    __slots__ = (
        "__weakref__", "_buffer", "contiguous", "dtype", "launch_key", "nbytes", "offset", "runtime", "shape", "size",
        "span", "strides",
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
        self.launch_key: Any = None
        self.span: Any = None
        if self.contiguous:
            # "." marks the end of the buffer, where padding follows. Elsewhere the next bytes belong to other views.
            end = "." if offset + self.nbytes == buffer.used_bytes else ""
            self.launch_key = (buffer.block.key, buffer.offset + offset, shape, dtype.char + end)
            self.span = (buffer, offset, offset + self.nbytes)

    @property
    def buffer(self) -> Buffer:
        """The buffer with the elements.

        Raises:
            ClosedError: the tensor or its runtime is closed.
        """
        if self._buffer is None:
            raise ClosedError(f"this tensor of shape {self.shape} is closed; make a new one")
        self.runtime.require_open()
        return self._buffer

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def closed(self) -> bool:
        """True once `close()` was called."""
        return self._buffer is None

    @property
    def range(self) -> Range:
        """The bytes from the first element to the last: (buffer, start, stop)."""
        low, high = layout.extent(self.shape, self.strides, self.dtype.itemsize)
        return self.buffer, self.offset + low, self.offset + high

    def overlaps(self, other: StridedView) -> bool:
        """Returns True if the ranges of the two views have bytes in common."""
        (mine, start, stop), (its, first, last) = self.range, other.range
        return mine is its and start < last and first < stop

    def close(self) -> None:
        """Releases the memory. It is freed after its last use, once no other view holds it."""
        self._buffer = None
        self.launch_key = self.span = None
