"""Distinct elements, indices in sorted ones, and repeated indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from vkcompute.arrays.algorithms.lines import launch
from vkcompute.arrays.expressions.call_plan import planned
from vkcompute.arrays.functions import standard
from vkcompute.jit.kernel import kernel as device_kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.memory.array import Array
from vkcompute.torch.element_types import is_computed
from vkcompute.torch.fallback import fall_back
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import axis_of, operand, require_dtype
from vkcompute.torch.storage import copy_to, runtime, wrap

aten = torch.ops.aten


def _empty() -> Any:
    return torch.empty(0, dtype=torch.int64, device=DEVICE_NAME)


def _index(array: Any, shape: Any = None) -> Any:
    """Returns indices as int64."""
    made = wrap(array).to(torch.int64)
    return made if shape is None else made.reshape(shape)


@kernel("_unique2")
def unique(self: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """Returns the distinct elements in order, the inverse and the counts."""
    if not self.numel():
        return self.new_empty(0), _empty().reshape(self.shape if return_inverse else 0), _empty()
    values, inverse, counts = standard.unique(
        operand(self), return_inverse=True, return_counts=True, equal_nan=False
    )  # fmt: skip
    return (
        wrap(values, self.dtype),
        _index(inverse, self.shape) if return_inverse else _empty(),
        _index(counts) if return_counts else _empty(),
    )


@kernel("_unique")
def unique_with_inverse(self: Any, sorted: bool = True, return_inverse: bool = False) -> Any:
    """Returns the distinct elements in order, and the inverse."""
    return unique(self, sorted, return_inverse)[:2]


@kernel("unique_dim")
def unique_dim(
    self: Any, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    """Returns the distinct slices along an axis in order, the inverse and the counts."""
    if not self.numel():
        return fall_back(aten.unique_dim.default, self, dim, sorted, return_inverse, return_counts)
    rows = self.movedim(dim, 0)
    values, inverse, counts = standard.unique(
        operand(rows.reshape(rows.shape[0], -1).contiguous()), return_inverse=True, return_counts=True, axis=0
    )
    distinct = wrap(values, self.dtype).reshape(-1, *rows.shape[1:]).movedim(0, dim)
    return distinct, _index(inverse, (-1,)), _index(counts)


@kernel("unique_consecutive")
def unique_consecutive(
    self: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Returns the first element, or slice, of each run of equal ones, the inverse and the counts."""
    rows = self.reshape(-1) if dim is None else self.movedim(dim, 0)
    if not rows.numel():
        if 0 in rows.shape[1:]:
            raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
        inverse = _empty().reshape(self.shape) if dim is None and return_inverse else _empty()
        return rows.clone() if dim is None else self.clone(), inverse, _empty()
    is_new = torch.ones(rows.shape[0], dtype=torch.bool, device=DEVICE_NAME)
    differs = rows[1:] != rows[:-1]
    is_new[1:] = differs.flatten(1).any(1) if differs.dim() > 1 else differs
    starts = torch.nonzero(is_new).reshape(-1)
    distinct = rows[starts]
    inverse = (torch.cumsum(is_new, 0) - 1) if return_inverse else _empty()
    ends = torch.cat([starts[1:], torch.full((1,), rows.shape[0], device=DEVICE_NAME)])
    if dim is None and return_inverse:
        inverse = inverse.reshape(self.shape)
    return distinct if dim is None else distinct.movedim(0, dim), inverse, ends - starts if return_counts else _empty()


@device_kernel
def _search_rows(
    sequences: Any, values: Any, out: Any, n_items: int, n: int, n_values: int, n_steps: int, is_right: int
) -> None:
    """Finds the place of each value in its row of sorted elements; NaN sorts last."""
    i = global_id(0)
    if i < n_items:
        value, first = values[i], i // n_values * n
        low, high = 0, n
        for _ in range(n_steps):
            if low < high:
                middle = low + (high - low) // 2
                here = sequences[first + middle]
                is_less = here < value or (value != value and here == here)
                is_equal = here == value or (here != here and value != value)
                is_before = is_less or (is_right == 1 and is_equal)
                low, high = (middle + 1, high) if is_before else (low, middle)
        out[i] = low


def _searched(sequence: Any, values: Any, is_right: bool, dtype: Any) -> Any:
    n, n_values = sequence.shape[-1], values.shape[-1] if sequence.dim() > 1 else values.numel()
    if not values.numel() or not n:
        return torch.zeros(values.shape, dtype=dtype, device=DEVICE_NAME)
    common = torch.promote_types(sequence.dtype, values.dtype)
    common = common if is_computed(common) else torch.float32
    arrays = [operand(tensor.to(common).contiguous().reshape(-1)) for tensor in (sequence, values)]
    for array in arrays:
        array.compute()
    return wrap(_searched_rows(*arrays, n, max(n_values, 1), int(is_right)), dtype).reshape(values.shape)


@planned
def _searched_rows(sequence: Array, values: Array, n: int, n_values: int, is_right: int) -> Array:
    indices = runtime().empty(values.shape, np.int32)
    launch(_search_rows, values.size, sequence, values, indices, values.size, n, n_values, n.bit_length() + 1, is_right)
    return indices


@kernel("searchsorted.Tensor")
def searchsorted(
    sorted_sequence: Any, self: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Any = None,
) -> Any:  # fmt: skip
    """Returns the indices of values in sorted rows."""
    if side is not None and right and side != "right":
        raise RuntimeError("torch.searchsorted(): side and right can't be set to opposites, got side of left while "
                           "right was True")  # fmt: skip
    if sorter is not None:
        sorted_sequence = torch.gather(sorted_sequence, -1, sorter)
    if sorted_sequence.dim() > 1 and sorted_sequence.shape[:-1] != self.shape[:-1]:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor {list(sorted_sequence.shape)} "
            f"and input value tensor {list(self.shape)}"
        )
    return _searched(sorted_sequence, self, right or side == "right", torch.int32 if out_int32 else torch.int64)


@kernel("searchsorted.Scalar")
def searchsorted_number(
    sorted_sequence: Any, self: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Any = None,
) -> Any:  # fmt: skip
    """Returns the place of a number in a sorted row."""
    value = torch.as_tensor(self, device=DEVICE_NAME).to(sorted_sequence.dtype)
    return searchsorted(sorted_sequence, value, out_int32=out_int32, right=right, side=side, sorter=sorter)


@kernel("bucketize.Tensor")
def bucketize(self: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """Returns the bucket of each value between boundaries."""
    if boundaries.dim() != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})")
    return _searched(boundaries, self, right, torch.int32 if out_int32 else torch.int64)


@kernel("nonzero_static")
def nonzero_static(self: Any, *, size: int, fill_value: int = -1) -> Any:
    """Returns the first indices of elements that are not zero, filled up to a number of them."""
    indices = torch.nonzero(self)[:size]
    filler = torch.full((size - indices.shape[0], self.dim()), fill_value, dtype=torch.int64, device=DEVICE_NAME)
    return torch.cat([indices, filler])


@kernel("repeat_interleave.Tensor")
def repeat_interleave(repeats: Any, *, output_size: int | None = None) -> Any:
    """Returns each index as often as its number says."""
    if not repeats.numel():
        return torch.empty_like(repeats)
    ends = torch.cumsum(repeats, 0)
    n = int(ends[-1].item()) if output_size is None else output_size
    return _searched(ends, torch.arange(n, device=DEVICE_NAME), True, repeats.dtype)


@device_kernel
def _modes(ordered: Any, order: Any, values: Any, indices: Any, n_items: int, n: int) -> None:
    """Finds the longest run of each sorted line, the first of equally long ones, and its last index."""
    i = global_id(0)
    if i < n_items:
        best, best_at, run = 0, 0, 0
        for k in range(n):
            is_same = k > 0 and ordered[i * n + k] == ordered[i * n + max(k - 1, 0)]
            run = run + 1 if is_same else 1
            if run > best:
                best, best_at = run, k
        values[i] = ordered[i * n + best_at]
        indices[i] = order[i * n + best_at]


@kernel("mode")
def mode(self: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """Returns the most frequent elements along an axis, the smallest of these, and their last indices."""
    axis_of(dim, self.dim())
    if not self.dim():
        return self.clone(), torch.zeros((), dtype=torch.int64, device=DEVICE_NAME)
    lines = self.movedim(dim, -1)
    shape, n = lines.shape[:-1], lines.shape[-1]
    if not self.numel():
        return fall_back(aten.mode.default, self, dim, keepdim)
    given = lines.to(torch.uint8) if self.dtype == torch.bool else lines
    ordered, order = [operand(tensor.contiguous()) for tensor in torch.sort(given, dim=-1, stable=True)]
    n_lines = lines.numel() // n
    values, indices = runtime().empty((n_lines,), ordered.dtype), runtime().empty((n_lines,), np.int64)
    launch(_modes, n_lines, ordered.reshape(-1), order.reshape(-1), values, indices, n_lines, n)
    made = wrap(values).to(self.dtype).reshape(shape), wrap(indices).reshape(shape)
    return tuple(tensor.unsqueeze(dim) for tensor in made) if keepdim else made


@kernel("mode.values")
def mode_into(self: Any, dim: int = -1, keepdim: bool = False, *, values: Any, indices: Any) -> Any:
    """Computes the most frequent elements along an axis, and their last indices."""
    require_dtype(values, self.dtype)
    return tuple(copy_to(out, result) for out, result in zip((values, indices), mode(self, dim, keepdim), strict=True))
