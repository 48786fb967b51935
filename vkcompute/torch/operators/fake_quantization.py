"""Rounding to the steps of a quantized tensor, as training for quantization has it."""

from __future__ import annotations

from typing import Any

import torch

from vkcompute.torch.kernels import kernel
from vkcompute.torch.operands import axis_of


def _quantized(self: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> tuple[Any, Any]:
    """Returns elements rounded to steps, and True where these are within the limits; in float32 at least."""
    x = self if self.dtype.itemsize > 2 else self.to(torch.float32)
    step = torch.round(x * (1 / scale)) + zero_point
    is_inside = (step >= quant_min) & (step <= quant_max)
    return ((step.clamp(quant_min, quant_max) - zero_point) * scale).to(self.dtype), is_inside


@kernel("fake_quantize_per_tensor_affine_cachemask")
def per_tensor(self: Any, scale: float, zero_point: int, quant_min: int, quant_max: int) -> tuple[Any, Any]:
    """Returns elements rounded to multiples of a scale, and True where no limit cuts them off."""
    return _quantized(self, float(torch.tensor(scale, dtype=torch.float32)), zero_point, quant_min, quant_max)


@kernel("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def per_tensor_of_tensors(
    self: Any, scale: Any, zero_point: Any, fake_quant_enabled: Any, quant_min: int, quant_max: int
) -> tuple[Any, Any]:
    """Returns what `per_tensor` does, by tensors of one element; the elements as they are where it is disabled."""
    rounded, is_inside = _quantized(self, scale, zero_point, quant_min, quant_max)
    is_enabled = fake_quant_enabled != 0
    return torch.where(is_enabled, rounded, self), is_inside | ~is_enabled


@kernel("fake_quantize_per_channel_affine_cachemask")
def per_channel(self: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int) -> tuple[Any, Any]:
    """Returns elements rounded to multiples of a scale per slice of an axis, and True where no limit cuts them off."""
    at_axis = axis_of(axis, self.dim())
    shape = [-1 if at == at_axis else 1 for at in range(self.dim())]
    return _quantized(self, scale.view(shape), zero_point.view(shape), quant_min, quant_max)
