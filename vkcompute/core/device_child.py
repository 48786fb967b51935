"""Objects created on a device, destroyed after their last use."""

from __future__ import annotations

import weakref
from typing import Any

from vkcompute.core.lifetime import Deletion, Handle, run_deletions
from vkcompute.core.logical_device import LogicalDevice


class DeviceChild(Handle):
    """Owns driver objects that are destroyed after their last use, or with the device if that is closed first.

    A subclass creates them with `create`. `close()` puts them on the device's deletion queue; it may be called on any
    thread at any moment.
    """

    def __init__(self, device: LogicalDevice) -> None:
        self.device = device
        self.deletions: list[Deletion] = []
        self._opened()  # first: if a later step of the constructor fails, the objects made so far are destroyed

    def _opened(self) -> None:
        super()._opened()
        # The device also holds the deletions: its own finalizer may run before the child's. Their id is unique while
        # the device holds them.
        self.device.children[id(self.deletions)] = weakref.ref(self), self.deletions

    def create(self, kind: str, info: Any) -> Any:
        """Creates a driver object of type `kind`, without its "Vk". The newest is destroyed first."""
        return self.device.retry(self.device.create, f"Vk{kind}", f"vkCreate{kind}", info, self.deletions)

    def _destroy(self) -> None:
        if id(self.deletions) in self.device.children:  # if Ctrl-C strikes in between, the device's end finds them
            self.device.deletion_queue.append((run_deletions, self.deletions))
            self.device.children.pop(id(self.deletions), None)
