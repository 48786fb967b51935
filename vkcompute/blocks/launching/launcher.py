"""Launches of block programs on the device of their arrays."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vkcompute.blocks.compiler.types import Constexpr
from vkcompute.blocks.launching.arguments import LaunchOptions, Parameters, exact_key, number_type
from vkcompute.blocks.launching.build import (
    DIVISOR,
    FOLDERS,
    ArrayType,
    BlockOptions,
    IntType,
    build,
    lowered,
    specialize,
)
from vkcompute.blocks.launching.composites import Forms, flattened
from vkcompute.blocks.launching.pointer_table import PointerTable
from vkcompute.blocks.launching.reinterpretation import TensorWrapper, unwrapped
from vkcompute.blocks.launching.table_memory import memory_of
from vkcompute.blocks.launching.tensors import on_host
from vkcompute.code_version import code_version
from vkcompute.errors import MissingFeature, hides_calls
from vkcompute.frontend.source import Definition
from vkcompute.ir import Function, Split
from vkcompute.ir.function import walk
from vkcompute.ir.types import element_of
from vkcompute.jit.compilation import fingerprint
from vkcompute.jit.compilation.arguments import group_of, kind_of_array
from vkcompute.jit.compilation.build import CompileOptions
from vkcompute.jit.compilation.cache import Specializations
from vkcompute.jit.compilation.missing_types import lacking_types, located
from vkcompute.jit.compilation.specialization import TRUTH, VALUE, Specialization
from vkcompute.jit.kernel import is_set
from vkcompute.jit.launching import report_reader
from vkcompute.jit.launching.host_arrays import HostArrays, is_host_array
from vkcompute.jit.launching.launcher import pushed
from vkcompute.jit.launching.loops import Loops, on_device
from vkcompute.jit.launching.plan import Plan, launch
from vkcompute.jit.launching.spilling_kernel import SpillingKernel, splits_of
from vkcompute.jit.launching.target import target_of
from vkcompute.runtime.bounded_cache import BoundedCache
from vkcompute.runtime.graphs.aliasing import may_overlap
from vkcompute.runtime.graphs.graph import temporary
from vkcompute.runtime.launching.arguments import needs_strides
from vkcompute.runtime.launching.kernel import Kernel
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.window import ranges_overlap, spans_of
from vkcompute.runtime.runtime import Runtime, current_runtime, runtime_of
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.placeholders import Parameter
from vkcompute.tile.device import block_target
from vkcompute.tile.overlaps import Overlaps
from vkcompute.tile.program import is_wide, overlaps_of
from vkcompute.tile.target import Target

__tracebackhide__ = hides_calls

_MAX_PLANS = 1024
_MAX_FORMS = 256
_MOST_PRINTS = 1 << 16


class _Known(NamedTuple):
    """A launch that can be repeated.

    Attributes:
        plan: a weak reference to its plan, which the runtime keeps.
        order: positions of the arguments in the order of the plan.
        is_plain: True if the arguments are those of the plan, without wrappers and tables.
    """

    plan: weakref.ref[Plan]
    order: tuple[int, ...]
    is_plain: bool


class BlockLauncher:
    """Launches a block program, and keeps its specializations."""

    def __init__(self, definition: Definition, parameters: Parameters, *, debug: bool = False) -> None:
        self._debug = debug
        self._definition, self.name, self._parameters = definition, parameters.name, parameters
        self._plan_key = object()
        self._programs: dict[tuple[Any, ...], Specializations] = {}
        self._of_forms: BoundedCache[Forms, BlockLauncher] = BoundedCache(_MAX_FORMS)
        self._plans: BoundedCache[tuple[Any, ...], _Known] = BoundedCache(_MAX_PLANS)

    def __call__(self, grid: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Launches the program on a grid: a tuple, or a function of the arguments by name."""
        args, chosen = self._parameters.bound(args, named)
        sizes = self._parameters.grid(grid, args)
        if 0 in sizes:
            _, leaves = flattened(args, self._parameters.constexprs)
            return _runtime_of(unwrapped(leaves)[0]).scheduler.completed_future()
        pairs = zip(args, self._parameters.constexprs, strict=True)
        places = [arg.launch_key if type(arg) is Array else _place(arg, constexpr) for arg, constexpr in pairs]
        key = self._plan_key, sizes, chosen, *places
        try:
            known = self._plans.get(key)
        except TypeError:  # a mutable constant, which has no hash
            self._parameters.check_constants(args, Parameter)
            raise
        if known is not None and (plan := known.plan()) is not None:
            bound = args if known.is_plain else bindings(args)
            future = plan.launch([bound[at] for at in known.order], None)
            if future is not None:
                return future
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
        args, elements = unwrapped(on_host(args))
        bound = bindings(args)
        runtime = _runtime_of(bound)
        hosts = HostArrays(self.name, runtime, bound) if any(map(is_host_array, bound)) else None
        bound = bound if hosts is None else hosts.args
        args = tuple([arg if type(arg) is PointerTable else bound[at] for at, arg in enumerate(args)])
        found, kernel, loops, grid = self._on_grid(grid, chosen, args, runtime, elements)
        if hosts is not None:
            hosts.check(kernel, found.aliases)
        at_arrays = [at for at, arg in enumerate(bound) if isinstance(arg, Array)]
        numbers = [at for at, what in found.pushes if what in (VALUE, TRUTH)]
        order = (*at_arrays, *numbers, *[at_arrays[each] for each in found.aliases])
        pushes = [pushed(bound[at], what) for at, what in found.pushes]
        inexact = any(_is_inexact(args[at]) or self._parameters.is_narrow(at) for at in numbers)
        is_alone = bool(found.windows) and runtime.device.physical.instance.validation != "off"
        exact = hosts is None and at_arrays and not inexact and not is_alone
        given = [bound[at] for at in order]
        if is_alone:  # the validation layer takes all bytes of a window for accessed
            runtime.scheduler.finish()
        if found.sites:
            arrays = [arg for arg in given if isinstance(arg, Array)]
            future = self._reporting(found, kernel, loops, arrays, pushes, grid)
        else:
            future = launch(key if exact else None, found, (kernel, loops), given, pushes, grid)
        if is_alone:
            runtime.scheduler.finish()
        if exact and (plan := runtime.plans.get(key)) is not None:
            self._plans[key] = _Known(weakref.ref(plan), order, not elements and len(bound) == len(args))
        if hosts is not None:
            hosts.read(kernel, found.aliases)
        return future

    def _of_leaves(self, forms: Forms) -> BlockLauncher:
        """Returns the launcher for the leaves of arguments of these forms."""
        found = self._of_forms.get(forms)
        if found is None:
            parameters = self._parameters.of_leaves(forms)
            found = self._of_forms[forms] = BlockLauncher(self._definition, parameters, debug=self._debug)
        return found

    def _reporting(
        self,
        found: Specialization,
        kernel: Kernel | SpillingKernel,
        loops: Loops | None,
        arrays: Sequence[Array],
        pushes: list[Any],
        grid: tuple[int, ...],
    ) -> Future:
        """Launches with the buffer for reports as the last array."""

        def run(arrays: Sequence[Array]) -> Future:
            if loops is None:
                return kernel(*arrays, *pushes, grid=grid)
            return loops.launch(arrays, pushes, kernel.grid(arrays, grid), None)

        return report_reader.launch(kernel, found.sites, _MOST_PRINTS, arrays, run, "print fewer elements, by a mask")

    def _on_grid(
        self,
        grid: tuple[int, ...],
        chosen: LaunchOptions,
        args: tuple[Any, ...],
        runtime: Runtime,
        elements: Mapping[int, str],
    ) -> tuple[Specialization, Kernel | SpillingKernel, Loops | None, tuple[int, ...]]:
        """Returns the specialization and its grid, wrapped if it has more programs along x than the device allows."""
        most = runtime.device.physical.limits["maxComputeWorkGroupCount"][0]
        is_wrapped = len(grid) == 1 and grid[0] > most
        if is_wrapped:
            n_rows = -(-grid[0] // most)
            grid = -(-grid[0] // n_rows), n_rows
        self._parameters.check_constants(args, Parameter)
        constants, signature = self._parameters.typed(args, _type_of, elements)
        checks = is_set("VKCOMPUTE_CHECK_BOUNDS")
        compilation = CompileOptions(grid_wrapped=is_wrapped, check_bounds=checks, target=target_of(runtime))
        asserts = chosen.asserts or checks or self._asserts()
        options = BlockOptions(chosen.n_warps, block_target(runtime), compilation, _overlaps(args), asserts)
        find = partial(self._found, constants, signature)
        found = find(options)
        if not runtime.device.features.issuperset(found.features):
            options = options.compiled_with(emulate_atomics=True)
            found = find(options)
        if not found.windows and (splits := _splits(runtime, found, args)):
            few = options.target._replace(own_elements=Target().own_elements)  # each access branches on the bindings
            options = options._replace(target=few).compiled_with(splits=splits)
            found = find(options)

        def make() -> Function:
            built = build(self._definition, constants, signature, options, self._parameters.forms)
            return lowered(self._definition, built, options).function

        try:
            kernel, loops = on_device(runtime, self.name, found, make)
        except MissingFeature as missing:
            raise self._explained(missing, constants, signature) from None
        return found, kernel, loops, grid

    def _explained(
        self, missing: MissingFeature, constants: Mapping[int, Any], signature: Mapping[int, Any]
    ) -> MissingFeature:
        """Adds the first call that gives numbers of a missing type to an error, if there is one."""
        lacking = lacking_types(missing)
        built = build(self._definition, constants, signature, forms=self._parameters.forms)
        for op in walk(built.compiler.function.body):
            if op.has_result and op.loc is not None and element_of(op.type).name in lacking:
                return located(missing, str(op.loc).replace("\0", f"this is {element_of(op.type)}"))
        return missing

    def _found(
        self, constants: Mapping[int, Any], signature: Mapping[int, Any], options: BlockOptions
    ) -> Specialization:
        key = tuple(signature.items()), options
        return self._specializations(constants).find(key, partial(self._made, constants))

    def _made(self, constants: Mapping[int, Any], signature: Any, options: BlockOptions) -> Specialization:
        return specialize(self._definition, constants, dict(signature), options, self._parameters.forms)

    def _specializations(self, constants: Mapping[int, Any]) -> Specializations:
        """Returns the specializations for constants: their texts are a part of the key on disk."""
        key = tuple([(at, exact_key(value)) for at, value in constants.items()])
        if key not in self._programs:
            texts = [fingerprint.value(value) for value in constants.values()]
            text = None if None in texts else repr([*zip(constants, texts, strict=True)])
            functions = [self._definition.function]
            common = "blocks", code_version(*FOLDERS), text, repr(self._parameters.forms)
            self._programs[key] = Specializations(functions, *common)
        return self._programs[key]

    def _asserts(self) -> bool:
        """True if the conditions of `tl.device_assert` are checked."""
        return self._debug or os.environ.get("TRITON_DEBUG", "0") not in ("", "0")

    def compiled(self, grid: Any, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Kernel | SpillingKernel, int]:
        """Returns the kernel that a launch would run, and the bytes of its workgroup memory."""
        args, chosen = self._parameters.bound(args, named)
        sizes = self._parameters.grid(grid, args)
        forms, leaves = flattened(args, self._parameters.constexprs)
        if forms is not None:
            return self._of_leaves(forms).compiled(sizes, leaves, chosen.named())
        args, elements = unwrapped(on_host(args))
        runtime = _runtime_of(bindings(args))
        args = tuple([temporary(runtime, arg.shape, arg.dtype) if is_host_array(arg) else arg for arg in args])
        found, kernel, _, _ = self._on_grid(sizes, chosen, args, runtime, elements)
        return kernel, found.module.interface.workgroup_memory.effective({})


def bindings(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the arguments, with the arrays of wrappers and the rows of tables, then the windows of the tables."""
    args, _ = unwrapped(args)
    tables = {at: memory_of(arg) for at, arg in enumerate(args) if type(arg) is PointerTable}
    if not tables:
        return args
    given = [tables[at].rows if at in tables else arg for at, arg in enumerate(args)]
    return (*given, *[window for table in tables.values() for window in table.windows])


def _runtime_of(bound: Sequence[Any]) -> Runtime:
    """Returns the runtime of the arrays among the arguments; without an array, the default one."""
    arrays = [arg for arg in bound if isinstance(arg, Array)]
    return runtime_of(arrays[0]) if arrays else current_runtime()


def _type_of(arg: Any) -> Any:
    """Returns the part of a signature for an array, a table or an input of a graph; None for all else."""
    if type(arg) is PointerTable:
        return memory_of(arg).type
    if type(arg) is Parameter:
        found = number_type(arg.value, arg.name)
        return found._replace(divisor=1) if isinstance(found, IntType) else found  # a run may have any value
    if type(arg) is not Array:
        return None
    is_view = needs_strides(arg)
    return ArrayType(kind_of_array(arg)[0], is_view, is_wide(arg))


def _splits(runtime: Runtime, found: Specialization, args: tuple[Any, ...]) -> tuple[Split, ...]:
    """Returns the arrays that take several bindings, after which a kernel loads no texels.

    There are none if all larger than a storage buffer are texel buffers, which have a limit of their own.
    """
    splits = splits_of(runtime, args)
    if not splits:
        return ()
    n_arrays = sum(type(arg) is Array for arg in args)
    bindings = zip((*range(n_arrays), *found.aliases), found.module.interface.bindings, strict=False)
    stored = {at for at, binding in bindings if binding.kind == "storage_buffer"}
    return splits if any(at in stored for at, *_ in splits) else ()


def _overlaps(args: tuple[Any, ...]) -> Overlaps:
    """Returns the pairs of arrays that have bytes in common; None if there are tables, and any arrays may have some."""
    arrays = [arg for arg in args if type(arg) is Array]
    found = overlaps_of(arrays)
    windows = [window for arg in args if type(arg) is PointerTable for window in memory_of(arg).windows]
    if not windows:
        return found
    may = found or any(may_overlap(array, window) for array in arrays for window in windows)
    return None if may or ranges_overlap([spans_of(arrays), *[spans_of([window]) for window in windows]]) else ()


def _place(arg: Any, constexpr: bool) -> Any:
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
