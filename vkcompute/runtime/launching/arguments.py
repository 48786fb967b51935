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


def bound_range(kernel: str, runtime: Context, binding: Binding, tensor: Any, *, check_type: bool) -> Bound:
    """Checks a tensor for a binding of a kernel, and returns the range to bind.

    Raises:
        TypeError: not a tensor, or one of another dtype than the binding's.
        ValueError: a tensor of another runtime, not contiguous, closed, badly aligned, or larger than a binding may be.
    """
    where = f"binding {binding.binding} ({binding.name or 'unnamed'}) of {kernel}"
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{where} takes a tensor; got {type(tensor).__name__}; make one with runtime.tensor(data)")
    buffer, device = tensor.buffer, runtime.device
    if tensor.runtime is not runtime:
        raise ValueError(f"{where}: the tensor belongs to another runtime ({tensor.runtime.device}); copy it here")
    if not tensor.contiguous:
        raise ValueError(f"{where} takes a contiguous tensor; its strides are {tensor.strides}; pass a .copy()")
    if check_type:
        _check_element(where, binding, tensor)
    nbytes = _bound_bytes(where, binding, tensor)
    largest, align = _limits(device, binding)
    if nbytes > largest:
        raise ValueError(f"{where}: the tensor has {nbytes} bytes, {device} binds at most {largest}; bind parts of it")
    if (buffer.offset + tensor.offset) % align:
        raise ValueError(
            f"{where}: the view starts at byte {tensor.offset} of its buffer, {device} binds at multiples of "
            f"{align}; pass a .copy()"
        )
    return buffer, tensor.offset, nbytes


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
