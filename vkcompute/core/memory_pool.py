"""Device memory: few large blocks, suballocated, within a budget."""

from __future__ import annotations

import ctypes
import gc
import itertools
import mmap
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from vkcompute import deferred_calls
from vkcompute.core import vk
from vkcompute.core.interrupts import call_into
from vkcompute.core.lifetime import Deletion, Handle, run_deletions
from vkcompute.core.logical_device import LogicalDevice
from vkcompute.core.physical import MemoryType
from vkcompute.core.range_pool import Allocation, MemoryRange, RangePool
from vkcompute.core.suballoc import Suballocator
from vkcompute.errors import OUT_OF_MEMORY, OutOfDeviceMemory, VulkanError

MIB = 1 << 20
_MANY_DELETIONS = 256
_HUGE_PAGE_BYTES = 2 << 20
_DEVICE_LOCAL, _HOST_VISIBLE, _HOST_COHERENT, _HOST_CACHED = 0x1, 0x2, 0x4, 0x8
_UNIFIED = _DEVICE_LOCAL | _HOST_VISIBLE | _HOST_COHERENT | _HOST_CACHED

# Per use: property bits that a memory type must have, those that are preferred, and those to avoid.
_PREFERENCES = {
    "device": (0, _DEVICE_LOCAL, _HOST_VISIBLE),
    "unified": (_UNIFIED, 0, 0),
    "upload": (_HOST_VISIBLE | _HOST_COHERENT, 0, _HOST_CACHED | _DEVICE_LOCAL),
    "download": (_HOST_VISIBLE | _HOST_COHERENT, _HOST_CACHED, _DEVICE_LOCAL),
}
_LAZY, _PROTECTED, _AMD_COHERENT = 0x10, 0x20, 0x40
_NEVER = _LAZY | _PROTECTED | _AMD_COHERENT

LOCATION_BITS = 48
"""A location is a number that identifies a buffer by its block's key, above these bits, and its offset."""

# STORAGE_BUFFER, TRANSFER_SRC and _DST, UNIFORM_BUFFER, UNIFORM_ and STORAGE_TEXEL_BUFFER, INDIRECT
BUFFER_USAGE = 0x20 | 0x1 | 0x2 | 0x10 | 0x4 | 0x8 | 0x100


class MemoryBlock(Handle):
    """One VkDeviceMemory and the VkBuffer that spans it, permanently mapped if host-visible.

    Attributes:
        address: the host address of byte 0, or 0 if the memory is not host-visible.
        key: a number unique in this process, also among freed blocks. It changes when a buffer moves out of the block
            or into it. So key and offset name one buffer as long as there are views of it.
    """

    _keys = itertools.count(1)
    _close_in_finalizer = False  # the pool closes it

    def __init__(self, device: LogicalDevice, families: Sequence[int], kind: MemoryType, nbytes: int) -> None:
        self.device, self.kind, self.nbytes = device, kind, nbytes
        self.ranges = Suballocator(nbytes)
        self.address = 0
        self.renew_key()
        info = vk.struct(
            "VkBufferCreateInfo",
            size=nbytes,
            usage=BUFFER_USAGE,
            sharingMode=int(len(families) > 1),  # EXCLUSIVE or CONCURRENT
            queueFamilyIndexCount=len(families),
            pQueueFamilyIndices=families,
        )
        self._deletions: list[Deletion] = []
        try:
            self._opened()
            self.handle = device.create("VkBuffer", "vkCreateBuffer", info, self._deletions)
            self._bind()
        except BaseException:
            self.close()
            raise

    def renew_key(self) -> None:
        """Gives the block another key."""
        self.key = next(MemoryBlock._keys)

    @classmethod
    def location_of_none(cls) -> int:
        """Returns the place of a buffer without memory, which no other buffer has."""
        return next(cls._keys) << LOCATION_BITS

    def _bind(self) -> None:
        fn, device = self.device.fn, self.device
        needs = vk.ffi.new("VkMemoryRequirements*")
        fn.vkGetBufferMemoryRequirements(device.handle, self.handle, needs)
        info = vk.struct("VkMemoryAllocateInfo", allocationSize=needs.size, memoryTypeIndex=self.kind.index)
        self.memory: Any = device.create("VkDeviceMemory", "vkAllocateMemory", info, self._deletions)
        vk.check(fn.vkBindBufferMemory(device.handle, self.handle, self.memory, 0), "vkBindBufferMemory", device)
        if self.kind.host_visible:
            pointer = vk.ffi.new("void**")
            whole = 0xFFFFFFFFFFFFFFFF  # VK_WHOLE_SIZE
            vk.check(fn.vkMapMemory(device.handle, self.memory, 0, whole, 0, pointer), "vkMapMemory", device)
            self.address = int(vk.ffi.cast("uintptr_t", pointer[0]))
            if device.physical.kind == "cpu":
                _advise_huge_pages(self.address, self.nbytes)

    def _destroy(self) -> None:
        run_deletions(self._deletions, first=0)  # the buffer before its memory


class MemoryPool:
    """All memory of one device.

    Args:
        families: the queue families that access buffers.
        limit_bytes: the most that all blocks on the heap of device memory may take; None leaves it to the heap and its
            budget.
        block_bytes: the size of a block that small buffers share.
        staging: treats device memory as invisible to the host.

    Attributes:
        unified: True if buffers live in memory that is the device's and the host's, coherent and cached.
        heap: the index of the heap of device memory. Discrete GPUs have staging memory on another.
        release_callbacks: called when memory runs out, to close buffers that are only kept for later use.
        make_room: called with a number of bytes when memory runs out in spite of that, to move buffers to the host;
            returns False if it has moved none.
        reusable: ranges that closed buffers have left for the results of later launches.
        buffers: weak references to the buffers in device memory, by id.
        exceeds_limit: True while the staging memory of such a move may exceed `limit_bytes`.
        peak_bytes: the most bytes of device memory that were in use or reusable at a time.
    """

    def __init__(
        self, device: LogicalDevice, families: Sequence[int], limit_bytes: int | None, block_bytes: int, staging: bool
    ) -> None:
        self.device, self.limit_bytes, self._families = device, limit_bytes, families
        self.release_callbacks: list[Callable[[], None]] = []
        self.make_room: Callable[[int], bool] = lambda nbytes: False
        self.reusable = RangePool(device.deletion_queue.append, self.free)
        self.buffers: dict[int, weakref.ref[Any]] = {}
        self.exceeds_limit = False
        self._used_bytes = self.peak_bytes = 0  # Ctrl-C may falsify the former until `used_bytes` counts anew
        heaps, types = device.physical.memory_heaps, device.physical.memory_types
        fit = _fit_for_buffers(device, types)
        self.unified = not staging and is_unified(fit)
        self.kinds = {use: _best(fit, *_PREFERENCES[use]) for use in ("upload", "download")}
        self.kinds["device"] = _best(fit, *_PREFERENCES["unified" if self.unified else "device"])
        self.kinds["fixed"] = self.kinds["device"]
        self.heap = self.kinds["device"].heap
        local = heaps[self.heap].nbytes
        local = local if limit_bytes is None else min(local, limit_bytes)
        self.block_bytes = min(block_bytes, max(MIB, local // 8))
        self.keep_bytes = local // 8  # of empty blocks, kept for reuse
        limits = device.physical.limits
        self.align = max(64, *(limits[f"min{kind}BufferOffsetAlignment"] for kind in ("Storage", "Uniform", "Texel")))
        self.blocks: list[MemoryBlock] = []

    @property
    def allocated_bytes(self) -> int:
        """Bytes of all blocks of device memory, in use or not."""
        return sum(block.nbytes for block in self.blocks if block.kind.heap == self.heap)

    @property
    def used_bytes(self) -> int:
        """Bytes of device memory in use by buffers."""
        self._used_bytes = sum(block.ranges.used_bytes for block in self.blocks if block.kind.heap == self.heap)
        return self._used_bytes - self.reusable.nbytes

    def allocate(self, made: MemoryRange, use: str, *, moves: bool = True) -> None:
        """Allocates the memory of a range, whose size is a multiple of 16, for a use.

        Args:
            moves: True to move other buffers to the host if there is no room.

        Raises:
            OutOfDeviceMemory: it does not fit, even after everything closed has been freed.
        """
        with self.device.lock:
            self.device.require_open()
            self._allocate(made.nbytes, self.kinds[use], made.allocations, moves)
            block, offset = made.allocations[0]
            made.location = (block.key << LOCATION_BITS) + offset
        # Emulated staging leaves device memory to the device, even if it is host-visible.
        if block.address and (use not in ("device", "fixed") or self.unified):
            made.address = block.address + offset
        if deferred_calls.waiting:  # a warning that buffers move to the host
            deferred_calls.run()

    def _allocate(self, nbytes: int, kind: MemoryType, allocations: list[Allocation], moves: bool) -> None:
        """Adds a range to `allocations`, in one atomic step."""
        if self.device.deletion_queue.n_new > _MANY_DELETIONS:
            self.device.collect()
        if not self._from_blocks(nbytes, kind, allocations):
            self.reusable.clear()
            self.device.collect()
            # Throttles a host that runs far ahead of the device: closed buffers would fill the heap.
            if self._deferred_bytes() > self.keep_bytes:
                self.device.collect(wait=True)
            if not self._from_blocks(nbytes, kind, allocations):
                try:
                    self._from_new_block(nbytes, kind, allocations)
                except OutOfDeviceMemory:
                    self._reclaim()
                    self._allocate_in_room(nbytes, kind, allocations, moves)
        if kind.heap == self.heap:
            self._used_bytes += nbytes
        if self._used_bytes > self.peak_bytes:
            self.peak_bytes = self._used_bytes

    def _allocate_in_room(self, nbytes: int, kind: MemoryType, allocations: list[Allocation], moves: bool) -> None:
        """Allocates as `_allocate`; moves other buffers to the host for as long as there is no room."""
        while not self._from_blocks(nbytes, kind, allocations):
            if (error := self._error_of(nbytes, kind, allocations)) is None:
                return
            moves = moves and kind.heap == self.heap
            try:
                if nbytes > error.total or not moves or not self.make_room(nbytes):
                    raise error
            except MemoryError as full:
                if full is error:
                    raise
                remedy = f"the host has no memory either for arrays to move to: {full or 'free arrays'}"
                raise OutOfDeviceMemory(nbytes, error.free, error.total, str(self.device), remedy=remedy) from full
            self._release()

    def _error_of(self, nbytes: int, kind: MemoryType, allocations: list[Allocation]) -> OutOfDeviceMemory | None:
        """Allocates in a new block; returns the error if there is no memory for it."""
        try:
            self._from_new_block(nbytes, kind, allocations)
        except OutOfDeviceMemory as error:
            return error
        return None

    def trim(self) -> None:
        """Frees memory that is kept for later use, after the work that uses it. Requires the device's lock."""
        self.reusable.clear()
        self.device.collect(wait=True)
        self._release()

    def _reclaim(self) -> None:
        """Frees reference cycles, buffers of pending work, memory kept for later use, and empty blocks."""
        gc.collect()
        self.trim()

    def _release(self) -> None:
        """Frees closed buffers, buffers kept for later use, and empty blocks."""
        for release in self.release_callbacks:
            release()
        self.reusable.clear()
        self.device.collect()
        self.drop_empty(0)

    def free(self, allocations: list[Allocation]) -> None:
        """Frees ranges. Empty blocks are kept for reuse up to `keep_bytes`."""
        while allocations:
            block, offset = allocations[-1]
            if block.kind.heap == self.heap:
                self._used_bytes -= block.ranges.length(offset)
            block.ranges.free(offset, allocations)
            if block.ranges.used_bytes == 0:
                self.drop_empty(self.keep_bytes)

    def drop_empty(self, keep_bytes: int) -> None:
        """Frees empty blocks, the newest first, until they have at most `keep_bytes`."""
        empty = [block for block in self.blocks if block.ranges.used_bytes == 0]
        total = sum(block.nbytes for block in empty)
        while empty and total > keep_bytes:
            block = empty.pop()
            total -= block.nbytes
            block.close()
            self.blocks.remove(block)

    def free_bytes(self, kind: MemoryType) -> int:
        """Returns the bytes that the heap of `kind`, the driver's budget and the pool's limit leave for new blocks."""
        heap = self.device.physical.memory_heaps[kind.heap]
        held = sum(block.nbytes for block in self.blocks if block.kind.heap == kind.heap)
        free = heap.nbytes - held
        budget = self.device.heap_budget(kind.heap)
        if budget is not None:
            free = min(free, budget)
        if (limit_bytes := self._limit_of(kind)) is not None:
            free = min(free, limit_bytes - held)
        return max(0, free)

    def _limit_of(self, kind: MemoryType) -> int | None:
        """Returns the limit in force for blocks of `kind`, or None."""
        return None if self.exceeds_limit or kind.heap != self.heap else self.limit_bytes

    def _deferred_bytes(self) -> int:
        """Returns the bytes of closed buffers that pending work uses."""
        deferred = (deletion[1] for deletion in self.device.deletion_queue.pending() if deletion[0] == self.free)
        return sum(block.ranges.length(offset) for allocations in deferred for block, offset in allocations)

    def _from_blocks(self, nbytes: int, kind: MemoryType, allocations: list[Allocation]) -> bool:
        for block in self.blocks:
            fits = block.kind is kind and block.ranges.largest_free >= nbytes and not block.closed
            if fits and block.ranges.allocate(nbytes, self.align, allocations, block) is not None:
                return True
        return False

    def _from_new_block(self, nbytes: int, kind: MemoryType, allocations: list[Allocation]) -> None:
        free = self.free_bytes(kind)
        shared = min(self.block_bytes, free)
        wanted = nbytes if nbytes > shared // 2 or self.exceeds_limit else shared
        physical = self.device.physical
        total = physical.memory_heaps[kind.heap].nbytes
        limit = total if (limit_bytes := self._limit_of(kind)) is None else limit_bytes
        if wanted > physical.max_allocation_bytes:
            remedy = f"an array has at most {physical.max_allocation_bytes} bytes there; divide it"
            raise OutOfDeviceMemory(nbytes, free, total, str(self.device), remedy=remedy)
        if wanted > min(free, limit):
            raise OutOfDeviceMemory(nbytes, free, min(total, limit), str(self.device))
        try:
            call_into(self.blocks, MemoryBlock, self.device, self._families, kind, wanted)
        except VulkanError as error:
            if error.result in OUT_OF_MEMORY:
                raise OutOfDeviceMemory(nbytes, free, total, str(self.device), error.call) from error
            raise
        self._from_blocks(nbytes, kind, allocations)  # the new block has room

    def close(self) -> None:
        """Frees every block."""
        while self.blocks:
            self.blocks[-1].close()
            del self.blocks[-1]


def _fit_for_buffers(device: LogicalDevice, types: tuple[MemoryType, ...]) -> tuple[MemoryType, ...]:
    """Returns the memory types that a buffer of `BUFFER_USAGE` can be bound to, as a small one reports."""
    info, deletions = vk.struct("VkBufferCreateInfo", size=16, usage=BUFFER_USAGE), list[Deletion]()
    probe = device.create("VkBuffer", "vkCreateBuffer", info, deletions)
    needs = vk.ffi.new("VkMemoryRequirements*")
    device.fn.vkGetBufferMemoryRequirements(device.handle, probe, needs)
    run_deletions(deletions)
    return tuple(kind for kind in types if needs.memoryTypeBits & (1 << kind.index) and not kind.bits & _NEVER)


def is_unified(types: tuple[MemoryType, ...]) -> bool:
    """Returns True if a type is both device-local and host memory, coherent and cached: direct access is fast."""
    return any(kind.bits & _UNIFIED == _UNIFIED and not kind.bits & _NEVER for kind in types)


def _best(types: tuple[MemoryType, ...], must: int, preferred: int, avoided: int) -> MemoryType:
    def score(kind: MemoryType) -> int:
        return (kind.bits & preferred).bit_count() - (kind.bits & avoided).bit_count()

    fit = [kind for kind in types if kind.bits & must == must]
    return max(fit, key=score)  # the first of equals: drivers list faster types first


@cache
def _madvise() -> Any:
    if not sys.platform.startswith("linux") or not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


def _advise_huge_pages(address: int, nbytes: int) -> None:
    """Advises the kernel to back [address, address + nbytes) with huge pages, as numpy does.

    The first touch of 512 MiB of new lavapipe memory takes 0.05 s with huge pages and 0.34 s without.
    """
    start = -(-address // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES
    stop = (address + nbytes) // _HUGE_PAGE_BYTES * _HUGE_PAGE_BYTES
    function = _madvise()
    if function is not None and stop > start:
        function(start, stop - start, getattr(mmap, "MADV_HUGEPAGE", 14))
