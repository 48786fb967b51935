"""Attention by products of matrices and softmax of their rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vkcompute.arrays.expressions.promotion import floating
from vkcompute.arrays.expressions.ufunc import apply, where
from vkcompute.arrays.functions.operands import accept_host_data
from vkcompute.arrays.functions.products import accumulator_dtype, converted, matmul, require_arrays
from vkcompute.arrays.functions.reductions import max as highest
from vkcompute.nn.block_attention import fused_attention
from vkcompute.nn.linear import widened
from vkcompute.nn.normalization import softmax
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of


def scaled_dot_product_attention(
    query: Array, key: Array, value: Array, attn_mask: Array | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Array:  # fmt: skip
    """Returns softmax(query @ key.T * scale) @ value, over the last axis but one of the key; in float32 for float16.

    Args:
        query: of shape (…, n, size); other axes broadcast.
        key, value: of shapes (…, m, size) and (…, m, size of the result).
        attn_mask: bools that are True where an element takes part, or numbers that are added to the scaled products;
            broadcasts to (…, n, m). The result is 0 for a query without keys, as PyTorch's.
        dropout_p: 0; there is no dropout.
        is_causal: True if query i sees the keys up to i only.
        scale: 1 / sqrt(size) if None.
        enable_gqa: True for grouped-query attention. Heads are the third axis from the last. The query has a multiple
            of the heads of key and value, which repeat for adjacent heads of the query.

    Raises:
        ValueError: the shapes or numbers of heads do not fit, or both a mask and `is_causal` are given.
        TypeError: `is_causal` or `enable_gqa` is not a bool.
    """
    for name, flag in (("is_causal", is_causal), ("enable_gqa", enable_gqa)):
        if not isinstance(flag, (bool, np.bool_)):
            raise TypeError(f"scaled_dot_product_attention: {name} is True or False; got {flag!r}")
    if dropout_p != 0:
        raise ValueError(f"scaled_dot_product_attention has no dropout: dropout_p is 0; got {dropout_p!r}")
    dtype = floating(require_arrays("scaled_dot_product_attention", query, key, value))
    if (
        min(query.ndim, key.ndim, value.ndim) < 2
        or query.shape[-1] != key.shape[-1]
        or key.shape[-2] != value.shape[-2]
    ):
        raise ValueError(
            f"scaled_dot_product_attention takes (…, n, size), (…, m, size) and (…, m, any); got {query.shape}, "
            f"{key.shape} and {value.shape}"
        )
    if attn_mask is not None and is_causal:
        raise ValueError("scaled_dot_product_attention takes attn_mask or is_causal, not both; put both into the mask")
    if enable_gqa:
        arrays = _in_groups(query, key, value, attn_mask)
        grouped = scaled_dot_product_attention(*arrays, is_causal=is_causal, scale=scale)
        return grouped.reshape((*grouped.shape[:-4], query.shape[-3], *grouped.shape[-2:]))
    _check_heads(query, key, value, attn_mask)
    size = max(query.shape[-1], 1)  # products of no terms are 0, by any factor
    factor = 1 / math.sqrt(size) if scale is None else float(scale)
    if attn_mask is not None:
        attn_mask = _additive(attn_mask, dtype)
    q, k, v = (converted(operand, dtype) for operand in (query, key, value))
    fused = fused_attention(q, k, v, attn_mask, factor, is_causal=is_causal)
    return _by_products(q, k, v, attn_mask, factor, dtype, is_causal) if fused is None else fused


def _check_heads(query: Array, key: Array, value: Array, mask: Array | None) -> None:
    """Raises ValueError unless the axes before the last two broadcast, and the mask to the scores."""
    arrays = [query, key, value, *([] if mask is None else [mask])]
    n, m = query.shape[-2], key.shape[-2]
    try:
        stack = np.broadcast_shapes(*[array.shape[:-2] for array in arrays])
        fits = mask is None or np.broadcast_shapes(mask.shape, (*stack, n, m)) == (*stack, n, m)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"scaled_dot_product_attention takes heads that broadcast, and a mask that broadcasts to (…, {n}, {m}); "
            f"got {', '.join(str(array.shape) for array in arrays)}; heads share keys with enable_gqa=True"
        )


def _by_products(
    query: Array, key: Array, value: Array, mask: Array | None, factor: float, dtype: np.dtype[Any], is_causal: bool
) -> Array:
    """Returns the attention by products of whole matrices, which store the scores."""
    scores = matmul(apply("multiply", widened(query, dtype), factor), widened(key, dtype).swapaxes(-1, -2))
    if is_causal:
        n, m = scores.shape[-2:]
        rows, columns = (runtime_of(query).array(np.arange(length, dtype=np.int32)) for length in (n, m))
        scores = where(apply("less_equal", columns, rows.reshape((n, 1))), scores, -math.inf)
    elif mask is not None:
        scores = apply("add", scores, mask)
    weights = softmax(scores, -1)
    if mask is not None and weights.size:
        weights = where(apply("equal", highest(scores, axis=-1, keepdims=True), -math.inf), 0.0, weights)
    output = matmul(weights, widened(value, dtype))
    return converted(output, dtype)


def _additive(mask: Array, dtype: np.dtype[Any]) -> Array:
    """Returns a mask as numbers to add to the scores."""
    return where(mask, accumulator_dtype(dtype).type(0), -math.inf) if mask.dtype.kind == "b" else widened(mask, dtype)


def _in_groups(query: Array, key: Array, value: Array, mask: Array | None) -> tuple[Array, Array, Array, Array | None]:
    """Returns arrays whose heads have two axes: those of key and value, and the heads of the query that share one.

    Raises:
        ValueError: the numbers of heads do not fit.
    """
    arrays = [query, key, value, *([] if mask is None or mask.ndim < 3 else [mask])]
    n_heads, n_shared, n_of_values, *of_mask = [array.shape[-3] if array.ndim > 2 else 0 for array in arrays]
    if not n_shared or n_shared != n_of_values or n_heads % n_shared or not {*of_mask} <= {1, n_heads}:
        raise ValueError(
            "enable_gqa=True takes (…, heads, n, size): as many heads of the key as of the value, a multiple of them "
            f"in the query, and 1 or all of these in the mask; got {', '.join(str(array.shape) for array in arrays)}"
        )

    def split(x: Array, *heads: int) -> Array:
        return x.reshape((*x.shape[:-3], *heads, *x.shape[-2:]))

    groups = n_shared, n_heads // n_shared
    if mask is not None and of_mask:
        mask = split(mask, *(groups if of_mask == [n_heads] else (1, 1)))
    return split(query, *groups), split(key, n_shared, 1), split(value, n_shared, 1), mask


accept_host_data(globals())
