"""Functions of the block language that join blocks, and split them."""

from __future__ import annotations

from functools import partial
from typing import Any

from vkcompute.blocks.compiler.arithmetic import describe
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.complex_blocks import complex_by_parts
from vkcompute.blocks.compiler.functions import block_function, method
from vkcompute.blocks.language.shapes import as_block, checked_axis, only_element
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, Scalar, Value
from vkcompute.jit.frontend.values import Number


def is_second(c: BlockCompiler, shape: tuple[int, ...], bit: int) -> Value:
    """Returns for each element True if a bit of its number, in row-major order, is 1."""
    b, n_below = c.builder, 1 << bit
    n = 1
    for length in shape:
        n *= length
    which = b.reshape(b.arange(0, 2), (1, 2, 1))
    which = b.reshape(b.broadcast(which, (n // (2 * n_below), 2, n_below)), shape)
    return b.compute("ne", which, b.full(b.const(0, INT32), shape))


def _joined_type(c: BlockCompiler, one: Any, other: Any) -> Scalar:
    """Returns the type of joined elements: that of the first block in programs of users, whose blocks have one width.

    Raises:
        UnsupportedError: the types differ in more than the sign of integers, in a program of users.
    """
    if not c.is_users() or not isinstance(one, Number) or not isinstance(other, Number):
        common: Scalar = c.common_type(one, other).type
        return common
    kinds: list[Scalar] = [c.element_type(operand) for operand in (one, other)]
    if (kinds[0].kind == "f" or kinds[1].kind == "f" or kinds[0].bits != kinds[1].bits) and kinds[0] is not kinds[1]:
        raise UnsupportedError(
            f"joined blocks have one dtype; got {describe(one)} and {describe(other)}; convert one, as x.to(y.dtype)"
        )
    return kinds[0]


@partial(complex_by_parts, n_values=2)
@block_function
def join(c: BlockCompiler, a: Any, b: Any) -> Any:
    """Two blocks along a new last axis of length 2; scalars become a block of 2."""
    kind, shape, builder = _joined_type(c, a, b), c.common_shape(a, b), c.builder
    which = builder.broadcast(builder.reshape(builder.arange(0, 2), (*(1 for _ in shape), 2)), (*shape, 2))
    parts = []
    for operand in (a, b):
        value = c.spread(c.cast(operand, kind), shape)
        part = builder.reshape(value, (*shape, 1)) if shape else builder.full(value, (1,))
        parts.append(builder.broadcast(part, (*shape, 2)))
    is_last = builder.compute("ne", which, builder.full(builder.const(0, INT32), (*shape, 2)))
    return c.number(builder.select(is_last, parts[1], parts[0]))


@complex_by_parts
@method
@block_function
def split(c: BlockCompiler, a: Any) -> Any:
    """The two blocks of which a block consists along its last axis, of length 2; scalars of a block of 2."""
    shape = c.shape(a)
    if not shape or shape[-1] != 2:
        raise UnsupportedError(f"tl.split takes a block whose last axis has length 2; got {describe(a)}")
    return tuple([chosen(c, a.value, len(shape) - 1, at) for at in range(2)])


def chosen(c: BlockCompiler, value: Value, axis: int, at: int) -> Number:
    """Returns the first (0) or last (1) elements along an axis, which is removed."""
    (part,) = c.builder.reduce([value], axis, lambda *pair: [*pair[at]], ordered=True)
    return c.number(part)


@partial(complex_by_parts, n_values=2)
@block_function
def cat(c: BlockCompiler, input: Any, other: Any, can_reorder: Any = False, dim: Any = 0) -> Any:
    """Two blocks of one shape, one after the other along an axis; `can_reorder` has no effect."""
    shape = c.shape(input)
    if not shape or shape != c.shape(other):
        raise UnsupportedError(f"tl.cat takes two blocks of one shape; got {describe(input)} and {describe(other)}")
    axis, n = checked_axis(c, input, dim), len(shape)
    order = [*range(axis), n, *range(axis, n)]
    joined = c.builder.permute(join.emit(c, input, other).value, tuple(order))
    return c.number(c.builder.reshape(joined, (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])))


@partial(complex_by_parts, n_values=2)
@block_function
def interleave(c: BlockCompiler, a: Any, b: Any) -> Any:
    """The elements of two blocks in turn along the last axis."""
    joined = join.emit(c, a, b)
    shape = c.shape(joined)
    return joined if len(shape) == 1 else c.number(c.builder.reshape(joined.value, (*shape[:-2], 2 * shape[-2])))


@complex_by_parts
@method
@block_function
def item(c: BlockCompiler, input: Any) -> Any:
    """The element of a block that has one, as a scalar."""
    value = as_block(c, input)
    n = value.type.n  # type: ignore[union-attr]
    if n != 1:
        raise UnsupportedError(f"this takes a block of one element; got {describe(input)}")
    return only_element(c, value) if c.shape(input) else input
