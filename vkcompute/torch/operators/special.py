"""Special functions: zeta, derivatives of digamma, incomplete gamma functions, parts of numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from vkcompute.arrays.algorithms.lines import launch
from vkcompute.arrays.functions.number_parts import frexp
from vkcompute.jit.kernel import kernel as device_kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.torch.element_types import wide
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import operand
from vkcompute.torch.storage import copy_to, resize_to, runtime, store

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
    out = torch.empty(self.shape, dtype=self.dtype, device=DEVICE_NAME)
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
    values = [x.to(DEVICE_NAME, dtype) if x.dim() == 0 else x.to(dtype) for x in (self, other)]
    result = zeta(*values)
    return copy_to(out, result)


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
    return copy_to(out, result)


@device_kernel
def _gamma_ratio(a: Any, x: Any, out: Any, epsilon: float, tiny: float) -> None:
    """Computes an incomplete gamma function over x**a * exp(-x) / gamma(a): the lower one below a + 1, else the upper.

    By the series of DLMF 8.7.1 and the continued fraction of 8.9.2, as Lentz evaluates it.
    """
    i = global_id(0)
    if i < out.size:
        shape, at = a[i], x[i]
        n = 1
        if at < shape + 1:
            term = 1 / shape
            total = term
            while abs(term) > epsilon * abs(total) and n < _MOST_TERMS:
                term = term * at / (shape + n)
                total = total + term
                n = n + 1
            out[i] = total
        else:
            b = at + 1 - shape
            c, d = 1 / tiny, 1 / b
            fraction, change = d, d
            while (n == 1 or abs(change - 1) > epsilon) and n < _MOST_TERMS:
                factor = n * (shape - n)
                b = b + 2
                d = factor * d + b
                d = tiny if abs(d) < tiny else d
                c = b + factor / c
                c = tiny if abs(c) < tiny else c
                d = 1 / d
                change = d * c
                fraction = fraction * change
                n = n + 1
            out[i] = fraction


def _incomplete_gamma(self: Any, other: Any, *, is_lower: bool, out: Any) -> Any:
    a, x = torch.broadcast_tensors(self, other)
    dtype = torch.result_type(self, other)
    dtype = dtype if dtype.itemsize > 2 else torch.float32
    a, x = a.to(dtype), x.to(dtype)
    is_valid = (a > 0) & (x > 0) & torch.isfinite(a) & torch.isfinite(x)
    shape, at = torch.where(is_valid, a, 1), torch.where(is_valid, x, 1)
    numbers = wide(dtype)
    arrays = [operand(value.contiguous(), numbers).copy().reshape(-1) for value in (shape, at)]
    ratio = torch.empty(a.shape, dtype=dtype, device=DEVICE_NAME)
    if ratio.numel():
        result = runtime().empty(arrays[0].shape, numbers)
        limits = np.finfo(numbers)
        launch(_gamma_ratio, result.size, *arrays, result, float(limits.eps), float(limits.tiny) * 4)
        store(ratio, result.reshape(tuple(ratio.shape)))
    part = ratio * torch.exp(shape * torch.log(at) - at - torch.lgamma(shape))
    result = torch.where((at < shape + 1) == is_lower, part, 1 - part)
    zero, one = (0.0, 1.0) if is_lower else (1.0, 0.0)
    limit = torch.where((x == 0) | torch.isinf(a), zero, one)
    limit = torch.where((a < 0) | (x < 0) | (a == 0) & (x == 0) | torch.isinf(a) & torch.isinf(x), math.nan, limit)
    limit = torch.where((a != a) | (x != x), math.nan, limit)
    return copy_to(out, torch.where(is_valid, result, limit))


@kernel("igamma.out")
def igamma(self: Any, other: Any, *, out: Any) -> Any:
    """Computes the regularized lower incomplete gamma function."""
    return _incomplete_gamma(self, other, is_lower=True, out=out)


@kernel("igammac.out")
def igammac(self: Any, other: Any, *, out: Any) -> Any:
    """Computes the regularized upper incomplete gamma function."""
    return _incomplete_gamma(self, other, is_lower=False, out=out)


@kernel("frexp.Tensor_out")
def parts(self: Any, *, mantissa: Any, exponent: Any) -> Any:
    """Computes mantissas from 0.5 up to 1, and exponents of 2."""
    for out in (mantissa, exponent):
        resize_to(out, self.shape)
    if self.numel():
        for out, array in zip((mantissa, exponent), frexp(operand(self)), strict=True):
            store(out, array)
    return mantissa, exponent
