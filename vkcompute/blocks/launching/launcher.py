"""Launches of block programs on the device of their arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vkcompute.blocks.compiler.types import Constexpr
from vkcompute.blocks.launching.arguments import LaunchOptions, Parameters, exact_key
from vkcompute.blocks.launching.block_source import compiled_program
from vkcompute.blocks.launching.bound_arrays import (
    bindings,
    given_arrays,
    overlaps_among,
    splits_among,
    target_for,
    type_of,
    with_bound,
    with_memory,
)
from vkcompute.blocks.launching.build import (
    DIVISOR,
    BlockOptions,
)
from vkcompute.blocks.launching.composites import flattened
from vkcompute.blocks.launching.pointer_table import PointerTable
from vkcompute.blocks.launching.reinterpretation import TensorWrapper, unwrapped
from vkcompute.compiled.arguments import group_of
from vkcompute.compiled.composites import Forms
from vkcompute.compiled.host_arrays import is_host_array
from vkcompute.compiled.launches import (
    Compiled,
    Loaded,
    hosts_among,
    is_wrapped,
    pushed,
    runtime_among,
)
from vkcompute.compiled.plan import Plan
from vkcompute.compiled.specialization import TRUTH, VALUE, CompileOptions
from vkcompute.compiled.spilling_kernel import AnyKernel, together_of
from vkcompute.compiled.target import target_of
from vkcompute.errors import hides_calls
from vkcompute.frontend.source import Definition
from vkcompute.jit.kernel import is_set
from vkcompute.runtime.bounded_cache import BoundedCache
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.holders import all_held, is_holder
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.scheduling.placeholders import Parameter

__tracebackhide__ = hides_calls

_INTS, _INT32 = {int}, range(-(1 << 31), 1 << 31)
_EXACT: dict[type, Callable[[Any], Any]] = {bool: bool, int: int, str: str, float: float.hex}
"""Keys of constants that no other constant of the type has: 0.0 and -0.0 are equal."""
_MAX_FORMS = 256
_MAX_PROGRAMS = 1024


class BlockLauncher:
    """Launches a block program, and keeps its specializations.

    Args:
        is_internal: True for a program of the library, which no environment variable checks. The version of the files
            in its folder is a part of its key on disk: the functions that it calls are in them.
    """

    def __init__(
        self, definition: Definition, parameters: Parameters, *, debug: bool = False, is_internal: bool = False
    ) -> None:
        self._debug, self._is_internal = debug, is_internal
        self._definition, self.name, self._parameters = definition, parameters.name, parameters
        self._traits = parameters.constexprs, parameters.unspecialized
        self._plan_key, self._array_at = object(), 0  # position of an array among the arguments of the last launch
        self._programs: BoundedCache[tuple[Any, ...], Compiled] = BoundedCache(_MAX_PROGRAMS)
        self._of_forms: BoundedCache[Forms, BlockLauncher] = BoundedCache(_MAX_FORMS)

    def __call__(self, grid: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Launches the program on a grid: a tuple, or a function of the arguments by name."""
        args, chosen = self._parameters.bound(args, named)
        is_plain = type(grid) is tuple and {*map(type, grid)} == _INTS
        given = grid if is_plain else self._parameters.grid(grid, args)
        keys = [
            arg.launch_key if (kind := type(arg)) is Array
            else (kind, _EXACT[kind](arg)) if constexpr and kind in _EXACT
            else kind if arg is None or (kind is int and unspecialized and arg in _INT32)
            else _key(arg, constexpr)
            for arg, constexpr, unspecialized in zip(args, *self._traits, strict=True)
        ]  # fmt: skip
        key = self._plan_key, given, chosen, *keys
        try:
            plan: Plan | None = args[self._array_at].runtime.plans.get(key)
        except (AttributeError, IndexError):  # another argument is an array now
            plan = None
        except TypeError:  # a mutable constant, which has no hash
            self._parameters.check_constants(args, Parameter)
            raise
        if plan is not None and (future := plan.launch(args, None)) is not None:
            return future
        if any(map(is_holder, args)):
            return self(grid, all_held(args), {})
        sizes = self._parameters.grid(grid, args)
        chosen.check(sizes)
        if 0 in sizes:
            _, leaves = flattened(args, self._parameters.constexprs)
            return runtime_among(unwrapped(leaves)[0]).scheduler.completed_future()
        forms, leaves = flattened(args, self._parameters.constexprs)
        if forms is not None:  # the leaves have plans of their own
            return self._of_leaves(forms)(sizes, leaves, chosen.named())
        return self._planned(key, sizes, chosen, args)

    def _planned(
        self, key: tuple[Any, ...], grid: tuple[int, ...], chosen: LaunchOptions, args: tuple[Any, ...]
    ) -> Any:
        """Launches without a plan, and keeps one for launches with the same key."""
        if group_of(args) is not None:
            raise TypeError(f"{self.name} runs on one device; pass the shards of a group's arrays, as x.shards[0]")
        self._array_at = next((at for at, arg in enumerate(args) if hasattr(arg, "runtime")), 0)
        args, elements = given_arrays(args)
        bound = bindings(args)
        runtime = runtime_among(bound)
        hosts = hosts_among(self.name, runtime, bound)
        bound = bound if hosts is None else hosts.args
        args = with_bound(with_memory(args), bound)
        loaded = self._on_grid(grid, chosen, args, runtime, elements)
        specialization = loaded.specialization
        numbers = [at for at, what in specialization.pushes if what in (VALUE, TRUTH)]
        pushes = [pushed(bound[at], what) for at, what in specialization.pushes]
        inexact = any(_is_inexact(args[at]) or self._parameters.is_narrow(at) for at in numbers)
        is_alone = bool(specialization.windows) and runtime.device.physical.instance.validation != "off"
        prepare = bindings if elements or len(bound) > len(args) else None
        kept = None if inexact or is_alone else key
        if is_alone:  # the validation layer takes all bytes of a window for accessed
            runtime.scheduler.finish()
        future = loaded.launch(bound, pushes, grid, key=kept, numbers_at=numbers, prepare=prepare, hosts=hosts)
        if is_alone:
            runtime.scheduler.finish()
        return future

    def _of_leaves(self, forms: Forms) -> BlockLauncher:
        """Returns the launcher for the leaves of arguments of these forms."""
        launcher = self._of_forms.get(forms)
        if launcher is None:
            parameters = self._parameters.of_leaves(forms)
            launcher = self._of_forms[forms] = BlockLauncher(
                self._definition, parameters, debug=self._debug, is_internal=self._is_internal
            )
        return launcher

    def _on_grid(
        self,
        grid: tuple[int, ...],
        chosen: LaunchOptions,
        args: tuple[Any, ...],
        runtime: Runtime,
        elements: Mapping[int, str],
    ) -> Loaded:
        """Returns the program for a grid, which may have more programs along x than the device allows."""
        self._parameters.check_constants(args, Parameter)
        constants, signature = self._parameters.typed(args, type_of, elements)
        checks = not self._is_internal and is_set("VKCOMPUTE_CHECK_BOUNDS")
        compilation = CompileOptions(
            grid_wrapped=is_wrapped(grid, runtime), check_bounds=checks, target=target_of(runtime)
        )
        asserts = chosen.asserts or checks or self._asserts()
        program, types = self._program(constants), tuple(signature.items())
        target = target_for(runtime, signature.values())
        options = BlockOptions(chosen.n_warps, target, compilation, overlaps_among(args), asserts)
        specialization = program.specialized(types, options)
        if specialization.windows:
            return program.on(runtime, types, options)
        if splits := splits_among(runtime, specialization, args):
            options = options.split(splits)
        elif together := together_of(runtime, specialization.array_bindings, args):
            options = options.compiled_with(together=together)
        return program.on(runtime, types, options)

    def _program(self, constants: Mapping[int, Any]) -> Compiled:
        """Returns the program for constants."""
        key = tuple([(at, exact_key(value)) for at, value in constants.items()])
        known = self._programs.get(key)
        if known is None:
            known = self._programs[key] = compiled_program(
                self._definition, constants, self._parameters, is_internal=self._is_internal
            )
        return known

    def _asserts(self) -> bool:
        """True if the conditions of `tl.device_assert` are checked."""
        if self._is_internal:
            return False
        return self._debug or os.environ.get("TRITON_DEBUG", "0") not in ("", "0")

    def compiled(self, grid: Any, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[AnyKernel, int]:
        """Returns the kernel that a launch would run, and the bytes of its workgroup memory."""
        args, chosen = self._parameters.bound(args, named)
        args, sizes = all_held(args), self._parameters.grid(grid, args)
        forms, leaves = flattened(args, self._parameters.constexprs)
        if forms is not None:
            return self._of_leaves(forms).compiled(sizes, leaves, chosen.named())
        args, elements = given_arrays(args)
        runtime = runtime_among(bindings(args))
        args = tuple([temporary(runtime, arg.shape, arg.dtype) if is_host_array(arg) else arg for arg in args])
        loaded = self._on_grid(sizes, chosen, with_memory(args), runtime, elements)
        return loaded.kernel, loaded.specialization.module.interface.workgroup_memory.effective({})


def _key(arg: Any, constexpr: bool) -> Any:
    """Returns the part of a plan's key for an argument that is no array."""
    kind = type(arg)
    if kind is int:
        if constexpr:
            return kind, arg
        special = arg if arg == 1 else DIVISOR * (arg % DIVISOR == 0)  # 0 or 16, as True would equal 1
        return kind, special, -0x80000000 <= arg <= 0x7FFFFFFF
    if kind is PointerTable:
        return arg.key
    if kind is TensorWrapper:
        return arg.base.launch_key if type(arg.base) is Array else type(arg.base), arg.dtype
    return exact_key(arg) if constexpr or kind is Constexpr else kind


def _is_inexact(arg: Any) -> bool:
    """True for a number that a plan cannot pack again, and for an input of a graph."""
    return isinstance(arg, (np.bool_, Parameter)) or (type(arg) is int and not -0x80000000 <= arg <= 0x7FFFFFFF)
