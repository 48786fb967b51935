"""Products and transposition of matrices: a program computes a block of a result.

Parts of the product are functions that other programs call, which go on with the sums.
"""

from __future__ import annotations

from typing import Any

from vkcompute.blocks import language as tl
from vkcompute.blocks.launching.program import block_program

LONGEST = 32768  # terms of a part; lavapipe runs at most 65,535 iterations


@block_program
def tile_of_result(n_columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Returns the rows and columns of the block that the program computes, and the first column that it stores.

    Rows may be beyond the last one. The last blocks of a row overlap, and one of them stores.
    """
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    return row + tl.arange(0, ROWS), tl.minimum(column, n_columns - COLUMNS) + tl.arange(0, COLUMNS), column


@block_program
def sum_of_products(a_ptrs, b_ptrs, n_terms, b_row, STEP: tl.constexpr, DTYPE: tl.constexpr):
    """Returns the product of two blocks along their terms, of which the pointers are to the first STEP ones.

    Args:
        n_terms: at most LONGEST.
        b_row: the elements from a term on the right to the next.
    """
    given: Any = DTYPE
    wide = tl.int32 if given.is_int() else tl.float32
    kind = wide if given.primitive_bitwidth == 8 or given.is_bf16() else given  # the sums of tl.dot
    sums = tl.zeros((a_ptrs.shape[0], b_ptrs.shape[1]), kind)
    for term in range(0, tl.minimum(n_terms, LONGEST), STEP):
        sums = tl.dot(tl.load(a_ptrs + term), tl.load(b_ptrs + term * b_row), sums, out_dtype=kind)
    return sums.to(DTYPE)


@block_program
def store_tile(out_ptr, values, matrix, rows, columns, column, n_rows, n_columns):
    """Stores a block of a matrix in a stack, from a column on."""
    mask = (rows[:, None] < n_rows) & ((columns >= column) & (columns < n_columns))[None, :]
    tl.store(out_ptr + (matrix * n_rows + rows)[:, None] * n_columns + columns[None, :], values, mask=mask)


@block_program
def product(
    a_ptr, b_ptr, out_ptr, n_rows, n_columns, n_terms, b_row, a_stack, b_stack, terms, n_parts,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Stores a block of a product of matrices, or of a part of its sums.

    Args:
        n_terms: the elements of a row on the left.
        b_row: those of a row on the right, at least COLUMNS.
        a_stack, b_stack: the elements from a matrix to the next.
        terms: of a part; this and the four above are multiples of four.
        ALIGNED: True if n_columns is one, too.
    """
    n_terms, b_row, terms = tl.multiple_of(n_terms, 4), tl.multiple_of(b_row, 4), tl.multiple_of(terms, 4)
    a_stack, b_stack = tl.multiple_of(a_stack, 4), tl.multiple_of(b_stack, 4)
    n_columns = tl.multiple_of(n_columns, 4 if ALIGNED else 1)
    rows, columns, column = tile_of_result(b_row, ROWS, COLUMNS)
    stacked = tl.program_id(2)
    matrix, first = stacked // n_parts, stacked % n_parts * terms
    inner, inside = tl.arange(0, STEP), tl.minimum(rows, n_rows - 1)
    a_ptrs = a_ptr + matrix * a_stack + first + inside[:, None] * n_terms + inner[None, :]
    b_ptrs = b_ptr + matrix * b_stack + first * b_row + inner[:, None] * b_row + columns[None, :]
    sums = sum_of_products(a_ptrs, b_ptrs, tl.minimum(terms, n_terms - first), b_row, STEP, out_ptr.dtype.element_ty)
    store_tile(out_ptr, sums, stacked, rows, columns, column, n_rows, n_columns)


@block_program
def transpose(x_ptr, out_ptr, n_rows, n_columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Copies a block of a matrix, whose lengths are multiples of four, to the transposed matrix."""
    n_rows, n_columns = tl.multiple_of(n_rows, 4), tl.multiple_of(n_columns, 4)
    row, column, matrix = tl.program_id(1) * ROWS, tl.program_id(0) * COLUMNS, tl.program_id(2)
    rows = tl.minimum(row, n_rows - ROWS) + tl.arange(0, ROWS)  # the last blocks overlap, and one of them stores
    columns = tl.minimum(column, n_columns - COLUMNS) + tl.arange(0, COLUMNS)
    block = tl.load(x_ptr + (matrix * n_rows + rows)[:, None] * n_columns + columns[None, :])
    is_own = (columns[:, None] >= column) & (rows[None, :] >= row)
    tl.store(out_ptr + (matrix * n_columns + columns)[:, None] * n_rows + rows[None, :], block.T, mask=is_own)
