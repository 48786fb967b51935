"""Functions of the block language that give the place of a program, and make blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.blocks.compiler.arithmetic import describe, describe_dynamic
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.complex_blocks import complex_by_parts, converted, is_complex_dtype, takes_complex
from vkcompute.blocks.compiler.functions import block_function
from vkcompute.blocks.compiler.types import Pointer, scalar_of
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32
from vkcompute.jit.frontend.values import Complex, Number

MOST_ELEMENTS = 1 << 20  # as in Triton


def checked_shape(shape: Any) -> tuple[int, ...]:
    """Returns a shape given by constants, each a power of two.

    Raises:
        UnsupportedError: it is not.
    """
    lengths = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for length in lengths:
        if type(length) is not int:
            raise UnsupportedError(f"a shape is ints known at compile time; got {describe_dynamic(length)}")
        if length < 1 or length & (length - 1):
            raise UnsupportedError(f"the lengths of a block are powers of two; got {length}; round up and use a mask")
    if int(np.prod(lengths)) > MOST_ELEMENTS:
        raise UnsupportedError(f"a block has at most {MOST_ELEMENTS} elements; got {list(lengths)}")
    return lengths


def _program(c: BlockCompiler, name: str, axis: Any) -> Number:
    if type(axis) is not int or axis not in (0, 1, 2):
        rule = f"{'program_id' if name == 'group_id' else 'num_programs'} axis must be 0, 1, or 2"
        raise UnsupportedError(f"{rule} but got {describe_dynamic(axis)}; the grid has up to three axes")
    return c.number(c.builder.cast(c.builder.builtin(name, axis), INT32))


@block_function
def program_id(c: BlockCompiler, axis: Any) -> Any:
    """Index of the program along an axis of the grid, int32."""
    return _program(c, "group_id", axis)


@block_function
def num_programs(c: BlockCompiler, axis: Any) -> Any:
    """Number of programs along an axis of the grid, int32."""
    return _program(c, "n_groups", axis)


@block_function
def arange(c: BlockCompiler, start: Any, end: Any) -> Any:
    """The ints from `start` to before `end`, a block of int32; their number is a power of two."""
    if type(start) is not int or type(end) is not int:
        wrong = [bound for bound in (start, end) if type(bound) is not int]
        raise UnsupportedError(f"tl.arange takes ints known at compile time; got {describe_dynamic(*wrong)}")
    if end <= start:
        raise UnsupportedError(f"tl.arange takes start < end; got {start} and {end}")
    checked_shape(end - start)
    return c.number(c.builder.arange(start, end))


@takes_complex
@block_function
def full(c: BlockCompiler, shape: Any, value: Any, dtype: Any) -> Any:
    """A block whose elements are all one scalar."""
    if c.shape(value):
        raise UnsupportedError(
            f"the value of tl.full is a scalar; got {describe(value)}; write tl.broadcast_to(x, shape)"
        )
    if is_complex_dtype(dtype):
        parts = converted(c, value, dtype)
        return Complex([c.number(c.builder.full(part.value, checked_shape(shape))) for part in parts])
    if isinstance(value, float) and value and scalar_of(dtype).kind in "iub" and c.is_users():
        raise UnsupportedError(f"the value of tl.full with dtype {dtype} is an int; got {value}; convert it")
    return c.number(c.builder.full(c.arithmetic.wrapped(value, scalar_of(dtype)), checked_shape(shape)))


@block_function
def zeros(c: BlockCompiler, shape: Any, dtype: Any) -> Any:
    """A block of zeros."""
    if is_complex_dtype(dtype):
        return full.emit(c, shape, 0, dtype)
    return c.number(c.builder.full(c.builder.const(0, scalar_of(dtype)), checked_shape(shape)))


@complex_by_parts
@block_function
def zeros_like(c: BlockCompiler, input: Any) -> Any:
    """A block of zeros of the shape and dtype of another."""
    return c.number(c.builder.full(c.builder.const(0, c.element_type(input)), c.shape(input)))


@complex_by_parts
@block_function
def to_tensor(c: BlockCompiler, x: Any) -> Any:
    """A Python number as a scalar of the device; other values are unchanged."""
    return x if isinstance(x, (Number, Pointer)) else c.number(c.cast(x, c.common_type(x).type))


@block_function
def swizzle2d(c: BlockCompiler, i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> Any:
    """The row and column of a tile of a (size_i, size_j) matrix whose tiles are numbered by groups of rows."""

    def op(sign: str, one: Any, other: Any) -> Any:
        return c.binary(sign, one, other)

    at, in_group = op("+", op("*", i, size_j), j), op("*", size_g, size_j)
    first = op("*", op("//", at, in_group), size_g)
    left = op("-", size_i, first)
    kind = c.common_type(left, size_g)
    n_rows = c.number(c.builder.compute("min", *c.alike(kind.type, left, size_g)))
    inside = op("%", at, in_group)
    return op("+", first, op("%", inside, n_rows)), op("//", inside, n_rows)
