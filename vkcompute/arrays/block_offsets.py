"""Offsets and masks of block programs that compute blocks of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute.ir import Value
from vkcompute.runtime.memory.array import Array
from vkcompute.tile.builder import Builder

LARGEST = 1 << 31
"""Elements that an array of a block program has fewer of: offsets are int32."""


def is_too_large(x: Array, sizes: Sequence[int]) -> bool:
    """True if offsets in an array of one of these sizes exceed int32, or a binding cannot hold it."""
    return max(sizes) >= LARGEST or max(sizes) * x.dtype.itemsize > x.runtime.device.max_binding_bytes


def rounded(n: int, multiple: int) -> int:
    """Returns a number rounded up to a multiple."""
    return -(-n // multiple) * multiple


def span(c: Builder, first: Value, n: int) -> Value:
    """Returns `n` indices from the first one on."""
    return c.compute("add", c.full(first, (n,)), c.arange(0, n))


def scaled(c: Builder, block: Value, factor: Value) -> Value:
    """Returns the products of indices and a number."""
    return c.compute("mul", block, c.broadcast(factor, block.type.shape))  # type: ignore[union-attr]


def offsets(c: Builder, rows: Value, columns: Value, offset: Value) -> Value:
    """Returns the sums of a number per row, a number per column and a scalar."""
    return grid(c, "add", c.compute("add", rows, c.full(offset, rows.type.shape)), columns)  # type: ignore[union-attr]


def grid(c: Builder, code: str, rows: Value, columns: Value) -> Value:
    """Applies an operation to a number per row and a number per column."""
    shape = *rows.type.shape, *columns.type.shape  # type: ignore[union-attr]
    one, other = c.reshape(rows, (shape[0], 1)), c.reshape(columns, (1, shape[1]))
    return c.compute(code, c.broadcast(one, shape), c.broadcast(other, shape))


def between(c: Builder, block: Value, first: Value, stop: Value) -> Value:
    """Returns the condition that indices are at least `first` and less than `stop`."""
    shape = block.type.shape  # type: ignore[union-attr]
    return c.compute("and", c.compute("ge", block, c.full(first, shape)), c.compute("lt", block, c.full(stop, shape)))


def repeated(c: Builder, block: Value, n: int) -> Value:
    """Returns a block with each column `n` times."""
    rows, columns = block.type.shape  # type: ignore[union-attr]
    return c.reshape(c.broadcast(c.reshape(block, (rows, columns, 1)), (rows, columns, n)), (rows, columns * n))
