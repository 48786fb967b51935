"""Tensors without computing: empty ones, views, storages, sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from vkcompute.torch.element_types import array_dtype
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.storage import (
    Memory,
    contiguous_strides,
    enlarged,
    memory_of_storage,
    n_elements,
    new_storage,
    set_storage,
)
from vkcompute.torch.storage import empty as _empty

_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_as_strided, _view = (
    partial(torch.library.get_kernel(f"aten::{name}", "CPU").call_boxed, _CPU) for name in ("as_strided", "view")
)
"""PyTorch's views of a storage, whose bounds it checks; without a frame of Python, as programs make many."""


def _filled(tensor: Any) -> Any:
    """Returns a tensor without elements yet; with NaN or the largest number where algorithms are deterministic."""
    if not (torch._C._get_deterministic_algorithms() and torch.utils.deterministic.fill_uninitialized_memory):
        return tensor
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor.fill_(math.nan)
    return tensor.fill_(True if tensor.dtype == torch.bool else torch.iinfo(tensor.dtype).max)


def _require_sizes(size: Sequence[int]) -> None:
    """Raises RuntimeError if a size is negative."""
    if len(size) and min(size) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")


def _require_device(device: Any) -> None:
    """Raises RuntimeError, as CUDA does, if a device has an index other than 0."""
    if device is not None and device.index:
        raise RuntimeError(
            f"invalid device ordinal: {device}; {DEVICE_NAME} is one device, with index 0; VKCOMPUTE_DEVICE chooses it"
        )


@kernel("empty.memory_format")
def empty(
    size: Sequence[int], *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None,
    memory_format: Any = None,
) -> Any:  # fmt: skip
    """Returns a tensor with arbitrary elements."""
    dtype = torch.get_default_dtype() if dtype is None else dtype
    _require_sizes(size)
    _require_device(device)
    if memory_format in (torch.channels_last, torch.channels_last_3d):
        strides = torch.empty(size, device="meta", memory_format=memory_format).stride()
        return _filled(_empty(size, strides, dtype))
    return _filled(_empty(size, contiguous_strides(size), dtype))


@kernel("empty_strided")
def empty_strided(
    size: Sequence[int], stride: Sequence[int], *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None,
) -> Any:  # fmt: skip
    """Returns a tensor with arbitrary elements and these strides."""
    _require_sizes(size)
    _require_device(device)
    return _filled(_empty(size, stride, torch.get_default_dtype() if dtype is None else dtype))


@kernel("_efficientzerotensor")
def zeros(
    size: Sequence[int], *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Any:
    """Returns zeros, as forward derivatives have them for what does not depend on the input."""
    return empty(size, dtype=dtype).zero_()


kernel("as_strided")(_as_strided)
kernel("view")(_view)


@kernel("_reshape_alias")
def reshape_alias(self: Any, size: Sequence[int], stride: Sequence[int]) -> Any:
    """Returns a view with sizes and strides that PyTorch has computed."""
    return _as_strided(self, size, stride, self.storage_offset())


@kernel("set_.source_Storage_storage_offset")
def set_at(self: Any, source: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int] = ()) -> Any:
    """Sets the storage, and the view of it."""
    strides = stride if len(stride) == len(size) else contiguous_strides(size)
    needed = n_elements(size, strides, storage_offset) * self.element_size()
    if needed > source.nbytes():
        source = _grown(source, needed)
    return set_storage(self, source, storage_offset, size, strides)


@kernel("set_.source_Storage")
def set_whole(self: Any, source: Any) -> Any:
    """Sets the storage; the tensor has all of it."""
    return set_storage(self, source, 0, [source.nbytes() // self.element_size()], [1])


@kernel("set_.source_Tensor")
def set_like(self: Any, source: Any) -> Any:
    """Makes the tensor the same view as another."""
    storage, offset = source.untyped_storage(), source.storage_offset()
    return set_storage(self, storage, offset, tuple(source.shape), source.stride())


@kernel("set_")
def set_empty(self: Any) -> Any:
    """Gives the tensor a storage without bytes."""
    return set_storage(self, new_storage(Memory(0)), 0, [0], [1])


@kernel("resize_")
def resize(self: Any, size: Sequence[int], *, memory_format: Any = None) -> Any:
    """Changes the sizes; a storage that is too small is replaced, and its bytes are kept.

    Views on the old storage keep it, and its bytes are a part of the new one's: PyTorch has no way to enlarge a storage
    of a device in Python.
    """
    if tuple(size) == tuple(self.shape):
        return self
    _require_sizes(size)
    strides = contiguous_strides(size)
    if memory_format in (torch.channels_last, torch.channels_last_3d):
        strides = torch.empty(size, device="meta", memory_format=memory_format).stride()
    storage, offset = self.untyped_storage(), self.storage_offset()
    needed = n_elements(size, strides, offset) * self.element_size()
    if storage.nbytes() < needed:
        array_dtype(self.dtype)
        n_kept, storage = storage.nbytes() // self.element_size(), _grown(storage, needed)
        set_storage(self, storage, offset, size, strides)
        _filled(self.as_strided((needed // self.element_size() - n_kept,), (1,), n_kept))
        return self
    return set_storage(self, storage, offset, size, strides)


def _grown(storage: Any, nbytes: int) -> Any:
    """Returns a larger storage that begins with the bytes of another, which are a part of its memory then."""
    return new_storage(enlarged(memory_of_storage(storage), nbytes) if storage.nbytes() else Memory(nbytes))


@kernel("record_stream")
def record_stream(self: Any, s: Any) -> None:
    """Does nothing: memory is reused in the order of the work that uses it."""
