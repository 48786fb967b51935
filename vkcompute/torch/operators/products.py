"""Products of matrices and vectors."""

from __future__ import annotations

from typing import Any

import torch

from vkcompute import nn
from vkcompute.arrays.expressions.call_plan import planned
from vkcompute.arrays.expressions.ufunc import apply
from vkcompute.arrays.functions import products
from vkcompute.runtime.memory.array import Array
from vkcompute.torch.element_types import wide
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import name_of, operand, require_same_elements
from vkcompute.torch.storage import convert, copy_to, resize_to, store, wrap

_matmul, _wide_matmul, _linear = planned(products.matmul), planned(products.wide_matmul), planned(nn.linear)


def _product(self: Any, other: Any) -> Array:
    return _matmul(operand(self), operand(other))  # type: ignore[no-any-return]


@kernel("mm.out", "bmm.out")
def mm(self: Any, mat2: Any, *, out: Any) -> Any:
    """Computes products of matrices."""
    _require_one_dtype(self, mat2)
    if self.shape[-1]:
        return store(out, _product(self, mat2))
    resize_to(out, _shape(self, mat2))
    return out.fill_(0)


def _require_one_dtype(*tensors: Any) -> None:
    """Raises RuntimeError if factors, or what is added, have several dtypes."""
    if len(dtypes := {tensor.dtype: None for tensor in tensors}) > 1:
        raise RuntimeError(f"expected tensors of the same dtype, but got {' and '.join(map(name_of, dtypes))}")


def _shape(self: Any, other: Any) -> tuple[int, ...]:
    """Returns the shape of a product of matrices, of batches of them, or of a matrix and a vector."""
    return (*self.shape[:-1], *other.shape[self.dim() - 1 :])


@kernel("addmm.out", "baddbmm.out", "addmv.out")
def addmm(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any) -> Any:
    """Computes beta * self + alpha * (mat1 @ mat2)."""
    _require_one_dtype(self, mat1, mat2)
    require_same_elements(out, self)
    dtype, shape = wide(out.dtype), _shape(mat1, mat2)
    result: Any = None
    if beta == alpha == 1 and self.dim() == 1 and mat1.dim() == 2 and self.shape == shape[1:] and _is_fused(mat1):
        return store(out, _linear(operand(mat1), operand(mat2).transpose(), operand(self)))
    if mat1.shape[-1]:
        result = convert(_wide_matmul(operand(mat1), operand(mat2)), dtype)
        result = result if alpha == 1 else apply("multiply", result, dtype.type(alpha))
    if beta != 0:
        bias = operand(self, dtype)
        bias = bias if beta == 1 else apply("multiply", bias, dtype.type(beta))
        result = bias if result is None else apply("add", result, bias)
        return store(out, result.broadcast_to(shape) if result.shape != shape else result)
    if result is not None:
        return store(out, result)
    resize_to(out, shape)
    return out.fill_(0)


def _is_fused(mat1: Any) -> bool:
    """True for a matrix with elements whose products one kernel adds to a vector."""
    return bool(mat1.numel()) and mat1.dtype.is_floating_point


@kernel("dot")
def dot(self: Any, tensor: Any) -> Any:
    """Returns the product of two vectors."""
    if self.dim() != 1 or tensor.dim() != 1 or self.shape != tensor.shape or self.dtype != tensor.dtype:
        raise RuntimeError(
            f"1D tensors of one size and dtype expected, but got {tuple(self.shape)} {self.dtype} and "
            f"{tuple(tensor.shape)} {tensor.dtype} tensors"
        )
    if not self.numel():
        return torch.zeros((), dtype=self.dtype, device=DEVICE_NAME)
    return wrap(_product(self, tensor).reshape(()))


@kernel("vdot")
def vdot(self: Any, other: Any) -> Any:
    """Returns the product of the conjugate of a vector with another."""
    return torch.dot(self.conj(), other)


@kernel("addr")
def addr(self: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Returns beta * self + alpha * the outer product of two vectors."""
    for name, vector in (("vec1", vec1), ("vec2", vec2)):
        if vector.dim() != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {vector.dim()}-D")
    dtype = torch.promote_types(torch.promote_types(self.dtype, vec1.dtype), vec2.dtype)
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if isinstance(factor, bool) and dtype != torch.bool:
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
        if not isinstance(factor, int) and not (dtype.is_floating_point or dtype.is_complex):
            raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
    self, beta, alpha = self.to(dtype), _of_dtype(beta, dtype), _of_dtype(alpha, dtype)
    outer = vec1.unsqueeze(1) * vec2
    outer = outer if alpha == 1 else outer * alpha
    total = outer if beta == 0 else (self if beta == 1 else self * beta) + outer
    return total.to(dtype)


@kernel("addr.out")
def addr_into(self: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any) -> Any:
    """Computes beta * self + alpha * the outer product of two vectors."""
    result = addr(self, vec1, vec2, beta=beta, alpha=alpha)
    return copy_to(out, result)


@kernel("addbmm")
def addbmm(self: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Returns beta * self + alpha * the sum of products of matrices."""
    rows = batch1.transpose(0, 1).reshape(batch1.shape[1], -1)
    columns = batch2.reshape(-1, batch2.shape[2])
    return torch.addmm(self, rows, columns, beta=_of_dtype(beta, self.dtype), alpha=_of_dtype(alpha, self.dtype))


def _of_dtype(number: Any, dtype: Any) -> Any:
    """Returns a factor of elements, as PyTorch converts it: an int for integers, a bool for bools."""
    if dtype == torch.bool:
        return bool(number)
    return number if dtype.is_floating_point or dtype.is_complex else int(number)
