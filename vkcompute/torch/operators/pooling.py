"""Pooling of images, and its gradients: a strided view per tap of the window."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from vkcompute import nn
from vkcompute.arrays.expressions.ufunc import apply, assign, where
from vkcompute.runtime.memory.array import Array
from vkcompute.torch.element_types import wide
from vkcompute.torch.fallback import fall_back
from vkcompute.torch.kernels import kernel
from vkcompute.torch.operands import operand
from vkcompute.torch.storage import runtime, store

aten = torch.ops.aten
Numbers = Sequence[int]


class _Windows(NamedTuple):
    """The windows of images: per axis the lengths of window, step, padding, dilation, image and result."""

    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    lengths: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def padded(self) -> tuple[int, int]:
        """The lengths of images with padding, so that no window ends outside."""
        rows, columns = [
            max(pad + length, (count - 1) * step + by * (size - 1) + 1)
            for size, step, pad, by, length, count in zip(*self, strict=True)
        ]
        return rows, columns

    def taps(self) -> Iterator[tuple[int, int, tuple[slice, slice]]]:
        """Yields per tap its row, its column and the elements of padded images under it."""
        for row in range(self.sizes[0]):
            for column in range(self.sizes[1]):
                starts = row * self.dilations[0], column * self.dilations[1]
                keys = [
                    slice(start, start + (count - 1) * step + 1, step)
                    for start, count, step in zip(starts, self.counts, self.steps, strict=True)
                ]
                yield row, column, (keys[0], keys[1])


def _pair(values: Numbers) -> tuple[int, int]:
    return values[0], values[-1]


def _windows(
    kernel_size: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers, image: Any, counts: Any
) -> _Windows:
    sizes = _pair(kernel_size)
    steps = _pair(stride) if len(stride) else sizes
    return _Windows(sizes, steps, _pair(padding), _pair(dilation), tuple(image.shape[-2:]), tuple(counts))


def _padded(x: Array, windows: _Windows, filler: Any) -> Array:
    """Returns images with padding around them."""
    if windows.padded == windows.lengths:
        return x
    padded = runtime().full((*x.shape[:-2], *windows.padded), filler, x.dtype)
    assign(padded[_inside(windows)], x)
    return padded


def _inside(windows: _Windows) -> tuple[Any, ...]:
    return (..., *[slice(pad, pad + n) for pad, n in zip(windows.pads, windows.lengths, strict=True)])


def _under(x: Array, key: tuple[slice, slice]) -> Array:
    """Returns the elements of padded images under a tap."""
    index = (..., *key)
    part: Array = x[index]
    return part


def _indices(windows: _Windows, row: int, column: int) -> Array:
    """Returns the indices in an image's plane of the elements under a tap."""
    rows, columns = [
        np.arange(count) * step - pad + at * by
        for count, step, pad, at, by in zip(
            windows.counts, windows.steps, windows.pads, (row, column), windows.dilations, strict=True
        )
    ]
    return runtime().array((rows[:, None] * windows.lengths[1] + columns).astype(np.int64))


@kernel("max_pool2d_with_indices.out")
def max_pool2d(
    self: Any, kernel_size: Numbers, stride: Numbers = (), padding: Numbers = (0, 0), dilation: Numbers = (1, 1),
    ceil_mode: bool = False, *, out: Any, indices: Any,
) -> Any:  # fmt: skip
    """Computes the largest element of each window, and its index in the image; NaN if there is one."""
    if not out.numel():
        return out, indices
    windows = _windows(kernel_size, stride, padding, dilation, self, out.shape[-2:])
    x = operand(self)
    lowest: Any = -math.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    x = _padded(x, windows, lowest)
    best, offset = None, _first_inside(windows)
    for row, column, key in windows.taps():
        values = _under(x, key)
        if best is None:
            best = values
            continue
        is_larger = apply("greater", values, best)
        if x.dtype.kind == "f":
            is_larger = apply("logical_or", is_larger, apply("not_equal", values, values))
        shift = row * windows.dilations[0] * windows.lengths[1] + column * windows.dilations[1]
        best, offset = where(is_larger, values, best), where(is_larger, shift, offset)
    assert best is not None
    store(out, best)
    store(indices, apply("add", offset.broadcast_to(best.shape), _indices(windows, 0, 0)))
    return out, indices


def _first_inside(windows: _Windows) -> Array:
    """Returns the offset, from the first tap of each window, of the first one that is inside of the image."""
    rows, columns = [
        np.maximum(pad - np.arange(count) * step + by - 1, 0) // by * by
        for count, step, pad, by in zip(windows.counts, windows.steps, windows.pads, windows.dilations, strict=True)
    ]
    return runtime().array((rows[:, None] * windows.lengths[1] + columns).astype(np.int64))


@kernel("max_pool2d_with_indices_backward.grad_input")
def max_pool2d_backward(
    grad_output: Any, self: Any, kernel_size: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers,
    ceil_mode: bool, indices: Any, *, grad_input: Any,
) -> Any:  # fmt: skip
    """Computes the gradient of max_pool2d: each window's goes to its largest element."""
    windows = _windows(kernel_size, stride, padding, dilation, self, grad_output.shape[-2:])
    if not grad_output.numel():
        return grad_input.fill_(0)
    g, chosen = operand(grad_output), operand(indices)
    chosen.compute()
    total = runtime().zeros((*self.shape[:-2], *windows.padded), wide(grad_output.dtype))
    for row, column, key in windows.taps():
        target = _under(total, key)
        part = where(apply("equal", chosen, _indices(windows, row, column)), g, 0)
        assign(target, apply("add", target, part))
    return store(grad_input, total[_inside(windows)])


@kernel("avg_pool2d.out")
def avg_pool2d(
    self: Any, kernel_size: Numbers, stride: Numbers = (), padding: Numbers = (0, 0), ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None, *, out: Any,
) -> Any:  # fmt: skip
    """Computes the mean of each window."""
    if not out.numel():
        return out
    if not self.dtype.is_floating_point:
        numbers = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        return fall_back(aten.avg_pool2d.out, self, *numbers, out=out)
    steps = _pair(stride) if len(stride) else None
    x = operand(self)
    result = nn.avg_pool2d(x, _pair(kernel_size), steps, _pair(padding), ceil_mode, count_include_pad, divisor_override)
    return store(out, result)


@kernel("avg_pool2d_backward.grad_input")
def avg_pool2d_backward(
    grad_output: Any, self: Any, kernel_size: Numbers, stride: Numbers, padding: Numbers, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None, *, grad_input: Any,
) -> Any:  # fmt: skip
    """Computes the gradient of avg_pool2d: each element has its share of its windows'."""
    if not grad_output.numel():
        return grad_input.fill_(0)
    windows = _windows(kernel_size, stride, padding, (1, 1), self, grad_output.shape[-2:])
    shares = apply("divide", operand(grad_output), _divisors(windows, count_include_pad, divisor_override, grad_output))
    shares.compute()
    total = runtime().zeros((*self.shape[:-2], *windows.padded), wide(grad_input.dtype))
    for _, _, key in windows.taps():
        target = _under(total, key)
        assign(target, apply("add", target, shares))
    return store(grad_input, total[_inside(windows)])


def _divisors(windows: _Windows, with_padding: bool, given: int | None, like: Any) -> Any:
    """Returns by what the sum of each window is divided."""
    if given is not None:
        return float(given)
    counts = []
    for size, step, pad, _, length, count in zip(*windows, strict=True):
        first = np.arange(count) * step - pad
        low, high = (-pad, length + pad) if with_padding else (0, length)
        counts.append(np.minimum(first + size, high) - np.maximum(first, low))
    return runtime().array(np.outer(*counts).astype(wide(like.dtype)))


def _is_even(self: Any, output_size: Numbers) -> bool:
    return all(count and n % count == 0 for n, count in zip(self.shape[-2:], output_size, strict=True))


@kernel("_adaptive_avg_pool2d")
def adaptive_avg_pool2d(self: Any, output_size: Numbers) -> Any:
    """Returns the means of windows that divide an image; on the host where they overlap."""
    if not _is_even(self, output_size):
        return fall_back(aten._adaptive_avg_pool2d.default, self, output_size)
    sizes = [n // count for n, count in zip(self.shape[-2:], output_size, strict=True)]
    return torch.nn.functional.avg_pool2d(self, sizes)


@kernel("_adaptive_avg_pool2d_backward")
def adaptive_avg_pool2d_backward(grad_output: Any, self: Any) -> Any:
    """Returns the gradient of adaptive_avg_pool2d."""
    counts = grad_output.shape[-2:]
    if not _is_even(self, counts):
        return fall_back(aten._adaptive_avg_pool2d_backward.default, grad_output, self)
    rows, columns = [n // count for n, count in zip(self.shape[-2:], counts, strict=True)]
    shares = (grad_output / (rows * columns)).unsqueeze(-1).unsqueeze(-3)
    lead = grad_output.shape[:-2]
    return shares.expand(*lead, counts[0], rows, counts[1], columns).reshape(self.shape)
