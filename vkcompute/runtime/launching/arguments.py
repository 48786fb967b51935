"""Arguments of kernels: checks of bindings and of the tensors that are bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from vkcompute import dtypes
from vkcompute.core.buffer import Buffer
from vkcompute.core.buffer_view import TEXEL_BYTES
from vkcompute.core.device import Device
from vkcompute.core.logical_device import LogicalDevice
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.spirv.interface import Binding

Bound = tuple[Buffer, int, int]
"""the range of a binding: (buffer, offset in it, nbytes)"""


def bound_range(
    kernel: str, runtime: Context, binding: Binding, tensor: Any, *, check_type: bool, strided: bool = False
) -> Bound:
    """Checks a tensor for a binding of a kernel, and returns the range to bind.

    Args:
        strided: True if the kernel takes a view: its strides, and the offset in the range, as `first_index` gives it.

    Raises:
        TypeError: not a tensor, or one of another dtype than the binding's.
        ValueError: a tensor of another runtime, not contiguous, closed, badly aligned, or larger than a binding may be;
            a broadcast one that the kernel writes.
    """
    where = f"binding {binding.binding} ({binding.name or 'unnamed'}) of {kernel}"
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{where} takes a tensor; got {type(tensor).__name__}; make one with runtime.tensor(data)")
    buffer, device = tensor.buffer, runtime.device
    if tensor.runtime is not runtime:
        raise ValueError(f"{where}: the tensor belongs to another runtime ({tensor.runtime.device}); copy it here")
    if strided:
        return _view_range(where, device, binding, tensor)
    if not tensor.contiguous:
        raise ValueError(f"{where} takes a contiguous tensor; its strides are {tensor.strides}; pass a .copy()")
    if check_type:
        _check_element(where, binding, tensor)
    nbytes = _bound_bytes(where, binding, tensor)
    largest, align = _limits(device, binding)
    if nbytes > largest:
        raise _too_large(where, nbytes, device, largest)
    if (buffer.offset + tensor.offset) % align:
        raise ValueError(
            f"{where}: the view starts at byte {tensor.offset} of its buffer, {device} binds at multiples of "
            f"{align}; pass a .copy()"
        )
    return buffer, tensor.offset, nbytes


def _view_range(where: str, device: Device, binding: Binding, tensor: Tensor) -> Bound:
    """Returns the range of a view from the last aligned byte before its elements."""
    if binding.writes and tensor.is_broadcast:
        raise ValueError(
            f"{where} is written, and elements of the tensor share memory: its strides are {tensor.strides} for the "
            f"shape {tensor.shape}; pass a .copy()"
        )
    _, low, high = tensor.span
    start = low - (tensor.buffer.offset + low) % _view_align(tensor)
    largest = device.max_binding_bytes
    if high - start > largest:
        raise _too_large(where, high - start, device, largest)
    return tensor.buffer, start, high - start


def _view_align(tensor: Tensor) -> int:
    align: int = tensor.runtime.device.physical.limits["minStorageBufferOffsetAlignment"]
    return max(align, tensor.dtype.itemsize)  # both are powers of two


def _too_large(where: str, nbytes: int, device: Device, largest: int) -> ValueError:
    return ValueError(f"{where}: the tensor has {nbytes} bytes, {device} binds at most {largest}; bind parts of it")


def needs_strides(tensor: Tensor) -> bool:
    """True if a tensor is not contiguous, or does not begin where the device may bind it.

    Raises:
        ValueError: its elements are not at multiples of their size, as in a `view` of bytes with another dtype.
    """
    align = tensor.runtime.device.physical.limits["minStorageBufferOffsetAlignment"]
    if tensor.contiguous and not (tensor.buffer.offset + tensor.offset) % align:
        return False
    itemsize = tensor.dtype.itemsize
    if tensor.offset % itemsize or any(step % itemsize for step in tensor.strides):
        raise ValueError(
            f"kernels take elements at multiples of their size, {itemsize} bytes; the offset is {tensor.offset}, the "
            f"strides are {tensor.strides}; pass a .copy()"
        )
    return True


def first_index(tensor: Tensor) -> int:
    """The index of a view's first element in the range that is bound, in elements."""
    low: int = tensor.span[1]
    return (tensor.offset - low + (tensor.buffer.offset + low) % _view_align(tensor)) // tensor.dtype.itemsize


def _bound_bytes(where: str, binding: Binding, tensor: Tensor) -> int:
    """The size to bind: the tensor's, rounded up to whole elements if it ends with its buffer, which has padding."""
    stride = binding.element.stride_bytes if binding.element else TEXEL_BYTES if binding.texel else 4
    nbytes = -(-max(tensor.nbytes, 1) // stride) * stride
    if binding.block and tensor.nbytes < binding.block.nbytes:
        raise ValueError(f"{where} reads {binding.block.nbytes} bytes; the tensor has {tensor.nbytes}")
    buffer, stop = tensor.buffer, tensor.offset + tensor.nbytes
    if nbytes != tensor.nbytes and (stop != buffer.used_bytes or tensor.offset + nbytes > buffer.nbytes):
        raise ValueError(
            f"{where} has elements of {stride} bytes; the tensor's {tensor.nbytes} bytes are no multiple, and the "
            "next bytes may belong to other tensors; pass a .copy()"
        )
    return nbytes


def _limits(device: Device, binding: Binding) -> tuple[int, int]:
    """The largest range of the binding in bytes, and the alignment of its offset."""
    limits = device.physical.limits
    if binding.kind == "uniform_buffer":
        return limits["maxUniformBufferRange"], limits["minUniformBufferOffsetAlignment"]
    if binding.kind == "uniform_texel_buffer":
        return limits["maxTexelBufferElements"] * TEXEL_BYTES, limits["minTexelBufferOffsetAlignment"]
    return device.max_binding_bytes, limits["minStorageBufferOffsetAlignment"]


def _check_element(where: str, binding: Binding, tensor: Tensor) -> None:
    declared = binding.element or binding.texel
    if declared is None:
        return
    wanted = declared.dtype
    if dtypes.BY_NUMPY[tensor.dtype].element != wanted:
        same_size = np.dtype(wanted).itemsize == tensor.dtype.itemsize
        remedy = f"convert the data first, with .astype({wanted!r})"
        if same_size:
            remedy += f", or take the same bytes as .view({wanted!r})"
        raise TypeError(f"{where} holds {wanted}; the tensor is {tensor.dtype}; {remedy}")


# Kind of binding -> the limit on their number, and their name in messages.
_PER_KERNEL = {
    "storage_buffer": ("maxPerStageDescriptorStorageBuffers", "storage buffers"),
    "uniform_buffer": ("maxPerStageDescriptorUniformBuffers", "uniform buffers"),
    "uniform_texel_buffer": ("maxPerStageDescriptorSampledImages", "texel buffers"),
    "storage_image": ("maxPerStageDescriptorStorageImages", "storage images"),
}


_MAX_BINDING_NUMBER = 65_535  # drivers keep an entry for each number up to the highest


def check_bindings(kernel: str, device: LogicalDevice, bindings: Sequence[Binding]) -> None:
    """Raises ValueError if a kernel has more bindings or descriptor sets than the device can bind.

    Drivers do not check this, and some crash.
    """
    limits = device.physical.limits
    number = max((binding.binding for binding in bindings), default=0)
    if number > _MAX_BINDING_NUMBER:
        raise ValueError(f"{kernel} has a binding with the number {number}; the highest is {_MAX_BINDING_NUMBER}")
    most = limits["maxBoundDescriptorSets"]
    highest = max((binding.set for binding in bindings), default=0)
    if highest >= most:
        raise ValueError(f"{kernel} has a binding in set {highest}; {device} binds {most} sets, 0 to {most - 1}")
    for kind, count in Counter(binding.kind for binding in bindings).items():
        limit, noun = _PER_KERNEL[kind]
        if count > limits[limit]:
            raise ValueError(
                f"{kernel} has {count} {noun}; {device} binds {limits[limit]} at a time; pack several in one"
            )
    if len(bindings) > limits["maxPerStageResources"]:
        raise ValueError(f"{kernel} has {len(bindings)} bindings; {device} takes {limits['maxPerStageResources']}")
