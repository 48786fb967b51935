"""Block pointers and tensor descriptors: a window of a strided array, whose bounds the array's shape gives."""

from __future__ import annotations

from typing import Any

from vkcompute.blocks.compiler.accessed_elements import (
    AccessedElements,
    atomic_at,
    integers,
    loaded,
    padding_of,
    sequence,
    stored_at,
    window,
)
from vkcompute.blocks.compiler.arithmetic import describe
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.complex_blocks import takes_complex
from vkcompute.blocks.compiler.functions import DESCRIPTOR_METHODS, block_function, method
from vkcompute.blocks.compiler.types import BlockPointer, Descriptor, Pointer, TableValue
from vkcompute.blocks.language.creation import checked_shape
from vkcompute.blocks.language.narrow_atomics import UPDATES, is_narrow, updated
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.tile import block

_LEAST_NBYTES = 16
"""Of a row of a descriptor's block, as in Triton."""


def _base(base: Any) -> Pointer:
    if not isinstance(base, Pointer) or base.offset is not None or isinstance(base.array, TableValue):
        raise UnsupportedError(f"base is a pointer to one element, as x_ptr; got {describe(base)}")
    return base


@block_function
def make_block_ptr(
    c: BlockCompiler, base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
) -> Any:
    """A pointer to a block of a strided array, which `tl.advance` moves. `order` has no effect."""
    lengths = checked_shape(block_shape)
    n = len(lengths)
    shape, strides = integers(c, shape, "shape", n), integers(c, strides, "strides", n)
    if sorted(sequence(order, "order", n)) != list(range(n)):
        raise UnsupportedError(f"order has each axis once, the contiguous one first; got {order}")
    pointer = _base(base)
    first = integers(c, offsets, "offsets", n)
    kind = block(pointer.array.element, lengths)
    return BlockPointer(pointer.array, pointer.base, shape, strides, first, kind, pointer.entry)


@block_function
def advance(c: BlockCompiler, base: Any, offsets: Any) -> Any:
    """A block pointer moved by offsets, one per axis."""
    if not isinstance(base, BlockPointer):
        raise UnsupportedError(f"tl.advance takes a pointer made by tl.make_block_ptr; got {describe(base)}")
    steps = integers(c, offsets, "offsets", len(base.offsets))
    return base._replace(offsets=tuple([c.binary("+", *pair) for pair in zip(base.offsets, steps, strict=True)]))


@block_function
def make_tensor_descriptor(
    c: BlockCompiler, base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero"
) -> Any:
    """A descriptor of a strided array, of which blocks are loaded and stored at offsets, within its bounds."""
    lengths = checked_shape(block_shape)
    n = len(lengths)
    shape, strides = integers(c, shape, "shape", n), integers(c, strides, "strides", n)
    pointer = _base(base)
    kind = block(pointer.array.element, lengths)
    nbytes = lengths[-1] * kind.element.bits // 8
    if nbytes < _LEAST_NBYTES and c.evaluator.frames and c.is_users():
        raise UnsupportedError(
            f"Descriptor block shape must have at least {_LEAST_NBYTES} bytes in the last dimension; got "
            f"{list(lengths)} of {describe(pointer)}, {nbytes} bytes; widen the block, or use tl.make_block_ptr"
        )
    descriptor = Descriptor(pointer.array, pointer.base, shape, strides, kind, padding_option, pointer.entry)
    padding_of(descriptor, padding_option)
    return descriptor


# -- descriptors ------------------------------------------------------------------------------------------------------


def _descriptor(value: Any) -> Descriptor:
    if not isinstance(value, Descriptor):
        raise UnsupportedError(f"this takes a descriptor made by tl.make_tensor_descriptor; got {describe(value)}")
    return value


def _whole(c: BlockCompiler, desc: Any, offsets: Any) -> AccessedElements:
    """Returns the elements of a block of a descriptor, within all bounds."""
    lengths = _descriptor(desc).block.shape
    at = integers(c, offsets, "offsets", len(lengths))
    return window(c, desc, at, range(len(lengths)))


@block_function
def load_tensor_descriptor(c: BlockCompiler, desc: Any, offsets: Any) -> Any:
    """Loads the block at offsets; elements out of bounds are 0, or NaN if the descriptor says so."""
    return loaded(c, _whole(c, desc, offsets), padding_of(desc, desc.padding))


@takes_complex
@block_function
def store_tensor_descriptor(c: BlockCompiler, desc: Any, offsets: Any, value: Any) -> None:
    """Stores a block at offsets, within bounds."""
    stored_at(c, _whole(c, desc, offsets), value)


def _rows(c: BlockCompiler, desc: Any, x_offsets: Any, y_offset: Any) -> AccessedElements:
    """Returns the elements of several rows of an array, from a column on."""
    lengths = _descriptor(desc).block.shape
    if len(lengths) != 2 or lengths[0] != 1 or len(c.shape(x_offsets)) != 1:
        raise UnsupportedError(
            "rows are taken by a descriptor with block_shape [1, n] and a block of row numbers; got "
            f"{list(lengths)} and {describe(x_offsets)}"
        )
    return window(c, desc, integers(c, (0, y_offset), "offsets"), (0, 1), x_offsets)


def _gather(c: BlockCompiler, desc: Any, x_offsets: Any, y_offset: Any) -> Any:
    """Loads several rows, from a column on."""
    return loaded(c, _rows(c, desc, x_offsets, y_offset), padding_of(desc, desc.padding))


def _scatter(c: BlockCompiler, desc: Any, value: Any, x_offsets: Any, y_offset: Any) -> None:
    """Stores several rows, from a column on."""
    stored_at(c, _rows(c, desc, x_offsets, y_offset), value)


def _atomic(name: str) -> Any:
    def emit(c: BlockCompiler, desc: Any, offsets: Any, value: Any) -> None:
        elements = _whole(c, desc, offsets)
        pointer = Pointer(elements.array, 0, c.number(elements.offsets))
        if is_narrow(pointer) and name in UPDATES and elements.window is None:
            updated(c, name, pointer, value, None if elements.mask is None else c.number(elements.mask))
        else:
            atomic_at(c, name, elements, (value,))

    emit.__name__, emit.__doc__ = f"atomic_{name}", f"Combines a block with that at offsets by {name}, atomically."
    return block_function(emit)


def _named(name: str, emit: Any) -> Any:
    function = block_function(emit)
    function.__name__ = name
    return function


DESCRIPTOR_METHODS |= {
    "load": load_tensor_descriptor,
    "store": store_tensor_descriptor,
    "gather": _named("gather", _gather),
    "scatter": takes_complex(_named("scatter", _scatter)),
    **{f"atomic_{name}": _atomic(name) for name in ("add", "min", "max", "and", "or", "xor")},
}
method(advance)
