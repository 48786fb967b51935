"""Gradients of convolutions, by PyTorch's names in `torch.nn.grad`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.arrays.expressions.promotion import floating
from vkcompute.arrays.expressions.ufunc import assign
from vkcompute.arrays.functions.operands import accept_host_data
from vkcompute.arrays.functions.products import converted, matmul, require_arrays
from vkcompute.nn.convolution import Pair, conv2d, overlap, pair
from vkcompute.nn.linear import widened
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array


def conv2d_input(
    input_size: Sequence[int], weight: Array, grad_output: Array, stride: Pair = 1, padding: Pair = 0,
    dilation: Pair = 1, groups: int = 1,
) -> Array:  # fmt: skip
    """Returns the gradient of `conv2d` by its input: the transposed convolution of the result's gradient.

    Args:
        input_size: the shape of the input.
        weight, stride, padding, dilation, groups: as of `conv2d`.
        grad_output: of the shape of its result.
    """
    require_arrays("conv2d_input", weight, grad_output)
    steps, pads, dilations = _geometry(stride, padding, dilation)
    n, channels, *lengths = input_size
    reaches = [by * (k - 1) for by, k in zip(dilations, weight.shape[2:], strict=True)]
    spread_lengths = [length + reach for length, reach in zip(lengths, reaches, strict=True)]
    spread = temporary(grad_output.runtime, (n, len(weight), *spread_lengths), grad_output.dtype)
    spread.fill(grad_output.dtype.type(0))
    axes = zip(reaches, pads, steps, spread_lengths, grad_output.shape[2:], strict=True)
    rows, columns = [overlap(reach - pad, step, count, length) for reach, pad, step, length, count in axes]
    target = spread[:, :, rows[1], columns[1]]
    if target.size:
        assign(target, grad_output[:, :, rows[0], columns[0]])
    return conv2d(spread, _transposed(weight, channels, groups), None, 1, 0, dilations, groups)


def _geometry(stride: Pair, padding: Pair, dilation: Pair) -> tuple[tuple[int, int], ...]:
    given = ("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)
    return tuple(pair("conv2d", name, value, least) for name, value, least in given)


def _transposed(weight: Array, channels: int, groups: int) -> Array:
    """Returns filters in reverse order, from the channels of the result to those of the input."""
    n_filters, per_group, *sizes = weight.shape
    grouped = weight[:, :, ::-1, ::-1].copy().reshape((groups, n_filters // groups, per_group, *sizes))
    return grouped.transpose((0, 2, 1, 3, 4)).copy().reshape((channels, n_filters // groups, *sizes))


def conv2d_weight(
    input: Array, weight_size: Sequence[int], grad_output: Array, stride: Pair = 1, padding: Pair = 0,
    dilation: Pair = 1, groups: int = 1,
) -> Array:  # fmt: skip
    """Returns the gradient of `conv2d` by its weight: a product with the windows of the input, a copy per tap.

    Args:
        input, stride, padding, dilation, groups: as of `conv2d`.
        weight_size: the shape of the weight.
        grad_output: of the shape of its result.
    """
    dtype = floating(require_arrays("conv2d_weight", input, grad_output))
    geometry = _geometry(stride, padding, dilation)
    n_filters, per_group, n_rows, n_columns = weight_size
    windows = _windows(widened(input, dtype), geometry, (n_rows, n_columns), grad_output.shape[2:], groups)
    g = widened(grad_output, dtype).transpose((1, 0, 2, 3)).copy().reshape((groups, n_filters // groups, -1))
    sums = matmul(g, windows.swapaxes(-1, -2)).reshape((n_filters, n_rows, n_columns, per_group))
    return converted(sums.transpose((0, 3, 1, 2)).copy(), dtype)


def _windows(x: Array, geometry: Any, sizes: tuple[int, int], lengths: Sequence[int], groups: int) -> Array:
    """Returns the elements under each tap, of shape (groups, taps * channels of a group, n * positions)."""
    steps, pads, dilations = geometry
    n, channels, *given = x.shape
    x = x.transpose((1, 0, 2, 3)).reshape((groups, channels // groups, n, *given))
    shape = groups, sizes[0], sizes[1], channels // groups, n, *lengths
    windows = temporary(x.runtime, shape, x.dtype).fill(x.dtype.type(0))
    for row in range(sizes[0]):
        rows = overlap(row * dilations[0] - pads[0], steps[0], lengths[0], given[0])
        for column in range(sizes[1]):
            columns = overlap(column * dilations[1] - pads[1], steps[1], lengths[1], given[1])
            target = windows[:, row, column, :, :, rows[0], columns[0]]
            if target.size:
                assign(target, x[:, :, :, rows[1], columns[1]])
    return windows.reshape((groups, sizes[0] * sizes[1] * (channels // groups), -1))


accept_host_data(globals())
