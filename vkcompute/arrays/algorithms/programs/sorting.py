"""Sorts of parts of rows in registers."""

from __future__ import annotations

from vkcompute.blocks import language as tl
from vkcompute.blocks.launching.program import block_program


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
