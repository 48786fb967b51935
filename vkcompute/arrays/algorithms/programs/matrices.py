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
def sum_of_products(
    a_ptr, b_ptr, rows, columns, n_terms, a_row, b_row,
    STEP: tl.constexpr, TURNED: tl.constexpr, DTYPE: tl.constexpr,
):  # fmt: skip
    """Returns the sums of the products of rows on the left and columns on the right.

    Args:
        n_terms: at most LONGEST.
        a_row, b_row: the elements from a row to the next, multiples of four.
        TURNED: True if the rows on the right are columns: its matrices are transposed.
    """
    a_row, b_row = tl.multiple_of(a_row, 4), tl.multiple_of(b_row, 4)
    inner = tl.arange(0, STEP)
    a_ptrs = a_ptr + rows[:, None] * a_row + inner[None, :]
    if TURNED:
        b_ptrs = b_ptr + inner[:, None] + columns[None, :] * b_row
    else:
        b_ptrs = b_ptr + inner[:, None] * b_row + columns[None, :]
    given: Any = DTYPE
    wide = tl.int32 if given.is_int() else tl.float32
    kind = wide if given.primitive_bitwidth == 8 or given.is_bf16() else given  # the sums of tl.dot
    sums = tl.zeros((a_ptrs.shape[0], b_ptrs.shape[1]), kind)
    for term in range(0, tl.minimum(n_terms, LONGEST), STEP):
        right = tl.load(b_ptrs + (term if TURNED else term * b_row))
        sums = tl.dot(tl.load(a_ptrs + term), right, sums, out_dtype=kind)
    return sums.to(DTYPE)


@block_program
def store_tile(out_ptr, values, matrix, rows, columns, column, n_rows, n_columns):
    """Stores a block of a matrix in a stack, from a column on."""
    mask = (rows[:, None] < n_rows) & ((columns >= column) & (columns < n_columns))[None, :]
    tl.store(out_ptr + (matrix * n_rows + rows)[:, None] * n_columns + columns[None, :], values, mask=mask)


@block_program
def product(
    a_ptr, b_ptr, out_ptr, n_rows, n_columns, width, n_terms, a_row, b_row, a_stack, b_stack, terms, n_parts,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr, ALIGNED: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    """Stores a block of a product of matrices, or of a part of its sums.

    Args:
        width: the columns of a matrix on the right, at least COLUMNS: those of the result, and perhaps zeros.
        a_row, b_row: as of `sum_of_products`, and so is TURNED.
        a_stack, b_stack: the elements from a matrix to the next.
        terms: of a part; this, n_terms and the four above are multiples of four.
        ALIGNED: True if n_columns is one, too.
    """
    n_terms, terms = tl.multiple_of(n_terms, 4), tl.multiple_of(terms, 4)
    a_stack, b_stack = tl.multiple_of(a_stack, 4), tl.multiple_of(b_stack, 4)
    n_columns = tl.multiple_of(n_columns, 4 if ALIGNED else 1)
    width = tl.multiple_of(width, 4 if ALIGNED or not TURNED else 1)
    rows, columns, column = tile_of_result(width, ROWS, COLUMNS)
    stacked = tl.program_id(2)
    matrix, first = stacked // n_parts, stacked % n_parts * terms
    left = a_ptr + matrix * a_stack + first
    right = b_ptr + matrix * b_stack + (first if TURNED else first * tl.multiple_of(b_row, 4))
    inside, n_added = tl.minimum(rows, n_rows - 1), tl.minimum(terms, n_terms - first)
    sums = sum_of_products(left, right, inside, columns, n_added, a_row, b_row, STEP, TURNED, out_ptr.dtype.element_ty)
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
