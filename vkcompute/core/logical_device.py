"""The logical device: the base of `Device`, which the objects created on a device use."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from vkcompute import locks
from vkcompute.core import features, vk
from vkcompute.core.deletion_queue import DeletionQueue, TimelineSemaphore
from vkcompute.core.interrupts import Guarded, call_into
from vkcompute.core.lifetime import Deletion, Handle, run_deletions
from vkcompute.core.physical import PhysicalDevice
from vkcompute.core.profile_check import ProfileCheck
from vkcompute.core.queue_plan import QueuePlan
from vkcompute.core.quirks import quirks_of
from vkcompute.core.validation import raise_objections
from vkcompute.errors import OUT_OF_MEMORY, DeviceLost, VulkanError

_T = TypeVar("_T")
_COMPUTE = 0x20  # VK_SHADER_STAGE_COMPUTE_BIT


class LogicalDevice(Handle, Guarded):
    """A VkDevice: its functions, its locks, and the lifetimes of the objects created on it.

    Args:
        physical: the device to open.
        plan: the queues to create.
        require: features that the device must have; its other useful ones are enabled anyway.
        timelines: the queues' timelines, which may be added later.
        more: features to enable if the device has them.

    Raises:
        MissingFeature: the device lacks one of `require`.

    Attributes:
        handle: the VkDevice.
        fn: its functions.
        lock: guards everything but submits. Work is recorded, and memory taken and freed, with it held.
        submit_lock: serializes the submits to all queues.
        loss: the error that reported the device as lost, or None.
        deletion_queue: destroys objects once the device has finished with them.
        children: id of a child's deletions -> (weak reference to the child, its deletions).
        submit_recorded: callback that submits all recorded work. Set by the scheduler; does nothing before.
        on_lost: callback for the error that reports the device as lost. Set by the scheduler; does nothing before.
    """

    lock_rank = locks.Rank.DEVICE

    def __init__(
        self,
        physical: PhysicalDevice,
        plan: QueuePlan,
        require: Collection[str],
        timelines: Sequence[TimelineSemaphore],
        more: Collection[str] = (),
    ) -> None:
        present = physical.features | dict.fromkeys(quirks_of(physical).broken_features, False)
        features.require(require, present, str(physical))
        self.physical, self.name = physical, physical.name
        self.features = frozenset(require) | {name for name in (*features.WANTED, *more) if present.get(name)}
        self.renew_locks()
        self.loss: DeviceLost | None = None
        self.submit_recorded: Callable[[], None] = lambda: None
        self.on_lost: Callable[[DeviceLost], None] = lambda error: None
        self._timelines = timelines
        self.deletion_queue = DeletionQueue(timelines)
        self.children: dict[int, tuple[weakref.ref[Handle], list[Deletion]]] = {}
        self._deletions: list[Deletion] = []  # of the VkDevice, until it is destroyed
        self.handle: Any = self._open_handle(plan)
        self._opened()
        try:
            self.fn = self._functions()
            self._deletions.append((self.fn.vkDestroyDevice, self.handle, vk.NULL))
            physical.instance.add_user(self._deletions)
        except BaseException:
            self.close()
            raise

    def _open_handle(self, plan: QueuePlan) -> Any:
        physical = self.physical
        chain, required, kept = features.enabling_chain(self.features, physical.api_version, physical.extensions)
        self.extensions = (required | features.WANTED_EXTENSIONS) & physical.extensions
        counts = plan.counts()
        priorities = {family: vk.ffi.new("float[]", [1.0] * count) for family, count in counts.items()}
        queues = [
            vk.struct("VkDeviceQueueCreateInfo", queueFamilyIndex=f, queueCount=n, pQueuePriorities=priorities[f])
            for f, n in counts.items()
        ]
        info = vk.struct(
            "VkDeviceCreateInfo",
            pNext=chain,
            queueCreateInfoCount=len(queues),
            pQueueCreateInfos=queues,
            enabledExtensionCount=len(self.extensions),
            ppEnabledExtensionNames=sorted(self.extensions),
        )
        pointer = vk.ffi.new("VkDevice*")
        vk.check(vk.lib.vkCreateDevice(physical.handle, info, vk.NULL, pointer), "vkCreateDevice", physical)
        del kept
        return pointer[0]

    def _functions(self) -> vk.Functions:
        """Returns the device's own functions, which skip the loader's trampolines."""
        wrappers: list[vk.Wrapper] = [raise_objections] if self.physical.instance.validation == "error" else []
        if self.physical.profile.name:
            wrappers.append(ProfileCheck(self.physical, self.features, self.extensions))
        return vk.Functions(lambda name: vk.lib.vkGetDeviceProcAddr(self.handle, name), wrappers)

    @property
    def pipeline_cache_handle(self) -> Any:
        """The VkPipelineCache, or a null handle."""
        return vk.NULL

    @property
    def max_binding_bytes(self) -> int:
        """The most bytes that a kernel can access through one storage-buffer binding."""
        return int(self.physical.limits["maxStorageBufferRange"])

    @property
    def has_one_subgroup_size(self) -> bool:
        """True if all subgroups of pipelines with subgroup operations have `physical.subgroup_size` invocations."""
        return not self.physical.varies_subgroups or self.asks_for_subgroup_size

    @property
    def asks_for_subgroup_size(self) -> bool:
        """True if pipelines with subgroup operations ask for subgroups of `physical.subgroup_size` invocations."""
        stages = self.physical.properties.get("requiredSubgroupSizeStages", 0)
        return self.physical.varies_subgroups and "subgroupSizeControl" in self.features and bool(stages & _COMPUTE)

    def heap_budget(self, heap: int) -> int | None:
        """Returns the driver's estimate of the bytes that this process may still allocate from a heap, or None."""
        if "VK_EXT_memory_budget" not in self.extensions:
            return None
        budget = vk.struct("VkPhysicalDeviceMemoryBudgetPropertiesEXT")
        properties = vk.struct("VkPhysicalDeviceMemoryProperties2", pNext=budget)
        vk.lib.vkGetPhysicalDeviceMemoryProperties2(self.physical.handle, properties)
        return max(0, int(budget.heapBudget[heap]) - int(budget.heapUsage[heap]))

    def create(self, kind: str, call: str, info: Any, deletions: list[Deletion]) -> Any:
        """Creates a driver object of type `kind` with the function `call`; adds its deletion to `deletions`."""
        pointer = vk.ffi.new(f"{kind}*")
        return self.create_at(pointer, call, (self.handle, info, vk.NULL, pointer), deletions)

    def create_at(self, pointer: Any, call: str, arguments: tuple[Any, ...], deletions: list[Deletion]) -> Any:
        """Creates a driver object where `pointer` points; adds its deletion to `deletions`."""
        destroy = getattr(self.fn, _destroying(call))
        results: list[int] = []
        try:
            call_into(results, getattr(self.fn, call), *arguments)
            created = results[0] == 0
        except BaseException:  # e.g. a validation error: the object may exist all the same
            created = pointer[0] != vk.NULL
            raise
        finally:
            if created:
                deletions += ((destroy, self.handle, pointer[0], vk.NULL),)
        vk.check(results[0], call, self)
        return pointer[0]

    def collect(self, *, wait: bool = False) -> None:
        """Destroys closed objects that are no longer in use. With `wait`, first submits and completes all work."""
        with self.lock:
            if wait:
                self.deletion_queue.collect()  # or later work would postpone the deletions
                self.submit_recorded()
                self.wait_idle()
            self.deletion_queue.collect()

    def retry(self, call: Callable[..., _T], *args: Any) -> _T:
        """Returns `call(*args)`. If memory runs out, waits for all work, destroys closed objects, and retries once."""
        try:
            return call(*args)
        except VulkanError as error:
            if error.result not in OUT_OF_MEMORY:
                raise
        gc.collect()
        with self.lock:
            self.wait_idle()
            self.deletion_queue.collect()
        return call(*args)

    def lose(self, error: DeviceLost) -> None:
        """Marks the device as lost: work that is not known to have completed has failed."""
        self.loss = self.loss or error
        self.on_lost(error)

    def wait_idle(self) -> None:
        """Waits for all submitted work."""
        for timeline in self._timelines:
            timeline.wait(timeline.last_value)

    def renew_locks(self) -> None:
        """Replaces the locks in a forked child, where the threads that held them do not exist."""
        super().renew_locks()
        self.submit_lock = locks.make(locks.Rank.SUBMIT)

    def _close_children(self) -> None:
        """Closes and destroys everything that was created on the idle device, but for its queues."""
        children = list(self.children.values())
        for reference, _ in children:
            if (child := reference()) is not None:
                child.close()
        self.deletion_queue.run_all()
        for _, deletions in children:  # of children that are being finalized at this moment
            run_deletions(deletions)

    def _destroy(self) -> None:
        run_deletions(self._deletions)
        self.physical.instance.destroy_if_unused()

    def __repr__(self) -> str:
        return f"<device {self}>"

    def __str__(self) -> str:
        return self.name


class CompilerDevice(LogicalDevice):
    """A VkDevice for shader modules and pipelines, which also drivers without hardware have.

    It has no memory, runs nothing, and keeps no pipeline cache.
    """

    def __init__(self, physical: PhysicalDevice) -> None:
        super().__init__(physical, QueuePlan.of(physical.queue_families, 1, 0), (), ())

    def _destroy(self) -> None:
        if self._deletions:
            self._close_children()
        super()._destroy()


def _destroying(call: str) -> str:
    """Returns the name of the function that undoes `call`."""
    return call.replace("Create", "Destroy").replace("Allocate", "Free").replace("ComputePipelines", "Pipeline")
