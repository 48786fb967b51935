"""Functions of the block language that change the shape of blocks."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vkcompute.blocks.compiler.arithmetic import describe, describe_dynamic
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.complex_blocks import complex_by_parts, takes_complex
from vkcompute.blocks.compiler.functions import block_function, method
from vkcompute.blocks.compiler.types import Pointer
from vkcompute.blocks.language.creation import checked_shape
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import Value
from vkcompute.jit.frontend.values import Number, is_complex
from vkcompute.tile import shape_of


def checked_axis(c: BlockCompiler, x: Any, axis: Any) -> int:
    """Returns the index of an axis of a block.

    Raises:
        UnsupportedError: the value is no block, or has no such axis.
    """
    n = len(c.shape(x))
    if not n:
        raise UnsupportedError(f"this takes a block; got {describe(x)}")
    return _axis_index(axis, n, describe(x))


def _axis_index(axis: Any, n: int, of: str) -> int:
    """Returns the index of an axis among `n`, which may count from the end."""
    if type(axis) is not int or not -n <= axis < n:
        given = describe_dynamic(axis)
        raise UnsupportedError(f"invalid axis {given}; an axis of {of} is a constant from {-n} to {n - 1}")
    return axis % n


def as_block(c: BlockCompiler, value: Any) -> Value:
    """Returns the value of a block, of one element for a scalar."""
    result = c.cast(value, c.element_type(value))
    return result if shape_of(result.type) else c.builder.full(result, (1,))


def only_element(c: BlockCompiler, block: Value) -> Number:
    """Returns the element of a block that has one, as a scalar."""
    (element,) = c.builder.reduce([c.builder.reshape(block, (1,))], 0, lambda one, _: [*one], ordered=True)
    return c.number(element)


def _reshaped(c: BlockCompiler, elements: Value, shape: tuple[int, ...]) -> Number:
    """Returns the elements of a block in another shape, a scalar for ()."""
    return c.number(c.builder.reshape(elements, shape)) if shape else only_element(c, elements)


def _of_pointers(emit: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function of blocks also one of blocks of pointers, to whose offsets it applies."""

    @functools.wraps(emit)
    def applied(c: BlockCompiler, pointer: Any, *args: Any, **named: Any) -> Any:
        if not isinstance(pointer, Pointer):
            return emit(c, pointer, *args, **named)
        return pointer._replace(offset=emit(c, pointer.offset or 0, *args, **named))

    return applied


@complex_by_parts
@method
@block_function
@_of_pointers
def reshape(c: BlockCompiler, input: Any, *shape: Any, can_reorder: Any = False) -> Any:
    """The elements, in row-major order, in another shape."""
    wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    elements = as_block(c, input)
    n = math.prod(shape_of(elements.type))
    if all(type(length) is int for length in wanted) and math.prod(wanted) != n:
        raise UnsupportedError(
            f"reshape keeps the number of elements, {n} of {describe(input)}, and its lengths are powers of two; got "
            f"{list(wanted)}, of {math.prod(wanted)}"
        )
    return _reshaped(c, elements, checked_shape(wanted))


view = complex_by_parts(block_function(reshape.emit))
view.__name__ = "view"
method(view)


@complex_by_parts
@method
@block_function
@_of_pointers
def ravel(c: BlockCompiler, x: Any) -> Any:
    """The elements in row-major order along one axis."""
    elements = as_block(c, x)
    return c.number(c.builder.reshape(elements, (int(np.prod(shape_of(elements.type))),)))


@complex_by_parts
@method
@block_function
@_of_pointers
def expand_dims(c: BlockCompiler, input: Any, axis: Any) -> Any:
    """Inserts axes of length 1."""
    shape = list(c.shape(input))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    n = len(shape) + len(axes)
    indices = sorted(_axis_index(one, n, f"a block with {n} axes") for one in axes)
    if len({*indices}) < n - len(shape):
        raise UnsupportedError(f"duplicate axes, normalized axes = {indices}; name each new axis of the block once")
    for index in indices:
        shape.insert(index, 1)
    return _reshaped(c, as_block(c, input), tuple(shape))


@complex_by_parts
@method
@block_function
@_of_pointers
def broadcast_to(c: BlockCompiler, input: Any, *shape: Any) -> Any:
    """Repeats a block along its axes of length 1."""
    wanted = checked_shape(shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)
    n_axes = len(c.shape(input))
    if n_axes > len(wanted) or (n_axes not in (0, len(wanted)) and c.is_users()):
        raise UnsupportedError(
            f"broadcast_to keeps the number of axes; got {describe(input)} and {list(wanted)}; write x[None, :] to add "
            "an axis"
        )
    return c.number(c.spread(c.cast(input, c.element_type(input)), wanted))


@takes_complex
@block_function
def broadcast(c: BlockCompiler, input: Any, other: Any) -> Any:
    """Repeats two blocks to their common shape."""
    shape = c.common_shape(input, other)
    if any(map(is_complex, (input, other))):
        return tuple([broadcast_to.expand(c, [operand, shape], {}) for operand in (input, other)])
    return tuple([c.number(c.spread(c.cast(operand, c.element_type(operand)), shape)) for operand in (input, other)])


@complex_by_parts
@method
@block_function
@_of_pointers
def permute(c: BlockCompiler, input: Any, *dims: Any) -> Any:
    """Reorders the axes."""
    order = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    shape = c.shape(input)
    if any(type(index) is not int for index in order) or sorted(order) != list(range(len(shape))):
        raise UnsupportedError(f"permute takes each axis of {describe(input)} once; got {describe_dynamic(*order)}")
    return c.number(c.builder.permute(as_block(c, input), tuple(order)))


@complex_by_parts
@method
@block_function
@_of_pointers
def trans(c: BlockCompiler, input: Any, *dims: Any) -> Any:
    """Swaps the last two axes, or reorders the axes."""
    if dims and dims != ((),):
        return permute.emit(c, input, *dims)
    n = len(c.shape(input))
    if n < 2:
        raise UnsupportedError(f"a block with two axes is transposed; got {describe(input)}")
    return c.number(c.builder.permute(as_block(c, input), (*range(n - 2), n - 1, n - 2)))


@complex_by_parts
@block_function
@_of_pointers
def squeeze(c: BlockCompiler, x: Any, dim: Any) -> Any:
    """Removes an axis of length 1."""
    shape, at = c.shape(x), checked_axis(c, x, dim)
    if shape[at] != 1:
        raise UnsupportedError(f"tl.squeeze takes an axis of length 1 of the block; got {describe(x)} and {dim}")
    return _reshaped(c, x.value, (*shape[:at], *shape[at + 1 :]))


unsqueeze = complex_by_parts(block_function(lambda c, x, dim: expand_dims.emit(c, x, dim)))
unsqueeze.__name__, unsqueeze.__doc__ = "unsqueeze", "Inserts an axis of length 1."
