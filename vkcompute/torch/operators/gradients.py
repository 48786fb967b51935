"""Gradients of operators that PyTorch's decompositions compute: by autograd of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from vkcompute.torch.kernels import kernel
from vkcompute.torch.operators.decompositions import decomposition
from vkcompute.torch.operators.losses import multilabel_margin_loss

_AUTOGRAD = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradPrivateUse1) | torch._C.DispatchKeySet(
    torch._C.DispatchKey.ADInplaceOrView
)
"""Keys that PyTorch leaves out while a kernel of a device runs."""


def gradients(function: Callable[..., Any], inputs: Sequence[Any], by_result: Any) -> tuple[Any, ...]:
    """Returns the gradients of a function by its inputs, from that by its result."""
    included = torch._C._dispatch_tls_local_include_set()
    excluded = torch._C._dispatch_tls_local_exclude_set() - _AUTOGRAD
    with torch._C._ForceDispatchKeyGuard(included, excluded), torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in inputs]
        results: tuple[Any, ...] = torch.autograd.grad(function(*leaves), leaves, by_result, materialize_grads=True)
    return results


@kernel("grid_sampler_2d_backward")
def grid_sampler_backward(
    grad_output: Any, input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool,
    output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    """Returns the gradients of sampled images by these and by the places."""
    sampled = decomposition("grid_sampler_2d")
    by_input, by_grid = gradients(
        lambda x, g: sampled(x, g, interpolation_mode, padding_mode, align_corners), (input, grid), grad_output
    )
    return by_input if output_mask[0] else None, by_grid


@kernel("multi_margin_loss_backward")
def multi_margin_loss_backward(
    grad_output: Any, self: Any, target: Any, p: Any, margin: Any, weight: Any = None, reduction: int = 1
) -> Any:
    """Returns the gradient of multi_margin_loss."""
    loss = decomposition("multi_margin_loss")
    return gradients(lambda x: loss(x, target, p, margin, weight, reduction), (self,), grad_output)[0]


@kernel("multilabel_margin_loss_backward")
def multilabel_margin_loss_backward(grad_output: Any, self: Any, target: Any, reduction: int, is_target: Any) -> Any:
    """Returns the gradient of multilabel_margin_loss."""
    return gradients(lambda x: multilabel_margin_loss(x, target, reduction)[0], (self,), grad_output)[0]
