"""Atomic operations on bfloat16, whose bits lie in integers: loops of compare-exchanges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vkcompute.blocks.compiler.accessed_elements import atomic_at, elements_at, loaded, mask_of
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.functions import block_function
from vkcompute.blocks.compiler.types import Pointer
from vkcompute.blocks.language.elementwise import emitted, where
from vkcompute.ir import BOOL
from vkcompute.ir.types import element_of
from vkcompute.jit.frontend.values import Number
from vkcompute.tile import BFLOAT16

UPDATES = "add", "max", "min", "exchange"
"""The operations, by their names in `ir/`."""


def is_narrow(pointer: Any) -> bool:
    """True for a pointer to bfloat16 in memory of integers."""
    return isinstance(pointer, Pointer) and pointer.array.element is BFLOAT16 is not pointer.array.memory.element


def as_bits(pointer: Pointer) -> Pointer:
    """Returns a pointer to the integers in memory."""
    return pointer._replace(array=replace(pointer.array, element=pointer.array.memory.element))


def exchanged(c: BlockCompiler, code: str, pointer: Pointer, values: Sequence[Any], mask: Any = None) -> Number:
    """Exchanges the bits of elements, or compares and exchanges them, atomically; returns the elements before."""
    own, elements = pointer.array.memory.element, elements_at(c, as_bits(pointer), mask, "atomic operation")
    bits = tuple([c.number(c.builder.bitcast(c.cast(value, BFLOAT16), own)) for value in values])
    return c.number(c.builder.bitcast(atomic_at(c, code, elements, bits).value, BFLOAT16))


def updated(c: BlockCompiler, code: str, pointer: Pointer, value: Any, mask: Any) -> Number:
    """Combines elements with values, each atomically; returns those before.

    All elements of a block try at once, and those that others have changed in between try again. Each time, one of
    those with the same place succeeds.
    """
    bits = as_bits(pointer)
    shape = c.shape(pointer)
    operand = c.number(c.spread(c.cast(value, BFLOAT16), shape))
    taken_bits = mask_of(c, mask, shape, "atomic operation")
    taken = c.number(c.builder.full(c.builder.const(True, BOOL), shape) if taken_bits is None else taken_bits)
    before: Number = c.called(_update, [bits, operand, taken, code])
    return c.number(c.builder.bitcast(before.value, BFLOAT16))


def _update(pointer: Any, operand: Any, pending: Any, code: Any) -> Any:
    """Returns the bits before; the compiler builds it in the place of the operation."""
    old = _bits(pointer, pending)
    while _any(pending):
        got = _exchanged(pointer, old, _combined(old, operand, code), pending)
        failed = pending & (got != old)
        old = where(pending, got, old)
        pending = failed
    return old


@block_function
def _bits(c: BlockCompiler, pointer: Any, mask: Any) -> Any:
    return loaded(c, elements_at(c, pointer, mask, "atomic operation"), 0)


@block_function
def _exchanged(c: BlockCompiler, pointer: Any, old: Any, new: Any, mask: Any) -> Any:
    return atomic_at(c, "compare_exchange", elements_at(c, pointer, mask, "atomic operation"), (old, new))


@block_function
def _combined(c: BlockCompiler, bits: Any, operand: Any, code: Any) -> Any:
    """Returns the bits of the combined elements."""
    b, old = c.builder, c.builder.bitcast(bits.value, BFLOAT16)
    if code in ("max", "min"):
        new = emitted(c, f"{code}imum", old, operand.value).value
    else:
        new = operand.value if code == "exchange" else b.compute(code, old, operand.value)
    return c.number(b.bitcast(new, element_of(bits.value.type)))


@block_function
def _any(c: BlockCompiler, pending: Any) -> Any:
    """Returns whether one of the elements is True."""
    if not c.shape(pending):
        return pending
    flat = c.builder.reshape(pending.value, (pending.value.type.n,))
    either = c.builder.reduce([flat], 0, lambda one, other: [c.builder.compute("or", one[0], other[0])])
    return c.number(either[0])
