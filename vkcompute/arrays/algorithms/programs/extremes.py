"""The index of the first extreme of lines, or of their first NaN, by the extremes of their chunks."""

from __future__ import annotations

from vkcompute.blocks import language as tl
from vkcompute.blocks.launching.program import block_program


@block_program
def smallest(a, b):
    """Returns the smaller number, or NaN."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@block_program
def largest(a, b):
    """Returns the larger number, or NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@block_program
def first_smallest(x, i, y, j):
    """Returns the smaller number with its index, and of equal numbers the one with the smaller index; NaN is least."""
    wins = (x < y) | ((x != x) & (y == y))
    loses = (y < x) | ((y != y) & (x == x))
    is_first = wins | (~loses & (i < j))
    return tl.where(is_first, x, y), tl.where(is_first, i, j)


@block_program
def first_largest(x, i, y, j):
    """Returns the larger number with its index, and of equal numbers the one with the smaller index; NaN is largest."""
    wins = (x > y) | ((x != x) & (y == y))
    loses = (y > x) | ((y != y) & (x == x))
    is_first = wins | (~loses & (i < j))
    return tl.where(is_first, x, y), tl.where(is_first, i, j)


@block_program
def extreme_of_chunks(
    x_ptr, out_ptr, n, row_step, EXTREME: tl.constexpr, LENGTH: tl.constexpr, BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr, ALIGNED: tl.constexpr,
):  # fmt: skip
    """Stores the extreme of a chunk of LENGTH elements of a line.

    The first block counts twice, so that no branch surrounds the loop: in one, lavapipe masks each result.

    Args:
        BLOCKS: combined before the extremes of earlier ones are read: lavapipe copies those in each iteration.
        row_step: elements from one line to the next.
        ALIGNED: True if four divides it.
    """
    row_step = tl.multiple_of(row_step, 4 if ALIGNED else 1)
    row, chunk, lanes, dtype = tl.program_id(1), tl.program_id(0), tl.arange(0, BLOCK), out_ptr.dtype.element_ty
    start = x_ptr + row * row_step + chunk * LENGTH
    count = tl.minimum(n - chunk * LENGTH, LENGTH)
    best = tl.load(start + tl.minimum(lanes, count - 1)).to(dtype)
    whole = count // (BLOCK * BLOCKS) * (BLOCK * BLOCKS)
    for k in range(0, whole, BLOCK * BLOCKS):
        several = tl.load(start + lanes + k).to(dtype)
        for block in tl.static_range(1, BLOCKS):
            several = EXTREME(several, tl.load(start + lanes + (k + block * BLOCK)).to(dtype))
        best = EXTREME(best, several)
    for k in range(whole, count, BLOCK):
        best = EXTREME(best, tl.load(start + tl.minimum(lanes + k, count - 1)).to(dtype))
    tl.store(out_ptr + row * tl.num_programs(0) + chunk, tl.reduce(best, 0, EXTREME))


@block_program
def first_of(x_ptr, n, dtype, FIRST: tl.constexpr, BLOCK: tl.constexpr):
    """Returns the index of the first extreme of some elements, which are compared in a dtype."""
    lanes = tl.arange(0, BLOCK)
    best_index = tl.minimum(lanes, n - 1)
    best = tl.load(x_ptr + best_index).to(dtype)
    for k in range(BLOCK, n, BLOCK):
        index = tl.minimum(lanes + k, n - 1)
        best, best_index = FIRST(best, best_index, tl.load(x_ptr + index).to(dtype), index)
    _, best_index = tl.reduce((best, best_index), 0, FIRST)
    return best_index


@block_program
def search_chunks(
    x_ptr, extreme_ptr, out_ptr, n, row_step, n_chunks, FIRST: tl.constexpr, LENGTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Stores the index of the first extreme of a line, which is in the first chunk that has it."""
    row, dtype = tl.program_id(0), extreme_ptr.dtype.element_ty
    first = first_of(extreme_ptr + row * n_chunks, n_chunks, dtype, FIRST, BLOCK) * LENGTH
    count = tl.minimum(n - first, LENGTH)
    tl.store(out_ptr + row, first + first_of(x_ptr + row * row_step + first, count, dtype, FIRST, BLOCK))
