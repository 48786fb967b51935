"""Storages of tensors: device memory behind addresses that the host cannot read.

A storage of PyTorch has an attribute with its `Memory`, which lives as long as the storage. Its address is none of the
host's: a dereference is a fault, not a wrong number. The array of a memory may be lazy. An operation that writes all
elements replaces the array, so that updates in place fuse like others, and nobody who has read the old array waits.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import torch

from vkcompute.arrays.expressions.ufunc import apply, assign, astype, part
from vkcompute.core.buffer import Buffer
from vkcompute.errors import VkComputeError
from vkcompute.runtime.graphs.results import new_result
from vkcompute.runtime.memory import layout
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime, default_runtime
from vkcompute.runtime.scheduling.placeholders import Placeholder
from vkcompute.torch import made
from vkcompute.torch.element_types import ARRAYS, TORCH, array_dtype
from vkcompute.torch.errors import other_device, warn
from vkcompute.torch.kernels import DEVICE_NAME, DEVICE_TYPES, is_on_device

_construct_storage = torch._C._construct_storage_from_data_pointer
_create_tensor = torch._C._acc.create_empty_tensor
_CPU_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_set_storage = torch.library.get_kernel("aten::set_.source_Storage_storage_offset", "CPU").call_boxed
_DEVICE = torch.device(DEVICE_NAME, 0)
_NON_CANONICAL = 1 << 62  # no address of a processor with 48 or 57 bits of virtual addresses
_OFFSET_BITS = 40
_numbers = itertools.count()


class _Reference(weakref.ref["Memory"]):
    """A weak reference to a memory, which keeps its address.

    Attributes:
        address: for the next memory once this one has none; not set if an interrupt has prevented it.
    """

    __slots__ = ("address",)
    address: int


_free: list[_Reference] = []
"""References to memories that are gone."""
_memories: dict[int, _Reference] = {}
"""The last memory with each address, for storages that PyTorch makes of one."""


class Memory:
    """The memory of one storage.

    Attributes:
        address: a unique number that no pointer of the host has.
        nbytes: the size of the storage.
        visible_nbytes: the size that PyTorch sees: `nbytes`, or less after `UntypedStorage.resize_`.
        whole: the array with all elements, which may be lazy; None before somebody has written some.
        is_shared: True if an array outside of PyTorch, or a recorded program, has the same memory, so that it is never
            replaced. While a program is recorded, it is an `InPlaceUpdates`.
    """

    __slots__ = ("__weakref__", "_reference", "address", "is_shared", "nbytes", "visible_nbytes", "whole")

    def __init__(self, nbytes: int, array: Array | None = None, *, is_shared: bool = False) -> None:
        try:
            address = _free.pop().address
        except (IndexError, AttributeError):
            address = _NON_CANONICAL + (next(_numbers) << _OFFSET_BITS)
        self._reference = _memories[address] = reference = _Reference(self, _free.append)
        self.address = reference.address = address
        self.nbytes = self.visible_nbytes = nbytes
        self.is_shared: bool | InPlaceUpdates = is_shared
        self.whole: Array | None = array
        if array is not None:
            array.owner = reference

    def array(self, dtype: np.dtype[Any]) -> Array:
        """Returns the whole memory, allocated on first use with this dtype."""
        if self.whole is None:
            if not self.visible_nbytes and self.nbytes:
                raise RuntimeError(
                    f"a tensor's storage of {self.nbytes} bytes was resized to 0 bytes; call its resize_({self.nbytes})"
                )
            length, rest = divmod(self.nbytes, dtype.itemsize)
            shape = (self.nbytes,) if rest else (length,)
            self.replace(new_result(runtime(), shape, np.dtype(np.uint8) if rest else dtype))
        return self.whole  # type: ignore[return-value]

    def replace(self, array: Array) -> None:
        """Sets the array that has all elements; nobody else may write to it."""
        self.whole, array.owner = array, self._reference

    def resize(self, nbytes: int) -> None:
        """Changes the visible size. At 0 bytes the array is dropped, and with it the memory, unless it is shared.

        Raises:
            RuntimeError: the size is more than the original one.
        """
        if not 0 <= nbytes <= self.nbytes:
            raise RuntimeError(
                f"a storage of the device {DEVICE_NAME} with {self.nbytes} bytes has 0 to {self.nbytes} after resize_; "
                f"got {nbytes}; make a larger tensor and copy to it"
            )
        self.visible_nbytes = nbytes
        if not nbytes and not self.is_shared:
            self.whole = None

    def has(self, array: Array) -> bool:
        """True if this is the array of the memory."""
        return self.whole is array

    def view(self, offset: int, shape: tuple[int, ...], strides: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """Returns elements as an array; offset and strides count elements of the dtype."""
        if 0 in shape:
            return runtime().empty(shape, dtype)
        whole, itemsize = self.array(dtype), dtype.itemsize
        steps = tuple([stride * itemsize for stride in strides])
        alike = whole.dtype == dtype and not offset and layout.is_contiguous(shape, steps, itemsize)
        if alike and whole.shape == shape and whole.contiguous:
            return whole
        return whole.viewed(offset * itemsize, shape, steps, dtype)


class InPlaceUpdates:
    """The memories that exist now, whose arrays are not replaced while a program is recorded.

    What the program updates, it writes in place, as its replays do.
    """

    def __init__(self) -> None:
        memories = [reference() for reference in list(_memories.values())]
        self._memories = [(memory, memory.whole is None) for memory in memories if memory and not memory.is_shared]
        for memory, _ in self._memories:
            memory.is_shared = self

    def release(self, used: Container[Buffer]) -> None:
        """Allows the arrays to be replaced, but for those in buffers that the recording uses.

        Raises:
            ValueError: the program has allocated the memory of a tensor, which it would have in one replay only.
        """
        allocated = False
        for memory, was_empty in self._memories:
            array = memory.whole
            if was_empty and array is not None and isinstance(array.buffer, Placeholder):
                memory.whole, allocated = None, True
            if memory.is_shared is self:
                memory.is_shared = not (was_empty or array is None or array.is_pending) and array.buffer in used
        if allocated:
            raise ValueError("the program writes to a tensor that had no elements yet; fill it before the first call")


def runtime() -> Runtime:
    """Returns the runtime of the device, which is opened on first use."""
    return default_runtime()


def compute_pending() -> None:
    """Launches what tensors hold as expressions."""
    for reference in list(_memories.values()):
        memory = reference()
        array = None if memory is None else memory.whole
        if array is not None and array.is_pending:
            array.compute()


def keep_elements(values: Any) -> None:
    """Keeps the elements of tensors that an operator was to write when an interrupt ended it.

    A launch that an interrupt prevents has failed, and so would all reads of the memory that it was to write. In
    PyTorch, a tensor has its elements of before, or new ones.

    Args:
        values: tensors and others, in lists and tuples.
    """
    opened = runtime()
    with contextlib.suppress(VkComputeError):  # of the launch, in whose place the interrupt is raised
        opened.wait()
    for tensor in filter(is_on_device, torch.utils._pytree.tree_leaves(values)):
        array = memory_of(tensor).whole
        if array is not None and not array.is_pending:
            opened.scheduler.overwritten(array.buffer, 0, array.buffer.nbytes)


def memory_of(tensor: Any) -> Memory:
    """Returns the memory of a tensor of the device."""
    storage = tensor.untyped_storage()
    try:
        return storage._vk  # type: ignore[no-any-return]
    except AttributeError:
        return memory_of_storage(storage)


def memory_of_storage(storage: Any) -> Memory:
    """Returns the memory of a storage of the device."""
    try:
        return storage._vk  # type: ignore[no-any-return]
    except AttributeError:
        storage._vk = memory = _adopted(storage)
        return memory


def _adopted(storage: Any) -> Memory:
    """Returns the memory of a storage that PyTorch has made of an address, as it does to save one.

    Raises:
        RuntimeError: no memory has the address, or the storage is on another device.
    """
    if storage.device.type not in DEVICE_TYPES:
        raise other_device(storage.device)
    offset = storage.data_ptr() & (1 << _OFFSET_BITS) - 1
    reference = _memories.get(storage.data_ptr() - offset)
    owner = None if reference is None else reference()
    if owner is None or offset + storage.nbytes() > owner.nbytes:
        raise RuntimeError(f"no memory of the device {DEVICE_NAME} is at {storage.data_ptr():#x}; its owner is gone")
    owner.is_shared = True
    one = np.dtype("uint8")
    return Memory(storage.nbytes(), owner.view(offset, (storage.nbytes(),), (1,), one), is_shared=True)


def enlarged(memory: Memory, nbytes: int) -> Memory:
    """Returns a larger memory that begins with the bytes of another: that and all within it become parts of it."""
    bytes_dtype = array_dtype(torch.uint8)
    whole = memory.array(bytes_dtype)
    whole.compute()
    start, n_old = whole.offset, min(memory.nbytes, nbytes)
    larger = Memory(nbytes, runtime().empty((nbytes,), bytes_dtype), is_shared=True)
    larger.view(0, (n_old,), (1,), bytes_dtype)[:] = memory.view(0, (n_old,), (1,), bytes_dtype)
    for reference in list(_memories.values()):
        part = reference()
        array = None if part is None else part.whole
        if part is None or array is None or array.is_pending or array.buffer is not whole.buffer:
            continue
        if start <= array.offset and array.offset + part.nbytes <= start + n_old:
            part.whole, part.is_shared = larger.view(array.offset - start, (part.nbytes,), (1,), bytes_dtype), True
    return larger


def new_storage(memory: Memory) -> Any:
    """Returns a storage of PyTorch that owns a memory."""
    storage = _construct_storage(memory.address, _DEVICE, memory.nbytes)
    storage._vk = memory
    return storage


def tensor_of(memory: Memory, dtype: Any, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Any:
    """Returns a tensor on a memory; offset and strides count elements."""
    tensor_layout = None if offset else layout_of(dtype, tuple(shape), tuple(strides))
    if tensor_layout is not None and tensor_layout.nbytes == memory.nbytes:
        return tensor_on(memory, tensor_layout)
    tensor = _create_tensor((), dtype)
    _set_storage(_CPU_KEYS, tensor, new_storage(memory), offset, shape, strides)
    return tensor


def tensor_on(memory: Memory, tensor_layout: made.Layout) -> Any:
    """Returns a tensor of a layout on all of a memory."""
    tensor = tensor_layout.tensor(memory.address)
    tensor.untyped_storage()._vk = memory
    return tensor


@functools.lru_cache(4096)
def layout_of(dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> made.Layout | None:
    """Returns the layout of tensors, from the start of their storages; None if DLPack makes no such ones."""
    if not made.takes(dtype, len(shape)):
        return None
    return made.Layout(dtype, shape, strides, _nbytes(shape, strides, dtype))


def set_storage(tensor: Any, storage: Any, offset: int, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """Sets the storage of a tensor, whose sizes are not checked against it."""
    return _set_storage(_CPU_KEYS, tensor, storage, offset, shape, strides)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides of a C-contiguous tensor, in elements."""
    return _contiguous_strides(tuple(shape))


@functools.lru_cache(4096)
def _contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return layout.contiguous_strides(shape, 1)


def n_elements(shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> int:
    """Returns the elements that a storage has, so that it holds a tensor."""
    if 0 in shape:
        return 0
    return offset + 1 + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))


def empty(shape: Sequence[int], strides: Sequence[int], dtype: Any) -> Any:
    """Returns a tensor without elements yet: its memory is allocated when somebody reads it, or writes a part."""
    shape, strides = tuple(shape), tuple(strides)
    tensor_layout = layout_of(dtype, shape, strides)
    if tensor_layout is not None:
        return tensor_on(Memory(tensor_layout.nbytes), tensor_layout)
    return tensor_of(Memory(_nbytes(shape, strides, dtype)), dtype, shape, strides)


@functools.lru_cache(4096)
def _nbytes(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> int:
    return n_elements(shape, strides) * array_dtype(dtype).itemsize


def wrap(array: Array, dtype: Any = None) -> Any:
    """Returns a tensor with the elements of an array, converted to a dtype of PyTorch if one is given."""
    if dtype is None:
        dtype = TORCH[array.dtype]
    elif array.dtype is not array_dtype(dtype):
        array = convert(array, array_dtype(dtype))
    array = _exclusive(array)
    return tensor_of(Memory(array.nbytes, array), dtype, array.shape, contiguous_strides(array.shape))


def from_array(array: Array) -> Any:
    """Returns a tensor on the memory of a contiguous array, without a copy.

    Raises:
        ValueError: the array is not contiguous, or of another runtime than the device's.
    """
    if not array.contiguous or array.runtime is not runtime():
        raise ValueError("from_array takes a contiguous array of vc.default_runtime(); call .copy() first")
    array.compute()
    memory = Memory(array.nbytes, array, is_shared=True)
    return tensor_of(memory, TORCH[array.dtype], array.shape, contiguous_strides(array.shape))


def array_of(tensor: Any) -> Array:
    """Returns the memory of a tensor of the device as an array, without a copy: both see what is written to either.

    Raises:
        TypeError: arrays have no such dtype, or it is of another device.
    """
    if not is_on_device(tensor) or tensor.dtype not in ARRAYS:
        raise TypeError(
            f"array_of takes tensors of the device {DEVICE_NAME} whose dtype arrays have; got {tensor.dtype} on "
            f"{tensor.device}; convert it by .to({DEVICE_NAME!r}, torch.float32)"
        )
    memory = memory_of(tensor)
    array = view_of(tensor)
    array.compute()
    memory.is_shared = True
    return array


def elements_from(tensor: Any) -> Array:
    """Returns the memory from a tensor's first element to the end of its storage, for a launch that is made next.

    Raises:
        TypeError: it is of another device.
    """
    if not is_on_device(tensor):
        raise TypeError(f"programs of the device {DEVICE_NAME} take its tensors; got one on {tensor.device}")
    memory, offset, dtype = memory_of(tensor), tensor.storage_offset(), array_dtype(tensor.dtype)
    whole = memory.array(dtype)
    whole.compute()
    if not offset and whole.shape and whole.contiguous and whole.dtype is dtype:
        return whole  # of any shape: a view takes longer
    return memory.view(offset, (memory.nbytes // dtype.itemsize - offset,), (1,), dtype)


def view_of(tensor: Any) -> Array:
    """Returns the elements of a tensor of the device as they are in memory; valid until the tensor is written to."""
    memory = memory_of(tensor)
    whole, offset, dtype = memory.whole, tensor.storage_offset(), array_dtype(tensor.dtype)
    alike = tensor.is_contiguous() and not offset
    if alike and whole is not None and whole.dtype is dtype and whole.shape == tensor.shape and whole.contiguous:
        return whole  # most tensors: `view` takes longer
    return memory.view(offset, tuple(tensor.shape), tensor.stride(), dtype)


def values_of(tensor: Any) -> Array:
    """Returns the elements of a tensor of the device, with a pending conjugation or negation applied."""
    array = view_of(tensor)
    if tensor.is_conj():
        array = apply("conjugate", array)
    return apply("negative", array) if tensor.is_neg() else array


def covers_storage(tensor: Any) -> bool:
    """True if a tensor has each byte of its storage once, in some order of its axes."""
    return _covers(tensor, memory_of(tensor))


def _covers(tensor: Any, memory: Memory) -> bool:
    return (
        not tensor.storage_offset()
        and tensor.numel() * tensor.element_size() == memory.nbytes
        and (tensor.is_contiguous() or torch._debug_has_internal_overlap(tensor) == 0)
    )


def without_repeats(tensor: Any) -> Any:
    """Returns a view in which axes along which all elements are one, as of `expand`, have one element."""
    if 0 in tensor.stride():
        for axis, stride in enumerate(tensor.stride()):
            tensor = tensor.narrow(axis, 0, 1) if not stride and tensor.shape[axis] > 1 else tensor
    return tensor


def memory_order(tensor: Any) -> tuple[int, ...]:
    """Returns the axes of a tensor, the one with the largest stride first."""
    strides = tensor.stride()
    return tuple(sorted(range(len(strides)), key=lambda axis: -strides[axis]))


def convert(array: Array, dtype: np.dtype[Any]) -> Array:
    """Returns an array in a dtype, as PyTorch converts; itself if it has it."""
    if array.dtype == dtype:
        return array
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        array = part("real", array)
    return array if array.dtype == dtype else astype(array, dtype)


def store(tensor: Any, result: Array, *, fresh: bool = False) -> Any:
    """Writes a result, converted, to a tensor of the device, which gets its shape, and is returned.

    Args:
        fresh: True if nobody else has the result, but perhaps another tensor.
    """
    if result.shape != tensor.shape:
        resize_to(tensor, result.shape)
    memory, shape = memory_of(tensor), tensor.shape
    if 0 in shape:
        return tensor
    if result.dtype is not array_dtype(tensor.dtype):
        result = convert(result, array_dtype(tensor.dtype))
    is_cut = memory.visible_nbytes < memory.nbytes  # by resize_
    if memory.is_shared or is_cut or not _covers(tensor, memory):
        _write(view_of(tensor), result, fresh=fresh and not _is_owned(result))
        return tensor
    if not tensor.is_contiguous():
        result = result.transpose(memory_order(tensor))
    memory.replace(_exclusive(result))
    return tensor


def resize_to(out: Any, shape: Sequence[int]) -> None:
    """Resizes a tensor for results that has another shape; warns as PyTorch does if it has elements."""
    if tuple(out.shape) == tuple(shape):
        return
    if out.numel():
        warn(
            f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
            f"match the required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch "
            "release outputs will not be resized unless they have zero elements. You can explicitly reuse an out "
            "tensor t by resizing it, inplace, to zero elements with t.resize_(0)."
        )
    out.resize_(shape)


def copy_to(out: Any, result: Any) -> Any:
    """Copies a result to a tensor, which gets its shape; returns the tensor."""
    resize_to(out, result.shape)
    return out.copy_(result)


def _write(target: Array, result: Array, *, fresh: bool) -> None:
    """Writes to a view of a memory; nobody else has the result if it is fresh.

    Raises:
        RuntimeError: its elements share memory. PyTorch's CPU computes some of these, in an order that it leaves open.
    """
    if target.shares_elements:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    assign(target, result, fresh=fresh)


def _exclusive(array: Array) -> Array:
    """Returns an array whose memory nobody else writes to: itself, or a copy of that of another tensor or of a view."""
    if _is_owned(array):
        return astype(array, array.dtype) if array.is_pending else array.copy()
    is_whole = array.is_pending or (array.contiguous and not array.offset and array._base is None)
    return array if is_whole else array.copy()


def _is_owned(array: Array) -> bool:
    """True if an array is that of a memory."""
    owner = None if array.owner is None else array.owner()
    return owner is not None and owner.has(array)
