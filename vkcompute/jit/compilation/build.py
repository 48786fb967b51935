"""Builds a kernel in the intermediate form for the types of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, TypeVar

import numpy as np

from vkcompute import ir
from vkcompute.compiled.composites import all_leaf_names, assembled
from vkcompute.compiled.report import Reports
from vkcompute.compiled.specialization import (
    DEFAULTS,
    IMAG,
    OFFSET,
    REAL,
    TRUTH,
    VALUE,
    CompileOptions,
    Specialization,
    iterations_of,
)
from vkcompute.dtypes import as_dtype, is_record
from vkcompute.frontend.source import Definition
from vkcompute.ir import BOOL, FLOAT32, FLOAT64, INT32, SCALARS, UINT32, Scalar
from vkcompute.jit.compilation.barriers import with_uniform_barriers
from vkcompute.jit.compilation.local_sizes import demand_fit, tile_misfits
from vkcompute.jit.frontend import records
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.record_types import RecordType, element_type
from vkcompute.jit.frontend.type_rules import KernelTypes, TypeRules
from vkcompute.jit.frontend.values import ELEMENTS, PARTS, ArrayValue, Complex, Kind, Number, Record
from vkcompute.jit.frontend.values_needed import Fixed
from vkcompute.jit.library import catalog  # noqa: F401
from vkcompute.jit.library.math_lowering import lower_math, without_contraction

_Compiler = TypeVar("_Compiler", bound=Compiler)

Signature = tuple[Any, ...]
"""Per argument: (character of the dtype, ndim) for an array, with True if it may be any view; or the type of a number.
Records have the dtype itself, and an ndim of -1 for a record that is no array.

That is int, float, bool or numpy's; for a Python int beyond int32, the name of the dtype that holds it. For None, it is
NoneType, and for an int that is known at compile time `Fixed`.
"""
Rules = Callable[[Signature], TypeRules]
"""Returns the rules that type the numbers of a kernel, for the types of its arguments."""

_LOCAL_SIZES = {1: (64,), 2: (16, 8), 3: (16, 4, 2)}
"""Number of axes -> default local size along these."""


def kernel_types(signature: Signature) -> KernelTypes:
    """Returns the rules of `vc.kernel`."""
    return KernelTypes(real_of(signature))


def build(
    using: Callable[[ir.Function, TypeRules], _Compiler],
    definition: Definition,
    signature: Signature,
    options: CompileOptions = DEFAULTS,
    rules: Rules = kernel_types,
) -> _Compiler:
    """Builds a kernel, and returns its compiler.

    Args:
        using: makes the compiler.
        rules: those of its language.

    Raises:
        KernelError: the function does something that kernels do not support.
    """
    name, code = definition.function.__name__, definition.function.__code__
    parameters = code.co_varnames[: code.co_argcount]
    compiler = using(ir.Function(name, options.local_size or (64, 1, 1)), rules(signature))
    compiler.offsets.check_bounds = options.check_bounds
    compiler.reports = Reports(compiler.function, compiler.builder)
    compiler.captured.takes_tables = True
    further = [f"global {n}" for n in range(len(compiler.device_globals))]
    names = all_leaf_names([*parameters, *further], options.forms)
    values = [argument(compiler, names[n], n, kind) for n, kind in enumerate(signature)]
    for value in values:
        value = value.array if isinstance(value, Record) else value
        if isinstance(value, ArrayValue) and value.strided:
            compiler.offsets.parameter(value, OFFSET)  # behind the numbers, as `Specialization.pushes` has them
    compiler.leaves = [records.opened(compiler, value) for value in values]
    args = assembled(options.forms, compiler.leaves)
    own = dict(zip(parameters, args, strict=False))
    pairs = zip(compiler.device_globals, args[len(own) :], strict=True)
    compiler.captured.given = {id(array): value for array, value in pairs}
    compiler.run(definition.function, definition.source, own)
    compiler.reports.put_last()
    ir.merge_views(compiler.function)
    first = compiler.arrays.first_assigned
    if options.local_size is None and first is not None:
        default = _default_local_size(signature[first][1], compiler.id_axes.in_group)
        if default != compiler.function.local_size:
            return build(using, definition, signature, options._replace(local_size=default), rules)
    return compiler


def _default_local_size(ndim: int, axes: Sequence[int]) -> tuple[int, int, int]:
    """Returns the default local size for an array, and for the axes of the ids that a kernel reads.

    It is 1 along an axis without ids, where all invocations of a workgroup would do the same.
    """
    along = [axis for axis in axes if axis < ndim] or [0]
    sizes = dict(zip(along, _LOCAL_SIZES[len(along)], strict=True))
    return sizes.get(0, 1), sizes.get(1, 1), sizes.get(2, 1)


def optimized(
    function: ir.Function,
    options: CompileOptions = DEFAULTS,
    reports: Reports | None = None,
    *,
    is_uniform: bool = False,
    waits_in_branches: bool = False,
) -> ir.Function:
    """Applies the options to a function, and optimizes it, in place.

    Args:
        reports: take failures of conditions around barriers at run time.
        is_uniform: True if all invocations of a workgroup reach all barriers, as those of block programs do.
        waits_in_branches: True if invocations that do not take a branch wait at its barriers, too.

    Raises:
        KernelError: a barrier may not be reached by all invocations of a workgroup.
    """
    if not is_uniform:
        ir.order_volatile(function)
        aliased = function.buffers if options.aliased else ()
        function = with_uniform_barriers(function, reports, aliased, in_branches=waits_in_branches)
    if options.grid_wrapped:
        ir.wrap_grid(function)
    if options.target.max_invocations is not None:
        ir.divide_workgroups(function, options.target.max_invocations)
    ir.emulate_float_atomics(function, every=options.emulate_atomics)
    ir.bind_arrays(function, options.target, options.splits, options.together)
    ir.expand_small_atomics(function)
    if options.aliased:
        function.aliased = frozenset(function.buffers)
    if function.array_bindings is None:
        ir.load_texels(function, options.target)
    ir.saturate_conversions(function)
    marked = function if options.fast_math else without_contraction(function)
    return lower_math(ir.optimize(marked), fast=options.fast_math, target=options.target)


def divided(compiler: Compiler, options: CompileOptions) -> ir.Function:
    """Returns the function that a compiler has built, divided at grid barriers and optimized, in place."""
    waits = compiler.waits_in_branches
    ir.divide_at_grid_barriers(compiler.function)
    return optimized(compiler.function, options, compiler.reports, waits_in_branches=waits)


def real_of(signature: Signature) -> Scalar:
    """Returns the type of Python floats in a kernel with these arguments."""
    wide = any(kind in (np.float64, np.complex128) or (type(kind) is tuple and _is_wide(kind[0])) for kind in signature)
    return FLOAT64 if wide else FLOAT32


def _is_wide(dtype: Any) -> bool:
    """True for elements of 64-bit floats, and for records with such fields."""
    if not is_record(dtype):
        return isinstance(dtype, str) and dtype in "dD"
    parts = [field[0].base for field in dtype.fields.values()]
    return any(_is_wide(part if is_record(part) else part.char) for part in parts)


def argument(compiler: Compiler, name: str, position: int, given: Any) -> Any:
    """Declares the next binding or push constant for an argument of this type, and returns its value."""
    if given is NoneType:
        return None
    if type(given) is Fixed:
        return given.value
    function = compiler.function
    if type(given) is tuple:
        element = element_type(as_dtype(given[0]))
        if isinstance(element, RecordType):
            return records.argument(compiler, name, position, element, given[1], strided=len(given) > 2)
        memory = function.buffer(name, PARTS.get(element, element))
        return ArrayValue(name, position, element, given[1], memory, strided=len(given) > 2)
    if given is float:
        return Number(function.push(name, compiler.rules.real), Kind(compiler.rules.real, True))
    if given is int or isinstance(given, str):
        kind = SCALARS[given] if isinstance(given, str) else INT32
        return Number(function.push(name, kind), Kind(kind, given is int, argument=len(function.pushes) - 1))
    if issubclass(given, (complex, np.complexfloating)):
        part = Kind(compiler.rules.real, True) if given is complex else Kind(PARTS[ELEMENTS[np.dtype(given).name]])
        return Complex([Number(function.push(f"{name}.{which}", part.type), part) for which in ("real", "imag")])
    target = BOOL if given is bool else SCALARS[as_dtype(given).name]
    stored = target if target.bits >= 32 else {"f": FLOAT32, "i": INT32}.get(target.kind, UINT32)
    return compiler.converted(Number(function.push(name, stored), Kind(stored)), target)


def _parts(whole: tuple[int, int, int], part: tuple[int, int, int]) -> tuple[int, int, int]:
    """Returns the number of parts of divided workgroups along each axis."""
    x, y, z = (n // size for n, size in zip(whole, part, strict=True))
    return x, y, z


def sources(kind: Any) -> tuple[int, ...]:
    """Returns the sources of the push constants of a number of this type."""
    if kind in (bool, np.bool_):
        return (TRUTH,)
    return (REAL, IMAG) if has_parts(kind) else (VALUE,)


def has_parts(kind: Any) -> bool:
    """True for the type of a complex number or array in a signature."""
    if type(kind) is tuple:
        return kind[0] in ("F", "D")
    return isinstance(kind, type) and issubclass(kind, (complex, np.complexfloating))


def specialize(
    definition: Definition,
    signature: Signature,
    options: CompileOptions = DEFAULTS,
    rules: Rules = kernel_types,
    language: type[Compiler] = Compiler,
) -> Specialization:
    """Compiles a kernel for arguments of these types.

    Raises:
        KernelError: the function does something that kernels do not support, or its shared arrays do not fit the local
            size.
    """
    try:
        compiler = build(language, definition, signature, options, rules)
        ids = compiler.id_axes
        whole = compiler.function.local_size
        demand_fit(compiler.function)
        misfits = () if options.is_declared else tile_misfits(compiler.function, definition)
        built = divided(compiler, options)
        first = compiler.arrays.first_assigned
        scalars = [
            (n, what)
            for n, kind in enumerate(signature)
            if type(kind) not in (tuple, Fixed) and kind is not NoneType
            for what in sources(kind)
        ]
        arrays = [n for n, kind in enumerate(signature) if type(kind) is tuple]
        pushes, in_words = (*scalars, *compiler.offsets.pushed), ir.in_words(built, options.target)
        is_first = first is not None and first == min(compiler.arrays.written)
        linear = first if first is not None and is_first and signature[first][1] < 2 else None
        if linear is not None and (arrays.index(linear) in in_words or built.local_size != whole or built.phases):
            linear = None
        return Specialization(
            ir.lower(built, options.target),
            compiler.captured.all(),
            iterations_of(built),
            pushes,
            first,
            linear,
            whole,
            tuple(sorted(ir.float_atomics(built))),
            tuple(compiler.reports.sites if compiler.reports is not None else ()),
            tuple(sorted(compiler.numbers.limits)),
            tuple([(arrays.index(n), at) for at, (n, what) in enumerate(pushes) if what == OFFSET]),
            in_words,
            tuple(compiler.tables),
            ids=ids,
            misfits=misfits,
            array_bindings=built.array_bindings,
            grid_wrapped=options.grid_wrapped,
            parts=_parts(whole, built.local_size),
            has_phases=built.phases is not None,
        )
    except RecursionError:
        raise definition.source.too_deep() from None
