"""Cumulative extremes with their indices, and cumulative sums of exponentials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from vkcompute.arrays.algorithms import scans
from vkcompute.arrays.algorithms.lines import launch
from vkcompute.jit.kernel import kernel as device_kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.torch.element_types import wide
from vkcompute.torch.errors import NotComputedError
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import axis_of, operand
from vkcompute.torch.storage import resize_to, runtime, store, wrap


def _extremes(operation: str) -> Callable[..., Any]:
    def run(self: Any, values: Any, indices: Any, dim: int) -> None:
        if not self.numel():
            return
        if not self.dim():
            values.copy_(self)
            indices.zero_()
            return
        axis = axis_of(dim, self.dim())
        given = self.to(torch.uint8) if self.dtype == torch.bool else self
        best = wrap(scans.cumulative(operand(given.contiguous()), operation, axis))
        is_new = best == given
        if self.is_floating_point():
            is_new = is_new | torch.isnan(given)
        at = torch.arange(self.shape[axis], device=DEVICE_NAME).reshape(-1, *[1] * (self.dim() - axis - 1))
        newest = torch.where(is_new, at, 0).contiguous()
        values.copy_(best)
        indices.copy_(wrap(scans.cumulative(operand(newest), "max", axis)))

    return run


kernel("_cummax_helper")(_extremes("max"))
kernel("_cummin_helper")(_extremes("min"))


@device_kernel
def _add_exponentials(x: Any, out: Any, n_items: int, n: int) -> None:
    """Adds the exponentials of each line, relative to the largest one so far."""
    i = global_id(0)
    if i < n_items:
        most, total = x[i * n], x[i * n] * 0 + 1
        out[i * n] = most
        for k in range(1, n):
            value = x[i * n + k]
            if value > most or value != value:
                total = total * np.exp(most - value) + 1
                most = value
            elif value == most:
                total = total + 1
            else:
                total = total + np.exp(value - most)
            out[i * n + k] = most + np.log(total)


@kernel("_logcumsumexp")
def logcumsumexp(self: Any, dim: int) -> Any:
    """Returns the logarithms of cumulative sums of exponentials along an axis."""
    if self.is_complex():
        raise NotComputedError("logcumsumexp of complex numbers is computed on the host")
    axis_of(dim, self.dim())
    if not self.dim() or not self.numel():
        return self.clone()
    lines = self.movedim(dim, -1).contiguous()
    n, shape = lines.shape[-1], lines.shape
    x = operand(lines, wide(self.dtype)).reshape(-1)
    x.compute()
    out = runtime().empty(x.shape, x.dtype)
    launch(_add_exponentials, x.size // n, x, out, x.size // n, n)
    return wrap(out).reshape(shape).movedim(-1, dim).to(self.dtype).contiguous()


@kernel("_logcumsumexp.out")
def logcumsumexp_into(self: Any, dim: int, *, out: Any) -> Any:
    """Computes the logarithms of cumulative sums of exponentials along an axis."""
    resize_to(out, self.shape)
    return store(out, operand(logcumsumexp(self, dim)))
