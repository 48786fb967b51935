"""Queues, each with a timeline semaphore, and points on their timelines."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

from vkcompute.core import vk
from vkcompute.core.interrupts import call_into
from vkcompute.core.lifetime import Deletion, Handle, process_id, run_deletions
from vkcompute.core.logical_device import LogicalDevice
from vkcompute.errors import DeviceLost, again

_ALL_STAGES = 0x10000  # VK_PIPELINE_STAGE_ALL_COMMANDS_BIT
_COMMAND_BUFFERS = vk.ffi.typeof("VkCommandBuffer[]")
_WAIT_INFO, _WAIT_INFO_TYPE = vk.ffi.typeof("VkSemaphoreWaitInfo*"), vk.structure_type("VkSemaphoreWaitInfo")
_VALUE = vk.ffi.typeof("uint64_t*")
_LONG_S = 1e-3  # longer than any wait for a value that has been reached
_WAKE_S = 5e-5  # to wake a sleeping thread
_SLICE_S = 0.1  # a wait returns to Python this often, to handle Ctrl-C
_yield_thread: Any = getattr(os, "sched_yield", lambda: time.sleep(0))


class Queue(Handle):
    """One queue of a device. The value of its timeline semaphore counts its submits.

    Several Queue objects may share one VkQueue: see `device_profile`.

    Attributes:
        device: the device that the queue belongs to.
        index: its number among the device's queues.
        role: "compute" or "transfer".
        last_value: the value that the newest submit will signal.
        completed: a value known to be reached; `poll()` updates it.
        observed_completion: a value, and the time (of `time.perf_counter`) when a long wait for it returned.
        recording: True while commands are recorded that the next submit will include.
    """

    _close_in_finalizer = False  # the device closes it

    def __init__(self, device: LogicalDevice, handle: Any, family: int, index: int, role: str) -> None:
        self.device, self.handle, self.family, self.index, self.role = device, handle, family, index, role
        self.last_value = self.completed = 0
        self.observed_completion = 0, 0.0
        self.recording = False
        self._waiters: list[int] = []
        self._n_sleeping_waits = 0  # the next waits that sleep without polling first
        kind = vk.struct("VkSemaphoreTypeCreateInfo", semaphoreType=vk.constant("VK_SEMAPHORE_TYPE_TIMELINE"))
        info = vk.struct("VkSemaphoreCreateInfo", pNext=kind)
        self._deletions: list[Deletion] = []
        self.semaphore = device.create("VkSemaphore", "vkCreateSemaphore", info, self._deletions)
        self._signal_value = vk.ffi.new("uint64_t*")
        self._signal = vk.ffi.new("VkSemaphore[]", [self.semaphore])
        self._timeline = vk.struct(
            "VkTimelineSemaphoreSubmitInfo", signalSemaphoreValueCount=1, pSignalSemaphoreValues=self._signal_value
        )
        self._info = vk.struct(
            "VkSubmitInfo", pNext=self._timeline, signalSemaphoreCount=1, pSignalSemaphores=self._signal
        )
        self._opened()

    @property
    def recorded_value(self) -> int:
        """The value that is reached once all recorded and submitted work has completed."""
        return self.last_value + self.recording

    def submit(self, command_buffers: Sequence[Any], waits: Iterable[tuple[Queue, int]] = ()) -> int:
        """Submits command buffers that start once every (queue, value) of `waits` is reached; returns their value.

        Submits are serialized per device: two threads that submit to two queues of one device can corrupt drivers.
        If this raises, also for Ctrl-C, `last_value` shows whether the work was submitted.
        """
        waits = tuple(waits)
        taken: list[bool] = []
        try:
            call_into(taken, self.device.submit_lock.acquire)  # Python 3.14 may run handlers at the start of a `with`
            return self._submit_with(command_buffers, waits)
        finally:
            if taken:
                self.device.submit_lock.release()

    def _submit_with(self, command_buffers: Sequence[Any], waits: Sequence[tuple[Queue, int]]) -> int:
        """Submits, with the lock held."""
        value = self.last_value + 1
        self._signal_value[0] = value
        info, timeline = self._info, self._timeline
        buffers = vk.ffi.new(_COMMAND_BUFFERS, command_buffers)
        info.commandBufferCount, info.pCommandBuffers = len(command_buffers), buffers
        info.waitSemaphoreCount = timeline.waitSemaphoreValueCount = len(waits)
        if waits:
            semaphores = vk.ffi.new("VkSemaphore[]", [queue.semaphore for queue, _ in waits])
            values = vk.ffi.new("uint64_t[]", [value for _, value in waits])
            stages = vk.ffi.new("VkPipelineStageFlags[]", [_ALL_STAGES] * len(waits))
            info.pWaitSemaphores, info.pWaitDstStageMask = semaphores, stages
            timeline.pWaitSemaphoreValues = values
        results: list[int] = []
        try:
            call_into(results, self.device.fn.vkQueueSubmit, self.handle, 1, info, vk.NULL)
        except BaseException:  # e.g. a validation error: the work may have been submitted all the same
            if not results and self._completes(value):
                results.append(0)
            raise
        finally:
            if results and results[0] == 0:
                self.last_value = value
        self._check(results[0], "vkQueueSubmit")
        return value

    def _completes(self, value: int) -> bool:
        """Returns True if the value is reached once the device is idle."""
        fn, device, counter = self.device.fn, self.device.handle, vk.ffi.new(_VALUE)
        fn.vkDeviceWaitIdle(device)
        result = fn.vkGetSemaphoreCounterValue(device, self.semaphore, counter)
        return bool(result == 0 and counter[0] >= value)

    def _check(self, result: int, call: str) -> int:
        if result >= 0:
            return result
        try:
            return vk.check(result, call, self)
        except DeviceLost as error:
            self.device.lose(error)
            raise

    def poll(self) -> int:
        """Updates `completed` from the semaphore and returns it."""
        if self.completed < self.last_value:
            try:  # appends inside of it: no interrupt can separate the append from the pop
                self._waiters.append(0)
                self._require_alive()
                call, counter = self.device.fn.vkGetSemaphoreCounterValue, vk.ffi.new(_VALUE)
                self._check(call(self.device.handle, self.semaphore, counter), "vkGetSemaphoreCounterValue")
                # The counter is local: another thread's result counts only once its call has returned and was checked.
                self.completed = max(self.completed, counter[0])
            finally:
                self._waiters.pop()
        return self.completed

    def wait(self, value: int, timeout_s: float | None = None) -> bool:
        """Waits until `value` is reached; returns False if `timeout_s` seconds pass first. Releases the GIL.

        Raises:
            DeviceLost: the device stopped working.
        """
        if value <= self.completed:
            return True
        try:
            self._waiters.append(value)  # `_destroy` keeps the semaphore while a thread waits
            return self._wait(value, timeout_s)
        finally:
            self._waiters.pop()

    def _wait(self, value: int, timeout_s: float | None) -> bool:
        started = time.perf_counter()
        end = None if timeout_s is None else started + timeout_s
        if self._spin(value, started + (_WAKE_S if timeout_s is None else min(_WAKE_S, timeout_s))):
            return True
        values = vk.ffi.new(_VALUE, value)
        info = vk.ffi.new(_WAIT_INFO)  # faster than vk.struct: every wait runs this
        info.sType, info.semaphoreCount, info.pSemaphores, info.pValues = _WAIT_INFO_TYPE, 1, self._signal, values
        while True:
            self._require_alive()
            left = _SLICE_S if end is None else min(_SLICE_S, max(0.0, end - time.perf_counter()))
            call = self.device.fn.vkWaitSemaphores
            result = self._check(call(self.device.handle, info, int(left * 1e9)), "vkWaitSemaphores")
            if result == 0:
                self.completed = max(self.completed, value)
                if (now := time.perf_counter()) - started > _LONG_S:
                    self.observed_completion = value, now
                return True
            if end is not None and time.perf_counter() >= end:
                return False

    def _spin(self, value: int, end: float) -> bool:
        """Polls until `end`; returns True if `value` is reached. Shorter than waking a sleeping thread.

        On a busy processor a sleeping thread is scheduled sooner than one that yields. So if polling took much too
        long, the next waits sleep at once.
        """
        if self._n_sleeping_waits > 0:  # two threads may decrement it below 0
            self._n_sleeping_waits -= 1
            return False
        while not (reached := self.poll() >= value) and time.perf_counter() < end:
            _yield_thread()
        if time.perf_counter() > end + _LONG_S:
            self._n_sleeping_waits = 1000
        return reached

    def _require_alive(self) -> None:
        if not self._open or self._pid != process_id[0]:
            self.require_open()  # raises
        if self.device.loss is not None:
            raise again(self.device.loss)

    def _destroy(self) -> None:
        while self._waiters:  # they return soon: the device is idle
            time.sleep(0.001)
        run_deletions(self._deletions)

    def __str__(self) -> str:
        return f"{self.role} queue {self.index} (family {self.family}) of {self.device}"


class Point:
    """The point on a queue's timeline at which it reaches `value`."""

    __slots__ = ("queue", "value")

    def __init__(self, queue: Queue, value: int) -> None:
        self.queue, self.value = queue, value

    def done(self) -> bool:
        """Returns True once the point is reached."""
        return self.value <= self.queue.completed or self.value <= self.queue.poll()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the point; returns False if `timeout_s` seconds pass first."""
        return self.queue.wait(self.value, timeout_s)

    def __repr__(self) -> str:
        return f"Point({self.queue.role} {self.queue.index}, {self.value})"
