"""Reductions: sums, means, extremes, norms, variances, softmax, scans, sorts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from vkcompute import nn
from vkcompute.arrays.algorithms import axis_reductions, sorting
from vkcompute.arrays.expressions.call_plan import planned
from vkcompute.arrays.expressions.ufunc import apply
from vkcompute.arrays.functions import reductions, standard
from vkcompute.runtime.memory.array import Array
from vkcompute.torch.element_types import computed, wide
from vkcompute.torch.errors import NotComputedError
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import axes_of, axis_of, operand, require_apart, require_dtype, require_same_elements
from vkcompute.torch.storage import convert, copy_to, resize_to, store, wrap

_sort, _topk = planned(sorting.sort_with_indices), planned(sorting.topk)
_INDEX_OF = {name: planned(getattr(reductions, name)) for name in ("argmax", "argmin")}


def _summed(self: Any, dtype: Any) -> Array:
    return operand(self, wide(dtype))  # type: ignore[no-any-return]


def _shape(self: Any, axes: Sequence[int], keepdim: bool) -> list[int]:
    return [1 if axis in axes else n for axis, n in enumerate(self.shape) if keepdim or axis not in axes]


@kernel("sum.IntList_out")
def sum_into(self: Any, dim: Any, keepdim: bool = False, *, dtype: Any = None, out: Any) -> Any:
    """Computes sums along axes."""
    array = _summed(self, out.dtype)
    return store(out, reductions.sum(array, axes_of(dim, self.dim()), array.dtype, keepdims=keepdim))


@kernel("mean.out")
def mean_into(self: Any, dim: Any, keepdim: bool = False, *, dtype: Any = None, out: Any) -> Any:
    """Computes means along axes."""
    array, axes = _summed(self, out.dtype), axes_of(dim, self.dim())
    n = math.prod([self.shape[axis] for axis in axes])
    total = reductions.sum(array, axes, array.dtype, keepdims=keepdim)
    return store(out, apply("multiply", total, 1 / n) if n and not n & (n - 1) else apply("divide", total, float(n)))


@kernel("prod.int_out")
def prod_into(self: Any, dim: int, keepdim: bool = False, *, dtype: Any = None, out: Any) -> Any:
    """Computes products along an axis."""
    array = _summed(self, out.dtype)
    return store(out, reductions.prod(array, axes_of(dim, self.dim()), array.dtype, keepdims=keepdim))


@kernel("prod")
def prod(self: Any, *, dtype: Any = None) -> Any:
    """Returns the product of all elements."""
    own = torch.int64 if not self.dtype.is_floating_point and not self.dtype.is_complex else self.dtype
    out = torch.empty((), dtype=own if dtype is None else dtype, device=DEVICE_NAME)
    array = _summed(self, out.dtype)
    return store(out, reductions.prod(array, None, array.dtype))


def _extreme(row: str) -> Callable[..., Any]:
    def run(self: Any, dim: Any = (), keepdim: bool = False, *, out: Any) -> Any:
        require_dtype(out, self.dtype)
        array = operand(self)
        return store(out, _of_extremes(row, array, axes_of(dim, self.dim()), keepdim))

    return run


def _of_extremes(row: str, array: Array, axes: Sequence[int], keepdim: bool) -> Array:
    function = reductions.max if row == "max" else reductions.min
    return function(array, tuple(axes), keepdims=keepdim)


kernel("amax.out")(_extreme("max"))
kernel("amin.out")(_extreme("min"))


def _full_extreme(row: str) -> Callable[..., Any]:
    def run(self: Any) -> Any:
        if not self.numel():
            raise RuntimeError(f"{row}(): Expected reduction dim to be specified for input.numel() == 0")
        array = operand(self)
        return wrap(_of_extremes(row, array, tuple(range(self.dim())), False), self.dtype)

    return run


kernel("max")(_full_extreme("max"))
kernel("min")(_full_extreme("min"))


def _extreme_and_index(row: str) -> Callable[..., Any]:
    def run(self: Any, dim: int, keepdim: bool = False, **outs: Any) -> Any:
        values, indices = outs.values()
        require_apart(values, self)
        require_apart(indices, self)
        array = operand(self)
        if not self.dim():
            return store(values, array), indices.fill_(0)
        function = _INDEX_OF[f"arg{row}"]
        axis = axis_of(dim, self.dim())
        store(values, _of_extremes(row, array, (axis,), keepdim))
        store(indices, function(array, axis, keepdims=keepdim))
        return values, indices

    return run


kernel("max.dim_max")(_extreme_and_index("max"))
kernel("min.dim_min")(_extreme_and_index("min"))


def _index_of(name: str) -> Callable[..., Any]:
    function = _INDEX_OF[name]

    def run(self: Any, dim: int | None = None, keepdim: bool = False, *, out: Any) -> Any:
        array = operand(self)
        axis = None if dim is None or not self.dim() else axis_of(dim, self.dim())
        return store(out, function(array, axis, keepdims=keepdim and bool(self.dim())))

    return run


kernel("argmax.out")(_index_of("argmax"))
kernel("argmin.out")(_index_of("argmin"))


def _truth(name: str) -> Callable[..., Any]:
    function = getattr(reductions, name)

    def run(self: Any, dim: Any = None, keepdim: bool = False, *, out: Any) -> Any:
        if out.dtype not in (torch.bool, torch.uint8):
            raise RuntimeError(f"{name} only supports bool tensor for result, got: {out.dtype}")
        array = operand(self)
        axes = tuple(range(self.dim())) if dim is None else axes_of(dim, self.dim())
        return store(out, function(array, axes, keepdims=keepdim))

    return run


for _name in ("all", "any"):
    kernel(f"{_name}.out", f"{_name}.all_out", f"{_name}.dims_out")(_truth(_name))


@kernel("hash_tensor.out")
def hashed(self: Any, dim: Any = (), *, keepdim: bool = False, mode: int = 0, out: Any) -> Any:
    """Computes the exclusive or of the bits of elements as int64 or float64, as uint64."""
    bits = self.to(torch.float64) if self.dtype.is_floating_point else self.to(torch.int64)
    array, axes = operand(bits.contiguous().view(torch.int64)), axes_of(dim, self.dim())
    result = axis_reductions.reduce("bitwise_xor", array, axes, array.dtype, keepdim) if axes else array.copy()
    return copy_to(out, wrap(result).view(torch.uint64))


@kernel("linalg_vector_norm.out")
def vector_norm(self: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any) -> Any:
    """Computes norms along axes: the root of the sum of powers of absolute values."""
    array, axes = operand(self), axes_of(dim, self.dim())
    size = apply("absolute", array) if array.dtype.kind == "c" or ord != 2 else array
    dtype_of_sum = wide(out.dtype)
    size = size if size.dtype == dtype_of_sum else size.astype(dtype_of_sum)
    if ord in (math.inf, -math.inf):
        return store(out, _of_extremes("max" if ord > 0 else "min", size, axes, keepdim))
    if ord == 0:
        return store(out, reductions.sum(apply("not_equal", size, 0).astype(dtype_of_sum), axes, keepdims=keepdim))
    powers = apply("square", size) if ord == 2 else size if ord == 1 else apply("power", size, float(ord))
    total = reductions.sum(powers, axes, keepdims=keepdim)
    root = apply("sqrt", total) if ord == 2 else total if ord == 1 else apply("power", total, 1 / float(ord))
    return store(out, root)


def _moments(self: Any, dim: Any, correction: Any, keepdim: bool) -> tuple[Array, Array]:
    array, axes = operand(self, wide(self.dtype)), axes_of(dim, self.dim())
    moments = nn.var_mean(array, axes, 1 if correction is None else float(correction), keepdim)
    variance, mean = (convert(moment, computed(self.dtype)) for moment in moments)
    return variance, mean


@kernel("var.correction")
def var(self: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """Returns variances along axes."""
    if self.dtype.is_complex:
        return torch.var(self.real, dim, correction=correction, keepdim=keepdim) + torch.var(
            self.imag, dim, correction=correction, keepdim=keepdim
        )
    return wrap(_moments(self, dim, correction, keepdim)[0])


@kernel("var.correction_out")
def var_into(self: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False, out: Any) -> Any:
    """Computes variances along axes."""
    result = var(self, dim, correction=correction, keepdim=keepdim)
    return copy_to(out, result)


@kernel("std.correction")
def std(self: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """Returns standard deviations along axes."""
    return torch.sqrt(torch.var(self, dim, correction=correction, keepdim=keepdim))


@kernel("std.correction_out")
def std_into(self: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False, out: Any) -> Any:
    """Computes standard deviations along axes."""
    result = std(self, dim, correction=correction, keepdim=keepdim)
    return copy_to(out, result)


@kernel("var_mean.correction")
def var_mean(self: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """Returns variances and means along axes."""
    if self.dtype.is_complex:
        spread = torch.var(self, dim, correction=correction, keepdim=keepdim)
        return spread, torch.mean(self, axes_of(dim, self.dim()), keepdim=keepdim)
    variance, mean = _moments(self, dim, correction, keepdim)
    return wrap(variance), wrap(mean)


@kernel("std_mean.correction")
def std_mean(self: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """Returns standard deviations and means along axes."""
    variance, mean = torch.var_mean(self, dim, correction=correction, keepdim=keepdim)
    return torch.sqrt(variance), mean


@kernel("count_nonzero.dim_IntList")
def count_nonzero(self: Any, dim: Any) -> Any:
    """Returns the numbers of elements that are not zero."""
    return torch.sum(self != 0, dim=dim if len(dim) else None)


@kernel("_softmax.out")
def softmax(self: Any, dim: int, half_to_float: bool, *, out: Any) -> Any:
    """Computes softmax along an axis."""
    if not self.dim():
        return out.fill_(1)
    return store(out, nn.softmax(operand(self, computed(out.dtype)), dim))


@kernel("_log_softmax.out")
def log_softmax(self: Any, dim: int, half_to_float: bool, *, out: Any) -> Any:
    """Computes the logarithm of softmax along an axis."""
    if not self.dim():
        return out.fill_(0)
    return store(out, nn.log_softmax(operand(self, computed(out.dtype)), dim))


@kernel("_softmax_backward_data.out")
def softmax_backward(grad_output: Any, output: Any, dim: int, input_dtype: Any, *, grad_input: Any) -> Any:
    """Computes the gradient of softmax from its result."""
    if not output.dim():
        return grad_input.fill_(0)
    g, y = _summed(grad_output, output.dtype), _summed(output, output.dtype)
    product = apply("multiply", g, y)
    total = reductions.sum(product, (axis_of(dim, output.dim()),), keepdims=True)
    return store(grad_input, apply("subtract", product, apply("multiply", y, total)))


@kernel("_log_softmax_backward_data.out")
def log_softmax_backward(grad_output: Any, output: Any, dim: int, input_dtype: Any, *, out: Any) -> Any:
    """Computes the gradient of log_softmax from its result."""
    if not output.dim():
        return out.fill_(0)
    g, y = _summed(grad_output, output.dtype), _summed(output, output.dtype)
    total = reductions.sum(g, (axis_of(dim, output.dim()),), keepdims=True)
    return store(out, apply("subtract", g, apply("multiply", apply("exp", y), total)))


@kernel("logsumexp.out")
def logsumexp(self: Any, dim: Any, keepdim: bool = False, *, out: Any) -> Any:
    """Computes the logarithm of the sum of exponentials along axes."""
    if self.is_complex():
        raise NotComputedError("logsumexp of complex numbers is computed on the host")
    axes = axes_of(dim, self.dim())
    dtype = self.dtype if self.dtype.is_floating_point else torch.get_default_dtype()
    resize_to(out, _shape(self, axes, keepdim))
    if not self.dim():
        return out.copy_(self)
    return store(out, nn.logsumexp(operand(self, computed(dtype)), axes, keepdim))


def _scan(name: str) -> Callable[..., Any]:
    function = planned(getattr(standard, name))

    def run(self: Any, dim: int, *, dtype: Any = None, out: Any) -> Any:
        if out.dtype == torch.bool:
            raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool'")
        require_same_elements(out, self)
        array = operand(self, wide(out.dtype))
        if not self.dim() or not self.numel():
            return store(out, array)
        return store(out, function(array, axis_of(dim, self.dim())))

    return run


kernel("cumsum.out")(_scan("cumsum"))
kernel("cumprod.out")(_scan("cumprod"))


@kernel("sort.values_stable")
def sort(self: Any, *, stable: Any = None, dim: int = -1, descending: bool = False, values: Any, indices: Any) -> Any:
    """Computes the elements in order along an axis, and their indices; always stable."""
    require_dtype(values, self.dtype)
    array = operand(self)
    if not self.dim() or not self.numel():
        return store(values, array), indices.fill_(0)
    axis = axis_of(dim, self.dim())
    in_order, order = _sort(array, axis, descending=descending)
    store(values, in_order)
    store(indices, order)
    return values, indices


@kernel("topk.values")
def topk(
    self: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, values: Any, indices: Any
) -> Any:
    """Computes the k largest or smallest elements along an axis, in order, and their indices."""
    require_apart(values, self)
    require_apart(indices, self)
    array = operand(self)
    if not self.dim() or not self.numel() or not k:
        return (store(values, array) if k else values), indices.fill_(0)
    top, order = _topk(array, k, dim, largest=largest)
    store(values, top)
    store(indices, order)
    return values, indices


@kernel("aminmax.out")
def aminmax(self: Any, *, dim: int | None = None, keepdim: bool = False, min: Any, max: Any) -> Any:
    """Computes the smallest and the largest elements."""
    for out in (min, max):
        require_dtype(out, self.dtype)
    array, axes = operand(self), axes_of(dim, self.dim())
    shape = _shape(self, axes, keepdim)
    for out, row in ((min, "min"), (max, "max")):
        resize_to(out, shape)
        store(out, _of_extremes(row, array, axes, keepdim))
    return min, max


@kernel("kthvalue.values")
def kthvalue(self: Any, k: int, dim: int = -1, keepdim: bool = False, *, values: Any, indices: Any) -> Any:
    """Computes the k-th smallest elements along an axis, and their indices."""
    n = self.shape[axis_of(dim, self.dim())] if self.dim() else 1
    if not n:
        raise IndexError(f"kthvalue(): Expected reduction dim {dim} to have non-zero size.")
    if not 1 <= k <= n:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}")
    require_dtype(values, self.dtype)
    require_apart(values, self, indices)
    array, axis = operand(self), axis_of(dim, self.dim())
    array, shape = array.reshape(array.shape or (1,)), _shape(self, (axis,), keepdim)
    for out, result in zip((values, indices), nn.kthvalue(array, k, axis), strict=True):
        resize_to(out, shape)
        store(out, result.reshape(tuple(shape)))
    return values, indices


@kernel("median.dim_values")
def median(self: Any, dim: int, keepdim: bool = False, *, values: Any, indices: Any) -> Any:
    """Computes the lower medians along an axis, and their indices; NaN if there is one."""
    if not self.numel() and not self.shape[axis_of(dim, self.dim())]:
        raise IndexError(f"median(): Expected reduction dim {dim} to have non-zero size.")
    n = self.shape[dim] if self.dim() else 1
    kthvalue(self, (n + 1) // 2, dim, keepdim, values=values, indices=indices)
    if self.dtype.is_floating_point and self.dim():
        is_nan = torch.isnan(self)
        has_nan = is_nan.any(dim, keepdim)
        indices.copy_(torch.where(has_nan, is_nan.to(torch.uint8).argmax(dim, keepdim), indices))
        values.masked_fill_(has_nan, math.nan)
    return values, indices


@kernel("median")
def median_of_all(self: Any) -> Any:
    """Returns the lower median of all elements; NaN if there is one. That of none is NaN as the CPU converts it."""
    if not self.numel():
        return torch.full((), math.nan).to(self.dtype).to(DEVICE_NAME)
    return torch.median(self.reshape(-1), 0)[0]


@kernel("nanmedian.dim_values")
def nanmedian(self: Any, dim: int, keepdim: bool = False, *, values: Any, indices: Any) -> Any:
    """Computes the lower medians along an axis of the elements that are no NaN, and their indices."""
    if not self.dtype.is_floating_point or not self.dim():
        return median(self, dim, keepdim, values=values, indices=indices)
    ordered, order = torch.sort(self, dim=dim, stable=True)
    n = torch.sum(self == self, dim, keepdim=True)
    at = torch.div(n - 1, 2, rounding_mode="floor").clamp_min(0)
    for out, source in ((values, ordered), (indices, order)):
        result = source.gather(dim, at)
        result = result if keepdim else result.squeeze(dim)
        copy_to(out, result)
    return values, indices


@kernel("nanmedian")
def nanmedian_of_all(self: Any) -> Any:
    """Returns the lower median of the elements that are no NaN."""
    if not self.numel():
        return torch.median(self)
    return torch.nanmedian(self.reshape(-1), 0)[0]
