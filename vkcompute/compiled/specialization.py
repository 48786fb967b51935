"""Specializations: kernels compiled to SPIR-V for the types of their arguments, with certain options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from vkcompute import ir
from vkcompute.compiled.captured import CapturedGlobal, Table, unchanged
from vkcompute.compiled.composites import Forms
from vkcompute.compiled.report import Site
from vkcompute.ir.intervals import Interval
from vkcompute.ir.target import ANY

LOOP = "this loop"
"""Message of the error that is the `loc` of a loop; a user of the location replaces it."""
MODEST = 1024
IterationBounds = tuple[int | None, int | None]
"""Upper bounds of the iterations of an invocation, all loops together, or None if unknown.

The first holds for all push constants, the second if all of them are less than MODEST.
"""
NO_IDS = ir.IdAxes()
Misfit = tuple[int, str]
"""Tiles that do not fit the local size: the axis of workgroups along which they follow each other, and the error."""
VALUE, TRUTH, SIZE = -3, -2, -1
"""Sources of a push constant in its argument; those from 0 on are the length of an axis."""
OFFSET, STRIDE = -4, 64
"""Sources of the launch parameters of a view: the index of its first element, and STRIDE + axis. NumPy has 64 axes."""
REAL, IMAG = -7, -8
"""Sources of the parts of a complex number."""
SPAN, LOWEST = -5, -6
"""The number of elements from the lowest to the highest of a view, and the lowest one's offset from the first."""


class CompileOptions(NamedTuple):
    """Options of a kernel's compilation.

    Attributes:
        local_size: invocations per workgroup; None for the default of the first array that is assigned to.
        is_declared: True if the kernel declares its local size.
        grid_wrapped: True if workgroups along x continue along y. Their number is the last push constant.
        emulate_atomics: True to build atomic operations on floats from integer compare-exchange.
        check_bounds: True to compare indices with the shape.
        fast_math: True to use the device's own functions of floats where it has them.
        target: of the module.
        splits: the arrays that take several bindings.
        together: the arrays that are in one buffer, for a kernel of more arrays than the device binds.
        aliased: True if an array may have bytes in common with another that is written.
        forms: those of the arguments, if some are composite.
    """

    local_size: tuple[int, int, int] | None = None
    is_declared: bool = False
    grid_wrapped: bool = False
    emulate_atomics: bool = False
    check_bounds: bool = False
    fast_math: bool = False
    target: ir.Target = ANY
    splits: tuple[ir.Split, ...] = ()
    together: tuple[tuple[int, ...], ...] = ()
    aliased: bool = False
    forms: Forms | None = None

    def compiled_with(self, **options: Any) -> CompileOptions:
        """Returns these options with others in place of some."""
        return self._replace(**options)


DEFAULTS = CompileOptions()


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
        sites: the source locations that report; if there are any, the buffer for reports is bound after the arrays.
        limits: (index of a push constant, dtype) for each int argument that must fit a narrower type.
        tables: the constant tables, bound after the arrays.
        strided: (index of the array, of the push constant with its OFFSET) for each array that may be any view.
        in_words: indices of the arrays whose elements of 8 or 16 bits are accessed by words.
        dtypes: names of the dtypes of the results, of a function of elements.
        single: True if that function returns a number, False for a tuple of numbers.
        block: the number of elements that an invocation computes, of a function of elements.
        ids: the axes along which a kernel reads ids.
        misfits: tiles that do not fit the local size, unless the kernel declares it.
        array_bindings: those of the arrays, unless each has one of its own.
        aliases: arrays that are bound once more, after the others, for wide accesses of a block program.
        parts: the number of workgroups along each axis into which one is divided, as the device has fewer invocations.
        windows: indices of the bindings that span several arrays, of tables of pointers.
        grid_wrapped: as of `CompileOptions`.
        subgroup_size: as of `Program`.
        has_phases: True if it has grid barriers, so that a launch has several dispatches.
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
    misfits: tuple[Misfit, ...] = ()
    array_bindings: ir.ArrayBindings | None = None
    aliases: tuple[int, ...] = ()
    windows: tuple[int, ...] = ()
    grid_wrapped: bool = False
    parts: tuple[int, int, int] = (1, 1, 1)
    subgroup_size: int | None = None
    has_phases: bool = False

    @property
    def spirv(self) -> bytes:
        """The words of the module."""
        return self.module.spirv

    @property
    def is_current(self) -> bool:
        """True while the captured globals have the values that they had at compile time."""
        return unchanged(self.captured)


def iterations_of(function: ir.Function, bounds: Mapping[ir.Value, Interval] | None = None) -> IterationBounds:
    """Returns upper bounds of the iterations of a function's loops, given intervals of some push constants."""
    given: dict[Any, Interval] = {**(bounds or {})}
    always = ir.most_iterations(function, given)
    if always is not None and always < MODEST:
        return always, always
    return always, ir.most_iterations(function, dict.fromkeys(function.pushes, (0, MODEST - 1)) | given)
