"""Watches what reaches the driver, and finds accesses to the same bytes that nothing puts in order.

A software driver runs one command after the other, so a missing barrier or semaphore wait does not show in its results,
and the validation layer looks at one command buffer at a time. Here every timeline is taken for a queue of its own that
runs whatever it is allowed to in any order.
"""

# ruff: noqa: N802  # the methods of Trace are called after the Vulkan functions that they watch

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from vkcompute.core import vk
from vkcompute.runtime.transfer import Transfers

Clock = dict[int, int]
"""timeline -> how many of its operations have come before"""
Bytes = tuple[int, int, int]
"""(VkBuffer, start, stop)"""


def number(handle: Any) -> int:
    """A Vulkan handle as an int."""
    return int(vk.ffi.cast("uintptr_t", handle))


@dataclass(eq=False)
class Operation:
    """One command, or one access by the host, with the bytes that it may read and write."""

    text: str
    reads: list[Bytes]
    writes: list[Bytes]
    asked: int = 0  # its place in the order of the program
    timeline: int = -1
    place: int = 0  # among the operations of its timeline, from 1 on; 0: it has not been submitted
    before: Clock = field(default_factory=dict)  # what is certain to have finished when it starts


BARRIER = Operation("barrier", [], [])


@dataclass
class Recording:
    """What a command buffer holds, in order."""

    one_time: bool
    operations: list[Operation] = field(default_factory=list)


def join(clock: Clock, other: Clock) -> Clock:
    return {key: max(clock.get(key, 0), other.get(key, 0)) for key in {*clock, *other}}


class Trace:
    """What a runtime does, as its calls tell; `conflicts()` afterwards."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.recordings: dict[int, Recording] = {}
        self.bound: dict[int, list[int]] = {}  # command buffer -> sets
        self.sets: dict[tuple[int, int], Bytes] = {}  # (set, binding) -> what it points at
        self.counts: Clock = defaultdict(int)
        self.ordered: dict[int, Clock] = defaultdict(dict)  # timeline -> what all that follows on it comes after
        self.signals: dict[tuple[int, int], Clock] = {}
        self.host: Clock = {}
        self._asked = 0

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
        self.recordings[number(handle)] = Recording(bool(info.flags & 1))

    def vkUpdateDescriptorSets(self, _device: Any, n: int, writes: Any, *_: Any) -> None:
        for write in writes[0:n]:
            info = write.pBufferInfo[0]
            where = number(info.buffer), info.offset, info.offset + info.range
            self.sets[number(write.dstSet), write.dstBinding] = where

    def vkCmdBindDescriptorSets(self, handle: Any, *args: Any) -> None:
        _point, _layout, _first, n, sets, *_ = args
        self.bound[number(handle)] = [number(each) for each in sets[0:n]]

    def vkCmdDispatch(self, handle: Any, *grid: int) -> None:
        found = {key[1]: where for key, where in self.sets.items() if key[0] in self.bound[number(handle)]}
        # Descriptors do not say what is only read: of machine.py's kernels, the first two of three bindings are.
        read_only = (0, 1) if len(found) == 3 else ()
        writes = [where for binding, where in found.items() if binding not in read_only]
        self._command(handle, Operation(f"dispatch{grid}", list(found.values()), writes))

    def vkCmdCopyBuffer(self, handle: Any, source: Any, target: Any, n: int, regions: Any) -> None:
        parts = [(r.srcOffset, r.dstOffset, r.size) for r in regions[0:n]]
        reads = [(number(source), start, start + size) for start, _, size in parts]
        writes = [(number(target), start, start + size) for _, start, size in parts]
        self._command(handle, Operation(f"copy of {n} regions", reads, writes))

    def vkCmdFillBuffer(self, handle: Any, target: Any, offset: int, size: int, _word: int) -> None:
        self._command(handle, Operation("fill", [], [(number(target), offset, offset + size)]))

    def vkCmdPipelineBarrier(self, handle: Any, _first: int, second: int, *_: Any) -> None:
        if second != 0x4000:  # what is shown to the host orders nothing on the device
            self.recordings[number(handle)].operations.append(BARRIER)

    def _command(self, handle: Any, operation: Operation) -> None:
        self._asked += 1
        operation.asked = self._asked
        recording = self.recordings[number(handle)]
        recording.operations.append(operation)
        if recording.one_time:
            self.operations.append(operation)

    # -- submission and waiting ---------------------------------------------------------------------------------------

    def vkQueueSubmit(self, _queue: Any, _n: int, info: Any, _fence: Any) -> None:
        values = vk.ffi.cast("VkTimelineSemaphoreSubmitInfo*", info.pNext)
        me = number(info.pSignalSemaphores[0])
        ordered = join(self.ordered[me], self.host)
        for i in range(info.waitSemaphoreCount):
            key = number(info.pWaitSemaphores[i]), values.pWaitSemaphoreValues[i]
            ordered = join(ordered, self.signals[key])
        for i in range(info.commandBufferCount):
            ordered = self._run(me, self.recordings[number(info.pCommandBuffers[i])], ordered)
        self.ordered[me] = ordered
        self.signals[me, values.pSignalSemaphoreValues[0]] = join(ordered, {me: self.counts[me]})

    def _run(self, timeline: int, recording: Recording, ordered: Clock) -> Clock:
        for operation in recording.operations:
            if operation is BARRIER:
                ordered = ordered | {timeline: self.counts[timeline]}
                continue
            if not recording.one_time:
                self._asked += 1
                operation = Operation(operation.text, operation.reads, operation.writes, self._asked)
                self.operations.append(operation)
            self.counts[timeline] += 1
            operation.timeline, operation.place, operation.before = timeline, self.counts[timeline], ordered
        return ordered

    def vkWaitSemaphores(self, _device: Any, info: Any, _timeout: int) -> None:
        self._seen(info.pSemaphores[0], info.pValues[0])

    def vkGetSemaphoreCounterValue(self, device: Any, semaphore: Any, value: Any) -> None:
        self._seen(semaphore, value[0])

    def _seen(self, semaphore: Any, value: int) -> None:
        """The host knows that a value is reached. (A wait of these tests never times out: the works are short.)"""
        if value:
            self.host = join(self.host, self.signals[number(semaphore), value])

    def host_access(self, buffer: Any, offset: int, nbytes: int, write: bool) -> None:
        """The host touches bytes of a buffer."""
        self._asked += 1
        start = buffer.offset + offset
        where = [(number(buffer.block.handle), start, start + nbytes)]
        text = "host write" if write else "host read"
        self.operations.append(
            Operation(text, [] if write else where, where if write else [], self._asked, before=self.host)
        )

    # -- the verdict --------------------------------------------------------------------------------------------------

    def conflicts(self) -> list[str]:
        """Pairs of operations on the same bytes, one of which writes, that may run at once or the wrong way round."""
        operations = sorted((o for o in self.operations if o.place or o.timeline == -1), key=lambda o: o.asked)
        found = []
        for i, later in enumerate(operations):
            for earlier in operations[:i]:
                # The host's own accesses come in order; and what it did comes before all that is submitted afterwards.
                if earlier.timeline == -1 or later.before.get(earlier.timeline, 0) >= earlier.place > 0:
                    continue
                if overlap(earlier.writes, later.writes + later.reads) or overlap(earlier.reads, later.writes):
                    found.append(
                        f"{later.text} (asked {later.asked}) does not wait for {earlier.text} ({earlier.asked})"
                    )
        return found


def overlap(some: list[Bytes], others: list[Bytes]) -> bool:
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in some for b in others)


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
