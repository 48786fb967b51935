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
from vkcompute.jit import arrivals
from vkcompute.jit.compile import MODEST, Passes
from vkcompute.jit.control import LOOP
from vkcompute.runtime.cost import Grid
from vkcompute.runtime.future import Future
from vkcompute.runtime.kernel import Kernel
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.tensor import Tensor

_AT_ONCE = 64
"""So many parts are launched without a look at whether they are needed: what has nothing to do costs little"""
_MOST_KNOWN = 1024
_STATUS_WORDS = 64


def on_device(
    runtime: Runtime, spirv: bytes, passes: Passes, load: Callable[[], Kernel], make: Callable[[], ir.Function]
) -> tuple[Kernel, int, Loops | None]:
    """A compiled kernel, the most groups that the device launches along x, and its loops; loaded once per runtime."""
    if spirv not in runtime.memo:
        kernel = load()
        most = runtime.device.physical.limits["maxComputeWorkGroupCount"][0]
        runtime.memo[spirv] = kernel, most, _loops_of(kernel, passes, make)
    return runtime.memo[spirv]  # type: ignore[no-any-return]


def _loops_of(kernel: Kernel, passes: Passes, make: Callable[[], ir.Function]) -> Loops | None:
    """The loops of a kernel; None where its device never ends them. `make` gives what it was lowered from."""
    limit = quirks_of(kernel.runtime.device.physical).max_loop_iterations
    always, modest = passes
    if limit is None or (always is not None and always <= limit):
        return None
    return Loops(kernel, make, limit, modest is not None and modest <= limit)


def _is_modest(push: Any) -> bool:
    return isinstance(push, (float, np.floating)) or (isinstance(push, (int, np.integer)) and bool(0 <= push < MODEST))


def _overlap(kernel: Kernel, tensors: Sequence[Tensor]) -> bool:
    """Whether the kernel writes a tensor and reads another one that shares bytes with it."""
    return any(tensors[i].overlaps(tensors[j]) for i in kernel.writes for j in kernel.reads if i != j)


class Loops:
    """The loops of a kernel, on a device whose driver leaves them after `limit` passes through bodies of loops.

    Args:
        modest: whether it never comes to that if all ints are less than MODEST.
    """

    def __init__(self, kernel: Kernel, make: Callable[[], ir.Function], limit: int, modest: bool) -> None:
        self._kernel, self._make, self._limit, self._modest = kernel, make, limit, modest
        self._budget = max(limit // 2, 1)
        self._known: dict[tuple[Any, ...], int | None] = {}

    def harmless(self, pushes: Sequence[Any], grid: Grid) -> bool:
        """Whether a launch on this grid stays within the limit; of the push constants, None may be any number."""
        if self._modest and all(map(_is_modest, pushes)):
            return True
        n = self._most(pushes, grid)
        return n is not None and n <= self._limit

    def launch(
        self, tensors: Sequence[Tensor], pushes: Sequence[Any], grid: Grid, queue: int | str | None = None
    ) -> Future:
        """Launches the kernel, in parts where it may need them.

        If the number of parts is not known before, it returns when all is done.

        Raises:
            KernelError: what is kept between the parts is more than a binding may have. If it comes to the limit and
                cannot be launched in parts, whoever waits for the launch finds the error.
        """
        if self.harmless(pushes, grid):
            return self._kernel(*tensors, *pushes, grid=grid, queue=queue)
        n, graph = self._most(pushes, grid, remainders=False), self._kernel.runtime.scheduler.recording()
        n_parts = _AT_ONCE + 1 if n is None else n // max(self._budget // ir.weight(self._function), 1) + 1
        if not ir.can_resume(self._function):
            return self._watch(tensors, pushes, grid, queue, "its invocations share memory, or wait for each other")
        if n_parts <= _AT_ONCE:
            return self._launch_parts(tensors, pushes, grid, queue, n_parts)
        if graph is not None:
            return self._watch(tensors, pushes, grid, queue, "a graph has recorded it, without knowing how often")
        return self._try(tensors, pushes, grid, queue) or self._launch_parts(tensors, pushes, grid, queue, None)

    def _try(self, tensors: Sequence[Tensor], pushes: Sequence[Any], grid: Grid, queue: Any) -> Future | None:
        """Launches what notices when it comes to its end too late; None if it did, or cannot begin again then.

        It takes less time than what keeps its state.
        """
        if not ir.repeatable(self._function) or _overlap(self._kernel, tensors):
            return None
        status = tensors[0].runtime.zeros(1, np.uint32)
        done = self._short(*tensors, status, *pushes, grid=grid, queue=queue)
        return None if status.numpy()[0] else done

    def _launch_parts(
        self, tensors: Sequence[Tensor], pushes: Sequence[Any], grid: Grid, queue: Any, n: int | None
    ) -> Future:
        """Launches `n` parts, or as many as it takes."""
        runtime = self._kernel.runtime
        first, again, n_words = self._parts
        status = (runtime.scheduler.recording() or runtime).empty(1, np.uint32).fill(0)
        args = (*tensors, status, self._memory(n_words, grid), *pushes)
        last = first(*args, grid=grid, queue=queue)
        for _ in range(n - 1 if n else 0):
            last = again(*args, grid=grid, queue=queue)
        while n is None and status.numpy()[0]:
            status.fill(0)
            last = again(*args, grid=grid, queue=queue)
        return last

    def _watch(self, tensors: Sequence[Tensor], pushes: Sequence[Any], grid: Grid, queue: Any, why: str) -> Future:
        """Launches the kernel such that it fails if it comes to the limit; `why` it cannot go on then."""
        kernel, loops = self._watched

        def read(words: arrivals.Words) -> Exception | None:
            number, words[0] = int(words[0]), 0
            return self._error(loops[number - 1], why) if number else None

        def run(status: Tensor) -> Future:
            return kernel(*tensors, self._memory(1, grid).fill(0), status, *pushes, grid=grid, queue=queue)

        return arrivals.expect(kernel.runtime, _STATUS_WORDS, read, run)

    # -- what is known ------------------------------------------------------------------------------------------------

    @cached_property
    def _function(self) -> ir.Function:
        return self._make()

    def _most(self, pushes: Sequence[Any], grid: Grid, *, remainders: bool = True) -> int | None:
        """As `ir.most_passes`."""
        numbers = [int(each) if isinstance(each, (int, np.integer, np.bool_)) else None for each in pushes]
        key = *numbers, grid, remainders
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            given = self._given(numbers, grid)
            self._known[key] = ir.most_passes(self._function, given, remainders=remainders)
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
        first, n_words = ir.resumable(self._function, self._budget)
        again, _ = ir.resumable(self._function, self._budget, again=True)
        return self._lowered(first), self._lowered(again), n_words

    @cached_property
    def _short(self) -> Kernel:
        """The kernel that stops."""
        return self._lowered(ir.resumable(self._function, self._budget, keep=False)[0])

    @cached_property
    def _watched(self) -> tuple[Kernel, list[Any]]:
        """The kernel that notices when a loop is left, and its loops."""
        function, loops = ir.watched(self._function)
        return self._lowered(function), loops

    def _lowered(self, function: ir.Function) -> Kernel:
        spirv = ir.lower(ir.optimize(function))
        return self._kernel.runtime.kernel(spirv, name=self._kernel.name, check_types=False)

    def _memory(self, n_words: int, grid: Grid) -> Tensor:
        """So many words per invocation."""
        runtime = self._kernel.runtime
        n_invocations = math.prod(grid) * math.prod(self._kernel.local_size)
        nbytes, most = n_words * n_invocations * 4, runtime.device.physical.limits["maxStorageBufferRange"]
        if nbytes > most:
            raise KernelError(
                f"{self._kernel.name} may go through loops more than {self._limit} times, where {runtime.device} ends "
                f"them; to go on in another launch, it keeps {n_words * 4} bytes per invocation, {nbytes} bytes in "
                f"all, and a binding has at most {most}; launch fewer invocations at a time, on views of the tensors"
            )
        return (runtime.scheduler.recording() or runtime).empty(n_words * n_invocations, np.uint32)

    def _error(self, loop: Any, why: str) -> KernelError:
        message = (
            f"{self._kernel.name} was ended in this loop: {self._kernel.runtime.device} ends an invocation's loops "
            f"after {self._limit} iterations in all, and this launch could not go on in another: {why}; give each "
            "invocation less to do"
        )
        place = str(loop.loc)
        return KernelError(place.replace(LOOP, message, 1) if LOOP in place else message)
