"""A buffer: a range of device memory with an owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vkcompute.core.lifetime import count, note

if TYPE_CHECKING:
    from vkcompute.core.device import Device
    from vkcompute.core.memory import Place

PADDING = 64  # so that kernels may load and store whole vectors, of up to 64 bytes, at the end


class Buffer:
    """A range of bytes on the device, given back after its last use once it is closed or forgotten.

    Attributes:
        block, offset: where it lies; the offset in bytes.
        used_bytes: what was asked for; the rest, up to nbytes, is padding that belongs to nobody else.
        nbytes: its size, a multiple of `PADDING`.
        address: where the host reads and writes byte 0, or 0.
        uses: a place for the scheduler's notes of who reads and writes it.
    """

    __slots__ = (
        "__weakref__", "_open", "_places", "address", "block", "device", "nbytes", "offset", "used_bytes", "uses",
    )  # fmt: skip

    def __init__(self, device: Device, nbytes: int, use: str = "device") -> None:
        self._open = False
        self.device = device
        self.used_bytes = nbytes
        self.nbytes = -(-max(nbytes, 1) // PADDING) * PADDING
        self._places: list[Place] = []
        try:
            with device.lock:
                device.require_open()
                device.memory.take(self.nbytes, use, self._places)
                self.block, self.offset = self._places[0]
                self._open = True  # without a call in between, at which Ctrl-C could come
                note(("Buffer", +1))
        except BaseException:
            if not self._open:  # else its finalizer gives the range back
                device.retirement.append((device.memory.give, self._places))
            raise
        # Where transfers are to be staged, device memory that happens to be visible is left to the device too.
        visible = self.block.address and (use != "device" or device.memory.unified)
        self.address = self.block.address + self.offset if visible else 0
        self.uses: Any = None

    def close(self) -> None:
        """Hands the range over, to be given back after its last use. A second call does nothing."""
        if self._open:
            self._open = False
            count("Buffer", -1)
            self.device.retirement.append((self.device.memory.give, self._places))

    def __del__(self) -> None:
        if hasattr(self, "_open"):  # else it has been interrupted before anything
            self.close()
