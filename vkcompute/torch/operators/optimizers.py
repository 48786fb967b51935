"""The fused forms of optimizers: the steps of each parameter, by operators of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from vkcompute.torch.kernels import kernel

Tensors = Sequence[Any]


def _gradient(grad: Any, parameter: Any, maximize: bool, grad_scale: Any, decay: float) -> Any:
    """Returns the gradient of a step; one that was scaled is written back, as PyTorch does."""
    if grad_scale is not None:
        grad.div_(grad_scale)
    grad = -grad if maximize else grad
    return grad + decay * parameter if decay else grad


def _adam(
    self: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, max_exp_avg_sqs: Tensors,
    state_steps: Tensors, *, lr: Any, beta1: float, beta2: float, weight_decay: float, eps: float, amsgrad: bool,
    maximize: bool, grad_scale: Any = None, found_inf: Any = None, decoupled: bool,
) -> None:  # fmt: skip
    if found_inf is not None and found_inf.item():
        for step in state_steps:
            step.sub_(1)
        return
    for at, parameter in enumerate(self):
        step = float(state_steps[at].item())
        if decoupled and weight_decay:
            parameter.mul_(1 - lr * weight_decay)
        grad = _gradient(grads[at], parameter, maximize, grad_scale, 0.0 if decoupled else weight_decay)
        exp_avgs[at].lerp_(grad, 1 - beta1)
        square = exp_avg_sqs[at].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if amsgrad:
            square = torch.maximum(max_exp_avg_sqs[at], square, out=max_exp_avg_sqs[at])
        deviation = (square.sqrt() / (1 - beta2**step) ** 0.5).add_(eps)
        parameter.addcdiv_(exp_avgs[at], deviation, value=-float(lr) / (1 - beta1**step))


@kernel("_fused_adam_", "_fused_adam_.tensor_lr")
def adam(*args: Any, **named: Any) -> None:
    """Performs a step of Adam on each parameter."""
    _adam(*args, **named, decoupled=False)


@kernel("_fused_adamw_", "_fused_adamw_.tensor_lr")
def adamw(*args: Any, **named: Any) -> None:
    """Performs a step of AdamW on each parameter."""
    _adam(*args, **named, decoupled=True)


@kernel("_fused_sgd_", "_fused_sgd_.tensor_lr")
def sgd(
    self: Tensors, grads: Tensors, momentum_buffer_list: Tensors, *, weight_decay: float, momentum: float, lr: Any,
    dampening: float, nesterov: bool, maximize: bool, is_first_step: bool, grad_scale: Any = None,
    found_inf: Any = None,
) -> None:  # fmt: skip
    """Performs a step of gradient descent on each parameter."""
    if found_inf is not None and found_inf.item():
        return
    for at, parameter in enumerate(self):
        grad = _gradient(grads[at], parameter, maximize, grad_scale, weight_decay)
        if momentum:
            buffer = momentum_buffer_list[at]
            buffer.copy_(grad) if is_first_step else buffer.mul_(momentum).add_(grad, alpha=1 - dampening)
            grad = grad + momentum * buffer if nesterov else buffer
        parameter.sub_(lr * grad)


@kernel("_amp_foreach_non_finite_check_and_unscale_")
def unscale(self: Tensors, found_inf: Any, inv_scale: Any) -> None:
    """Multiplies gradients by the reciprocal of their scale; sets `found_inf` to 1 if one is not finite."""
    for grad in self:
        is_finite = (grad - grad == 0).all()
        found_inf.copy_(torch.where(is_finite, found_inf, 1.0))
        grad.mul_(inv_scale)


@kernel("_amp_update_scale_")
def update_scale(
    self: Any, growth_tracker: Any, found_inf: Any, scale_growth_factor: float, scale_backoff_factor: float,
    growth_interval: int,
) -> Any:  # fmt: skip
    """Lowers the scale of gradients after an overflow, and raises it after a number of steps without one."""
    if found_inf.item():
        self.mul_(scale_backoff_factor)
        growth_tracker.zero_()
    elif int(growth_tracker.item()) + 1 == growth_interval:
        grown = float(self.item()) * scale_growth_factor
        self.fill_(grown if grown < 3.4e38 else self.item())
        growth_tracker.zero_()
    else:
        growth_tracker.add_(1)
    return self
