"""Padding by reflection and replication; its gradients and those of windows: sums at the index of each element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import axis_of
from vkcompute.torch.operators.decompositions import composed


def _reflected(n: int, before: int, after: int) -> Any:
    at = np.abs(np.arange(-before, n + after))
    return (n - 1) - np.abs((n - 1) - at)


def _replicated(n: int, before: int, after: int) -> Any:
    return np.clip(np.arange(-before, n + after), 0, n - 1)


def _require_sizes(x: Any, padding: Sequence[int], n_axes: int, *, is_reflected: bool) -> None:
    """Raises RuntimeError where PyTorch does: an axis has no elements, or fewer than are reflected."""
    shape = list(x.shape)
    if len(shape) not in (n_axes + 1, n_axes + 2) or 0 in shape[-n_axes - 1 :]:
        raise RuntimeError(
            f"Expected {n_axes + 1}D or {n_axes + 2}D (batch mode) tensor with possibly 0 batch size and other "
            f"non-zero dimensions for input, but got: {shape}"
        )
    for number in range(n_axes if is_reflected else 0):
        axis, (before, after) = len(shape) - 1 - number, padding[2 * number : 2 * number + 2]
        if max(before, after) >= shape[axis]:
            raise RuntimeError(
                "Padding size should be less than the corresponding input dimension, but got: padding "
                f"({before}, {after}) at dimension {axis} of input {shape}"
            )


def _forward(name: str, n_axes: int) -> Callable[..., Any]:
    compute, is_reflected = composed(name), name.startswith("reflection")

    def run(self: Any, padding: Sequence[int], **named: Any) -> Any:
        _require_sizes(self, padding, n_axes, is_reflected=is_reflected)
        return compute(self, padding, **named)

    return run


def _backward(index_of: Callable[[int, int, int], Any], n_axes: int) -> Callable[..., Any]:
    def run(grad_output: Any, self: Any, padding: Sequence[int]) -> Any:
        result = grad_output
        for number in range(n_axes):
            axis, (before, after) = self.dim() - 1 - number, padding[2 * number : 2 * number + 2]
            index = torch.from_numpy(index_of(self.shape[axis], before, after)).to(DEVICE_NAME)
            shape = list(result.shape)
            shape[axis] = self.shape[axis]
            total = torch.zeros(shape, dtype=grad_output.dtype, device=DEVICE_NAME)
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
        _form = f"{_name}_pad{_n}d{'' if (_name, _n) == ('reflection', 2) else '.out'}"
        kernel(_form)(_forward(_form, _n))
        if _n > 1:
            kernel(f"{_name}_pad{_n}d_backward")(_function)


@kernel("unfold_backward")
def unfold_backward(grad_in: Any, input_sizes: Sequence[int], dim: int, size: int, step: int) -> Any:
    """Returns the sums of the gradients of an element's windows."""
    total = torch.zeros(input_sizes, dtype=grad_in.dtype, device=DEVICE_NAME)
    if not len(input_sizes):
        return total + grad_in.reshape(())
    axis = axis_of(dim, len(input_sizes))
    for at in range(size):
        n = grad_in.shape[axis]
        key = (*[slice(None)] * axis, slice(at, at + (n - 1) * step + 1, step))
        total[key] += grad_in.select(-1, at)
    return total
