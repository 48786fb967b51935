"""The logical device: features switched on by name, its queues, its functions, and the pools that serve it."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from vkcompute.core import clock, emulation, features, vk
from vkcompute.core.buffer import Buffer
from vkcompute.core.lifetime import Handle, Owned, destroy_all
from vkcompute.core.memory import MIB, MemoryPool
from vkcompute.core.physical import PhysicalDevice, QueueFamily
from vkcompute.core.pipeline import PipelineCache
from vkcompute.core.queue import Queue
from vkcompute.core.retirement import Retirement
from vkcompute.core.validation import raising
from vkcompute.errors import OUT_OF_MEMORY, DeviceLost, VulkanError

_PORTABILITY_SUBSET = "VK_KHR_portability_subset"
_WANTED_EXTENSIONS = ("VK_EXT_memory_budget", *clock.EXTENSIONS)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """Which queues to make: (family, index in the family, role), the role "compute" or "transfer"."""

    queues: tuple[tuple[int, int, str], ...]

    @classmethod
    def of(cls, families: Sequence[QueueFamily], compute: int | None = None, transfer: int | None = None) -> QueuePlan:
        """At most this many queues of each role: first one of the most capable family, then of the dedicated ones.

        A transfer queue is of a family that can do nothing but copy, since such a family has copy engines of its own.
        None stands for 4 compute and 2 transfer queues; only where a number is given, families that can copy and do
        something else (draw, decode video) come after those.
        """
        able = sorted((f for f in families if f.compute), key=lambda f: (not f.graphics, f.index))
        dedicated = [f for f in able if not f.graphics] + [f for f in able if f.graphics]
        chosen = [(able[0].index, 0, "compute")]
        spare = [(f.index, i, "compute") for f in dedicated for i in range(f.count) if (f.index, i) != chosen[0][:2]]
        chosen += spare[: (4 if compute is None else compute) - 1]
        copiers = sorted((f for f in families if f.transfer and not f.compute), key=lambda f: f.graphics or f.others)
        if transfer is None:
            copiers = [f for f in copiers if not f.graphics and not f.others]
        copies = [(f.index, i, "transfer") for f in copiers for i in range(f.count)]
        return cls((*chosen, *copies[: 2 if transfer is None else transfer]))

    @classmethod
    def usual(cls, physical: PhysicalDevice, timelines: tuple[int, int] = (1, 0)) -> QueuePlan:
        """What to make without a wish, but at least so many (compute, transfer) queues where the device has them.

        Where the device's memory is the host's, no transfer queues: copies are as fast on its other queues.
        """
        compute, transfer = timelines
        unified = physical.kind in ("integrated", "cpu")
        return cls.of(physical.queue_families, max(4, compute), transfer if unified or transfer > 2 else None)


def _undoing(call: str) -> str:
    return call.replace("Create", "Destroy").replace("Allocate", "Free").replace("ComputePipelines", "Pipeline")


def _nothing() -> None:
    """Nothing is recorded."""


def _accept(error: Exception) -> None:
    """Nobody records, who would have to be told."""


class Device(Handle):
    """An opened device.

    Args:
        physical: what to open.
        require: features that must be there; the device's other useful ones are switched on anyway.
        plan: the queues to make; None makes the usual ones.
        memory_limit_bytes: the most device memory to hold; None leaves it to the heap.

    Raises:
        MissingFeature: one of `require` is not there.
    """

    def __init__(
        self,
        physical: PhysicalDevice,
        *,
        require: Collection[str] = (),
        plan: QueuePlan | None = None,
        memory_limit_bytes: int | None = None,
    ) -> None:
        features.require(require, physical.features, str(physical))
        self.physical = physical
        self.name = physical.name
        self.features = frozenset(require) | {name for name in features.WANTED if physical.features.get(name)}
        self._owned: list[Owned] = []  # the device, until it is destroyed
        self.lock = threading.RLock()
        self.submit_recorded: Callable[[], None] = _nothing  # whoever records commands puts its own here, and here
        self.refuse: Callable[[Exception], None] = _accept
        self.loss: DeviceLost | None = None
        self.submit_lock = threading.Lock()
        self.caches: list[Callable[[], None]] = []  # each closes buffers that are kept for later use only
        self.queues: list[Queue] = []
        self._lent: list[weakref.finalize[Any, Any]] = []
        self.children: dict[int, tuple[weakref.ref[Handle], list[Owned]]] = {}
        emulated = emulation.current.get()
        plan = plan or QueuePlan.usual(physical, emulated.timelines)
        self.handle: Any = self._open_handle(plan)
        self._opened()
        with ExitStack() as undo:
            undo.callback(self.close)
            self.fn = self._functions()
            self._owned.append((self.fn.vkDestroyDevice, self.handle, vk.NULL))
            physical.instance.users.append(self._owned)
            self._make_queues(plan, emulated.timelines)
            self.retirement = Retirement(self.queues)
            self.memory = MemoryPool(self, memory_limit_bytes, 64 * MIB, emulated.staging)
            self.pipeline_cache = PipelineCache(self)
            undo.pop_all()

    def _open_handle(self, plan: QueuePlan) -> Any:
        physical = self.physical
        chain, needed, kept = features.enabling(self.features, physical.api_version, physical.extensions)
        wanted = {*needed, *_WANTED_EXTENSIONS, _PORTABILITY_SUBSET} & physical.extensions
        self.extensions = frozenset(wanted)
        families = sorted({family for family, _, _ in plan.queues})
        counts = {f: len({i for family, i, _ in plan.queues if family == f}) for f in families}
        priorities = {f: vk.ffi.new("float[]", [1.0] * counts[f]) for f in families}
        queues = [
            vk.struct(
                "VkDeviceQueueCreateInfo", queueFamilyIndex=f, queueCount=counts[f], pQueuePriorities=priorities[f]
            )
            for f in families
        ]
        info = vk.struct(
            "VkDeviceCreateInfo",
            pNext=chain,
            queueCreateInfoCount=len(queues),
            pQueueCreateInfos=queues,
            enabledExtensionCount=len(wanted),
            ppEnabledExtensionNames=sorted(wanted),
        )
        pointer = vk.ffi.new("VkDevice*")
        vk.check(vk.lib.vkCreateDevice(physical.handle, info, vk.NULL, pointer), "vkCreateDevice", physical)
        del kept
        return pointer[0]

    def _functions(self) -> vk.Functions:
        """Those of the device itself, so that no loader's trampoline lies between."""
        wrappers = [raising] if self.physical.instance.validation == "error" else []
        return vk.Functions(lambda name: vk.lib.vkGetDeviceProcAddr(self.handle, name), wrappers)

    def _make_queues(self, plan: QueuePlan, timelines: tuple[int, int]) -> None:
        made = list(plan.queues)
        compute = [queue for queue in made if queue[2] == "compute"]
        for role, wanted in zip(("compute", "transfer"), timelines, strict=True):
            present = sum(queue[2] == role for queue in made)
            made += [(*compute[i % len(compute)][:2], role) for i in range(present, wanted)]
        for index, (family, place, role) in enumerate(made):
            pointer = vk.ffi.new("VkQueue*")
            self.fn.vkGetDeviceQueue(self.handle, family, place, pointer)
            self.queues.append(Queue(self, pointer[0], family, index, role))

    @property
    def max_binding_bytes(self) -> int:
        """The most bytes of a buffer that a kernel sees through one storage-buffer binding."""
        return int(self.physical.limits["maxStorageBufferRange"])

    def heap_budget(self, heap: int) -> int | None:
        """What the driver says that this process may still take of a heap, in bytes; None if it does not say."""
        if "VK_EXT_memory_budget" not in self.extensions:
            return None
        budget = vk.struct("VkPhysicalDeviceMemoryBudgetPropertiesEXT")
        properties = vk.struct("VkPhysicalDeviceMemoryProperties2", pNext=budget)
        vk.lib.vkGetPhysicalDeviceMemoryProperties2(self.physical.handle, properties)
        return max(0, int(budget.heapBudget[heap]) - int(budget.heapUsage[heap]))

    def buffer(self, nbytes: int, use: str = "device") -> Buffer:
        """A new buffer of at least `nbytes`; `use` is "device", "upload" or "download" (the last two: host-visible).

        Raises:
            OutOfDeviceMemory: it does not fit.
        """
        return Buffer(self, nbytes, use)

    def create(self, kind: str, call: str, info: Any, owned: list[Owned] | None = None) -> Any:
        """A new driver object of type `kind` by the function `call`; noted in `owned`, to be destroyed."""
        pointer = vk.ffi.new(f"{kind}*")
        return self.make(call, (self.handle, info, vk.NULL, pointer), pointer, owned)

    def make(self, call: str, arguments: tuple[Any, ...], pointer: Any, owned: list[Owned] | None) -> Any:
        """What the function `call` puts where `pointer` points; noted in `owned`, to be destroyed."""
        destroy = getattr(self.fn, _undoing(call))
        step = map(getattr(self.fn, call), *zip(arguments))
        results: list[int] = []
        try:
            results += step  # in one step with the next, as in Queue.submit
            made = results[0] == 0
        except BaseException:  # the validation layer's objection: it may have been made all the same
            made = pointer[0] != vk.NULL
            raise
        finally:
            if owned is not None and made:
                owned += ((destroy, self.handle, pointer[0], vk.NULL),)
        vk.check(results[0], call, self)
        return pointer[0]

    def collect(self, *, wait: bool = False) -> None:
        """Frees what is dead and no longer in use; with `wait`, first submits all that is recorded and waits for it."""
        with self.lock:
            if wait:
                self.retirement.collect()  # what is dead is in use until now, not until some later moment
                self.submit_recorded()
                self.wait_idle()
            self.retirement.collect()

    def retry(self, call: Callable[..., _T], *args: Any) -> _T:
        """What `call(*args)` gives; where memory is short, all work is awaited, what is dead freed, and it is called
        once more.
        """
        try:
            return call(*args)
        except VulkanError as error:
            if error.result not in OUT_OF_MEMORY:
                raise
        gc.collect()
        with self.lock:
            self.wait_idle()
            self.retirement.collect()
        return call(*args)

    def lose(self, error: DeviceLost) -> None:
        """Notes that the device stopped working: from now on all that was not seen to be finished has failed."""
        self.loss = self.loss or error
        self.refuse(error)

    def wait_idle(self) -> None:
        """Waits for everything that has been submitted."""
        for queue in self.queues:
            queue.wait(queue.last_value)

    def renew_locks(self) -> None:
        """In a forked child: whoever held a lock is a thread that does not exist here."""
        self.lock = threading.RLock()
        self.submit_lock = threading.Lock()

    def lend(self, holder: object) -> None:
        """Keeps memory that `holder` sees as it is until that is gone: a device closed before then ends with it."""
        self._lent.append(weakref.finalize(holder, self._returned))

    def _returned(self) -> None:
        self._lent.pop()
        if self.closed and not self.inherited:
            with self.lock:
                if not self._lent:
                    self._end()

    def _destroy(self) -> None:
        with self.lock:
            if self._owned:
                with contextlib.suppress(DeviceLost):  # nothing runs on a lost device, and its objects may be destroyed
                    self.wait_idle()
            if not self._lent:
                self._end()

    def _end(self) -> None:
        if self._owned:  # a lent memory's last holder may go while the device is being closed
            self._end_children()
            destroy_all(self._owned)
        self.physical.instance.settle()

    def _end_children(self) -> None:
        self.fn.vkDeviceWaitIdle(self.handle)  # for a submit whose value is not known: the call was objected to
        children = list(self.children.values())
        for child, _ in children:
            if (found := child()) is not None:
                found.close()
        if hasattr(self, "retirement"):
            self.retirement.empty()
        for _, owned in children:  # of those that are being finalized at this moment
            destroy_all(owned)
        if hasattr(self, "pipeline_cache"):
            self.pipeline_cache.close()
        if hasattr(self, "memory"):
            self.memory.close()
        for queue in self.queues:
            queue.close()

    def __str__(self) -> str:
        return self.name
