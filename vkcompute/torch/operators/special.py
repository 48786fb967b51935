"""Special functions that have loops: Hurwitz's zeta function, and the derivatives of digamma."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from vkcompute.arrays.algorithms.lines import launch
from vkcompute.jit.kernel import kernel as device_kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.torch.element_types import wide
from vkcompute.torch.kernels import kernel
from vkcompute.torch.operands import operand, resize_to
from vkcompute.torch.storage import runtime, store

_BERNOULLI = (12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10,
              -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15,
              1.8152105401943546773e17, -7.1661652561756670113e18)  # fmt: skip
"""(2k)! / B(2k), for k from 1."""
_MOST_TERMS = 65536


@device_kernel
def _zeta(s: Any, q: Any, out: Any, epsilon: float) -> None:
    """Sums the terms up to q = 9, then Euler and Maclaurin's series: S. Moshier, Cephes, zeta.c."""
    i = global_id(0)
    if i < out.size:
        power, base = s[i], q[i]
        total = base**-power
        term = total
        n = 0
        while (n < 9 or base <= 9) and n < _MOST_TERMS and not (n > 0 and abs(term) < epsilon * abs(total)):
            base = base + 1
            term = base**-power
            total = total + term
            n = n + 1
        if abs(term) >= epsilon * abs(total):
            total = total + term * base / (power - 1) - term / 2
            factor = power * term / base
            for k in range(len(_BERNOULLI)):
                change = factor / _BERNOULLI[k]
                total = total + change
                if abs(change) < epsilon * abs(total):
                    break
                factor = factor * (power + (2 * k + 1)) * (power + (2 * k + 2)) / (base * base)
        out[i] = total


def zeta(self: Any, other: Any) -> Any:
    """Returns Hurwitz's zeta function of tensors of one dtype of floats, of at least 32 bits."""
    self, other = torch.broadcast_tensors(self, other)
    dtype = wide(self.dtype)
    arrays = [operand(value.contiguous(), dtype).copy().reshape(-1) for value in (self, other)]
    out = torch.empty(self.shape, dtype=self.dtype, device="vk")
    if out.numel():
        result = runtime().empty(arrays[0].shape, dtype)
        launch(_zeta, result.size, *arrays, result, float(np.finfo(dtype).eps))
        store(out, result.reshape(tuple(out.shape)))
    is_pole = (other <= 0) & (other == torch.floor(other))
    is_undefined = (self < 1) | ((other <= 0) & ~is_pole & (self != torch.floor(self)))
    return torch.where((self == 1) | (is_pole & (self > 1)), math.inf, torch.where(is_undefined, math.nan, out))


@kernel("special_zeta.out")
def zeta_into(self: Any, other: Any, *, out: Any) -> Any:
    """Computes Hurwitz's zeta function."""
    dtype = torch.result_type(self, other)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    dtype = dtype if dtype.itemsize > 2 else torch.float32
    values = [x.to("vk", dtype) if x.dim() == 0 else x.to(dtype) for x in (self, other)]
    result = zeta(*values)
    resize_to(out, result.shape)
    return out.copy_(result)


@kernel("polygamma.out")
def polygamma(n: int, self: Any, *, out: Any) -> Any:
    """Computes the derivative of digamma of order n."""
    if n == 0:
        return torch.digamma(self, out=out)
    x = self if self.is_floating_point() else self.to(torch.get_default_dtype())
    x = x if x.dtype.itemsize > 2 else x.to(torch.float32)
    if n == 1:  # by reflection (DLMF 5.15.6), so that no argument has many terms
        values = zeta(torch.full_like(x, 2), torch.where(x < 0.5, 1 - x, x))
        result = torch.where(x < 0.5, (math.pi / torch.sin(math.pi * x)) ** 2 - values, values)
    else:
        result = zeta(torch.full_like(x, n + 1), x) * ((-1) ** (n + 1) * math.gamma(n + 1.0))
    resize_to(out, result.shape)
    return out.copy_(result)
