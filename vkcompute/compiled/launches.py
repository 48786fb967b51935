"""Launches of compiled programs: a specialization for the key, loaded on a device, launched on arrays and numbers.

A launcher of any language looks up the plan of a call (`plan.py`). Without one, it derives the key of a specialization
from the arguments, gets the loaded program by `Compiled.on`, and calls `Loaded.launch`, which keeps a plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from vkcompute import ir
from vkcompute.compiled import report_reader
from vkcompute.compiled.cache import Origin, Specializations
from vkcompute.compiled.host_arrays import HostArrays, is_host_array
from vkcompute.compiled.loops import Loops, on_device
from vkcompute.compiled.plan import Order, Plan
from vkcompute.compiled.specialization import (
    IMAG,
    LOWEST,
    OFFSET,
    REAL,
    SIZE,
    SPAN,
    STRIDE,
    TRUTH,
    VALUE,
    Specialization,
)
from vkcompute.compiled.spilling_kernel import AnyKernel, SpillingKernel
from vkcompute.dtypes import step_bytes
from vkcompute.errors import MissingFeature
from vkcompute.runtime.graphs.aliasing import may_overlap
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.launching.arguments import first_index
from vkcompute.runtime.launching.kernel import Launch
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime, current_runtime, runtime_of
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.placeholders import Parameter

_MOST_PRINTS = 1 << 16


class Source(Protocol):
    """A program as its language compiles it.

    A key has the parts on which one specialization depends. The last part is the options: `CompileOptions`, or others
    with a method `compiled_with`.
    """

    @property
    def name(self) -> str:
        """The name of the program, for messages and profiles."""

    @property
    def origin(self) -> Origin:
        """The functions or texts of the program, for the cache."""

    def specialize(self, *key: Any) -> Specialization:
        """Compiles the program for a key."""

    def function(self, *key: Any) -> ir.Function:
        """Returns the optimized function that the specialization for a key is lowered from."""

    def explained(self, missing: MissingFeature, *key: Any) -> MissingFeature:
        """Adds the location of the first use to the error for a type that the device lacks."""


class Prints(NamedTuple):
    """The prints of a launch that are kept.

    Attributes:
        limit: at least so many.
        remedy: the remedy for lost ones, with {} for the limit that keeps them.
    """

    limit: int = _MOST_PRINTS
    remedy: str = "print fewer elements, by a mask"


PRINTS = Prints()


class Loaded(NamedTuple):
    """A specialization on a device; `loops` are None where the device never cuts them.

    Attributes:
        phases: those of a kernel with grid barriers; else None.
    """

    specialization: Specialization
    kernel: AnyKernel
    loops: Loops | None
    phases: ir.GridPhases | None = None

    def launch(
        self,
        args: Sequence[Any],
        pushes: Sequence[Any],
        grid: Sequence[int] | None,
        queue: int | str | None = None,
        *,
        key: tuple[Any, ...] | None = None,
        numbers_at: Sequence[int] | None = None,
        prepare: Callable[[Sequence[Any]], Sequence[Any]] | None = None,
        tables: Sequence[Array] = (),
        hosts: HostArrays | None = None,
        prints: Prints = PRINTS,
    ) -> Future:
        """Launches the program, and keeps a plan for repetitions.

        Args:
            args: arrays in the order of the bindings, among numbers and None.
            pushes: the push constants: the numbers, then others, which are the same in repetitions.
            grid: the workgroups, before they are wrapped and divided; None for the kernel's default.
            key: identifies the specialization, the arrays' launch keys and the numbers' types; None for no plan.
            numbers_at: positions of the numbers; by default those of all arguments but arrays and None.
            prepare: returns `args` for the arguments of a repetition; None for the same.
            tables: bound behind the arrays.
            hosts: NumPy arrays among the arguments, whose results are copied back.
        """
        aliases, sites = self.specialization.aliases, self.specialization.sites
        parts = self.specialization.parts
        phased = None if self.phases is None or grid is None else _Phased(self, self.phases, pushes, grid)
        if self.specialization.grid_wrapped and grid is not None:
            pushes, grid = [*pushes, grid[0]], _in_rows(grid[0], most_groups(runtime_of(self.kernel)) // parts[0])
        if grid is not None and parts != (1, 1, 1):
            grid = [n * part for n, part in zip((*grid, 1, 1), parts, strict=False)]
        if hosts is not None:
            hosts.check(self.kernel, aliases)
        arrays_at = [at for at, arg in enumerate(args) if isinstance(arg, Array)]
        if numbers_at is None:
            numbers_at = [at for at, arg in enumerate(args) if not isinstance(arg, Array) and arg is not None]
        order = Order([*arrays_at, *[arrays_at[index] for index in aliases]], numbers_at, prepare)
        arrays = [*[args[at] for at in order.arrays], *tables]
        if key is not None and arrays_at and not (tables or sites or phased or hosts is not None):
            made = self._repeatable(arrays, pushes, grid)
            if made is not None:
                return self._kept(key, order, args, pushes, made, queue)
        run = partial(self.run if phased is None else phased.run, pushes, grid, queue)
        if sites:
            future = report_reader.launch(self.kernel, sites, prints.limit, arrays, run, prints.remedy)
        else:
            future = run(arrays)
        if hosts is not None:
            hosts.read(self.kernel, aliases)
        return future

    def _kept(
        self,
        key: tuple[Any, ...],
        order: Order,
        args: Sequence[Any],
        pushes: Sequence[Any],
        made: Launch,
        queue: int | str | None,
    ) -> Future:
        """Dispatches a launch, and keeps its plan."""
        runtime = runtime_of(self.kernel)
        extents = pushes[len(order.numbers) :]
        runtime.plans[key] = Plan(self.specialization, order, args, extents, made, self.loops)
        command, writes, reads, launched = made
        return runtime.scheduler.dispatch(command, writes, reads, queue, launched)

    def _repeatable(self, arrays: Sequence[Array], pushes: Sequence[Any], grid: Sequence[int] | None) -> Launch | None:
        """Prepares a launch that a plan repeats; None if none can."""
        kernel, loops = self.kernel, self.loops
        if isinstance(kernel, SpillingKernel) or kernel.runtime.scheduler.recordings:
            return None
        if loops is not None:
            grid = kernel.grid(arrays, grid)
            if not loops.harmless(pushes, grid):
                return None
        return kernel.launch((*arrays, *pushes), {}, grid)

    def run(
        self, pushes: Sequence[Any], grid: Sequence[int] | None, queue: int | str | None, arrays: Sequence[Array]
    ) -> Future:
        """Launches without a plan."""
        if self.loops is None:
            return self.kernel(*arrays, *pushes, grid=grid, queue=queue)
        return self.loops.launch(arrays, pushes, self.kernel.grid(arrays, grid), queue)


class _Phased:
    """One launch of a kernel with grid barriers: a dispatch for each phase, and memory for what later ones use.

    Args:
        pushes: those of the kernel.
        grid: the workgroups, before they are wrapped and divided.
    """

    def __init__(self, loaded: Loaded, phases: ir.GridPhases, pushes: Sequence[Any], grid: Sequence[int]) -> None:
        self._loaded, self._n_pushes = loaded, len(pushes)
        self._further = ir.phase_pushes(phases, pushes, grid)
        n_invocations = math.prod(loaded.specialization.local_size)
        n_words = math.prod(map(int, grid)) * (n_invocations * phases.n_words + phases.n_group_words)
        self._kept = temporary(runtime_of(loaded.kernel), max(n_words, 1), np.uint32)

    def run(
        self, pushes: Sequence[Any], grid: Sequence[int] | None, queue: int | str | None, arrays: Sequence[Array]
    ) -> Future:
        """Launches all phases, without a plan; returns the future of the last."""
        at, n = len(arrays) - bool(self._loaded.specialization.sites), self._n_pushes  # before the buffer of reports
        bound = [*arrays[:at], self._kept, *arrays[at:]]
        with runtime_of(self._loaded.kernel).scheduler.device.lock:  # nothing else comes between them
            futures = [
                self._loaded.run([*pushes[:n], *further, *pushes[n:]], grid, queue, bound) for further in self._further
            ]
        return futures[-1]


class Compiled:
    """A program that is compiled on demand.

    Args:
        common: texts of everything else on which all specializations depend; None for one without a text.
        freezes: as of `Specializations`.
    """

    def __init__(self, source: Source, *common: str | None, freezes: bool = False) -> None:
        self._source, self._specializations = source, Specializations(source.origin, *common, freezes=freezes)
        self._phases: WeakKeyDictionary[Specialization, ir.GridPhases | None] = WeakKeyDictionary()

    def specialized(self, *key: Any) -> Specialization:
        """Returns the specialization for a key."""
        return self._specializations.find(key, self._source.specialize)

    def on(self, runtime: Runtime, *key: Any) -> Loaded:
        """Returns the program for a key on a device. Atomic operations that the device lacks are emulated.

        Raises:
            MissingFeature: the device lacks something else.
        """
        specialization = self.specialized(*key)
        if not runtime.device.features.issuperset(specialization.features):
            key = *key[:-1], key[-1].compiled_with(emulate_atomics=True)
            specialization = self.specialized(*key)
        try:
            kernel, loops = on_device(runtime, self._source.name, specialization, partial(self._source.function, *key))
        except MissingFeature as missing:
            raise self._source.explained(_with_rule(missing), *key) from None
        return Loaded(specialization, kernel, loops, self._phases_of(specialization, key))

    def _phases_of(self, specialization: Specialization, key: tuple[Any, ...]) -> ir.GridPhases | None:
        """Returns the phases of a kernel with grid barriers; the host follows the function that it is lowered from."""
        if not specialization.has_phases:
            return None
        if specialization not in self._phases:
            self._phases[specialization] = self._source.function(*key).phases
        return self._phases[specialization]


def _with_rule(missing: MissingFeature) -> MissingFeature:
    """Adds the rule to the error of a program that is refused for its atomic operations."""
    if "capability Int64Atomics " not in str(missing):
        return missing
    return MissingFeature(
        f"{missing}; atomic operations on numbers of 64 bits are not computed by words; "
        "use numbers of 32 bits, or choose another device"
    )


def runtime_among(args: Sequence[Any]) -> Runtime:
    """Returns the runtime of the first array among arguments; without an array, the default one."""
    array = next((arg for arg in args if isinstance(arg, Array)), None)
    return current_runtime() if array is None else runtime_of(array)


def hosts_among(name: str, runtime: Runtime, args: Sequence[Any]) -> HostArrays | None:
    """Returns the NumPy arrays among the arguments of a launch, copied to the device; None if there are none."""
    return HostArrays(name, runtime, args) if any(map(is_host_array, args)) else None


def writes_overlap(kernel: AnyKernel, args: Sequence[Any]) -> bool:
    """True if the kernel may write to memory that two arrays have in common. Runs of a graph may have other inputs.

    Drivers load elements of an array that is only read once, also those that are read again after they were written.
    """
    arrays = [arg for arg in args if type(arg) is Array]
    writes = {*kernel.writes}
    return any(
        one.overlaps(other) or may_overlap(one, other)
        for (at, one), (its, other) in combinations(enumerate(arrays), 2)
        if at in writes or its in writes
    )


def is_wrapped(grid: Sequence[int], runtime: Runtime, parts: Sequence[int] = (1,)) -> bool:
    """True if a grid has one axis, with more workgroups than the device launches along it.

    Args:
        parts: along each axis, into which a workgroup is divided.
    """
    return grid[0] * parts[0] > most_groups(runtime) and all(n == 1 for n in grid[1:])


def most_groups(runtime: Runtime) -> int:
    """Returns the most workgroups along x that a device launches."""
    return int(runtime.device.physical.limits["maxComputeWorkGroupCount"][0])


def _in_rows(n_groups: int, most: int) -> tuple[int, int]:
    """Returns a grid of rows of at most so many workgroups. The last rows may have more than are left."""
    n_rows = -(-n_groups // most)
    return -(-n_groups // n_rows), n_rows


def pushed(arg: Any, what: int) -> Any:
    """Returns the push constant for an argument, for a length, or for a part of the layout."""
    if what == VALUE or type(arg) is Parameter:
        return arg
    if what in (REAL, IMAG):
        return arg.real if what == REAL else arg.imag
    if what == TRUTH:
        return bool(arg)
    if what == SIZE:
        return arg.size
    if what == OFFSET:
        return first_index(arg)
    if what in (SPAN, LOWEST):
        _, low, high = arg.span
        return (high - low if what == SPAN else low - arg.offset) // arg.dtype.itemsize
    return arg.shape[what] if what < STRIDE else arg.strides[what - STRIDE] // step_bytes(arg.dtype) & 0xFFFFFFFF
