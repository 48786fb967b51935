"""The staging ring: host-visible buffers for copies to and from memory that the host cannot access."""

from __future__ import annotations

import weakref
from collections import deque

from vkcompute.core.buffer import Buffer
from vkcompute.core.device import Device
from vkcompute.core.queue import Point
from vkcompute.errors import OutOfDeviceMemory

SLOT_BYTES = 8 << 20
N_SLOTS = 4


class StagingRing:
    """Up to `N_SLOTS` slots, buffers of `SLOT_BYTES` that are reused in turn, each after its last use.

    A slot that an error or Ctrl-C keeps from being given back is freed like any buffer.

    Args:
        use: "upload" or "download".
    """

    def __init__(self, device: Device, use: str) -> None:
        self.device, self.use = device, use
        self._slots: deque[tuple[Buffer, Point | None]] = deque()
        self._alive: weakref.WeakSet[Buffer] = weakref.WeakSet()
        device.memory.release_callbacks.append(self._drop_idle)

    def acquire(self) -> Buffer:
        """Returns an unused slot; waits for the oldest one if all are in use."""
        with self.device.lock:
            if self._slots and (self._slots[0][1] is None or self._slots[0][1].done()):
                return self._slots.popleft()[0]
            if (len(self._alive) < N_SLOTS or not self._slots) and (slot := self._new_slot()) is not None:
                self._alive.add(slot)
                return slot
            slot, point = self._slots.popleft()
        if point is not None:
            point.wait()
        return slot

    def _new_slot(self) -> Buffer | None:
        """Makes a slot. Returns None if other buffers would have to move for it, and there is a slot to wait for."""
        try:
            return self.device.buffer(SLOT_BYTES, self.use, moves=False)
        except OutOfDeviceMemory:
            return None if self._slots else self.device.buffer(SLOT_BYTES, self.use)

    def release(self, slot: Buffer, point: Point | None) -> None:
        """Takes back a slot that is in use until `point`; None: it is unused."""
        with self.device.lock:
            self._slots.append((slot, point))

    def _drop_idle(self) -> None:
        with self.device.lock:
            idle = [entry for entry in self._slots if entry[1] is None or entry[1].done()]
            for entry in idle:
                self._slots.remove(entry)
                self._alive.discard(entry[0])
                entry[0].close()

    def close(self) -> None:
        """Frees the slots."""
        while self._slots:
            self._slots.popleft()[0].close()
