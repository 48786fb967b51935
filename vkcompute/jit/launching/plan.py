"""Plans: launches of a kernel in Python that are repeated with the same buffers and types."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from vkcompute.jit.compilation.specialization import Specialization
from vkcompute.jit.launching.loops import Loops
from vkcompute.runtime.launching.kernel import Launch
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.runtime.scheduling.future import Future


class Plan:
    """Repeats a launch for arguments with the same slots of tensors and types of numbers, on the same grid.

    It holds weak references to the kernel and its descriptor sets: a kernel function outlives runtimes.
    """

    __slots__ = (
        "_captured", "_command", "_cost", "_extents", "_grid", "_harmless", "_kernel", "_pack", "_reads_at", "_sets",
        "_values", "_writes_at",
    )  # fmt: skip

    def __init__(
        self, found: Specialization, args: Sequence[Any], extents: Sequence[int], launch: Launch, loops: Loops | None
    ) -> None:
        command, _, _, (kernel, sets, self._cost) = launch
        *self._command, _, _, self._grid = command
        self._kernel, self._sets, self._pack = weakref.ref(kernel), weakref.ref(sets), kernel.push.packer or bytes
        tensors = [at for at, arg in enumerate(args) if type(arg) is Tensor]
        self._writes_at, self._reads_at = ([tensors[i] for i in which] for which in (kernel.writes, kernel.reads))
        self._values = _picker([at for at, arg in enumerate(args) if type(arg) is not Tensor])
        self._extents, self._captured = extents, found.captured
        self._harmless = weakref.WeakMethod(loops.harmless) if loops is not None else None

    def launch(self, args: tuple[Any, ...], queue: int | str | None) -> Future | None:
        """Launches, unless a captured global has changed or a graph is being recorded: then returns None."""
        kernel, sets = self._kernel(), self._sets()
        if kernel is None or sets is None or (scheduler := kernel.runtime.scheduler).n_recordings:
            return None
        for lookup, name, found, _ in self._captured:
            if lookup(name) is not found:
                return None
        values = [*self._values(args), *self._extents]
        if self._harmless is not None and not ((harmless := self._harmless()) and harmless(values, self._grid)):
            return None
        try:
            push = self._pack(*values)
        except (struct.error, TypeError, OverflowError):  # needs another specialization, or is the caller's error
            return None
        writes, reads = [args[at].span for at in self._writes_at], [args[at].span for at in self._reads_at]
        keep = kernel, sets, self._cost
        return scheduler.dispatch((*self._command, push, len(push), self._grid), writes, reads, queue, keep)


def _picker(at: list[int]) -> Callable[[tuple[Any, ...]], Sequence[Any]]:
    """Returns a function that picks these arguments; a slice if they are adjacent, which is faster."""
    first, stop = (at[0], at[-1] + 1) if at else (0, 0)
    if len(at) == stop - first:
        return itemgetter(slice(first, stop))
    return lambda args: [args[each] for each in at]
