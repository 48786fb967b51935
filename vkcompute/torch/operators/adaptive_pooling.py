"""Pooling to given sizes: means by a product with the matrix of each axis, and largest elements of gathered windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch._prims_common import suggest_memory_format

from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import require_floats
from vkcompute.torch.operators.pooling import sent_back
from vkcompute.torch.storage import resize_to

Numbers = Sequence[int]


def _bounds(n: int, count: int) -> tuple[Any, Any]:
    """Returns the first elements of the windows of an axis, and those after the last ones."""
    at = np.arange(count)
    return at * n // count, -(-(at + 1) * n // count)


@lru_cache(maxsize=64)
def _matrix(n: int, count: int) -> Any:
    """Returns the matrix (n, count) whose columns take the means of windows."""
    first, last = _bounds(n, count)
    rows = np.arange(n)[:, None]
    return torch.from_numpy(((rows >= first) & (rows < last)) / np.maximum(last - first, 1)).to(torch.float64)


def _wide(x: Any) -> Any:
    """Returns floats of 16 bits as float32, so that they are rounded once."""
    return x.to(torch.float32) if x.dtype.itemsize < 4 else x


def _along(x: Any, axis: int, matrix: Any) -> Any:
    """Returns the products of lines along an axis with a matrix."""
    return (x.movedim(axis, -1) @ matrix.to(DEVICE_NAME, x.dtype)).movedim(-1, axis)


def _means(n_axes: int) -> Callable[..., Any]:
    def run(self: Any, output_size: Numbers) -> Any:
        require_floats(f"adaptive_avg_pool{n_axes}d", self)
        result = _wide(self)
        for axis, count in zip(range(-n_axes, 0), output_size, strict=True):
            if self.shape[axis] != count:
                result = _along(result, axis, _matrix(self.shape[axis], count))
        if result is self:
            return self.clone()
        memory_format = suggest_memory_format(self) if n_axes == 2 else torch.contiguous_format
        return result.to(self.dtype).contiguous(memory_format=memory_format)

    return run


def _means_backward(n_axes: int) -> Callable[..., Any]:
    def run(grad_output: Any, self: Any) -> Any:
        result = _wide(grad_output)
        for axis in range(-n_axes, 0):
            if self.shape[axis] != grad_output.shape[axis]:
                result = _along(result, axis, _matrix(self.shape[axis], grad_output.shape[axis]).t())
        return result.to(self.dtype).contiguous()

    return run


for _n in (2, 3):
    kernel(f"_adaptive_avg_pool{_n}d")(_means(_n))
    kernel(f"_adaptive_avg_pool{_n}d_backward")(_means_backward(_n))


@lru_cache(maxsize=64)
def _windows(lengths: tuple[int, ...], counts: tuple[int, ...]) -> Any:
    """Returns the flat index of each element of each window; windows that are shorter repeat their last element."""
    total: Any = 0
    n_axes = len(lengths)
    for axis, (n, count) in enumerate(zip(lengths, counts, strict=True)):
        first, last = _bounds(n, count)
        indices = np.minimum(first[:, None] + np.arange(max(last - first)), last[:, None] - 1)
        shape = [1] * (2 * n_axes)
        shape[axis], shape[n_axes + axis] = indices.shape
        total = total + indices.reshape(shape) * math.prod(lengths[axis + 1 :])
    return torch.from_numpy(np.ascontiguousarray(total.reshape(*counts, -1)))


def _largest(n_axes: int) -> Callable[..., Any]:
    def run(self: Any, output_size: Numbers, *, out: Any, indices: Any) -> Any:
        require_floats(f"adaptive_max_pool{n_axes}d", self)
        shape = (*self.shape[:-n_axes], *output_size)
        for tensor in (out, indices):
            resize_to(tensor, shape)
        if not out.numel():
            return out, indices
        elements = _windows(tuple(self.shape[-n_axes:]), tuple(output_size)).to(DEVICE_NAME)
        values, best = self.flatten(-n_axes)[..., elements].max(-1)
        chosen = elements.expand(*values.shape, elements.shape[-1]).gather(-1, best.unsqueeze(-1)).squeeze(-1)
        out.copy_(values)
        indices.copy_(chosen)
        return out, indices

    return run


def _largest_backward(n_axes: int) -> Callable[..., Any]:
    def run(grad_output: Any, self: Any, indices: Any, *, grad_input: Any) -> Any:
        return grad_input.copy_(sent_back(grad_output, self, indices, n_axes))

    return run


for _n in (2, 3):
    kernel(f"adaptive_max_pool{_n}d.out")(_largest(_n))
    kernel(f"adaptive_max_pool{_n}d_backward.grad_input")(_largest_backward(_n))
