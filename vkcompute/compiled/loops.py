"""Launches on a driver that cuts loops at a limit of iterations: an error instead of a wrong result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from vkcompute import ir
from vkcompute.compiled import completion
from vkcompute.compiled.specialization import LOOP, MODEST, IterationBounds, Specialization
from vkcompute.compiled.spilling_kernel import AnyKernel, SpillingKernel, is_spilled
from vkcompute.compiled.target import target_of
from vkcompute.core.quirks import quirks_of
from vkcompute.errors import KernelError
from vkcompute.ir.function import Op
from vkcompute.ir.intervals import Interval
from vkcompute.runtime.bounded_cache import BoundedCache
from vkcompute.runtime.launching.kernel import Kernel
from vkcompute.runtime.launching.program import Program
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import kernel_of
from vkcompute.runtime.runtime import Runtime, runtime_of
from vkcompute.runtime.scheduling.cost import Grid
from vkcompute.runtime.scheduling.future import Future

_MAX_KNOWN = 1024
_STATUS_WORDS = 64


class _Arguments(NamedTuple):
    """Properties of a kernel's arguments that its SPIR-V lacks; see `Specialization` and `SpillingKernel`."""

    limits: tuple[tuple[int, str], ...]
    strided: tuple[tuple[int, int], ...]
    array_bindings: ir.ArrayBindings | None
    in_words: tuple[int, ...]
    elementwise: bool
    windows: tuple[int, ...]
    subgroup_size: int | None


def on_device(
    runtime: Runtime, name: str, specialization: Specialization, make: Callable[[], ir.Function]
) -> tuple[AnyKernel, Loops | None]:
    """Returns the kernel of a specialization, and its loops; `make` gives the function that it was lowered from."""
    arguments = _Arguments(
        specialization.limits,
        specialization.strided,
        specialization.array_bindings,
        specialization.in_words,
        bool(specialization.dtypes),
        specialization.windows,
        specialization.subgroup_size,
    )

    def loaded() -> tuple[AnyKernel, Loops | None]:
        kernel = _kernel(runtime, name, specialization.module, arguments)
        return kernel, _loops_of(kernel, arguments, specialization.iterations, make)

    return kernel_of(runtime, (name, specialization.module, arguments), loaded)


def _kernel(runtime: Runtime, name: str, module: ir.KernelModule, arguments: _Arguments) -> AnyKernel:
    """Makes a kernel; the signature has checked its types, and memory may hold the bits of floats as integers."""
    limits, strided, array_bindings, in_words, elementwise, windows, subgroup_size = arguments
    loaded = Program(name, *module, subgroup_size=subgroup_size)
    if array_bindings is not None or is_spilled(loaded):
        made: AnyKernel = SpillingKernel(
            runtime, loaded, array_bindings, strided, in_words, elementwise=elementwise, windows=windows
        )
    else:
        made = Kernel(runtime, loaded, (), check_types=False, strided=strided, in_words=in_words, windows=windows)
    made.push.restrict(limits)
    return made


def _loops_of(
    kernel: AnyKernel, arguments: _Arguments, iterations: IterationBounds, make: Callable[[], ir.Function]
) -> Loops | None:
    """The loops of a kernel; None where its device never cuts them. `make` gives the function it was lowered from."""
    limit = quirks_of(kernel.runtime.device.physical).max_loop_iterations
    always, modest = iterations
    if limit is None or (always is not None and always <= limit):
        return None
    return Loops(kernel, arguments, make, limit, modest is not None and modest <= limit)


class _Noted(Mapping[Any, Interval]):
    """A mapping that notes the keys which are looked up.

    Attributes:
        keys_read: these, also those that are not there.
    """

    def __init__(self, given: Mapping[Any, Interval]) -> None:
        self._given = given
        self.keys_read: set[Any] = set()

    def __getitem__(self, key: Any) -> Interval:
        self.keys_read.add(key)
        return self._given[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


def _whole(push: Any) -> int | None:
    return int(push) if isinstance(push, (int, np.integer, np.bool_)) else None


def _is_modest(push: Any) -> bool:
    return isinstance(push, (float, np.floating)) or (isinstance(push, (int, np.integer)) and bool(0 <= push < MODEST))


class Loops:
    """The loops of a kernel, on a device whose driver cuts them after `limit` iterations, all loops together.

    Args:
        modest: True if the kernel never exceeds the limit while all ints are less than MODEST.
    """

    def __init__(
        self, kernel: AnyKernel, arguments: _Arguments, make: Callable[[], ir.Function], limit: int, modest: bool
    ) -> None:
        self._kernel, self._arguments = kernel, arguments
        self._make, self._limit, self._modest = make, limit, modest
        self._known: BoundedCache[tuple[Any, ...], tuple[bool, Op | None]] = BoundedCache(_MAX_KNOWN)
        self._read_at: tuple[int, ...] = ()  # positions of the push constants on which a verdict depends

    def harmless(self, pushes: Sequence[Any], grid: Grid) -> bool:
        """True if a launch on this grid is proven to stay within the limit; a push constant of None is unknown."""
        return (self._modest and all(map(_is_modest, pushes))) or self._judged(pushes, grid)[0]

    def launch(
        self, arrays: Sequence[Array], pushes: Sequence[Any], grid: Grid, queue: int | str | None = None
    ) -> Future:
        """Launches the kernel, with detection of cut loops if it may exceed the limit.

        A cut loop fails the launch: its future and everything that reads its results raise a KernelError.

        Raises:
            KernelError: the launch is certain to exceed the limit.
        """
        if self.harmless(pushes, grid):
            return self._kernel(*arrays, *pushes, grid=grid, queue=queue)
        loop = self._judged(pushes, grid)[1]
        if loop is not None:
            raise self._error(loop)
        kernel, loops = self._detecting

        def read(words: completion.Words) -> Exception | None:
            number, words[0] = int(words[0]), 0
            return self._error(loops[number - 1]) if number else None

        def run(status: Array) -> Future:
            return kernel(*arrays, status, *pushes, grid=grid, queue=queue)

        return completion.expect(runtime_of(kernel), _STATUS_WORDS, read, run)

    def _judged(self, pushes: Sequence[Any], grid: Grid) -> tuple[bool, Op | None]:
        """True if a launch stays within the limit, and the loop in which it certainly exceeds it, if there is one."""
        read_at = self._read_at
        verdict = self._known.get((read_at, grid, *[_whole(pushes[at]) for at in read_at]))
        if verdict is None:
            numbers = [_whole(push) for push in pushes]
            given = _Noted(self._given(numbers, grid))
            most = ir.most_iterations(self._function, given)
            stays = most is not None and most <= self._limit
            verdict = stays, None if stays else ir.certain_excess(self._function, given, self._limit)
            known = self._function.pushes[: len(pushes)]  # a launch adds the starts of packed arrays
            read = {at for at, push in enumerate(known) if push in given.keys_read}
            self._read_at = read_at = tuple(sorted(read.union(read_at)))
            key = read_at, grid, *[numbers[at] for at in read_at]
            self._known[key] = verdict
        return verdict

    def _given(self, numbers: Sequence[int | None], grid: Grid) -> dict[object, Interval]:
        pairs = zip(self._function.pushes, numbers, strict=False)  # the starts of packed arrays follow
        given: dict[object, Interval] = {push: (number, number) for push, number in pairs if number is not None}
        for axis, (n, size) in enumerate(zip(grid, self._kernel.local_size, strict=True)):
            given["n_groups", axis] = n, n
            given["group_id", axis] = 0, max(n - 1, 0)
            given["global_id", axis] = 0, max(n * size - 1, 0)
        return given

    @cached_property
    def _function(self) -> ir.Function:
        return self._make()

    @cached_property
    def _detecting(self) -> tuple[AnyKernel, list[Op]]:
        """The kernel that reports cut loops, and its loops."""
        function, loops = ir.with_cut_detection(self._function)
        runtime = runtime_of(self._kernel)
        module, name = ir.lower(ir.optimize(function), target_of(runtime)), self._kernel.name
        key = "detecting", name, module, self._arguments
        return kernel_of(runtime, key, partial(_kernel, runtime, name, module, self._arguments)), loops

    def _error(self, loop: Op) -> KernelError:
        loc = str(loop.loc or "")
        message = (
            f"{self._kernel.name} reaches {self._limit:,} iterations in {LOOP if loc else 'its loops'}, counting all "
            f"loops of an invocation; {self._kernel.runtime.device} cuts loops there, and results would be wrong; use "
            "Mesa 25 or later, or give each invocation less work"
        )
        return KernelError(loc.replace(LOOP, message, 1) if LOOP in loc else message)
