"""Loads, stores and atomic operations of the block language."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.compat.triton.arithmetic import BlockArithmetic, told
from vkcompute.compat.triton.compiler import BlockCompiler
from vkcompute.compat.triton.functions import block_function
from vkcompute.compat.triton.types import Pointer
from vkcompute.ir import BOOL, INT32, Value
from vkcompute.jit.frontend.source import UnsupportedError
from vkcompute.jit.frontend.values import Number
from vkcompute.tile import shape_of


def places(c: BlockArithmetic, pointer: Any) -> Value:
    """Returns the offsets of a pointer.

    Raises:
        UnsupportedError: the value is no pointer.
    """
    if not isinstance(pointer, Pointer):
        raise UnsupportedError(f"this takes a pointer, as x_ptr + offsets; got {told(pointer)}")
    base = c.cast(pointer.base, INT32)
    if pointer.offset is None:
        return base
    if not isinstance(pointer.base, Number) and pointer.base == 0:
        return c.cast(pointer.offset, INT32)
    shape = c.shape(pointer)
    return c.builder.compute("add", c.builder.full(base, shape), pointer.offset.value)


def _mask(c: BlockArithmetic, mask: Any, shape: tuple[int, ...], what: str) -> Value | None:
    if mask is None or mask is True:
        return None
    if isinstance(mask, Number) and c.element_type(mask) is not BOOL:
        raise UnsupportedError(f"a mask is a block of bools, as offsets < n; got {told(mask)}")
    return _repeated(c, c.cast(mask, BOOL), shape, f"mask of a {what}")


def _repeated(c: BlockArithmetic, value: Value, shape: tuple[int, ...], what: str) -> Value:
    before = shape_of(value.type)
    try:
        alike = np.broadcast_shapes(before, shape) == shape
    except ValueError:
        alike = False
    if not alike:
        raise UnsupportedError(f"the {what} has the shape of the pointer, {list(shape)}; got {list(before)}")
    return c.spread(value, shape)


def _only_hints(**given: Any) -> None:
    for name, value in given.items():
        if value not in (None, "", (), False):
            raise UnsupportedError(
                f"{name} takes pointers made by tl.make_block_ptr, which is not supported; use a mask"
            )


@block_function
def load(
    c: BlockCompiler,
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: Any = "",
    cache_modifier: Any = "",
    eviction_policy: Any = "",
    volatile: Any = False,
) -> Any:
    """The elements at a pointer, where the mask is True; `other`, or 0, elsewhere. Hints have no effect."""
    _only_hints(boundary_check=boundary_check, padding_option=padding_option)
    offsets = places(c, pointer)
    shape, element = shape_of(offsets.type), pointer.array.element
    taken = _mask(c, mask, shape, "load")
    filled = None
    if taken is not None:
        filled = c.cast(0 if other is None else other, element)
        filled = c.builder.cast(_repeated(c, filled, shape, "other of a load"), pointer.array.memory.element)
    found = c.builder.load_block(pointer.array.memory, offsets, taken, filled)
    return c.number(c.builder.cast(found, element))


@block_function
def store(
    c: BlockCompiler,
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: Any = "",
    eviction_policy: Any = "",
) -> None:
    """Writes elements at a pointer, where the mask is True. Hints have no effect."""
    _only_hints(boundary_check=boundary_check)
    offsets = places(c, pointer)
    shape, array = shape_of(offsets.type), pointer.array
    numbers = _repeated(c, c.cast(value, array.element), shape, "value of a store")
    taken = _mask(c, mask, shape, "store")
    c.mark_written(array)
    c.builder.store_block(array.memory, offsets, c.builder.cast(numbers, array.memory.element), taken)


def _atomic(c: BlockCompiler, name: str, pointer: Any, values: tuple[Any, ...], mask: Any) -> Number:
    offsets = places(c, pointer)
    shape, array = shape_of(offsets.type), pointer.array
    numbers = [_repeated(c, c.cast(each, array.element), shape, "value of an atomic operation") for each in values]
    c.mark_written(array, assigned=False)
    taken = _mask(c, mask, shape, "atomic operation")
    return c.number(c.builder.atomic_block(name, array.memory, offsets, numbers, taken))


def _atomic_function(name: str, code: str, what: str) -> Any:
    def emit(c: BlockCompiler, pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
        return _atomic(c, code, pointer, (val,), mask)

    emit.__name__, emit.__doc__ = f"atomic_{name}", f"{what} at a pointer, atomically; returns the elements before."
    return block_function(emit)


atomic_add = _atomic_function("add", "add", "Adds to the elements")
atomic_max = _atomic_function("max", "max", "Takes the maximum of the elements")
atomic_min = _atomic_function("min", "min", "Takes the minimum of the elements")
atomic_and = _atomic_function("and", "and", "Takes the bitwise and of the elements")
atomic_or = _atomic_function("or", "or", "Takes the bitwise or of the elements")
atomic_xor = _atomic_function("xor", "xor", "Takes the bitwise exclusive or of the elements")
atomic_xchg = _atomic_function("xchg", "exchange", "Replaces the elements")


@block_function
def atomic_cas(c: BlockCompiler, pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> Any:
    """Replaces the elements at a pointer that equal `cmp`, atomically; returns the elements before."""
    return _atomic(c, "compare_exchange", pointer, (cmp, val), None)
