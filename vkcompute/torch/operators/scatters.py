"""Reductions of elements with the same index: scatter_reduce, index_reduce, segment_reduce, sums of bools.

The indices are sorted. An invocation per element of the result combines its run, so results are the same in each run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch

from vkcompute.arrays.algorithms import gather, sorting
from vkcompute.arrays.algorithms.lines import launch
from vkcompute.jit.kernel import PythonKernel
from vkcompute.jit.kernel import kernel as device_kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.memory.array import Array
from vkcompute.torch.element_types import computed, wide
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import axis_of, indices_of, operand
from vkcompute.torch.storage import resize_to, runtime, store, wrap

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b,
    "mean": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "amax": np.maximum,
    "amin": np.minimum,
}
_NAMES = {"add": "sum", "multiply": "prod", "sum": "sum", "mean": "mean", "prod": "prod", "amax": "amax",
          "amin": "amin", "max": "amax", "min": "amin"}  # fmt: skip
_OF_BOOLS = {"sum": "amax", "prod": "amin", "mean": "amin", "amax": "amax", "amin": "amin"}


@cache
def _runs_kernel(operation: str) -> PythonKernel:
    """Makes the kernel that combines, for each element of the result, the values with its index."""
    combine = _COMBINE[operation]

    @device_kernel
    def combine_runs(
        keys: Any, order: Any, values: Any, out: Any, counts: Any, n_items: int, n: int, n_steps: int, is_first: int
    ) -> None:
        i = global_id(0)
        if i < n_items:
            low, high = 0, n
            for _ in range(n_steps):
                if low < high:
                    middle = low + (high - low) // 2
                    low, high = (middle + 1, high) if keys[middle] < i else (low, middle)
            count = 0
            result = out[i]
            while low < n and keys[min(low, n - 1)] == i:
                value = values[order[low]]
                result = value if is_first == 1 and count == 0 else combine(result, value)
                count, low = count + 1, low + 1
            out[i] = result
            counts[i] = count

    return combine_runs


def reduce_at(target: Array, keys: Array, values: Array, operation: str, *, includes_self: bool) -> tuple[Array, Array]:
    """Combines values with the elements of a flat array at indices.

    Args:
        target: of one axis, contiguous; it is overwritten.
        keys: an index of `target` per value, int32.
        values: of one axis, of the dtype of `target`.
        operation: "sum", "mean" (which is not divided), "prod", "amax" or "amin".
        includes_self: False if elements that have values lose their own.

    Returns:
        the target, and the number of values per element.
    """
    order = sorting.argsort(keys)
    counts = runtime().empty(target.shape, np.int32)
    steps = max(keys.size, 1).bit_length()
    in_order = gather.take(keys, order)
    launch(_runs_kernel(operation), target.size, in_order, order, values, target, counts, target.size, keys.size,
           steps, int(not includes_self))  # fmt: skip
    return target, counts


def _keys(index: Any, dim: int, shape: Any) -> Any:
    """Returns the flat positions of the elements at indices along an axis, one per index."""
    strides = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
    total = index * strides[dim]
    for at, n in enumerate(index.shape):
        if at != dim and strides[at]:
            steps = torch.arange(n, device=DEVICE_NAME) * strides[at]
            total = total + steps.reshape([-1 if other == at else 1 for other in range(index.dim())])
    return total


def reduced(self: Any, dim: int, index: Any, src: Any, reduce: str, *, includes_self: bool = True) -> Any:
    """Returns a tensor whose elements at indices along an axis are combined with those of a source."""
    if not index.numel() or not self.numel():
        return self.clone()
    operation = _NAMES[reduce]
    at, source, shape = _with_axes(index), _with_axes(src), _with_axes(self).shape
    source = source[tuple(slice(0, n) for n in at.shape)]
    axis = axis_of(dim, len(shape))
    indices = gather.IndexedAxis(indices_of(at).reshape(-1), shape[axis], axis)
    checked = wrap(gather.wrapped([indices])).reshape(at.shape)
    keys = _keys(checked, axis, shape).reshape(-1).to(torch.int32)
    if self.dtype == torch.bool:
        operation = _OF_BOOLS[operation]
    dtype = np.dtype("int32") if self.dtype == torch.bool else wide(self.dtype)
    target = operand(self, dtype).copy().reshape(-1)
    values = operand(source.reshape(-1), dtype).copy()
    target, counts = reduce_at(target, operand(keys), values, operation, includes_self=includes_self)
    result = wrap(target)
    if operation == "mean":
        n = wrap(counts) + int(includes_self)
        is_exact = self.is_floating_point() or self.is_complex()
        result = result / n.clamp_min(1) if is_exact else torch.div(
            result, n.clamp_min(1), rounding_mode="floor")  # fmt: skip
    return result.reshape(self.shape).to(self.dtype)


def _with_axes(tensor: Any) -> Any:
    return tensor if tensor.dim() else tensor.reshape(1)


def _written(out: Any, result: Any) -> Any:
    resize_to(out, result.shape)
    return store(out, operand(result, computed(out.dtype))) if out.numel() else out


@kernel("scatter_reduce.two_out")
def scatter_reduce(
    self: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True, out: Any
) -> Any:
    """Computes a tensor whose elements at indices are combined with those of a source."""
    return _written(out, reduced(self, dim, index, src, reduce, includes_self=include_self))


@kernel("scatter.reduce_out")
def scatter_with(self: Any, dim: int, index: Any, src: Any, *, reduce: str, out: Any) -> Any:
    """Computes a tensor plus, or times, the elements of a source at indices."""
    return _written(out, reduced(self, dim, index, src, reduce))


@kernel("scatter.value_reduce_out")
def scatter_value_with(self: Any, dim: int, index: Any, value: Any, *, reduce: str, out: Any) -> Any:
    """Computes a tensor plus, or times, a number at indices."""
    source = torch.full((), value, dtype=self.dtype, device=DEVICE_NAME).expand(index.shape)
    return _written(out, reduced(self, dim, index, source, reduce))


@kernel("index_reduce.out")
def index_reduce(
    self: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True, out: Any
) -> Any:
    """Computes a tensor whose slices at indices are combined with those of a source."""
    return _written(out, reduced(self, dim, _over_slices(index, source, dim), source, reduce,
                                 includes_self=include_self))  # fmt: skip


def _over_slices(index: Any, source: Any, dim: int) -> Any:
    """Returns the index of each element of a source, of an index per slice."""
    source = _with_axes(source)
    axis = axis_of(dim, source.dim())
    shape = [-1 if at == axis else 1 for at in range(source.dim())]
    return index.reshape(shape).expand(source.shape)


def index_sum(self: Any, dim: int, index: Any, source: Any) -> Any:
    """Returns a tensor plus slices of a source at indices, of bools or without axes."""
    return reduced(self, dim, _over_slices(index, source, dim), source, "sum").reshape(self.shape)


def _segments(lengths: Any, data: Any, axis: int) -> Any:
    """Returns the segment of each element along an axis; the number of segments for those in none."""
    rows = torch.arange(data.shape[axis], device=DEVICE_NAME).expand(*lengths.shape[:-1], -1).contiguous()
    at = torch.searchsorted(lengths.cumsum(-1), rows, right=True)
    return at.reshape(*rows.shape, *[1] * (data.dim() - axis - 1)).expand(data.shape)


@kernel("segment_reduce")
def segment_reduce(
    data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None, axis: int = 0,
    unsafe: bool = False, initial: Any = None,
) -> Any:  # fmt: skip
    """Returns the sums, means, products or extremes of segments along an axis."""
    if lengths is None:
        lengths = torch.diff(offsets, dim=-1)
    operation = _NAMES.get(reduce)
    if operation is None:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    start = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -math.inf, "amin": math.inf}[operation]
    n_segments = lengths.shape[-1]
    shape = (*lengths.shape[:-1], n_segments + 1, *data.shape[axis + 1 :])  # and one for what is in no segment
    begin = torch.full(shape, start if initial is None else float(initial), dtype=data.dtype, device=DEVICE_NAME)
    at = _segments(lengths, data, axis)
    total = reduced(begin, axis, at, data, "sum" if operation == "mean" else operation)
    total = total.narrow(axis, 0, n_segments)
    if reduce != "mean":
        return total
    n = lengths.reshape(*lengths.shape, *[1] * (data.dim() - axis - 1))
    return torch.where(n == 0, math.nan if initial is None else total, total / n)


@kernel("_segment_reduce_backward")
def segment_reduce_backward(
    grad: Any, output: Any, data: Any, reduce: str, *, lengths: Any = None, offsets: Any = None, axis: int = 0,
    initial: Any = None,
) -> Any:  # fmt: skip
    """Returns the gradient of segment_reduce: equal extremes share it."""
    lengths = torch.diff(offsets, dim=-1) if lengths is None else lengths
    at = _segments(lengths, data, axis)
    is_inside = at < lengths.shape[-1]
    index = torch.where(is_inside, at, 0)

    def sums(values: Any) -> Any:
        start = torch.zeros_like(output)
        return reduced(start, axis, index, torch.where(is_inside, values, 0), "sum").gather(axis, index)

    result = grad.gather(axis, index)
    if reduce == "mean":
        result = result / sums(torch.ones_like(data))
    elif reduce in ("max", "min", "amax", "amin"):
        is_extreme = ((data == output.gather(axis, index)) | (data != data)).to(data.dtype)
        result = torch.where(is_extreme != 0, result / sums(is_extreme), 0)
    elif reduce == "prod":
        is_zero = data == 0
        begin = torch.full_like(output, 1.0 if initial is None else float(initial))
        factors = torch.where(is_zero | ~is_inside, 1, data)
        product = reduced(begin, axis, index, factors, "prod").gather(axis, index)
        others = sums(is_zero.to(data.dtype)) - is_zero.to(data.dtype)
        result = torch.where(others == 0, result * product / torch.where(is_zero, 1, data), 0)
    return torch.where(is_inside, result, 0)
