"""Specializations: kernels compiled to SPIR-V for the types of their arguments."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType

import numpy as np

from vkcompute import ir
from vkcompute.frontend.captured import CapturedGlobal, Table, unchanged
from vkcompute.frontend.source import Definition
from vkcompute.jit.compilation.build import DEFAULTS, CompileOptions, Signature, build, optimized
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.memory import OFFSET
from vkcompute.jit.frontend.report import Site

MODEST = 1024
IterationBounds = tuple[int | None, int | None]
"""Upper bounds of the iterations of an invocation, all loops together, or None if unknown.

The first holds for all push constants, the second if all of them are less than MODEST.
"""
NO_IDS = ir.IdAxes()
VALUE, TRUTH, SIZE = -3, -2, -1  # source of a push constant in its argument; others are the length of an axis


@dataclass(frozen=True, eq=False)  # without slots, so that plans may refer to it weakly
class Specialization:
    """A kernel compiled for arguments of certain types.

    Attributes:
        module: arrays are bound in the order of the arguments.
        captured: globals found outside of the function.
        iterations: upper bounds of the iterations of its loops.
        pushes: the sources of the push constants, in order: (argument; axis, VALUE, TRUTH or SIZE; for a view also
            OFFSET, the index of its first element, or STRIDE + axis).
        first: the argument whose shape gives the default grid: the first array that is assigned to.
        linear: the same, if it has at most one axis and no bools in words, and the module writes no array before it.
        local_size: invocations per workgroup.
        features: Vulkan features that its atomic operations on floats need.
        sites: the places that report; if there are any, the buffer for reports is bound after the arrays.
        limits: (index of a push constant, dtype) for each int argument that must fit a narrower type.
        tables: the constant tables, bound after the arrays.
        strided: (index of the array, of the push constant with its OFFSET) for each array that may be any view.
        in_words: indices of the arrays whose elements of 8 or 16 bits are accessed by words.
        dtypes: names of the dtypes of the results, of a function of elements.
        single: True if that function returns a number, False for a tuple of numbers.
        block: the number of elements that an invocation computes, of a function of elements.
        ids: the axes along which a kernel reads ids.
        array_bindings: those of the arrays, unless each has one of its own.
        aliases: arrays that are bound once more, after the others, for wide accesses of a block program.
        windows: indices of the bindings that span several arrays, of tables of pointers.
    """

    module: ir.KernelModule
    captured: tuple[CapturedGlobal, ...]
    iterations: IterationBounds
    pushes: tuple[tuple[int, int], ...] = ()
    first: int | None = None
    linear: int | None = None
    local_size: tuple[int, int, int] = (64, 1, 1)
    features: tuple[str, ...] = ()
    sites: tuple[Site, ...] = ()
    limits: tuple[tuple[int, str], ...] = ()
    strided: tuple[tuple[int, int], ...] = ()
    in_words: tuple[int, ...] = ()
    tables: tuple[Table, ...] = ()
    dtypes: tuple[str, ...] = ()
    single: bool = True
    block: int = 1
    ids: ir.IdAxes = NO_IDS
    array_bindings: ir.ArrayBindings | None = None
    aliases: tuple[int, ...] = ()
    windows: tuple[int, ...] = ()

    @property
    def spirv(self) -> bytes:
        """The words of the module."""
        return self.module.spirv

    @property
    def is_current(self) -> bool:
        """True while the captured globals have the values that they had at compile time."""
        return unchanged(self.captured)


def specialize(definition: Definition, signature: Signature, options: CompileOptions = DEFAULTS) -> Specialization:
    """Compiles a kernel for arguments of these types.

    Raises:
        KernelError: the function does something that kernels do not support.
    """
    try:
        compiler = build(Compiler, definition, signature, options)
        ids = compiler.id_axes
        built, first = optimized(compiler.function, options), compiler.first_assigned
        scalars = [
            (n, TRUTH if each in (bool, np.bool_) else VALUE)
            for n, each in enumerate(signature)
            if type(each) is not tuple and each is not NoneType
        ]
        arrays = [n for n, each in enumerate(signature) if type(each) is tuple]
        pushes, in_words = (*scalars, *compiler.extents), ir.in_words(built, options.target)
        linear = first if first is not None and first == min(compiler.written) and signature[first][1] < 2 else None
        if linear is not None and arrays.index(linear) in in_words:
            linear = None
        return Specialization(
            ir.lower(built, options.target),
            compiler.captured.all(),
            iterations_of(built),
            pushes,
            first,
            linear,
            built.local_size,
            tuple(sorted(ir.float_atomics(built))),
            tuple(compiler.reports.sites if compiler.reports is not None else ()),
            tuple(sorted(compiler.limits)),
            tuple([(arrays.index(n), at) for at, (n, what) in enumerate(pushes) if what == OFFSET]),
            in_words,
            tuple(compiler.tables),
            ids=ids,
            array_bindings=built.array_bindings,
        )
    except RecursionError:
        raise definition.source.too_deep() from None


def iterations_of(function: ir.Function) -> IterationBounds:
    """Returns upper bounds of the iterations of a function's loops."""
    always = ir.most_iterations(function, {})
    if always is not None and always < MODEST:
        return always, always
    return always, ir.most_iterations(function, dict.fromkeys(function.pushes, (0, MODEST - 1)))
