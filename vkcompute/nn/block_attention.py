"""Launches of the block program of attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vkcompute.arrays.algorithms.block_product import multiplies_halves
from vkcompute.arrays.algorithms.matrix_product import MOST_GROUPS
from vkcompute.arrays.functions.manipulation import broadcast_to
from vkcompute.compiled.target import computes_by_words
from vkcompute.nn.programs.attention import attention
from vkcompute.nn.rows import bindable
from vkcompute.runtime.graphs.results import reshaped, temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of
from vkcompute.tile.device import block_target
from vkcompute.tile.launch_arrays import is_too_large, is_wide
from vkcompute.tile.registers import ADJACENT

_MOST_SIZE = 128  # elements of a query, and of a value
_LEAST = 16  # of all lengths of a block: cooperative matrices have as many rows and columns
# The most queries and keys of a block, for up to 64 and 128 elements. AMD's compiler (Mesa 25.0.7) spills nothing, for
# navi21 without cooperative matrices, and for navi31 with them. Cooperative matrices need a quarter of the cycles.
LENGTHS = {64: (64, 16), 128: (32, 16)}
LENGTHS_OF_MATRICES = {64: (64, 64), 128: (64, 32)}


def fused_attention(
    query: Array, key: Array, value: Array, mask: Array | None, scale: float, *, is_causal: bool
) -> Array | None:
    """Returns the attention of arrays of one dtype.

    Returns None where products of whole matrices are faster, and where the program does not take the shapes.

    Args:
        mask: is added to the scores; in the dtype of the scores.
    """
    (n, size), (m, v_size) = query.shape[-2:], value.shape[-2:]
    if mask is not None:
        mask = mask.reshape((*[1] * (2 - mask.ndim), *mask.shape))
    stack = np.broadcast_shapes(*[x.shape[:-2] for x in (query, key, value, mask) if x is not None])
    n_matrices = math.prod(stack)
    if not _is_fast(query, size, v_size) or 0 in (n, m, n_matrices):
        return None
    block = _block(query, value)
    query, _ = _stacked(broadcast_to(query, (*stack, n, size)), stack)
    (key, k_repeats), (value, v_repeats) = _stacked(key, stack), _stacked(value, stack)
    mask_rows, mask_repeats = 1, 1
    if mask is not None:
        mask_rows = 1 if mask.shape[-2] == 1 else n
        mask, mask_repeats = _stacked(broadcast_to(mask, (*mask.shape[:-2], mask_rows, m)), stack)
    groups = -(-n // block["ROWS"]), n_matrices, 1
    sizes = [n_matrices * n * v_size, *[x.size for x in (query, key, value, mask) if x is not None]]
    if max(groups) > MOST_GROUPS or is_too_large(query, sizes) or not all(map(is_wide, (query, key, value))):
        return None
    out = temporary(query.runtime, (n_matrices, n, v_size), query.dtype)
    mask_row = m if mask_rows > 1 else 0
    attention[groups](
        query, key, value, mask, out,
        n, m, size, v_size, k_repeats, v_repeats, mask_repeats, mask_rows * m, mask_row,
        SCALE=scale, CAUSAL=is_causal, **block,
    )  # fmt: skip
    return reshaped(out, (*stack, n, v_size))


def _is_fast(query: Array, size: int, v_size: int) -> bool:
    """True if the program is faster than products: on GPUs, for queries and values that it loads four by four.

    It is not where words compute each element, of which an invocation has dozens: drivers compile it for a minute.
    """
    runtime = runtime_of(query)
    fits = all(0 < length <= _MOST_SIZE and length % ADJACENT == 0 for length in (size, v_size))
    return fits and block_target(runtime).stages and not computes_by_words(runtime, [query.dtype])


def _block(query: Array, value: Array) -> dict[str, Any]:
    """Returns the constants of the program that depend on the lengths."""
    (n, size), (m, v_size) = query.shape[-2:], value.shape[-2:]
    halves = query.dtype == np.float16 and multiplies_halves(query)
    width, v_width = _length(size, _MOST_SIZE), _length(v_size, _MOST_SIZE)
    most = (LENGTHS_OF_MATRICES if halves else LENGTHS)[64 if max(width, v_width) <= 64 else _MOST_SIZE]
    rows, keys = _length(n, most[0]), _length(m, most[1])
    return {
        "HALVES": halves, "ROWS": rows, "KEYS": keys, "SIZE": width, "V_SIZE": v_width,
        "WHOLE_KEYS": m % keys == 0, "WHOLE_SIZE": size == width, "WHOLE_V_SIZE": v_size == v_width,
    }  # fmt: skip


def _length(n: int, most: int) -> int:
    """Returns the length of a block for `n` elements."""
    return min(max(1 << (n - 1).bit_length(), _LEAST), most)


def _stacked(x: Array, stack: Sequence[int]) -> tuple[Array, int]:
    """Returns the matrices of a stack without adjacent repeats, and the number of repeats of each."""
    matrix, kept = x.shape[-2:], len(stack)
    heads = [1] * (len(stack) + 2 - x.ndim) + [*x.shape[:-2]]
    while kept and heads[kept - 1] == 1:
        kept -= 1
    whole = broadcast_to(x.reshape((*heads[:kept], *matrix)), (*stack[:kept], *matrix))
    return bindable(whole.reshape((-1, *matrix))), math.prod(stack[kept:])
