"""Convolutions of signals, images and volumes, transposed ones, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from vkcompute import nn
from vkcompute.nn import grad
from vkcompute.torch.element_types import is_computed
from vkcompute.torch.fallback import fall_back
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import operand
from vkcompute.torch.storage import wrap

Numbers = Sequence[int]


class _Geometry(NamedTuple):
    """Steps, padding and dilation per axis, and the number of groups."""

    steps: Numbers
    pads: Numbers
    dilations: Numbers
    groups: int

    @property
    def of_images(self) -> tuple[Any, Any, Any, int]:
        """Steps, padding and dilation of the last two axes, and the number of groups."""
        pairs = [(values[-2:][0], values[-1]) for values in (self.steps, self.pads, self.dilations)]
        return pairs[0], pairs[1], pairs[2], self.groups

    @property
    def of_slices(self) -> _Geometry:
        """The geometry of the last two axes."""
        return _Geometry(*self.of_images)

    def taps(self, n: int, count: int) -> list[slice]:
        """Returns, per tap of the first axis, the elements of a padded line under it.

        Args:
            n: the number of taps.
            count: of results.
        """
        step, by = self.steps[0], self.dilations[0]
        return [slice(tap * by, tap * by + (count - 1) * step + 1, step) for tap in range(n)]


def _images(x: Any) -> Any:
    """Returns the slices of volumes along their first axis as images."""
    return x.transpose(1, 2).flatten(0, 1)


def _volumes(images: Any, n: int) -> Any:
    """Returns images, which follow each other per volume, as `n` volumes."""
    return images.unflatten(0, (n, -1)).transpose(1, 2)


def _convolved(x: Any, w: Any, by: _Geometry) -> Any:
    """Returns the convolution of images or volumes."""
    if x.dim() == 4:
        return wrap(nn.conv2d(operand(x), operand(w), None, *by.of_images))
    pad, n_taps = by.pads[0], w.shape[2]
    count = (x.shape[2] + 2 * pad - by.dilations[0] * (n_taps - 1) - 1) // by.steps[0] + 1
    x, total = torch.nn.functional.pad(x, (0, 0, 0, 0, pad, pad)), None
    for tap, key in enumerate(by.taps(n_taps, count)):
        part = _convolved(_images(x[:, :, key]), w[:, :, tap], by.of_slices)
        total = part if total is None else total + part
    return _volumes(total, len(x)).contiguous()


def _by_input(size: Numbers, w: Any, g: Any, by: _Geometry) -> Any:
    """Returns the gradient by an input of a size: the transposed convolution of the gradient of the result."""
    if g.dim() == 4:
        return wrap(grad.conv2d_input(tuple(size), operand(w), operand(g), *by.of_images))
    pad = by.pads[0]
    total = torch.zeros((*size[:2], size[2] + 2 * pad, *size[3:]), dtype=g.dtype, device=DEVICE_NAME)
    for tap, key in enumerate(by.taps(w.shape[2], g.shape[2])):
        part = _by_input((size[0] * g.shape[2], size[1], *size[3:]), w[:, :, tap], _images(g), by.of_slices)
        total[:, :, key] += _volumes(part, size[0])
    return total[:, :, pad : pad + size[2]].contiguous()


def _by_weight(x: Any, size: Numbers, g: Any, by: _Geometry) -> Any:
    """Returns the gradient by filters of a size."""
    if x.dim() == 4:
        return wrap(grad.conv2d_weight(operand(x), tuple(size), operand(g), *by.of_images))
    pad = by.pads[0]
    x, images = torch.nn.functional.pad(x, (0, 0, 0, 0, pad, pad)), _images(g)
    parts = [
        _by_weight(_images(x[:, :, key]), (*size[:2], *size[3:]), images, by.of_slices)
        for key in by.taps(size[2], g.shape[2])
    ]
    return torch.stack(parts, 2)


def _is_native(input: Any) -> bool:
    """True for images and volumes of floats; others are computed on the host."""
    return bool(input.dim() in (4, 5) and input.is_floating_point() and is_computed(input.dtype) and input.numel())


def _is_rounded_often(input: Any, transposed: bool) -> bool:
    """True for 16-bit floats whose terms several launches add, which are computed in float32."""
    return input.element_size() < 4 and (transposed or input.dim() == 5)


@kernel("convolution_overrideable")
def convolution(
    input: Any, weight: Any, bias: Any, stride: Numbers, padding: Numbers, dilation: Numbers, transposed: bool,
    output_padding: Numbers, groups: int,
) -> Any:  # fmt: skip
    """Returns the convolution of images or volumes with filters."""
    numbers = stride, padding, dilation, transposed, output_padding, groups
    if not _is_native(input) or not weight.numel():
        return fall_back(torch.ops.aten.convolution.default, input, weight, bias, *numbers).contiguous()
    if _is_rounded_often(input, transposed):
        wide = None if bias is None else bias.float()
        return convolution(input.float(), weight.float(), wide, *numbers).to(input.dtype)
    by = _Geometry(stride, padding, dilation, groups)
    if not transposed:
        if input.dim() == 4:
            biases = None if bias is None else operand(bias)
            return wrap(nn.conv2d(operand(input), operand(weight), biases, *by.of_images))
        result = _convolved(input, weight, by)
    else:
        axes = zip(input.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding, strict=True)
        lengths = [(n - 1) * step - 2 * pad + reach * (k - 1) + extra + 1 for n, k, step, pad, reach, extra in axes]
        result = _by_input((len(input), weight.shape[1] * groups, *lengths), weight, input, by)
    return result if bias is None else result + bias.reshape(-1, *[1] * (input.dim() - 2))


@kernel("convolution_backward_overrideable")
def convolution_backward(
    grad_output: Any, input: Any, weight: Any, stride: Numbers, padding: Numbers, dilation: Numbers, transposed: bool,
    output_padding: Numbers, groups: int, output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    """Returns the gradients of a convolution by its input, weight and bias; None where the mask is False."""
    numbers = stride, padding, dilation, transposed, output_padding, groups
    if not _is_native(input) or not grad_output.numel():
        backward = torch.ops.aten.convolution_backward.default
        return fall_back(backward, grad_output, input, weight, None, *numbers, output_mask)
    if _is_rounded_often(input, False):
        results = convolution_backward(grad_output.float(), input.float(), weight.float(), *numbers, output_mask)
        return tuple(None if x is None else x.to(input.dtype) for x in results)
    by = _Geometry(stride, padding, dilation, groups)
    by_input = by_weight = by_bias = None
    if output_mask[0]:
        by_input = _convolved(grad_output, weight, by) if transposed else _by_input(
            input.shape, weight, grad_output, by)  # fmt: skip
        by_input = by_input[tuple(slice(0, n) for n in input.shape)]
    if output_mask[1]:
        one, other = (grad_output, input) if transposed else (input, grad_output)
        by_weight = _by_weight(one, weight.shape, other, by)
    if output_mask[2]:
        by_bias = torch.sum(grad_output, (0, *range(2, grad_output.dim())))
    return by_input, by_weight, by_bias
