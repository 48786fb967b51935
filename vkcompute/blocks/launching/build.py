"""Compiles block programs for the types of their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vkcompute import ir, tile
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.types import DTYPES, Pointer, TableValue, WindowsValue, parts_of
from vkcompute.blocks.launching.composites import assembled
from vkcompute.blocks.launching.parameter import is_const
from vkcompute.compiled.composites import Forms, all_leaf_names
from vkcompute.compiled.specialization import LOOP, OFFSET, TRUTH, VALUE, CompileOptions, Specialization, iterations_of
from vkcompute.dtypes import as_dtype
from vkcompute.errors import KernelError
from vkcompute.frontend.source import Definition
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT32, INT32, INT64, SCALARS, UINT32, Memory
from vkcompute.ir.function import Push
from vkcompute.ir.types import SmallFloat
from vkcompute.jit.compilation.build import optimized
from vkcompute.jit.frontend.values import ELEMENTS, PARTS, ArrayValue, Number
from vkcompute.tile import BFLOAT16
from vkcompute.tile.narrow_floats import widen
from vkcompute.tile.overlaps import Overlaps, relevant
from vkcompute.tile.registers import ADJACENT
from vkcompute.tile.simplification import remove_invariants
from vkcompute.tile.workgroup_memory import LoweringError

DIVISOR = 16
"""The divisor of ints that programs are specialized for, as in Triton."""
FOLDERS = Path(tile.__file__).parent, Path(__file__).parent.parent
"""Folders of the compiler of block programs, beside those of the compiler of kernels."""


class ArrayType(NamedTuple):
    """An array argument in a signature.

    Attributes:
        character: of its dtype.
        is_view: True if it has an offset that is a push constant.
        is_wide: True if wide accesses fit it.
        element: the name of the dtype as which its bits are taken; None for its own.
    """

    character: str
    is_view: bool
    is_wide: bool
    element: str | None = None


class TableType(NamedTuple):
    """A table of pointers in a signature.

    Attributes:
        character: of the arrays' dtype.
        element: the name of the dtype as which their bits are taken; None for their own.
        n_windows: the number of windows over them; 0 if they are under those of an earlier table of these types.
        is_wide: True if wide accesses fit them.
    """

    character: str
    element: str | None
    n_windows: int
    is_wide: bool

    @property
    def unit(self) -> int:
        """The number of elements by which the table counts indices in a window."""
        return ADJACENT if self.is_wide else 1


class IntType(NamedTuple):
    """A Python int in a signature.

    Attributes:
        name: of its dtype.
        divisor: `DIVISOR` or 1.
    """

    name: str
    divisor: int


class BlockOptions(NamedTuple):
    """Options of a block program's compilation.

    Attributes:
        n_warps: invocations of a workgroup are at most 32 times as many.
        target: for layouts and lowering.
        compilation: of the kernel in `ir/`.
        overlaps: the arrays that have bytes in common.
        asserts: True to check the conditions of `tl.device_assert`.
    """

    n_warps: int
    target: tile.Target
    compilation: CompileOptions
    overlaps: Overlaps = ()
    asserts: bool = False

    def compiled_with(self, **options: Any) -> BlockOptions:
        """Returns these options with other `CompileOptions`."""
        return self._replace(compilation=self.compilation._replace(**options))

    def split(self, splits: tuple[ir.Split, ...]) -> BlockOptions:
        """Returns these options for arrays of several bindings, on which each access branches: so there are few."""
        return self.with_few_elements().compiled_with(splits=splits)

    def with_few_elements(self) -> BlockOptions:
        """Returns these options with as few elements of a block per invocation as its threads allow."""
        return self._replace(target=self.target._replace(own_elements=tile.Target().own_elements))


class Built(NamedTuple):
    """A block program in the form of `tile/`.

    Attributes:
        memories: of the array arguments, by position; then of the windows of tables, at positions after all arguments.
        numbers: push constants of the others, by position.
        wide: the memories that wide accesses fit.
        n_arguments: the number of positions of arguments.
    """

    compiler: BlockCompiler
    memories: dict[int, Memory]
    numbers: dict[int, Push]
    wide: list[Memory]
    n_arguments: int

    @property
    def windows(self) -> list[int]:
        """Indices of the windows among the memories."""
        return [index for index, at in enumerate(self.memories) if at >= self.n_arguments]


def build(
    definition: Definition,
    constants: Mapping[int, Any],
    signature: Mapping[int, Any],
    options: BlockOptions | None = None,
    forms: Forms | None = None,
    *,
    has_complex: bool = False,
) -> Built:
    """Builds a program for constants and types, both by the position of the argument.

    Args:
        has_complex: True for a program of the library's own language, which has complex numbers.
        options: those of lowering, or None for all targets.
        forms: those of the arguments, if some are composite. Positions are then those of the leaves.

    Raises:
        KernelError: the function does something that block programs do not support, which is the cause.
    """
    code = definition.function.__code__
    parameters = code.co_varnames[: code.co_argcount]
    names = all_leaf_names(parameters, forms)
    compiler = BlockCompiler(ir.Function(definition.function.__name__))
    compiler.check_bounds = options is not None and options.compilation.check_bounds
    compiler.asserts, compiler.has_complex = options is None or options.asserts, has_complex
    compiler.arithmetic.pointer_choices.read_only = _read_only(definition, names)
    built = Built(compiler, {}, {}, [], len(names))
    given = {**constants, **_arguments(built, names, signature)}
    args = [given[at] for at in range(len(names))]
    try:
        args = args if forms is None else assembled(compiler, parameters, forms, args)
        compiler.run(definition.function, definition.source, dict(zip(parameters, args, strict=True)))
    except KernelError as error:
        raise error from UnsupportedError(error.error_message)
    except UnsupportedError as error:
        raise definition.error(error) from UnsupportedError(*error.args)
    except RecursionError:
        raise definition.source.too_deep() from None
    matrices = () if options is None else options.target.matrices
    has_matrices = any(matrix.operand == BFLOAT16.name for matrix in matrices)
    function, by_halves = remove_invariants(compiler.function), options is not None and _has_halves(options)
    widen(function, compiler.builder, keeps_operands=has_matrices, by_halves=by_halves)
    return built


def _has_halves(options: BlockOptions) -> bool:
    """True for devices with float16, its subnormal numbers included, which GPUs may flush to 0."""
    missing = options.compilation.target.missing_types
    return not (options.target.stages or "float16" in missing or "uint16" in missing)


def _read_only(definition: Definition, names: Sequence[str]) -> set[int]:
    """Returns the positions of the arguments, by name, whose parameters are annotated as tl.const."""
    constants = {name for name, parameter in definition.signature.parameters.items() if is_const(parameter.annotation)}
    return {at for at, name in enumerate(names) if name in constants}


def _arguments(built: Built, names: Sequence[str], signature: Mapping[int, Any]) -> dict[int, Any]:
    """Declares the arguments of a signature; returns their values in the program, by position."""
    args: dict[int, Any] = {}
    for at, kind in signature.items():
        if not isinstance(kind, (ArrayType, TableType)):
            args[at] = _number(built, names[at], at, kind)
    for at, kind in signature.items():
        if isinstance(kind, ArrayType):
            args[at] = _pointer(built, names[at], at, kind)
        elif isinstance(kind, TableType):
            built.memories[at] = built.compiler.function.buffer(names[at], INT32)
    shared: dict[tuple[str, str | None], tuple[Memory, ...]] = {}
    for at, kind in signature.items():
        if isinstance(kind, TableType):
            args[at] = _table(built, names[at], at, kind, shared)
    return args


def _number(built: Built, name: str, at: int, kind: Any) -> Number:
    """Returns the number of an argument, which is passed with at least 32 bits."""
    compiler, target = built.compiler, _element(kind)
    stored = target if target.bits >= 32 else {"f": FLOAT32, "i": INT32}.get(target.kind, UINT32)
    push = built.numbers[at] = compiler.function.push(name, stored)
    if isinstance(kind, IntType):
        compiler.divisors[push] = kind.divisor
    return compiler.number(compiler.builder.cast(push, target))


def _element(kind: Any) -> ir.Scalar:
    """Returns the type of a number in a signature."""
    if isinstance(kind, (IntType, str)):
        return DTYPES[kind.name if isinstance(kind, IntType) else kind].scalar_type
    return BOOL if kind is bool else FLOAT32 if kind is float else SCALARS[as_dtype(kind).name]


def _memory(built: Built, name: str, at: int, kind: ArrayType | TableType) -> Memory:
    """Declares the memory of an array."""
    element, seen = ELEMENTS[as_dtype(kind.character).name], _seen(kind)
    if BOOL not in (element, seen):
        element = seen
    in_memory = SCALARS[f"uint{element.bits}"] if element is BOOL or isinstance(element, SmallFloat) else element
    in_memory = PARTS.get(element, in_memory)
    is_window = at >= built.n_arguments
    name = f"the parts of {name}" if seen in PARTS else name  # which count elements twice
    memory = built.memories[at] = built.compiler.function.buffer(name, in_memory, window=is_window)
    if kind.is_wide:
        built.wide.append(memory)
    return memory


def _seen(kind: ArrayType | TableType) -> ir.Scalar:
    """Returns the type of the elements that the program sees."""
    return ELEMENTS[as_dtype(kind.character).name] if kind.element is None else DTYPES[kind.element].scalar_type


def _table(
    built: Built, name: str, at: int, kind: TableType, shared: dict[tuple[str, str | None], tuple[Memory, ...]]
) -> Pointer:
    """Returns the pointer to a table, whose windows follow all arguments. Tables of the same types may share them."""
    types = kind.character, kind.element
    if kind.n_windows:
        first = built.n_arguments + len(built.windows)
        shared[types] = tuple([_memory(built, name, first + k, kind) for k in range(kind.n_windows)])
    windows = shared[types]
    target = WindowsValue(f"an array of {name}", at, _seen(kind), 1, windows[0], windows=windows)
    return Pointer(TableValue(name, at, INT64, 1, built.memories[at], target=target, unit=kind.unit), 0)


def _pointer(built: Built, name: str, at: int, kind: ArrayType) -> Pointer:
    compiler, memory, seen = built.compiler, _memory(built, name, at, kind), _seen(kind)
    unit = memory.element.bits // 8 if seen in PARTS else 0
    array = ArrayValue(name, at, seen, 1, memory, strided=kind.is_view, unit=unit)
    if not kind.is_view:
        return Pointer(array, 0)
    first = compiler.number(compiler.builder.bitcast(compiler.parameter(array, OFFSET), INT32))
    return Pointer(array, first if parts_of(array) == 1 else compiler.binary("*", first, parts_of(array)))


def lowered(definition: Definition, built: Built, options: BlockOptions) -> tile.Lowered:
    """Lowers a program to a kernel in `ir/`, optimized.

    Raises:
        KernelError: an operation needs more than the device has.
    """
    function = built.compiler.function
    overlapping, aliased = relevant(function, options.overlaps)
    try:
        kernel = tile.lower(
            function,
            options.target,
            n_warps=options.n_warps,
            divisors=built.compiler.divisors,
            wide=built.wide,
            overlapping=overlapping,
            aliased=aliased,
            asserts=options.asserts,
        )
    except LoweringError as error:
        if error.location is not None:
            location = str(error.location)
            raise KernelError(location.replace("\0" if "\0" in location else LOOP, str(error), 1)) from None
        raise definition.source.error(definition.source.tree, error) from None
    made = optimized(kernel.function, options.compilation, is_uniform=True)
    if made.array_bindings is not None and kernel.aliases:  # packed arrays cannot be bound once more
        # Elements are accessed singly, so that code for many of them takes drivers for CPUs minutes to compile.
        return lowered(definition, built._replace(wide=[]), options.with_few_elements())
    if built.windows and ir.excess_bindings(made, options.compilation.target) > 0:
        most = options.compilation.target.max_storage_buffers
        raise definition.source.error(
            definition.source.tree,
            UnsupportedError(
                f"its arrays and tables of pointers take more than the {most} bindings of the device; tables of one "
                "dtype take one per block of memory with arrays of them; pass tables of fewer dtypes"
            ),
        )
    return kernel._replace(function=made)


def specialize(
    definition: Definition,
    constants: Mapping[int, Any],
    signature: Mapping[int, Any],
    options: BlockOptions,
    forms: Forms | None = None,
    *,
    has_complex: bool = False,
) -> Specialization:
    """Compiles a program, as `build`.

    Raises:
        KernelError: the function does something that block programs do not support.
    """
    built = build(definition, constants, signature, options, forms, has_complex=has_complex)
    try:
        kernel = lowered(definition, built, options)
        in_words = ir.in_words(kernel.function, options.compilation.target)
        module = ir.lower(kernel.function, options.compilation.target)
    except RecursionError:
        raise definition.source.too_deep() from None
    compiler, arrays = built.compiler, list(built.memories)
    bound = *range(len(arrays)), *kernel.aliases
    scalars = [(at, TRUTH if signature[at] in (bool, np.bool_) else VALUE) for at in built.numbers]
    pushes = (*scalars, *compiler.extents)
    return Specialization(
        module,
        compiler.captured.all(),
        iterations_of(kernel.function, compiler.bounds),
        pushes,
        local_size=kernel.function.local_size,
        features=tuple(sorted(ir.float_atomics(kernel.function))),
        strided=tuple([(arrays.index(at), n) for n, (at, what) in enumerate(pushes) if what == OFFSET]),
        aliases=kernel.aliases,
        sites=kernel.sites,
        array_bindings=kernel.function.array_bindings,
        in_words=in_words,
        windows=tuple([at for at, index in enumerate(bound) if index in built.windows]),
        grid_wrapped=options.compilation.grid_wrapped,
        subgroup_size=options.target.subgroup_size if options.target.subgroup_size > 1 else None,
    )
