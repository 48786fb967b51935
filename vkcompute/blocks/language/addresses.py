"""Addresses of arrays, which programs load from a table of pointers and convert to pointers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vkcompute.blocks.compiler.accessed_elements import demand, in_bounds, mask_of, offsets_of
from vkcompute.blocks.compiler.arithmetic import describe
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.types import OF_SCALAR, Address, Dtype, Entry, Pointer, PointerType, TableValue
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, SCALARS
from vkcompute.ir.types import SmallFloat
from vkcompute.jit.frontend.values import Number
from vkcompute.tile import shape_of

COLUMNS = 3
"""Numbers in a row of a table: first element, number of elements, window."""


def address_at(c: BlockCompiler, pointer: Pointer, table: TableValue, mask: Any, other: Any) -> Address:
    """Loads an address of a table. Where the mask is False, it is that of an array without elements.

    Raises:
        UnsupportedError: it is a block of addresses, or `other` is not 0.
    """
    b, number = c.builder, offsets_of(c, pointer)
    if shape_of(number.type):
        raise UnsupportedError(
            f"one address is loaded at a time; got {describe(c.number(number))} as index; loop over the arrays, as "
            "for g in range(n)"
        )
    if isinstance(other, Number) or other not in (None, 0):
        raise UnsupportedError(f"the other of an address is 0; got {describe(other)}")
    given, length = mask_of(c, mask, (), "load"), c.parameter(table, 0)
    inside = in_bounds(c, number, length)
    demand(c, inside, given, f"loads address {{}} of {table.name}, which has {{}}", number, length)
    allowed = inside if given is None else b.compute("and", given, inside)
    row = b.compute("mul", b.cast(number, INT32), b.const(COLUMNS, INT32))

    def column(at: int) -> Number:
        index = b.compute("add", row, b.const(at, INT32))
        return c.number(b.load_block(table.memory, index, allowed, b.const(0, INT32)))

    start = c.number(b.compute("shl", column(0).value, b.const(table.unit.bit_length() - 1, INT32)))
    window = column(2) if len(table.target.windows) > 1 else None
    entry = Entry(c.number(b.cast(number, INT32)), start, column(1), window)
    return Address(Pointer(table.target, 0, None, entry))


def pointed(address: Address, dtype: Any) -> Pointer:
    """Converts an address to a pointer.

    Raises:
        UnsupportedError: the type is no pointer, or one to other elements than those of the arrays.
    """
    pointer = address.pointer
    before, element = pointer.array.element, getattr(dtype, "element_ty", None)
    if not isinstance(dtype, PointerType) or not isinstance(element, Dtype):
        raise UnsupportedError(
            f"{describe(address)} becomes a pointer, by .to(tl.pointer_type(tl.float32)); got {dtype}"
        )
    if element.scalar_type is before:
        return pointer
    kind = element.scalar_type
    if isinstance(kind, SmallFloat) and before is SCALARS[f"uint{kind.bits}"]:
        return pointer._replace(array=replace(pointer.array, element=kind))
    raise UnsupportedError(
        f"the arrays of {pointer.array.memory.name} have elements of {OF_SCALAR[before]}; got a pointer to {element}; "
        f"write tl.pointer_type(tl.{OF_SCALAR[before].long_name})"
    )
