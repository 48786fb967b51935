"""Device memory: few large blocks, each carved into many ranges, within a budget."""

from __future__ import annotations

import ctypes
import gc
import itertools
import mmap
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from vkcompute.core import vk
from vkcompute.core.lifetime import Handle, Owned, destroy_all
from vkcompute.core.physical import MemoryType
from vkcompute.core.suballoc import Suballocator
from vkcompute.errors import OUT_OF_MEMORY, OutOfDeviceMemory, VulkanError

if TYPE_CHECKING:
    from vkcompute.core.device import Device

MIB = 1 << 20
_MANY_DEAD = 256
_HUGE_PAGE_BYTES = 2 << 20
_DEVICE_LOCAL, _HOST_VISIBLE, _HOST_COHERENT, _HOST_CACHED = 0x1, 0x2, 0x4, 0x8
_UNIFIED = _DEVICE_LOCAL | _HOST_VISIBLE | _HOST_COHERENT | _HOST_CACHED

# Per use: the property bits that a type must have, those it had better have, and those it had better not have.
_PREFERENCES = {
    "device": (0, _DEVICE_LOCAL, _HOST_VISIBLE),
    "unified": (_UNIFIED, 0, 0),
    "upload": (_HOST_VISIBLE | _HOST_COHERENT, 0, _HOST_CACHED | _DEVICE_LOCAL),
    "download": (_HOST_VISIBLE | _HOST_COHERENT, _HOST_CACHED, _DEVICE_LOCAL),
}
_LAZY, _PROTECTED, _AMD_COHERENT = 0x10, 0x20, 0x40
_NEVER = _LAZY | _PROTECTED | _AMD_COHERENT

# STORAGE_BUFFER, TRANSFER_SRC and _DST, UNIFORM_BUFFER, UNIFORM_ and STORAGE_TEXEL_BUFFER, INDIRECT
BUFFER_USAGE = 0x20 | 0x1 | 0x2 | 0x10 | 0x4 | 0x8 | 0x100


class Block(Handle):
    """One VkDeviceMemory under one VkBuffer, mapped for good where the host can see it.

    Attributes:
        address: where the host sees byte 0, or 0.
        key: a number that no other block of the process has had.
    """

    _keys = itertools.count(1)
    _finalized = False  # its pool frees it

    def __init__(self, device: Device, kind: MemoryType, nbytes: int) -> None:
        self.device, self.kind, self.nbytes = device, kind, nbytes
        self.ranges = Suballocator(nbytes)
        self.address = 0
        self.key = next(Block._keys)
        families = sorted({queue.family for queue in device.queues})
        info = vk.struct(
            "VkBufferCreateInfo",
            size=nbytes,
            usage=BUFFER_USAGE,
            sharingMode=int(len(families) > 1),  # EXCLUSIVE or CONCURRENT
            queueFamilyIndexCount=len(families),
            pQueueFamilyIndices=families,
        )
        self.owned: list[Owned] = []
        try:
            self._opened()
            self.handle = device.create("VkBuffer", "vkCreateBuffer", info, self.owned)
            self._bind()
        except BaseException:
            self.close()
            raise

    def _bind(self) -> None:
        fn, device = self.device.fn, self.device
        needs = vk.ffi.new("VkMemoryRequirements*")
        fn.vkGetBufferMemoryRequirements(device.handle, self.handle, needs)
        info = vk.struct("VkMemoryAllocateInfo", allocationSize=needs.size, memoryTypeIndex=self.kind.index)
        self.memory: Any = device.create("VkDeviceMemory", "vkAllocateMemory", info, self.owned)
        vk.check(fn.vkBindBufferMemory(device.handle, self.handle, self.memory, 0), "vkBindBufferMemory", device)
        if self.kind.host_visible:
            pointer = vk.ffi.new("void**")
            whole = 0xFFFFFFFFFFFFFFFF  # VK_WHOLE_SIZE
            vk.check(fn.vkMapMemory(device.handle, self.memory, 0, whole, 0, pointer), "vkMapMemory", device)
            self.address = int(vk.ffi.cast("uintptr_t", pointer[0]))
            if device.physical.kind == "cpu":
                _advise_huge_pages(self.address, self.nbytes)

    def _destroy(self) -> None:
        destroy_all(self.owned, first=0)  # the buffer before its memory


Place = tuple[Block, int]
"""A block, and an offset in it, in bytes."""


class MemoryPool:
    """All memory of one device.

    Args:
        limit_bytes: the most that all blocks together may take; None leaves it to the heap and its budget.
        block_bytes: the size of a block that small buffers share.
        staging: whether buffers must not live in memory that the host sees.
    """

    def __init__(self, device: Device, limit_bytes: int | None, block_bytes: int, staging: bool) -> None:
        self.device, self.limit_bytes = device, limit_bytes
        heaps, types = device.physical.memory
        fit = _fit_for_buffers(device, types)
        self.unified = not staging and is_unified(fit)
        self.kinds = {use: _best(fit, *_PREFERENCES[use]) for use in ("upload", "download")}
        self.kinds["device"] = _best(fit, *_PREFERENCES["unified" if self.unified else "device"])
        local = heaps[self.kinds["device"].heap].nbytes
        local = local if limit_bytes is None else min(local, limit_bytes)
        self.block_bytes = min(block_bytes, max(MIB, local // 8))
        self.keep_bytes = local // 8  # empty blocks up to this total wait for their next use
        limits = device.physical.limits
        self.align = max(64, *(limits[f"min{kind}BufferOffsetAlignment"] for kind in ("Storage", "Uniform", "Texel")))
        self.blocks: list[Block] = []

    @property
    def allocated_bytes(self) -> int:
        """Bytes of device memory held, in use or not."""
        return sum(block.nbytes for block in self.blocks)

    @property
    def used_bytes(self) -> int:
        """Bytes held by buffers."""
        return sum(block.ranges.used_bytes for block in self.blocks)

    def take(self, nbytes: int, use: str, places: list[Place]) -> None:
        """Adds a range of `nbytes` (a multiple of 16) in memory for `use` to `places`, in one step with taking it.

        Raises:
            OutOfDeviceMemory: it does not fit, even after what is dead has been collected.
        """
        kind = self.kinds[use]
        if len(self.device.retirement) > _MANY_DEAD:
            self.device.collect()
        if not self._from_blocks(nbytes, kind, places):
            self.device.collect()
            # A host that runs far ahead of the device is held back, or the dead would fill the heap.
            if self._dead_bytes() > self.keep_bytes:
                self.device.collect(wait=True)
            if not self._from_blocks(nbytes, kind, places):
                try:
                    self._from_new_block(nbytes, kind, places)
                except OutOfDeviceMemory:
                    self._reclaim()
                    if not self._from_blocks(nbytes, kind, places):
                        self._from_new_block(nbytes, kind, places)

    def _reclaim(self) -> None:
        """Frees all that can be: circles of garbage, what pending work holds, idle caches, empty blocks."""
        gc.collect()
        self.device.collect(wait=True)
        for release in self.device.caches:
            release()
        self.device.collect()
        self.drop_empty(0)

    def give(self, places: list[Place]) -> None:
        """Takes ranges back; a block left empty is kept for the next use, or freed."""
        while places:
            block, offset = places[-1]
            block.ranges.give(offset, places)
            if block.ranges.used_bytes == 0:
                self.drop_empty(self.keep_bytes)

    def drop_empty(self, keep_bytes: int) -> None:
        """Frees empty blocks, the newest first, until at most `keep_bytes` of them are left."""
        empty = [block for block in self.blocks if block.ranges.used_bytes == 0]
        total = sum(block.nbytes for block in empty)
        while empty and total > keep_bytes:
            block = empty.pop()
            total -= block.nbytes
            block.close()
            self.blocks.remove(block)

    def free_bytes(self, kind: MemoryType) -> int:
        """What may still be allocated from the heap of `kind`: the driver's budget, the heap and our own limit."""
        heap = self.device.physical.memory[0][kind.heap]
        held = sum(block.nbytes for block in self.blocks if block.kind.heap == kind.heap)
        free = heap.nbytes - held
        budget = self.device.heap_budget(kind.heap)
        if budget is not None:
            free = min(free, budget)
        if self.limit_bytes is not None:
            free = min(free, self.limit_bytes - self.allocated_bytes)
        return max(0, free)

    def _dead_bytes(self) -> int:
        """Bytes of closed buffers that the device has not finished with."""
        dead = (item for item in self.device.retirement.waiting() if item[0] == self.give)
        return sum(block.ranges.length(offset) for _, places in dead for block, offset in places)

    def _from_blocks(self, nbytes: int, kind: MemoryType, places: list[Place]) -> bool:
        for block in self.blocks:
            fits = block.kind is kind and block.ranges.largest_free >= nbytes and not block.closed
            if fits and block.ranges.take(nbytes, self.align, places, block) is not None:
                return True
        return False

    def _from_new_block(self, nbytes: int, kind: MemoryType, places: list[Place]) -> None:
        free = self.free_bytes(kind)
        shared = min(self.block_bytes, free)
        wanted = nbytes if nbytes > shared // 2 else shared
        physical = self.device.physical
        total = physical.memory[0][kind.heap].nbytes
        largest = min(physical.max_allocation_bytes, total if self.limit_bytes is None else self.limit_bytes)
        if wanted > min(free, largest):
            raise OutOfDeviceMemory(nbytes, free, min(total, largest), str(self.device))
        try:
            self.blocks += map(Block, (self.device,), (kind,), (wanted,))  # in one step, as in Queue.submit
        except VulkanError as error:
            if error.result in OUT_OF_MEMORY:
                raise OutOfDeviceMemory(nbytes, free, total, str(self.device), error.call) from error
            raise
        self._from_blocks(nbytes, kind, places)  # the new one: it has the room

    def close(self) -> None:
        """Frees every block."""
        while self.blocks:
            self.blocks[-1].close()
            del self.blocks[-1]


def _fit_for_buffers(device: Device, types: tuple[MemoryType, ...]) -> tuple[MemoryType, ...]:
    """The types that a buffer of our usage may be bound to, found with a small one."""
    info, owned = vk.struct("VkBufferCreateInfo", size=16, usage=BUFFER_USAGE), list[Owned]()
    probe = device.create("VkBuffer", "vkCreateBuffer", info, owned)
    needs = vk.ffi.new("VkMemoryRequirements*")
    device.fn.vkGetBufferMemoryRequirements(device.handle, probe, needs)
    destroy_all(owned)
    return tuple(kind for kind in types if needs.memoryTypeBits & (1 << kind.index) and not kind.bits & _NEVER)


def is_unified(types: tuple[MemoryType, ...]) -> bool:
    """Whether the host sees the device's memory as its own, coherent and cached, so that direct access is fast."""
    return any(kind.bits & _UNIFIED == _UNIFIED and not kind.bits & _NEVER for kind in types)


def _best(types: tuple[MemoryType, ...], must: int, better: int, worse: int) -> MemoryType:
    def score(kind: MemoryType) -> int:
        return (kind.bits & better).bit_count() - (kind.bits & worse).bit_count()

    fit = [kind for kind in types if kind.bits & must == must]
    return max(fit, key=score)  # the first among equals: drivers list the faster one first


@cache
def _madvise() -> Any:
    if not sys.platform.startswith("linux") or not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


def _advise_huge_pages(address: int, nbytes: int) -> None:
    """Asks the kernel to back [address, address + nbytes) with huge pages, as numpy does; where it will not, nothing
    changes.

    Touching 512 MiB of fresh lavapipe memory for the first time takes 0.05 s with them and 0.34 s without.
    """
    start = -(-address // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES
    stop = (address + nbytes) // _HUGE_PAGE_BYTES * _HUGE_PAGE_BYTES
    function = _madvise()
    if function is not None and stop > start:
        function(start, stop - start, getattr(mmap, "MADV_HUGEPAGE", 14))
