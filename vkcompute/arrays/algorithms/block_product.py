"""Products of stacked matrices by block programs: each computes a block of a result.

Operands are read by whole texels or vectors of four elements, and without masks. So they are copied where their rows do
not begin at a multiple of four elements, or the terms are no multiple of those of a step. On a CPU, matrices on the
right may be transposed. Elsewhere, operands pass through workgroup memory, to which rows are copied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vkcompute.arrays.algorithms.matrix_product import MOST_GROUPS
from vkcompute.arrays.algorithms.programs.matrices import LONGEST, product
from vkcompute.arrays.expressions.ufunc import assign
from vkcompute.compiled.target import computes_by_words
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of
from vkcompute.runtime.tuning import tuning_of
from vkcompute.tile.device import block_target
from vkcompute.tile.launch_arrays import is_too_large, is_wide, rounded
from vkcompute.tile.registers import ADJACENT


class _Limits(NamedTuple):
    """The most sums and columns of a block, and the terms that are loaded together."""

    sums: int
    columns: int
    step: int


_COLUMNS_OF_64_BITS = 128
"""Of elements of 64 bits: shuffles of these are slow on lavapipe from Mesa 25 on, and wide blocks need fewer of them.

A product of 512^3 takes 97 ms of CPU time, and with 64 columns 153.
"""
# Of float16, by cooperative matrices: 8192^3 runs at 198 TFLOP/s on an H200, and with 64 x 128 sums at 121.
_HALVES = _Limits(16384, 128, 32)
_BY_WORDS = _Limits(256, 16, ADJACENT)
"""Of float64 that is computed by words: an invocation has four sums, whose code takes seconds to compile."""
_BUSY = 128
"""Blocks that keep a GPU busy. On lavapipe, 128 x 512 times 512 x 512 takes 3.2 ms of CPU time in 128 blocks, of which
each has a part of the sums. In the 16 of `Tuning.busy_groups` it takes 2.6 ms.
"""
_MOST_TURNED = 128
"""Elements of a row of transposed matrices, or rows on the left, up to which the former are read in place. Longer rows
begin in few sets of a cache: 512 x 512 times 512 x 128 takes 1.7 ms of CPU time on lavapipe so, and 1.4 with a copy.
"""
_LEAST_TERMS, _MOST_TERMS = 256, 1024
"""Terms of a part: fewer gain no speed. More have larger errors of rounding, for which it pays to add up parts."""


class Product(NamedTuple):
    """A product of stacked matrices that one launch computes.

    Attributes:
        left, right: the operands, of which programs load four elements together.
        out: the results, of shape (n, parts, rows, columns).
        numbers: rows, columns, columns that may be read, terms, and elements from a row to the next on both sides.
        parts: elements of a matrix on the left and on the right, terms of a part, and number of parts.
        tile: rows and columns of a block, terms of a step, True if four divides the columns of the result, and True if
            matrices on the right are transposed.
        grid: of programs, one per block, with the parts of all matrices along the last axis.
    """

    left: Array
    right: Array
    out: Array
    numbers: tuple[int, int, int, int, int, int]
    parts: tuple[int, int, int, int]
    tile: tuple[int, int, int, bool, bool]
    grid: tuple[int, int, int]


class _Matrices(NamedTuple):
    """An operand in memory.

    Attributes:
        elements: all from the first one on.
        row, stack: the elements from a row to the next, and from a matrix to the next.
        is_turned: True if its rows are the columns of the operand.
    """

    elements: Array
    row: int
    stack: int
    is_turned: bool = False


def _sums(dtype: str) -> str:
    """Returns the dtype of the sums of products."""
    return "float32" if dtype == "float16" else dtype


def multiplies_halves(x: Array) -> bool:
    """True if the device of an array multiplies float16 by cooperative matrices."""
    return any(shape.operand == "float16" and shape.sums == "float32" for shape in block_target(runtime_of(x)).matrices)


def _limits(x: Array) -> _Limits:
    if x.dtype == np.float16:
        return _HALVES
    if computes_by_words(runtime_of(x), [x.dtype]):
        return _BY_WORDS
    tuning = tuning_of(x.runtime.device.physical)
    columns = _COLUMNS_OF_64_BITS if x.dtype.itemsize == 8 else tuning.product_columns
    return _Limits(tuning.product_sums, columns, tuning.product_terms)


def stacked_product(a: Array, b: Array) -> Array | None:
    """Returns the products of matrices: parts of their sums, which the caller adds; None if one launch cannot do it.

    Args:
        a, b: as of `prepared`.

    Returns:
        An array of shape (n, parts, rows, columns). Long sums of few elements have several parts.
    """
    made = prepared(a, b)
    if made is None:
        return None
    product[made.grid](made.left, made.right, made.out, *made.numbers, *made.parts, *made.tile)
    return made.out


def prepared(a: Array, b: Array, *, whole: bool = False) -> Product | None:
    """Returns the operands of a product, as programs read them, and its launch; None if one launch cannot do it.

    Args:
        a, b: stacks of matrices, of shapes (n, rows, terms) and (n, terms, columns), of one 32- or 64-bit dtype, or
            of float16, which is added in float32.
        whole: True for sums of one part; None is returned for those of several.
    """
    (n, n_rows, n_terms), n_columns = a.shape, b.shape[2]
    rows, columns, step = tile_shape(a, n_rows, n_columns, n_terms)
    blocks = -(-n_rows // rows), -(-n_columns // columns)  # neighbours share columns, which stay in a cache
    padded, width = rounded(n_terms, step), rounded(max(n_columns, columns), ADJACENT)
    terms = _terms(a, n * blocks[0] * blocks[1], padded, step)
    n_parts = -(-padded // terms)
    sizes = a.nbytes, b.nbytes, n * n_rows * padded, n * padded * width, n * n_parts * n_rows * n_columns
    if is_too_large(a, sizes) or max(*blocks, n * n_parts) > MOST_GROUPS or (whole and n_parts > 1):
        return None
    left = _matrices(a, (n_rows, padded))
    is_short = min(b.strides[2] // b.dtype.itemsize, n_rows) <= _MOST_TURNED
    may_turn = is_short and n_columns >= columns and not tuning_of(a.runtime.device.physical).stages
    right = _matrices(b, (padded, width), may_turn=may_turn)
    out = temporary(a.runtime, (n, n_parts, n_rows, n_columns), np.dtype(_sums(a.dtype.name)))
    tile = rows, columns, step, n_columns % ADJACENT == 0, right.is_turned
    numbers = n_rows, n_columns, n_columns if right.is_turned else width, padded, left.row, right.row
    parts = left.stack, right.stack, terms, n_parts
    return Product(left.elements, right.elements, out, numbers, parts, tile, (*blocks, n * n_parts))


def tile_shape(x: Array, n_rows: int, n_columns: int, n_terms: int) -> tuple[int, int, int]:
    """Returns the rows and columns of a block, and the terms of a step; all are powers of two."""
    limits = _limits(x)
    columns = min(1 << rounded(n_columns, ADJACENT).bit_length() - 1, limits.columns)
    rows = min(limits.sums // columns, 1 << (n_rows - 1).bit_length())
    return rows, columns, limits.step if n_terms > ADJACENT or limits is _HALVES else ADJACENT


def _terms(x: Array, n_blocks: int, n_terms: int, step: int) -> int:
    """Returns the terms of a part: fewer of them where blocks are few."""
    busy = min(_BUSY, tuning_of(x.runtime.device.physical).busy_groups)
    fewest = max(-(-busy // n_blocks), -(-n_terms // _MOST_TERMS))
    parts = min(fewest, -(-_BUSY // n_blocks), -(-n_terms // _LEAST_TERMS))
    return min(rounded(-(-n_terms // parts), step), LONGEST)


def _matrices(x: Array, shape: tuple[int, int], *, may_turn: bool = False) -> _Matrices:
    """Returns matrices of a shape with zeros beyond their elements, of which a program loads four together.

    They are copied if need be.

    Args:
        shape: of which a program reads all elements; of transposed matrices only the first length counts.
    """
    n_rows, n_columns = shape
    if x.shape[1:] == shape and (known := _in_place(x)) is not None:
        return known
    turned = x.transpose((0, 2, 1)) if may_turn and x.shape[1] == n_rows else None
    if turned is not None and (known := _in_place(turned)) is not None:
        return known._replace(is_turned=True)
    packed = _packed(x[:1] if x.strides[0] == 0 else x, shape)
    return _Matrices(packed, n_columns, 0 if len(packed) < len(x) else n_rows * n_columns)


def _in_place(x: Array) -> _Matrices | None:
    """Returns matrices whose rows begin at multiples of four elements, or None."""
    itemsize = x.dtype.itemsize
    stack, row, element = [stride // itemsize if n > 1 else 0 for stride, n in zip(x.strides, x.shape, strict=True)]
    if min(stack, row) < 0 or (row | stack | x.shape[2]) % ADJACENT or (element != 1 and x.shape[2] > 1):
        return None
    if any(stride % itemsize for stride in x.strides):
        return None
    n = stack * (len(x) - 1) + row * (x.shape[1] - 1) + x.shape[2]
    elements = x if x.contiguous else x.viewed(0, (n,), (itemsize,))
    return _Matrices(elements, row, stack) if is_wide(elements) else None


def _packed(x: Array, shape: tuple[int, int]) -> Array:
    """Returns a copy of matrices in a shape, with zeros beyond their elements."""
    packed = temporary(x.runtime, (len(x), *shape), x.dtype)
    if x.shape[1:] == shape:
        return assign(packed, x)
    packed.fill(x.dtype.type(0))
    assign(packed[:, : x.shape[1], : x.shape[2]], x)
    return packed
