"""Elements of arrays that a program accesses: those at a pointer, and those of a block of a strided array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from vkcompute.blocks.compiler.arithmetic import describe
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.pointer_choice import selected, sources_of
from vkcompute.blocks.compiler.types import (
    OF_SCALAR,
    BlockPointer,
    Descriptor,
    Entry,
    NullValue,
    Pointer,
    TableValue,
    WindowsValue,
    parts_of,
)
from vkcompute.compiled.report import escaped
from vkcompute.compiled.specialization import LOWEST, OFFSET, SPAN
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, INT32, SCALARS, UINT32, UINT64, Memory, Scalar, Value
from vkcompute.ir.atomics import ATOMICS
from vkcompute.ir.types import element_of
from vkcompute.jit.frontend.values import PARTS, ArrayValue, Complex, Number
from vkcompute.jit.frontend.values import parts_of as parts_of_number
from vkcompute.tile import shape_of

_NULL = "accesses address 0, where no array is; mask it, or pass the array as an argument"
_PADDINGS = {None: 0, "": 0, "zero": 0, "nan": float("nan")}


class AccessedElements(NamedTuple):
    """Elements of an array.

    Attributes:
        offsets: their offsets, a block or a scalar.
        mask: True for those that are accessed; None for all.
        window: index of the window that has the elements, for an array of a table.
    """

    array: ArrayValue
    offsets: Value
    mask: Value | None = None
    window: Value | None = None


def elements_at(c: BlockCompiler, pointer: Any, mask: Any, what: str) -> AccessedElements:
    """Returns the elements at a pointer where the mask is True.

    Raises:
        UnsupportedError: the value is no pointer, or the mask has another shape.
    """
    if not isinstance(pointer, Pointer):
        raise UnsupportedError(f"this takes a pointer, as x_ptr + offsets; got {describe(pointer)}")
    if isinstance(pointer.array, TableValue):
        name = pointer.array.name
        raise UnsupportedError(
            f"{name} is a table of pointers, whose addresses a program only loads; load one, as tl.load({name} + g)"
        )
    offsets = offsets_of(c, pointer)
    elements = AccessedElements(pointer.array, offsets, mask_of(c, mask, shape_of(offsets.type), what))
    return _inside(c, elements, pointer.entry)


def offsets_of(c: BlockCompiler, pointer: Pointer) -> Value:
    """Returns the offsets of the elements at a pointer, int32 or int64."""
    kind = c.offset_type(pointer.base, pointer.offset)
    base = c.cast(pointer.base, kind)
    if pointer.offset is None:
        return base
    if not isinstance(pointer.base, Number) and pointer.base == 0:
        return c.cast(pointer.offset, kind)
    return c.builder.compute("add", c.builder.full(base, c.shape(pointer)), c.cast(pointer.offset, kind))


def mask_of(c: BlockCompiler, mask: Any, shape: tuple[int, ...], what: str) -> Value | None:
    """Returns a mask of this shape; None if it is True for all elements.

    Raises:
        UnsupportedError: it has another shape, or is not of bools.
    """
    if mask is None or mask is True:
        return None
    if mask is not False and not (isinstance(mask, Number) and c.element_type(mask) is BOOL):
        raise UnsupportedError(f"a mask is a block of bools, as offsets < n; got {describe(mask)}")
    return _repeated(c, c.cast(mask, BOOL), shape, f"mask of this {what}")


def _repeated(c: BlockCompiler, value: Value, shape: tuple[int, ...], what: str) -> Value:
    before = shape_of(value.type)
    try:
        alike = np.broadcast_shapes(before, shape) == shape
    except ValueError:
        alike = False
    if not alike:
        raise UnsupportedError(f"the {what} has the shape of the pointer, {list(shape)}; got {list(before)}")
    return c.spread(value, shape)


# -- arrays of tables -------------------------------------------------------------------------------------------------


def in_bounds(c: BlockCompiler, index: Value, length: Value) -> Value:
    """Returns a mask: True for indices from 0 to below a length, an int32."""
    b, unsigned = c.builder, UINT64 if element_of(index.type).bits == 64 else UINT32
    return b.compute("lt", b.bitcast(index, unsigned), b.full(b.cast(length, unsigned), shape_of(index.type)))


def demand(c: BlockCompiler, holds: Value, mask: Value | None, message: str, *values: Value) -> None:
    """Fails the launch with a message where a condition is False. Without checks, only the interpreter does so.

    Args:
        message: format string of the values.
    """
    b, shape = c.builder, shape_of(holds.type)
    fails = b.compute("not", holds)
    fails = fails if mask is None else b.compute("and", mask, fails)
    first = 3 + len(shape)  # behind the program and the index of the element
    text = message.format(*[f"{{{first + at}}}" for at in range(len(values))])
    location = escaped(str(c.error("\0"))).replace("\0", f"program ({{0}}, {{1}}, {{2}}) {text}")
    b.report(location, [value if shape_of(value.type) else b.full(value, shape) for value in values], fails, fails=True)


def _inside(c: BlockCompiler, elements: AccessedElements, entry: Entry | None) -> AccessedElements:
    """Returns elements in an array of a table as elements in its window. Elements out of bounds are not accessed."""
    if isinstance(elements.array, NullValue):
        demand(c, c.builder.full(c.builder.const(False, BOOL), shape_of(elements.offsets.type)), elements.mask, _NULL)
        return elements
    if entry is None or entry.length is None:
        chosen = elements if entry is None else elements._replace(window=entry.window.value)  # of several arguments
        return _checked(c, chosen) if c.check_bounds else chosen
    b, (array, offsets, mask, _) = c.builder, elements
    shape, window = shape_of(offsets.type), None if entry.window is None else entry.window.value
    number, start, length = (field.value for field in entry[:3])
    inside = in_bounds(c, offsets, length)
    message = f"accesses element {{}} of array {{}} of {array.memory.name}, which has {{}}"
    demand(c, inside, mask, f"{message}; mask it, as mask=offsets < n", offsets, number, length)
    shifted = b.compute("add", b.full(start, shape), b.cast(offsets, INT32))
    return AccessedElements(array, shifted, inside if mask is None else b.compute("and", mask, inside), window)


def _checked(c: BlockCompiler, elements: AccessedElements) -> AccessedElements:
    """Demands that elements are in the array. Those out of bounds are not accessed."""
    b, (array, offsets, mask, window) = c.builder, elements
    shape, kind = shape_of(offsets.type), element_of(offsets.type)

    def parameter(what: int) -> Value:
        return b.full(b.cast(_parameter(c, elements, what), kind), shape)

    is_strided = any(source.strided for source in sources_of(array))
    index = b.compute("sub", offsets, parameter(OFFSET)) if is_strided else offsets
    lowest = parameter(LOWEST) if is_strided else b.full(b.const(0, kind), shape)
    inside = in_bounds(c, b.compute("sub", index, lowest), _parameter(c, elements, SPAN))
    if parts_of(array) > 1:
        end = b.compute("add", index, b.full(b.const(parts_of(array) - 1, kind), shape))
        inside = b.compute("and", inside, in_bounds(c, b.compute("sub", end, lowest), _parameter(c, elements, SPAN)))
    last = b.compute("sub", b.compute("add", lowest, parameter(SPAN)), b.full(b.const(1, kind), shape))
    if array.element in PARTS:
        index, lowest, last = (b.compute("shr", x, b.full(b.const(1, kind), shape)) for x in (index, lowest, last))
    message = f"accesses element {{}} of {array.name}, whose elements are {{}} to {{}}; mask it, as mask=offsets < n"
    demand(c, inside, mask, message, index, lowest, last)
    return AccessedElements(array, offsets, inside if mask is None else b.compute("and", mask, inside), window)


def _parameter(c: BlockCompiler, elements: AccessedElements, what: int) -> Value:
    """Returns a parameter of an array; of the chosen one of several arguments, int32."""
    if elements.window is None:
        return _of_words(c, elements.array, what)
    values = [
        c.builder.cast(_of_words(c, source, what), INT32)
        if source.strided or what == SPAN
        else c.builder.const(0, INT32)
        for source in sources_of(elements.array)
    ]
    return selected(c.builder, elements.window, values)


def _of_words(c: BlockCompiler, array: ArrayValue, what: int) -> Value:
    """Returns a parameter of an argument, which counts elements of memory: two for a complex number."""
    value = c.parameter(array, what)
    return c.builder.compute("mul", value, c.builder.const(2, value.type)) if array.unit else value  # type: ignore[arg-type]


# -- blocks of strided arrays ------------------------------------------------------------------------------------------


def sequence(values: Any, what: str, n: int | None = None) -> tuple[Any, ...]:
    """Returns a tuple of numbers, one per axis."""
    numbers = tuple(values) if isinstance(values, (tuple, list)) else (values,)
    if n is not None and len(numbers) != n:
        raise UnsupportedError(f"{what} has a number per axis of the block, {n}; got {len(numbers)}")
    return numbers


def integers(c: BlockCompiler, values: Any, what: str, n: int | None = None) -> tuple[Any, ...]:
    """Returns a tuple of scalar ints, int32 or int64 on the device."""
    numbers = sequence(values, what, n)
    for number in numbers:
        if c.shape(number) or c.element_type(number).kind not in "iu":
            raise UnsupportedError(f"{what} is a tuple of integers; got {describe(number)}")
    return tuple([c.as_offset(number) for number in numbers])


def checked_axes(pointer: BlockPointer, boundary_check: Any) -> tuple[int, ...]:
    """Returns the axes along which the bounds of a block pointer are checked."""
    axes, n = sequence(boundary_check or (), "boundary_check"), len(pointer.offsets)
    for axis in axes:
        if type(axis) is not int or not 0 <= axis < n:
            raise UnsupportedError(f"boundary_check has axes of the block, 0 to {n - 1}; got {describe(axis)}")
    return axes


def padding_of(pointer: BlockPointer | Descriptor, option: Any) -> float:
    """Returns the value of elements out of bounds.

    Raises:
        UnsupportedError: the option is none, or integers have none.
    """
    if option not in _PADDINGS:
        raise UnsupportedError(f"padding_option is 'zero' or 'nan'; got {option!r}")
    if option == "nan" and pointer.array.element.kind != "f":
        raise UnsupportedError(f"padding_option 'nan' takes floats; got {describe(pointer)}")
    return _PADDINGS[option]


def window(
    c: BlockCompiler, pointer: Any, offsets: Sequence[Any], checked: Sequence[int], rows: Any = None
) -> AccessedElements:
    """Returns the elements of a block at offsets, and the mask of those within the bounds of the checked axes.

    Args:
        rows: the indices along the first axis; None for adjacent ones.
    """
    b, lengths = c.builder, pointer.block.shape
    if rows is not None:
        lengths = (*c.shape(rows), *lengths[1:])
    kind = c.offset_type(pointer.base, *pointer.strides, *pointer.shape, *offsets, rows)
    total: Value = b.full(c.cast(pointer.base, kind), lengths)
    masks: list[Value] = []
    for axis, n in enumerate(lengths):
        along = tuple([n if k == axis else 1 for k in range(len(lengths))])
        if axis == 0 and rows is not None:
            index = b.reshape(c.cast(rows, kind), along)
        else:
            first = b.full(c.cast(offsets[axis], kind), (n,))
            index = b.reshape(b.compute("add", first, b.cast(b.arange(0, n), kind)), along)
        stride = c.binary("*", pointer.strides[axis], parts_of(pointer.array))
        step = b.compute("mul", index, b.full(c.cast(stride, kind), along))
        total = b.compute("add", total, b.broadcast(step, lengths))
        if axis in checked:
            end = b.full(c.cast(pointer.shape[axis], kind), along)
            at_least = b.compute("ge", index, b.full(b.const(0, kind), along))
            inside = b.compute("and", at_least, b.compute("lt", index, end))
            masks.append(b.broadcast(inside, lengths))
    mask = reduce(lambda x, y: b.compute("and", x, y), masks) if masks else None
    return _inside(c, AccessedElements(pointer.array, total, mask), pointer.entry)


# -- accesses ---------------------------------------------------------------------------------------------------------


def _access(c: BlockCompiler, elements: AccessedElements, access: Callable[[Memory], Value | None]) -> Value | None:
    """Builds an access to the memory of elements: of those of a table, in a branch for each window."""
    array = elements.array
    if isinstance(array, WindowsValue) and elements.window is not None:
        return c.builder.switch(elements.window, array.windows, access)
    return access(array.memory)


def loaded(c: BlockCompiler, elements: AccessedElements, other: Any) -> Number | Complex:
    """Loads elements; `other` where the mask is False."""
    array, filled = elements.array, None
    if array.element in PARTS:
        return _loaded_complex(c, elements, other)
    if elements.mask is not None or isinstance(array, NullValue):
        filled = _repeated(c, c.wrapped(other, array.element), shape_of(elements.offsets.type), "other of a load")
        if isinstance(array, NullValue):
            return c.number(filled)
    if parts_of(array) > 1:
        return c.number(_joined(c, elements, filled))
    filled = None if filled is None else _converted(c, filled, array.memory.element)
    return c.number(_converted(c, _loaded(c, elements, filled), array.element))


def _loaded_complex(c: BlockCompiler, elements: AccessedElements, other: Any) -> Complex:
    """Loads complex elements, each part by itself."""
    array, others = elements.array, list[Value | None]([None, None])
    if elements.mask is not None or isinstance(array, NullValue):
        others = [*_complex_parts(c, elements, other, "other of a load")]
    if isinstance(array, NullValue):
        return Complex(map(c.number, others))  # type: ignore[arg-type]
    parts = zip(_parts(c, elements), others, strict=True)
    return Complex([c.number(_loaded(c, part, filled)) for part, filled in parts])


def _complex_parts(c: BlockCompiler, elements: AccessedElements, value: Any, what: str) -> list[Value]:
    """Returns the parts of a number as those of complex elements."""
    kind, shape = PARTS[elements.array.element], shape_of(elements.offsets.type)
    return [_repeated(c, c.wrapped(part, kind), shape, what) for part in parts_of_number(value)]


def _loaded(c: BlockCompiler, elements: AccessedElements, filled: Value | None) -> Value:
    """Loads elements of memory."""
    values = _access(c, elements, lambda memory: c.builder.load_block(memory, elements.offsets, elements.mask, filled))
    assert values is not None, "a load has a result"
    return values


def _parts(c: BlockCompiler, elements: AccessedElements) -> list[AccessedElements]:
    """Returns the elements of each part of wide elements, the lowest bits first."""
    b, kind = c.builder, element_of(elements.offsets.type)
    steps = [b.full(b.const(n, kind), shape_of(elements.offsets.type)) for n in range(parts_of(elements.array))]
    return [elements._replace(offsets=b.compute("add", elements.offsets, step)) for step in steps]


def _joined(c: BlockCompiler, elements: AccessedElements, filled: Value | None) -> Value:
    """Loads wide elements, each from several of memory."""
    b, array = c.builder, elements.array
    own, word, shape = array.memory.element, SCALARS[f"uint{array.element.bits}"], shape_of(elements.offsets.type)
    others = [None] * parts_of(array) if filled is None else _split(c, array, filled)
    total = b.full(b.const(0, word), shape)
    for at, (part, other) in enumerate(zip(_parts(c, elements), others, strict=True)):
        bits = b.cast(b.bitcast(_loaded(c, part, other), SCALARS[f"uint{own.bits}"]), word)
        total = b.compute("or", total, b.compute("shl", bits, b.full(b.const(at * own.bits, word), shape)))
    return b.bitcast(total, array.element)


def _split(c: BlockCompiler, array: ArrayValue, value: Value) -> list[Value]:
    """Returns the parts of wide elements, of the type of memory, the lowest bits first."""
    b, own, word, shape = c.builder, array.memory.element, SCALARS[f"uint{array.element.bits}"], shape_of(value.type)
    bits = b.bitcast(value, word)
    shifted = [b.compute("shr", bits, b.full(b.const(at * own.bits, word), shape)) for at in range(parts_of(array))]
    return [b.bitcast(b.cast(part, SCALARS[f"uint{own.bits}"]), own) for part in shifted]


def stored_at(c: BlockCompiler, elements: AccessedElements, value: Any) -> None:
    """Stores elements."""
    array, is_wide = elements.array, parts_of(elements.array) > 1
    if array.element in PARTS:
        values = _complex_parts(c, elements, value, "value of a store")
    else:
        numbers = _repeated(c, c.wrapped(value, array.element), shape_of(elements.offsets.type), "value of a store")
        values = _split(c, array, numbers) if is_wide else [_converted(c, numbers, array.memory.element)]
    if isinstance(array, NullValue):
        return
    c.mark_written(array)
    for part, stored in zip(_parts(c, elements) if is_wide else [elements], values, strict=True):
        _access(c, part, partial(_store, c, part, stored))


def _store(c: BlockCompiler, elements: AccessedElements, value: Value, memory: Memory) -> None:
    c.builder.store_block(memory, elements.offsets, value, elements.mask)


def _converted(c: BlockCompiler, value: Value, kind: Scalar) -> Value:
    """Converts between the type of elements and that of memory: bools are bytes, others have the same bits."""
    return (c.builder.cast if BOOL in (element_of(value.type), kind) else c.builder.bitcast)(value, kind)


def atomic_at(c: BlockCompiler, name: str, elements: AccessedElements, values: tuple[Any, ...]) -> Number:
    """Combines elements atomically; returns those before."""
    array, shape = elements.array, shape_of(elements.offsets.type)
    _check_atomic(name, array)
    if array.memory.element is not array.element:
        raise UnsupportedError(
            f"atomic {name.replace('_', ' ')} takes elements of the array's own type; {array.name} points to "
            f"{OF_SCALAR[array.element]}; use an array of float32"
        )
    converted = [c.cast(c.as_tensor(value), array.element) for value in values]
    numbers = [_repeated(c, value, shape, "value of an atomic operation") for value in converted]
    if isinstance(array, NullValue):
        return c.number(c.builder.full(c.builder.const(0, array.element), shape))
    c.mark_written(array, assigned=False)
    old = _access(
        c, elements, lambda memory: c.builder.atomic_block(name, memory, elements.offsets, numbers, elements.mask)
    )
    assert old is not None, "an atomic operation has a result"
    return c.number(old)


def _check_atomic(name: str, array: ArrayValue) -> None:
    """Raises UnsupportedError if the elements have no such atomic operation."""
    kind, has = array.element, f"{array.name} has {OF_SCALAR[array.element]}"
    if kind in PARTS:
        pointer = f"{array.name}.to(tl.pointer_type(tl.{OF_SCALAR[PARTS[kind]].long_name}))"
        raise UnsupportedError(
            f"atomic {name.replace('_', ' ')} takes real numbers; {has}; take the parts, by {pointer} + 2 * offsets"
        )
    if kind.kind == "b":
        raise UnsupportedError(f"atomic {name.replace('_', ' ')} takes numbers; {has}; use an array of int32")
    if name in ATOMICS and not ATOMICS[name].takes(kind):
        raise UnsupportedError(
            f"atomic {name} takes integers; {has}; pass its bits, as triton.reinterpret(x, tl.int{kind.bits})"
        )
