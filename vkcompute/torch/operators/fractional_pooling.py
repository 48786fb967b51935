"""Maxima of windows at random places: B. Graham, Fractional max-pooling, 2014."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.storage import copy_to, resize_to


def _elements(n_in: int, n_out: int, length: int, shift: Any) -> Any:
    """Returns the indices of the windows along an axis, (..., windows, length); the last window ends at the border."""
    starts = torch.arange(n_out, device=DEVICE_NAME, dtype=shift.dtype)
    step = (n_in - length) / (n_out - 1) if n_out > 1 else 0.0
    shift = shift.unsqueeze(-1)
    starts = ((starts + shift) * step).to(torch.int64) - (shift * step).to(torch.int64)
    starts = torch.where(torch.arange(n_out, device=DEVICE_NAME) == n_out - 1, n_in - length, starts)
    return starts.unsqueeze(-1) + torch.arange(length, device=DEVICE_NAME)


def _pooled(self: Any, lengths: Sequence[int], output_size: Sequence[int], shifts: Any) -> tuple[Any, Any]:
    """Returns the maxima and their indices in the image."""
    n = len(lengths)
    sizes = self.shape[-n:]
    if any(out + length - 1 > size for out, length, size in zip(output_size, lengths, sizes, strict=True)):
        raise RuntimeError(f"fractional_max_pool{n}d: pool {[*lengths]} and output {[*output_size]} exceed {[*sizes]}")
    images = self.reshape(-1, *self.shape[-n - 1 :])
    at = torch.zeros((*images.shape[:2], *[1] * (2 * n)), dtype=torch.int64, device=DEVICE_NAME)
    for axis in range(n):
        shift = shifts[..., 1 - axis if n == 2 else axis].to(self.dtype)  # of images, that of the last axis is first
        elements = _elements(sizes[axis], output_size[axis], lengths[axis], shift)
        shape = [*images.shape[:2], *[1] * (2 * n)]
        shape[2 + axis], shape[2 + n + axis] = output_size[axis], lengths[axis]
        at = at * sizes[axis] + elements.reshape(shape)
    at = at.reshape(*images.shape[:2], torch.Size(output_size).numel(), at.shape[2 + n :].numel())
    values = images.flatten(2).gather(2, at.flatten(2)).view(at.shape)
    best, which = values.max(-1)
    of_result = (*self.shape[:-n], *output_size)
    return best.reshape(of_result), at.gather(-1, which.unsqueeze(-1)).reshape(of_result)


@kernel("fractional_max_pool2d.output", "fractional_max_pool3d.output")
def fractional_max_pool(
    self: Any, kernel_size: Any, output_size: Any, random_samples: Any, *, output: Any, indices: Any
) -> tuple[Any, Any]:
    """Computes the maxima of windows, and their indices."""
    for out, result in zip((output, indices), _pooled(self, kernel_size, output_size, random_samples), strict=True):
        copy_to(out, result)
    return output, indices


def _gradient(grad: Any, self: Any, indices: Any, n: int) -> Any:
    zeros = torch.zeros((*self.shape[:-n], self.shape[-n:].numel()), dtype=self.dtype, device=DEVICE_NAME)
    return zeros.scatter_add(-1, indices.flatten(-n), grad.flatten(-n)).view(self.shape)


@kernel("fractional_max_pool2d_backward.grad_input")
def gradient_of_images(
    grad_output: Any, self: Any, kernel_size: Any, output_size: Any, indices: Any, *, grad_input: Any
) -> Any:
    """Computes the gradient by images."""
    resize_to(grad_input, self.shape)
    return grad_input.copy_(_gradient(grad_output, self, indices, 2))


@kernel("fractional_max_pool3d_backward")
def gradient_of_volumes(grad_output: Any, self: Any, kernel_size: Any, output_size: Any, indices: Any) -> Any:
    """Returns the gradient by volumes."""
    return _gradient(grad_output, self, indices, 3)
