"""Command pools, and recording dispatches, copies, fills and barriers into their command buffers."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from vkcompute.core import vk
from vkcompute.core.device_child import DeviceChild
from vkcompute.core.interrupts import call_into
from vkcompute.core.queue import Queue

_RESETTABLE = 0x2  # VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT
_ONE_TIME, _SIMULTANEOUS = 0x1, 0x4
_COMPUTE_BIND_POINT = 1
_COMPUTE_STAGE = 0x20
_GROWTH = 8
_MAX_UPDATE_BYTES = 65_536  # VUID-vkCmdUpdateBuffer-dataSize-00037

# Pipeline stages and accesses of kernels, copies and the host.
_STAGE_COMPUTE, _STAGE_TRANSFER, _STAGE_HOST = 0x800, 0x1000, 0x4000
_SHADER_READ, _SHADER_WRITE, _UNIFORM_READ = 0x20, 0x40, 0x8
_TRANSFER_READ, _TRANSFER_WRITE, _HOST_READ = 0x800, 0x1000, 0x2000
_ALL_COMMANDS = 0x10000


class CommandPool(DeviceChild):
    """The command buffers of one queue, reused once the device has finished with them.

    Args:
        secondary: True for those that other command buffers execute.

    Attributes:
        pending: (value, command buffer in use until the queue reaches it); values never decrease.
    """

    def __init__(self, queue: Queue, *, secondary: bool = False) -> None:
        super().__init__(queue.device)
        self.queue, self.secondary = queue, secondary
        info = vk.struct("VkCommandPoolCreateInfo", flags=_RESETTABLE, queueFamilyIndex=queue.family)
        self.handle = self.create("CommandPool", info)
        self._free: list[Any] = []
        self.pending: deque[tuple[int, Any]] = deque()

    def acquire(self) -> Any:
        """Returns an unused VkCommandBuffer."""
        pending = self.pending
        if not self._free and pending and pending[0][0] <= self.queue.poll():
            while pending and pending[0][0] <= self.queue.completed:
                self._free.append(pending.popleft()[1])
        if not self._free:
            self._grow()
        return self._free.pop()

    def discard(self, command_buffer: Any) -> None:
        """Takes back a command buffer in any state that was not submitted."""
        if self.device.fn.vkResetCommandBuffer(command_buffer, 0) == 0:
            self._free.append(command_buffer)

    def release(self, value: int, command_buffer: Any) -> None:
        """Takes back a command buffer that is in use until the queue reaches `value`; values never decrease."""
        self.pending += ((value, command_buffer),)

    def release_with(self, owner: object, command_buffer: Any) -> None:
        """Takes back a command buffer after its last use, once nobody has its owner any more."""
        end = weakref.finalize(owner, _release, weakref.ref(self), command_buffer)
        end.atexit = False

    def _grow(self) -> None:
        level, kind = int(self.secondary), "VkCommandBufferAllocateInfo"
        info = vk.struct(kind, commandPool=self.handle, level=level, commandBufferCount=_GROWTH)
        buffers = vk.ffi.new("VkCommandBuffer[]", _GROWTH)
        self.device.retry(self._allocate, info, buffers)
        self._free.extend(buffers)

    def _allocate(self, info: Any, buffers: Any) -> None:
        call = self.device.fn.vkAllocateCommandBuffers
        vk.check(call(self.device.handle, info, buffers), "vkAllocateCommandBuffers", self.device)


def _release(pool: weakref.ref[CommandPool], command_buffer: Any) -> None:
    """Returns a command buffer to its pool, unless the pool is gone.

    The pool must not be kept: its device has the error by which it was lost, whose frames may have the owner.
    """
    if (owner := pool()) is not None:
        owner.device.deletion_queue.append((owner.release, 0, command_buffer))


class Recorder:
    """Records into one command buffer, with raw calls only: most of a launch's time is spent here.

    Not thread-safe: the owner's lock guards it.

    Attributes:
        barrier: orders all earlier kernels and copies of the queue before all later ones.
    """

    __slots__ = (
        "_bind_pipeline", "_bind_sets", "_bound", "_copy", "_dispatch", "_dispatch_base", "_execute",
        "_fill", "_fn", "_push", "_pushed", "_sets", "barrier", "ended", "handle", "transfer_only",
    )  # fmt: skip
    barrier: Callable[[], None]

    def __init__(self, queue: Queue, handle: Any, begin: Any = None) -> None:
        fn = self._fn = queue.device.fn
        self.handle, self.ended = handle, False
        self.transfer_only = queue.role == "transfer"
        self._bound: Any = None
        self._sets: Any = None
        self._pushed: Any = None
        self._bind_pipeline, self._bind_sets = fn.vkCmdBindPipeline, fn.vkCmdBindDescriptorSets
        self._push, self._dispatch, self._dispatch_base = fn.vkCmdPushConstants, fn.vkCmdDispatch, fn.vkCmdDispatchBase
        self._copy, self._fill, self._execute = fn.vkCmdCopyBuffer, fn.vkCmdFillBuffer, fn.vkCmdExecuteCommands
        stages, barrier, dependency = _TRANSFER_ORDER if self.transfer_only else _WORK_ORDER
        if "synchronization2" in queue.device.features:  # fewer arguments take half the time
            self.barrier = partial(fn.vkCmdPipelineBarrier2, handle, dependency)
        else:
            self.barrier = partial(fn.vkCmdPipelineBarrier, handle, stages, stages, 0, 1, barrier, 0, _NULL, 0, _NULL)
        if (result := fn.vkBeginCommandBuffer(handle, begin or _BEGIN_ONCE)) < 0:
            vk.check(result, "vkBeginCommandBuffer", queue)

    def dispatch(
        self,
        pipeline: Any,
        layout: Any,
        n_sets: int,
        sets: Any,
        push: Any,
        push_bytes: int,
        grid: tuple[int, int, int],
        base: tuple[int, int, int] | None = None,
    ) -> None:
        """Dispatches `grid` workgroups; binds and pushes what is not bound and pushed already.

        Args:
            push: the push constants, read before the call returns.
            base: the first workgroup, if these are a part of a larger grid. Requires a divisible pipeline.
        """
        x, y, z = grid
        if not (x and y and z):
            return  # the validation layer takes it for accesses to all that is bound
        handle = self.handle
        if pipeline is not self._bound:
            self._bound = None  # Ctrl-C may strike before the pipeline is bound
            self._bind_pipeline(handle, _COMPUTE_BIND_POINT, pipeline)
            self._bound, self._sets, self._pushed = pipeline, None, None
        if sets is not self._sets:
            self._sets = None
            if n_sets:
                self._bind_sets(handle, _COMPUTE_BIND_POINT, layout, 0, n_sets, sets, 0, _NULL)
            self._sets = sets
        if push_bytes and push != self._pushed:
            self._pushed = None
            self._push(handle, layout, _COMPUTE_STAGE, 0, push_bytes, push)
            self._pushed = push
        if base is None:
            self._dispatch(handle, x, y, z)
        else:
            self._dispatch_base(handle, *base, *grid)

    def copy(self, source: Any, target: Any, regions: Any, n_regions: int) -> None:
        """Copies regions (a VkBufferCopy array) between VkBuffers, or within one if they do not overlap."""
        self._copy(self.handle, source, target, n_regions, regions)

    def update(self, target: Any, offset: int, data: bytes) -> None:
        """Writes bytes, whose number is a multiple of 4; they are read before the call returns."""
        for start in range(0, len(data), _MAX_UPDATE_BYTES):
            part = data[start : start + _MAX_UPDATE_BYTES]
            self._fn.vkCmdUpdateBuffer(self.handle, target, offset + start, len(part), part)

    def fill(self, target: Any, offset: int, nbytes: int, word: int) -> None:
        """Fills with a 32-bit word; offset and nbytes in bytes, multiples of 4."""
        # VUID-vkCmdFillBuffer-dstOffset-00025, -size-00028
        self._fill(self.handle, target, offset, nbytes, word)

    def execute(self, commands: Any) -> None:
        """Executes a secondary command buffer; `commands` is an array of one."""
        self._bound = self._sets = self._pushed = None  # afterwards, nothing is bound
        self._execute(self.handle, 1, commands)

    def end(self) -> None:
        """Makes writes visible to the host and ends the recording; a second call does nothing."""
        if self.ended:
            return
        stages, barrier = (_STAGE_TRANSFER, _TRANSFER_TO_HOST) if self.transfer_only else (_WORK_STAGES, _WORK_TO_HOST)
        self._fn.vkCmdPipelineBarrier(self.handle, stages, _STAGE_HOST, 0, 1, barrier, 0, _NULL, 0, _NULL)
        self.end_commands()

    def end_commands(self) -> None:
        """Ends the recording alone."""
        results: list[int] = []
        try:
            call_into(results, self._fn.vkEndCommandBuffer, self.handle)
        finally:
            if results:
                self.ended = True
        if results[0] < 0:
            vk.check(results[0], "vkEndCommandBuffer")

    def timestamp(self, pool: Any, index: int) -> None:
        """Writes the time at which all earlier commands have completed."""
        self._fn.vkCmdWriteTimestamp(self.handle, _ALL_COMMANDS, pool, index)


class RepeatedCommands:
    """Commands that are recorded once and executed by one call of the driver, in any command buffers of a family.

    Its command buffer returns to the pool after its last use, once nobody has this object any more.

    Args:
        pool: of secondary command buffers.
        commands: methods of `Recorder`, with their arguments; what they refer to lives longer than this.

    Attributes:
        family: of the queues.
        handle: an array of one VkCommandBuffer, for `Recorder.execute`.
    """

    __slots__ = ("__weakref__", "_pool", "family", "handle")

    def __init__(self, pool: CommandPool, commands: Sequence[tuple[Callable[..., None], tuple[Any, ...]]]) -> None:
        command_buffer, self.family, self._pool = pool.acquire(), pool.queue.family, pool
        try:
            recorder = pool.device.retry(Recorder, pool.queue, command_buffer, BEGIN_SECONDARY)
            for method, arguments in commands:
                method(recorder, *arguments)
            recorder.end_commands()
            self.handle = array_of(command_buffer)
        except BaseException:
            pool.discard(command_buffer)
            raise
        pool.release_with(self, command_buffer)


def array_of(command_buffer: Any) -> Any:
    """Returns an array of one command buffer, for `Recorder.execute`."""
    return vk.ffi.new("VkCommandBuffer[]", [command_buffer])


def _order(stages: int, before: int, after: int) -> tuple[int, Any, Any]:
    """Returns stages, and the barrier of their accesses: for `vkCmdPipelineBarrier`, and `vkCmdPipelineBarrier2`."""
    barrier = vk.struct("VkMemoryBarrier", srcAccessMask=before, dstAccessMask=after)
    barrier2 = vk.struct(  # stages and accesses have the same bits
        "VkMemoryBarrier2", srcStageMask=stages, srcAccessMask=before, dstStageMask=stages, dstAccessMask=after
    )
    return stages, barrier, vk.struct("VkDependencyInfo", memoryBarrierCount=1, pMemoryBarriers=barrier2)


_NULL = vk.NULL
_WORK_STAGES = _STAGE_COMPUTE | _STAGE_TRANSFER
_BEGIN_ONCE = vk.struct("VkCommandBufferBeginInfo", flags=_ONE_TIME)
BEGIN_REUSABLE = vk.struct("VkCommandBufferBeginInfo", flags=_SIMULTANEOUS)
_INHERITANCE = vk.struct("VkCommandBufferInheritanceInfo")
BEGIN_SECONDARY = vk.struct("VkCommandBufferBeginInfo", flags=_SIMULTANEOUS, pInheritanceInfo=_INHERITANCE)
_WORK_ORDER = _order(
    _WORK_STAGES,
    _SHADER_WRITE | _TRANSFER_WRITE,
    _SHADER_READ | _SHADER_WRITE | _UNIFORM_READ | _TRANSFER_READ | _TRANSFER_WRITE,
)
_WORK_TO_HOST = vk.struct("VkMemoryBarrier", srcAccessMask=_SHADER_WRITE | _TRANSFER_WRITE, dstAccessMask=_HOST_READ)
_TRANSFER_ORDER = _order(_STAGE_TRANSFER, _TRANSFER_WRITE, _TRANSFER_READ | _TRANSFER_WRITE)
_TRANSFER_TO_HOST = vk.struct("VkMemoryBarrier", srcAccessMask=_TRANSFER_WRITE, dstAccessMask=_HOST_READ)
