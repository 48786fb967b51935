"""Buffers: ranges of device memory."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast

from vkcompute.core.lifetime import live
from vkcompute.core.memory_pool import LOCATION_BITS, MemoryBlock, MemoryPool
from vkcompute.core.range_pool import MemoryRange

_PRUNE_AFTER = 64
PADDING = 64  # so that kernels may load and store whole vectors, of up to 64 bytes, at the end


class Reader(Protocol):
    """A reference to a user of the content of a buffer, which is called back before that changes.

    Its hash is that of its identity.
    """

    def __call__(self) -> object:
        """Returns the user; None once it is gone."""

    @property
    def is_done(self) -> bool:
        """True if it no longer needs the content."""

    def before_overwriting(self) -> None:
        """Launches what reads the content."""


class Buffer:
    """A range of device memory, freed after its last use once it is closed or garbage.

    Args:
        recycles: takes the range of a closed buffer of this kind, which the device may still use, if there is one. All
            its uses are in the access history, which orders those of the new buffer. Leaves the range to others.

    Attributes:
        device: the device that it is on.
        block, offset: its position; the offset in bytes. They are valid while `host` is None, with the device's lock.
        location: a number for both, which no other buffer has as long as there are views of this one.
        host: the content as an array of bytes, while the buffer has no device memory, else None; it is empty if nothing
            was ever written.
        used_bytes: its size as requested. The rest, up to `nbytes`, is padding that no other buffer uses.
        nbytes: its size, a multiple of `PADDING`.
        address: the host address of byte 0, or 0 if it is not host-visible.
        history: the scheduler's access history of the buffer, or None.
        readers: those that still need the content, as the keys of a dict.
        borrowers: weak references to the owners of views by which code of the host accesses the memory.
    """

    __slots__ = (
        "__weakref__",
        "_memory",
        "_open",
        "_pool",
        "_recycles",
        "address",
        "block",
        "borrowers",
        "device",
        "history",
        "host",
        "location",
        "nbytes",
        "offset",
        "readers",
        "used_bytes",
    )  # fmt: skip

    def __init__(
        self, pool: MemoryPool, nbytes: int, use: str = "device", *, moves: bool = True, recycles: bool = False
    ) -> None:
        self._open, self._recycles = False, recycles
        self._pool, self.device = pool, pool.device
        self.host: Any = None
        self.used_bytes = nbytes
        self.nbytes = nbytes = -(-(nbytes or 1) // PADDING) * PADDING
        taken: list[MemoryRange] = []
        try:
            if recycles:
                pool.reusable.take(nbytes, taken)
            if not taken:
                taken += (MemoryRange(nbytes),)
                pool.allocate(taken[0], use, moves=moves)
            self._memory: MemoryRange | None = (memory := taken[0])
            if (history := memory.history) is not None:
                history.hand_over(self.used_bytes or 1)
            self.block, self.offset = memory.allocations[0]
            self.location, self.address, self.history = memory.location, memory.address, history
            self.readers: dict[Reader, None] = {}
            self.borrowers: list[weakref.ref[object]] = []
            key = id(self)
            self._open = True  # indivisible from the next line
            live[key] = "Buffer"
            if use == "device":
                pool.buffers[key] = weakref.ref(self)
        except BaseException:
            if not self._open and taken:  # else the finalizer frees it
                self.device.deletion_queue.append((pool.free, taken[0].allocations))
            raise

    @property
    def is_lent(self) -> bool:
        """True as long as code of the host may access the memory without a call of the library."""
        return any(borrower() is not None for borrower in self.borrowers)

    def add_borrower(self, holder: object) -> None:
        """Registers the owner of a view of the host. Requires the device's lock: else another owner could be lost."""
        self.borrowers = [*[borrower for borrower in self.borrowers if borrower() is not None], weakref.ref(holder)]

    def add_reader(self, reader: Reader) -> bool:
        """Registers a reader, which is called back before the buffer is overwritten.

        Returns:
            True if the memory is lent to the host, which does not call back: the reader has to read at once.
        """
        readers = self.readers
        readers[reader] = None
        if not len(readers) % _PRUNE_AFTER:
            self._drop_done()
        return self.is_lent if self.borrowers else False

    def compute_readers(self) -> None:
        """Calls back the readers; the content may then change.

        Some may stay, as those of other recordings, which are to read what the buffer holds when the graph runs. What
        overwrites the buffer calls this with the device's lock, and keeps it until the write is ordered before later
        reads.
        """
        before: list[Reader] = []
        while self.readers and (readers := list(self.readers)) != before:
            for reader in reversed(readers):
                reader.before_overwriting()
            self._drop_done()
            before = readers

    def _drop_done(self) -> None:
        for reader in list(self.readers):
            if reader() is None or reader.is_done:
                self.readers.pop(reader, None)

    def close(self) -> None:
        """Frees the range after its last use. A second call does nothing."""
        if self._open:
            key, memory, pool = id(self), self._memory, self._pool
            release: Callable[[Any], object]
            released: Any
            if self._recycles and memory is not None:
                memory.history = self.history
                release, released = pool.reusable.leave, memory
            else:  # also where it has moved to the host
                release = self.device.deletion_queue.append
                released = pool.free, ([] if memory is None else memory.allocations)
            self._open, self._memory = False, None  # indivisible from here
            del live[key]
            release(released)
            pool.buffers.pop(key, None)

    def move_out(self, host: Any) -> None:
        """Frees the memory, whose content is in `host`; no work on it is pending. Requires the device's lock."""
        memory, pool, none = cast(MemoryRange, self._memory), self._pool, cast(MemoryBlock, None)
        deletion = pool.free, memory.allocations
        self.block.renew_key()
        location = MemoryBlock.location_of_none()
        self.host, self.block, self.offset, self.address, self._memory = host, none, 0, 0, None  # indivisible
        self.location = location  # indivisible from the next line
        self.device.deletion_queue.append(deletion)

    def move_in(self, other: Buffer) -> None:
        """Takes the memory and the accesses of a buffer of the same size. Requires the device's lock."""
        other.block.renew_key()
        history = other.history or self.history
        location, memory = (other.block.key << LOCATION_BITS) + other.offset, cast(MemoryRange, other._memory)
        self.block, self.offset, self.address = other.block, other.offset, other.address  # indivisible from here
        self._memory, other._memory, memory.location = memory, None, location
        self.location, self.history, self.host = location, history, None

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the end of the process, modules have lost their names, and all runtimes have been closed.
        if not is_finalizing() and hasattr(self, "_open"):  # else it was interrupted before the first statement
            self.close()


def compute_readers(ranges: Iterable[tuple[Buffer, int, int]]) -> None:
    """Calls back the readers of the buffers of these ranges, which are to be overwritten."""
    for span in ranges:
        if span[0].readers:
            span[0].compute_readers()
