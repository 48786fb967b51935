"""Calls of what `workgroup.py` names: shared arrays, barriers and atomic operations."""

from __future__ import annotations

import ast
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vkcompute.ir import ATOMICS, BOOL, SCALARS, UINT8, Scalar
from vkcompute.jit.bounds import access
from vkcompute.jit.source import Refused
from vkcompute.jit.values import Array, Kind, Number, describe

if TYPE_CHECKING:
    from vkcompute.jit.expressions import Expressions

_MOST_BYTES = 2**31 - 1  # far more than any device has, and indices are int32
_BARRIER = (
    "only some invocations of a workgroup may come to this barrier, which is undefined: it is in a branch or a loop "
    "whose condition may differ among them, or after a return; put the loads and stores alone in branches, as "
    "'if i < n:', and vc.barrier() after them"
)


def shared(c: Expressions, shape: Any, dtype: Any) -> Array:
    """A new array in workgroup memory."""
    if len(c.frames) > 1 or not c.at_top:
        raise Refused(
            "vc.shared stands at the top level of the kernel, outside of branches, loops and the functions that it "
            "calls; make the array there, and pass it on"
        )
    lengths = shape if isinstance(shape, tuple) else (shape,)
    for length in lengths:
        if not isinstance(length, (int, np.integer)) or isinstance(length, bool) or length < 1:
            got = "what only the launch knows" if isinstance(length, Number) else repr(length)
            raise Refused(
                f"the shape of a shared array is positive ints, known at compile time; got {got}; write numbers, "
                "vc.local_size(axis), or constants from outside"
            )
    element = _element(dtype)
    nbytes = math.prod(lengths) * element.bits // 8
    if nbytes > _MOST_BYTES:
        raise Refused(f"a shared array of {nbytes} bytes; no device has so much workgroup memory; use a tensor")
    memory = c.function.shared(_name(c), UINT8 if element is BOOL else element, math.prod(lengths))
    return Array(memory.name, -1, element, len(lengths), memory, tuple(map(int, lengths)))


def _element(dtype: Any) -> Scalar:
    if dtype is not int and dtype is not float:  # which may be 32 or 64 bits wide
        try:
            return SCALARS[np.dtype(dtype).name]
        except (TypeError, KeyError):
            pass
    raise Refused(f"a shared array has numpy's types, as vc.float32; got {describe(dtype)}")


def _name(c: Expressions) -> str:
    """The name that the call being compiled is assigned to."""
    for node in c.frames[-1].source.tree.body:
        if isinstance(node, ast.Assign) and node.value is c.node and isinstance(node.targets[0], ast.Name):
            return node.targets[0].id
    return "shared"


def barrier(c: Expressions) -> None:
    """A barrier; its place is the error for one that diverges, which is known when all has been built."""
    with c.builder.at(c.error(c.node, _BARRIER)):
        c.builder.barrier()


def atomic(name: str, c: Expressions, array: Any, index: Any, *values: Any) -> Number:
    """An operation on an element in one step."""
    place = c.place(array, index)
    _check_atomic(name, array)
    for each in values:
        if array.element.kind != "f" and c.kind(each).type.kind == "f":
            raise Refused(f"atomic_{name} on {array.element} takes integers; got {describe(each)}; write int(x)")
    c.mark_written(array, assigned=False)
    numbers = [c.cast(each, array.element) for each in values]
    if name == "compare_exchange":
        change = partial(c.builder.compare_exchange, array.memory, place, *numbers)
    else:
        change = partial(c.builder.atomic, name, array.memory, place, *numbers)
    return Number(access(c, place, change, array.element), Kind(array.element))


def _check_atomic(name: str, array: Array) -> None:
    """Refuses an operation that the array's elements do not have."""
    floats = name in ATOMICS and "f" in ATOMICS[name].opcodes
    takes = "float32, float64, " * floats + "int32, uint32, int64 and uint64"
    if array.element.name not in takes.replace(" and", ",").split(", "):
        remedy = "make it of int32"
        if array.element.kind == "f" and floats:
            remedy = "make it of float32"
        if name == "compare_exchange":
            remedy = "exchange the index of an element that holds the number"
        raise Refused(f"atomic_{name} takes {takes}; got {describe(array)}; {remedy}")
