"""Normalization over axes and over batches, and its gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch._prims_common import suggest_memory_format

from vkcompute import nn
from vkcompute.arrays.expressions.ufunc import apply
from vkcompute.arrays.functions import reductions
from vkcompute.runtime.memory.array import Array
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import elementwise, operand, require_floats
from vkcompute.torch.storage import convert, store, wrap

_FLOAT32 = np.dtype("float32")


def _wide(tensor: Any) -> Array:
    """Returns the elements in the dtype in which they are added."""
    array: Array = operand(tensor)
    return convert(array, _FLOAT32) if array.dtype.itemsize < 4 else array


def _saved(tensor: Any) -> Any:
    """Returns the dtype of the means and deviations that gradients need."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _mean(array: Array, axes: tuple[int, ...], n: int) -> Array:
    return apply("divide", reductions.sum(array, axes, keepdims=True), float(n))


def _product(*factors: Any) -> Array:
    result = factors[0]
    for factor in factors[1:]:
        result = apply("multiply", result, factor)
    return result  # type: ignore[no-any-return]


@kernel("native_layer_norm")
def layer_norm(input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    """Returns the normalized elements, the means and the reciprocal deviations, over the last axes."""
    axes = tuple(range(input.dim() - len(normalized_shape), input.dim()))
    if not input.numel():
        kept = [1 if axis in axes else n for axis, n in enumerate(input.shape)]
        return torch.empty_like(input), *(torch.empty(kept, dtype=_saved(input), device=DEVICE_NAME) for _ in range(2))
    x = operand(input)
    affine = [None if given is None else operand(given) for given in (weight, bias)]
    result = nn.layer_norm(x, tuple(normalized_shape), affine[0], affine[1], eps)
    variance, mean = nn.var_mean(_wide(input), axes, 0, True)
    deviation = apply("rsqrt", apply("add", variance, float(eps)))
    return _like(input, result), wrap(mean), wrap(deviation)


@kernel("native_layer_norm_backward")
def layer_norm_backward(
    grad_out: Any, input: Any, normalized_shape: Sequence[int], mean: Any, rstd: Any, weight: Any, bias: Any,
    output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    """Returns the gradients of layer_norm by its input, weight and bias; None where the mask is False."""
    n_outer = input.dim() - len(normalized_shape)
    outer, inner = tuple(range(n_outer)), tuple(range(n_outer, input.dim()))
    g, r = _wide(grad_out), _wide(rstd)
    normalized = _product(apply("subtract", _wide(input), _wide(mean)), r)
    by_input = by_weight = by_bias = None
    if output_mask[0]:
        n = math.prod(normalized_shape)
        scaled = g if weight is None else _product(g, _wide(weight))
        centre, slope = _mean(scaled, inner, n), _mean(_product(scaled, normalized), inner, n)
        rest = apply("subtract", apply("subtract", scaled, centre), _product(normalized, slope))
        by_input = _like(input, _product(rest, r))
    if output_mask[1]:
        by_weight = _like(weight, reductions.sum(_product(g, normalized), outer))
    if output_mask[2]:
        by_bias = _like(bias, reductions.sum(g, outer))
    return by_input, by_weight, by_bias


@kernel("_fused_rms_norm")
def rms_norm(input: Any, normalized_shape: Sequence[int], weight: Any, eps: float | None) -> Any:
    """Returns elements divided by the root of the mean of their squares, and the reciprocals of these roots."""
    require_floats("rms_norm", input)
    axes = tuple(range(input.dim() - len(normalized_shape), input.dim()))
    if not input.numel():
        kept = [1 if axis in axes else n for axis, n in enumerate(input.shape)]
        return torch.empty_like(input), torch.full(kept, math.nan, dtype=_saved(input), device=DEVICE_NAME)
    eps = torch.finfo(_saved(input)).eps if eps is None else float(eps)
    scale = None if weight is None else operand(weight)
    result = nn.rms_norm(operand(input), tuple(normalized_shape), scale, eps)
    x = _wide(input)
    squares = _mean(_product(x, x), axes, math.prod(normalized_shape))
    return _like(input, result), wrap(apply("rsqrt", apply("add", squares, eps)))


@kernel("_fused_rms_norm_backward")
def rms_norm_backward(
    grad_out: Any, input: Any, normalized_shape: Sequence[int], rstd: Any, weight: Any, output_mask: Sequence[bool]
) -> Any:
    """Returns the gradients of rms_norm by its input and weight; None where the mask is False."""
    n_outer = input.dim() - len(normalized_shape)
    outer, inner = tuple(range(n_outer)), tuple(range(n_outer, input.dim()))
    g, r = _wide(grad_out), _wide(rstd)
    normalized = _product(_wide(input), r)
    by_input = by_weight = None
    if output_mask[0]:
        scaled = g if weight is None else _product(g, _wide(weight))
        slope = _mean(_product(scaled, normalized), inner, math.prod(normalized_shape))
        by_input = _like(input, _product(apply("subtract", scaled, _product(normalized, slope)), r))
    if output_mask[1] and weight is not None:
        by_weight = _like(weight, reductions.sum(_product(g, normalized), outer))
    return by_input, by_weight


def _like(tensor: Any, array: Array) -> Any:
    """Returns a new tensor of the dtype and the shape of another."""
    return store(torch.empty(tensor.shape, dtype=tensor.dtype, device=DEVICE_NAME), array)


def _over_channels(tensor: Any, n_axes: int) -> Any:
    """Returns an array per channel that broadcasts to images; None for None."""
    return None if tensor is None else _wide(tensor).reshape((1, -1, *(1,) * (n_axes - 2)))


@kernel("native_batch_norm")
def batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> Any:
    """Returns elements normalized per channel, and the means and the reciprocal deviations of a training step."""
    axes, x = (0, *range(2, input.dim())), _wide(input)
    if training:
        variance, mean = nn.var_mean(x, axes, 0, True)
        n = input.numel() // max(input.shape[1], 1)
        _update(running_mean, mean, momentum, 1.0)
        _update(running_var, variance, momentum, n / max(n - 1, 1))
    else:
        mean, variance = (_over_channels(tensor, input.dim()) for tensor in (running_mean, running_var))
    deviation = apply("rsqrt", apply("add", variance, float(eps)))
    scale, shift = (_over_channels(tensor, input.dim()) for tensor in (weight, bias))
    slope = deviation if scale is None else _product(deviation, scale)
    terms = [wrap(array) for array in (mean, slope, shift) if array is not None]
    result = torch.empty_like(input, memory_format=suggest_memory_format(input))
    elementwise(result, _scaled, input, *terms)
    saved = (
        [wrap(array.reshape(-1).copy()) for array in (mean, deviation)]
        if training
        else [torch.empty(0, dtype=_saved(input), device=DEVICE_NAME) for _ in range(2)]
    )
    return result, *saved


def _scaled(x: Any, mean: Array, slope: Array, shift: Array | None = None) -> Array:
    """Returns (x - mean) slope + shift."""
    result = _product(apply("subtract", x, mean), slope)
    return result if shift is None else apply("add", result, shift)


def _update(running: Any, value: Array, momentum: float, factor: float) -> None:
    """Moves a running mean towards a value times a factor."""
    if running is None:
        return
    old = _wide(running)
    new = apply("add", _product(old, 1 - momentum), _product(value.reshape(-1), momentum * factor))
    store(running, new)


@kernel("_native_batch_norm_legit")
def batch_norm_legit(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> Any:
    """Returns what native_batch_norm does."""
    return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


@kernel("_native_batch_norm_legit.no_stats")
def batch_norm_without_stats(input: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> Any:
    """Returns what native_batch_norm does, without running means."""
    return batch_norm(input, weight, bias, None, None, training, momentum, eps)


@kernel("_batch_norm_with_update")
def batch_norm_with_update(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float, eps: float
) -> Any:
    """Returns what native_batch_norm does, and an empty reserve."""
    results = batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return *results, torch.empty(0, dtype=torch.uint8, device=DEVICE_NAME)


@kernel("native_batch_norm_backward")
def batch_norm_backward(
    grad_out: Any, input: Any, weight: Any, running_mean: Any, running_var: Any, save_mean: Any, save_invstd: Any,
    train: bool, eps: float, output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    """Returns the gradients of batch_norm by its input, weight and bias; None where the mask is False."""
    n_axes, axes = input.dim(), (0, *range(2, input.dim()))
    g = _wide(grad_out)
    mean = _over_channels(save_mean if train else running_mean, n_axes)
    if train:
        deviation = _over_channels(save_invstd, n_axes)
    else:
        deviation = apply("rsqrt", apply("add", _over_channels(running_var, n_axes), float(eps)))
    normalized = _product(apply("subtract", _wide(input), mean), deviation)
    total, slope = (reductions.sum(array, axes, keepdims=True) for array in (g, _product(g, normalized)))
    by_input = by_weight = by_bias = None
    channels = torch.empty(input.shape[1], dtype=input.dtype if weight is None else weight.dtype, device=DEVICE_NAME)
    if output_mask[0]:
        n = float(input.numel() // input.shape[1])
        rest = g
        if train:
            less = apply("divide", apply("add", total, _product(normalized, slope)), n)
            rest = apply("subtract", g, less)
        scale = deviation if weight is None else _product(deviation, _over_channels(weight, n_axes))
        by_input = _like(input, _product(rest, scale))
    if output_mask[1]:
        by_weight = _like(channels, slope.reshape(-1))
    if output_mask[2]:
        by_bias = _like(channels, total.reshape(-1))
    return by_input, by_weight, by_bias


@kernel("native_group_norm")
def group_norm(
    input: Any, weight: Any, bias: Any, n: int, channels: int, n_positions: int, group: int, eps: float
) -> Any:
    """Returns elements normalized per group of channels, the means and the reciprocal deviations."""
    x = _wide(input).reshape((n, group, channels // group * n_positions))
    variance, mean = nn.var_mean(x, 2, 0, True)
    deviation = apply("rsqrt", apply("add", variance, float(eps)))
    result = _product(apply("subtract", x, mean), deviation).reshape((n, channels, n_positions))
    scale, shift = (_over_channels(tensor, 3) for tensor in (weight, bias))
    result = result if scale is None else _product(result, scale)
    result = result if shift is None else apply("add", result, shift)
    affine = next((tensor for tensor in (weight, bias) if tensor is not None), input)
    dtype = input.dtype if affine.dtype == input.dtype else _saved(input)  # other than other norms, also as on CUDA
    saved = [wrap(array.reshape((n, group)), dtype) for array in (mean, deviation)]
    result = _like(input, result.reshape(tuple(input.shape)))
    return result.contiguous(memory_format=suggest_memory_format(input)), *saved


@kernel("native_group_norm_backward")
def group_norm_backward(
    grad_out: Any, input: Any, mean: Any, rstd: Any, weight: Any, n: int, channels: int, n_positions: int, group: int,
    output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    """Returns the gradients of group_norm by its input, weight and bias; None where the mask is False."""
    shape = n, group, channels // group * n_positions
    centre, deviation = (_wide(tensor).reshape((n, group, 1)) for tensor in (mean, rstd))
    normalized = _product(apply("subtract", _wide(input).reshape(shape), centre), deviation)
    g = _wide(grad_out).reshape((n, channels, n_positions))
    by_input = by_weight = by_bias = None
    if output_mask[0]:
        scaled = (g if weight is None else _product(g, _over_channels(weight, 3))).reshape(shape)
        n_inner = channels // group * n_positions
        less = apply("add", _mean(scaled, (2,), n_inner),
                     _product(normalized, _mean(_product(scaled, normalized), (2,), n_inner)))  # fmt: skip
        result = _product(apply("subtract", scaled, less), deviation)
        by_input = _like(input, result.reshape(tuple(input.shape)))
    like = torch.empty(channels, dtype=input.dtype if weight is None else weight.dtype, device=DEVICE_NAME)
    if output_mask[1]:
        by_weight = _like(like, reductions.sum(_product(g, normalized.reshape(g.shape)), (0, 2)))
    if output_mask[2]:
        by_bias = _like(like, reductions.sum(g, (0, 2)))
    return by_input, by_weight, by_bias


@kernel("_weight_norm_interface")
def weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    """Returns a weight with the directions of `v` and the lengths `g`, along all axes but `dim`; and those of `v`."""
    norms = torch.linalg.vector_norm(v, dim=_but(v, dim), keepdim=True)
    return v * (g / norms), norms


@kernel("_weight_norm_interface_backward")
def weight_norm_backward(grad_w: Any, saved_v: Any, saved_g: Any, saved_norms: Any, dim: int) -> Any:
    """Returns the gradients of weight_norm: T. Salimans and D. P. Kingma, Weight normalization, 2016, equation 3."""
    along = (grad_w * saved_v).sum(_but(saved_v, dim), keepdim=True) / saved_norms
    return saved_g / saved_norms * (grad_w - along * saved_v / saved_norms), along


def _but(tensor: Any, dim: int) -> list[int]:
    return [axis for axis in range(tensor.dim()) if axis != dim]
