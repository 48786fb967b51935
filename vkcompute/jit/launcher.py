"""Launches of a kernel in Python: its specialization for the arguments, on the device of its arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Signature as Parameters
from types import MappingProxyType, NoneType
from typing import Any

import numpy as np

from vkcompute.compiled.arguments import bound, group_of, kind_of_array, kind_of_number, remedy
from vkcompute.compiled.composites import Forms, all_leaf_names, flattened
from vkcompute.compiled.host_arrays import is_host_array, is_record_scalar, record_on, table_on
from vkcompute.compiled.launches import (
    Compiled,
    Loaded,
    Prints,
    hosts_among,
    is_wrapped,
    most_groups,
    pushed,
    runtime_among,
    writes_overlap,
)
from vkcompute.compiled.specialization import CompileOptions, Specialization
from vkcompute.compiled.spilling_kernel import AnyKernel, splits_of, together_of
from vkcompute.compiled.target import target_of
from vkcompute.dtypes import conversion, is_known
from vkcompute.errors import MissingFeature, hides_calls
from vkcompute.frontend.source import Definition
from vkcompute.ir import Function
from vkcompute.jit.compilation.annotations import EXACT, annotations_of, annotations_of_leaves, typed
from vkcompute.jit.compilation.build import Rules, Signature, build, divided, kernel_types, specialize
from vkcompute.jit.compilation.fingerprint import PythonOrigin
from vkcompute.jit.compilation.local_sizes import demand_tiles
from vkcompute.jit.compilation.missing_types import explained
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.values_needed import ValuesNeededError, with_values
from vkcompute.runtime.launching.arguments import needs_strides, require_aligned
from vkcompute.runtime.launching.launch_config import (
    ONE_INVOCATION,
    LaunchConfig,
    Sizes,
    declared,
    demand_axes,
    grid_over,
)
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.holders import all_held, is_holder
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.scheduling.placeholders import Parameter

_MAX_FORMS = 64
_MORE_PRINTS = "print less, or raise the limit, by @vc.kernel(print_limit={})"

__tracebackhide__ = hides_calls


class KernelSource:
    """A kernel in Python; a `Source`, whose keys are a signature and `CompileOptions`.

    Args:
        language: the class of its compiler.

    Attributes:
        name: of the function.
        origin: the function, for the cache.
    """

    def __init__(self, definition: Definition, rules: Rules, language: type[Compiler]) -> None:
        self._definition, self._rules, self._language = definition, rules, language
        self.name, self.origin = definition.function.__name__, PythonOrigin((definition.function,), rules)

    def specialize(self, signature: Signature, options: CompileOptions) -> Specialization:
        """Compiles the kernel for arguments of these types."""
        return specialize(self._definition, signature, options, self._rules, self._language)

    def function(self, signature: Signature, options: CompileOptions) -> Function:
        """Returns the optimized function that the kernel is lowered from."""
        compiler = build(self._language, self._definition, signature, options, self._rules)
        return divided(compiler, options)

    def explained(self, missing: MissingFeature, signature: Signature, options: CompileOptions) -> MissingFeature:
        """Adds the first use of a missing type to an error."""
        is_ours = self._language is Compiler
        return explained(missing, self._definition, signature, options, self._rules) if is_ours else missing


class Launcher:
    """Launches a kernel, and keeps its specializations.

    Composite arguments have a launcher for their leaves, one for each structure, with plans of its own.

    Args:
        options: with the forms of composite arguments, it launches leaves.
        rules: type the numbers of its language.
        language: the class of its compiler; its qualified name belongs to the key of the disk cache.
    """

    def __init__(
        self,
        definition: Definition,
        parameters: Parameters,
        options: CompileOptions,
        print_limit: int,
        rules: Rules = kernel_types,
        language: type[Compiler] = Compiler,
    ) -> None:
        self._options, self._print_limit = options, print_limit
        self._definition, self._parameters = definition, parameters
        self._rules, self._language, self._of_forms = rules, language, dict[Forms, Launcher]()
        self._name, names, forms = definition.function.__name__, [*parameters.parameters], options.forms
        self._names = all_leaf_names(names, forms)
        self._annotations = annotations_of(definition.function) if language is Compiler else {}
        if forms is not None:
            self._annotations = annotations_of_leaves(self._name, names, self._annotations, forms)
        self._compiled = Compiled(
            KernelSource(definition, rules, language), language.__qualname__, freezes=language.freezes_globals
        )
        self._fixed: frozenset[int] = frozenset()  # positions of the arguments for whose values it is compiled
        self._plan_key, self._array_at = object(), 0  # position of an array among the arguments of the last launch

    def __call__(self, config: LaunchConfig, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Launches the kernel, on the default grid where the configuration leaves it open."""
        if named or len(args) != len(self._names):
            args = bound(self._name, self._parameters, args, named)
        key = self._plan_key, config, *[arg.launch_key if type(arg) is Array else type(arg) for arg in args]
        try:
            plan = args[self._array_at].runtime.plans.get(key)
        except (AttributeError, IndexError):  # another argument is an array now
            plan = None
        return (plan and plan.launch(args, config.queue)) or self._planned(key, config, args)

    def kernel(self, config: LaunchConfig, named: Mapping[str, Any], args: tuple[Any, ...]) -> AnyKernel:
        """Returns the kernel that a launch with these arguments would run."""
        args = args if self._options.forms else bound(self._name, self._parameters, args, named)
        forms, leaves = flattened(args)
        if forms is not None:
            return self.of_leaves(forms).kernel(config, {}, leaves)
        if group_of(args) is not None:
            raise TypeError(f"{self._name} is compiled for each device of a group; pass the shards of one, x.shards[0]")
        args, signature = self._typed(args)
        config = declared(self._name, config, self._options.local_size)
        return self._for_values(signature, config, args, runtime_among(args))[0].kernel

    def of_leaves(self, forms: Forms) -> Launcher:
        """Returns the launcher for the leaves of arguments of these forms."""
        launcher = self._of_forms.get(forms)
        if launcher is None:
            if len(self._of_forms) == _MAX_FORMS:
                self._of_forms.clear()
            options = self._options._replace(forms=forms)
            launcher = self._of_forms[forms] = Launcher(
                self._definition, self._parameters, options, self._print_limit, self._rules, self._language
            )
        return launcher

    def _planned(self, key: tuple[Any, ...], config: LaunchConfig, args: tuple[Any, ...]) -> Any:
        """Launches without a plan, and keeps one for launches with the same key."""
        forms, leaves = flattened(args)
        if forms is not None:
            return self.of_leaves(forms)(config, leaves, {})
        if any(map(is_holder, args)):
            return self(config, all_held(args), {})
        if (group := group_of(args)) is not None:
            if any(map(is_host_array, args)):
                raise TypeError(f"{self._name} takes no NumPy array beside arrays of a group; pass group.array(data)")
            return group.kernel(lambda *here: self(config, here, {}))(*args)
        config = declared(self._name, config, self._options.local_size)
        self._array_at = next((at for at, arg in enumerate(args) if type(arg) is Array), 0)
        runtime = runtime_among(args)
        hosts = hosts_among(self._name, runtime, args)
        given, args, signature = args, *self._typed(args if hosts is None else hosts.args)
        args = tuple([record_on(runtime, arg) if is_record_scalar(arg) else arg for arg in args])
        loaded, grid, signature = self._for_values(signature, config, args, runtime)
        pushes = [pushed(args[at], what) for at, what in loaded.specialization.pushes]
        tables = [table_on(runtime, table) for table in loaded.specialization.tables]
        kept = key if is_exact(given, signature, self._annotations) else None
        prints = Prints(self._print_limit, _MORE_PRINTS)
        return loaded.launch(args, pushes, grid, config.queue, key=kept, tables=tables, hosts=hosts, prints=prints)

    def _for_values(
        self, signature: Signature, config: LaunchConfig, args: tuple[Any, ...], runtime: Runtime
    ) -> tuple[Loaded, Sizes | None, Signature]:
        """Returns `_on_grid` for the values of arguments that sizes of shared arrays depend on, and the signature."""
        values = [arg.value if type(arg) is Parameter else arg for arg in args]
        try:
            wanted = with_values(signature, values, self._fixed)
            return *self._on_grid(wanted, config, args, runtime), wanted
        except ValuesNeededError as needed:
            if needed.positions <= self._fixed:
                raise
            self._fixed |= needed.positions
        return self._for_values(signature, config, args, runtime)

    def _on_grid(
        self, signature: Signature, config: LaunchConfig, args: tuple[Any, ...], runtime: Runtime
    ) -> tuple[Loaded, Sizes | None]:
        """Returns the program for a grid, and the grid; one of None is computed by the kernel."""
        options = self._options._replace(
            local_size=config.local_size, target=target_of(runtime), splits=splits_of(runtime, args)
        )
        loaded = self._compiled.on(runtime, signature, options)
        ids = loaded.specialization.ids
        demand_axes(self._name, config, ids)
        if config.groups is config.local_size is None and not ids.in_group:
            options = options._replace(local_size=ONE_INVOCATION)
            loaded = self._compiled.on(runtime, signature, options)
        demand_tiles(loaded.specialization.misfits, config.groups)
        if together := together_of(runtime, loaded.specialization.array_bindings, args):
            options = options._replace(together=together)
            loaded = self._compiled.on(runtime, signature, options)
        if writes_overlap(loaded.kernel, args):
            options = options._replace(aliased=True)
            loaded = self._compiled.on(runtime, signature, options)
        grid = config.groups or self._grid(loaded.specialization, args, most_groups(runtime))
        if grid is not None and is_wrapped(grid, runtime, loaded.specialization.parts):
            loaded = self._compiled.on(runtime, signature, options._replace(grid_wrapped=True))
        return loaded, grid

    def _grid(self, specialization: Specialization, args: tuple[Any, ...], most: int) -> Sizes | None:
        """Returns the default grid, one invocation per element of an array; None if the kernel computes the same."""
        if (
            specialization.linear is not None
            and specialization.array_bindings is None
            and specialization.ids.of_groups == (0,)
            and 0 in specialization.ids.in_group
            and args[specialization.linear].size <= most * specialization.local_size[0]
        ):
            return None
        shape = args[specialization.first].shape if specialization.first is not None else None
        return grid_over(self._name, shape, specialization.local_size, specialization.ids)

    def _typed(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Signature]:
        """Converts annotated arguments, and returns them with their signature."""
        values = [arg.value if type(arg) is Parameter else arg for arg in args]
        values = typed(self._name, self._names, self._annotations, values)
        given = [arg if type(arg) is Parameter else value for arg, value in zip(args, values, strict=True)]
        kinds = [
            NoneType if value is None else kind_of(value, name) for value, name in zip(values, self._names, strict=True)
        ]
        return tuple(given), tuple(kinds)


def is_exact(args: Sequence[Any], signature: Signature, annotations: Mapping[int, Any] = MappingProxyType({})) -> bool:
    """True if the key of a plan identifies the signature: it has only the Python type of a number, not its value.

    This excludes complex numbers, which are two push constants, ints beyond int32, and numpy's bools, which `struct`
    cannot pack (numpy before 2 warns).
    """
    return all(
        type(arg) is Array
        or (
            type(arg) is not np.bool_
            and not isinstance(arg, (complex, np.complexfloating))
            and (type(arg) is kind or annotations.get(n) in EXACT)
        )
        for n, (kind, arg) in enumerate(zip(signature, args, strict=True))
    )


def kind_of(arg: Any, name: str = "", caller: str = "a kernel") -> Any:
    """Returns the part of a signature for an argument; `name` is its parameter's, for errors."""
    kind = type(arg)
    if kind is Array:
        array_kind = kind_of_array(arg)
        require_aligned(arg)
        return (*array_kind, True) if needs_strides(arg) else array_kind
    if is_record_scalar(arg):
        return arg.dtype, -1
    number = kind_of_number(arg)
    if number is not None:
        return number
    if kind is Parameter:
        if isinstance(arg.value, complex):
            raise TypeError(f"{caller} takes real numbers that are given with each run; got {arg.value} for {name}")
        return kind_of(arg.value, name, caller)
    got, instead = kind.__name__, remedy(arg, name or "it")
    if isinstance(arg, (np.ndarray, list)):
        instead = "; copy it to the device, by runtime.array(data)"
        if isinstance(arg, np.ndarray) and not is_known(arg.dtype):
            got, instead = f"a NumPy array of {arg.dtype}", conversion(arg.dtype, name or "x")
        elif np.ndim(arg) == 0:
            instead += f", or pass the number, as {name or 'x'}.item()"
    parameter = name and f" for {name}"
    raise TypeError(f"{caller} takes device arrays and numbers; got {got}{parameter}{instead}")
