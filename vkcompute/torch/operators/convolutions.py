"""Convolutions of images and signals, transposed ones, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from vkcompute import nn
from vkcompute.nn import grad
from vkcompute.runtime.memory.array import Array
from vkcompute.torch.element_types import is_computed
from vkcompute.torch.fallback import fall_back
from vkcompute.torch.kernels import kernel
from vkcompute.torch.operands import operand
from vkcompute.torch.storage import wrap

Pair = tuple[int, int]


def _pair(values: Sequence[int]) -> Pair:
    return values[0], values[-1]


def _is_native(input: Any) -> bool:
    """True for images of floats; others are computed on the host."""
    return bool(input.dim() == 4 and input.is_floating_point() and is_computed(input.dtype) and input.numel())


@kernel("convolution_overrideable")
def convolution(
    input: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    transposed: bool, output_padding: Sequence[int], groups: int,
) -> Any:  # fmt: skip
    """Returns the convolution of images with filters."""
    numbers = stride, padding, dilation, transposed, output_padding, groups
    if not _is_native(input) or not weight.numel():
        return fall_back(torch.ops.aten.convolution.default, input, weight, bias, *numbers).contiguous()
    x, w = operand(input), operand(weight)
    geometry = _pair(stride), _pair(padding), _pair(dilation), groups
    if not transposed:
        return wrap(nn.conv2d(x, w, None if bias is None else operand(bias), *geometry))
    lengths = [
        (n - 1) * step - 2 * pad + by * (k - 1) + extra + 1
        for n, k, step, pad, by, extra in zip(
            x.shape[2:], w.shape[2:], *map(_pair, (stride, padding, dilation, output_padding)), strict=True
        )
    ]
    size = (len(x), w.shape[1] * groups, *lengths)
    result = wrap(grad.conv2d_input(size, w, x, *geometry))
    return result if bias is None else result + bias.reshape(-1, 1, 1)


@kernel("convolution_backward_overrideable")
def convolution_backward(
    grad_output: Any, input: Any, weight: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    transposed: bool, output_padding: Sequence[int], groups: int, output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    """Returns the gradients of a convolution by its input, weight and bias; None where the mask is False."""
    numbers = stride, padding, dilation, transposed, output_padding, groups
    if not _is_native(input) or not grad_output.numel():
        backward = torch.ops.aten.convolution_backward.default
        return fall_back(backward, grad_output, input, weight, None, *numbers, output_mask)
    g, x, w = operand(grad_output), operand(input), operand(weight)
    geometry = _pair(stride), _pair(padding), _pair(dilation), groups
    by_input = by_weight = by_bias = None
    if output_mask[0]:
        by_input = wrap(nn.conv2d(g, w, None, *geometry) if transposed else _by_input(x, w, g, geometry))
    if output_mask[1]:
        one, other = (g, x) if transposed else (x, g)
        by_weight = wrap(grad.conv2d_weight(one, w.shape, other, *geometry))
    if output_mask[2]:
        by_bias = torch.sum(grad_output, (0, 2, 3))
    return by_input, by_weight, by_bias


def _by_input(x: Array, w: Array, g: Array, geometry: Any) -> Array:
    return grad.conv2d_input(x.shape, w, g, *geometry)
