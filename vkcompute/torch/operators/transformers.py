"""Layers of transformers that PyTorch computes by one operator where no gradient is needed."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812

from vkcompute.torch.errors import NoNestedTensorsError
from vkcompute.torch.kernels import kernel

_OF_SEQUENCES = 1
"""The kind of a mask of shape (batch, positions), which hides positions from all others."""


@kernel("_transformer_encoder_layer_fwd")
def encoder_layer(
    src: Any, embed_dim: int, num_heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any,
    use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Any, norm_bias_1: Any, norm_weight_2: Any,
    norm_bias_2: Any, ffn_weight_1: Any, ffn_bias_1: Any, ffn_weight_2: Any, ffn_bias_2: Any, mask: Any = None,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    """Returns the elements of sequences, of shape (batch, positions, embed_dim), after attention and two products."""

    def attended(x: Any) -> Any:
        heads = _heads((x, x, x), num_heads, qkv_weight, qkv_bias)
        out = F.scaled_dot_product_attention(*heads, attn_mask=_bias(mask, mask_type, x))
        return F.linear(out.transpose(1, 2).flatten(2), proj_weight, proj_bias)

    def forward(x: Any) -> Any:
        activation = F.gelu if use_gelu else F.relu
        return F.linear(activation(F.linear(x, ffn_weight_1, ffn_bias_1)), ffn_weight_2, ffn_bias_2)

    def first(x: Any) -> Any:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: Any) -> Any:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attended(first(src))
        return x + forward(second(x))
    x = first(src + attended(src))
    return second(x + forward(x))


@kernel("_native_multi_head_attention")
def multi_head_attention(
    query: Any, key: Any, value: Any, embed_dim: int, num_head: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any,
    proj_bias: Any, mask: Any = None, need_weights: bool = True, average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    """Returns the attention, and its weights if they are wanted; of shape (batch, positions, embed_dim)."""
    q, k, v = _heads((query, key, value), num_head, qkv_weight, qkv_bias)
    bias, weights = _bias(mask, mask_type, query), None
    if need_weights:
        scores = q @ k.mT * q.shape[-1] ** -0.5
        weights = (scores if bias is None else scores + bias).softmax(-1)
        out = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    return F.linear(out.transpose(1, 2).flatten(2), proj_weight, proj_bias), weights


def _heads(tensors: tuple[Any, Any, Any], n_heads: int, weight: Any, bias: Any) -> list[Any]:
    """Returns queries, keys and values, of shape (batch, heads, positions, length)."""
    weights, biases = weight.chunk(3), bias.chunk(3)
    given = zip(tensors, weights, biases, strict=True)
    return [F.linear(x, w, b).unflatten(-1, (n_heads, -1)).transpose(1, 2) for x, w, b in given]


def _bias(mask: Any, mask_type: int | None, like: Any) -> Any:
    """Returns what a mask adds to the scores: its bools are True for what is hidden."""
    if mask is None:
        return None
    if mask_type == _OF_SEQUENCES:
        mask = mask[:, None, None, :]
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.zeros(mask.shape, dtype=like.dtype, device=mask.device).masked_fill(mask, float("-inf"))


@kernel("_nested_tensor_from_mask_left_aligned")
def is_left_aligned(t: Any, mask: Any) -> bool:
    """Returns True if no sequence of a mask goes on after a position that is False."""
    return bool((mask[:, 1:] <= mask[:, :-1]).all().item())


@kernel("_nested_tensor_from_mask")
def without_padding(t: Any, mask: Any, mask_check: bool = True) -> Any:
    """Raises NoNestedTensorsError: sequences stay padded, and `TransformerEncoder.forward` computes them so."""
    raise NoNestedTensorsError(mask)
