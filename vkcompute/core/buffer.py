"""A buffer: a range of device memory with an owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vkcompute.core.lifetime import count

if TYPE_CHECKING:
    from vkcompute.core.device import Device


class Buffer:
    """A range of bytes on the device, given back after its last use once it is closed or forgotten.

    Attributes:
        block, offset: where it lies; the offset in bytes.
        nbytes: its size, a multiple of 16.
        address: where the host sees byte 0, or 0.
        uses: a place for the scheduler's notes of who reads and writes it.
    """

    __slots__ = ("__weakref__", "_open", "address", "block", "device", "nbytes", "offset", "uses")

    def __init__(self, device: Device, nbytes: int, use: str = "device") -> None:
        self._open = False
        self.device = device
        self.nbytes = -(-max(nbytes, 1) // 16) * 16
        with device.lock:
            device.require_open()
            self.block, self.offset = device.memory.take(self.nbytes, use)
        self._open = True
        count("Buffer", +1)
        self.address = self.block.address + self.offset if self.block.address else 0
        self.uses: Any = None

    def close(self) -> None:
        """Hands the range over, to be given back after its last use. A second call does nothing."""
        if self._open:
            self._open = False
            count("Buffer", -1)
            self.device.retirement.append((self.device.memory.give, self.block, self.offset))

    def __del__(self) -> None:
        self.close()
