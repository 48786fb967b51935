"""Sums, means and largest elements of bags of embeddings, and embeddings whose norm is limited."""

from __future__ import annotations

from typing import Any

import torch

from vkcompute.torch.kernels import DEVICE_NAME, kernel

_SUM, _MEAN, _MAX = 0, 1, 2


def _bags(indices: Any, offsets: Any, include_last_offset: bool) -> tuple[Any, int]:
    """Returns the bag of each index, and the number of bags."""
    n_bags = offsets.numel() - int(include_last_offset)
    at = torch.arange(indices.numel(), device=DEVICE_NAME, dtype=offsets.dtype)
    return torch.searchsorted(offsets[:n_bags].contiguous(), at, right=True) - 1, n_bags


@kernel("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = _SUM, sparse: bool = False,
    per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> Any:  # fmt: skip
    """Returns the bags, the bag of each index, the sizes of the bags, and the index of each largest element."""
    bag, n_bags = _bags(indices, offsets, include_last_offset)
    is_used = indices != padding_idx
    sizes = torch.zeros(n_bags, dtype=torch.int64, device=DEVICE_NAME).index_add(0, bag, is_used.to(torch.int64))
    rows = weight.index_select(0, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    out = torch.zeros((n_bags, weight.shape[1]), dtype=weight.dtype, device=DEVICE_NAME)
    if mode == _MAX:
        return _largest(out, rows, bag, is_used, sizes, indices)
    out = out.index_add(0, bag, rows * is_used.unsqueeze(1))
    if mode == _MEAN:
        out = out / sizes.clamp_min(1).unsqueeze(1)
    return out, bag, sizes, torch.empty(0, dtype=indices.dtype, device=DEVICE_NAME)


def _largest(out: Any, rows: Any, bag: Any, is_used: Any, sizes: Any, indices: Any) -> Any:
    where = bag.unsqueeze(1).expand(rows.shape)
    rows = torch.where(is_used.unsqueeze(1), rows, -float("inf"))
    best = out.scatter_reduce(0, where, rows, "amax", include_self=False)
    best = torch.where(sizes.unsqueeze(1) > 0, best, 0)
    n = indices.numel()
    position = torch.arange(n, device=DEVICE_NAME).unsqueeze(1).expand(rows.shape)
    position = torch.where(rows == best[bag], position, n)
    first = torch.full(best.shape, n, device=DEVICE_NAME).scatter_reduce(0, where, position, "amin")
    chosen = torch.where(first < n, indices[first.clamp_max(max(n - 1, 0))], 0) if n else first * 0
    return best, bag, sizes, chosen.to(indices.dtype)


@kernel("_embedding_bag_backward")
def embedding_bag_backward(
    grad: Any, indices: Any, offsets: Any, offset2bag: Any, bag_size: Any, maximum_indices: Any, num_weights: int,
    scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Any, padding_idx: int = -1,
) -> Any:  # fmt: skip
    """Returns the gradient by the weight, which is dense."""
    return dense_backward(grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode,
                          per_sample_weights, padding_idx)  # fmt: skip


@kernel("_embedding_bag_dense_backward")
def dense_backward(
    grad: Any, indices: Any, offset2bag: Any, bag_size: Any, maximum_indices: Any, num_weights: int,
    scale_grad_by_freq: bool, mode: int, per_sample_weights: Any, padding_idx: int = -1,
) -> Any:  # fmt: skip
    """Returns the gradient by the weight."""
    total = torch.zeros((num_weights, grad.shape[1]), dtype=grad.dtype, device=DEVICE_NAME)
    if mode == _MAX:
        share = torch.where(bag_size.unsqueeze(1) > 0, grad, 0)
        return total.scatter_add(0, maximum_indices.to(torch.int64), share)
    if mode == _MEAN:
        grad = grad / bag_size.clamp_min(1).unsqueeze(1)
    rows = grad[offset2bag] * (indices != padding_idx).unsqueeze(1)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    if scale_grad_by_freq:
        ones = torch.ones(indices.shape, device=DEVICE_NAME)
        counts = torch.zeros(num_weights, device=DEVICE_NAME).index_add(0, indices, ones)
        rows = rows / counts[indices].unsqueeze(1)
    return total.index_add(0, indices, rows)


@kernel("_embedding_bag_per_sample_weights_backward")
def sample_weights_backward(
    grad: Any, weight: Any, indices: Any, offsets: Any, offset2bag: Any, mode: int, padding_idx: int = -1
) -> Any:
    """Returns the gradient by the weights of the samples."""
    return (grad[offset2bag] * weight[indices]).sum(1) * (indices != padding_idx)


@kernel("embedding_renorm_")
def embedding_renorm(self: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """Scales the rows at indices whose norm is above a limit."""
    rows = torch.unique(indices).to(torch.int64)
    chosen = self[rows]
    norms = torch.linalg.vector_norm(chosen, norm_type, 1, keepdim=True)
    scale = torch.where(norms > max_norm, max_norm / (norms + 1e-7), 1.0).to(self.dtype)
    return self.index_copy_(0, rows, chosen * scale)
