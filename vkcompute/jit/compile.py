"""A function and the types of its arguments become SPIR-V."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from vkcompute import ir
from vkcompute.errors import KernelError
from vkcompute.ir import BOOL, FLOAT32, FLOAT64, INT32, SCALARS, UINT8, UINT32, Scalar
from vkcompute.jit import accurate
from vkcompute.jit.expressions import Read
from vkcompute.jit.report import Site
from vkcompute.jit.source import Source
from vkcompute.jit.statements import Statements
from vkcompute.jit.values import Array, Kind, Number, same

Signature = tuple[Any, ...]
"""Per argument: (dtype's character, ndim) of a tensor, the type of a scalar (int, float, bool or numpy's)"""

Passes = tuple[int | None, int | None]
"""How often loops run at most, and how often if all numbers that the launch gives are less than MODEST; or unknown"""

LOCAL_SIZES = {2: (16, 8, 1), 3: (16, 4, 2)}
"""Number of axes -> the local size of a grid over them, if it is not (64, 1, 1)"""
MODEST = 1024
VALUE, TRUTH, SIZE = -3, -2, -1  # what a push constant is of its argument; else the length along an axis


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A function compiled for arguments of certain types.

    Attributes:
        spirv: the module; tensors are bound in the order of the arguments.
        pushes: where push constants come from, in order: (argument, axis, VALUE, TRUTH or SIZE).
        first: the argument whose shape the grid takes, if none is given: the first tensor that is assigned to.
        linear: the same, if it has one axis or none, and the module writes to none before it.
        local_size: invocations per workgroup.
        reads: what was found outside of the function.
        features: of Vulkan, that its atomic operations on floats need.
        passes: of its loops.
        sites: where it reports, into a buffer that is bound behind the tensors if there are any.
    """

    spirv: bytes
    pushes: tuple[tuple[int, int], ...]
    first: int | None
    linear: int | None
    local_size: tuple[int, int, int]
    reads: tuple[Read, ...]
    features: tuple[str, ...]
    passes: Passes
    sites: tuple[Site, ...]

    @property
    def current(self) -> bool:
        """Whether constants and functions from outside are what they were."""
        return unchanged(self.reads)


def unchanged(reads: Iterable[Read]) -> bool:
    """Whether what was found outside of a function is still the same."""
    try:
        return all(same(lookup(name), found) for lookup, name, found, _ in reads)
    except (AttributeError, KeyError, ValueError):
        return False


def compiled(
    function: FunctionType,
    source: Source,
    signature: Signature,
    local_size: tuple[int, int, int] | None,
    folded: bool = False,
    emulated: bool = False,
    checked: bool = False,
    fast_math: bool = False,
) -> Variant:
    """The variant for these arguments; without a local size, it is that for the first tensor that is written.

    Args:
        folded: whether groups along the first axis go on along the second.
        emulated: whether it does without atomic operations on floats.
        checked: whether indices are compared with the shape.
        fast_math: whether functions of floats are the device's own, where it has them.

    Raises:
        KernelError: kernels cannot do what the function does.
    """
    try:
        built, compiler, first = optimized(
            function, source, signature, local_size, folded, emulated, checked, fast_math
        )
        scalars = [
            (n, TRUTH if each in (bool, np.bool_) else VALUE)
            for n, each in enumerate(signature)
            if type(each) is not tuple
        ]
        linear = first if first == min(compiler.written, default=None) else None
        return Variant(
            ir.lower(built),
            (*scalars, *compiler.extents),
            first,
            linear if linear is not None and signature[linear][1] < 2 else None,
            built.local_size,
            tuple(compiler.reads.values()),
            tuple(sorted(ir.float_atomics(built))),
            passes_of(built),
            tuple(compiler.sites),
        )
    except RecursionError:
        raise too_deep(source) from None


def too_deep(source: Source) -> KernelError:
    """The error for a function whose parts Python's own stack does not hold."""
    return source.error(source.tree, "this is nested too deeply; divide it into loops and variables")


def optimized(
    function: FunctionType,
    source: Source,
    signature: Signature,
    local_size: tuple[int, int, int] | None,
    folded: bool,
    emulated: bool,
    checked: bool,
    fast_math: bool = False,
) -> tuple[ir.Function, Statements, int | None]:
    """What `compiled` lowers: as `build`, for the same arguments as that."""
    built, compiler, first = build(function, source, signature, local_size, folded=folded, checked=checked)
    check_barriers(built)
    if emulated:
        ir.emulate_float_atomics(built)
    return accurate.optimized(built, fast_math), compiler, first


def passes_of(function: ir.Function) -> Passes:
    """How often its loops run at most, whatever the push constants, and if these are less than MODEST."""
    always = ir.most_iterations(function, {})
    if always is not None and always < MODEST:
        return always, always
    return always, ir.most_iterations(function, dict.fromkeys(function.pushes, (0, MODEST - 1)))


def build(
    function: FunctionType,
    source: Source,
    signature: Signature,
    local_size: tuple[int, int, int] | None,
    *,
    folded: bool = False,
    checked: bool | None = None,
    using: type[Statements] = Statements,
) -> tuple[ir.Function, Statements, int | None]:
    """The function in the intermediate form, what compiled it, and the first tensor to whose elements it assigns.

    Raises:
        KernelError: kernels cannot do what the function does.
    """
    built = ir.Function(function.__name__, local_size or (64, 1, 1))
    compiler = using(built, real_of(signature), folded=folded)
    compiler.checked = checked
    names = function.__code__.co_varnames
    args = {names[n]: argument(compiler, names[n], n, each) for n, each in enumerate(signature)}
    compiler.run(function, source, args)
    first = min((n for n, assigned in compiler.written.items() if assigned), default=None)
    wanted = LOCAL_SIZES.get(signature[first][1]) if first is not None else None
    if local_size is None and wanted is not None:
        return build(function, source, signature, wanted, folded=folded, checked=checked, using=using)
    return built, compiler, first


def real_of(signature: Signature) -> Scalar:
    """The type of Python's floats in a kernel with these arguments."""
    wide = any(each is np.float64 or (type(each) is tuple and each[0] == "d") for each in signature)
    return FLOAT64 if wide else FLOAT32


def check_barriers(built: ir.Function) -> None:
    """Raises KernelError where only some invocations of a workgroup may come to a barrier."""
    barrier = ir.divergent_barrier(built)
    if barrier is not None and isinstance(barrier.loc, KernelError):
        raise barrier.loc


def argument(compiler: Statements, name: str, position: int, given: Any) -> Array | Number:
    """What an argument of this kind stands for: the next binding, or the next push constant."""
    function = compiler.function
    if type(given) is tuple:
        element = SCALARS[np.dtype(given[0]).name]
        memory = function.buffer(name, UINT8 if element is BOOL else element)
        return Array(name, position, element, given[1], memory)
    if given in (int, float):
        kind = INT32 if given is int else compiler.real
        return Number(function.push(name, kind), Kind(kind, True))
    target = BOOL if given is bool else SCALARS[np.dtype(given).name]
    stored = target if target.bits >= 32 else {"f": FLOAT32, "i": INT32}.get(target.kind, UINT32)
    return compiler.converted(Number(function.push(name, stored), Kind(stored)), target)
