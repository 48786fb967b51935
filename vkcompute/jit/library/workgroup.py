"""Shared arrays, barriers and fences: functions that have a value in kernels only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vkcompute.dtypes import as_dtype
from vkcompute.frontend.syntax import values_in
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, INT32, UINT32, Constant, Scalar, Value
from vkcompute.ir.function import Op, Push
from vkcompute.jit.frontend import records
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.context import CompilerContext
from vkcompute.jit.frontend.intrinsics import intrinsic
from vkcompute.jit.frontend.private_arrays import memory_of
from vkcompute.jit.frontend.record_types import RecordType, element_type
from vkcompute.jit.frontend.values import ArrayValue, Kind, Number, describe
from vkcompute.jit.frontend.values_needed import ValuesNeededError
from vkcompute.jit.library.ids import refuse_outside_kernel

DIVERGENT = (
    "only some invocations of a workgroup may reach this barrier, which is undefined: it is in a branch or a loop "
    "whose condition differs among them; put only loads and stores in branches, as 'if i < n:', and vc.barrier() "
    "after them"
)
"""The message of the error that is the `loc` of a barrier."""
_NOT_KNOWN = (
    "this grid barrier is in a branch or a loop whose condition is not known at the launch; compute it from constants, "
    "int arguments and vc.num_groups(axis)"
)
_SHAPE = "the shape of a {} array is positive ints, known at compile time"
_MOST_BYTES = 2**31 - 1  # far above any device's limit; indices are int32


def _shared(c: Compiler, shape: Any, dtype: Any, volatile: Any = False) -> ArrayValue:
    """Allocates an array in workgroup memory; in a function or a loop, one for each place in the source."""
    positions = _arguments_of(c, shape)
    if positions:
        raise ValuesNeededError(
            str(c.error(f"{_SHAPE.format('shared')}; got an argument; launch the kernel with its value")), positions
        )
    element, lengths = layout(_known(shape), dtype, "shared")
    if not isinstance(volatile, bool):
        raise UnsupportedError(f"volatile is True or False, known at compile time; got {describe(volatile)}")
    key = c.evaluator.node, element, lengths
    if (len(c.evaluator.frames) > 1 or not c.at_top) and key in c.shared_arrays:
        return c.shared_arrays[key]
    kind, length = memory_of(element, math.prod(lengths))
    memory = c.function.shared(assigned_name(c, "shared"), kind, length, volatile=volatile)
    array = ArrayValue(memory.name, -1, element, len(lengths), memory, lengths)
    c.shared_arrays[key] = records.in_memory(c, array) if isinstance(element, RecordType) else array
    return c.shared_arrays[key]


def _known(shape: Any) -> Any:
    """Returns a shape with ints for numbers that are known at compile time."""
    if isinstance(shape, tuple):
        return tuple(map(_known, shape))
    known = isinstance(shape, Number) and isinstance(shape.value, Constant) and shape.kind.type.kind in "iu"
    return int(shape.value.value) if known else shape


def _arguments_of(c: Compiler, shape: Any) -> frozenset[int]:
    """Returns the positions of the numbers from which a shape is computed; none if that needs anything else."""
    pending = [
        length.value for length in (shape if isinstance(shape, tuple) else (shape,)) if isinstance(length, Number)
    ]
    names, positions = list(c.evaluator.frames[0].function.__code__.co_varnames), set[int]()
    while pending:
        value = pending.pop()
        if isinstance(value, Push) and value.name in names:
            positions.add(names.index(value.name))
        elif isinstance(value, Op) and not (value.operation.effect or value.operation.reads or value.code == "builtin"):
            pending += value.args
        elif not isinstance(value, Constant):
            return frozenset()
    return frozenset(positions)


def layout(shape: Any, dtype: Any, what: str) -> tuple[Scalar, tuple[int, ...]]:
    """Returns the type of the elements and the shape of a shared or private array.

    Raises:
        UnsupportedError: they are not known at compile time, or no device has so much memory.
    """
    lengths = shape if isinstance(shape, tuple) and shape else (shape,)
    for length in lengths:
        if not isinstance(length, (int, np.integer)) or isinstance(length, bool) or length < 1:
            got = "a value that is known at the launch only" if isinstance(length, Number) else repr(length)
            raise UnsupportedError(
                f"{_SHAPE.format(what)}; got {got}; write numbers, vc.local_size(axis), or constants from outside"
            )
    element = _element(dtype, what)
    nbytes = math.prod(map(int, lengths)) * element.bits // 8
    if what == "shared" and nbytes > _MOST_BYTES:
        raise UnsupportedError(
            f"a shared array of {nbytes} bytes; no device has so much workgroup memory; use a device array"
        )
    return element, tuple(map(int, lengths))


def _element(dtype: Any, what: str) -> Scalar:
    if dtype is not int and dtype is not float:  # their width is ambiguous
        try:
            return element_type(as_dtype(dtype))
        except (TypeError, KeyError):
            pass
    raise UnsupportedError(f"the dtype of a {what} array is one of numpy's, as vc.float32; got {describe(dtype)}")


def assigned_name(c: CompilerContext, default: str) -> str:
    """Returns the name of the variable to which the current expression is assigned."""
    return values_in(c.evaluator.frames[-1].source.tree).get(c.evaluator.node, default)


def _barrier(c: Compiler) -> None:
    """Builds a barrier. Its `loc` is the error to raise if it turns out to be divergent."""
    with c.builder.at(c.error(DIVERGENT)):
        c.builder.barrier()


def _grid_barrier(c: Compiler) -> None:
    """Builds a grid barrier. Its `loc` is the error to raise if the host cannot follow it."""
    with c.builder.at(c.error(_NOT_KNOWN)):
        c.wait_for_grid()


def _barrier_count(c: Compiler, condition: Any) -> Number:
    return Number(c.builder.cast(_count(c, condition, counts=True), INT32), Kind(INT32))


def _barrier_all(c: Compiler, condition: Any) -> Number:
    none = c.builder.const(0, UINT32)
    return Number(c.builder.compute("eq", _count(c, condition, counts=False), none), Kind(BOOL))


def _barrier_any(c: Compiler, condition: Any) -> Number:
    none = c.builder.const(0, UINT32)
    return Number(c.builder.compute("ne", _count(c, condition, counts=True), none), Kind(BOOL))


def _count(c: Compiler, condition: Any, *, counts: bool) -> Value:
    """Builds a barrier that counts the invocations whose condition is `counts`."""
    truth, b = c.truth(condition), c.builder
    holds = b.const(truth, BOOL) if isinstance(truth, bool) else truth
    one, none = b.const(int(counts), UINT32), b.const(int(not counts), UINT32)
    with b.at(c.error(DIVERGENT)):
        return b.workgroup_sum(b.select(holds, one, none))


@intrinsic(_shared, usage=": shape and dtype, as vc.shared(8, vc.float32)")
def shared(shape: int | tuple[int, ...], dtype: Any, volatile: bool = False) -> Any:
    """Makes an array shared by the invocations of a workgroup, row-major and indexed as device arrays; uninitialized.

        tile = vc.shared((16, 16), vc.float32)

    Shape and dtype are compile-time constants. A shape may be computed from int arguments: the kernel is compiled for
    their values. In a function that the kernel calls, a branch and a loop, each place in the source has one array.

    If it is `volatile`, the lanes of a warp access it in lockstep: all have loaded before one of them stores.
    """
    refuse_outside_kernel("shared(shape, dtype)")


@intrinsic(_barrier)
def barrier() -> None:
    """Waits for all invocations of the workgroup; makes their earlier writes to shared and device arrays visible.

    All invocations of a workgroup must reach it, but for those that have returned. A branch or a loop around it is
    refused if its condition is computed from ids that differ within the workgroup. A condition on memory or on other
    lanes is checked at run time, unless it is proved to be the same.
    """
    refuse_outside_kernel("barrier()")


@intrinsic(_barrier_count)
def barrier_count(condition: Any) -> int:
    """A barrier that returns the number of invocations of the workgroup for which a condition is true; int32.

    Invocations that have returned do not count, here and in `barrier_all` and `barrier_any`.
    """
    refuse_outside_kernel("barrier_count(condition)")


@intrinsic(_barrier_all)
def barrier_all(condition: Any) -> bool:
    """A barrier that returns True if a condition is true for all invocations of the workgroup."""
    refuse_outside_kernel("barrier_all(condition)")


@intrinsic(_barrier_any)
def barrier_any(condition: Any) -> bool:
    """A barrier that returns True if a condition is true for at least one invocation of the workgroup."""
    refuse_outside_kernel("barrier_any(condition)")


@intrinsic(_grid_barrier)
def grid_barrier() -> None:
    """Waits for all invocations of the grid; makes their earlier writes to device arrays visible to all.

    The launch is divided there: variables, private arrays and shared arrays are kept in memory, and all workgroups end
    before one goes on. The host follows the kernel: conditions of branches and loops around a grid barrier are computed
    from constants, int arguments and `vc.num_groups(axis)`. Invocations that have returned do nothing else.
    """
    refuse_outside_kernel("grid_barrier()")


@intrinsic(lambda c: c.builder.fence())
def memory_fence() -> None:
    """Makes earlier writes of this invocation visible to the device before its later ones.

    It waits for no other invocation, so it may be anywhere. Another workgroup sees the writes once it has seen, by an
    atomic operation and a fence after it, an atomic operation that follows this fence.
    """
    refuse_outside_kernel("memory_fence()")
