"""Transfers between host and device: directly to host-visible memory, else through a staging ring."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from vkcompute.core import vk
from vkcompute.core.buffer import Buffer
from vkcompute.core.queue import Point
from vkcompute.core.staging import SLOT_BYTES, StagingRing
from vkcompute.deferred_calls import waiting
from vkcompute.errors import closed, refusal
from vkcompute.runtime.memory.downloads import Download, HostArray
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.residency import Residency
from vkcompute.runtime.scheduling.scheduler import Scheduler
from vkcompute.runtime.scheduling.task import Copy, CopyPart, copy_region

Bytes = npt.NDArray[np.uint8]
_T = TypeVar("_T")
_IN_FLIGHT = 3


def host_view(buffer: Buffer, offset: int, nbytes: int) -> Bytes:
    """Returns an array over the memory of a host-visible buffer, which it does not keep alive."""
    pointer = vk.ffi.cast("char*", buffer.address + offset)
    return np.frombuffer(vk.ffi.buffer(pointer, nbytes), np.uint8)


class _Holder:
    """Keeps a buffer alive for arrays over its memory."""

    __slots__ = ("__weakref__", "buffer")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer


class Transfers:
    """Uploads and downloads of one runtime.

    Attributes:
        downloads: those of graphs' runs that have not reached the host arrays, by number.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._up = StagingRing(scheduler.device, "upload")
        self._down = StagingRing(scheduler.device, "download")
        self._active: dict[object, tuple[int, Buffer]] = {}  # transfer -> thread and buffer; close() waits for them
        self.downloads: dict[int, Download] = {}
        self._closed = False
        scheduler.residency = Residency(
            scheduler.device, scheduler.queues, self, partial(setattr, scheduler, "moves", True)
        )

    def mapped(self, buffer: Buffer, offset: int, nbytes: int, *, write: bool) -> Bytes | None:
        """Returns the memory itself, once the host may read (or write) it; None if it is not host-visible."""
        if not buffer.address:
            return None
        self.wait_for((buffer, offset, offset + nbytes), write=write)
        return host_view(buffer, offset, nbytes)

    def wait_for(self, where: Range, *, write: bool) -> None:
        """Waits until the host may read (or write) these bytes."""
        buffer, start, stop = where
        with self._scheduler.device.lock:
            if write and buffer.readers:
                buffer.compute_readers()
            history = self._scheduler.history(buffer)
            history.written = write or history.written
            history.other_uses = {queue.index: queue.task for queue in self._scheduler.queues}
            find = history.last_accesses if write else history.last_writers
            points = self._scheduler.points(find(start, stop))
        for point in points:
            point.wait()
        if (callbacks := self._scheduler.callbacks) or waiting:
            callbacks.run()
        if not write:
            self._scheduler.require_written(buffer, start, stop)

    def use(self, buffer: Buffer, function: Callable[[Bytes], _T], *, write: bool) -> _T:
        """Returns what `function` makes of the memory of a staging buffer, once the host may read (or write) it."""
        transfer = object()
        try:
            self._begin(transfer, buffer)
            memory = self.mapped(buffer, 0, buffer.used_bytes, write=write)
            assert memory is not None, "staging memory is host-visible"
            return function(memory)
        finally:  # not a `with`, whose exit Ctrl-C could prevent
            self._active.pop(transfer, None)

    def lend(self, buffer: Buffer, offset: int, nbytes: int, *, synchronous: bool = True) -> Bytes | None:
        """As `mapped`, for writing, but the memory stays valid as long as the array or a view of it exists.

        The host may access it at any time. So as long as it is lent, work on the buffer finishes within the call that
        launches it, and expressions that read it are computed at once.

        Args:
            synchronous: False if the host waits for work on the memory by itself.
        """
        holder = _Holder(buffer)
        if (tracer := self._scheduler.tracer()) is not None:
            tracer.refuse("it lends memory to the host")
        with self._scheduler.device.lock:
            self._scheduler.residency.pin(holder, [buffer])
        if self.mapped(buffer, offset, nbytes, write=True) is None:
            return None
        self._scheduler.require_written(buffer, offset, offset + nbytes)
        self._scheduler.device.lend(holder)
        if synchronous:
            self._make_synchronous(buffer, holder)
        # The pointer keeps the buffer alive, as numpy shortens chains of arrays.
        address = vk.ffi.cast("char*", buffer.address + offset)
        pointer = vk.ffi.gc(address, lambda _, holder=holder: None)
        return np.frombuffer(vk.ffi.buffer(pointer, nbytes), np.uint8)

    def _make_synchronous(self, buffer: Buffer, holder: _Holder) -> None:
        """Finishes work on a buffer, and makes launches on it wait for their end as long as the holder exists."""
        with self._scheduler.device.lock:
            buffer.add_borrower(holder)
            self._scheduler.history(buffer).report_all()
            buffer.compute_readers()
            self._scheduler.history(buffer)  # reports the work so far, for which `unlocked` waits
        self._scheduler.unlocked()

    def upload(self, data: HostArray, buffer: Buffer, offset: int) -> None:
        """Writes a C-contiguous array at `offset` bytes; it may be changed once this returns."""
        transfer, data = object(), data.reshape(-1).view(np.uint8)
        if (tracer := self._scheduler.tracer()) is not None:
            tracer.uploaded(buffer, offset, data.nbytes)
        try:
            if self._begin(transfer, buffer) is not None:
                with self._scheduler.device.lock:
                    buffer.compute_readers()
                    self._scheduler.residency.restore([buffer], overwritten=data.nbytes == buffer.used_bytes)
            memory = self.mapped(buffer, offset, data.nbytes, write=True)
            if memory is not None:
                memory[:] = data
                self._scheduler.overwritten(buffer, offset, offset + data.nbytes)
                return
            for start in range(0, data.nbytes, SLOT_BYTES):
                part = data[start : start + SLOT_BYTES]
                slot = self._up.acquire()
                host_view(slot, 0, part.nbytes)[:] = part
                self._up.release(slot, self._copy(slot, 0, buffer, offset + start, part.nbytes))
        finally:  # not a `with`, whose exit Ctrl-C could prevent
            self._active.pop(transfer, None)

    def download(self, buffer: Buffer, offset: int, out: HostArray) -> None:
        """Fills a C-contiguous array with the bytes from `offset` on. Waits only for the work that writes them."""
        transfer, out = object(), out.reshape(-1).view(np.uint8)
        if (tracer := self._scheduler.tracer()) is not None:
            tracer.refuse("it reads values on the host")
        try:
            content = self._begin(transfer, buffer)
            memory = self.mapped(buffer, offset, out.nbytes, write=False) if content is None else None
            if content is not None:
                out[: len(content)] = content[offset : offset + out.nbytes]
            elif memory is not None:
                out[:] = memory
            else:
                self._download_staged(buffer, offset, out)
        finally:
            self._active.pop(transfer, None)

    def _download_staged(self, buffer: Buffer, offset: int, out: Bytes) -> None:
        pending: deque[tuple[Buffer, Point, Bytes]] = deque()
        for start in range(0, out.nbytes, SLOT_BYTES):
            part = out[start : start + SLOT_BYTES]
            if len(pending) == _IN_FLIGHT:
                self._receive(*pending.popleft())
            slot = self._down.acquire()
            pending.append((slot, self._copy(buffer, offset + start, slot, 0, part.nbytes), part))
        while pending:
            self._receive(*pending.popleft())
        self._scheduler.callbacks.run()
        self._scheduler.require_written(buffer, offset, offset + out.nbytes)

    def _receive(self, slot: Buffer, point: Point, part: Bytes) -> None:
        point.wait()
        part[:] = host_view(slot, 0, part.nbytes)
        self._down.release(slot, None)

    def _copy(self, source: Buffer, start: int, target: Buffer, to: int, nbytes: int) -> Point:
        part = CopyPart((source, start, start + nbytes), copy_region(source, start, target, to, nbytes), 1)
        # Copy engines are for copies between host and device; within the device, compute queues are faster.
        return self._scheduler.launch_now(Copy([part], (target, to, to + nbytes)), queue="transfer").point()

    def finish(self) -> None:
        """Waits for the downloads of graphs' runs."""
        for download in list(self.downloads.values()):
            download.finish()

    def _begin(self, transfer: object, buffer: Buffer) -> Bytes | None:
        """Begins a transfer, until whose end the buffer does not move. Returns the content if it is on the host."""
        self._active[transfer] = threading.get_ident(), buffer
        if self._closed:
            raise closed("the runtime is closed; open a new one")
        if (failure := self._scheduler.queues[0].failure) is not None:
            raise refusal(failure)
        with self._scheduler.device.unguarded_lock:  # a thread that has it may be moving the buffer
            content: Bytes | None = buffer.host
            return content

    def buffers_in_use(self) -> list[Buffer]:
        """Returns the buffers that transfers of any thread read or write."""
        return [buffer for _, buffer in list(self._active.values())]

    def close(self) -> None:
        """Waits for the transfers of other threads, and frees the staging memory."""
        self._closed = True
        while any(thread != threading.get_ident() for thread, _ in list(self._active.values())):
            time.sleep(0.001)
        self.downloads.clear()
        self._up.close()
        self._down.close()
