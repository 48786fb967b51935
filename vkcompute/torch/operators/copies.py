"""Copies: between the device and the host, conversions, fills."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from vkcompute.arrays.expressions.ufunc import astype
from vkcompute.errors import MissingFeature
from vkcompute.runtime.memory.array import Array
from vkcompute.torch.element_types import array_dtype, bits_of, from_numpy, is_computed, to_numpy
from vkcompute.torch.kernels import DEVICE_NAME, composite, is_on_device, kernel
from vkcompute.torch.operands import require_same_elements
from vkcompute.torch.storage import n_elements, runtime, store, values_of, view_of, without_repeats

_to_copy, _copy = composite("_to_copy"), composite("copy_")
_NUMBERS = {float: torch.float64, complex: torch.complex128}
"""Dtypes of numbers of Python, which keep all of their bits; PyTorch infers the others so."""


@kernel("_to_copy")
def to_copy(self: Any, *, non_blocking: bool = False, **named: Any) -> Any:
    """Returns a copy with another dtype or device; it always waits, as pinned memory needs an allocator in C++."""
    return _to_copy(self, **named)


@kernel("copy_")
def copy(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Copies a tensor to another as PyTorch does, which calls `_copy_from`; one plan has both."""
    return _copy(self, src, non_blocking) if isinstance(src, torch.Tensor) else copy_from(src, self)


@kernel("_copy_from")
def copy_from(self: Any, dst: Any, non_blocking: bool = False) -> Any:
    """Copies a tensor, broadcast and converted, to another; one of the two may be on the host."""
    if not isinstance(self, torch.Tensor):  # PyTorch passes a number of `copy_` as one of Python
        return dst.fill_(torch.tensor(self, dtype=_NUMBERS.get(type(self)), device="cpu").to(dst.dtype).item())
    if self.size() != dst.size():  # not `shape`, which parameters without sizes refuse
        self = self.expand(dst.size())
    if not dst.numel():
        return dst
    require_same_elements(dst, self)
    if not is_on_device(dst):
        dst.copy_(to_host(self))
    elif not is_on_device(self):
        runtime().scheduler.refuse_recording("a copy of a tensor of the host", "copy it before the recording")
        _upload(self, dst)
    elif self.dtype == dst.dtype and not is_computed(self.dtype):
        _copy_bits(self, dst)
    elif not _is_converted(self, dst):
        _upload(to_host(self), dst)
    return dst


@kernel("_copy_from_and_resize")
def copy_from_and_resize(self: Any, dst: Any) -> Any:
    """Copies a tensor to another, which takes its sizes."""
    dst.resize_(self.shape)
    return copy_from(self, dst)


@kernel("_local_scalar_dense")
def local_scalar(self: Any) -> Any:
    """Returns the only element as a Python number."""
    return values_of(self).item() if is_computed(self.dtype) else to_host(self).item()


def to_host(tensor: Any) -> Any:
    """Returns a contiguous copy on the host."""
    if not tensor.numel():
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    return from_numpy(bits_of(values_of(tensor)).numpy(), tensor.dtype)


def _upload(source: Any, target: Any) -> None:
    """Writes a tensor of the host to one of the device."""
    source = source.to(target.dtype).resolve_conj().resolve_neg()
    if target.is_conj() or target.is_neg():
        source = source.conj().resolve_conj() if target.is_conj() else source.neg()
    store(target, runtime().array(to_numpy(source.contiguous())))


def _copy_bits(source: Any, target: Any) -> None:
    """Copies elements with which arrays do not compute."""
    array = view_of(source)
    store(target, array)


def _is_converted(source: Any, target: Any) -> bool:
    """Copies elements, lazily where the target is a whole storage; returns False if the device lacks a dtype."""
    try:
        _convert(source, target)
    except MissingFeature:
        return False
    return True


def _convert(source: Any, target: Any) -> None:
    array = values_of(source)
    if target.is_conj() or target.is_neg():
        array = values_of(_flagged_like(target, source))
    if array.dtype == array_dtype(target.dtype) and array.is_pending:
        array = astype(array, array.dtype)
    store(target, array)


def _flagged_like(target: Any, source: Any) -> Any:
    """Returns a source with the lazy conjugation and negation of a target, which is then written without them."""
    if source.is_complex() and target.is_conj():
        source = source.conj()
    return torch._neg_view(source) if target.is_neg() else source


@kernel("fill_.Scalar")
def fill(self: Any, value: Any) -> Any:
    """Sets all elements to a number."""
    if not self.numel():
        return self
    distinct = without_repeats(self)
    if view_of(distinct).shares_elements:
        return _fill_overlapping(self, value)
    number = torch.full((min(self.numel(), 2),), value, dtype=self.dtype, device="cpu")[0]  # of one, float16 has inf
    if not is_computed(self.dtype):
        _upload(number.expand(distinct.shape), distinct)
    else:
        store(distinct, filled(tuple(distinct.shape), number.item(), array_dtype(self.dtype)))
    return self


def _fill_overlapping(self: Any, value: Any) -> Any:
    """Sets all elements of a tensor some of which share memory: those of its storage at their addresses."""
    span = n_elements(self.shape, self.stride())
    addresses = torch.arange(span, device="cpu").as_strided(self.shape, self.stride()).unique()
    line = self.as_strided((span,), (1,), self.storage_offset())
    if len(addresses) == span:
        line.fill_(value)
    else:
        line.index_fill_(0, addresses.to(DEVICE_NAME), value)
    return self


@kernel("fill_.Tensor")
def fill_from(self: Any, value: Any) -> Any:
    """Sets all elements to that of a tensor."""
    if value.dim():
        dims = f"{value.dim()} dimensions"
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {dims}.")
    copy_from(value, self)
    return self


@kernel("zero_")
def zero(self: Any) -> Any:
    """Sets all elements to zero."""
    return fill(self, 0)


@kernel("equal")
def equal(self: Any, other: Any) -> bool:
    """Returns True if two tensors have the same shape and elements."""
    return self.shape == other.shape and bool(torch.eq(self, other).all().item())


def filled(shape: tuple[int, ...], value: Any, dtype: np.dtype[Any]) -> Array:
    """Returns an array with one value."""
    return runtime().full(shape, value, dtype)
