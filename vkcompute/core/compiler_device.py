"""A device that only compiles, which also drivers without hardware can."""

from __future__ import annotations

from vkcompute.core.logical_device import LogicalDevice
from vkcompute.core.physical import PhysicalDevice
from vkcompute.core.queue_plan import QueuePlan


class CompilerDevice(LogicalDevice):
    """A VkDevice for shader modules and pipelines. It has no memory, runs nothing, and keeps no pipeline cache."""

    def __init__(self, physical: PhysicalDevice) -> None:
        super().__init__(physical, QueuePlan.of(physical.queue_families, 1, 0), (), ())

    def _destroy(self) -> None:
        if self._deletions:
            self._close_children()
        super()._destroy()
