"""Pooling: lazy maxima and sums of shifted views, along one axis after the other."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from vkcompute.arrays.expressions.ufunc import apply, assign
from vkcompute.arrays.functions.operands import accept_host_data
from vkcompute.arrays.functions.products import converted, require_arrays
from vkcompute.errors import DtypeError
from vkcompute.nn.convolution import Pair, pair
from vkcompute.nn.linear import widened
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array


def max_pool2d(
    input: Array, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, dilation: Pair = 1,
    ceil_mode: bool = False,
) -> Array:  # fmt: skip
    """Returns the largest element of each window of images; NaN if there is one.

    Args:
        input: of shape (n, channels, height, width), or without n.
        kernel_size, stride, padding, dilation: for both axes, or two; the stride is the kernel's size if None.
        ceil_mode: True for windows that begin inside and end outside, too.

    Raises:
        TypeError: the elements are complex.
        ValueError: the arguments do not fit the images.
    """
    require_arrays("max_pool2d", input)
    if input.dtype.kind == "c":
        raise DtypeError(f"max_pool2d takes real numbers and bools; got {input.dtype}; pass x.real, x.imag or abs(x)")
    result = input
    lowest: Any = {"f": -math.inf, "b": False}.get(input.dtype.kind)
    lowest = np.iinfo(input.dtype).min if lowest is None else lowest
    for at, window in enumerate(_windows("max_pool2d", input, (kernel_size, stride, padding, dilation), ceil_mode)):
        result = _along(result, at - 2, window, "maximum", lowest)
    return result


def avg_pool2d(
    input: Array, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Array:  # fmt: skip
    """Returns the mean of each window of images; float16 is added in float32.

    Args:
        input, kernel_size, stride, padding, ceil_mode: as of `max_pool2d`.
        count_include_pad: False to leave out the padding of the number of elements.
        divisor_override: by which sums are divided instead.
    """
    require_arrays("avg_pool2d", input)
    if input.dtype.kind != "f":
        raise TypeError(f"avg_pool2d takes floats; got {input.dtype}; convert with .astype(np.float32)")
    if divisor_override is not None and divisor_override == 0:
        raise ValueError("avg_pool2d: divisor_override is not 0")
    windows = _windows("avg_pool2d", input, (kernel_size, stride, padding, 1), ceil_mode)
    result, counts = widened(input, input.dtype), []
    for at, window in enumerate(windows):
        counts.append(_counts(input.shape[at - 2], window, with_padding=count_include_pad))
        result = _along(result, at - 2, window, "add", 0)
    if divisor_override is not None:
        result = apply("divide", result, float(divisor_override))
    else:
        divisor = np.outer(*counts).astype(result.dtype)
        by: Any = divisor.flat[0] if (divisor == divisor.flat[0]).all() else input.runtime.array(divisor)  # type: ignore[attr-defined]
        result = apply("divide", result, by)
    return converted(result, input.dtype)


class Window(tuple[int, int, int, int, int]):
    """The length, step, padding and dilation of windows along an axis, and their number."""

    __slots__ = ()


def _windows(name: str, x: Array, given: tuple[Any, ...], ceil_mode: bool) -> list[Window]:
    """Returns the windows along both axes.

    Raises:
        ValueError: the arguments do not fit the images.
    """
    if x.ndim not in (3, 4) or 0 in x.shape[1:]:
        raise ValueError(f"{name} takes (n, channels, height, width), with elements; got {x.shape}")
    kernel_size, stride, padding, dilation = given
    kernel = pair(name, "kernel_size", kernel_size)
    steps = kernel if stride is None else pair(name, "stride", stride)
    pads, dilations = pair(name, "padding", padding, 0), pair(name, "dilation", dilation)
    windows = []
    for n, k, step, pad, by in zip(x.shape[-2:], kernel, steps, pads, dilations, strict=True):
        if pad > k // 2:
            raise ValueError(f"{name}: the padding is at most half of the kernel's size; got {pad} and {k}")
        count = window_count(n, k, step, pad, by, ceil_mode=ceil_mode)
        if by * (k - 1) + 1 > n + 2 * pad or count < 1:
            raise ValueError(f"{name}: windows of {by * (k - 1) + 1} elements exceed {n} with the padding of {pad}")
        windows.append(Window((k, step, pad, by, count)))
    return windows


def window_count(n: int, length: int, step: int, pad: int, dilation: int, *, ceil_mode: bool) -> int:
    """Returns the number of windows along an axis; with `ceil_mode`, the last one may end outside of the padding."""
    free = n + 2 * pad - dilation * (length - 1) - 1
    count = (-(-free // step) if ceil_mode else free // step) + 1
    return count - 1 if ceil_mode and (count - 1) * step >= n + pad else count


def _along(x: Array, axis: int, window: Window, operation: str, filler: Any) -> Array:
    """Returns the elements of windows along an axis, combined."""
    k, step, pad, by, count = window
    n, needed = x.shape[axis], (count - 1) * step + by * (k - 1) + 1
    if pad or needed > n:
        shape = list(x.shape)
        shape[axis] = max(needed, pad + n)
        padded = temporary(x.runtime, tuple(shape), x.dtype).fill(x.dtype.type(filler))
        assign(_part(padded, axis, slice(pad, pad + n)), x)
        x = padded
    stop = (count - 1) * step + 1
    parts = [_part(x, axis, slice(by * at, by * at + stop, step)) for at in range(k)]
    return reduce(lambda one, other: apply(operation, one, other), parts) if k > 1 else parts[0]


def _part(x: Array, axis: int, given: slice) -> Array:
    key = ..., given, *[slice(None)] * (-axis - 1)
    result: Array = x[key]
    return result


def _counts(n: int, window: Window, *, with_padding: bool) -> Any:
    """Returns the number of elements in each window along an axis."""
    k, step, pad, _, count = window
    first = np.arange(count) * step - pad
    low, high = (-pad, n + pad) if with_padding else (0, n)
    return np.minimum(first + k, high) - np.maximum(first, low)


accept_host_data(globals())
