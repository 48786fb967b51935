"""Reads and writes at indices and masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from vkcompute.arrays.expressions.call_plan import planned
from vkcompute.arrays.expressions.ufunc import apply, assign, where
from vkcompute.arrays.functions import indexing, standard
from vkcompute.runtime.memory.array import Array
from vkcompute.torch.element_types import computed, wide
from vkcompute.torch.errors import warn
from vkcompute.torch.fallback import fall_back
from vkcompute.torch.kernels import DEVICE_NAME, is_on_device, kernel
from vkcompute.torch.operands import (
    axis_of,
    elementwise,
    indices_of,
    name_of,
    number_of,
    operand,
    require_apart,
    require_dtype,
    require_number,
    require_on_device,
)
from vkcompute.torch.operators.decompositions import composed
from vkcompute.torch.operators.scatters import index_sum, reduced
from vkcompute.torch.storage import (
    convert,
    copy_to,
    resize_to,
    runtime,
    store,
    values_of,
    view_of,
    without_repeats,
    wrap,
)

aten = torch.ops.aten
_index_copy = composed("index_copy.out")
_take, _take_along_axis = planned(standard.take), planned(standard.take_along_axis)
_get = planned(indexing.get)
_EXPANDED = (
    "Use of {} on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This "
    "also applies to advanced indexing e.g. tensor[mask] = scalar"
)
_MASK_OF_BYTES = "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."


def _key(indices: Sequence[Any]) -> tuple[Any, ...]:
    """Returns an index of arrays: slices for None, arrays for tensors."""
    key: list[Any] = []
    for index in indices:
        if index is None:
            key.append(slice(None))
        else:
            array = operand(index.to(DEVICE_NAME))
            key.append(array != 0 if index.dtype == torch.uint8 else array)
    return tuple(key)


def _expanded(indices: Sequence[Any]) -> list[Any]:
    """Returns indices without masks: the positions of their true elements, per axis."""
    result: list[Any] = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8) and index.dim():
            result.extend(torch.nonzero(index).unbind(1))
        else:
            result.append(index)
    return result


@kernel("index.Tensor_out")
def index(self: Any, indices: Sequence[Any], *, out: Any) -> Any:
    """Computes the elements at indices."""
    if not self.numel():
        _require_in_bounds(self, indices)
    if not out.numel():
        return out
    return store(out, _get(operand(self), _key(_expanded(indices))))


def _require_in_bounds(tensor: Any, indices: Sequence[Any]) -> None:
    """Raises IndexError if an axis without elements is given an index."""
    for n, at in zip(tensor.shape, _expanded(indices), strict=False):
        if at is not None and not n and at.numel():
            raise IndexError("index is out of bounds for dimension with size 0")


@kernel("_index_put_impl_")
def index_put(self: Any, indices: Sequence[Any], values: Any, accumulate: bool = False, unsafe: bool = False) -> Any:
    """Writes values to the elements at indices, or adds them."""
    if not self.numel():
        _require_in_bounds(self, indices)
        return self
    if self.dtype == torch.bool and accumulate:
        return fall_back(aten._index_put_impl_.default, self, indices, values, accumulate, unsafe)
    if any(index is not None and index.dtype == torch.uint8 for index in indices):
        warn(_MASK_OF_BYTES)
    require_apart(self, values, *indices)
    if not len(indices):
        return self.add_(values) if accumulate else self.copy_(values)
    indices = [None if index is None else index.to(DEVICE_NAME) for index in indices]
    is_mask = len(indices) == 1 and indices[0] is not None and indices[0].dtype == torch.bool
    if is_mask and values.numel() == 1 and not accumulate and indices[0].shape == self.shape:
        return torch.where(indices[0], values.to(self.dtype), self, out=self)
    if values.dtype != self.dtype:
        names = f"{name_of(self.dtype)} for the destination and {name_of(values.dtype)} for the source"
        raise RuntimeError(f"Index put requires the source and destination dtypes match, got {names}.")
    if values.numel() == 1 and not accumulate and without_repeats(self) is not self:
        mask = torch.zeros(self.shape, dtype=torch.bool, device="vk")
        index_put(mask, indices, torch.ones((), dtype=torch.bool, device="vk"))
        return _fill_where(self, mask, values.reshape(()), "index_put_")
    dtype = wide(self.dtype) if accumulate else computed(self.dtype)
    given, key = operand(values.to(DEVICE_NAME), dtype), _key(_expanded(indices))
    if any(isinstance(part, Array) and not part.size for part in key):
        return self
    target = operand(self, dtype).copy()
    (indexing.add if accumulate else indexing.put)(target, key, given)
    return store(self, target)


@kernel("index_select")
def index_select(self: Any, dim: int, index: Any) -> Any:
    """Returns slices at indices along an axis."""
    axis_of(dim, self.dim())
    if index.dim() > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    shape = list(self.shape)
    if not shape:
        _require_one(index)
        return self.clone()
    shape[dim] = index.numel()
    out = torch.empty(shape, dtype=self.dtype, device=DEVICE_NAME)
    return index_select_into(self, dim, index, out=out)


@kernel("index_select.out")
def index_select_into(self: Any, dim: int, index: Any, *, out: Any) -> Any:
    """Computes slices at indices along an axis."""
    require_dtype(out, self.dtype)
    require_apart(out, self, index)
    if not self.dim():
        _require_one(index)
        return copy_to(out, self)
    shape = list(self.shape)
    shape[dim] = index.numel()
    resize_to(out, shape)
    if not out.numel():
        return out
    axis = axis_of(dim, self.dim())
    if not self.shape[axis]:
        if self.dim() > 1:
            raise RuntimeError("index_select(): self indexing axis dim should be positive")
        raise IndexError("index out of range in self")
    return store(out, _take(operand(self), indices_of(index).reshape(-1), axis))


def _require_one(index: Any) -> None:
    """Raises RuntimeError if a tensor without axes is given more or less than one index."""
    if index.numel() != 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.numel()} value(s)")


@kernel("gather.out")
def gather(self: Any, dim: int, index: Any, *, sparse_grad: bool = False, out: Any) -> Any:
    """Computes the elements at indices along an axis, one index per element of the result."""
    require_dtype(out, self.dtype)
    require_apart(out, self, index)
    if not out.numel():
        return out
    array, at = operand(self), indices_of(index)
    if not self.dim() or not index.dim():
        array, at = array.reshape((-1,) if not self.dim() else array.shape), at.reshape(-1) if not index.dim() else at
    axis = axis_of(dim, array.ndim)
    array = _cut(array, at.shape, axis)
    return store(out, _take_along_axis(array, at, axis).reshape(tuple(index.shape)))


def _cut(array: Array, shape: Sequence[int], axis: int) -> Array:
    """Returns the elements within a shape, but along an axis."""
    key = tuple(slice(None) if at == axis else slice(0, n) for at, n in enumerate(shape))
    return array[key] if key else array


def _positions(index: Array, axis: int) -> tuple[Array, ...]:
    """Returns the index of each element along all axes, for scatter."""
    parts: list[Array] = []
    for at, n in enumerate(index.shape):
        steps = runtime().array(np.arange(n, dtype=np.int64)).reshape((n, *(1,) * (index.ndim - at - 1)))
        parts.append(index if at == axis else steps.broadcast_to(index.shape))
    return tuple(parts)


def _scatter(self: Any, dim: int, index: Any, source: Any, out: Any, *, adds: bool) -> Any:
    require_apart(out, index, source)
    dtype = wide(out.dtype) if adds else computed(out.dtype)
    target, at = operand(self, dtype).copy(), indices_of(index)
    if at.size:
        shape = target.shape
        target, at = target.reshape(shape or (1,)), at.reshape(at.shape or (1,))
        axis = axis_of(dim, target.ndim)
        given: Any
        if isinstance(source, torch.Tensor):
            given = operand(source, dtype)
            given = _cut(given, at.shape, -1) if given.ndim else given.reshape(1)
        else:
            given = runtime().full((), source, dtype)
        (indexing.add if adds else indexing.put)(target, _positions(at, axis), given)
        target = target.reshape(shape)
    return store(out, target)


@kernel("scatter.src_out")
def scatter(self: Any, dim: int, index: Any, src: Any, *, out: Any) -> Any:
    """Computes a tensor with the elements of a source at indices along an axis."""
    return _scatter(self, dim, index, src, out, adds=False)


@kernel("scatter.value_out")
def scatter_value(self: Any, dim: int, index: Any, value: Any, *, out: Any) -> Any:
    """Computes a tensor with a number at indices along an axis."""
    return _scatter(self, dim, index, value, out, adds=False)


@kernel("scatter_add.out")
def scatter_add(self: Any, dim: int, index: Any, src: Any, *, out: Any) -> Any:
    """Computes a tensor plus the elements of a source at indices along an axis."""
    if self.dtype == torch.bool:
        return copy_to(out, reduced(self, dim, index, src, "sum"))
    return _scatter(self, dim, index, src, out, adds=True)


@kernel("index_add.out")
def index_add(self: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1, out: Any) -> Any:
    """Computes a tensor plus slices of a source at indices along an axis."""
    require_apart(out, index, source)
    if self.dtype == torch.bool or not self.dim():
        return copy_to(out, index_sum(self, dim, index, source if alpha == 1 else source * alpha))
    dtype = wide(out.dtype)
    target, given = operand(self, dtype).copy(), operand(source, dtype)
    if index.numel() and given.size:
        given = given if alpha == 1 else apply("multiply", given, number_of(alpha, dtype))
        key = (*[slice(None)] * axis_of(dim, self.dim()), indices_of(index).reshape(-1))
        indexing.add(target, key, given)
    return store(out, target)


@kernel("index_copy.out")
def index_copy(self: Any, dim: int, index: Any, source: Any, *, out: Any) -> Any:
    """Computes a tensor with slices of a source at indices along an axis."""
    require_apart(out, index, source)
    beyond = torch.iinfo(index.dtype).max
    return _index_copy(self, dim, torch.where(index < 0, beyond, index), source, out=out)


def _filled(name: str) -> Callable[..., Any]:
    compute = composed(name)

    def run(self: Any, dim: int, index: Any, value: Any) -> Any:
        if isinstance(value, complex) and not self.is_complex():
            raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
        n = self.shape[axis_of(dim, self.dim())] if self.dim() else 1
        at = torch.where(index < 0, index + n, index)
        if without_repeats(self) is self:
            return compute(self, dim, at, value)
        mask = torch.zeros(self.shape, dtype=torch.bool, device="vk").index_fill_(dim, at, True)
        return _fill_where(self, mask, value, "index_fill_")

    return run


for _name in ("index_fill_.int_Scalar", "index_fill_.int_Tensor"):
    kernel(_name)(_filled(_name))


@kernel("embedding_dense_backward")
def embedding_backward(
    grad_output: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    """Returns the gradient of an embedding's weight: the sums of the rows with the same index."""
    if scale_grad_by_freq:
        backward = aten.embedding_dense_backward.default
        return fall_back(backward, grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)
    n = grad_output.shape[-1]
    dtype = wide(grad_output.dtype)
    total = runtime().zeros((num_weights, n), dtype)
    at = indices_of(indices).reshape(-1)
    if at.size and n:
        indexing.add(total, at, operand(grad_output, dtype).reshape((-1, n)))
        if 0 <= padding_idx < num_weights:
            total[padding_idx] = 0
    return wrap(convert(total, computed(grad_output.dtype)))


@kernel("masked_fill_.Scalar", "masked_fill_.Tensor")
def masked_fill(self: Any, mask: Any, value: Any) -> Any:
    """Sets the elements where a mask is true."""
    is_complex = value.is_complex() if isinstance(value, torch.Tensor) else isinstance(value, complex)
    if is_complex and not self.is_complex():
        raise RuntimeError(f"value cannot be converted to type {self.dtype} without overflow")
    if isinstance(value, torch.Tensor) and value.dim():
        raise RuntimeError(f"masked_fill_ only supports a 0-dimensional value tensor, but got {value.dim()} dimensions")
    if mask.dtype != torch.bool:  # raises PyTorch's error
        torch.zeros(1, device="cpu").masked_fill_(torch.zeros(1, dtype=mask.dtype, device="cpu"), 0)
    if not isinstance(value, torch.Tensor):
        require_number(value, self.dtype)
    return _fill_where(self, mask, value, "masked_fill_")


def _fill_where(self: Any, mask: Any, value: Any, name: str) -> Any:
    """Sets the elements where a mask is true; warns of an operator's name if elements of the tensor are repeated."""
    distinct = without_repeats(self)
    if distinct is not self:
        warn(_EXPANDED.format(name))
        repeated = [axis for axis, n in enumerate(distinct.shape) if n != self.shape[axis]]
        mask = mask.expand(self.shape).any(repeated, keepdim=True) if repeated else mask
    elementwise(distinct, lambda m, v, x: where(m, v, x), mask, _converted(value, self.dtype), distinct)
    return self


def _converted(value: Any, dtype: Any) -> Any:
    """Returns a number or a tensor in a dtype: a number of NumPy, or a tensor."""
    return (
        operand(value, computed(dtype))
        if not isinstance(value, torch.Tensor) or not is_on_device(value)
        else value.to(dtype)
    )


@kernel("nonzero")
def nonzero(self: Any) -> Any:
    """Returns the indices of the elements that are not zero, a row each."""
    if not self.numel():
        return torch.empty((0, self.dim()), dtype=torch.int64, device=DEVICE_NAME)
    if not self.dim():
        return torch.empty((int(bool(self.item())), 0), dtype=torch.int64, device=DEVICE_NAME)
    axes = [wrap(array, torch.int64) for array in standard.nonzero(operand(self))]
    return torch.stack(axes).t()  # with the strides of other devices


@kernel("nonzero.out")
def nonzero_into(self: Any, *, out: Any) -> Any:
    """Computes the indices of the elements that are not zero, a row each."""
    if out.dtype != torch.int64:
        raise RuntimeError(f"nonzero: Expected out tensor to have scalar type Long but got {out.dtype}")
    require_on_device(out)
    require_apart(out, self)
    return copy_to(out, nonzero(self))


@kernel("masked_select")
def masked_select(self: Any, mask: Any) -> Any:
    """Returns the elements where a mask is true."""
    if mask.dtype != torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    self, mask = torch.broadcast_tensors(self, mask)
    return self.contiguous().reshape(-1)[torch.nonzero(mask.reshape(-1)).reshape(-1)]


@kernel("masked_select.out")
def masked_select_into(self: Any, mask: Any, *, out: Any) -> Any:
    """Computes the elements where a mask is true."""
    require_apart(out, self, mask)
    return copy_to(out, masked_select(self, mask))


@kernel("take")
def take(self: Any, index: Any) -> Any:
    """Returns elements at indices of the flattened tensor."""
    return aten.index.Tensor(self.reshape(-1), [index]).contiguous()  # `[index]` of a number is a view


@kernel("take.out")
def take_into(self: Any, index: Any, *, out: Any) -> Any:
    """Computes elements at indices of the flattened tensor."""
    require_dtype(out, self.dtype)
    require_apart(out, self, index)
    return copy_to(out, torch.take(self, index))


@kernel("cat.out")
def cat(tensors: Sequence[Any], dim: int = 0, *, out: Any) -> Any:
    """Computes tensors side by side along an axis."""
    require_apart(out, *tensors)
    parts = [tensor for tensor in tensors if tensor.dim() != 1 or tensor.numel()]
    if not parts:
        return copy_to(out, tensors[0])
    axis = axis_of(dim, parts[0].dim())
    shape = list(parts[0].shape)
    for number, tensor in enumerate(tensors):
        if tensor.dim() != 1 or tensor.numel():
            _require_beside(tensor, shape, axis, number)
    shape[axis] = sum(tensor.shape[axis] for tensor in parts)
    return store(out, _joined(tuple(shape), axis, *[_bits(tensor, out.dtype) for tensor in parts]))


def _require_beside(tensor: Any, shape: Sequence[int], axis: int, number: int) -> None:
    """Raises RuntimeError unless a tensor has a shape, except along an axis."""
    if tensor.dim() != len(shape):
        raise RuntimeError(f"Tensors must have same number of dimensions: got {len(shape)} and {tensor.dim()}")
    for other, (wanted, given) in enumerate(zip(shape, tensor.shape, strict=True)):
        if other != axis and wanted != given:
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {axis}. Expected size {wanted} but got size {given} "
                f"for tensor number {number} in the list."
            )


@planned
def _joined(shape: tuple[int, ...], axis: int, *parts: Array) -> Array:
    """Returns arrays of one dtype side by side along an axis, by their bits."""
    joined, start = runtime().empty(shape, parts[0].dtype), 0
    for part in parts:
        stop = start + part.shape[axis]
        if part.size:
            where = (*[slice(None)] * axis, slice(start, stop))
            assign(joined[where], part)
        start = stop
    return joined


def _bits(tensor: Any, dtype: Any) -> Array:
    """Returns the elements as they are stored in a dtype."""
    same = tensor if tensor.dtype == dtype else tensor.to(dtype)
    return view_of(same) if not (same.is_conj() or same.is_neg()) else values_of(same)


@kernel("put_")
def put(self: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Writes elements at indices of the flattened tensor, or adds them."""
    flat = self.reshape(-1).clone()
    return self.copy_(flat.index_put_((index.reshape(-1),), source.reshape(-1), accumulate).view(self.shape))


@kernel("masked_scatter_")
def masked_scatter(self: Any, mask: Any, source: Any) -> Any:
    """Writes elements of a source, in order, where a mask is true."""
    if mask.dtype != torch.bool:
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    if self.dtype != source.dtype:
        raise RuntimeError(f"masked_scatter_: expected self and source to have same dtypes but got {self.dtype} and "
                           f"{source.dtype}")  # fmt: skip
    positions = torch.nonzero(mask.expand(self.shape).reshape(-1)).reshape(-1)
    if positions.numel() > source.numel():
        raise RuntimeError("masked_scatter: expected source to have at least as many elements as the mask has ones")
    return put(self, positions, source.reshape(-1)[: positions.numel()])
