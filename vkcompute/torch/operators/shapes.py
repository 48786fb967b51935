"""Tensors made of numbers, triangles, and elements in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from vkcompute.arrays.expressions.call_plan import planned
from vkcompute.arrays.functions import creation, manipulation
from vkcompute.torch.element_types import array_dtype, computed, is_computed, to_numpy
from vkcompute.torch.errors import warn
from vkcompute.torch.kernels import kernel
from vkcompute.torch.operands import axes_of, operand, require_dtype
from vkcompute.torch.operators.copies import filled
from vkcompute.torch.storage import runtime, store, values_of, wrap

_roll = planned(manipulation.roll)


@kernel("arange.start_out")
def arange(start: Any, end: Any, step: Any = 1, *, out: Any) -> Any:
    """Computes the numbers from start to end."""
    made = torch.arange(start, end, step, dtype=out.dtype, device="cpu")
    if out.numel() not in (0, made.numel()):
        warn(
            f"The number of elements in the out tensor of shape {list(out.shape)} is {out.numel()} which does not "
            f"match the computed number of elements {made.numel()}. Note that this may occur as a result of rounding "
            f"error. The out tensor will be resized to a tensor of shape ({made.numel()},)."
        )
    return _stored(made, out)


def _stored(numbers: Any, out: Any) -> Any:
    """Copies numbers, in order, to a tensor, which keeps its shape if it has as many elements."""
    if out.numel() != numbers.numel():
        out.resize_(numbers.shape)
    return out.copy_(numbers.view(out.shape))


@kernel("linspace.out")
def linspace(start: Any, end: Any, steps: int, *, out: Any) -> Any:
    """Computes numbers at equal distances."""
    return _stored(torch.linspace(start, end, steps, dtype=out.dtype, device="cpu"), out)


@kernel("logspace.out")
def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, out: Any) -> Any:
    """Computes powers of a base with exponents at equal distances."""
    return _stored(torch.logspace(start, end, steps, base, dtype=out.dtype, device="cpu"), out)


@kernel("eye.m_out")
def eye(n: int, m: int, *, out: Any) -> Any:
    """Computes a matrix with ones on its diagonal."""
    if min(n, m) < 0:
        raise RuntimeError(f"m must be greater or equal to 0, got {m}" if m < 0 else f"n must be >= 0, got {n}")
    out.resize_((n, m))  # PyTorch gives no warning here
    return store(out, creation.eye(n, m, dtype=computed(out.dtype), device=runtime())) if out.numel() else out


@kernel("eye.out")
def eye_square(n: int, *, out: Any) -> Any:
    """Computes a square matrix with ones on its diagonal."""
    return eye(n, n, out=out)


def _triangle(function: Any, self: Any, diagonal: int, out: Any) -> Any:
    require_dtype(out, self.dtype)
    return store(out, function(operand(self), diagonal)) if out.numel() else out


@kernel("tril.out")
def tril(self: Any, diagonal: int = 0, *, out: Any) -> Any:
    """Computes matrices without the elements above a diagonal."""
    return _triangle(creation.tril, self, diagonal, out)


@kernel("triu.out")
def triu(self: Any, diagonal: int = 0, *, out: Any) -> Any:
    """Computes matrices without the elements below a diagonal."""
    return _triangle(creation.triu, self, diagonal, out)


@kernel("flip")
def flip(self: Any, dims: Sequence[int]) -> Any:
    """Returns the elements in reverse order along axes."""
    out, axes = torch.empty_like(self), axes_of(dims, self.dim()) if len(dims) else ()
    if not self.numel():
        return out
    array = values_of(self)
    return store(out, manipulation.flip(array, axes))


@kernel("roll")
def roll(self: Any, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    """Returns the elements shifted along axes, or of the flattened tensor."""
    if not len(shifts):
        raise RuntimeError("`shifts` required")
    if len(dims) != len(shifts) and (dims or len(shifts) != 1):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if not self.numel():
        return torch.empty_like(self)
    if not len(dims):
        return roll(self.reshape(-1), shifts, (0,)).reshape(self.shape)
    array = operand(self)
    return wrap(_roll(array, tuple(shifts), tuple(dims)), self.dtype)


@kernel("scalar_tensor")
def scalar_tensor(s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Any:
    """Returns a tensor without axes."""
    made = torch.scalar_tensor(s, dtype=dtype, device="cpu")
    if is_computed(made.dtype):
        return wrap(filled((), made.item(), array_dtype(made.dtype)), made.dtype)
    return wrap(runtime().array(to_numpy(made)), made.dtype)
