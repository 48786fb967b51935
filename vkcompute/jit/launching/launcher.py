"""Launches of a kernel in Python: its specialization for the arguments, on the device of its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from inspect import Signature as Parameters
from types import FunctionType
from typing import Any

import numpy as np

from vkcompute.errors import MissingFeature
from vkcompute.jit.compilation import cache
from vkcompute.jit.compilation.annotations import EXACT, annotations_of, typed
from vkcompute.jit.compilation.arguments import bound, kind_of_array, kind_of_number, remedy
from vkcompute.jit.compilation.build import Signature
from vkcompute.jit.compilation.missing_types import explained
from vkcompute.jit.compilation.specialization import SIZE, TRUTH, VALUE, Specialization, optimized, specialize
from vkcompute.jit.frontend.source import Source
from vkcompute.jit.launching import report_reader
from vkcompute.jit.launching.loops import Loops, on_device
from vkcompute.jit.launching.plan import Plan
from vkcompute.runtime.groups.group import GroupTensor
from vkcompute.runtime.launching.kernel import Kernel
from vkcompute.runtime.launching.launch_config import LaunchConfig, Sizes, grid_over
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.runtime.runtime import Runtime, runtime_of
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.placeholders import Parameter

_MOST_PLANS = 1024
_MOST_SPECIALIZATIONS = 16  # per signature, with different captured globals


class Launcher:
    """Launches a kernel, and keeps its specializations."""

    def __init__(
        self,
        function: FunctionType,
        source: Source,
        parameters: Parameters,
        *,
        check_bounds: bool,
        fast_math: bool,
        print_limit: int,
    ) -> None:
        self._check_bounds, self._fast_math, self._print_limit = check_bounds, fast_math, print_limit
        self._function, self._source, self._parameters = function, source, parameters
        self._name, self._n_parameters = function.__name__, len(parameters.parameters)
        self._annotations = annotations_of(function)
        self._specializations: dict[Any, list[Specialization]] = {}
        self._plans: dict[tuple[Any, ...], Plan] = {}

    def __call__(self, config: LaunchConfig, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Launches the kernel, on the default grid where the configuration leaves it open."""
        if named or len(args) != self._n_parameters:
            args = bound(self._name, self._parameters, args, named)
        key = config, *[arg.launch_key if type(arg) is Tensor else type(arg) for arg in args]
        plan = self._plans.get(key)
        return (plan and plan.launch(args, config.queue)) or self._planned(key, args)

    def _planned(self, key: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
        """Launches without a plan, and keeps one for launches with the same key."""
        config, *_ = key
        sharded = next((arg for arg in args if type(arg) is GroupTensor), None)
        if sharded is not None:
            return sharded.group.kernel(lambda *here: self(config, here, {}))(*args)
        groups, local, queue = config
        given, args, signature = args, *self._typed(args)
        tensors = [arg for arg in args if type(arg) is Tensor]
        if not tensors:
            raise TypeError(f"{self._name} takes a tensor, on whose device it runs; got none")
        found, kernel, loops, grid = self._on_grid(signature, groups, local, args, runtime_of(tensors[0]))
        pushes = [
            args[at] if what == VALUE else args[at].size if what == SIZE else pushed(args[at], what)
            for at, what in found.pushes
        ]
        if found.sites:
            run = partial(self._reporting, kernel, loops, pushes, grid, queue)
            return report_reader.launch(kernel, found.sites, self._print_limit, tensors, run)
        if loops is not None:
            grid = kernel.grid(tensors, grid)
            if not loops.harmless(pushes, grid):
                return loops.launch(tensors, pushes, grid, queue)
        if not self._is_exact(given, signature) or kernel.runtime.scheduler.n_recordings:
            return kernel(*tensors, *pushes, grid=grid, queue=queue)
        command, writes, reads, keep = launch = kernel.launch((*tensors, *pushes), {}, grid)
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        self._plans[key] = Plan(found, args, pushes[len(args) - len(tensors) :], launch, loops)
        return kernel.runtime.scheduler.dispatch(command, writes, reads, queue, keep)

    def _on_grid(
        self,
        signature: Signature,
        groups: Sizes | None,
        local: tuple[int, int, int] | None,
        args: tuple[Any, ...],
        runtime: Runtime,
    ) -> tuple[Specialization, Kernel, Loops | None, Sizes | None]:
        """Returns the specialization and its grid, wrapped if it has more workgroups along x than the device allows.

        A grid of None is computed by the kernel.
        """
        found, kernel, most, loops = self._specialization(signature, local, runtime)
        grid = groups or self._grid(found, args, most)
        if grid is None or len(grid) > 1 or grid[0] <= most:
            return found, kernel, loops, grid
        found, kernel, _, loops = self._specialization(signature, local, runtime, grid_wrapped=True)
        n_rows = -(-grid[0] // most)
        return found, kernel, loops, (-(-grid[0] // n_rows), n_rows)

    def _is_exact(self, args: Sequence[Any], signature: Signature) -> bool:
        """True if the key of a plan identifies the signature: it has only the Python type of a number, not its value.

        This excludes ints beyond int32, and numpy's bools, which `struct` cannot pack (numpy before 2 warns).
        """
        pairs = enumerate(zip(signature, args, strict=True))
        return all(
            type(arg) is Tensor
            or (type(arg) is not np.bool_ and (type(arg) is kind or self._annotations.get(n) in EXACT))
            for n, (kind, arg) in pairs
        )

    def _grid(self, found: Specialization, args: tuple[Any, ...], most: int) -> Sizes | None:
        """Returns the default grid, one invocation per element of a tensor; None if the kernel computes the same."""
        if found.linear is not None and args[found.linear].size <= most * found.local_size[0]:
            return None
        shape = args[found.first].shape if found.first is not None else None
        return grid_over(self._name, shape, found.local_size)

    def _reporting(
        self,
        kernel: Kernel,
        loops: Loops | None,
        pushes: list[Any],
        grid: Any,
        queue: int | str | None,
        tensors: Sequence[Tensor],
    ) -> Future:
        """Launches with the buffer for reports as the last tensor."""
        if loops is None:
            return kernel(*tensors, *pushes, grid=grid, queue=queue)
        return loops.launch(tensors, pushes, kernel.grid(tensors, grid), queue)

    def _typed(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Signature]:
        """Converts annotated arguments, and returns them with their signature."""
        values = [arg.value if type(arg) is Parameter else arg for arg in args]
        values = typed(self._function, self._annotations, values)
        given = [arg if type(arg) is Parameter else value for arg, value in zip(args, values, strict=True)]
        return tuple(given), tuple(map(kind_of, values, self._parameters.parameters))

    def _specialization(
        self, signature: Signature, local: tuple[int, int, int] | None, runtime: Runtime, *, grid_wrapped: bool = False
    ) -> tuple[Specialization, Kernel, int, Loops | None]:
        """Returns a specialization that the device supports.

        With it: the kernel on the device, the device's limit of workgroups along x, and the kernel's loops.
        """
        for emulate_atomics in (False, True):
            key = signature, local, grid_wrapped, emulate_atomics, self._check_bounds, self._fast_math
            found = self._compiled(key)
            if runtime.device.features.issuperset(found.features):
                break
        # The signature has checked the types; memory may hold the bits of floats as integers.
        load = partial(runtime.kernel, found.spirv, name=self._name, check_types=False)
        try:
            placed = on_device(
                runtime, found.spirv, found.iterations, load, lambda: optimized(self._function, self._source, *key)[0]
            )
        except MissingFeature as missing:
            raise explained(missing, self._function, self._source, signature, local) from None
        return (found, *placed)

    def _compiled(self, key: tuple[Signature, tuple[int, int, int] | None, bool, bool, bool, bool]) -> Specialization:
        found = self._specializations.get(key) or []
        for each in found:
            if not each.captured or each.is_current:
                return each
        made = cache.cached(partial(specialize, self._function, self._source, *key), self._function, *key)
        self._specializations[key] = [made, *found[: _MOST_SPECIALIZATIONS - 1]]
        return made


def kind_of(arg: Any, name: str = "") -> Any:
    """Returns the part of a signature for an argument; `name` is its parameter's, for errors."""
    kind = type(arg)
    if kind is Tensor:
        return kind_of_array(arg)
    number = kind_of_number(arg)
    if number is not None:
        return number
    if kind is Parameter:
        return kind_of(arg.value, name)
    instead = remedy(arg, name or "it")
    if isinstance(arg, (np.ndarray, list)):
        instead = "; make a tensor of it, with runtime.tensor(data)"
        if np.ndim(arg) == 0:
            instead += f", or pass the number, as {name or 'x'}.item()"
    place = name and f" for {name}"
    raise TypeError(f"a kernel takes tensors and numbers; got {kind.__name__}{place}{instead}")


def pushed(arg: Any, what: int) -> Any:
    """Returns the push constant for an argument, or for a length of it."""
    if what == VALUE or type(arg) is Parameter:
        return arg
    return bool(arg) if what == TRUTH else arg.shape[what]
