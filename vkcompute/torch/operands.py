"""Operands of kernels of elements: arrays in one dtype, in the order of the result's memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from vkcompute.arrays.expressions.lazy import postponed
from vkcompute.dtypes import small_float
from vkcompute.runtime.memory.array import Array
from vkcompute.torch.element_types import TORCH, computed, wide
from vkcompute.torch.errors import other_device
from vkcompute.torch.kernels import is_on_device
from vkcompute.torch.storage import convert, covers_storage, memory_of, memory_order, resize_to, store, values_of

_is_alias_of = torch._C._is_alias_of
_OF_INTEGERS = set("bitwise_and bitwise_or bitwise_xor gcd invert lcm left_shift right_shift".split())
_OF_FLOATS = set("hypot logaddexp logaddexp2 nextafter".split())
_OF_REAL_NUMBERS = set(
    "ceil floor fmax fmin fmod greater greater_equal less less_equal maximum minimum remainder rint trunc".split()
)
"""Functions that PyTorch has for elements of a kind, by the names of arrays' rows."""


def operand(value: Any, dtype: np.dtype[Any] | None = None) -> Any:
    """Returns an operand: an array, or a number of NumPy for a number or a tensor of the host without axes.

    Args:
        dtype: to which it is converted; None to keep its own.

    Raises:
        NotComputedError: arrays do not compute with the tensor's dtype.
        RuntimeError: the tensor is on another device.
    """
    if is_on_device(value):
        computed(value.dtype)
        array = values_of(value)
        return array if dtype is None or array.dtype is dtype else convert(array, dtype)
    if isinstance(value, torch.Tensor):
        if value.dim():
            raise other_device(value.device)
        value = value.item()
    return np.asarray(value)[()] if dtype is None else number_of(value, dtype)


def indices_of(index: Any) -> Array:
    """Returns the indices of a tensor, of which negative ones are out of range: as unsigned numbers, without a copy."""
    array: Array = operand(index)
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "i" else array


def number_of(value: Any, dtype: np.dtype[Any]) -> Any:
    """Returns a number in a dtype, as PyTorch converts it: integers wrap around."""
    if small_float(dtype):
        return dtype.type(value)
    if dtype.kind in "iu" and not isinstance(value, complex):
        return np.asarray(int(value) & (2 ** (8 * dtype.itemsize) - 1), f"u{dtype.itemsize}").astype(dtype)[()]
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)[()]


def require_number(value: Any, dtype: Any) -> None:
    """Raises PyTorch's RuntimeError for a number that a dtype does not hold; None and tensors are not checked."""
    if isinstance(value, complex) or (isinstance(value, (int, float)) and not 0 <= value < 128):
        torch.full((2,), value, dtype=dtype, device="cpu")  # of one float16, PyTorch makes infinity


def elementwise(out: Any, compute: Callable[..., Any], *values: Any, dtype: Any = None, is_wide: bool = True) -> Any:
    """Writes a function of elements to a tensor, which is returned.

    Floats of 16 bits are computed in float32, as PyTorch does, and rounded at the end.

    Args:
        compute: of arrays and numbers, at least one of them an array.
        values: tensors and numbers that broadcast to the shape of `out`.
        dtype: PyTorch's, to which values are converted; None to keep theirs.
        is_wide: False to compute floats of 16 bits in their dtype.

    Raises:
        RuntimeError: a value shares memory with `out`, but is another view of it, or `out` has a narrower kind of
            elements.
    """
    require_same_elements(out, *values)
    _fit(out, values)
    if not out.numel():
        return out
    if not out.is_contiguous() and covers_storage(out):
        order = memory_order(out)
        turned = [_turned(value, out.shape, order) for value in values]
        elementwise(out.permute(order), compute, *turned, dtype=dtype, is_wide=is_wide)
        return out
    of_type = wide if is_wide else computed
    wanted = None if dtype is None else of_type(dtype)
    arrays = [operand(value, wanted or _own(value, of_type)) for value in values]
    if Array not in map(type, arrays):
        return out.copy_(torch.from_numpy(np.asarray(compute(*arrays))))
    if not memory_of(out).is_shared:
        _store(out, compute, arrays, dtype)
        return out
    with postponed():
        _store(out, compute, arrays, dtype)
    return out


def _store(out: Any, compute: Callable[..., Any], arrays: list[Any], dtype: Any) -> None:
    """Writes a function of arrays and numbers, which nobody has afterwards, so that it is computed in place."""
    result = compute(*arrays)
    if dtype is not None and dtype is not out.dtype and not torch.can_cast(TORCH[result.dtype], out.dtype):
        require_cast(dtype, out)
    store(out, result, fresh=id(result) not in map(id, arrays))


def require_on_device(*outs: Any) -> None:
    """Raises RuntimeError if a tensor for results is on another device, even one without axes or elements."""
    for out in outs:
        if isinstance(out, torch.Tensor) and not is_on_device(out):
            raise other_device(out.device)


def require_cast(dtype: Any, out: Any) -> None:
    """Raises RuntimeError if a tensor for results of a dtype has elements of a narrower kind: integers for floats."""
    if not torch.can_cast(dtype, out.dtype):
        given, wanted = name_of(dtype), name_of(out.dtype)
        raise RuntimeError(f"result type {given} can't be cast to the desired output type {wanted}")


def name_of(dtype: Any) -> str:
    """Returns the name of a dtype in PyTorch's errors, as Float."""
    return re.sub(r"torch\.|Tensor", "", torch.empty(0, dtype=dtype, device="cpu").type())


def require_same_elements(out: Any, *operands: Any) -> None:
    """Raises RuntimeError where PyTorch does: a tensor for results shares a part of the elements of an operand."""
    for value in operands:
        is_alias = value is not out and isinstance(value, torch.Tensor) and _is_alias_of(out, value)
        if is_alias and _shared_part(out, value) == "a part":
            raise _overlap_error()


def require_apart(out: Any, *operands: Any) -> None:
    """Raises RuntimeError where PyTorch does: a tensor for results shares elements with one of these operands."""
    for value in operands:
        if isinstance(value, torch.Tensor) and _is_alias_of(out, value) and _shared_part(out, value) != "none":
            raise _overlap_error()


def _shared_part(out: Any, value: Any) -> str:
    """Returns "all", "a part" or "none": what two tensors of one storage share; "none" where one is not dense."""
    if any(torch._debug_has_internal_overlap(tensor) for tensor in (out, value)):
        return "none"
    starts = [tensor.storage_offset() * tensor.element_size() for tensor in (out, value)]
    ends = [start + tensor.nbytes for start, tensor in zip(starts, (out, value), strict=True)]
    if max(starts) >= min(ends):
        return "none"
    return "all" if starts[0] == starts[1] and ends[0] == ends[1] and out.stride() == value.stride() else "a part"


def _overlap_error() -> RuntimeError:
    return RuntimeError(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
        "memory location. Please clone() the tensor before performing the operation."
    )


def _own(value: Any, of_type: Callable[[Any], np.dtype[Any]]) -> np.dtype[Any] | None:
    """Returns the dtype in which a tensor is computed; None for a number."""
    return of_type(value.dtype) if is_on_device(value) else None


def _turned(value: Any, shape: Any, order: tuple[int, ...]) -> Any:
    if not isinstance(value, torch.Tensor) or not value.dim():
        return value
    return value.expand(shape).permute(order)


def _fit(out: Any, values: Any) -> None:
    """Gives `out` the shape of the result, if PyTorch has not.

    Raises:
        RuntimeError: it has another shape, and is an operand.
    """
    shape = out.shape
    for value in values:
        if isinstance(value, torch.Tensor) and value.shape != shape:
            wanted = torch.broadcast_shapes(*[other.shape for other in values if isinstance(other, torch.Tensor)])
            if wanted != shape and any(other is out for other in values):
                rule = "output with shape {} doesn't match the broadcast shape {}"
                raise RuntimeError(rule.format(list(shape), list(wanted)))
            resize_to(out, wanted)
            return


def axis_of(dim: int, n_axes: int) -> int:
    """Returns an axis, counted from the first one.

    Raises:
        IndexError: a tensor of so many axes has no such one; without axes, it has one for this.
    """
    n = n_axes or 1
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return dim % n


def axes_of(dim: Any, n_axes: int) -> tuple[int, ...]:
    """Returns the axes of an argument `dim`, an axis or a list: all for None and for an empty list.

    Raises:
        IndexError: there is no such axis.
        RuntimeError: an axis is given twice.
    """
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(n_axes))
    axes = tuple([axis_of(axis, n_axes) for axis in ((dim,) if isinstance(dim, int) else dim)])
    if len(set(axes)) < len(axes):
        repeated = next(axis for axis in axes if axes.count(axis) > 1)
        raise RuntimeError(f"dim {repeated} appears multiple times in the list of dims")
    return axes if n_axes else ()


def require_floats(name: str, tensor: Any, *others: Any) -> None:
    """Raises PyTorch's NotImplementedError for a tensor that has neither floats nor one of these other dtypes."""
    if not tensor.is_floating_point() and tensor.dtype not in others:
        raise NotImplementedError(f"\"{name}\" not implemented for '{name_of(tensor.dtype)}'")


def require_kind(row: str, dtype: Any) -> None:
    """Raises PyTorch's NotImplementedError for a function of elements that it does not have for a dtype."""
    is_float = dtype.is_floating_point or dtype.is_complex
    if row in (_OF_INTEGERS if is_float else _OF_FLOATS) or (row in _OF_REAL_NUMBERS and dtype.is_complex):
        raise NotImplementedError(f"\"{row}\" not implemented for '{name_of(dtype)}'")


def require_dtype(out: Any, dtype: Any) -> None:
    """Raises RuntimeError if a tensor for results has another dtype than these."""
    if out.dtype != dtype:
        raise RuntimeError(f"Expected out tensor to have dtype {dtype}, but got {out.dtype} instead")
