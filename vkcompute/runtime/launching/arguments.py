"""Arguments of kernels: checks of bindings and of the arrays that are bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from vkcompute import dtypes
from vkcompute.core.buffer import Buffer
from vkcompute.core.buffer_view import TEXEL_BYTES, WORD
from vkcompute.core.device import Device
from vkcompute.core.logical_device import LogicalDevice
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import ONE_RUNTIME, Context
from vkcompute.spirv.interface import Binding

_WORD_BYTES = 4
MAX_BINDING_SLACK = 256
"""The most that `binding_slack` returns: the largest minStorageBufferOffsetAlignment that Vulkan allows, in bytes."""
Bound = tuple[Buffer, int, int]
"""the range of a binding: (buffer, offset in it, nbytes)"""


def bound_range(
    kernel: str,
    runtime: Context,
    binding: Binding,
    array: Any,
    *,
    check_type: bool,
    strided: bool = False,
    in_words: bool = False,
) -> Bound:
    """Checks an array for a binding of a kernel, and returns the range to bind.

    Args:
        strided: True if the kernel takes a view: its strides, and the offset in the range, as `first_index` gives it.
        in_words: True if the kernel accesses bytes by words: whole words are bound, which it leaves as they are but
            for the bytes of the array.

    Raises:
        TypeError: not an array, or one of another dtype than the binding's.
        ValueError: an array of another runtime, not contiguous, closed, badly aligned, or larger than a binding may be;
            a broadcast one that the kernel writes.
    """
    where = f"binding {binding.binding} ({binding.name or 'unnamed'}) of {kernel}"
    if not isinstance(array, Array):
        raise TypeError(f"{where} takes a device array; got {type(array).__name__}; make one with runtime.array(data)")
    buffer, device = array.buffer, runtime.device
    require_same_runtime(where, runtime, array)
    if strided:
        return _view_range(where, device, binding, array, in_words)
    if not array.contiguous:
        raise ValueError(f"{where} takes a contiguous array; its strides are {array.strides}; pass a .copy()")
    if check_type:
        _check_element(where, binding, array)
    largest, align = _limits(device, binding)
    if in_words:
        nbytes, align = _round_up(max(array.nbytes, 1)), max(align, _WORD_BYTES)
    else:
        nbytes = _bound_bytes(where, binding, array)
    if nbytes > largest:
        raise _too_large(where, nbytes, device, largest)
    if (buffer.offset + array.offset) % align:
        raise ValueError(
            f"{where}: the view starts at byte {array.offset} of its buffer, {device} binds at multiples of "
            f"{align}; pass a .copy()"
        )
    return buffer, array.offset, nbytes


def require_same_runtime(where: str, runtime: Context, array: Array) -> None:
    """Raises ValueError if an array is another runtime's."""
    if array.runtime is not runtime:
        raise ValueError(
            f"{where}: the array belongs to another runtime ({array.runtime.device}) than the launch; {ONE_RUNTIME}"
        )


def _view_range(where: str, device: Device, binding: Binding, array: Array, in_words: bool) -> Bound:
    """Returns the range of a view from the last aligned byte before its elements."""
    if binding.writes and array.shares_elements:
        raise ValueError(
            f"{where} is written, and elements of the array share memory: its strides are {array.strides} for the "
            f"shape {array.shape}; pass a .copy()"
        )
    _, low, high = array.span
    start = low - binding_slack(array)
    high = _round_up(high) if in_words else high
    largest, _ = _limits(device, binding)
    if high - start > largest:
        raise _too_large(where, high - start, device, largest)
    return array.buffer, start, high - start


def whole_words(span: Bound) -> Bound:
    """The range of whole words that contains a range (buffer, start, stop); it may end in the buffer's padding."""
    buffer, start, stop = span
    return buffer, start // _WORD_BYTES * _WORD_BYTES, _round_up(stop)


def _round_up(nbytes: int) -> int:
    return -(-nbytes // _WORD_BYTES) * _WORD_BYTES


def _align(array: Array) -> int:
    """The alignment of what kernels in Python bind: blocks of narrow elements are words, on every device."""
    align: int = array.runtime.device.physical.limits["minStorageBufferOffsetAlignment"]
    return max(align, _WORD_BYTES)


def _view_align(array: Array) -> int:
    return max(_align(array), dtypes.step_bytes(array.dtype))  # both are powers of two


def _too_large(where: str, nbytes: int, device: Device, largest: int) -> ValueError:
    return ValueError(f"{where}: the array has {nbytes} bytes, {device} binds at most {largest}; bind parts of it")


def needs_strides(array: Array) -> bool:
    """True if an array is not contiguous, or does not begin where the device may bind it."""
    return not array.contiguous or (array.buffer.offset + array.offset) % _align(array) != 0


def is_unaligned(array: Array) -> bool:
    """True if elements are not at multiples of their size, as those of a field of packed records."""
    if array.contiguous and not array.offset:
        return False
    itemsize = dtypes.step_bytes(array.dtype)
    return array.offset % itemsize != 0 or any(step % itemsize for step in array.strides)


def require_aligned(array: Array) -> None:
    """Raises ValueError if elements are not at multiples of their size."""
    if is_unaligned(array):
        raise ValueError(
            f"kernels take elements at multiples of their size, {dtypes.step_bytes(array.dtype)} bytes; the offset is "
            f"{array.offset}, the strides are {array.strides}; pass a .copy()"
        )


def first_index(array: Array) -> int:
    """The index of a view's first element in the range that is bound, in `dtypes.step_bytes`."""
    low: int = array.span[1]
    return (array.offset - low + binding_slack(array)) // dtypes.step_bytes(array.dtype)


def binding_slack(array: Array) -> int:
    """The bytes that are bound before the elements of a view."""
    return int(array.buffer.offset + array.span[1]) % _view_align(array)


def _bound_bytes(where: str, binding: Binding, array: Array) -> int:
    """The size to bind: the array's, rounded up to whole elements if it ends with its buffer, which has padding."""
    stride = binding.element.stride_bytes if binding.element else _texel_bytes(binding)
    nbytes = -(-max(array.nbytes, 1) // stride) * stride
    if binding.block and array.nbytes < binding.block.nbytes:
        raise ValueError(f"{where} reads {binding.block.nbytes} bytes; the array has {array.nbytes}")
    buffer, stop = array.buffer, array.offset + array.nbytes
    if nbytes != array.nbytes and (stop != buffer.used_bytes or array.offset + nbytes > buffer.nbytes):
        raise ValueError(
            f"{where} has elements of {stride} bytes; the array's {array.nbytes} bytes are no multiple, and the "
            "next bytes may belong to other arrays; pass a .copy()"
        )
    return nbytes


def _limits(device: Device, binding: Binding) -> tuple[int, int]:
    """The largest range of the binding in bytes, and the alignment of its offset."""
    limits = device.physical.limits
    if binding.kind == "uniform_buffer":
        return limits["maxUniformBufferRange"], limits["minUniformBufferOffsetAlignment"]
    if binding.kind == "uniform_texel_buffer":
        return limits["maxTexelBufferElements"] * _texel_bytes(binding), limits["minTexelBufferOffsetAlignment"]
    return device.max_binding_bytes, limits["minStorageBufferOffsetAlignment"]


def _texel_bytes(binding: Binding) -> int:
    """The bytes of a texel, or of a word."""
    return TEXEL_BYTES if binding.texel and binding.texel.format != WORD else _WORD_BYTES


def _check_element(where: str, binding: Binding, array: Array) -> None:
    declared = binding.element or binding.texel
    if declared is None:
        return
    wanted = declared.dtype
    if dtypes.lookup(array.dtype).element != wanted:
        same_size = np.dtype(wanted).itemsize == array.dtype.itemsize
        remedy = f"convert the data first, with .astype({wanted!r})"
        if array.dtype.kind == "c":
            remedy = f"take its parts as .view({array.real.dtype.name!r})"
        elif same_size:
            remedy += f", or take the same bytes as .view({wanted!r})"
        raise TypeError(f"{where} holds {wanted}; the array is {array.dtype}; {remedy}")


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
