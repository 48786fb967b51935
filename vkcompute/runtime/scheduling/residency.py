"""Residency: which buffers are in device memory. While it is full, the least recently used ones are on the host."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from vkcompute.core.buffer import Buffer
from vkcompute.core.device import Device
from vkcompute.core.host_memory import host_memory
from vkcompute.core.staging import SLOT_BYTES
from vkcompute.errors import OutOfDeviceMemory, SpillWarning, warn_caller
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.command_queue import CommandQueue, failure_of

_SHARE = 16  # of the device's memory that moves out at least, as each time waits for all work
_RESERVE_SHARE, _RESERVE_BYTES = 16, 512 << 20
"""Of the host's memory, this part or at most these bytes stay available for others when arrays move to it."""


class MemoryInfo(NamedTuple):
    """Bytes of device memory, as `Runtime.memory()` returns them.

    Attributes:
        used: in use by arrays and by the library.
        free: still to be had, within the limit of the runtime and the budget of the driver.
        spilled: of arrays that are on the host until they are used again.
        peak: the most that were in use or pooled at a time.
        pooled: kept for the results of later launches, until memory is short or `Runtime.trim` frees it. It counts as
            free.
    """

    used: int
    free: int
    spilled: int
    peak: int
    pooled: int


class Copies(Protocol):
    """Copies between buffers and the host."""

    def upload(self, data: npt.NDArray[np.uint8], buffer: Buffer, offset: int) -> None:
        """Writes bytes from `offset` on."""

    def download(self, buffer: Buffer, offset: int, out: npt.NDArray[np.uint8]) -> None:
        """Reads the bytes from `offset` on, once the work that writes them has finished."""

    def wait_for(self, where: Range, *, write: bool) -> None:
        """Waits until the host may read or write these bytes."""

    def buffers_in_use(self) -> Iterable[Buffer]:
        """Returns the buffers that the host reads or writes at the moment."""


class Pin:
    """Keeps buffers where they are, for as long as it exists."""

    __slots__ = ("__weakref__",)


class Residency:
    """Moves buffers between the device and the host. All methods require the device's lock.

    A buffer moves to the host only in an allocation that finds no memory, when the device is idle. So work that was
    launched is never affected, and launches need only check that their buffers are in place once one has moved.

    Args:
        queues: of the scheduler.
        copies: the transfers of the runtime.
        begin: called before the first buffer moves.

    Attributes:
        spill_limit_bytes: the most that arrays take of the host's memory; None for half of it.
    """

    def __init__(
        self, device: Device, queues: Sequence[CommandQueue], copies: Copies, begin: Callable[[], None]
    ) -> None:
        self._device, self._queues, self._copies, self._begin = device, queues, copies, begin
        self._pool = device.memory
        self._pool.make_room = self._make_room
        self._pins: weakref.WeakKeyDictionary[Buffer, weakref.WeakSet[Any]] = weakref.WeakKeyDictionary()
        self._in_launch: frozenset[Buffer] = frozenset()
        self._is_moving = self._has_warned = False
        self.spill_limit_bytes: int | None = None

    def memory(self) -> MemoryInfo:
        """Returns the state of device memory."""
        self._device.collect()
        pool, kind = self._pool, self._pool.kinds["device"]
        used = pool.used_bytes
        idle = sum(block.nbytes - block.ranges.used_bytes for block in pool.blocks if block.kind is kind)
        pooled = pool.reusable.nbytes
        free, peak = pool.free_bytes(kind) + idle + pooled, max(pool.peak_bytes, used)
        return MemoryInfo(used, free, self._spilled_bytes(), peak, pooled)

    def _spilled_bytes(self, besides: Collection[Buffer] = ()) -> int:
        buffers = [buffer for buffer in self._buffers() if buffer not in besides]
        return sum(buffer.host.nbytes for buffer in buffers if buffer.host is not None)

    def pin(self, holder: object, buffers: Iterable[Buffer]) -> None:
        """Keeps buffers where they are for as long as `holder` exists; brings back those on the host."""
        kept = {*buffers}
        self.restore(kept)
        for buffer in kept:
            self._pins.setdefault(buffer, weakref.WeakSet()).add(holder)

    def restore(self, buffers: Collection[Buffer], *, overwritten: bool = False) -> None:
        """Brings buffers back to the device, all of them at a time.

        Args:
            overwritten: True if the content may get lost.

        Raises:
            OutOfDeviceMemory: they do not fit together.
        """
        missing = {buffer: None for buffer in buffers if buffer.host is not None}
        if not missing:
            return
        outer = self._in_launch
        try:
            self._in_launch = outer.union(buffers)
            for buffer in missing:
                self._bring_back(buffer, overwritten)
        except OutOfDeviceMemory as error:
            nbytes = sum(buffer.nbytes for buffer in self._in_launch)
            remedy = (
                f"arrays that one launch or graph uses are on the device at the same time, and these have {nbytes} "
                "bytes; pass parts of them, or close graphs, tables of pointers and NumPy views of other arrays"
            )
            raise OutOfDeviceMemory(error.asked, error.free, error.total, str(self._device), remedy=remedy) from error
        finally:
            self._in_launch = outer

    def _bring_back(self, buffer: Buffer, overwritten: bool) -> None:
        fresh, outer = Buffer(self._pool, buffer.used_bytes), self._in_launch
        try:
            self._in_launch = outer.union((fresh,))
            if not overwritten:
                self._pool.exceeds_limit = True
                self._upload(buffer.host, fresh)
            if buffer.history is not None and fresh.history is not None:
                fresh.history.written = buffer.history.written
            buffer.move_in(fresh)
        finally:
            self._pool.exceeds_limit, self._in_launch = False, outer
            fresh.close()

    def _upload(self, content: npt.NDArray[np.uint8], fresh: Buffer) -> None:
        for start in range(0, len(content), SLOT_BYTES):
            part = content[start : start + SLOT_BYTES]
            self._copies.upload(part, fresh, start)
            self._copies.wait_for((fresh, start, start + len(part)), write=False)

    def _make_room(self, nbytes: int) -> bool:
        """Moves the least recently used buffers to the host, at least `nbytes` of them; False if there is none.

        Raises:
            MemoryError: the host has no memory for any of them, or the limit in it is reached.
        """
        movable = [] if self._is_moving else self._movable()
        kind = self._pool.kinds["device"]
        unused = self._pool.allocated_bytes - self._pool.used_bytes
        if not movable or sum(buffer.nbytes for buffer in movable) + unused + self._pool.free_bytes(kind) < nbytes:
            return False
        self._warn()
        self._begin()
        self._is_moving, moved = True, 0
        least = max(nbytes, self._pool.allocated_bytes // _SHARE)
        try:
            for buffer in sorted(movable, key=self._last_use):
                if moved >= least:
                    break
                self._move_out(buffer)
                moved += buffer.nbytes
        except MemoryError:
            if not moved:
                raise
        finally:
            self._is_moving = False
        return True

    def _move_out(self, buffer: Buffer) -> None:
        history = buffer.history
        has_content = history is not None and history.written is not False
        if has_content:
            self._demand_host_memory(buffer.used_bytes)
        host = np.empty(buffer.used_bytes if has_content else 0, np.uint8)
        try:
            self._pool.exceeds_limit = True
            for start in range(0, len(host), SLOT_BYTES):
                self._copies.download(buffer, start, host[start : start + SLOT_BYTES])
        finally:
            self._pool.exceeds_limit = False
        buffer.move_out(host)

    def _demand_host_memory(self, nbytes: int) -> None:
        """Raises MemoryError if the host's memory, or the limit in it, does not take so many bytes more.

        Arrays that are coming back for a launch do not count: their memory on the host is freed next.
        """
        host, spilled = host_memory(), self._spilled_bytes(self._in_launch)
        limit = host.total // 2 if self.spill_limit_bytes is None else self.spill_limit_bytes
        if spilled + nbytes > limit and (host.total or self.spill_limit_bytes is not None):
            raise MemoryError(
                f"arrays have {spilled} bytes of host memory, and take {limit} at most; free arrays, or open "
                "vc.Runtime(spill_limit_bytes=…) with more"
            )
        reserve = min(host.total // _RESERVE_SHARE, _RESERVE_BYTES) // (2 if self._in_launch else 1)
        if host.total and host.available - nbytes < reserve:
            raise MemoryError(
                f"the host has {host.available} of {host.total} bytes available, of which {reserve} are kept for "
                "others; free arrays"
            )

    def _buffers(self) -> list[Buffer]:
        return [buffer for reference in list(self._pool.buffers.values()) if (buffer := reference()) is not None]

    def _movable(self) -> list[Buffer]:
        """Returns the buffers in device memory that nothing keeps there.

        The content of a failed task's results does not move: reads of it raise the error.
        """
        in_use = {*self._in_launch, *self._copies.buffers_in_use()}
        return [
            buffer
            for buffer in self._buffers()
            if buffer.host is None
            and buffer not in in_use
            and not self._pins.get(buffer)
            and failure_of(self._queues, [(buffer, 0, buffer.nbytes)]) is None
        ]

    def _last_use(self, buffer: Buffer) -> tuple[int, int]:
        """Returns a key that is larger for buffers that were used later, the smallest for those without content."""
        history = buffer.history
        if history is None or history.written is False:
            return (0, 0)
        return max([self._queues[queue].order_of(task) for queue, task in history.last_uses().items()], default=(0, 0))

    def _warn(self) -> None:
        """Warns once, at the line outside of this package that needs memory."""
        if self._has_warned:
            return
        used = self._pool.used_bytes
        warn_caller(
            f"the memory of {self._device} is full, with {used} bytes in use: the least recently used arrays move to "
            "host memory, and back when they are used again, which takes time; free arrays, or stream the data in "
            "chunks; memory() of the runtime counts them",
            SpillWarning,
        )
        self._has_warned = True
