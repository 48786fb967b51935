"""`cupy.cuda.nvtx`, `cupy.cuda.profiler` and `cupy.cuda.memory`: names of tools that measure, and of memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from vkcompute.compat.cupy.pointers import Memory as Memory
from vkcompute.compat.cupy.pointers import MemoryPointer as MemoryPointer
from vkcompute.compat.cupy.pointers import alloc as alloc
from vkcompute.compat.cupy.pools import MemoryPool as MemoryPool
from vkcompute.errors import OutOfDeviceMemory as OutOfMemoryError

__all__ = ["Memory", "MemoryPointer", "MemoryPool", "OutOfMemoryError", "alloc"]
available = False
"""False: `vc.Runtime.profile()` measures launches."""


def start() -> None:
    """Has no effect."""


def stop() -> None:
    """Has no effect."""


def RangePush(message: str, id_color: int = -1) -> None:  # noqa: N802
    """Has no effect."""


def RangePop() -> None:  # noqa: N802
    """Has no effect."""


def Mark(message: str, id_color: int = -1) -> None:  # noqa: N802
    """Has no effect."""


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """Has no effect."""
    yield
