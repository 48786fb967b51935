"""Queues and moments: work is submitted to a Queue, and a Point says when it is finished."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from vkcompute.core import vk
from vkcompute.core.lifetime import Handle, Owned, destroy_all
from vkcompute.errors import DeviceLost, again

if TYPE_CHECKING:
    from vkcompute.core.device import Device

_ALL_STAGES = 0x10000  # VK_PIPELINE_STAGE_ALL_COMMANDS_BIT
_COMMAND_BUFFERS = vk.ffi.typeof("VkCommandBuffer[]")
_WAIT_INFO, _WAIT_INFO_TYPE = vk.ffi.typeof("VkSemaphoreWaitInfo*"), vk.structure_type("VkSemaphoreWaitInfo")
_VALUE = vk.ffi.typeof("uint64_t*")
_LONG_S = 1e-3  # as no wait takes for what has been reached
_WAKING_S = 5e-5  # what it takes to wake a thread
_SLICE_S = 0.1  # a wait goes back to Python this often, so that Ctrl-C is answered
_give_way: Any = getattr(os, "sched_yield", lambda: time.sleep(0))


class Queue(Handle):
    """One queue of a device with a timeline semaphore of its own, whose value counts the submits.

    Several Queue objects may stand for one VkQueue (a device with one queue can so be given several timelines, which
    is how the scheduling over many queues is tested where there is one).

    Attributes:
        last_value: the value that the newest submit will signal.
        completed: a value known to be reached; `poll()` brings it up to date.
        arrival: a value, and the moment (of `time.perf_counter`) when it was reached as a long wait for it showed.
        recording: whether commands are recorded that the next submit will carry.
    """

    _finalized = False  # its device closes it

    def __init__(self, device: Device, handle: Any, family: int, index: int, role: str) -> None:
        self.device, self.handle, self.family, self.index, self.role = device, handle, family, index, role
        self.last_value = self.completed = 0
        self.arrival = 0, 0.0
        self.recording = False
        self._waiters: list[int] = []
        self._n_asleep = 0  # so many waits to come sleep at once
        kind = vk.struct("VkSemaphoreTypeCreateInfo", semaphoreType=vk.constant("VK_SEMAPHORE_TYPE_TIMELINE"))
        info = vk.struct("VkSemaphoreCreateInfo", pNext=kind)
        self._owned: list[Owned] = []
        self.semaphore = device.create("VkSemaphore", "vkCreateSemaphore", info, self._owned)
        self._signal_value = vk.ffi.new("uint64_t*")
        self._signal = vk.ffi.new("VkSemaphore[]", [self.semaphore])
        self._timeline = vk.struct(
            "VkTimelineSemaphoreSubmitInfo", signalSemaphoreValueCount=1, pSignalSemaphoreValues=self._signal_value
        )
        self._submit = vk.struct(
            "VkSubmitInfo", pNext=self._timeline, signalSemaphoreCount=1, pSignalSemaphores=self._signal
        )
        self._opened()

    @property
    def horizon(self) -> int:
        """The value at which all that has been submitted or recorded so far is finished."""
        return self.last_value + self.recording

    def submit(self, command_buffers: Sequence[Any], waits: Iterable[tuple[Queue, int]] = ()) -> int:
        """Submits command buffers, to start when every (queue, value) of `waits` is reached; returns their value.

        Submits are serialized per device: two threads that submit to two queues of one device can corrupt drivers.
        Where this raises, also for Ctrl-C, `last_value` tells whether the work was submitted.
        """
        waits = tuple(waits)
        with self.device.submit_lock:
            value = self.last_value + 1
            self._signal_value[0] = value
            info, timeline = self._submit, self._timeline
            buffers = vk.ffi.new(_COMMAND_BUFFERS, command_buffers)
            info.commandBufferCount, info.pCommandBuffers = len(command_buffers), buffers
            info.waitSemaphoreCount = timeline.waitSemaphoreValueCount = len(waits)
            if waits:
                semaphores = vk.ffi.new("VkSemaphore[]", [queue.semaphore for queue, _ in waits])
                values = vk.ffi.new("uint64_t[]", [value for _, value in waits])
                stages = vk.ffi.new("VkPipelineStageFlags[]", [_ALL_STAGES] * len(waits))
                info.pWaitSemaphores, info.pWaitDstStageMask = semaphores, stages
                timeline.pWaitSemaphoreValues = values
            # The interpreter looks for signals after calls, not between `+=` and the next call: nothing interrupts
            # what notes that the work was submitted.
            call = map(self.device.fn.vkQueueSubmit, (self.handle,), (1,), (info,), (vk.NULL,))
            results: list[int] = []
            try:
                results += call
                if results[0] == 0:
                    self.last_value = value
            except BaseException:  # from a wrapper: the validation layer's objection, say
                if self._arrived(value):
                    self.last_value = value
                raise
            self._check(results[0], "vkQueueSubmit")
        return value

    def _arrived(self, value: int) -> bool:
        """Whether the value is reached once the device has finished all that it was given."""
        fn, device, counter = self.device.fn, self.device.handle, vk.ffi.new(_VALUE)
        fn.vkDeviceWaitIdle(device)
        result = fn.vkGetSemaphoreCounterValue(device, self.semaphore, counter)
        return bool(result == 0 and counter[0] >= value)

    def _check(self, result: int, call: str) -> int:
        try:
            return vk.check(result, call, self)
        except DeviceLost as error:
            self.device.lose(error)
            raise

    def poll(self) -> int:
        """Asks the driver how far the queue has come; returns `completed`."""
        if self.completed < self.last_value:
            try:  # with the append inside, and first: no interruption comes between it and the pop
                self._waiters.append(0)
                self._require_alive()
                call, counter = self.device.fn.vkGetSemaphoreCounterValue, vk.ffi.new(_VALUE)
                self._check(call(self.device.handle, self.semaphore, counter), "vkGetSemaphoreCounterValue")
                # Not by a counter that threads share: what another's call has found counts once that has returned.
                self.completed = max(self.completed, counter[0])
            finally:
                self._waiters.pop()
        return self.completed

    def wait(self, value: int, timeout_s: float | None = None) -> bool:
        """Waits until `value` is reached; False if `timeout_s` seconds pass first. Other Python threads run meanwhile.

        Raises:
            DeviceLost: the device stopped working.
        """
        if value <= self.completed:
            return True
        try:
            self._waiters.append(value)  # the semaphore is not destroyed under a thread that waits
            return self._wait(value, timeout_s)
        finally:
            self._waiters.pop()

    def _wait(self, value: int, timeout_s: float | None) -> bool:
        started = time.perf_counter()
        end = None if timeout_s is None else started + timeout_s
        if self._reached_soon(value, started + (_WAKING_S if timeout_s is None else min(_WAKING_S, timeout_s))):
            return True
        values = vk.ffi.new(_VALUE, value)
        info = vk.ffi.new(_WAIT_INFO)  # not by vk.struct: this is on the path of every wait
        info.sType, info.semaphoreCount, info.pSemaphores, info.pValues = _WAIT_INFO_TYPE, 1, self._signal, values
        while True:
            self._require_alive()
            left = _SLICE_S if end is None else min(_SLICE_S, max(0.0, end - time.perf_counter()))
            call = self.device.fn.vkWaitSemaphores
            result = self._check(call(self.device.handle, info, int(left * 1e9)), "vkWaitSemaphores")
            if result == 0:
                self.completed = max(self.completed, value)
                if (now := time.perf_counter()) - started > _LONG_S:
                    self.arrival = value, now
                return True
            if end is not None and time.perf_counter() >= end:
                return False

    def _reached_soon(self, value: int, end: float) -> bool:
        """Whether `value` is reached by `end`, asked again and again: a thread that sleeps has to be woken.

        Where others need the processor, who sleeps gets it back before who gives way: the next waits sleep at once.
        """
        if self._n_asleep > 0:  # two threads at once may count past it
            self._n_asleep -= 1
            return False
        while not (reached := self.poll() >= value) and time.perf_counter() < end:
            _give_way()
        if time.perf_counter() > end + _LONG_S:
            self._n_asleep = 1000
        return reached

    def _require_alive(self) -> None:
        self.require_open()
        if self.device.loss is not None:
            raise again(self.device.loss)

    def _destroy(self) -> None:
        while self._waiters:  # on their way back: the device is idle
            time.sleep(0.001)
        destroy_all(self._owned)

    def __str__(self) -> str:
        return f"{self.role} queue {self.index} (family {self.family}) of {self.device}"


class Point:
    """A moment: the queue's timeline has reached `value`. The only thing that anyone waits for."""

    __slots__ = ("queue", "value")

    def __init__(self, queue: Queue, value: int) -> None:
        self.queue, self.value = queue, value

    def done(self) -> bool:
        """Whether the moment has passed."""
        return self.value <= self.queue.completed or self.value <= self.queue.poll()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the moment; False if `timeout_s` seconds pass first."""
        return self.queue.wait(self.value, timeout_s)

    def __repr__(self) -> str:
        return f"Point({self.queue.role} {self.queue.index}, {self.value})"
