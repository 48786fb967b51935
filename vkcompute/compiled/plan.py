"""Plans: launches of compiled functions that are repeated with the same buffers and types."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from vkcompute.compiled.loops import Loops
from vkcompute.compiled.specialization import Specialization
from vkcompute.runtime.launching.kernel import Launch
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.scheduling.future import Future, QueuedTask


class Order(NamedTuple):
    """The parts of a call's arguments.

    Attributes:
        arrays: positions of the arrays in the order of the bindings; of some, more than once.
        numbers: positions of the numbers in the order of the push constants.
        prepare: returns the arguments with these positions for those of a call; None if they are the same.
    """

    arrays: Sequence[int]
    numbers: Sequence[int]
    prepare: Callable[[Sequence[Any]], Sequence[Any]] | None = None


class Plan:
    """Repeats a launch for arguments with the same launch keys of arrays and types of numbers, on the same grid.

    It refers weakly to the kernel and its specialization: a plan keeps neither of them, nor captured objects, alive.

    Attributes:
        specialization: a weak reference to the specialization.
        single: that of the specialization.
    """

    __slots__ = (
        "_accessed",
        "_arrays",
        "_binds_more",
        "_binds_twice",
        "_command",
        "_constant",
        "_cost",
        "_extents",
        "_grid",
        "_harmless",
        "_kernel",
        "_n_written",
        "_pack",
        "_prepare",
        "_sets",
        "_values",
        "single",
        "specialization",
    )  # fmt: skip

    def __init__(
        self,
        specialization: Specialization,
        order: Order,
        args: Sequence[Any],
        extents: Sequence[int],
        launch: Launch,
        loops: Loops | None,
    ) -> None:
        command, _, _, (kernel, self._sets, self._cost, _) = launch
        *self._command, _, _, self._grid = command
        self._kernel, self._pack = weakref.ref(kernel), kernel.push.packer or bytes
        arrays, self._prepare = order.arrays, order.prepare
        writes_at, reads_at = (
            [*{args[arrays[i]].launch_key: arrays[i] for i in which}.values()]  # some are bound twice
            for which in (kernel.writes, kernel.reads)
        )
        self._accessed, self._n_written = _picker(writes_at + reads_at), len(writes_at)
        n_ranges, n_bound = len(writes_at + reads_at), len(kernel.writes + kernel.reads)
        self._binds_more, self._binds_twice = kernel.binds_more, n_ranges < n_bound
        self._arrays, self._values = _picker(arrays), _picker(order.numbers)
        self.specialization, self.single = weakref.ref(specialization), specialization.single
        self._extents = extents
        self._constant = command if not order.numbers and loops is None else None
        self._harmless = weakref.WeakMethod(loops.harmless) if loops is not None else None

    def launch(self, args: Sequence[Any], queue: int | str | None) -> Future | None:
        """Launches, unless a captured global has changed or a graph is being recorded: then returns None."""
        queued = self.enqueue(args, queue)
        return None if queued is None else Future(*queued)

    def enqueue(
        self, args: Sequence[Any], queue: int | str | None = None, *, is_locked: bool = False
    ) -> QueuedTask | None:
        """Launches as `launch`, for callers who need no future.

        Args:
            is_locked: True for a caller who has the device's lock, as for `Scheduler.enqueue_locked`.
        """
        kernel, specialization = self._kernel(), self.specialization()
        if kernel is None or specialization is None or (scheduler := kernel.runtime.scheduler).recordings:
            return None
        try:
            for lookup, name, value, _ in specialization.captured:
                if lookup(name) is not value:
                    return None
        except (AttributeError, KeyError, ValueError):  # deleted: compiling again says so
            return None
        if self._prepare is not None:
            args = self._prepare(args)
        if (command := self._constant or self._commanded(args)) is None:
            return None
        bound = self._arrays(args) if self._binds_more or self._binds_twice else ()
        if self._binds_more:
            writes, reads = kernel.ranges(bound)
        else:
            spans, n_written = [array.span for array in self._accessed(args)], self._n_written
            writes, reads = spans[:n_written], spans[n_written:]
        launched = kernel, self._sets, self._cost, bound if self._binds_twice else ()
        enqueue = scheduler.enqueue_locked if is_locked else scheduler.enqueue
        return enqueue(command, writes, reads, queue, launched)

    def _commanded(self, args: Sequence[Any]) -> tuple[Any, ...] | None:
        """Returns the command with the numbers among the arguments; None if they do not suit the kernel."""
        values = [*self._values(args), *self._extents]
        if self._harmless is not None and not ((harmless := self._harmless()) and harmless(values, self._grid)):
            return None
        try:
            push = self._pack(*values)
        except (struct.error, TypeError, OverflowError):  # needs another specialization, or is the caller's error
            return None
        return (*self._command, push, len(push), self._grid)


def argument_keys(args: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the part of a plan's key for arguments: the launch keys of arrays and the types of numbers."""
    return tuple([arg.launch_key if type(arg) is Array else type(arg) for arg in args])


def _picker(at: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Returns a function that picks these arguments; a slice if they are adjacent, which is faster."""
    first, stop = (at[0], at[-1] + 1) if at else (0, 0)
    return itemgetter(slice(first, stop)) if [*at] == [*range(first, stop)] else itemgetter(*at)
