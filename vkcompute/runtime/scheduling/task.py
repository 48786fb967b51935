"""Tasks: commands with the bytes that they read and write, for a queue or a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from vkcompute.core import vk
from vkcompute.core.buffer import Buffer
from vkcompute.core.command import Recorder, RepeatedCommands
from vkcompute.core.descriptors import DescriptorSets
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.cost import NOTHING, Cost
from vkcompute.runtime.scheduling.placeholders import Parameter

Offsets = npt.NDArray[np.int64]
BufferMap = dict[Buffer, tuple[Buffer, int]]
"""placeholder -> (buffer, offset in bytes) in its place"""
Values = Mapping[int, Any]
"""by the id of a `Parameter`"""
Bindings = dict[Any, tuple[DescriptorSets, list[Range], list[Range]]]
"""by kernel and the keys of its arrays: descriptor sets, the ranges written and those read"""


def resolve(where: Range, buffer_map: BufferMap) -> Range:
    """Replaces a placeholder by its buffer; returns a range of any other buffer unchanged."""
    target = buffer_map.get(where[0])
    return where if target is None else (target[0], target[1] + where[1], target[1] + where[2])


def with_values(given: Sequence[Any], values: Values) -> list[Any]:
    """Replaces parameters by their values; returns other values unchanged."""
    return [values.get(id(value), value) if isinstance(value, Parameter) else value for value in given]


class TaskKernel(Protocol):
    """A kernel, as tasks use it.

    Attributes:
        name: for profiles.
        writes, reads: indices of the bindings that it writes and reads.
    """

    name: str
    writes: list[int]
    reads: list[int]

    def sets(self, ranges: Sequence[Range]) -> DescriptorSets:
        """Makes descriptor sets for ranges (buffer, offset in it, nbytes)."""

    def ranges_among(self, args: Sequence[Any]) -> tuple[Sequence[Range], Sequence[Range]]:
        """Returns the ranges of all written and of all read bindings of a launch with these arguments."""


LaunchedKernel = tuple[TaskKernel, DescriptorSets, Cost, Sequence[Any]]
"""Of a launch: the kernel and its descriptor sets, which must live until it is recorded, the cost, and the arguments.

There are arguments only if the launch registers fewer ranges than it binds.
"""


def in_place(
    command: Sequence[Any], writes: Sequence[Range], reads: Sequence[Range], launched: LaunchedKernel
) -> tuple[Sequence[Any], LaunchedKernel]:
    """Returns a launch with descriptor sets for the locations where its buffers are. Requires the device's lock."""
    kernel, sets, cost, args = launched
    if args:
        writes, reads = kernel.ranges_among(args)
    pairs = *zip(kernel.reads, reads, strict=False), *zip(kernel.writes, writes, strict=False)  # windows have more
    bound = {at: (buffer, start) for at, (buffer, start, _) in pairs}
    # Places of bytes are compared, not of buffers: a plan serves all arrays that begin at the same byte.
    locations = {at: buffer.location + start for at, (buffer, start) in bound.items()}
    if all(location == sets.ranges[at][0] for at, location in locations.items()):
        return command, launched
    successor = sets.successor
    if successor is None or any(location != successor.ranges[at][0] for at, location in locations.items()):
        anywhere = next(iter(bound.values()))[0]  # for bindings that the kernel does not access
        ranges = [
            (*bound[at], nbytes) if at in bound else (anywhere, 0, min(nbytes, anywhere.nbytes))
            for at, (_, nbytes) in enumerate(sets.ranges)
        ]
        successor = sets.successor = kernel.sets(ranges)
    return (*command[:3], successor.handles, *command[4:]), (kernel, successor, cost, args)


class CommandSeries(Protocol):
    """Commands that are launched as one task.

    Attributes:
        commands: methods of `Recorder` with their arguments, barriers between them included.
        repeated: all of them, for queues of its family; or None.
        costs: of those that have one.
        n_tasks: the number of those that are no barriers.
        nbytes_copied: what copies among them move.
    """

    commands: Sequence[tuple[Callable[..., None], tuple[Any, ...]]]
    repeated: RepeatedCommands | None
    costs: Sequence[Cost]
    n_tasks: int
    nbytes_copied: int


class Launcher(Protocol):
    """Takes single tasks: the scheduler."""

    def launch(self, task: Task, queue: int | str | None = None) -> object:
        """Launches a task."""

    def dispatch(
        self,
        command: Sequence[Any],
        writes: Sequence[Range],
        reads: Sequence[Range],
        queue: int | str | None,
        launched: LaunchedKernel,
    ) -> object:
        """Launches a kernel."""


class Task:
    """A command, possibly on placeholders. A new kind of task defines `record` and `rebased`.

    Attributes:
        writes, reads: the ranges that it accesses.
        name: for profiles.
        cost: of a launch.
    """

    __slots__ = ("reads", "writes")
    name = ""
    cost: Cost = NOTHING

    def __init__(self, writes: Sequence[Range], reads: Sequence[Range]) -> None:
        self.writes, self.reads = writes, reads

    @property
    def buffers(self) -> Sequence[Buffer]:
        """The buffers that may be placeholders."""
        return [where[0] for where in (*self.writes, *self.reads)]

    def rebased(self, buffer_map: BufferMap, values: Values) -> Task:
        """The same task with placeholders replaced by buffers and values."""
        raise NotImplementedError

    def resolved(self, buffer_map: BufferMap, bindings: Bindings) -> Task:
        """The same task on memory, ready for `record`: `buffer_map` has all placeholders that are left in it."""
        return self.rebased(buffer_map, {})

    def check(self) -> None:
        """Raises the errors that a launch would raise, before there is memory."""

    def snapshot(self) -> Task:
        """The task for a graph to keep: closing its arrays later does not affect it. Requires `check`."""
        return self

    def record(self, recorder: Recorder) -> None:
        """Records the command."""
        raise NotImplementedError

    def launch(self, launcher: Launcher, queue: int) -> None:
        """Launches the task on its own."""
        launcher.launch(self, queue)


def buffers_of(task: Task) -> set[Buffer]:
    """Returns the buffers that a task accesses."""
    return {*task.buffers, *[where[0] for where in (*task.writes, *task.reads)]}


class Dispatch(Task):
    """A launch on arrays that have memory."""

    __slots__ = ("_command", "_launched", "cost")
    buffers = ()

    def __init__(
        self, command: Sequence[Any], writes: Sequence[Range], reads: Sequence[Range], launched: LaunchedKernel
    ) -> None:
        super().__init__(writes, reads)
        self._command, self._launched, self.cost = command, launched, launched[2]

    def rebased(self, buffer_map: BufferMap, values: Values) -> Task:
        return self

    def resolved(self, buffer_map: BufferMap, bindings: Bindings) -> Task:
        command, launched = in_place(self._command, self.writes, self.reads, self._launched)
        return self if launched is self._launched else Dispatch(command, self.writes, self.reads, launched)

    def record(self, recorder: Recorder) -> None:
        recorder.dispatch(*self._command)

    def launch(self, launcher: Launcher, queue: int) -> None:
        launcher.dispatch(self._command, self.writes, self.reads, queue, self._launched)


class CopyPart(NamedTuple):
    """A copy from the bytes of `source`, by `n_regions` equally long regions (a VkBufferCopy array)."""

    source: Range
    regions: Any
    n_regions: int

    def moved(self, source: Range, old: Range, new: Range) -> CopyPart:
        """Returns the same copy from other bytes, and to `new` in place of `old`."""
        table = np.frombuffer(vk.ffi.buffer(self.regions, 24 * self.n_regions), np.int64).reshape(-1, 3).copy()
        for column, (before, after) in enumerate(((self.source, source), (old, new))):
            table[:, column] += after[0].offset + after[1] - before[0].offset - before[1]
        if source[0] is new[0]:
            refuse_overlap(table[:, 0], table[:, 1], int(table[0, 2]))
        return CopyPart(source, vk.ffi.from_buffer("VkBufferCopy[]", table), self.n_regions)


class Copy(Task):
    """Copies from the bytes of one source or several to those of `target`."""

    __slots__ = ("parts",)
    name = "copy"

    def __init__(self, parts: Sequence[CopyPart], target: Range) -> None:
        super().__init__((target,), bytes_read(parts, target))
        self.parts = parts

    def rebased(self, buffer_map: BufferMap, values: Values) -> Task:
        target = resolve(self.writes[0], buffer_map)
        sources = [resolve(part.source, buffer_map) for part in self.parts]
        if target is self.writes[0] and all(map(is_, sources, [part.source for part in self.parts])):
            return self
        moved = zip(self.parts, sources, strict=True)
        return Copy([part.moved(source, self.writes[0], target) for part, source in moved], target)

    def record(self, recorder: Recorder) -> None:
        target = self.writes[0][0].block.handle
        for (source, _, _), regions, n_regions in self.parts:
            recorder.copy(source.block.handle, target, regions, n_regions)


def copy_region(source: Buffer, source_offset: int, target: Buffer, target_offset: int, nbytes: int) -> object:
    """Makes one VkBufferCopy; offsets in bytes from the start of each buffer."""
    region = vk.ffi.new("VkBufferCopy*")
    region.srcOffset, region.dstOffset = source.offset + source_offset, target.offset + target_offset
    region.size = nbytes
    return region


def bytes_read(parts: Sequence[CopyPart], target: Range) -> Sequence[Range]:
    """The ranges that copies to disjoint bytes of `target` read.

    The target is one of them if the regions leave gaps in it: the bytes in the gaps keep their values.
    """
    sources = [part.source for part in parts]
    written = sum([part.regions[0].size * part.n_regions for part in parts])
    return sources if written == target[2] - target[1] else [*sources, target]


def refuse_overlap(sources: Offsets, targets: Offsets, nbytes: int) -> None:
    """Raises ValueError if runs of `nbytes` that start at `sources` and at `targets` overlap."""
    ordered = np.sort(targets)
    following = np.searchsorted(ordered, sources - nbytes, side="right")
    inside = following < len(ordered)
    if np.any(ordered[following[inside]] < sources[inside] + nbytes):
        raise ValueError("source and target share bytes; copy through a third array: target.copy_from(source.copy())")


class Update(Task):
    """A write of bytes that are known when it is launched; their number, and the range, are multiples of 4."""

    __slots__ = ("_data",)
    name = "update"

    def __init__(self, target: Range, data: bytes) -> None:
        super().__init__((target,), ())
        self._data = data

    def rebased(self, buffer_map: BufferMap, values: Values) -> Task:
        return Update(resolve(self.writes[0], buffer_map), self._data)

    def record(self, recorder: Recorder) -> None:
        buffer, start, _ = self.writes[0]
        recorder.update(buffer.block.handle, buffer.offset + start, self._data)


class Fill(Task):
    """A fill with a 32-bit word; start and stop of the range are multiples of 4."""

    __slots__ = ("word",)
    name = "fill"

    def __init__(self, target: Range, word: int) -> None:
        super().__init__((target,), ())
        self.word = word

    def rebased(self, buffer_map: BufferMap, values: Values) -> Task:
        old, new = self.writes[0], resolve(self.writes[0], buffer_map)
        end = new[2] - max(0, old[2] - old[0].used_bytes)  # of the elements; the rest is padding
        if new[1] % 4 or (end != new[2] and end != new[0].used_bytes):
            raise ValueError(
                f"a recorded fill writes whole words of 4 bytes; this one would fill bytes {new[1]} to {end} of a "
                "buffer and no more; give a .copy() as the input"
            )
        return Fill(new, self.word)

    def resolved(self, buffer_map: BufferMap, bindings: Bindings) -> Task:
        return Fill(resolve(self.writes[0], buffer_map), self.word)

    def record(self, recorder: Recorder) -> None:
        buffer, start, stop = self.writes[0]
        recorder.fill(buffer.block.handle, buffer.offset + start, stop - start, self.word)
