"""Shared arrays, barriers and atomic operations: functions that have a value in kernels only."""

from __future__ import annotations

import ast
import math
from functools import partial
from typing import Any

import numpy as np

from vkcompute.ir import ATOMICS, BOOL, SCALARS, UINT8, Scalar
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import intrinsic
from vkcompute.jit.frontend.source import UnsupportedError
from vkcompute.jit.frontend.values import Array, Kind, Number, describe
from vkcompute.jit.library.ids import outside

_MOST_BYTES = 2**31 - 1  # far above any device's limit; indices are int32
_BARRIER = (
    "only some invocations of a workgroup may reach this barrier, which is undefined: it is in a branch or a loop "
    "whose condition may differ among them, or after a return; put only loads and stores in branches, as 'if i < n:', "
    "and vc.barrier() after them"
)


def _shared(c: Compiler, shape: Any, dtype: Any) -> Array:
    """Allocates an array in workgroup memory."""
    if len(c.frames) > 1 or not c.at_top:
        raise UnsupportedError(
            "vc.shared is called at the top level of the kernel, outside of branches, loops and the functions that it "
            "calls; make the array there, and pass it on"
        )
    lengths = shape if isinstance(shape, tuple) else (shape,)
    for each in lengths:
        if not isinstance(each, (int, np.integer)) or isinstance(each, bool) or each < 1:
            got = "a value that is known at the launch only" if isinstance(each, Number) else repr(each)
            raise UnsupportedError(
                f"the shape of a shared array is positive ints, known at compile time; got {got}; write numbers, "
                "vc.local_size(axis), or constants from outside"
            )
    element = _element(dtype)
    nbytes = math.prod(lengths) * element.bits // 8
    if nbytes > _MOST_BYTES:
        raise UnsupportedError(
            f"a shared array of {nbytes} bytes; no device has so much workgroup memory; use a tensor"
        )
    memory = c.function.shared(_name(c), UINT8 if element is BOOL else element, math.prod(lengths))
    return Array(memory.name, -1, element, len(lengths), memory, tuple(map(int, lengths)))


def _element(dtype: Any) -> Scalar:
    if dtype is not int and dtype is not float:  # their width is ambiguous
        try:
            return SCALARS[np.dtype(dtype).name]
        except (TypeError, KeyError):
            pass
    raise UnsupportedError(f"the dtype of a shared array is one of numpy's, as vc.float32; got {describe(dtype)}")


def _name(c: Compiler) -> str:
    """Returns the name of the variable to which the current call is assigned."""
    for node in c.frames[-1].source.tree.body:
        if isinstance(node, ast.Assign) and node.value is c.node and isinstance(node.targets[0], ast.Name):
            return node.targets[0].id
    return "shared"


def _barrier(c: Compiler) -> None:
    """Builds a barrier. Its `loc` is the error to raise if it turns out to be divergent."""
    with c.builder.at(c.error(c.node, _BARRIER)):
        c.builder.barrier()


def _atomic(name: str, c: Compiler, array: Any, index: Any, *values: Any) -> Number:
    """Builds an atomic operation on an element."""
    place = c.place(array, index)
    _check_atomic(name, array)
    for each in values:
        if array.element.kind != "f" and c.kind(each).type.kind == "f":
            raise UnsupportedError(
                f"atomic_{name} on {array.element} takes integers; got {describe(each)}; write int(x)"
            )
    c.mark_written(array, assigned=False)
    numbers = [c.cast(each, array.element) for each in values]
    if name == "compare_exchange":
        change = partial(c.builder.compare_exchange, array.memory, place, *numbers)
    else:
        change = partial(c.builder.atomic, name, array.memory, place, *numbers)
    return Number(c.guarded(place, change, array.element), Kind(array.element))


def _check_atomic(name: str, array: Array) -> None:
    """Raises UnsupportedError for an operation that the elements of the array do not support."""
    floats = name in ATOMICS and "f" in ATOMICS[name].opcodes
    takes = "float32, float64, " * floats + "int32, uint32, int64 and uint64"
    if array.element.name not in takes.replace(" and", ",").split(", "):
        remedy = "make it of int32"
        if array.element.kind == "f" and floats:
            remedy = "make it of float32"
        if name == "compare_exchange":
            remedy = "exchange the index of an element that holds the number"
        raise UnsupportedError(f"atomic_{name} takes {takes}; got {describe(array)}; {remedy}")


@intrinsic(_shared, usage=": shape and dtype, as vc.shared(8, vc.float32)")
def shared(shape: int | tuple[int, ...], dtype: Any) -> Any:
    """Makes an array shared by the invocations of a workgroup, row-major and indexed as a tensor; uninitialized.

        tile = vc.shared((16, 16), vc.float32)

    Shape and dtype are compile-time constants. The call is at the top level of the kernel: not in a branch, a loop or a
    function that the kernel calls.
    """
    outside("shared(shape, dtype)")


@intrinsic(_barrier)
def barrier() -> None:
    """Waits for all invocations of the workgroup; makes their earlier writes to shared arrays and tensors visible.

    All invocations of a workgroup must reach it. In branches and loops it is accepted only where the conditions are
    proved to be uniform over a workgroup, and not after a return that only some invocations take.
    """
    outside("barrier()")


@intrinsic(partial(_atomic, "add"))
def atomic_add(array: Any, index: int | tuple[int, ...], value: Any) -> Any:
    """Atomically `array[index] += value`; returns the old element.

    For all atomic operations, the array is a tensor or shared array of int32 or uint32, or of int64 or uint64 where the
    device supports them. This one, min, max and exchange also take float32 and float64; without device support they
    are a compare-exchange loop. The value is converted to the element's type; a float is not converted to an integer.

    Atomic operations do not order other accesses: that takes a barrier or another launch. The order in which floats are
    added is undefined.
    """
    outside("atomic_add(array, index, value)")


@intrinsic(partial(_atomic, "min"))
def atomic_min(array: Any, index: int | tuple[int, ...], value: Any) -> Any:
    """Atomically replaces the element by the smaller of element and value; returns the old element."""
    outside("atomic_min(array, index, value)")


@intrinsic(partial(_atomic, "max"))
def atomic_max(array: Any, index: int | tuple[int, ...], value: Any) -> Any:
    """Atomically replaces the element by the larger of element and value; returns the old element."""
    outside("atomic_max(array, index, value)")


@intrinsic(partial(_atomic, "and"))
def atomic_and(array: Any, index: int | tuple[int, ...], value: int) -> int:
    """Atomically `array[index] &= value`; returns the old element."""
    outside("atomic_and(array, index, value)")


@intrinsic(partial(_atomic, "or"))
def atomic_or(array: Any, index: int | tuple[int, ...], value: int) -> int:
    """Atomically `array[index] |= value`; returns the old element."""
    outside("atomic_or(array, index, value)")


@intrinsic(partial(_atomic, "xor"))
def atomic_xor(array: Any, index: int | tuple[int, ...], value: int) -> int:
    """Atomically `array[index] ^= value`; returns the old element."""
    outside("atomic_xor(array, index, value)")


@intrinsic(partial(_atomic, "exchange"))
def atomic_exchange(array: Any, index: int | tuple[int, ...], value: Any) -> Any:
    """Atomically `array[index] = value`; returns the old element."""
    outside("atomic_exchange(array, index, value)")


@intrinsic(partial(_atomic, "compare_exchange"))
def atomic_compare_exchange(array: Any, index: int | tuple[int, ...], expected: int, new: int) -> int:
    """Atomically sets the element to `new` if it is `expected`; returns the old element."""
    outside("atomic_compare_exchange(array, index, expected, new)")
