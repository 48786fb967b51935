"""Launches of block programs on the device of their arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

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
from vkcompute.compiled.arguments import group_of, kind_of_array, refuse_complex
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
from vkcompute.compiled.specialization import TRUTH, VALUE, CompileOptions, Specialization
from vkcompute.compiled.spilling_kernel import SpillingKernel, splits_of, together_of
from vkcompute.compiled.target import computes_by_words, target_of
from vkcompute.dtypes import as_dtype
from vkcompute.errors import MissingFeature, hides_calls
from vkcompute.frontend.source import Definition
from vkcompute.ir import Function, Split
from vkcompute.ir.function import walk
from vkcompute.ir.types import element_of
from vkcompute.jit.compilation import fingerprint
from vkcompute.jit.compilation.fingerprint import PythonOrigin
from vkcompute.jit.compilation.missing_types import lacking_types, located
from vkcompute.jit.kernel import is_set
from vkcompute.runtime.bounded_cache import BoundedCache
from vkcompute.runtime.graphs.aliasing import may_overlap
from vkcompute.runtime.graphs.graph import temporary
from vkcompute.runtime.launching.arguments import needs_strides
from vkcompute.runtime.launching.kernel import Kernel
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.holders import all_held, is_holder
from vkcompute.runtime.memory.window import ranges_overlap, spans_of
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.scheduling.placeholders import Parameter
from vkcompute.tile.array_access import is_wide, overlaps_of
from vkcompute.tile.device import block_target
from vkcompute.tile.overlaps import Overlaps
from vkcompute.tile.target import Target

__tracebackhide__ = hides_calls

_INTS, _INT32 = {int}, range(-(1 << 31), 1 << 31)
_EXACT: dict[type, Callable[[Any], Any]] = {bool: bool, int: int, str: str, float: float.hex}
"""Keys of constants that no other constant of the type has: 0.0 and -0.0 are equal."""
_MAX_FORMS = 256
_MAX_PROGRAMS = 1024
_SUMS_BY_WORDS = 4  # of a product of float64 that an invocation computes by words


class BlockSource:
    """A block program for constants; a `Source`, whose keys are the types of the arguments and `BlockOptions`.

    Attributes:
        name: of the program.
        origin: its function, for the cache.
    """

    def __init__(self, definition: Definition, constants: Mapping[int, Any], parameters: Parameters) -> None:
        self._definition, self._constants, self._forms = definition, constants, parameters.forms
        self.name, self.origin = parameters.name, PythonOrigin([definition.function])

    def specialize(self, signature: Sequence[tuple[int, Any]], options: BlockOptions) -> Specialization:
        """Compiles the program for types by the position of the argument."""
        return specialize(self._definition, self._constants, dict(signature), options, self._forms)

    def function(self, signature: Sequence[tuple[int, Any]], options: BlockOptions) -> Function:
        """Returns the optimized function that a program is lowered from."""
        built = build(self._definition, self._constants, dict(signature), options, self._forms)
        return lowered(self._definition, built, options).function

    def explained(self, missing: MissingFeature, *key: Any) -> MissingFeature:
        """Adds the first call that gives numbers of a missing type to an error, if there is one."""
        lacking = lacking_types(missing)
        built = build(self._definition, self._constants, dict(key[0]), forms=self._forms)
        for op in walk(built.compiler.function.body):
            if op.has_result and op.loc is not None and element_of(op.type).name in lacking:
                return located(missing, str(op.loc).replace("\0", f"this is {element_of(op.type)}"))
        return missing


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
        args, elements = unwrapped(on_host(args))
        bound = bindings(args)
        runtime = runtime_among(bound)
        hosts = hosts_among(self.name, runtime, bound)
        bound = bound if hosts is None else hosts.args
        args = tuple([arg if type(arg) is PointerTable else bound[at] for at, arg in enumerate(args)])
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
        constants, signature = self._parameters.typed(args, _type_of, elements)
        checks = not self._is_internal and is_set("VKCOMPUTE_CHECK_BOUNDS")
        compilation = CompileOptions(
            grid_wrapped=is_wrapped(grid, runtime), check_bounds=checks, target=target_of(runtime)
        )
        asserts = chosen.asserts or checks or self._asserts()
        program, types = self._program(constants), tuple(signature.items())
        target = _target_for(runtime, signature.values())
        options = BlockOptions(chosen.n_warps, target, compilation, _overlaps(args), asserts)
        specialization = program.specialized(types, options)
        if not specialization.windows and (splits := _splits(runtime, specialization, args)):
            few = options.target._replace(own_elements=Target().own_elements)  # each access branches on the bindings
            options = options._replace(target=few).compiled_with(splits=splits)
        elif together := together_of(runtime, specialization.array_bindings, args):
            options = options.compiled_with(together=together)
        return program.on(runtime, types, options)

    def _program(self, constants: Mapping[int, Any]) -> Compiled:
        """Returns the program for constants: their texts are a part of the key on disk."""
        key = tuple([(at, exact_key(value)) for at, value in constants.items()])
        known = self._programs.get(key)
        if known is None:
            texts = [fingerprint.value(value) for value in constants.values()]
            text = None if None in texts else repr([*zip(constants, texts, strict=True)])
            source = BlockSource(self._definition, constants, self._parameters)
            common = "blocks", code_version(*FOLDERS, *self._folders(constants)), text, repr(self._parameters.forms)
            known = self._programs[key] = Compiled(source, *common)
        return known

    def _folders(self, constants: Mapping[int, Any]) -> list[Path]:
        """Returns the folders with the functions of the library that a program of it calls."""
        if not self._is_internal:
            return []
        called = [self._definition, *[getattr(value, "definition", None) for value in constants.values()]]
        return [Path(program.function.__code__.co_filename).parent for program in called if program is not None]

    def _asserts(self) -> bool:
        """True if the conditions of `tl.device_assert` are checked."""
        if self._is_internal:
            return False
        return self._debug or os.environ.get("TRITON_DEBUG", "0") not in ("", "0")

    def compiled(self, grid: Any, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Kernel | SpillingKernel, int]:
        """Returns the kernel that a launch would run, and the bytes of its workgroup memory."""
        args, chosen = self._parameters.bound(args, named)
        sizes = self._parameters.grid(grid, args)
        forms, leaves = flattened(args, self._parameters.constexprs)
        if forms is not None:
            return self._of_leaves(forms).compiled(sizes, leaves, chosen.named())
        args, elements = unwrapped(on_host(args))
        runtime = runtime_among(bindings(args))
        args = tuple([temporary(runtime, arg.shape, arg.dtype) if is_host_array(arg) else arg for arg in args])
        loaded, kernel, _ = self._on_grid(sizes, chosen, args, runtime, elements)
        return kernel, loaded.module.interface.workgroup_memory.effective({})


def bindings(args: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the arguments, with the arrays of wrappers and the rows of tables, then the windows of the tables."""
    args, _ = unwrapped(args)
    tables = {at: memory_of(arg) for at, arg in enumerate(args) if type(arg) is PointerTable}
    if not tables:
        return args
    given = [tables[at].rows if at in tables else arg for at, arg in enumerate(args)]
    return (*given, *[window for table in tables.values() for window in table.windows])


def _target_for(runtime: Runtime, types: Iterable[Any]) -> Target:
    """Returns the target for a program with arguments of these types."""
    target = block_target(runtime)
    dtypes = [as_dtype(kind.character) for kind in types if hasattr(kind, "character")]
    if computes_by_words(runtime, dtypes):
        return target._replace(spreads=True, sums=_SUMS_BY_WORDS, stages=False)
    return target


def _type_of(arg: Any) -> Any:
    """Returns the part of a signature for an array, a table or an input of a graph; None for all else."""
    if type(arg) is PointerTable:
        return memory_of(arg).type
    if type(arg) is Parameter:
        kind = number_type(arg.value, arg.name)
        return kind._replace(divisor=1) if isinstance(kind, IntType) else kind  # a run may have any value
    if type(arg) is not Array:
        return None
    refuse_complex(arg)
    is_view = needs_strides(arg)
    return ArrayType(kind_of_array(arg)[0], is_view, is_wide(arg))


def _splits(runtime: Runtime, specialization: Specialization, args: tuple[Any, ...]) -> tuple[Split, ...]:
    """Returns the arrays that take several bindings, after which a kernel loads no texels.

    There are none if all larger than a storage buffer are texel buffers, which have a limit of their own.
    """
    splits = splits_of(runtime, args)
    if not splits:
        return ()
    n_arrays = sum(type(arg) is Array for arg in args)
    bindings = zip((*range(n_arrays), *specialization.aliases), specialization.module.interface.bindings, strict=False)
    stored = {at for at, binding in bindings if binding.kind == "storage_buffer"}
    return splits if any(at in stored for at, *_ in splits) else ()


def _overlaps(args: tuple[Any, ...]) -> Overlaps:
    """Returns the pairs of arrays that have bytes in common; None if there are tables, and any arrays may have some."""
    arrays = [arg for arg in args if type(arg) is Array]
    pairs = overlaps_of(arrays)
    windows = [window for arg in args if type(arg) is PointerTable for window in memory_of(arg).windows]
    if not windows:
        return pairs
    may = pairs or any(may_overlap(array, window) for array in arrays for window in windows)
    return None if may or ranges_overlap([spans_of(arrays), *[spans_of([window]) for window in windows]]) else ()


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
