"""Attention: fused where no gradient is needed, or where its scores would take too much memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from vkcompute import nn
from vkcompute.torch.element_types import is_computed
from vkcompute.torch.kernels import DEVICE_NAME, composite, is_on_device, kernel
from vkcompute.torch.operands import operand
from vkcompute.torch.storage import wrap

_COMPOSED, _FUSED = 0, 4  # at::sdp::SDPBackend: math, overrideable
_MANY_SCORES = 2**24
"""Scores that a step of training keeps at most for its gradients, which are then those of PyTorch, of any order."""
_composed = composite("scaled_dot_product_attention")


@kernel("scaled_dot_product_attention")
def attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """Returns the attention, fused where `attention_choice` says so: PyTorch asks only devices of C++.

    Subclasses of tensors, such as those that torch.compile traces, have PyTorch's, as do masks that it may refuse.
    """
    tensors = [query, key, value, *([] if attn_mask is None else [attn_mask])]
    are_plain = all(type(x) in (torch.Tensor, torch.nn.Parameter) and is_on_device(x) for x in tensors)
    takes_mask = attn_mask is None or attn_mask.dtype in (torch.bool, query.dtype)
    named: dict[str, Any] = {"scale": scale, "enable_gqa": enable_gqa}
    if (
        not (are_plain and takes_mask)
        or attention_choice(query, key, value, attn_mask, dropout_p, is_causal, **named) == _COMPOSED
    ):
        return _composed(query, key, value, attn_mask, dropout_p, is_causal, **named)
    fused = torch.ops.aten._scaled_dot_product_fused_attention_overrideable.default
    return fused(query, key, value, attn_mask, 0.0, is_causal, scale=scale)[0]


@kernel("_fused_sdp_choice")
def attention_choice(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> int:  # fmt: skip
    """Returns the number of the attention: the fused one, or that of products and softmax."""
    tensors = query, key, value
    fits = all(tensor.dim() == 4 and tensor.numel() and tensor.dtype == query.dtype for tensor in tensors)
    is_plain = not (dropout_p or enable_gqa or (is_causal and attn_mask is not None))
    same_heads = query.shape[:-2] == key.shape[:-2] == value.shape[:-2]
    is_allowed = torch._C._get_overrideable_sdp_enabled()  # by torch.nn.attention.sdpa_kernel
    if not (is_allowed and fits and is_plain and same_heads and query.is_floating_point() and is_computed(query.dtype)):
        return _COMPOSED
    masked = attn_mask is not None and attn_mask.requires_grad
    if torch.is_grad_enabled() and (masked or any(tensor.requires_grad for tensor in tensors)):
        n_scores = query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2]
        return _COMPOSED if masked or n_scores < _MANY_SCORES else _FUSED
    return _FUSED


@kernel("_scaled_dot_product_fused_attention_overrideable")
def fused_attention(
    query: Any, key: Any, value: Any, attn_bias: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    return_debug_mask: bool = False, *, scale: float | None = None,
) -> Any:  # fmt: skip
    """Returns the attention; what else CUDA's kernels keep for gradients is empty."""
    bias = None if attn_bias is None else operand(attn_bias)
    q, k, v = (operand(tensor) for tensor in (query, key, value))
    result = wrap(nn.scaled_dot_product_attention(q, k, v, bias, 0.0, is_causal, scale=scale), query.dtype)
    empty = [torch.empty(0, device=DEVICE_NAME) for _ in range(6)]
    return result, *empty[:3], query.shape[2], key.shape[2], *empty[3:]


@kernel("_scaled_dot_product_fused_attention_overrideable_backward")
def fused_attention_backward(
    grad_out: Any, query: Any, key: Any, value: Any, attn_bias: Any, grad_input_mask: Sequence[bool], out: Any,
    logsumexp: Any, cum_seq_q: Any, cum_seq_k: Any, max_q: int, max_k: int, dropout_p: float, is_causal: bool,
    philox_seed: Any, philox_offset: Any, *, scale: float | None = None,
) -> Any:  # fmt: skip
    """Returns the gradients of attention by query, key, value and bias, from scores that are computed again."""
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query @ key.transpose(-2, -1)) * factor
    if attn_bias is not None:
        is_kept = attn_bias.dtype == torch.bool
        scores = scores.masked_fill(~attn_bias, -float("inf")) if is_kept else scores + attn_bias
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=DEVICE_NAME).triu(1)
        scores = scores.masked_fill(later, -float("inf"))
    shares = torch.ops.aten._safe_softmax(scores, -1)
    by_shares = grad_out @ value.transpose(-2, -1)
    by_scores = shares * (by_shares - (grad_out * out).sum(-1, keepdim=True))
    by_bias = by_scores.sum_to_size(attn_bias.shape) if grad_input_mask[3] else None
    return (by_scores @ key) * factor, (by_scores.transpose(-2, -1) @ query) * factor, shares.transpose(
        -2, -1) @ grad_out, by_bias  # fmt: skip
