"""Series of steps: what a call launches, as one task of the scheduler, with its temporary memory in one allocation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from itertools import groupby
from operator import methodcaller
from typing import Any, NamedTuple
from weakref import WeakSet

from vkcompute.compiled.call_steps import (
    AllocateStep,
    CallBuffers,
    Command,
    ConstantStep,
    CopyStep,
    FillStep,
    FreeStep,
    LaunchStep,
    Part,
    ReportStep,
    Step,
)
from vkcompute.core.buffer import PADDING
from vkcompute.core.command import CommandPool, RepeatedCommands
from vkcompute.errors import OutOfDeviceMemory
from vkcompute.runtime.memory.context import cached
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.scheduling.access_history import AccessHistory, Dependencies
from vkcompute.runtime.scheduling.cost import NOTHING

_MOST_TEMPORARY = 1 << 24
"""Bytes of temporary memory: more is allocated, used and freed step by step, so that no series holds all of it."""
_LEAST_TEMPORARY = 1 << 12
_FIRST_REPEATED = 3
"""The launch of a series on the same memory that records its commands as one: recording takes as long as a launch."""
_MOST_REPEATED = 512
"""Series of a runtime that are one command: drivers have memory for each."""
_MOST_REGIONS = 256  # of copies whose commands are kept for other calls
_MEMBERS = AllocateStep, CopyStep, FillStep, FreeStep, ConstantStep, LaunchStep
_WORK = CopyStep, FillStep, LaunchStep
_BARRIER = methodcaller("barrier"), ()


class Layout(NamedTuple):
    """The addresses of temporary buffers in one allocation.

    Attributes:
        starts: by slot, in bytes.
        nbytes: of the allocation.
    """

    starts: Mapping[int, int]
    nbytes: int


class _Commands:
    """The commands of a series for the addresses of its buffers: a `CommandSeries`.

    Args:
        work: the steps of the series.
        kept: what they need.

    Attributes:
        repeated: the commands as one, from the third launch on.
    """

    __slots__ = ("_kept", "_n_launches", "commands", "costs", "n_tasks", "nbytes_copied", "repeated")

    def __init__(self, commands: Sequence[Command], work: Sequence[Any], kept: Sequence[Any]) -> None:
        self.commands, self._kept, self._n_launches = commands, kept, 0
        self.costs = [step.cost for step in work if type(step) is LaunchStep and step.cost is not NOTHING]
        self.n_tasks, self.nbytes_copied = len(work), sum([step.nbytes for step in work])
        self.repeated: RepeatedCommands | None = None

    def count(self, runtime: Runtime) -> None:
        """Counts a launch, and records the commands for it and later ones if it is the third."""
        self._n_launches += 1
        if self._n_launches == _FIRST_REPEATED:
            with runtime.scheduler.device.lock:
                pool, repeated = cached(runtime, _Commands, partial(_repeated, runtime))
                if len(repeated) < _MOST_REPEATED:
                    with suppress(MemoryError):  # single commands need no memory of the driver
                        self.repeated = RepeatedCommands(pool, self.commands)
                        repeated.add(self.repeated)


def _repeated(runtime: Runtime) -> tuple[CommandPool, WeakSet[RepeatedCommands]]:
    """Makes the pool of a runtime's repeated commands, and the set of these."""
    return CommandPool(runtime.scheduler.placement.recording_queue, secondary=True), WeakSet()


class Series:
    """Runs steps as one task: what they access is registered once, and barriers are where they were needed.

    Args:
        steps: without reports. They run one by one where each is measured, traced or divided, or buffers move.
        slot: a free one, for the temporary memory.
        layout: of the temporary memory.
    """

    __slots__ = (
        "_allocated", "_barriers", "_constants", "_freed", "_reads", "_slots", "_steps", "_work", "_writes", "written",
    )  # fmt: skip

    def __init__(self, steps: Sequence[Step], slot: int, layout: Layout) -> None:
        self._steps = steps
        sizes = {
            step.slot: step.nbytes for step in steps if type(step) is AllocateStep and step.slot not in layout.starts
        }
        if layout.nbytes:
            sizes[slot] = layout.nbytes
        self._allocated = [*sizes.items()]
        self._constants = [(step.slot, step.buffer) for step in steps if type(step) is ConstantStep]
        moved = {at: (slot, start) for at, start in layout.starts.items()}
        self._work = [step.moved(moved) for step in steps if isinstance(step, _WORK)]
        self._freed = [step.slot for step in steps if type(step) is FreeStep and step.slot not in moved]
        if layout.nbytes:
            self._freed.append(slot)
        self.written = [at for step in steps for at in getattr(step, "written", ())]
        self._barriers = barriers_between(self._work, slot)
        own = [(at, 0, nbytes) for at, nbytes in self._allocated if nbytes]
        written, read = [part for work in self._work for part in work.writes], reads_from_before(self._work)
        writes, self._reads = ([*dict.fromkeys([x for x in parts if x[0] not in sizes])] for parts in (written, read))
        self._writes = own + writes
        self._slots = sorted({at for at, _, _ in (*own, *written, *read)})

    def run(self, memory: CallBuffers) -> None:
        """Runs the steps."""
        scheduler = memory.runtime.scheduler
        if scheduler.tracers or scheduler.profile is not None or scheduler.moves or not self._launch(memory):
            for at, _ in self._allocated:
                memory.buffers[at] = None
            for step in self._steps:
                step.run(memory)

    def _launch(self, memory: CallBuffers) -> bool:
        """Launches the task; returns False if the steps are to run one by one."""
        buffers, bases, runtime = memory.buffers, memory.bases, memory.runtime
        allocate = runtime.device.result_buffer
        try:
            for at, nbytes in self._allocated:
                buffers[at] = allocate(nbytes)
        except OutOfDeviceMemory:
            return False
        for at, buffer in self._constants:
            buffers[at] = buffer
        key = (self, *[buffers[at].location + bases[at] for at in self._slots])
        known = runtime.plans.get(key)
        if known is None and (known := self._commands(memory, key)) is None:
            return False
        writes = [(buffers[at], bases[at] + start, bases[at] + stop) for at, start, stop in self._writes]
        reads = [(buffers[at], bases[at] + start, bases[at] + stop) for at, start, stop in self._reads]
        if known.repeated is None:
            known.count(runtime)
        scheduler = runtime.scheduler
        enqueue = scheduler.enqueue_series_locked if memory.is_locked else scheduler.enqueue_series
        if not enqueue(known, writes, reads):
            return False
        for at in self._freed:
            buffers[at] = None
        return True

    def _commands(self, memory: CallBuffers, key: tuple[Any, ...]) -> _Commands | None:
        """Returns the commands for the addresses of the buffers; None if buffers move."""
        runtime = memory.runtime
        with runtime.scheduler.device.lock:
            if runtime.scheduler.moves:
                return None
            commands: list[Command] = []
            kept: list[Any] = []
            for work, has_barrier in zip(self._work, self._barriers, strict=True):
                if has_barrier:
                    commands.append(_BARRIER)
                commands += work.commands(memory, kept)
            made = _Commands(commands, self._work, kept)
            if sum([work.n_regions for work in self._work if type(work) is CopyStep]) <= _MOST_REGIONS:
                runtime.plans[key] = made
            return made


def in_series(steps: Sequence[Step], slot: int, kept: Set[int]) -> list[Step]:
    """Returns steps with those that follow each other as series; with a report around all, if all depends on it.

    Args:
        slot: a free one, for temporary memory.
        kept: slots of the arguments' memory, and of results; what is allocated for others is temporary.
    """
    reports = [step for step in steps if type(step) is ReportStep]
    every = [inner for step in steps for inner in _inside(step)]
    is_flat = not any(type(step) is ReportStep for step in every)
    if reports and is_flat and all(_is_needed(report, steps, kept) for report in reports):
        result = _joined(every, slot, kept)
        for report in reversed(reports):
            result = [report.with_steps(result)]
        return result
    result = []
    groups = [[*group] for _, group in groupby(steps, lambda step: step if type(step) is ReportStep else None)]
    for group in groups:
        others = {at for other in groups if other is not group for step in other for at in _accessed(step)}
        first = group[0]
        joined = _joined(first.steps if type(first) is ReportStep else group, slot, kept | others)
        result += [first.with_steps(joined)] if type(first) is ReportStep else joined
    return result


def _inside(step: Step) -> Sequence[Step]:
    """Returns the steps of a report; any other step itself."""
    return step.steps if type(step) is ReportStep else (step,)


def _accessed(step: Step) -> set[int]:
    """Returns the slots that a step accesses or frees, or those in it."""
    slots = {inner.slot for inner in _inside(step) if type(inner) is FreeStep}
    return slots | {part[0] for x in _inside(step) if isinstance(x, _WORK) for part in (*x.writes, *x.reads)}


def _joined(steps: Sequence[Step], slot: int, kept: Set[int]) -> list[Step]:
    """Returns steps as a series; as they are if they launch one task, use much temporary memory, or report."""
    layout = layout_of(steps, kept)
    n_tasks = sum([isinstance(step, _WORK) for step in steps])
    if n_tasks < 2 or layout.nbytes > _MOST_TEMPORARY or not all(isinstance(step, _MEMBERS) for step in steps):
        return [*steps]
    return [Series(steps, slot, layout)]


def _is_needed(report: ReportStep, steps: Sequence[Step], kept: Set[int]) -> bool:
    """True if all that is written to slots that are kept is computed from what the steps of a report write.

    Then what fails for the report's error is the same if it is around all steps.
    """
    reported: list[Part] = []
    for step in steps:
        for work in step.steps if type(step) is ReportStep else (step,):
            if not isinstance(work, _WORK):
                continue
            if step is report or any(_overlap(part, other) for part in work.reads for other in reported):
                reported += work.writes
            elif not kept.isdisjoint(work.written):
                return False
    return True


def _overlap(part: Part, other: Part) -> bool:
    """True if two parts have bytes in common."""
    return part[0] == other[0] and part[1] < other[2] and other[1] < part[2]


def layout_of(steps: Sequence[Step], kept: Set[int]) -> Layout:
    """Returns an address for each buffer that the steps allocate; one that is freed gives its address to others.

    Args:
        kept: slots of buffers that have an allocation of their own.
    """
    sizes: dict[int, int] = {}
    starts: dict[int, int] = {}
    unused: dict[int, list[int]] = {}
    end = 0
    for step in steps:
        if type(step) is AllocateStep and step.slot not in kept:
            sizes[step.slot] = nbytes = -(-max(step.nbytes, 1) // _ALIGNMENT) * _ALIGNMENT
            if unused.get(nbytes):
                starts[step.slot] = unused[nbytes].pop()
            else:
                starts[step.slot], end = end, end + nbytes
        elif type(step) is FreeStep and step.slot in sizes:
            unused.setdefault(sizes[step.slot], []).append(starts[step.slot])
    return Layout(starts, max(_LEAST_TEMPORARY, 1 << (end - 1).bit_length()) if end else 0)


_ALIGNMENT = max(PADDING, 256)
"""Of temporary buffers in one allocation: the largest alignment of bindings that Vulkan permits devices to ask for."""


def reads_from_before(work: Sequence[Any]) -> list[Part]:
    """Returns the parts that steps read, but for those that steps before have written."""
    reads, histories = list[Part](), defaultdict[int, AccessHistory](AccessHistory)
    for number, step in enumerate(work, 1):
        for at, start, stop in step.reads:
            reads += [(at, *part) for part in histories[at].unwritten(start, stop)]
        for at, start, stop in step.writes:
            histories[at].write(start, stop, 0, number, {})
    return reads


def barriers_between(work: Sequence[Any], temporary: int = -1) -> list[bool]:
    """Returns for each step whether it depends on one before it that no barrier orders yet.

    Args:
        temporary: the slot of temporary memory, where a step may also write the padding behind its elements: others
            have had their elements there.
    """
    histories = defaultdict[int, AccessHistory](AccessHistory)
    barriers, ordered = list[bool](), 0
    for number, step in enumerate(work, 1):
        dependencies: Dependencies = {}
        for at, start, end in step.writes:
            stop = -(-end // PADDING) * PADDING if at == temporary else end
            histories[at].write(start, stop, 0, number, dependencies)
        for at, start, stop in step.reads:
            histories[at].read(start, stop, 0, number, dependencies)
        barriers.append(dependencies.get(0, 0) > ordered)
        if barriers[-1]:
            ordered = number - 1
    return barriers
