"""Attention by one block program: the scores of a block of queries and keys stay in registers.

Each program takes a block of queries through all keys, with the online softmax (Milakov and Gimelshein, 2018) of
FlashAttention (Dao et al., 2022).
"""

from __future__ import annotations

from vkcompute.blocks import language as tl
from vkcompute.blocks.launching.program import block_program
from vkcompute.nn.programs.lines import below, both, larger


@block_program
def attention(
    q_ptr, k_ptr, v_ptr, mask_ptr, out_ptr,
    n_rows, n_keys, size, v_size, k_repeats, v_repeats, mask_repeats, mask_stack, mask_row,
    SCALE: tl.constexpr, CAUSAL: tl.constexpr, HALVES: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr, SIZE: tl.constexpr, V_SIZE: tl.constexpr,
    WHOLE_KEYS: tl.constexpr, WHOLE_SIZE: tl.constexpr, WHOLE_V_SIZE: tl.constexpr,
):  # fmt: skip
    """Computes softmax(q @ k.T * SCALE + mask) @ v, of stacks of matrices.

    The state of a query is its highest score so far, the sum of its weights, and the weighted sum of the values. A
    weight is the exponential of a score less the highest one.

    Args:
        mask_ptr: is added to the scores; None for no mask.
        size, v_size: elements of a query, and of a value; multiples of four.
        k_repeats, v_repeats, mask_repeats: adjacent matrices of queries that share those of keys, values and masks.
        CAUSAL: True if query i sees the keys up to i only.
        HALVES: True to multiply the weights by the values in float16.
        ROWS, KEYS, SIZE, V_SIZE: lengths of a block; powers of two.
        WHOLE_KEYS, WHOLE_SIZE, WHOLE_V_SIZE: True if blocks have nothing beyond the arrays.
    """
    size, v_size = tl.multiple_of(size, 4), tl.multiple_of(v_size, 4)
    stack, first = tl.program_id(1), tl.program_id(0) * ROWS
    of_k, of_v, of_mask = stack // k_repeats, stack // v_repeats, stack // mask_repeats
    rows = first + tl.arange(0, ROWS)
    q = _rows(q_ptr, stack, rows, n_rows, size, SIZE, False, WHOLE_SIZE)
    wide = tl.float64 if q.dtype == tl.float64 else tl.float32
    highest, total = tl.full((ROWS,), -float("inf"), wide), tl.zeros((ROWS,), wide)
    sums = tl.zeros((ROWS, V_SIZE), wide)
    for start in range(0, min(n_keys, first + ROWS) if CAUSAL else n_keys, KEYS):
        keys = start + tl.arange(0, KEYS)
        k = _rows(k_ptr, of_k, keys, n_keys, size, SIZE, WHOLE_KEYS, WHOLE_SIZE)
        scores = tl.dot(q, tl.trans(k), out_dtype=wide) * SCALE
        seen = None if WHOLE_KEYS else (keys < n_keys)[None, :]
        if mask_ptr is not None:
            row = min(rows, n_rows - 1) * mask_row + of_mask * mask_stack
            mask = None if WHOLE_KEYS else tl.broadcast_to(seen, (ROWS, KEYS))
            scores += tl.load(mask_ptr + (row[:, None] + keys[None, :]), mask)
        if CAUSAL:
            seen = both(seen, rows[:, None] >= keys[None, :])
        if seen is not None:
            scores = tl.where(seen, scores, -float("inf"))
        most = max(highest, tl.reduce(scores, 1, larger))
        origin = tl.where(most == -float("inf"), 0.0, most)  # -inf less itself is NaN
        weights, shrink = tl.exp(scores - origin[:, None]), tl.exp(highest - origin)
        highest, total = most, total * shrink + tl.sum(weights, 1)
        v = _rows(v_ptr, of_v, keys, n_keys, v_size, V_SIZE, WHOLE_KEYS, WHOLE_V_SIZE)
        kind = v.dtype if HALVES else wide
        sums = tl.dot(weights.to(kind), v.to(kind), sums * shrink[:, None], out_dtype=wide)
    factor = tl.where(total == 0.0, 0.0, 1 / total)  # one quotient per row, 0 without keys
    offsets, mask = _matrix(stack, rows, n_rows, v_size, V_SIZE, False, WHOLE_V_SIZE)
    tl.store(out_ptr + offsets, sums * factor[:, None], mask)


@block_program
def _rows(
    pointer, matrix, rows, n_rows, size, N: tl.constexpr, WHOLE_ROWS: tl.constexpr, WHOLE_SIZE: tl.constexpr
):  # fmt: skip
    """Returns rows of a matrix, with zeros in place of missing elements."""
    offsets, mask = _matrix(matrix, rows, n_rows, size, N, WHOLE_ROWS, WHOLE_SIZE)
    return tl.load(pointer + offsets, mask)


@block_program
def _matrix(matrix, rows, n_rows, size, N: tl.constexpr, WHOLE_ROWS: tl.constexpr, WHOLE_SIZE: tl.constexpr):
    """Returns the offsets of rows of a matrix, and the mask of its elements; None if it has all."""
    offsets = (rows * size + matrix * (n_rows * size))[:, None] + tl.arange(0, N)[None, :]
    mask = None if WHOLE_ROWS else (rows < n_rows)[:, None]
    if not WHOLE_SIZE:
        mask = both(mask, below(0, size, N, 4)[None, :])
    return offsets, mask if mask is None else tl.broadcast_to(mask, offsets.shape)
