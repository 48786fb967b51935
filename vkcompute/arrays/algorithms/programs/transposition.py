"""Transposition of matrices: a program reads rows of a block and stores its columns."""

from __future__ import annotations

from vkcompute.blocks import language as tl
from vkcompute.blocks.launching.program import block_program


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
