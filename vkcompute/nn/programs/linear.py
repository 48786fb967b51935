"""Products of matrices with a bias and an activation."""

from __future__ import annotations

from vkcompute.arrays.algorithms.programs.products import store_tile, sum_of_products, tile_of_result
from vkcompute.blocks import language as tl
from vkcompute.blocks.language.elementwise import replayed
from vkcompute.blocks.launching.program import block_program


@block_program
def linear(
    a_ptr, b_ptr, out_ptr, bias_ptr, n_rows, n_columns, n_terms, b_row, ACTIVATION: tl.constexpr, SCALE: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Stores a block of the activation of a @ b * SCALE + bias; numbers and constants are those of `product`."""
    n_terms, b_row = tl.multiple_of(n_terms, 4), tl.multiple_of(b_row, 4)
    n_columns = tl.multiple_of(n_columns, 4 if ALIGNED else 1)
    rows, columns, column = tile_of_result(b_row, ROWS, COLUMNS)
    inner, inside = tl.arange(0, STEP), tl.minimum(rows, n_rows - 1)
    a_ptrs = a_ptr + inside[:, None] * n_terms + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * b_row + columns[None, :]
    sums = sum_of_products(a_ptrs, b_ptrs, n_terms, b_row, STEP, out_ptr.dtype.element_ty)
    if SCALE != 1:
        sums *= SCALE
    if bias_ptr is not None:
        sums += tl.load(bias_ptr + tl.minimum(columns, n_columns - 1))[None, :]
    sums = replayed(ACTIVATION, sums)
    store_tile(out_ptr, sums, 0, rows, columns, column, n_rows, n_columns)
