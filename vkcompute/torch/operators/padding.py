"""Gradients of padding by reflection and replication, and of unfolded windows: sums at the index of each element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from vkcompute.torch.kernels import kernel
from vkcompute.torch.operands import axis_of


def _reflected(n: int, before: int, after: int) -> Any:
    at = np.abs(np.arange(-before, n + after))
    return (n - 1) - np.abs((n - 1) - at)


def _replicated(n: int, before: int, after: int) -> Any:
    return np.clip(np.arange(-before, n + after), 0, n - 1)


def _backward(index_of: Callable[[int, int, int], Any], n_axes: int) -> Callable[..., Any]:
    def run(grad_output: Any, self: Any, padding: Sequence[int]) -> Any:
        result = grad_output
        for number in range(n_axes):
            axis, (before, after) = self.dim() - 1 - number, padding[2 * number : 2 * number + 2]
            index = torch.from_numpy(index_of(self.shape[axis], before, after)).to("vk")
            shape = list(result.shape)
            shape[axis] = self.shape[axis]
            total = torch.zeros(shape, dtype=grad_output.dtype, device="vk")
            result = total.index_add(axis, index, result)
        return result

    return run


def _written(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(grad_output: Any, self: Any, padding: Sequence[int], *, grad_input: Any) -> Any:
        return grad_input.copy_(function(grad_output, self, padding))

    return run


for _name, _index_of in (("reflection", _reflected), ("replication", _replicated)):
    for _n in (1, 2, 3):
        _function = _backward(_index_of, _n)
        kernel(f"{_name}_pad{_n}d_backward.grad_input")(_written(_function))
        if _n > 1:
            kernel(f"{_name}_pad{_n}d_backward")(_function)


@kernel("unfold_backward")
def unfold_backward(grad_in: Any, input_sizes: Sequence[int], dim: int, size: int, step: int) -> Any:
    """Returns the sums of the gradients of an element's windows."""
    total = torch.zeros(input_sizes, dtype=grad_in.dtype, device="vk")
    if not len(input_sizes):
        return total + grad_in.reshape(())
    axis = axis_of(dim, len(input_sizes))
    for at in range(size):
        n = grad_in.shape[axis]
        key = (*[slice(None)] * axis, slice(at, at + (n - 1) * step + 1, step))
        total[key] += grad_in.select(-1, at)
    return total
