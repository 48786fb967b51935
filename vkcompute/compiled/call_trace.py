"""Traces of calls: what a call with certain arguments allocates and launches, as steps that repeat it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from vkcompute.compiled.call_series import in_series
from vkcompute.compiled.call_steps import (
    AllocateStep,
    ConstantStep,
    CopyStep,
    FillStep,
    FreeStep,
    LaunchStep,
    Part,
    ReportStep,
    SlotArray,
    Step,
)
from vkcompute.core import vk
from vkcompute.core.buffer import Buffer
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.scheduling import task as tasks
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.scheduler import Scheduler

_T = TypeVar("_T")
_MOST_STEPS = 256
_MOST_KEPT_BYTES = 1 << 14


class _RefusedError(Exception):
    """The call cannot be repeated."""


class CallTrace:
    """Notes the work of one call, on the slots of its memory: first those of the arguments.

    Memory that is neither an argument's nor allocated by the call makes it one that cannot be repeated. So does what
    the host reads.

    Args:
        arrays: the arguments; lazy ones have memory once the call computes them.
        made: lazy arrays that are the call's own.
        knows_lazy: True if lazy arguments may stay lazy, as they have the same structures in repeated calls.

    Attributes:
        keeps_lazy: True if the call has left lazy arguments so, and has launched nothing.
        steps: the steps so far.
        reason: why the call cannot be repeated, or "".
        n_slots: the number of slots.
    """

    def __init__(
        self, scheduler: Scheduler, arrays: Sequence[Array], made: Sequence[Array] = (), *, knows_lazy: bool = False
    ) -> None:
        self._scheduler, self._arrays = scheduler, arrays
        self._knows_lazy, self.keeps_lazy = knows_lazy, False
        self.steps: list[Step] = []
        self.reason, self.n_slots = "", len(arrays)
        self._slots: dict[int, int] = {}  # by the ids of buffers
        self._bases = [0] * len(arrays)
        self._kept: dict[int, Buffer] = {}
        self._made: dict[int, weakref.ref[Array]] = {id(array): weakref.ref(array) for array in made}
        self._references: list[weakref.ref[Buffer]] = []
        self._is_paused = False
        self._lazy = {id(array): at for at, array in enumerate(arrays) if array.is_pending}
        self._n_lazy = len(self._lazy)
        for at, array in enumerate(arrays):
            if not array.is_pending:
                self._add_argument(at, array.buffer)

    def _add_argument(self, at: int, buffer: Buffer) -> None:
        if id(buffer) not in self._slots:
            self._slots[id(buffer)], self._bases[at] = at, self._arrays[at].offset

    # -- the notes of a `Tracer` --------------------------------------------------------------------------------------

    def dispatched(
        self, command: Sequence[Any], writes: Sequence[Range], reads: Sequence[Range], launched: Any
    ) -> None:
        """Notes a launch."""
        kernel, sets, cost, args = launched
        if self._ignores():
            return
        try:
            if kernel.windows or not (writes or reads):
                raise _RefusedError("it binds windows of memory, or none")
            if args:
                writes, reads = kernel.ranges_among(args)
            written, read = ([self._part(span) for span in ranges] for ranges in (writes, reads))
            # Results of a pack are copied elsewhere: these ranges follow those of the bindings.
            starts = {**dict(zip(kernel.reads, read, strict=True)), **dict(zip(kernel.writes, written, strict=False))}
            bound = _bound(starts, [nbytes for _, nbytes in sets.ranges])
            self._add(LaunchStep(kernel, cost, command, written, read, bound))
        except _RefusedError as error:
            self.refuse(str(error))

    def launched(self, task: tasks.Task) -> None:
        """Notes a copy or a fill; refuses other tasks."""
        if self._ignores():
            return
        try:
            if type(task) is tasks.Fill:
                self._add(FillStep(self._part(task.writes[0]), task.word))
            elif type(task) is tasks.Copy:
                self._add_copy(self._copy(task))
            else:
                raise _RefusedError(f"it has a task of another kind, {task.name}")
        except _RefusedError as error:
            self.refuse(str(error))

    def allocated(self, buffer: Buffer) -> None:
        """Notes a new buffer, and its end."""
        if self._ignores():
            return
        slot = self._new_slot(buffer)
        self._add(AllocateStep(slot, buffer.used_bytes))
        self._references.append(weakref.ref(buffer, partial(self._freed, id(buffer), slot)))

    def _freed(self, key: int, slot: int, _: object) -> None:
        if self._slots.get(key) == slot:
            del self._slots[key]
            self.steps.append(FreeStep(slot))

    def uploaded(self, buffer: Buffer, offset: int, nbytes: int) -> None:
        """Notes a write by the host to the whole of a new small buffer, whose content all calls have in common."""
        if self._ignores():
            return
        slot = self._slots.get(id(buffer), -1)
        is_new = any(type(step) is AllocateStep and step.slot == slot for step in self.steps)
        if not is_new or (offset, nbytes) != (0, buffer.used_bytes) or nbytes > _MOST_KEPT_BYTES:
            self.refuse("the host writes to an array")
            return
        self._forget_allocation(slot)
        self._kept[slot] = buffer
        self._add(ConstantStep(slot, buffer))

    def refuse(self, reason: str) -> None:
        """Notes that the call cannot be repeated."""
        if not self._is_paused:
            self.reason = self.reason or reason
            self.steps = []

    def made(self, array: Array) -> None:
        """Notes a lazy array of the call."""
        self._made[id(array)] = weakref.ref(array)

    def fused(self, array: Array) -> None:
        """Refuses a call whose work depends on the expression of an argument, which is no part of its layout."""
        if id(array) in self._lazy:
            self.refuse("it computes a lazy argument together with others")

    def computed(self, array: Array, compute: Callable[[], _T]) -> _T:
        """Notes the work that computes a lazy array, if the call has made it. An argument is computed by itself."""
        own = self._made.get(id(array))
        if self._is_paused or (own is not None and own() is array):
            return compute()
        self._is_paused = True
        try:
            result: Any = compute()
        finally:
            self._is_paused = False
        at = self._lazy.pop(id(array), None)
        if at is not None and array is self._arrays[at]:
            self._add_argument(at, result.buffer)
        return result  # type: ignore[no-any-return]

    def reported(
        self, buffer: Buffer, n_words: int, read: Callable[[Any], Exception | None], run: Callable[[], _T]
    ) -> _T:
        """Notes the work of `run()`, which reports to a buffer."""
        if self._ignores():
            return run()
        self._forget_allocation(self._slots.get(id(buffer), -1))  # a new one is kept for later reports
        before, self.steps = self.steps, []
        slot = self._new_slot(buffer)
        try:
            result = run()
        except BaseException:  # the call may go on without it
            self.refuse("a launch that reports has failed")
            raise
        finally:
            self._slots.pop(id(buffer), None)
        inner, self.steps = self.steps, before
        self._add(ReportStep(slot, n_words, read, inner))
        return result

    # -- the end of a trace -------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Checks that the call can be repeated, once it has returned."""
        written = {at for step in self.steps for at in getattr(step, "written", ())}
        if self._lazy:
            self.keeps_lazy = self._knows_lazy and not self.steps and len(self._lazy) == self._n_lazy
            if not self.keeps_lazy:
                self.refuse("it does not compute a lazy argument")
        if not written.isdisjoint(self._kept):
            self.refuse("it writes to constants")
        self.n_slots += 1  # for temporary memory

    def series(self, results: Iterable[SlotArray | None]) -> list[Step]:
        """Returns the steps as series: what is allocated for other memory than that of results is temporary."""
        kept = {*range(len(self._arrays)), *[view.slot for view in results if view is not None]}
        return in_series(self.steps, self.n_slots - 1, kept)

    def close(self) -> None:
        """Ends the notes of buffers that are freed."""
        self._references.clear()

    def view(self, array: Array) -> SlotArray | None:
        """Returns an array in memory as one on a slot; None for memory of others. An operand may be a constant."""
        slot = self._slots.get(id(array.buffer))
        if slot is None:
            return None
        start = array.offset - self._base(slot)
        is_whole = array.contiguous and not start and self.is_own(slot)
        _, first, stop = array.span
        extent = None if array.contiguous else (first - array.offset, stop - array.offset)
        return SlotArray(slot, start, array.shape, array.strides, array.dtype, array.nbytes, is_whole, extent)

    def copied(self, view: SlotArray, constant: Buffer) -> SlotArray:
        """Returns a constant as an array that each call makes: a copy of a buffer with the same content.

        The caller may change the array that the traced call has made.
        """
        self._kept[view.slot] = constant
        self.steps = [
            ConstantStep(x.slot, constant) if type(x) is ConstantStep and x.slot == view.slot else x for x in self.steps
        ]
        slot, self.n_slots = self.n_slots - 1, self.n_slots + 1  # before that for temporary memory
        part, rows = (view.slot, 0, view.nbytes), np.array([(0, 0, view.nbytes)])
        self.steps += [AllocateStep(slot, view.nbytes), CopyStep([(part, rows)], (slot, 0, view.nbytes))]
        return view._replace(slot=slot, start=0, is_whole=True)

    def is_own(self, slot: int) -> bool:
        """True if a slot is memory that each call allocates."""
        return slot >= len(self._arrays) and slot not in self._kept

    def is_constant(self, slot: int) -> bool:
        """True if a slot is memory whose content is the same in all calls."""
        return slot in self._kept

    def _ignores(self) -> bool:
        """True if a note has no effect; refuses calls of too many steps, and those on devices that are full."""
        if len(self.steps) > _MOST_STEPS:
            self.refuse("it has too many steps")
        if self._scheduler.moves:
            self.refuse("device memory is full")
        return self._is_paused or bool(self.reason)

    def _forget_allocation(self, slot: int) -> None:
        """Removes the allocation of a buffer that calls do not make anew."""
        self.steps = [step for step in self.steps if not (type(step) is AllocateStep and step.slot == slot)]

    def _add(self, step: Step) -> None:
        self.steps.append(step)

    def _add_copy(self, copy: CopyStep) -> None:
        """Adds a copy, as one with that before if they need no order."""
        before = self.steps[-1] if self.steps else None
        if type(before) is CopyStep and self.is_own(copy.written[0]) and (both := before.joined(copy)) is not None:
            self.steps[-1] = both
        else:
            self._add(copy)

    def _new_slot(self, buffer: Buffer) -> int:
        slot = self._slots[id(buffer)] = self.n_slots
        self.n_slots += 1
        return slot

    def _base(self, slot: int) -> int:
        return self._bases[slot] if slot < len(self._bases) else 0

    def _part(self, where: Range) -> Part:
        buffer, start, stop = where
        slot = self._slots.get(id(buffer))
        if slot is None:
            raise _RefusedError("it uses memory that is neither an argument's nor its own")
        base = self._base(slot)
        return slot, start - base, stop - base

    def _copy(self, task: tasks.Copy) -> CopyStep:
        goal, target = task.writes[0], self._part(task.writes[0])
        sources = []
        for source, regions, n in task.parts:
            part = self._part(source)
            table = np.frombuffer(vk.ffi.buffer(regions, 24 * n), np.int64).reshape(-1, 3).copy()
            table[:, 0] -= source[0].offset + self._base(part[0])
            table[:, 1] -= goal[0].offset + self._base(target[0])
            sources.append((part, table))
        return CopyStep(sources, target)


def _bound(starts: Mapping[int, Part], lengths: Sequence[int]) -> list[Part]:
    """Returns the part of each binding with its length; another's for one that the kernel does not access."""
    longest = max(starts, key=lengths.__getitem__)
    if max(lengths) > lengths[longest]:  # a part of it may be no whole number of texels
        raise _RefusedError("it binds an array that it does not access, longer than the others")
    return [(*starts[at if at in starts else longest][:2], nbytes) for at, nbytes in enumerate(lengths)]
