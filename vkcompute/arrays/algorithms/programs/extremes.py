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
def extreme_of(x_ptr, n, dtype, EXTREME: tl.constexpr, LANES: tl.constexpr, LOADS: tl.constexpr):
    """Returns the extreme of some elements, which are compared in a dtype.

    An invocation combines its four adjacent elements first: calls that load texels on lavapipe save all registers. The
    first elements count twice, so that no branch surrounds the loop: in one, lavapipe masks each result.

    Args:
        LOADS: blocks in an iteration.
    """
    lanes, size = tl.arange(0, LANES)[:, None] * 4 + tl.arange(0, 4)[None, :], LANES * 4
    best = tl.reduce(tl.load(x_ptr + tl.minimum(lanes, n - 1)).to(dtype), 1, EXTREME)
    whole = n // (size * LOADS) * (size * LOADS)
    for k in range(0, whole, size * LOADS):
        for block in tl.static_range(LOADS):
            elements = tl.load(x_ptr + lanes + (k + block * size)).to(dtype)
            best = EXTREME(best, tl.reduce(elements, 1, EXTREME))
    for k in range(whole, n, size):
        elements = tl.load(x_ptr + tl.minimum(lanes + k, n - 1)).to(dtype)
        best = EXTREME(best, tl.reduce(elements, 1, EXTREME))
    return tl.reduce(best, 0, EXTREME)


@block_program
def extreme_of_chunks(
    x_ptr, out_ptr, n, row_step, length, EXTREME: tl.constexpr, LANES: tl.constexpr, LOADS: tl.constexpr,
    ALIGNED: tl.constexpr,
):  # fmt: skip
    """Stores the extreme of a chunk of a line.

    Args:
        length: elements of a chunk, a multiple of four.
        row_step: elements from one line to the next.
        ALIGNED: True if four divides it.
    """
    row_step, length = tl.multiple_of(row_step, 4 if ALIGNED else 1), tl.multiple_of(length, 4)
    row, chunk, dtype = tl.program_id(1), tl.program_id(0), out_ptr.dtype.element_ty
    start, count = x_ptr + row * row_step + chunk * length, tl.minimum(n - chunk * length, length)
    tl.store(out_ptr + row * tl.num_programs(0) + chunk, extreme_of(start, count, dtype, EXTREME, LANES, LOADS))


@block_program
def first_equal(x_ptr, n, value, LANES: tl.constexpr):
    """Returns the index of the first element that equals a value or, if this is NaN, is NaN; n if there is none."""
    lanes = tl.arange(0, LANES)[:, None] * 4 + tl.arange(0, 4)[None, :]
    first = tl.full((LANES,), 0, tl.int32) + n
    for k in range(0, n, LANES * 4):
        index = tl.minimum(lanes + k, n - 1)
        x = tl.load(x_ptr + index).to(value.dtype)
        is_equal = (x == value) | ((x != x) & (value != value))
        first = tl.minimum(first, tl.min(tl.where(is_equal, index, n), axis=1))
    return tl.min(first, axis=0)


@block_program
def search_chunks(
    x_ptr, extreme_ptr, out_ptr, n, row_step, n_chunks, length, EXTREME: tl.constexpr, LANES: tl.constexpr
):
    """Stores the index of the first extreme of a line, which is in the first chunk that has it."""
    row = tl.program_id(0)
    extremes = extreme_ptr + row * n_chunks
    value = extreme_of(extremes, n_chunks, extreme_ptr.dtype.element_ty, EXTREME, LANES, 1)
    start = first_equal(extremes, n_chunks, value, LANES) * length
    count = tl.minimum(n - start, length)
    tl.store(out_ptr + row, start + first_equal(x_ptr + row * row_step + start, count, value, LANES))
