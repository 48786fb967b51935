"""Steps of a call: allocations, launches and copies on slots of memory, repeated with other buffers in the slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from vkcompute.compiled.completion import expect
from vkcompute.core import vk
from vkcompute.core.buffer import Buffer
from vkcompute.core.command import Recorder
from vkcompute.core.descriptors import DescriptorSets
from vkcompute.deferred_calls import waiting
from vkcompute.dtypes import type_code
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.scheduling import task as tasks
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.cost import Cost

Part = tuple[int, int, int]
"""A range of a slot: (slot, start, stop) in bytes from its first one; of a binding, (slot, start, number of bytes)."""
Command = tuple[Callable[..., None], tuple[Any, ...]]
"""A method of `Recorder` and its arguments."""
_BUFFER, _OFFSET = attrgetter("_buffer"), attrgetter("_offset")


class CallBuffers:
    """The buffers of one call.

    Args:
        arrays: the arguments, which have memory.
        n_own: the number of slots behind theirs.
        is_locked: True if the caller has the device's lock while steps run, as for `Scheduler.enqueue_locked`.

    Attributes:
        runtime: the device's.
        buffers: by slot; None before they are allocated, and after their last use.
        bases: the first byte of each slot in its buffer.
    """

    __slots__ = ("bases", "buffers", "is_locked", "runtime")

    def __init__(self, runtime: Runtime, arrays: Sequence[Array], n_own: int, *, is_locked: bool = False) -> None:
        self.runtime, self.is_locked = runtime, is_locked
        self.buffers: list[Any] = [*map(_BUFFER, arrays)]
        if None in self.buffers:
            self.buffers = [x.buffer for x in arrays]  # raises the error of a closed one
        self.bases: list[int] = [*map(_OFFSET, arrays)]
        self.buffers += [None] * n_own
        self.bases += [0] * n_own

    def range(self, part: Part) -> Range:
        """Returns the range of a part."""
        at, start, stop = part
        base = self.bases[at]
        return self.buffers[at], base + start, base + stop


class SlotArray(NamedTuple):
    """An array on a slot.

    Attributes:
        start: the first byte of its elements from that of the slot.
        is_whole: True for a contiguous one at the start of memory that each call allocates.
        extent: of one that is not contiguous, as of `Array.strided`; None for others.
    """

    slot: int
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    nbytes: int
    is_whole: bool
    extent: tuple[int, int] | None = None

    def array(self, memory: CallBuffers) -> Array:
        """Returns the array of a repeated call."""
        slot, start, shape, strides, dtype, nbytes, is_whole, extent = self
        runtime, buffer = memory.runtime, memory.buffers[slot]
        if is_whole:
            return Array.whole(runtime, buffer, shape, dtype, nbytes)
        offset = memory.bases[slot] + start
        if extent is not None:
            return Array.strided(runtime, buffer, offset, (shape, strides, dtype, type_code(dtype)), extent)
        return Array(runtime, buffer, offset, shape, strides, dtype)


def moved(part: Part, relocations: Mapping[int, tuple[int, int]]) -> Part:
    """Returns a part in the slot to which its own is relocated; `relocations`: slot -> (new slot, offset in bytes)."""
    at, start, stop = part
    relocation = relocations.get(at)
    return part if relocation is None else (relocation[0], relocation[1] + start, relocation[1] + stop)


class Step(Protocol):
    """A step of a call."""

    def run(self, memory: CallBuffers) -> None:
        """Runs the step on the memory of a call."""


class AllocateStep:
    """Allocates the buffer of a slot, for results of launches."""

    __slots__ = ("nbytes", "slot")

    def __init__(self, slot: int, nbytes: int) -> None:
        self.slot, self.nbytes = slot, nbytes

    def run(self, memory: CallBuffers) -> None:
        """Allocates."""
        runtime = memory.runtime
        memory.buffers[self.slot] = buffer = runtime.device.result_buffer(self.nbytes)
        if runtime.scheduler.tracers and (tracer := runtime.scheduler.tracer()) is not None:
            tracer.allocated(buffer)


class FreeStep:
    """Drops the buffer of a slot after its last use."""

    __slots__ = ("slot",)

    def __init__(self, slot: int) -> None:
        self.slot = slot

    def run(self, memory: CallBuffers) -> None:
        """Drops the buffer."""
        memory.buffers[self.slot] = None


class ConstantStep:
    """Puts a buffer whose content is the same in all calls into a slot."""

    __slots__ = ("buffer", "slot")

    def __init__(self, slot: int, buffer: Buffer) -> None:
        self.slot, self.buffer = slot, buffer

    def run(self, memory: CallBuffers) -> None:
        """Sets the slot."""
        memory.buffers[self.slot] = self.buffer


class LaunchStep:
    """Launches a kernel, with the same push constants and grid.

    Args:
        writes, reads: of each binding, in order: by these `in_place` finds buffers that have moved.
        bound: the part of each binding, with its number of bytes; it begins where one that is written or read does.

    Attributes:
        nbytes: that a copy moves; none.
    """

    __slots__ = ("_bound", "_kernel", "_n_writes", "_program", "_rest", "_spans", "cost", "reads", "writes", "written")
    nbytes = 0

    def __init__(
        self,
        kernel: Any,
        cost: Cost,
        command: Sequence[Any],
        writes: Sequence[Part],
        reads: Sequence[Part],
        bound: Sequence[Part],
    ) -> None:
        self._kernel, self.cost, self._bound = kernel, cost, bound
        self._program, self._rest = tuple(command[:3]), tuple(command[4:])
        self.writes, self.reads = writes, reads
        self._spans, self._n_writes = [*writes, *reads], len(writes)
        self.written = [at for at, _, _ in writes]

    def moved(self, relocations: Mapping[int, tuple[int, int]]) -> LaunchStep:
        """Returns the launch with parts moved to other slots: see `moved`."""
        writes, reads = ([moved(part, relocations) for part in parts] for parts in (self.writes, self.reads))
        bound = [(*moved(part, relocations)[:2], part[2]) for part in self._bound]
        return LaunchStep(self._kernel, self.cost, (*self._program, None, *self._rest), writes, reads, bound)

    def run(self, memory: CallBuffers) -> None:
        """Launches the kernel."""
        command, sets, spans = self._command(memory)
        launched, n_writes = (self._kernel, sets, self.cost, ()), self._n_writes
        scheduler = memory.runtime.scheduler
        enqueue = scheduler.enqueue_locked if memory.is_locked else scheduler.enqueue
        enqueue(command, spans[:n_writes], spans[n_writes:], None, launched)

    def commands(self, memory: CallBuffers, kept: list[Any]) -> list[Command]:
        """Returns the commands for the addresses of the buffers, and appends what these need. Requires the lock."""
        command, sets, _ = self._command(memory)
        kept += self._kernel, sets
        return [(Recorder.dispatch, command)]

    def _command(self, memory: CallBuffers) -> tuple[tuple[Any, ...], DescriptorSets, list[Range]]:
        """Returns the command with its descriptor sets, and the ranges that it writes and reads."""
        buffers, bases = memory.buffers, memory.bases
        spans = [(buffers[at], bases[at] + start, bases[at] + stop) for at, start, stop in self._spans]
        key = (self, *[buffer.location + start for buffer, start, _ in spans])
        sets: DescriptorSets | None = memory.runtime.plans.get(key)
        if sets is None:
            sets = self._sets(memory, spans, key)
        return (*self._program, sets.handles, *self._rest), sets, spans

    def _sets(self, memory: CallBuffers, spans: Sequence[Range], key: tuple[Any, ...]) -> DescriptorSets:
        """Makes the descriptor sets for the addresses of the buffers, and keeps them."""
        runtime = memory.runtime
        with runtime.scheduler.device.lock:
            runtime.scheduler.restore([buffer for buffer, _, _ in spans])
            bound = [(memory.buffers[at], memory.bases[at] + start, n) for at, start, n in self._bound]
            sets: DescriptorSets = self._kernel.sets(bound)
            if key[1:] == tuple([buffer.location + start for buffer, start, _ in spans]):  # none has moved
                runtime.plans[key] = sets
            return sets


def _enqueue(memory: CallBuffers, target: Range, sources: Sequence[Range], make: Callable[[], tasks.Task]) -> None:
    """Launches the task of `make()`, which may read the addresses of these buffers: none moves until it is enqueued."""
    scheduler = memory.runtime.scheduler
    with scheduler.device.lock:
        if target[0].readers:
            target[0].compute_readers()
        if scheduler.moves:
            scheduler.restore([target[0], *[source[0] for source in sources]])
        scheduler.enqueue_task(make())
    if waiting or scheduler.is_ahead:
        scheduler.unlocked()


class FillStep:
    """Fills a part with a 32-bit word."""

    __slots__ = ("_part", "_word", "nbytes", "reads", "writes", "written")

    def __init__(self, part: Part, word: int) -> None:
        self._part, self._word, self.written = part, word, [part[0]]
        self.writes, self.reads, self.nbytes = [part], list[Part](), part[2] - part[1]

    def moved(self, relocations: Mapping[int, tuple[int, int]]) -> FillStep:
        """Returns the fill of a part of another slot: see `moved`."""
        return FillStep(moved(self._part, relocations), self._word)

    def commands(self, memory: CallBuffers, kept: list[Any]) -> list[Command]:
        """Returns the commands, as those of `LaunchStep`."""
        buffer, start, stop = memory.range(self._part)
        return [(Recorder.fill, (buffer.block.handle, buffer.offset + start, stop - start, self._word))]

    def run(self, memory: CallBuffers) -> None:
        """Fills the bytes."""
        target = memory.range(self._part)
        _enqueue(memory, target, (), partial(tasks.Fill, target, self._word))


class CopyStep:
    """Copies to the bytes of a part.

    Args:
        sources: the part of each source, and its regions: (first byte in the source's slot, first byte in the target's,
            number of bytes) per row.
    """

    __slots__ = ("_sources", "_tables", "_target", "nbytes", "reads", "writes", "written")

    def __init__(self, sources: Sequence[tuple[Part, npt.NDArray[np.int64]]], target: Part) -> None:
        self._sources, self._tables = [part for part, _ in sources], [table for _, table in sources]
        self._target, self.written = target, [target[0]]
        self.writes, self.nbytes = [target], target[2] - target[1]
        leaves_gaps = sum([int(table[:, 2].sum()) for table in self._tables]) != self.nbytes
        self.reads = [*self._sources, target] if leaves_gaps else self._sources  # as by `bytes_read`

    def moved(self, relocations: Mapping[int, tuple[int, int]]) -> CopyStep:
        """Returns the copy with parts moved to other slots: see `moved`."""
        sources = []
        for part, table in zip(self._sources, self._tables, strict=True):
            distances = [relocations.get(slot, (slot, 0))[1] for slot in (part[0], self._target[0])]
            sources.append((moved(part, relocations), table + np.array((*distances, 0))))
        return CopyStep(sources, moved(self._target, relocations))

    def commands(self, memory: CallBuffers, kept: list[Any]) -> list[Command]:
        """Returns the commands, as those of `LaunchStep`."""
        target, sources = memory.range(self._target), [memory.range(part) for part in self._sources]
        parts, goal = self._task(memory, target, sources).parts, target[0].block.handle
        return [(Recorder.copy, (source[0].block.handle, goal, regions, n)) for source, regions, n in parts]

    @property
    def n_regions(self) -> int:
        """The number of regions."""
        return sum(map(len, self._tables))

    def joined(self, later: CopyStep) -> CopyStep | None:
        """Returns both as one copy; None if these have an order: both write some bytes, or one reads what is written.

        The target is memory of the call's own.
        """
        (slot, start, stop), (later_slot, later_start, later_stop) = self._target, later._target
        parts = [*self._sources, *later._sources]
        if slot != later_slot or any(source == slot for source, _, _ in parts):
            return None
        tables = [*self._tables, *later._tables]
        regions = np.concatenate(tables)
        regions = regions[np.argsort(regions[:, 1], kind="stable")]
        if (regions[1:, 1] < regions[:-1, 1] + regions[:-1, 2]).any():
            return None
        return CopyStep([*zip(parts, tables, strict=True)], (slot, min(start, later_start), max(stop, later_stop)))

    def run(self, memory: CallBuffers) -> None:
        """Copies the bytes."""
        target, sources = memory.range(self._target), [memory.range(part) for part in self._sources]
        _enqueue(memory, target, sources, partial(self._task, memory, target, sources))

    def _task(self, memory: CallBuffers, target: Range, sources: Sequence[Range]) -> tasks.Copy:
        """Returns the task for the addresses of the buffers. Requires the device's lock."""
        bases, goal = memory.bases, target[0].offset + memory.bases[self._target[0]]
        parts = []
        for part, source, table in zip(self._sources, sources, self._tables, strict=True):
            moved = table + np.array((source[0].offset + bases[part[0]], goal, 0))
            parts.append(tasks.CopyPart(source, vk.ffi.from_buffer("VkBufferCopy[]", moved), len(moved)))
        return tasks.Copy(parts, target)


class ReportStep:
    """Runs steps that report to a buffer, which the host reads on completion.

    Args:
        n_words, read: as of `expect`.

    Attributes:
        steps: the steps, with the buffer in a slot.
    """

    __slots__ = ("_n_words", "_read", "_slot", "steps", "written")

    def __init__(self, slot: int, n_words: int, read: Callable[[Any], Exception | None], steps: Sequence[Step]) -> None:
        self._slot, self._n_words, self._read, self.steps = slot, n_words, read, steps
        self.written = [at for step in steps for at in getattr(step, "written", ())]

    def with_steps(self, steps: Sequence[Step]) -> ReportStep:
        """Returns the same for other steps."""
        return ReportStep(self._slot, self._n_words, self._read, steps)

    def run(self, memory: CallBuffers) -> None:
        """Runs the steps, and registers the callback."""

        def launch(buffer: Array) -> None:
            memory.buffers[self._slot] = buffer._buffer or buffer.buffer
            for step in self.steps:
                step.run(memory)
            memory.buffers[self._slot] = None

        expect(memory.runtime, self._n_words, self._read, launch)
