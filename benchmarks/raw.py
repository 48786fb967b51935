"""Lower bounds by raw Vulkan calls: submit a recorded command buffer and wait; record a launch."""

from __future__ import annotations

import struct
from typing import Any

from peers.work import LOCAL_SIZE, Blocking, Floats, pair

import vkcompute as vc
from vkcompute.core import vk
from vkcompute.core.command import BEGIN_REUSABLE, CommandPool, Recorder
from vkcompute.core.descriptors import DescriptorSets, PipelineLayout
from vkcompute.core.pipeline import ComputePipeline, ShaderModule
from vkcompute.runtime.scheduling.scheduler import BATCH_TASKS

_WAIT_NS = 10_000_000_000
_COMPUTE_STAGE, _SHADER_READ_WRITE = 0x800, 0x60


class Raw(Blocking):
    """The commands of a graph with one launch, recorded by core objects only.

    A timeline semaphore counts the submits.
    """

    def __init__(self, runtime: vc.Runtime, spirv: bytes, scale: float, n: int) -> None:
        self._runtime, self._device, self._queue = runtime, runtime.device, runtime.device.queues[0]
        self._arrays = [runtime.array(array) for array in pair(n)] + [runtime.zeros(n)]
        ranges = [(array.buffer, 0, array.nbytes) for array in self._arrays]
        slots = [(0, binding, "storage_buffer", "") for binding in range(3)]
        self._layout = PipelineLayout(self._device, slots, 4)
        with ShaderModule(self._device, spirv) as shader:
            self._pipeline = ComputePipeline(shader, self._layout)
        self._sets = DescriptorSets(self._layout, ranges)
        self._pool = CommandPool(self._queue)
        self._commands = self._pool.acquire()
        self._record(struct.pack("<f", scale), -(-n // LOCAL_SIZE))
        self._prepare_calls()
        runtime.wait()  # the raw calls have no dependencies

    def _record(self, push: bytes, n_groups: int) -> None:
        recorder = Recorder(self._queue, self._commands, BEGIN_REUSABLE)
        recorder.barrier()
        layout, pipeline = self._layout, self._pipeline.handle
        recorder.dispatch(pipeline, layout.handle, 1, self._sets.handles, push, len(push), (n_groups, 1, 1))
        recorder.barrier()
        recorder.end()

    def _prepare_calls(self) -> None:
        kind = vk.struct("VkSemaphoreTypeCreateInfo", semaphoreType=vk.constant("VK_SEMAPHORE_TYPE_TIMELINE"))
        info = vk.struct("VkSemaphoreCreateInfo", pNext=kind)
        self._semaphore = self._device.create("VkSemaphore", "vkCreateSemaphore", info, [])  # __del__ destroys it
        self._value = vk.ffi.new("uint64_t*")
        signals = [self._semaphore]
        timeline = vk.struct(
            "VkTimelineSemaphoreSubmitInfo", signalSemaphoreValueCount=1, pSignalSemaphoreValues=self._value
        )
        self._submit = vk.struct(
            "VkSubmitInfo",
            pNext=timeline,
            commandBufferCount=1,
            pCommandBuffers=[self._commands],
            signalSemaphoreCount=1,
            pSignalSemaphores=signals,
        )
        self._wait = vk.struct("VkSemaphoreWaitInfo", semaphoreCount=1, pSemaphores=signals, pValues=self._value)
        fn = self._device.fn
        self._calls: tuple[Any, ...] = (fn.vkQueueSubmit, self._queue.handle, fn.vkWaitSemaphores, self._device.handle)

    def enqueue(self) -> None:
        """Submits and waits."""
        submit, queue, wait, device = self._calls
        self._value[0] += 1
        submit(queue, 1, self._submit, vk.NULL)
        if wait(device, self._wait, _WAIT_NS):
            raise TimeoutError("the submit did not complete")

    def result(self) -> Floats:
        """Returns a copy of the output."""
        computed: Floats = self._arrays[2].numpy()
        return computed

    def __del__(self) -> None:
        if hasattr(self, "_semaphore") and not self._device.closed:
            self._device.fn.vkDestroySemaphore(self._device.handle, self._semaphore, vk.NULL)


class RawLaunches(Raw):
    """Raw calls that record each launch, submitted in batches as large as the runtime's."""

    def _record(self, push: bytes, n_groups: int) -> None:
        fn, access = self._device.fn, _SHADER_READ_WRITE
        barrier = vk.struct("VkMemoryBarrier", srcAccessMask=access, dstAccessMask=access)
        self._launch_calls = fn.vkCmdPushConstants, fn.vkCmdDispatch, fn.vkCmdPipelineBarrier
        self._launch_data = self._commands, self._layout.handle, push, len(push), n_groups, barrier
        self._begin()

    def _begin(self) -> None:
        fn, commands, layout = self._device.fn, self._commands, self._layout.handle
        self._recorder, self._n_recorded = Recorder(self._queue, commands), 0
        fn.vkCmdBindPipeline(commands, 1, self._pipeline.handle)
        fn.vkCmdBindDescriptorSets(commands, 1, layout, 0, 1, self._sets.handles, 0, vk.NULL)

    def enqueue(self) -> None:
        """Records a launch, and submits a full batch."""
        set_push, dispatch, wait_for = self._launch_calls
        commands, layout, push, n_bytes, n_groups, barrier = self._launch_data
        wait_for(commands, _COMPUTE_STAGE, _COMPUTE_STAGE, 0, 1, barrier, 0, vk.NULL, 0, vk.NULL)
        set_push(commands, layout, 0x20, 0, n_bytes, push)
        dispatch(commands, n_groups, 1, 1)
        self._n_recorded += 1
        if self._n_recorded == BATCH_TASKS:
            self.wait()

    def wait(self) -> None:
        """Submits the batch and waits."""
        self._recorder.end()
        super().enqueue()
        self._begin()

    def clear(self) -> None:
        """Fills the output with zeros."""
        self._arrays[2].fill(0)
        self._runtime.wait()  # the raw calls have no dependencies
