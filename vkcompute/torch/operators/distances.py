"""Distances between rows, and their gradients."""

from __future__ import annotations

import math
from typing import Any

import torch

from vkcompute.torch.kernels import DEVICE_NAME, kernel


def _norms(differences: Any, p: float) -> Any:
    return torch.linalg.vector_norm(differences, p, -1)


def _slopes(differences: Any, distances: Any, p: float) -> Any:
    """Returns the derivatives of norms of differences by these; 0 where a norm or a difference is 0."""
    distances = distances.unsqueeze(-1)
    if p == 0:
        return torch.zeros_like(differences)
    if p == 1:
        return torch.sign(differences)
    if p == math.inf:
        return torch.sign(differences) * (differences.abs() == distances)
    shares = differences / distances
    slopes = shares if p == 2 else torch.sign(differences) * shares.abs() ** (p - 1)
    return torch.where((distances == 0) | (differences == 0), 0.0, slopes)  # with p < 1, they are infinite there


@kernel("_cdist_forward")
def cdist(x1: Any, x2: Any, p: float, compute_mode: int | None) -> Any:
    """Returns the distances between each row of one matrix and each of another."""
    shape = (*torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2]), x1.shape[-2], x2.shape[-2])
    if not math.prod(shape) or not x1.shape[-1]:
        return torch.zeros(shape, dtype=x1.dtype, device=DEVICE_NAME)
    return _norms(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


@kernel("_cdist_backward")
def cdist_backward(grad: Any, x1: Any, x2: Any, p: float, cdist: Any) -> Any:
    """Returns the gradient of distances by the first matrix."""
    if not grad.numel() or not x1.numel():
        return torch.zeros_like(x1)
    slopes = _slopes(x1.unsqueeze(-2) - x2.unsqueeze(-3), cdist, p)
    return (grad.unsqueeze(-1) * slopes).sum(-2)


@kernel("_pdist_forward")
def pdist(self: Any, p: float = 2) -> Any:
    """Returns the distances between all pairs of rows."""
    n = self.shape[0]
    if n < 2 or not self.shape[1]:
        return torch.zeros(n * (n - 1) // 2, dtype=self.dtype, device=DEVICE_NAME)
    one, other = torch.triu_indices(n, n, 1).to(DEVICE_NAME)
    return _norms(self[one] - self[other], p)


@kernel("_pdist_backward")
def pdist_backward(grad: Any, self: Any, p: float, pdist: Any) -> Any:
    """Returns the gradient of distances between all pairs of rows."""
    n = self.shape[0]
    total = torch.zeros_like(self)
    if n < 2 or not self.shape[1]:
        return total
    one, other = torch.triu_indices(n, n, 1).to(DEVICE_NAME)
    share = grad.unsqueeze(-1) * _slopes(self[one] - self[other], pdist, p)
    return total.index_add(0, one, share).index_add(0, other, share, alpha=-1)
