"""Pooling of images, and its gradients: a strided view per tap of the window."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch._prims_common import suggest_memory_format

from vkcompute import nn
from vkcompute.arrays.expressions.call_plan import by_value, planned
from vkcompute.arrays.expressions.ufunc import apply, assign, where
from vkcompute.nn.pooling import window_count
from vkcompute.runtime.memory.array import Array
from vkcompute.torch.element_types import wide
from vkcompute.torch.fallback import fall_back
from vkcompute.torch.kernels import kernel
from vkcompute.torch.operands import operand, require_floats
from vkcompute.torch.operators.decompositions import composed
from vkcompute.torch.storage import convert, runtime, store, wrap

aten = torch.ops.aten
Numbers = Sequence[int]


@by_value
class _Windows(NamedTuple):
    """The windows of images: per axis the lengths of window, step, padding, dilation, image and result."""

    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    lengths: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def padded(self) -> tuple[int, ...]:
        """The lengths of images with padding, so that no window ends outside."""
        return tuple(
            max(pad + length, (count - 1) * step + by * (size - 1) + 1)
            for size, step, pad, by, length, count in zip(*self, strict=True)
        )

    def taps(self) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Yields per tap its index in the window and the elements of padded images under it."""
        for tap in itertools.product(*map(range, self.sizes)):
            yield (
                tap,
                tuple(
                    slice(at * by, at * by + (count - 1) * step + 1, step)
                    for at, by, count, step in zip(tap, self.dilations, self.counts, self.steps, strict=True)
                ),
            )

    def flat(self, indices: Sequence[Any]) -> Any:
        """Returns the flat index in an image of an index per axis: numbers, or arrays, which combine."""
        total: Any = 0
        for axis, index in enumerate(indices):
            later = len(self.lengths) - axis - 1
            shaped = index.reshape(-1, *[1] * later) if isinstance(index, np.ndarray) else index
            total = total + shaped * math.prod(self.lengths[axis + 1 :])
        return total


def _tuple(values: Numbers, n_axes: int) -> tuple[int, ...]:
    return tuple(values) if len(values) == n_axes else (values[0],) * n_axes


def _windows(
    kernel_size: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers, image: Any, counts: Any
) -> _Windows:
    n_axes = len(counts)
    given = kernel_size, stride if len(stride) else kernel_size, padding, dilation
    sizes, steps, pads, dilations = [_tuple(values, n_axes) for values in given]
    return _Windows(sizes, steps, pads, dilations, tuple(image.shape[-n_axes:]), tuple(counts))


def _all_windows(
    n_axes: int, kernel_size: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers, image: Any, ceil_mode: bool
) -> _Windows:
    """Returns the windows of images along their last axes, as many as there are."""
    windows = _windows(kernel_size, stride, padding, dilation, image, (0,) * n_axes)
    counts = [
        window_count(n, size, step, pad, by, ceil_mode=ceil_mode)
        for size, step, pad, by, n, _ in zip(*windows, strict=True)
    ]
    return windows._replace(counts=tuple(counts))


def _padded(x: Array, windows: _Windows, filler: Any) -> Array:
    """Returns images with padding around them."""
    if windows.padded == windows.lengths:
        return x
    padded = runtime().full((*x.shape[: -len(windows.sizes)], *windows.padded), filler, x.dtype)
    assign(padded[_inside(windows)], x)
    return padded


def _inside(windows: _Windows) -> tuple[Any, ...]:
    return (..., *[slice(pad, pad + n) for pad, n in zip(windows.pads, windows.lengths, strict=True)])


def _under(x: Array, key: tuple[slice, ...]) -> Array:
    """Returns the elements of padded images under a tap."""
    index = (..., *key)
    part: Array = x[index]
    return part


def _indices(windows: _Windows, tap: Numbers) -> Array:
    """Returns the flat indices in an image of the elements under a tap."""
    axes = zip(windows.counts, windows.steps, windows.pads, tap, windows.dilations, strict=True)
    positions = [np.arange(count) * step - pad + at * by for count, step, pad, at, by in axes]
    return runtime().array(windows.flat(positions).astype(np.int64))


@kernel("max_pool2d_with_indices.out")
def max_pool2d(
    self: Any, kernel_size: Numbers, stride: Numbers = (), padding: Numbers = (0, 0), dilation: Numbers = (1, 1),
    ceil_mode: bool = False, *, out: Any, indices: Any,
) -> Any:  # fmt: skip
    """Computes the largest element of each window, and its index in the image; NaN if there is one."""
    if not out.numel():
        return out, indices
    best, positions = _largest(operand(self), _all_windows(2, kernel_size, stride, padding, dilation, self, ceil_mode))
    store(out, best)
    store(indices, positions)
    return out, indices


@planned
def _largest(x: Array, windows: _Windows) -> tuple[Array, Array]:
    """Returns the largest element of each window, and its flat index in the image."""
    lowest: Any = -math.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    x = _padded(x, windows, lowest)
    best, offset = None, _first_inside(windows)
    for tap, key in windows.taps():
        values = _under(x, key)
        if best is None:
            best = values
            continue
        is_larger = apply("greater", values, best)
        if x.dtype.kind == "f":
            is_larger = apply("logical_or", is_larger, apply("not_equal", values, values))
        shift = windows.flat([at * by for at, by in zip(tap, windows.dilations, strict=True)])
        best, offset = where(is_larger, values, best), where(is_larger, shift, offset)
    assert best is not None
    return best, apply("add", offset.broadcast_to(best.shape), _indices(windows, (0,) * len(windows.sizes)))


def _first_inside(windows: _Windows) -> Array:
    """Returns the offset, from the first tap of each window, of the first one that is inside of the image."""
    axes = zip(windows.counts, windows.steps, windows.pads, windows.dilations, strict=True)
    positions = [np.maximum(pad - np.arange(count) * step + by - 1, 0) // by * by for count, step, pad, by in axes]
    return runtime().array(windows.flat(positions).astype(np.int64))


@kernel("max_pool3d_with_indices")
def max_pool3d(
    self: Any, kernel_size: Numbers, stride: Numbers = (), padding: Numbers = (0,), dilation: Numbers = (1,),
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """Returns the largest element of each window of volumes, and its index; NaN if there is one."""
    like = torch.empty_like(self, device="meta")
    made = aten.max_pool3d_with_indices.default(like, kernel_size, stride, padding, dilation, ceil_mode)[0]
    if not made.numel():
        return self.new_empty(made.shape), self.new_empty(made.shape, dtype=torch.int64)
    best, positions = _largest(operand(self), _windows(kernel_size, stride, padding, dilation, self, made.shape[-3:]))
    results = wrap(best, self.dtype), wrap(convert(positions, np.dtype("int64")))
    if self.dim() == 5:
        return tuple([result.contiguous(memory_format=suggest_memory_format(self)) for result in results])
    is_last = self.unsqueeze(0).is_contiguous(memory_format=torch.channels_last_3d) and not self.is_contiguous()
    if not is_last:
        return results
    last = torch.channels_last_3d
    return tuple([result.unsqueeze(0).contiguous(memory_format=last).squeeze(0) for result in results])


@kernel("max_pool3d_with_indices_backward")
def max_pool3d_backward(
    grad_output: Any, self: Any, kernel_size: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers,
    ceil_mode: bool, indices: Any,
) -> Any:  # fmt: skip
    """Returns the gradient of max_pool3d: each window's goes to its largest element."""
    return sent_back(grad_output, self, indices, 3)


def sent_back(grad_output: Any, self: Any, indices: Any, n_axes: int) -> Any:
    """Returns the sums of gradients at flat indices in images or volumes."""
    total = torch.zeros_like(self, memory_format=torch.contiguous_format).flatten(-n_axes)
    return total.scatter_add(-1, indices.flatten(-n_axes), grad_output.flatten(-n_axes)).reshape(self.shape)


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
    for tap, key in windows.taps():
        target = _under(total, key)
        part = where(apply("equal", chosen, _indices(windows, tap)), g, 0)
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
    windows = _all_windows(2, kernel_size, stride, padding, (1,), self, ceil_mode)
    size, step, pad = ((numbers[0], numbers[1]) for numbers in (windows.sizes, windows.steps, windows.pads))
    x = operand(self)
    return store(out, nn.avg_pool2d(x, size, step, pad, ceil_mode, count_include_pad, divisor_override))


@kernel("avg_pool3d.out")
def avg_pool3d(
    self: Any, kernel_size: Numbers, stride: Numbers = (), padding: Numbers = (0,), ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None, *, out: Any,
) -> Any:  # fmt: skip
    """Computes the mean of each window of volumes."""
    require_floats("avg_pool3d", self, torch.int64)
    if not out.numel():
        return out
    windows = _all_windows(3, kernel_size, stride, padding, (1,), self, ceil_mode)
    x, total = _padded(operand(self, wide(self.dtype)), windows, 0), None
    for _, key in windows.taps():
        total = _under(x, key) if total is None else apply("add", total, _under(x, key))
    return store(out, apply("divide", total, _divisors(windows, count_include_pad, divisor_override, self)))


def _avg_pool_backward(n_axes: int) -> Any:
    def run(
        grad_output: Any, self: Any, kernel_size: Numbers, stride: Numbers, padding: Numbers, ceil_mode: bool,
        count_include_pad: bool, divisor_override: int | None, *, grad_input: Any,
    ) -> Any:  # fmt: skip
        if not grad_output.numel():
            return grad_input.fill_(0)
        windows = _windows(kernel_size, stride, padding, (1,), self, grad_output.shape[-n_axes:])
        divisors = _divisors(windows, count_include_pad, divisor_override, grad_output)
        shares = apply("divide", operand(grad_output), divisors)
        shares.compute()
        total = runtime().zeros((*self.shape[:-n_axes], *windows.padded), wide(grad_input.dtype))
        for _, key in windows.taps():
            target = _under(total, key)
            assign(target, apply("add", target, shares))
        return store(grad_input, total[_inside(windows)])

    return run


for _n in (2, 3):
    kernel(f"avg_pool{_n}d_backward.grad_input")(_avg_pool_backward(_n))


def _divisors(windows: _Windows, with_padding: bool, given: int | None, like: Any) -> Any:
    """Returns by what the sum of each window is divided."""
    if given is not None:
        return float(given)
    counts = []
    for size, step, pad, _, length, count in zip(*windows, strict=True):
        first = np.arange(count) * step - pad
        low, high = (-pad, length + pad) if with_padding else (0, length)
        counts.append(np.minimum(first + size, high) - np.maximum(first, low))
    sizes = functools.reduce(np.multiply.outer, counts)
    return runtime().array(np.asarray(sizes).astype(wide(like.dtype)))


def _unpooled(name: str) -> Callable[..., Any]:
    compute = composed(name)

    def run(self: Any, indices: Any, output_size: Numbers, *args: Any) -> Any:
        n = math.prod(output_size)
        is_inside = (indices >= 0) & (indices < n)
        beyond = n * indices.numel()  # an index of another image becomes one of none, which the next wait reports
        return compute(self, torch.where(is_inside, indices, beyond), output_size, *args)

    return run


for _name in ("max_unpool2d", "max_unpool3d"):
    kernel(_name)(_unpooled(_name))
