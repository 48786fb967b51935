"""Operators that PyTorch's own decompositions compute from others. They are imported on first use, as that is slow."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from vkcompute.torch.kernels import composite, exists, kernel, operator
from vkcompute.torch.operands import require_floats, require_same_elements
from vkcompute.torch.storage import copy_to

_NAMES = (
    # activations and their gradients
    "glu.out glu_backward glu_backward.grad_input hardshrink.out hardsigmoid.out hardsigmoid_backward.grad_input "
    "hardswish hardswish.out hardswish_backward log_sigmoid_forward log_sigmoid_forward.output log_sigmoid_backward "
    "log_sigmoid_backward.grad_input logit logit.out logit_backward mish.out mish_backward _prelu_kernel "
    "_prelu_kernel_backward softshrink.out "
    # losses
    "huber_loss huber_loss.out huber_loss_backward.out smooth_l1_loss.out smooth_l1_loss_backward.grad_input "
    "multi_margin_loss "
    # images
    "col2im grid_sampler_2d im2col "
    "upsample_linear1d.out upsample_nearest1d.out upsample_nearest2d.out upsample_nearest3d.out "
    "upsample_trilinear3d.out _upsample_nearest_exact1d.out _upsample_nearest_exact2d.out "
    "_upsample_nearest_exact3d.out "
    # elements, indices, reductions
    "channel_shuffle isin.Tensor_Tensor_out "
    "linalg_cross.out nansum norm.out renorm.out round.decimals_out rsub.Tensor special_entr.out "
    "special_xlog1py.out trace "
    # random numbers
    "normal.Tensor_float normal.Tensor_Tensor normal.float_Tensor"
).split()

_COMPOSITE = (
    "clone constant_pad_nd embedding full_like index_put_ masked_fill.Scalar masked_fill.Tensor ones_like repeat "
    "rsub.Scalar stack zeros_like"
).split()
"""Operators that PyTorch computes by others on all devices: kernels here, so that one plan has all of a call."""

_IN_PLACE = {
    "__ilshift__.Scalar": "bitwise_left_shift", "__ilshift__.Tensor": "bitwise_left_shift",
    "__irshift__.Scalar": "bitwise_right_shift", "__irshift__.Tensor": "bitwise_right_shift",
    "addbmm_": "addbmm", "hardswish_": "hardswish", "logit_": "logit",
}  # fmt: skip
"""Forms in place that PyTorch does not derive from others, and the names of these."""


@cache
def decomposition(name: str) -> Callable[..., Any]:
    """Returns the decomposition of an operator."""
    table: dict[Any, Callable[..., Any]] = importlib.import_module("torch._decomp").decomposition_table
    return table[operator(name)]


def composed(name: str) -> Callable[..., Any]:
    """Returns a kernel of an operator by its decomposition, which writes the result to `out` if it has one."""
    written = [value.name for value in operator(name)._schema.arguments if value.alias_info and value.kwarg_only]

    def run(*args: Any, **named: Any) -> Any:
        result = decomposition(name)(*args, **named)
        if not written:
            return result
        made = result if isinstance(result, tuple) else (result,)
        outs = tuple([_written(named[out], value) for out, value in zip(written, made, strict=True)])
        return outs if len(outs) > 1 else outs[0]

    return run


def _written(out: Any, made: Any) -> Any:
    """Returns `out` with a result: a decomposition in float32 writes that of 16 bits to a copy of `out`."""
    if made is not out:
        copy_to(out, made)
    return out


def _of_images(name: str) -> Callable[..., Any]:
    """Returns the kernel of an interpolation, which takes floats and bytes, as PyTorch's."""
    compute = composed(name)

    def run(self: Any, *args: Any, **named: Any) -> Any:
        require_floats(name.partition(".")[0], self, torch.uint8)
        return compute(self, *args, **named)

    return run


def _in_place(name: str) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **named: Any) -> Any:
        if name.startswith("bitwise"):
            require_same_elements(self, *args)
        return self.copy_(getattr(torch.ops.aten, name)(self, *args, **named))

    return run


def _by_parts(name: str) -> Callable[..., Any]:
    """Returns the kernel of a function that PyTorch computes of both parts of complex numbers."""
    compute = composed(name)

    def run(self: Any, *args: Any, out: Any) -> Any:
        if not self.is_complex():
            return compute(self, *args, out=out)
        parts = torch.view_as_real(self.resolve_conj())
        return copy_to(out, torch.view_as_complex(compute(parts, *args, out=torch.empty_like(parts)).contiguous()))

    return run


for _name, _other in _IN_PLACE.items():
    kernel(_name)(_in_place(_other))
for _name in _NAMES:
    if exists(_name):
        kernel(_name)((_of_images if "upsample" in _name else composed)(_name))
for _name in filter(exists, _COMPOSITE):
    kernel(_name)(composite(_name))
kernel("nan_to_num.out")(_by_parts("nan_to_num.out"))
