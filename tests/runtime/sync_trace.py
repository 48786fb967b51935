"""Watches what reaches the driver, and finds accesses to the same bytes that nothing puts in order.

A software driver runs one command after the other, so a missing barrier or semaphore wait does not show in its results,
and the validation layer looks at one command buffer at a time. Here every timeline is taken for a queue of its own that
runs whatever it is allowed to in any order.
"""

# ruff: noqa: N802, N815  # the methods of Trace are called after the Vulkan functions that they watch

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from happens_before import Access, Barrier, Bytes, Event, Recorded, Replay, Seen, Submit, Wait

from vkcompute.core import vk
from vkcompute.runtime.memory.transfers import Transfers


def number(handle: Any) -> int:
    """A Vulkan handle as an int."""
    return int(vk.ffi.cast("uintptr_t", handle))


@dataclass
class Recording:
    """What a command buffer holds, in order."""

    one_time: bool
    secondary: bool = False
    commands: list[Access | Barrier] = field(default_factory=list)
    n_shown: int = 0  # how many of them a barrier has shown to the host


class Trace:
    """What a runtime does, as its calls tell: a history for `happens_before`."""

    def __init__(self) -> None:
        self.history: list[Event] = []
        self.n_executed = 0  # secondary command buffers
        self.recordings: dict[int, Recording] = {}
        self.bound: dict[int, list[int]] = {}  # command buffer -> sets
        self.sets: dict[tuple[int, int], Bytes] = {}  # (set, binding) -> what it points at
        self.views: dict[int, Bytes] = {}  # texel buffer view -> what it shows
        self.texels: set[tuple[int, int]] = set()  # bindings of such views, which are only read

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """An interceptor for `vk.interceptors`."""
        watch = getattr(self, name, None)
        if watch is None:
            return function

        def call(*args: Any) -> Any:
            result = function(*args)
            watch(*args)
            return result

        return call

    # -- recording ----------------------------------------------------------------------------------------------------

    def vkBeginCommandBuffer(self, handle: Any, info: Any) -> None:
        self.recordings[number(handle)] = Recording(bool(info.flags & 1), bool(info.pInheritanceInfo))

    def vkCreateBufferView(self, _device: Any, info: Any, _allocator: Any, view: Any) -> None:
        self.views[number(view[0])] = number(info.buffer), info.offset, info.offset + info.range

    def vkUpdateDescriptorSets(self, _device: Any, n: int, writes: Any, *_: Any) -> None:
        for write in writes[0:n]:
            key = number(write.dstSet), write.dstBinding
            self.texels.discard(key)
            if write.pTexelBufferView:
                self.texels.add(key)
                self.sets[key] = self.views[number(write.pTexelBufferView[0])]
                continue
            info = write.pBufferInfo[0]
            self.sets[key] = number(info.buffer), info.offset, info.offset + info.range

    def vkCmdBindDescriptorSets(self, handle: Any, *args: Any) -> None:
        _point, _layout, _first, n, sets, *_ = args
        self.bound[number(handle)] = [number(each) for each in sets[0:n]]

    def vkCmdDispatch(self, handle: Any, *grid: int) -> None:
        bound = {key: where for key, where in self.sets.items() if key[0] in self.bound[number(handle)]}
        results = {key[1]: where for key, where in bound.items()}
        # Descriptors do not say what is only read: of machine.py's kernels, the first two of three bindings are.
        read_only = {0, 1} if len(results) == 3 else {key[1] for key in bound if key in self.texels}
        writes = [where for binding, where in results.items() if binding not in read_only]
        self._command(handle, Access(f"dispatch{grid}", list(results.values()), writes))

    vkCmdDispatchBase = vkCmdDispatch  # a part is taken to touch all of it, as it is ordered

    def vkCmdCopyBuffer(self, handle: Any, source: Any, target: Any, n: int, regions: Any) -> None:
        parts = [regions[i] for i in range(n)]
        reads = [(number(source), part.srcOffset, part.srcOffset + part.size) for part in parts]
        writes = [(number(target), part.dstOffset, part.dstOffset + part.size) for part in parts]
        self._command(handle, Access(f"copy of {n} regions", reads, writes))

    def vkCmdFillBuffer(self, handle: Any, target: Any, offset: int, size: int, _word: int) -> None:
        self._command(handle, Access("fill", [], [(number(target), offset, offset + size)]))

    def vkCmdUpdateBuffer(self, handle: Any, target: Any, offset: int, size: int, _data: Any) -> None:
        self._command(handle, Access("update", [], [(number(target), offset, offset + size)]))

    def vkCmdPipelineBarrier(self, handle: Any, _first: int, second: int, *_: Any) -> None:
        recording = self.recordings[number(handle)]
        if second == 0x4000:  # orders nothing on the device
            recording.n_shown = len(recording.commands)
        else:
            recording.commands.append(Barrier())

    def vkCmdPipelineBarrier2(self, handle: Any, info: Any) -> None:
        assert info.pMemoryBarriers[0].dstStageMask & 0x4000 == 0, "only the first version orders before the host"
        self.recordings[number(handle)].commands.append(Barrier())

    def vkCmdExecuteCommands(self, handle: Any, n: int, buffers: Any) -> None:
        self.n_executed += n
        for buffer in buffers[0:n]:
            for command in self.recordings[number(buffer)].commands:
                if isinstance(command, Barrier):
                    self.recordings[number(handle)].commands.append(command)
                else:
                    self._command(handle, replace(command))  # each run has its place in the order of the program

    def vkEndCommandBuffer(self, handle: Any) -> None:
        recording = self.recordings[number(handle)]
        if not recording.secondary:
            assert recording.n_shown == len(recording.commands), "the host may not see what was written"

    def _command(self, handle: Any, command: Access) -> None:
        recording = self.recordings[number(handle)]
        recording.commands.append(command)
        if recording.one_time:
            self.history.append(Recorded(command))

    # -- submission and waiting ---------------------------------------------------------------------------------------

    def vkQueueSubmit(self, _queue: Any, _n: int, info: Any, _fence: Any) -> None:
        values = vk.ffi.cast("VkTimelineSemaphoreSubmitInfo*", info.pNext)
        waits = [
            Wait(number(info.pWaitSemaphores[i]), values.pWaitSemaphoreValues[i])
            for i in range(info.waitSemaphoreCount)
        ]
        commands: list[Access | Barrier | Replay] = []
        for i in range(info.commandBufferCount):
            recording = self.recordings[number(info.pCommandBuffers[i])]
            commands += recording.commands if recording.one_time else [Replay(recording.commands)]
        timeline, value = number(info.pSignalSemaphores[0]), values.pSignalSemaphoreValues[0]
        self.history.append(Submit(timeline, value, waits, commands))

    def vkWaitSemaphores(self, _device: Any, info: Any, _timeout: int) -> None:
        self._seen(info.pSemaphores[0], info.pValues[0])

    def vkGetSemaphoreCounterValue(self, device: Any, semaphore: Any, value: Any) -> None:
        self._seen(semaphore, value[0])

    def _seen(self, semaphore: Any, value: int) -> None:
        """The host knows that a value is reached. (A wait of these tests never times out: the works are short.)"""
        if value:
            self.history.append(Seen(number(semaphore), value))

    def host_access(self, buffer: Any, offset: int, nbytes: int, write: bool) -> None:
        """The host touches bytes of a buffer."""
        start = buffer.offset + offset
        where = [(number(buffer.block.handle), start, start + nbytes)]
        self.history.append(Access("host", [] if write else where, where if write else []))


@contextmanager
def traced() -> Iterator[Trace]:
    """A trace of the runtimes that are opened in the block, and of all host accesses in it."""
    trace = Trace()
    mapped = Transfers.mapped

    def watched(self: Transfers, buffer: Any, offset: int, nbytes: int, *, write: bool) -> Any:
        memory = mapped(self, buffer, offset, nbytes, write=write)
        if memory is not None:
            trace.host_access(buffer, offset, nbytes, write)
        return memory

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vk, "interceptors", [trace.wrap])
        patch.setattr(Transfers, "mapped", watched)
        yield trace
