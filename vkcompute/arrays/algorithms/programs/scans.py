"""Reductions and scans of parts of lines."""

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
