"""Products with a bias and an activation: of matrices, and of filters and shifted windows of images."""

from __future__ import annotations

from vkcompute.arrays.algorithms.programs.matrices import LONGEST, store_tile, sum_of_products, tile_of_result
from vkcompute.blocks import language as tl
from vkcompute.blocks.language.elementwise import replayed
from vkcompute.blocks.launching.program import block_program


@block_program
def convolution(
    filters_ptr, windows_ptr, out_ptr, bias_ptr, n_rows, n_columns, n_terms, n_filters, period, row, stack, jump,
    ACTIVATION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Stores a block of the activation of filters @ windows + bias.

    Args:
        n_filters: matrices of filters, which repeat for the images.
        period, row, stack, jump: as of `Taps`; this, n_columns and n_terms are multiples of four.
    """
    n_columns, n_terms, period = tl.multiple_of(n_columns, 4), tl.multiple_of(n_terms, 4), tl.multiple_of(period, 4)
    row, stack, jump = tl.multiple_of(row, 4), tl.multiple_of(stack, 4), tl.multiple_of(jump, 4)
    rows, columns, column = tile_of_result(n_columns, ROWS, COLUMNS)
    image = tl.program_id(2)
    filter, inner, inside = image % n_filters, tl.arange(0, STEP), tl.minimum(rows, n_rows - 1)
    filter_ptrs = filters_ptr + (filter * n_rows + inside)[:, None] * n_terms + inner[None, :]
    window_ptrs = windows_ptr + image * stack + inner[:, None] * row + columns[None, :]
    sums = tl.zeros((ROWS, COLUMNS), out_ptr.dtype.element_ty)
    for term in range(0, tl.minimum(n_terms, LONGEST), STEP):
        tap = term // period
        window = tl.load(window_ptrs + (term - tap * period) * row + tap * jump)
        sums = tl.dot(tl.load(filter_ptrs + term), window, sums, out_dtype=sums.dtype)
    if bias_ptr is not None:
        sums += tl.load(bias_ptr + filter * n_rows + inside)[:, None]
    sums = replayed(ACTIVATION, sums)
    store_tile(out_ptr, sums, image, rows, columns, column, n_rows, n_columns)


@block_program
def linear(
    a_ptr, b_ptr, out_ptr, bias_ptr, n_rows, n_columns, width, n_terms, a_row, b_row, ACTIVATION: tl.constexpr,
    SCALE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr, ALIGNED: tl.constexpr,
    TURNED: tl.constexpr,
):  # fmt: skip
    """Stores a block of the activation of a @ b * SCALE + bias; numbers and constants are those of `product`."""
    n_terms, n_columns = tl.multiple_of(n_terms, 4), tl.multiple_of(n_columns, 4 if ALIGNED else 1)
    width = tl.multiple_of(width, 4 if ALIGNED or not TURNED else 1)
    rows, columns, column = tile_of_result(width, ROWS, COLUMNS)
    inside, dtype = tl.minimum(rows, n_rows - 1), out_ptr.dtype.element_ty
    sums = sum_of_products(a_ptr, b_ptr, inside, columns, n_terms, a_row, b_row, STEP, TURNED, dtype)
    if SCALE != 1:
        sums *= SCALE
    if bias_ptr is not None:
        sums += tl.load(bias_ptr + tl.minimum(columns, n_columns - 1))[None, :]
    sums = replayed(ACTIVATION, sums)
    store_tile(out_ptr, sums, 0, rows, columns, column, n_rows, n_columns)
