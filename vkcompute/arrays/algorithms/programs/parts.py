"""Reductions, scans, moments and sorts of parts of lines."""

from __future__ import annotations

from vkcompute.blocks import language as tl
from vkcompute.blocks.launching.program import block_program


@block_program
def add(a, b):
    """Returns the sum."""
    return a + b


@block_program
def multiply(a, b):
    """Returns the product."""
    return a * b


@block_program
def item_of_program():
    """Returns the number of the program's part among those of all lines; the programs of a grid go on along y."""
    return tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)


@block_program
def reduce_parts(
    x_ptr, out_ptr, n_items, n, n_parts, COMBINE: tl.constexpr, IDENTITY: tl.constexpr, LENGTH: tl.constexpr,
    ALIGNED: tl.constexpr,
):  # fmt: skip
    """Combines the elements of a part of a line."""
    n = tl.multiple_of(n, 4 if ALIGNED else 1)
    item = item_of_program()
    row = item // n_parts
    columns = (item - row * n_parts) * LENGTH + tl.arange(0, LENGTH)
    mask = (columns < n) & (item < n_items)
    x = tl.load(x_ptr + row * n + columns, mask=mask, other=IDENTITY)
    tl.store(out_ptr + item, tl.reduce(x.to(out_ptr.dtype.element_ty), 0, COMBINE), mask=item < n_items)


@block_program
def scan_parts(
    x_ptr, before_ptr, out_ptr, n_items, n, n_parts, n_before, COMBINE: tl.constexpr, IDENTITY: tl.constexpr,
    LENGTH: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Scans a part of a line, beginning with the result of the parts before it.

    Lines of the results have `n_before` elements more, before their first.
    """
    n = tl.multiple_of(n, 4 if ALIGNED else 1)
    item = item_of_program()
    row = item // n_parts
    part = item - row * n_parts
    columns = part * LENGTH + tl.arange(0, LENGTH)
    mask = (columns < n) & (item < n_items)
    x = tl.load(x_ptr + row * n + columns, mask=mask, other=IDENTITY)
    own = tl.associative_scan(x.to(before_ptr.dtype.element_ty), 0, COMBINE)
    before = tl.load(before_ptr + item - 1, mask=(part > 0) & (item < n_items))
    results = tl.where(part > 0, COMBINE(before, own), own)
    out_ptrs = out_ptr + row * n + (row + 1) * n_before + columns
    tl.store(out_ptrs, results.to(out_ptr.dtype.element_ty), mask=mask)


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


@block_program
def sort(keys_ptr, order_ptr, sorted_ptr, n_rows, n, ROWS: tl.constexpr, LENGTH: tl.constexpr, ALIGNED: tl.constexpr):
    """Stores the order of parts of rows, of LENGTH keys each, and perhaps the sorted keys.

    Args:
        ALIGNED: True if four divides the length of the rows.
    """
    n = tl.multiple_of(n, 4 if ALIGNED else 1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * LENGTH + tl.arange(0, LENGTH)
    offsets = rows[:, None] * n + columns[None, :]
    mask = (rows[:, None] < n_rows) & (columns[None, :] < n)
    keys = tl.load(keys_ptr + offsets, mask=mask, other=-1)  # the greatest key
    keys, order = tl.sort((keys, offsets))
    tl.store(order_ptr + offsets, order, mask=mask)
    if sorted_ptr is not None:
        tl.store(sorted_ptr + offsets, keys, mask=mask)
