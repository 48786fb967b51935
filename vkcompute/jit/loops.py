"""Launches where the driver ends loops without a word: in parts, each of which goes on where the one before stopped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from vkcompute import ir
from vkcompute.core.quirks import quirks_of
from vkcompute.errors import KernelError
from vkcompute.ir.intervals import Interval
from vkcompute.jit.compile import MODEST, Passes
from vkcompute.jit.control import LOOP
from vkcompute.runtime.cost import Grid
from vkcompute.runtime.future import Future
from vkcompute.runtime.kernel import Kernel
from vkcompute.runtime.tensor import Tensor

_AT_ONCE = 64
"""So many parts are launched without a look at whether they are needed: what has nothing to do costs little"""
_MOST_KNOWN = 1024


def loops_of(kernel: Kernel, passes: Passes, make: Callable[[], ir.Function]) -> Loops | None:
    """The loops of a kernel; None where its device never ends them. `make` gives what it was lowered from."""
    limit = quirks_of(kernel.runtime.device.physical).max_loop_iterations
    always, modest = passes
    if limit is None or (always is not None and always <= limit):
        return None
    return Loops(kernel, make, limit, modest is not None and modest <= limit)


def _is_modest(push: Any) -> bool:
    return isinstance(push, (float, np.floating)) or (isinstance(push, (int, np.integer)) and bool(0 <= push < MODEST))


class Loops:
    """The loops of a kernel, on a device whose driver leaves them after `limit` passes through bodies of loops.

    Args:
        modest: whether it never comes to that if all ints are less than MODEST.
    """

    def __init__(self, kernel: Kernel, make: Callable[[], ir.Function], limit: int, modest: bool) -> None:
        self._kernel, self._make, self._limit, self._modest = kernel, make, limit, modest
        self._budget = max(limit // 2, 1)
        self._known: dict[tuple[Any, ...], tuple[int | None, Any]] = {}

    def harmless(self, pushes: Sequence[Any], grid: Grid) -> bool:
        """Whether a launch on this grid stays within the limit; of the push constants, None may be any number."""
        if self._modest and all(map(_is_modest, pushes)):
            return True
        n, _ = self._most(pushes, grid)
        return n is not None and n <= self._limit

    def launch(self, tensors: Sequence[Tensor], pushes: Sequence[Any], grid: Grid) -> Future:
        """Launches the kernel, in parts where it may need them.

        If the number of parts is not known before, it returns when all is done.

        Raises:
            KernelError: it comes to the limit, and cannot be launched in parts.
        """
        if self.harmless(pushes, grid):
            return self._kernel(*tensors, *pushes, grid=grid)
        n, _ = self._most(pushes, grid)
        n_parts = _AT_ONCE + 1 if n is None else n // self._budget + 1
        graph = self._kernel.runtime.scheduler.recording()
        if not ir.can_resume(self._function):
            return self._watch(tensors, pushes, grid)
        if graph is not None and n_parts > _AT_ONCE:
            raise self._error(pushes, grid, "a graph records it")
        first, again, n_words = self._parts
        state, status = self._memory(n_words, grid)
        args = (*tensors, state, status, *pushes)
        last = first(*args, grid=grid)
        if n_parts <= _AT_ONCE:
            for _ in range(n_parts - 1):
                last = again(*args, grid=grid)
            return last
        while status.numpy()[0]:
            status.fill(0)
            last = again(*args, grid=grid)
        return last

    def _watch(self, tensors: Sequence[Tensor], pushes: Sequence[Any], grid: Grid) -> Future:
        """Launches a kernel that cannot stop, and looks whether it stayed within the limit."""
        why = "its invocations share memory, or wait for each other"
        if self._kernel.runtime.scheduler.recording() is not None:
            raise self._error(pushes, grid, why)
        kernel, loops = self._watched
        left, status = self._memory(1, grid)
        done = kernel(*tensors, left.fill(0), status, *pushes, grid=grid)
        number = int(status.numpy()[0])
        if number:
            raise self._error(pushes, grid, why, loops[number - 1])
        return done

    # -- what is known ------------------------------------------------------------------------------------------------

    @cached_property
    def _function(self) -> ir.Function:
        return self._make()

    def _most(self, pushes: Sequence[Any], grid: Grid) -> tuple[int | None, Any]:
        """The most passes, and the loop that has most of them; as `ir.most_passes`."""
        numbers = [int(each) if isinstance(each, (int, np.integer, np.bool_)) else None for each in pushes]
        key = *numbers, grid
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = ir.most_passes(self._function, self._given(numbers, grid))
        return self._known[key]

    def _given(self, numbers: Sequence[int | None], grid: Grid) -> dict[object, Interval]:
        pairs = zip(self._function.pushes, numbers, strict=True)
        given: dict[object, Interval] = {push: (number, number) for push, number in pairs if number is not None}
        for axis, (n, size) in enumerate(zip(grid, self._kernel.local_size, strict=True)):
            given["n_groups", axis] = n, n
            given["group_id", axis] = 0, max(n - 1, 0)
            given["global_id", axis] = 0, max(n * size - 1, 0)
        return given

    # -- what is made -------------------------------------------------------------------------------------------------

    @cached_property
    def _parts(self) -> tuple[Kernel, Kernel, int]:
        """The kernel that begins, the one that goes on, and the words of state per invocation."""
        first, n_words = ir.resumable(self._function, self._budget, again=False)
        again, _ = ir.resumable(self._function, self._budget, again=True)
        return self._lowered(first), self._lowered(again), n_words

    @cached_property
    def _watched(self) -> tuple[Kernel, list[Any]]:
        """The kernel that notices when a loop is left, and its loops."""
        function, loops = ir.watched(self._function)
        return self._lowered(function), loops

    def _lowered(self, function: ir.Function) -> Kernel:
        spirv = ir.lower(ir.optimize(function))
        return self._kernel.runtime.kernel(spirv, name=self._kernel.name, check_types=False)

    def _memory(self, n_words: int, grid: Grid) -> tuple[Tensor, Tensor]:
        """So many words per invocation, and the status."""
        runtime = self._kernel.runtime
        n_invocations = math.prod(grid) * math.prod(self._kernel.local_size)
        nbytes, most = n_words * n_invocations * 4, runtime.device.physical.limits["maxStorageBufferRange"]
        if nbytes > most:
            raise KernelError(
                f"{self._kernel.name} may go through loops more than {self._limit} times, where {runtime.device} ends "
                f"them; to go on in another launch, it keeps {n_words * 4} bytes per invocation, {nbytes} bytes in "
                f"all, and a binding has at most {most}; launch fewer invocations at a time, on views of the tensors"
            )
        graph = runtime.scheduler.recording()
        empty = (runtime if graph is None else graph).empty
        return empty(n_words * n_invocations, np.uint32), empty(1, np.uint32).fill(0)

    def _error(self, pushes: Sequence[Any], grid: Grid, why: str, loop: Any = None) -> KernelError:
        n, worst = self._most(pushes, grid)
        times = "as often as its data say" if n is None else f"up to {n} times"
        went = f"may go through loops {times}, most often this one" if loop is None else "was ended in this loop"
        message = (
            f"{self._kernel.name} {went}; {self._kernel.runtime.device} ends an invocation's loops after {self._limit} "
            f"iterations in all, and this kernel cannot go on in another launch: {why}; give each invocation less to "
            "do, or loop over range(n) with an n that the launch knows"
        )
        place = str(getattr(loop or worst, "loc", LOOP))
        return KernelError(place.replace(LOOP, message, 1) if LOOP in place else message)
