"""CuPy's memory pools: figures and limits of the device's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.compat.cupy.pointers import MemoryPointer, alloc
from vkcompute.runtime.runtime import current_runtime


class MemoryPool:
    """The memory that arrays share, as `cupy.cuda.MemoryPool`. All pools are the one of the device."""

    def __init__(self, allocator: Any = None) -> None:
        self._limit = 0

    def malloc(self, size: int) -> MemoryPointer:
        """Returns new memory of `size` bytes."""
        return alloc(size)

    def used_bytes(self) -> int:
        """Returns the bytes in use."""
        return int(current_runtime().memory().used)

    def free_bytes(self) -> int:
        """Returns the bytes that are kept for later arrays."""
        return int(current_runtime().memory().pooled)

    def total_bytes(self) -> int:
        """Returns the bytes in use, or kept."""
        return self.used_bytes() + self.free_bytes()

    def n_free_blocks(self) -> int:
        """Returns 1 if memory is kept for later arrays, else 0."""
        return int(self.free_bytes() > 0)

    def free_all_blocks(self, stream: Any = None) -> None:
        """Frees memory that is kept for later arrays."""
        current_runtime().trim()

    free_all_free = free_all_blocks

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        """Records a limit in bytes, or as a fraction of the memory. Limits are set by VKCOMPUTE's own options."""
        if size is not None and fraction is not None:
            raise ValueError("size and fraction cannot be specified at one time")
        if fraction is not None and not 0 <= fraction <= 1:
            raise ValueError(f"memory limit fraction out of range: {fraction}")
        if size is not None and size < 0:
            raise ValueError(f"memory limit size out of range: {size}")
        memory = current_runtime().memory()
        self._limit = size or int((fraction or 0) * (memory.used + memory.free))

    def get_limit(self) -> int:
        """Returns the limit; 0 for none."""
        return self._limit


MemoryAsyncPool = MemoryPool
"""The same: memory is always reused in the order of the work."""


class PinnedMemoryPool:
    """The pool of memory of the host, which keeps nothing."""

    def __init__(self, allocator: Any = None) -> None:
        """Makes the pool."""

    def malloc(self, size: int) -> Any:
        """Returns memory of the host, as `cupy.cuda.alloc_pinned_memory`."""
        return alloc_pinned_memory(size)

    def n_free_blocks(self) -> int:
        """Returns 0: nothing is kept."""
        return 0

    def free_all_blocks(self) -> None:
        """Does nothing: nothing is kept."""


class PinnedMemoryPointer(bytearray):
    """Memory of the host, whose bytes are those of a bytearray."""

    @property
    def ptr(self) -> int:
        """The address."""
        return int(np.frombuffer(self, np.uint8).ctypes.data)

    def size(self) -> int:
        """Returns the bytes."""
        return len(self)


def alloc_pinned_memory(size: int) -> PinnedMemoryPointer:
    """Returns memory of the host. The driver stages transfers from any memory, so that none is pinned."""
    return PinnedMemoryPointer(size)


_device_pool, _host_pool = MemoryPool(), PinnedMemoryPool()


def get_default_memory_pool() -> MemoryPool:
    """Returns the pool of the device."""
    return _device_pool


def get_default_pinned_memory_pool() -> PinnedMemoryPool:
    """Returns the pool of the host."""
    return _host_pool
