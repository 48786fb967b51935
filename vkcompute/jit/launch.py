"""Launches of a Python kernel: the variant for the arguments' types, on the device of its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from inspect import Signature as Parameters
from types import FunctionType
from typing import Any

import numpy as np

from vkcompute.errors import MissingFeature
from vkcompute.jit import cache, records
from vkcompute.jit.annotations import EXACT, annotations_of, typed
from vkcompute.jit.arguments import OF_GLSL, Sizes, Where, bound, grid_over, kind_of_array, kind_of_number, remedy
from vkcompute.jit.compile import SIZE, TRUTH, VALUE, Signature, Variant, compiled, optimized
from vkcompute.jit.loops import Loops, on_device
from vkcompute.jit.missing import explained
from vkcompute.jit.plan import Plan
from vkcompute.jit.source import Source
from vkcompute.runtime.groups.group import GroupTensor
from vkcompute.runtime.launching.kernel import Kernel
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.runtime.runtime import Runtime, runtime_of
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.placeholders import Parameter

_MOST_PLANS = 1024
_MOST_VARIANTS = 16  # of one signature, for different constants from outside


class Launcher:
    """Launches a function, and keeps what has been compiled of it."""

    def __init__(
        self,
        function: FunctionType,
        source: Source,
        parameters: Parameters,
        *,
        checked: bool,
        fast_math: bool,
        print_limit: int,
    ) -> None:
        self._checked, self._fast_math, self._print_limit = checked, fast_math, print_limit
        self._function, self._source, self._parameters = function, source, parameters
        self._name, self._n_parameters = function.__name__, len(parameters.parameters)
        self._annotations = annotations_of(function)
        self._variants: dict[Any, list[Variant]] = {}
        self._plans: dict[tuple[Any, ...], Plan] = {}

    def __call__(self, where: Where, args: tuple[Any, ...], named: Mapping[str, Any]) -> Future:
        """Launches so many groups of so many invocations, or what the variant has for the tensor that it writes."""
        if named or len(args) != self._n_parameters:
            args = bound(self._name, self._parameters, args, named, OF_GLSL)
        key = where, *[arg.launch_key if type(arg) is Tensor else type(arg) for arg in args]
        plan = self._plans.get(key)
        return (plan and plan.launch(args, where.queue)) or self._planned(key, args)

    def _planned(self, key: tuple[Any, ...], args: tuple[Any, ...]) -> Future:
        """Launches, and keeps how, for launches that have as much in common as the key says."""
        (groups, local, queue), *_ = key
        given, args, signature = args, *self._typed(args)
        tensors = [arg for arg in args if type(arg) is Tensor]
        if not tensors:
            raise TypeError(f"{self._name} takes a tensor, on whose device it runs; got none")
        variant, kernel, loops, grid = self._on_grid(signature, groups, local, args, runtime_of(tensors[0]))
        pushes = [
            args[at] if what == VALUE else args[at].size if what == SIZE else pushed(args[at], what)
            for at, what in variant.pushes
        ]
        if variant.sites:
            run = partial(self._reporting, kernel, loops, pushes, grid, queue)
            return records.launch(kernel, variant.sites, self._print_limit, tensors, run)
        if loops is not None:
            grid = kernel.grid(tensors, grid)
            if not loops.harmless(pushes, grid):
                return loops.launch(tensors, pushes, grid, queue)
        if not self._tells_all(given, signature) or kernel.runtime.scheduler.n_recordings:
            return kernel(*tensors, *pushes, grid=grid, queue=queue)
        command, writes, reads, keep = launch = kernel.launch((*tensors, *pushes), {}, grid)
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        self._plans[key] = Plan(variant, args, pushes[len(args) - len(tensors) :], launch, loops)
        return kernel.runtime.scheduler.dispatch(command, writes, reads, queue, keep)

    def _on_grid(
        self,
        signature: Signature,
        groups: Sizes | None,
        local: tuple[int, int, int] | None,
        args: tuple[Any, ...],
        runtime: Runtime,
    ) -> tuple[Variant, Kernel, Loops | None, Sizes | None]:
        """The variant and the grid that it is launched on: folded, where that has more groups than the device along x.

        Without a grid, the kernel takes its own.
        """
        variant, kernel, most, loops = self._variant(signature, local, runtime)
        grid = groups or self._grid(variant, args, most)
        if grid is None or len(grid) > 1 or grid[0] <= most:
            return variant, kernel, loops, grid
        variant, kernel, _, loops = self._variant(signature, local, runtime, folded=True)
        n_rows = -(-grid[0] // most)
        return variant, kernel, loops, (-(-grid[0] // n_rows), n_rows)

    def _tells_all(self, args: Sequence[Any], signature: Signature) -> bool:
        """Whether the types of the numbers, as they are given, distinguish the launch: not of ints beyond int32.

        Nor does `struct` pack numpy's bools, of which numpy before 2 warns.
        """
        pairs = enumerate(zip(signature, args, strict=True))
        return all(
            type(arg) is Tensor
            or (type(arg) is not np.bool_ and (type(arg) is kind or self._annotations.get(n) in EXACT))
            for n, (kind, arg) in pairs
        )

    def _grid(self, variant: Variant, args: tuple[Any, ...], most: int) -> Sizes | None:
        """One invocation per element of the tensor that is written; None where the kernel would take that itself."""
        if variant.linear is not None and args[variant.linear].size <= most * variant.local_size[0]:
            return None
        shape = args[variant.first].shape if variant.first is not None else None
        return grid_over(self._name, shape, variant.local_size)

    def _reporting(
        self,
        kernel: Kernel,
        loops: Loops | None,
        pushes: list[Any],
        grid: Any,
        queue: int | str | None,
        tensors: Sequence[Tensor],
    ) -> Future:
        """Launches on tensors of which the last is for reports."""
        if loops is None:
            return kernel(*tensors, *pushes, grid=grid, queue=queue)
        return loops.launch(tensors, pushes, kernel.grid(tensors, grid), queue)

    def _typed(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Signature]:
        """The arguments in the types that annotations give them, and what distinguishes these for the compiler."""
        values = [arg.value if type(arg) is Parameter else arg for arg in args]
        values = typed(self._function, self._annotations, values)
        given = [arg if type(arg) is Parameter else value for arg, value in zip(args, values, strict=True)]
        return tuple(given), tuple(map(kind_of, values, self._parameters.parameters))

    def _variant(
        self, signature: Signature, local: tuple[int, int, int] | None, runtime: Runtime, *, folded: bool = False
    ) -> tuple[Variant, Kernel, int, Loops | None]:
        """What is compiled for a signature and a local size, folded or not, such that this device can run it.

        With it: the kernel on the device, the most groups that this launches along x, and loops that it may end.
        """
        for emulated in (False, True):
            key = signature, local, folded, emulated, self._checked, self._fast_math
            variant = self._compiled(key)
            if runtime.device.features.issuperset(variant.features):
                break
        # Types are those that it was compiled for; memory may hold bits of floats as integers.
        load = partial(runtime.kernel, variant.spirv, name=self._name, check_types=False)
        try:
            placed = on_device(
                runtime, variant.spirv, variant.passes, load, lambda: optimized(self._function, self._source, *key)[0]
            )
        except MissingFeature as missing:
            raise explained(missing, self._function, self._source, signature, local) from None
        return (variant, *placed)

    def _compiled(self, key: tuple[Signature, tuple[int, int, int] | None, bool, bool, bool, bool]) -> Variant:
        found = self._variants.get(key) or []
        for variant in found:
            if not variant.reads or variant.current:
                return variant
        variant = cache.kept(partial(compiled, self._function, self._source, *key), self._function, *key)
        self._variants[key] = [variant, *found[: _MOST_VARIANTS - 1]]
        return variant


def kind_of(arg: Any, name: str = "") -> Any:
    """What distinguishes an argument for the compiler; errors tell its parameter's name."""
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
    instead = "; launch group.kernel(function) on it" if isinstance(arg, GroupTensor) else instead
    place = name and f" for {name}"
    raise TypeError(f"a kernel takes tensors and numbers; got {kind.__name__}{place}{instead}")


def pushed(arg: Any, what: int) -> Any:
    """The push constant that stands for an argument, or for a length of it."""
    if what == VALUE or type(arg) is Parameter:
        return arg
    return bool(arg) if what == TRUTH else arg.shape[what]
