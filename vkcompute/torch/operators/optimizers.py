"""The fused and the foreach forms of optimizers: a step of a parameter is one launch, and waits for nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import groupby
from typing import Any

import numpy as np
import torch

from vkcompute.blocks.launching.program import JITFunction
from vkcompute.nn.programs import optimizers as programs
from vkcompute.runtime.memory.array import Array
from vkcompute.torch.element_types import wide
from vkcompute.torch.kernels import is_on_device, kernel
from vkcompute.torch.plans import repeated
from vkcompute.torch.storage import memory_order, runtime, view_of

Tensors = Sequence[Any]

_BLOCK = 256
"""Elements of a program. Of 867,328 float32, a step of Adam takes 3.0 ms of CPU time on lavapipe; with 512, 4.1."""
_MOST_PARAMETERS = 32
"""Of a call that a plan repeats."""
_PLAIN = torch.Tensor, torch.nn.Parameter
"""Types of parameters with a storage of their own; a DTensor has none."""


def _launch_each(
    program: JITFunction, numbers: Array, read: Tensors, rows: Sequence[Tensors], n_in_place: int, *constants: float
) -> None:
    """Launches a step of each parameter.

    Args:
        numbers: which change from step to step, in the dtype in which elements are computed.
        read: tensors of one element or None, which the program takes first.
        rows: for each parameter, tensors or None: `n_in_place` of one shape, the parameter first, then others of one
            element.
        constants: of the program, and numbers that stay as they are.
    """
    single = [None if tensor is None else view_of(tensor.view(-1)) for tensor in read]
    for row in rows:
        _launch(program, [*single, numbers], row[:n_in_place], row[n_in_place:], constants)


def _launch(
    program: JITFunction, first: Sequence[Any], in_place: Tensors, read: Tensors, constants: tuple[float, ...]
) -> None:
    """Launches a step on the elements of tensors of one shape, in the order of the first one's memory."""
    given, n = [tensor for tensor in in_place if tensor is not None], in_place[0].numel()
    if not n:
        return
    turned = given
    if not all(tensor.is_contiguous() for tensor in given):
        order = memory_order(in_place[0])
        turned = [tensor.permute(order) for tensor in given]
    flat = [tensor.contiguous().view(-1) for tensor in turned]
    arrays = iter([view_of(tensor) for tensor in flat])
    single = [None if tensor is None else view_of(tensor.view(-1)) for tensor in read]
    in_order = [None if tensor is None else next(arrays) for tensor in in_place]
    program[(-(-n // _BLOCK),)](*first, n, *in_order, *single, *constants, _BLOCK, n % 4 == 0)
    for tensor, copied in zip(turned, flat, strict=True):
        if not tensor.is_contiguous():
            tensor.copy_(copied.view(tensor.shape))


_repeated = {
    programs.adam: repeated("_fused_adam_", partial(_launch_each, programs.adam)),
    programs.descent: repeated("_fused_sgd_", partial(_launch_each, programs.descent)),
    programs.adagrad: repeated("_fused_adagrad_", partial(_launch_each, programs.adagrad)),
}
"""`_launch_each` for each program, with plans."""


def _step(
    program: JITFunction, numbers: Sequence[float], read: Tensors, rows: Sequence[Tensors], n_in_place: int,
    *constants: float,
) -> None:  # fmt: skip
    """Performs a step of parameters that have the same numbers; other arguments are those of `_launch_each`.

    What changes from step to step is in an array, so that plans do not depend on it.
    """
    for dtype, alike in groupby(rows, lambda row: wide(row[0].dtype)):
        array, given = runtime().array(np.array(numbers, dtype)), [*alike]
        for first in range(0, len(given), _MOST_PARAMETERS):
            part = given[first : first + _MOST_PARAMETERS]
            _repeated[program](array, read, part, n_in_place, *constants)


def _adam(
    self: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, max_exp_avg_sqs: Tensors,
    state_steps: Tensors, *, lr: Any, beta1: float, beta2: float, weight_decay: float, eps: float, amsgrad: bool,
    maximize: bool, grad_scale: Any = None, found_inf: Any = None, decoupled: bool,
) -> None:  # fmt: skip
    rate = float(lr)
    kept, decay = (1 - rate * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    constants = -1.0 if maximize else 1.0, decay, 1 - beta1, beta2, 1 - beta2, eps
    largest = max_exp_avg_sqs if amsgrad else [None] * len(self)
    rows = zip(self, grads, exp_avgs, exp_avg_sqs, largest, state_steps, strict=True)
    for (is_on_host, n_steps), alike in groupby(rows, lambda row: _number_of_steps(row[-1])):
        given = [(*row[:-1], None if is_on_host else row[-1]) for row in alike]
        weights = _weights(beta1, beta2, n_steps) if is_on_host else (_log(beta1), _log(beta2))
        _step(programs.adam, (rate, kept, *weights), (grad_scale, found_inf), given, 5, *constants)


def _number_of_steps(counter: Any) -> tuple[bool, float]:
    """Returns (True, number) for a counter of the host, and (False, 0) for one of the device, which programs read."""
    return (False, 0.0) if is_on_device(counter) else (True, float(counter))


@lru_cache(64)
def _weights(beta1: float, beta2: float, n_steps: float) -> tuple[float, float]:
    """Returns the sums of the weights of the means of both moments."""
    weight1, weight2 = [-math.expm1(n_steps * _log(beta)) for beta in (beta1, beta2)]
    return weight1, weight2


def _log(beta: float) -> float:
    return math.log(beta) if beta else -math.inf


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
    constants = -1.0 if maximize else 1.0, weight_decay, momentum, 1 - dampening, nesterov, is_first_step
    buffers = momentum_buffer_list if momentum else [None] * len(self)
    rows = [*zip(self, grads, buffers, strict=True)]
    _step(programs.descent, [float(lr)], (grad_scale, found_inf), rows, 3, *constants)


@kernel("_fused_adagrad_", "_fused_adagrad_.tensor_lr")
def adagrad(
    self: Tensors, grads: Tensors, state_sums: Tensors, state_steps: Tensors, *, lr: Any, lr_decay: float,
    weight_decay: float, eps: float, maximize: bool, grad_scale: Any = None, found_inf: Any = None,
) -> None:  # fmt: skip
    """Performs a step of Adagrad on each parameter."""
    constants = -1.0 if maximize else 1.0, lr_decay, weight_decay, eps
    rows = zip(self, grads, state_sums, state_steps, strict=True)
    for (is_on_host, n_steps), alike in groupby(rows, lambda row: _number_of_steps(row[-1])):
        given = [(*row[:-1], None if is_on_host else row[-1]) for row in alike]
        _step(programs.adagrad, (float(lr), n_steps), (grad_scale, found_inf), given, 3, *constants)


def _are_stepped(params: Tensors, numbers: Sequence[Any]) -> bool:
    """True if the kernels take these parameters, all of the device, and numbers, none of them a tensor.

    Subclasses, as DTensor, have no storage of their own.
    """
    return (
        not torch.compiler.is_compiling()
        and all(type(parameter) in _PLAIN and is_on_device(parameter) for parameter in params)
        and all(parameter.is_floating_point() for parameter in params)
        and not any(isinstance(number, torch.Tensor) for number in numbers)
    )


def step_adam(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, max_exp_avg_sqs: Tensors,
    state_steps: Tensors, *, capturable: bool, differentiable: bool, decoupled_weight_decay: bool, lr: Any,
    beta1: Any, beta2: Any, has_complex: bool, **named: Any,
) -> bool:  # fmt: skip
    """Performs a step of Adam's form for many tensors, whose numbers of steps are on the host.

    Returns:
        False, and does nothing, where PyTorch's own is to do it.
    """
    if capturable or differentiable or not _are_stepped(params, (lr, beta1, beta2, named["weight_decay"])):
        return False
    torch._foreach_add_(state_steps, 1)
    tensors = params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps
    _adam(*tensors, lr=lr, beta1=beta1, beta2=beta2, decoupled=decoupled_weight_decay, **named)
    return True


def step_descent(
    params: Tensors, grads: Tensors, momentum_buffer_list: list[Any], *, momentum: float, lr: Any,
    has_sparse_grad: bool, **named: Any,
) -> bool:  # fmt: skip
    """Performs a step of gradient descent's form for many tensors, as `step_adam` does."""
    if has_sparse_grad or not _are_stepped(params, (lr, momentum, named["weight_decay"])):
        return False
    for is_first, alike in groupby(range(len(params)), lambda at: bool(momentum) and momentum_buffer_list[at] is None):
        chosen = [*alike]
        if is_first:
            for at in chosen:
                momentum_buffer_list[at] = torch.empty_like(params[at])
        lists = (params, grads, momentum_buffer_list) if momentum else (params, grads)
        of_kind = [[tensors[at] for at in chosen] for tensors in lists]
        sgd(*of_kind, *[[]] * (3 - len(lists)), momentum=momentum, lr=lr, is_first_step=is_first, **named)
    return True


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
