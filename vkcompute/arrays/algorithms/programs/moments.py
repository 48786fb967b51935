"""Moments of parts of lines: their mean, and the squared distances from it, by one read."""

from __future__ import annotations

from vkcompute.blocks import language as tl
from vkcompute.blocks.launching.program import block_program


@block_program
def moments_of_parts(
    x_ptr, out_ptr, n_rows, n, n_parts, ROWS: tl.constexpr, LENGTH: tl.constexpr, WHOLE: tl.constexpr,
    ALIGNED: tl.constexpr,
):  # fmt: skip
    """Stores four numbers for each part of each line.

    They are the number of elements, an approximate mean, the mean distance from it, and the sum of squared distances
    from the mean. The mean has the precision of a sum of two numbers, since those of several parts are subtracted.

    Args:
        ROWS, LENGTH: of a block, which has a part of several lines; powers of two.
        WHOLE: True if LENGTH divides that of the lines.
        ALIGNED: True if 4 does.
    """
    n = tl.multiple_of(n, 4 if ALIGNED else 1)
    part, dtype = tl.program_id(0), out_ptr.dtype.element_ty
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = part * LENGTH + tl.arange(0, LENGTH)
    is_row = rows < n_rows
    mask = None if WHOLE and ROWS == 1 else is_row[:, None] & (columns[None, :] < n)
    x = tl.load(x_ptr + rows[:, None] * n + columns[None, :], mask=mask).to(dtype)
    count = tl.minimum(n - part * LENGTH, LENGTH).to(dtype)
    centre = tl.sum(x, axis=1) / count
    distance = x - centre[:, None]
    if mask is not None:
        distance = tl.where(mask, distance, 0.0)
    rest = tl.sum(distance, axis=1) / count
    excess = rest * rest * count
    all_squares = tl.sum(distance * distance, axis=1)
    squares = all_squares - excess
    squares = tl.where(squares < 0, 0.0, squares)  # by rounding
    squares = tl.where(excess < float("inf"), squares, all_squares)
    out_ptrs = out_ptr + (rows * n_parts + part) * 4
    tl.store(out_ptrs, count, mask=is_row)
    tl.store(out_ptrs + 1, centre, mask=is_row)
    tl.store(out_ptrs + 2, rest, mask=is_row)
    tl.store(out_ptrs + 3, squares, mask=is_row)
