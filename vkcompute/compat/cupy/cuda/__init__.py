"""The names of `cupy.cuda`: devices, streams, events and memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NoReturn

from vkcompute.compat.cupy import devices as _devices
from vkcompute.compat.cupy.cuda import compiler as compiler
from vkcompute.compat.cupy.cuda import runtime as runtime
from vkcompute.compat.cupy.cuda import tools as _tools
from vkcompute.compat.cupy.cuda.stream import Event as Event
from vkcompute.compat.cupy.cuda.stream import Stream as Stream
from vkcompute.compat.cupy.cuda.stream import get_current_stream as get_current_stream
from vkcompute.compat.cupy.cuda.stream import get_elapsed_time as get_elapsed_time
from vkcompute.compat.cupy.cuda.tools import profile as profile
from vkcompute.compat.cupy.devices import Device as Device
from vkcompute.compat.cupy.devices import get_device_id as get_device_id
from vkcompute.compat.cupy.pointers import Memory as Memory
from vkcompute.compat.cupy.pointers import MemoryPointer as MemoryPointer
from vkcompute.compat.cupy.pointers import alloc as alloc
from vkcompute.compat.cupy.pointers import malloc_async as malloc_async
from vkcompute.compat.cupy.pointers import malloc_managed as malloc_managed
from vkcompute.compat.cupy.pools import MemoryAsyncPool as MemoryAsyncPool
from vkcompute.compat.cupy.pools import MemoryPool as MemoryPool
from vkcompute.compat.cupy.pools import PinnedMemoryPointer as PinnedMemoryPointer
from vkcompute.compat.cupy.pools import PinnedMemoryPool as PinnedMemoryPool
from vkcompute.compat.cupy.pools import alloc_pinned_memory as alloc_pinned_memory
from vkcompute.compat.cupy.scalars import is_available as is_available


def get_local_runtime_version() -> int:
    """Returns the version of CUDA whose interface this is like."""
    return runtime.runtimeGetVersion()


def set_allocator(allocator: object = None) -> None:
    """Has no effect: arrays are allocated from the device's pool."""


device = _devices
"""The module of devices, by CuPy's name."""
memory = nvtx = profiler = _tools
"""Modules of memory and of tools, by CuPy's names."""


@contextlib.contextmanager
def using_allocator(allocator: object = None) -> Iterator[None]:
    """Has no effect: arrays are allocated from the device's pool."""
    yield


def set_pinned_memory_allocator(allocator: object = None) -> None:
    """Has no effect: no memory of the host is pinned."""


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; docs/cupy.md lists what is there", name=name)
