"""Launches of a kernel in Python: its specialization for the arguments, on the device of its arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from inspect import Signature as Parameters
from itertools import combinations
from types import MappingProxyType, NoneType
from typing import Any

import numpy as np

from vkcompute.dtypes import BY_NUMPY, conversion
from vkcompute.errors import MissingFeature, hides_calls
from vkcompute.frontend.source import Definition
from vkcompute.ir import Function
from vkcompute.jit.compilation.annotations import EXACT, annotations_of, typed
from vkcompute.jit.compilation.arguments import bound, group_of, kind_of_array, kind_of_number, remedy
from vkcompute.jit.compilation.build import CompileOptions, Signature, build, optimized
from vkcompute.jit.compilation.cache import Specializations
from vkcompute.jit.compilation.missing_types import explained
from vkcompute.jit.compilation.specialization import SIZE, TRUTH, VALUE, Specialization, specialize
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.memory import LOWEST, OFFSET, SPAN, STRIDE
from vkcompute.jit.launching import report_reader
from vkcompute.jit.launching.host_arrays import HostArrays, is_host_array
from vkcompute.jit.launching.loops import Loops, on_device
from vkcompute.jit.launching.plan import launch
from vkcompute.jit.launching.spilling_kernel import AnyKernel, splits_of
from vkcompute.jit.launching.tables import table_on
from vkcompute.jit.launching.target import target_of
from vkcompute.runtime.graphs.aliasing import may_overlap
from vkcompute.runtime.launching.arguments import first_index, needs_strides
from vkcompute.runtime.launching.launch_config import (
    ONE_INVOCATION,
    LaunchConfig,
    Sizes,
    declared,
    demand_axes,
    grid_over,
)
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime, current_runtime, runtime_of
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.placeholders import Parameter

__tracebackhide__ = hides_calls


class Launcher:
    """Launches a kernel, and keeps its specializations."""

    def __init__(
        self, definition: Definition, parameters: Parameters, options: CompileOptions, print_limit: int
    ) -> None:
        self._options, self._print_limit = options, print_limit
        self._definition, self._parameters = definition, parameters
        self._name, self._n_parameters = definition.function.__name__, len(parameters.parameters)
        self._annotations = annotations_of(definition.function)
        self._specializations = Specializations((definition.function,))
        self._plan_key, self._array_at = object(), 0  # position of an array among the arguments of the last launch

    def __call__(self, config: LaunchConfig, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Launches the kernel, on the default grid where the configuration leaves it open."""
        if named or len(args) != self._n_parameters:
            args = bound(self._name, self._parameters, args, named)
        key = self._plan_key, config, *[arg.launch_key if type(arg) is Array else type(arg) for arg in args]
        try:
            plan = args[self._array_at].runtime.plans.get(key)
        except (AttributeError, IndexError):  # another argument is an array now
            plan = None
        return (plan and plan.launch(args, config.queue)) or self._planned(key, config, args)

    def kernel(self, config: LaunchConfig, named: Mapping[str, Any], args: tuple[Any, ...]) -> AnyKernel:
        """Returns the kernel that a launch with these arguments would run."""
        args = bound(self._name, self._parameters, args, named)
        if group_of(args) is not None:
            raise TypeError(f"{self._name} is compiled for each device of a group; pass the shards of one, x.shards[0]")
        args, signature = self._typed(args)
        config = declared(self._name, config, self._options.local_size)
        return self._on_grid(signature, config, args, self._runtime(args))[1]

    def _runtime(self, args: tuple[Any, ...]) -> Runtime:
        """Returns the runtime of the arrays among the arguments; without an array, the default one."""
        arrays = [arg for arg in args if type(arg) is Array]
        return runtime_of(arrays[0]) if arrays else current_runtime()

    def _planned(self, key: tuple[Any, ...], config: LaunchConfig, args: tuple[Any, ...]) -> Any:
        """Launches without a plan, and keeps one for launches with the same key."""
        if (group := group_of(args)) is not None:
            if any(map(is_host_array, args)):
                raise TypeError(f"{self._name} takes no NumPy array beside arrays of a group; pass group.array(data)")
            return group.kernel(lambda *here: self(config, here, {}))(*args)
        config = declared(self._name, config, self._options.local_size)
        self._array_at = next((at for at, arg in enumerate(args) if type(arg) is Array), 0)
        runtime = self._runtime(args)
        hosts = HostArrays(self._name, runtime, args) if any(map(is_host_array, args)) else None
        given, args, signature = args, *self._typed(args if hosts is None else hosts.args)
        arrays = [arg for arg in args if type(arg) is Array]
        found, kernel, loops, grid = self._on_grid(signature, config, args, runtime)
        if hosts is not None:
            hosts.check(kernel)
        pushes = [
            args[at] if what == VALUE else args[at].size if what == SIZE else pushed(args[at], what)
            for at, what in found.pushes
        ]
        tables = [table_on(runtime, each) for each in found.tables]
        if found.sites:
            run = partial(self._reporting, kernel, loops, pushes, grid, config.queue)
            future = report_reader.launch(kernel, found.sites, self._print_limit, [*arrays, *tables], run)
        else:
            exact = arrays and hosts is None and not tables and is_exact(given, signature, self._annotations)
            kept = key if exact else None
            future = launch(kept, found, (kernel, loops), [*args, *tables], pushes, grid, config.queue)
        if hosts is not None:
            hosts.read(kernel)
        return future

    def _on_grid(
        self,
        signature: Signature,
        config: LaunchConfig,
        args: tuple[Any, ...],
        runtime: Runtime,
    ) -> tuple[Specialization, AnyKernel, Loops | None, Sizes | None]:
        """Returns the specialization and its grid, wrapped if it has more workgroups along x than the device allows.

        A grid of None is computed by the kernel.
        """
        most = runtime.device.physical.limits["maxComputeWorkGroupCount"][0]
        options = self._options._replace(
            local_size=config.local_size, target=target_of(runtime), splits=splits_of(runtime, args)
        )
        found, kernel, loops = self._specialization(signature, options, runtime)
        demand_axes(self._name, config, found.ids)
        if config.groups is config.local_size is None and not found.ids.in_group:
            options = options._replace(local_size=ONE_INVOCATION)
            found, kernel, loops = self._specialization(signature, options, runtime)
        if _may_overlap(kernel, args):
            options = options._replace(aliased=True)
            found, kernel, loops = self._specialization(signature, options, runtime)
        grid = config.groups or self._grid(found, args, most)
        if grid is None or any(n != 1 for n in grid[1:]) or grid[0] <= most:
            return found, kernel, loops, grid
        found, kernel, loops = self._specialization(signature, options._replace(grid_wrapped=True), runtime)
        n_rows = -(-grid[0] // most)
        return found, kernel, loops, (-(-grid[0] // n_rows), n_rows)

    def _grid(self, found: Specialization, args: tuple[Any, ...], most: int) -> Sizes | None:
        """Returns the default grid, one invocation per element of an array; None if the kernel computes the same."""
        if (
            found.linear is not None
            and found.array_bindings is None
            and found.ids.of_groups == (0,)
            and 0 in found.ids.in_group
            and args[found.linear].size <= most * found.local_size[0]
        ):
            return None
        shape = args[found.first].shape if found.first is not None else None
        return grid_over(self._name, shape, found.local_size, found.ids)

    def _reporting(
        self,
        kernel: AnyKernel,
        loops: Loops | None,
        pushes: list[Any],
        grid: Any,
        queue: int | str | None,
        arrays: Sequence[Array],
    ) -> Future:
        """Launches with the buffer for reports as the last array."""
        if loops is None:
            return kernel(*arrays, *pushes, grid=grid, queue=queue)
        return loops.launch(arrays, pushes, kernel.grid(arrays, grid), queue)

    def _typed(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Signature]:
        """Converts annotated arguments, and returns them with their signature."""
        values = [arg.value if type(arg) is Parameter else arg for arg in args]
        values = typed(self._definition.function, self._annotations, values)
        given = [arg if type(arg) is Parameter else value for arg, value in zip(args, values, strict=True)]
        kinds = [
            NoneType if value is None else kind_of(value, name)
            for value, name in zip(values, self._parameters.parameters, strict=True)
        ]
        return tuple(given), tuple(kinds)

    def _specialization(
        self, signature: Signature, options: CompileOptions, runtime: Runtime
    ) -> tuple[Specialization, AnyKernel, Loops | None]:
        """Returns a specialization that the device supports, its kernel on the device, and its loops."""
        for emulate_atomics in (False, True):
            options = options._replace(emulate_atomics=emulate_atomics)
            found = self._specializations.find((signature, options), partial(specialize, self._definition))
            if runtime.device.features.issuperset(found.features):
                break

        def make() -> Function:
            return optimized(build(Compiler, self._definition, signature, options).function, options)

        try:
            placed = on_device(runtime, self._name, found, make)
        except MissingFeature as missing:
            raise explained(missing, self._definition, signature, options) from None
        return (found, *placed)


def _may_overlap(kernel: AnyKernel, args: Sequence[Any]) -> bool:
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


def is_exact(args: Sequence[Any], signature: Signature, annotations: Mapping[int, Any] = MappingProxyType({})) -> bool:
    """True if the key of a plan identifies the signature: it has only the Python type of a number, not its value.

    This excludes ints beyond int32, and numpy's bools, which `struct` cannot pack (numpy before 2 warns).
    """
    return all(
        type(arg) is Array or (type(arg) is not np.bool_ and (type(arg) is kind or annotations.get(n) in EXACT))
        for n, (kind, arg) in enumerate(zip(signature, args, strict=True))
    )


def kind_of(arg: Any, name: str = "", caller: str = "a kernel") -> Any:
    """Returns the part of a signature for an argument; `name` is its parameter's, for errors."""
    kind = type(arg)
    if kind is Array:
        found = kind_of_array(arg)
        return (*found, True) if needs_strides(arg) else found
    number = kind_of_number(arg)
    if number is not None:
        return number
    if kind is Parameter:
        return kind_of(arg.value, name, caller)
    got, instead = kind.__name__, remedy(arg, name or "it")
    if isinstance(arg, (np.ndarray, list)):
        instead = "; copy it to the device, by runtime.array(data)"
        if isinstance(arg, np.ndarray) and arg.dtype not in BY_NUMPY:
            got, instead = f"a NumPy array of {arg.dtype}", conversion(arg.dtype, name or "x")
        elif np.ndim(arg) == 0:
            instead += f", or pass the number, as {name or 'x'}.item()"
    place = name and f" for {name}"
    raise TypeError(f"{caller} takes device arrays and numbers; got {got}{place}{instead}")


def pushed(arg: Any, what: int) -> Any:
    """Returns the push constant for an argument, or for a length or the layout of it."""
    if what == VALUE or type(arg) is Parameter:
        return arg
    if what == TRUTH:
        return bool(arg)
    if what == OFFSET:
        return first_index(arg)
    if what in (SPAN, LOWEST):
        _, low, high = arg.span
        return (high - low if what == SPAN else low - arg.offset) // arg.dtype.itemsize
    return arg.shape[what] if what < STRIDE else arg.strides[what - STRIDE] // arg.dtype.itemsize & 0xFFFFFFFF
