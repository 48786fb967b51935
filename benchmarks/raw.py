"""The floor under a replay: the two raw calls that submit a recorded command buffer and wait for it, and no more."""

from __future__ import annotations

import struct
from typing import Any

from peers.work import LOCAL_SIZE, Blocking, Floats, pair

import vkcompute as vc
from vkcompute.core import vk
from vkcompute.core.command import CommandPool, Recorder
from vkcompute.core.descriptors import DescriptorSets, PipelineLayout
from vkcompute.core.pipeline import ComputePipeline
from vkcompute.core.shader import ShaderModule

_WAIT_NS = 10_000_000_000


class Raw(Blocking):
    """The same kernel on the same device in the same commands as a graph of one launch, by core objects alone.

    A timeline semaphore of its own counts the submits.
    """

    def __init__(self, runtime: vc.Runtime, spirv: bytes, scale: float, n: int) -> None:
        self._device, self._queue = runtime.device, runtime.device.queues[0]
        self._tensors = [runtime.tensor(array) for array in pair(n)] + [runtime.zeros(n)]
        ranges = [(t.buffer.block, t.buffer.offset, t.nbytes) for t in self._tensors]
        slots = [(0, binding, "storage_buffer", "") for binding in range(3)]
        self._layout = PipelineLayout(self._device, slots, 4)
        with ShaderModule(self._device, spirv) as shader:
            self._pipeline = ComputePipeline(shader, self._layout)
        self._sets = DescriptorSets(self._layout, ranges)
        self._pool = CommandPool(self._queue)
        self._commands = self._pool.take()
        self._record(struct.pack("<f", scale), -(-n // LOCAL_SIZE))
        self._prepare_calls()
        runtime.wait()  # the raw calls come after nothing by themselves

    def _record(self, push: bytes, n_groups: int) -> None:
        recorder = Recorder(self._queue, self._commands, reusable=True)
        recorder.barrier()
        layout, pipeline = self._layout, self._pipeline.handle
        recorder.dispatch(pipeline, layout.handle, 1, self._sets.handles, push, len(push), (n_groups, 1, 1))
        recorder.barrier()
        recorder.end()

    def _prepare_calls(self) -> None:
        kind = vk.struct("VkSemaphoreTypeCreateInfo", semaphoreType=vk.constant("VK_SEMAPHORE_TYPE_TIMELINE"))
        info = vk.struct("VkSemaphoreCreateInfo", pNext=kind)
        self._semaphore = self._device.create("VkSemaphore", "vkCreateSemaphore", info)
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
            raise TimeoutError("the device does not finish")

    def result(self) -> Floats:
        """A copy of the output."""
        found: Floats = self._tensors[2].numpy()
        return found

    def __del__(self) -> None:
        if hasattr(self, "_semaphore") and not self._device.closed:
            self._device.destroy("vkDestroySemaphore", self._semaphore)
