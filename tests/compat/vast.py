# ruff: noqa: N802 (the methods are named as what they stand for)
"""Simulates a device with more memory than the driver has: allocations over LARGE alias a small one.

An interceptor hides buffers of more than `LARGE` bytes, and their memory, from the driver. Such memory is a range of
addresses that maps the same `PERIOD` bytes again and again, so that 6 GiB take 80 MiB. Copies and fills in it are done
on the host at the submit, with the arguments that the driver would get. `PERIOD` does not divide 4 GiB, so an offset
that lost its upper half addresses other bytes. Kernels bound to such memory add 1 to each 32-bit word of binding 0.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from vkcompute.core import vk
from vkcompute.core.device import Device
from vkcompute.core.physical import MemoryHeap, PhysicalDevice

GIB = 1 << 30
LARGE = 512 << 20
PERIOD = 80 << 20
_MOST_BOUND = (1 << 32) - 1
_LIMITS = {"maxStorageBufferRange": _MOST_BOUND, "maxComputeWorkGroupCount": ((1 << 31) - 1, 65535, 65535)}
_BYTES = {"maxMemoryAllocationSize": 1 << 40, "maxBufferSize": 1 << 40}
_SMALL = 64 << 10
Bytes = npt.NDArray[np.uint8]


class Span:
    """A range of addresses that repeats the same bytes after each `PERIOD`."""

    def __init__(self, nbytes: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._map, self._unmap = libc.mmap, libc.munmap
        self._map.restype = ctypes.c_void_p
        self._map.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
        self._unmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        self.nbytes = -(-nbytes // PERIOD) * PERIOD
        noreserve, fixed, populate = 0x4000, 0x10, 0x8000
        self.address: int = self._map(None, self.nbytes, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | noreserve, -1, 0)
        assert self.address not in (None, ctypes.c_void_p(-1).value)
        file = os.memfd_create("vast")
        os.ftruncate(file, PERIOD)
        for offset in range(0, self.nbytes, PERIOD):
            both = mmap.PROT_READ | mmap.PROT_WRITE
            at = self._map(self.address + offset, PERIOD, both, mmap.MAP_SHARED | fixed | populate, file, 0)
            assert at == self.address + offset
        os.close(file)
        self.bytes: Bytes = np.ctypeslib.as_array((ctypes.c_uint8 * self.nbytes).from_address(self.address))

    def close(self) -> None:
        """Unmaps the addresses."""
        self._unmap(self.address, self.nbytes)


class Vast:
    """The interceptor that the module describes."""

    def __init__(self) -> None:
        self.spans: dict[int, Span] = {}  # by simulated VkDeviceMemory
        self.nbytes: dict[int, int] = {}  # of simulated buffers, as requested
        self._allocated: dict[int, int] = {}  # bytes of each VkDeviceMemory
        self._seen: dict[int, Bytes] = {}  # mapped bytes of each VkDeviceMemory
        self._memory_of: dict[int, int] = {}  # buffer -> memory
        self._commands: dict[int, list[Callable[[], Any]]] = defaultdict(list)
        self._words: dict[int, Any] = {}  # buffer words at binding 0 of each descriptor set
        self._bound: dict[int, int] = {}

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a Vulkan function; registered in `vk.interceptors`."""
        own = getattr(self, name, None)
        return partial(own, function) if own else function

    def vkCreateBuffer(self, call: Any, device: Any, info: Any, allocator: Any, out: Any) -> int:
        nbytes = info.size
        if nbytes >= LARGE:
            info.size = _SMALL
        result = int(call(device, info, allocator, out))
        if nbytes >= LARGE:
            self.nbytes[_key(out[0])] = nbytes
        return result

    def vkGetBufferMemoryRequirements(self, call: Any, device: Any, buffer: Any, needs: Any) -> None:
        call(device, buffer, needs)
        needs.size = self.nbytes.get(_key(buffer), needs.size)

    def vkAllocateMemory(self, call: Any, device: Any, info: Any, allocator: Any, out: Any) -> int:
        nbytes = info.allocationSize
        if nbytes >= LARGE:
            info.allocationSize = 2 * _SMALL
        result = int(call(device, info, allocator, out))
        key = _key(out[0])
        self._allocated[key] = nbytes
        if nbytes >= LARGE:
            self.spans[key] = Span(nbytes)
            self._seen[key] = self.spans[key].bytes[:nbytes]
        return result

    def vkBindBufferMemory(self, call: Any, device: Any, buffer: Any, memory: Any, offset: int) -> int:
        self._memory_of[_key(buffer)] = _key(memory)
        return int(call(device, buffer, memory, offset))

    def vkMapMemory(self, call: Any, device: Any, memory: Any, offset: int, size: int, flags: int, out: Any) -> int:
        key = _key(memory)
        if key in self.spans:
            out[0] = vk.ffi.cast("void*", self.spans[key].address + offset)
            return 0
        result = int(call(device, memory, offset, size, flags, out))
        self._seen[key] = np.frombuffer(vk.ffi.buffer(out[0], self._allocated[key]), np.uint8)
        return result

    def vkDestroyBuffer(self, call: Any, device: Any, buffer: Any, allocator: Any) -> None:
        self.nbytes.pop(_key(buffer), None)
        call(device, buffer, allocator)

    def vkFreeMemory(self, call: Any, device: Any, memory: Any, allocator: Any) -> None:
        self._seen.pop(_key(memory), None)
        if (span := self.spans.pop(_key(memory), None)) is not None:
            span.close()
        call(device, memory, allocator)

    def vkBeginCommandBuffer(self, call: Any, commands: Any, info: Any) -> int:
        self._commands[_key(commands)] = []
        return int(call(commands, info))

    def vkCmdCopyBuffer(self, call: Any, commands: Any, source: Any, target: Any, n: int, regions: Any) -> None:
        if not {_key(source), _key(target)} & self.nbytes.keys():
            call(commands, source, target, n, regions)
            return
        for array in (regions[i] for i in range(n)):
            # Both operands repeat after a period.
            parts = [
                self._part(buffer, start, array.size)[:PERIOD]
                for buffer, start in ((source, array.srcOffset), (target, array.dstOffset))
            ]
            self._commands[_key(commands)].append(partial(np.copyto, parts[1], parts[0]))

    def vkCmdFillBuffer(self, call: Any, commands: Any, target: Any, offset: int, nbytes: int, word: int) -> None:
        if _key(target) not in self.nbytes:
            call(commands, target, offset, nbytes, word)
            return
        words = self._part(target, offset, nbytes)[:PERIOD].view(np.uint32)
        self._commands[_key(commands)].append(partial(words.fill, word))

    def vkUpdateDescriptorSets(self, call: Any, device: Any, n: int, writes: Any, *others: Any) -> None:
        for i in range(n):
            info = writes[i].pBufferInfo
            if info != vk.NULL and _key(info.buffer) in self.nbytes:
                assert info.range <= _MOST_BOUND
                if writes[i].dstBinding == 0:
                    words = self._part(info.buffer, info.offset, info.range).view(np.uint32)
                    self._words[_key(writes[i].dstSet)] = words
                info.offset, info.range = 0, 256
        call(device, n, writes, *others)

    def vkCmdBindDescriptorSets(self, call: Any, commands: Any, *args: Any) -> None:
        self._bound[_key(commands)] = _key(args[4][0])
        call(commands, *args)

    def vkCmdDispatch(self, call: Any, commands: Any, *grid: int) -> None:
        words = self._words.get(self._bound[_key(commands)])
        if words is None:
            call(commands, *grid)
        else:
            self._commands[_key(commands)].append(partial(np.add, words, 1, words))

    def vkQueueSubmit(self, call: Any, queue: Any, n: int, infos: Any, fence: Any) -> int:
        for i in range(n):
            for k in range(infos[i].commandBufferCount):
                for command in self._commands[_key(infos[i].pCommandBuffers[k])]:
                    command()
        return int(call(queue, n, infos, fence))

    def _part(self, buffer: Any, start: int, nbytes: int) -> Bytes:
        """Returns a range of a host-visible buffer."""
        seen = self._seen[self._memory_of[_key(buffer)]]
        assert start + nbytes <= len(seen)
        return seen[start : start + nbytes]


def _key(handle: Any) -> int:
    return int(vk.ffi.cast("uintptr_t", handle))


@contextmanager
def vast_devices(nbytes: int = 64 * GIB) -> Iterator[Vast]:
    """Context manager: devices opened in it have this much memory."""
    under = PhysicalDevice.under

    def larger(*args: Any) -> PhysicalDevice:
        physical = under(*args)
        physical.limits.update(_LIMITS)  # type: ignore[attr-defined]
        physical.properties.update(_BYTES)
        heaps = tuple(MemoryHeap(heap.index, nbytes, heap.device_local) for heap in physical.memory_heaps)
        vars(physical)["memory_heaps"] = heaps
        return physical

    vast = Vast()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PhysicalDevice, "under", larger)
        patch.setattr(Device, "heap_budget", lambda device, heap: None)
        patch.setattr(vk, "interceptors", [vast.wrap])
        yield vast
    assert (vast.nbytes, vast.spans) == ({}, {}), "all that was made has been destroyed"
