"""The opened device: its queues, its memory and its pipeline cache."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial
from typing import Any

from vkcompute.core import device_profile, features, vk
from vkcompute.core.buffer import Buffer
from vkcompute.core.logical_device import LogicalDevice
from vkcompute.core.memory_pool import MIB, MemoryPool
from vkcompute.core.physical import PhysicalDevice
from vkcompute.core.pipeline_cache import PipelineCache
from vkcompute.core.queue import Queue
from vkcompute.core.queue_plan import QueuePlan
from vkcompute.errors import DeviceLost


class Device(LogicalDevice):
    """An opened device.

    Args:
        physical: the device to open.
        require: features that the device must have; its other useful ones are enabled anyway.
        queues: the most (compute, transfer) queues to create; None creates the usual ones.
        memory_limit_bytes: the most device memory to hold; None leaves it to the heap.
        robust: enables the features of `features.ROBUST` that the device has.

    Attributes:
        result_buffer: allocates a buffer for the result of a launch, of a number of bytes; raises as `buffer`. It may
            be the range of an earlier result that the device still uses.

    Raises:
        MissingFeature: the device lacks one of `require`.
    """

    result_buffer: Callable[[int], Buffer]

    def __init__(
        self,
        physical: PhysicalDevice,
        *,
        require: Collection[str] = (),
        queues: tuple[int, int] | None = None,
        memory_limit_bytes: int | None = None,
        robust: bool = False,
    ) -> None:
        physical = physical.under(device_profile.current.get())
        profile = physical.profile
        plan = QueuePlan.default(physical) if queues is None else QueuePlan.of(physical.queue_families, *queues)
        self.queues: list[Queue] = []
        self._lent: list[weakref.finalize[Any, Any]] = []
        super().__init__(physical, plan, require, self.queues, features.ROBUST if robust else frozenset())
        with ExitStack() as undo:
            undo.callback(self.close)
            self._create_queues(plan, profile.timelines)
            families = sorted({queue.family for queue in self.queues})
            self.memory = MemoryPool(self, families, memory_limit_bytes, 64 * MIB, profile.staging)
            self.result_buffer = partial(Buffer, self.memory, recycles=True)
            self.pipeline_cache = PipelineCache(self)
            undo.pop_all()

    def _create_queues(self, plan: QueuePlan, timelines: tuple[int, int]) -> None:
        queues = list(plan.queues)
        compute = [queue for queue in queues if queue[2] == "compute"]
        for role, wanted in zip(("compute", "transfer"), timelines, strict=True):
            present = sum(queue[2] == role for queue in queues)
            queues += [(*compute[i % len(compute)][:2], role) for i in range(present, wanted)]
        for number, (family, index, role) in enumerate(queues):
            pointer = vk.ffi.new("VkQueue*")
            self.fn.vkGetDeviceQueue(self.handle, family, index, pointer)
            self.queues.append(Queue(self, pointer[0], family, number, role))

    @property
    def pipeline_cache_handle(self) -> Any:
        return self.pipeline_cache.handle

    def buffer(self, nbytes: int, use: str = "device", *, moves: bool = True) -> Buffer:
        """Allocates a buffer of at least `nbytes`; `use` is "device", or host-visible "upload" or "download".

        A buffer for the use "fixed" is in device memory, too, and never moves to the host. `moves` is False to move no
        others either.

        Raises:
            OutOfDeviceMemory: it does not fit.
        """
        return Buffer(self.memory, nbytes, use, moves=moves)

    def lend(self, holder: object) -> None:
        """Keeps the device's memory until `holder` is gone, even if the device is closed before."""
        self._lent.append(weakref.finalize(holder, self._returned))

    def _returned(self) -> None:
        self._lent.pop()
        if self.closed and not self.inherited:
            with self.unguarded_lock:  # in a finalizer, for which `_end` is prepared
                if not self._lent:
                    self._end()

    def _destroy(self) -> None:
        with self.lock:
            if self._deletions:
                with contextlib.suppress(DeviceLost):  # a lost device runs nothing, and its objects may be destroyed
                    self.wait_idle()
            if not self._lent:
                self._end()

    def _end(self) -> None:
        if self._deletions:  # the last holder of lent memory may go while the device is being closed
            self.fn.vkDeviceWaitIdle(self.handle)  # also for submits with an unknown value: validation objected to them
            if hasattr(self, "memory"):
                self.memory.reusable.clear()
            self._close_children()
            if hasattr(self, "pipeline_cache"):
                self.pipeline_cache.close()
            if hasattr(self, "memory"):
                self.memory.close()
            for queue in self.queues:
                queue.close()
        super()._destroy()
