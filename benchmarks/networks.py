"""Functions of neural networks on arrays of the device, beside NumPy's and PyTorch's, in wall and in CPU time."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache, partial
from time import perf_counter, process_time
from typing import Any

import numpy as np
from algorithms import OfNumPy, OnDevice
from context import Cases, Context, count_of
from measure import Case, Clock, HostArray, Local

from vkcompute import nn

TITLE = "functions of neural networks"
_CLOCKS: tuple[tuple[str, Clock], ...] = (("", perf_counter), ("_cpu", process_time))


def cases(context: Context) -> Cases:
    """Each function of float32; PyTorch is a contender if it is installed."""
    full = context.sizes.small >= 1 << 20
    rng = np.random.default_rng(0)
    rows, n, images, side, channels = (4096, 1024, 32, 56, 64) if full else (8, 12, 2, 6, 4)
    table, vector = (rng.normal(size=item).astype(np.float32) for item in ((rows, n), n))
    image = rng.normal(size=(images, channels, side, side)).astype(np.float32)
    filters = rng.normal(size=(channels, channels, 3, 3)).astype(np.float32)
    square = table[:n] if full else table
    for given in (
        ("softmax", _softmax, nn.softmax, "softmax", (table,), {"dim": -1}),
        ("layer_norm", _layer_norm, partial(_normal, nn.layer_norm), "layer_norm", (table, vector, vector), {}),
        ("conv2d", _conv2d, nn.conv2d, "conv2d", (image, filters), {"padding": 1}),
        ("linear", _linear, nn.linear, "linear", (square, square, vector[: len(square)]), {}),
    ):
        for suffix, clock in _CLOCKS:
            yield _case(context, given, suffix, clock)


def _case(context: Context, given: Any, suffix: str, clock: Clock) -> Case:
    name, theirs, ours, of_torch, arrays, named = given
    expected = cache(partial(theirs, *arrays))
    programs = [
        Local("numpy", partial(OfNumPy, theirs, arrays), expected, clock=clock),
        Local("vkcompute", partial(OnDevice, context.runtime, partial(ours, **named), arrays), expected,
              tolerance=1e-3, clock=clock),
    ]  # fmt: skip
    if importlib.util.find_spec("torch"):
        make = partial(OfNumPy, partial(_by_torch, of_torch, named), arrays)
        programs.append(Local("pytorch", make, expected, tolerance=1e-3, clock=clock))
    title = f"{name}{', CPU time' if suffix else ''}, {count_of(arrays[0].size)} elements"
    return Case(f"networks.{name}{suffix}", title, "numpy", programs)


def _by_torch(name: str, named: Any, *given: HostArray) -> HostArray:
    import torch  # not at import: it takes seconds

    function: Callable[..., Any] = getattr(torch.nn.functional, name)
    tensors = [torch.from_numpy(arg) for arg in given]
    result: HostArray = (_normal(function, *tensors) if name == "layer_norm" else function(*tensors, **named)).numpy()
    return result


def _normal(function: Callable[..., Any], x: Any, weight: Any, bias: Any) -> Any:
    return function(x, (x.shape[-1],), weight, bias)


def _softmax(x: HostArray) -> HostArray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _layer_norm(x: HostArray, weight: HostArray, bias: HostArray) -> HostArray:
    distances = x - x.mean(-1, keepdims=True)
    scaled = distances / np.sqrt((distances**2).mean(-1, keepdims=True) + np.float32(1e-5))
    result: HostArray = scaled * weight + bias
    return result


def _conv2d(x: HostArray, weight: HostArray) -> HostArray:
    """Multiplies the matrix of the filters with that of all windows."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3)).transpose(0, 1, 4, 5, 2, 3)
    sums = np.matmul(weight.reshape(len(weight), -1), windows.reshape(len(x), weight[0].size, -1))
    return sums.reshape(len(x), len(weight), *x.shape[2:])


def _linear(x: HostArray, weight: HostArray, bias: HostArray) -> HostArray:
    return x @ weight.T + bias
