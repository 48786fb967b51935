"""Builds a kernel in the intermediate form for the types of its arguments."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np

from vkcompute import ir
from vkcompute.errors import KernelError
from vkcompute.ir import BOOL, FLOAT32, FLOAT64, INT32, SCALARS, UINT8, UINT32, Scalar
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.report import Reports
from vkcompute.jit.frontend.source import Source
from vkcompute.jit.frontend.values import Array, Kind, Number
from vkcompute.jit.library import catalog  # noqa: F401

Signature = tuple[Any, ...]
"""Per argument: (character of the dtype, ndim) for a tensor, or the type of a number (int, float, bool or numpy's)."""

LOCAL_SIZES = {2: (16, 8, 1), 3: (16, 4, 2)}
"""Number of axes of the grid -> default local size, if it is not (64, 1, 1)."""


def build(
    function: FunctionType,
    source: Source,
    signature: Signature,
    local_size: tuple[int, int, int] | None,
    *,
    check_bounds: bool | None = None,
    using: type[Compiler] = Compiler,
) -> tuple[ir.Function, Compiler, int | None]:
    """Builds a kernel.

    Args:
        local_size: invocations per workgroup; None for the default of the first tensor that is assigned to.
        check_bounds: True if indices are compared with the shape; None if the kernel cannot report to the host at all.

    Returns:
        The kernel, its compiler, and the position of the first tensor whose elements it assigns to.

    Raises:
        KernelError: the function does something that kernels do not support.
    """
    built = ir.Function(function.__name__, local_size or (64, 1, 1))
    compiler = using(built, real_of(signature))
    if check_bounds is not None:
        compiler.check_bounds = check_bounds
        compiler.reports = Reports(built, compiler.builder)
    names = function.__code__.co_varnames
    args = {names[n]: argument(compiler, names[n], n, each) for n, each in enumerate(signature)}
    compiler.run(function, source, args)
    first = min((n for n, assigned in compiler.written.items() if assigned), default=None)
    default = LOCAL_SIZES.get(signature[first][1]) if first is not None else None
    if local_size is None and default is not None:
        return build(function, source, signature, default, check_bounds=check_bounds, using=using)
    return built, compiler, first


def real_of(signature: Signature) -> Scalar:
    """Returns the type of Python floats in a kernel with these arguments."""
    wide = any(each is np.float64 or (type(each) is tuple and each[0] == "d") for each in signature)
    return FLOAT64 if wide else FLOAT32


def check_barriers(built: ir.Function) -> None:
    """Raises KernelError if a barrier may not be reached by all invocations of a workgroup."""
    barrier = ir.divergent_barrier(built)
    if barrier is not None and isinstance(barrier.loc, KernelError):
        raise barrier.loc


def argument(compiler: Compiler, name: str, position: int, given: Any) -> Array | Number:
    """Declares the next binding or push constant for an argument of this type, and returns its value."""
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


def too_deep(source: Source) -> KernelError:
    """Returns the error for a function whose nesting exceeds Python's recursion limit."""
    return source.error(source.tree, "this is nested too deeply; divide it into loops and variables")
