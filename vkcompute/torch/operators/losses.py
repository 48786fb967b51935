"""Losses and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from vkcompute.arrays.expressions.call_plan import planned
from vkcompute.arrays.expressions.ufunc import apply, where
from vkcompute.arrays.functions import reductions, standard
from vkcompute.runtime.memory.array import Array
from vkcompute.torch import checks
from vkcompute.torch.element_types import wide
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import elementwise, name_of, operand
from vkcompute.torch.storage import copy_to, runtime, store

_MEAN, _SUM = 1, 2  # at::Reduction


class _Targets:
    """The classes of a negative log likelihood, along axis 1 of (n, classes, …), and the weight of each target.

    Attributes:
        classes: the targets, 0 where they are ignored, with an axis of length 1 for the classes.
        weights: of each target; 0 where it is ignored.
    """

    def __init__(self, x: Array, target: Array, weight: Array | None, ignore_index: int) -> None:
        shape = (target.shape[0], 1, *target.shape[1:]) if target.ndim else (1, 1)
        target = target.reshape(shape)
        is_used = apply("not_equal", target, ignore_index)
        classes = where(is_used, target, 0)
        if target.dtype.kind == "i":  # to arrays, negative indices count from the end
            classes = where(apply("less", classes, 0), np.iinfo(target.dtype).max, classes)
        self.classes = classes
        one: Any = x.dtype.type(1)
        if weight is not None:
            one = standard.take(weight, self.classes.reshape(-1), 0).reshape(shape)
        self.weights = where(is_used, one, x.dtype.type(0))


@planned
def _losses(x: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int) -> tuple[Array, Array]:
    """Returns the losses, their sum or their mean, and the sum of the weights."""
    targets = _Targets(x, target, weight, ignore_index)
    values = apply("negative", standard.take_along_axis(x, targets.classes, 1))
    losses = where(apply("equal", targets.weights, 0), x.dtype.type(0), apply("multiply", values, targets.weights))
    weights = reductions.sum(targets.weights)
    if reduction not in (_MEAN, _SUM):
        return losses, weights
    total = reductions.sum(losses)
    return apply("divide", total, weights) if reduction == _MEAN else total, weights


def _optional(tensor: Any) -> Array | None:
    return None if tensor is None else operand(tensor)


def _with_batch(x: Array) -> Array:
    return x.reshape((1, *x.shape)) if x.ndim == 1 else x


@kernel("nll_loss_forward.output")
def nll_loss(
    self: Any, target: Any, weight: Any, reduction: int, ignore_index: int, *, output: Any, total_weight: Any
) -> Any:
    """Computes the negative log likelihood of targets, and the sum of their weights."""
    if weight is not None and weight.dtype != self.dtype:
        raise RuntimeError(f"expected scalar type {name_of(self.dtype)} but found {name_of(weight.dtype)}")
    x = _with_batch(operand(self, wide(self.dtype)))
    if not x.size:
        total_weight.fill_(0)
        return output.fill_(float("nan") if reduction == _MEAN else 0), total_weight
    values, weights = _losses(x, operand(target), _optional(weight), reduction, ignore_index)
    if reduction not in (_MEAN, _SUM):
        store(output, values.reshape(tuple(target.shape)))
        return output, total_weight.fill_(0)
    return store(output, values), store(total_weight, weights)


@kernel("nll_loss2d_forward")
def nll_loss2d(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    """Returns the negative log likelihood per position of images, and the sum of the weights."""
    shape = () if reduction in (_MEAN, _SUM) else target.shape
    output = torch.empty(shape, dtype=self.dtype, device=DEVICE_NAME)
    total_weight = torch.empty((), dtype=self.dtype, device=DEVICE_NAME)
    return nll_loss(self, target, weight, reduction, ignore_index, output=output, total_weight=total_weight)


@kernel("nll_loss_backward.grad_input")
def nll_loss_backward(
    grad_output: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int, total_weight: Any,
    *, grad_input: Any,
) -> Any:  # fmt: skip
    """Computes the gradient of nll_loss: minus the weight at each target's class, else 0."""
    x = _with_batch(operand(self, wide(self.dtype)))
    if not x.size:
        return grad_input
    targets = _Targets(x, operand(target), _optional(weight), ignore_index)
    g = operand(grad_output)
    if reduction == _MEAN:
        g = apply("divide", g, operand(total_weight))
    elif reduction != _SUM:
        g = g.reshape(targets.weights.shape)
    classes = runtime().array(np.arange(x.shape[1])).reshape((x.shape[1], *(1,) * (x.ndim - 2)))
    share = apply("negative", apply("multiply", g, targets.weights))
    result = where(apply("equal", classes, targets.classes), share, x.dtype.type(0))
    return store(grad_input, result.reshape(tuple(self.shape)))


@kernel("nll_loss2d_backward")
def nll_loss2d_backward(
    grad_output: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int, total_weight: Any
) -> Any:
    """Returns the gradient of nll_loss2d."""
    out = torch.empty(self.shape, dtype=self.dtype, device=DEVICE_NAME)
    return nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight, grad_input=out)


def _reduced(losses: Any, reduction: int) -> Any:
    return losses.mean() if reduction == _MEAN else losses.sum() if reduction == _SUM else losses


@kernel("mse_loss.out")
def mse_loss_into(self: Any, target: Any, reduction: int = _MEAN, *, out: Any) -> Any:
    """Computes squared differences, or their mean or sum."""
    if reduction not in (_MEAN, _SUM):
        return elementwise(out, lambda x, y: apply("square", apply("subtract", x, y)), self, target)
    return copy_to(out, _reduced(torch.square(self - target), reduction))


@kernel("mse_loss_backward.grad_input", "mse_loss_backward")
def mse_loss_backward(grad_output: Any, self: Any, target: Any, reduction: int, *, grad_input: Any = None) -> Any:
    """Computes the gradient of mse_loss."""
    if grad_input is None:
        grad_input = torch.empty(torch.broadcast_shapes(self.shape, target.shape), dtype=self.dtype, device=DEVICE_NAME)
    factor = 2 / max(grad_input.numel(), 1) if reduction == _MEAN else 2.0

    def compute(g: Any, x: Any, y: Any) -> Any:
        return apply("multiply", apply("multiply", apply("subtract", x, y), factor), g)

    return elementwise(grad_input, compute, grad_output, self, target, dtype=grad_input.dtype)


@kernel("binary_cross_entropy")
def binary_cross_entropy(self: Any, target: Any, weight: Any = None, reduction: int = _MEAN) -> Any:
    """Returns -(y * log(x) + (1 - y) * log(1 - x)), with logarithms of at least -100."""
    x = store(torch.empty_like(self), checks.probabilities(operand(self)))
    losses = torch.log1p(-x).clamp_min(-100) * (target - 1) - torch.log(x).clamp_min(-100) * target
    return _reduced(losses if weight is None else losses * weight, reduction)


@kernel("binary_cross_entropy_backward")
def binary_cross_entropy_backward(
    grad_output: Any, self: Any, target: Any, weight: Any = None, reduction: int = _MEAN
) -> Any:
    """Returns the gradient of binary_cross_entropy."""
    result = grad_output * (self - target) / ((1 - self) * self).clamp_min(1e-12)
    result = result if weight is None else result * weight
    return result / self.numel() if reduction == _MEAN else result


@kernel("multilabel_margin_loss_forward")
def multilabel_margin_loss(self: Any, target: Any, reduction: int) -> tuple[Any, Any]:
    """Returns max(0, 1 - x[target] + x[other]) / classes, and 1 at targets; in a row, these end at the first -1.

    PyTorch's decomposition counts what follows the end as targets of class 0.
    """
    x, targets = (value if value.dim() > 1 else value.reshape(1, -1) for value in (self, target))
    n = x.shape[1]
    classes = torch.arange(n, device=x.device)
    end = torch.where(targets == -1, classes, n).amin(1, keepdim=True)
    is_used = classes < end
    indices = torch.where(is_used, targets, 0)
    is_target = ((indices.unsqueeze(2) == classes) & is_used.unsqueeze(2)).any(1)
    losses = (1 - x.gather(1, indices).unsqueeze(2) + x.unsqueeze(1)).clamp_min(0) / n
    losses = torch.where(is_used.unsqueeze(2) & ~is_target.unsqueeze(1), losses, 0).sum((1, 2))
    losses = losses if self.dim() > 1 else losses.reshape(())
    return _reduced(losses, reduction), is_target.to(self.dtype).reshape(target.shape)


@kernel("multilabel_margin_loss_forward.output")
def multilabel_margin_loss_into(self: Any, target: Any, reduction: int, *, output: Any, is_target: Any) -> Any:
    """Computes multilabel_margin_loss_forward."""
    results = multilabel_margin_loss(self, target, reduction)
    for out, result in zip((output, is_target), results, strict=True):
        copy_to(out, result)
    return output, is_target
