"""Pointers into device memory, and arrays that `__cuda_array_interface__` describes."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from vkcompute.compat.cupy.devices import Device
from vkcompute.core.buffer import Buffer
from vkcompute.runtime import cuda_interface
from vkcompute.runtime.memory import layout
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.runtime import current_runtime

_buffers: weakref.WeakValueDictionary[int, Buffer] = weakref.WeakValueDictionary()
"""The buffers to which there have been pointers, by their numbers."""


class Memory:
    """A range of device memory, as `cupy.cuda.Memory`.

    Attributes:
        ptr: a number that no other memory has. It is no address: CUDA's libraries cannot use it.
        size: the bytes.
    """

    def __init__(self, runtime: Context, buffer: Buffer, *, is_empty: bool = False) -> None:
        self.runtime, self.buffer = runtime, buffer
        self.ptr, self.size = (0, 0) if is_empty else (buffer.location, buffer.used_bytes)
        if not is_empty:
            _buffers[self.ptr] = buffer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Memory) and other.buffer is self.buffer

    def __hash__(self) -> int:
        return hash(self.ptr)

    @property
    def device_id(self) -> int:
        """The index of the device."""
        return 0

    @property
    def device(self) -> Device:
        """The device, as `cupy.cuda.Device`."""
        return Device(self.runtime)


class MemoryPointer:
    """A place in memory, as `cupy.cuda.MemoryPointer`.

    Attributes:
        mem: the memory.
        ptr: the number of the place.
    """

    def __init__(self, mem: Memory, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset

    @staticmethod
    def to(array: Array) -> MemoryPointer:
        """Returns a pointer to the first element of an array; that of an array without elements is 0."""
        is_empty = not array.size
        return MemoryPointer(Memory(array.runtime, array.buffer, is_empty=is_empty), 0 if is_empty else array.offset)

    @property
    def offset(self) -> int:
        """The bytes before it in the memory."""
        return self.ptr - self.mem.ptr

    @property
    def device(self) -> Device:
        """The device, as `cupy.cuda.Device`."""
        return self.mem.device

    @property
    def device_id(self) -> int:
        """The index of the device."""
        return self.mem.device_id

    def __int__(self) -> int:
        return self.ptr

    def __add__(self, nbytes: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.offset + nbytes)

    __radd__ = __add__

    def __sub__(self, nbytes: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.offset - nbytes)

    def array(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Returns an array whose first element is here.

        Raises:
            ValueError: it would be outside of the memory.
        """
        low, high = layout.extent(shape, strides, dtype.itemsize)
        if self.offset + low < 0 or self.offset + high > self.mem.size:
            raise ValueError(
                f"an array of shape {shape} and strides {strides} has bytes {self.offset + low} to "
                f"{self.offset + high}; the memory has {self.mem.size}"
            )
        return Array(self.mem.runtime, self.mem.buffer, self.offset, shape, strides, dtype)

    def bytes(self, nbytes: int) -> Array:
        """Returns the bytes from here on, as an array of uint8."""
        return self.array((nbytes,), (1,), np.dtype(np.uint8))

    def memset(self, value: int, size: int) -> None:
        """Sets bytes."""
        self.bytes(size).fill(np.uint8(value))

    memset_async = memset

    def copy_from_device(self, src: MemoryPointer, size: int) -> None:
        """Copies bytes from another place."""
        self.bytes(size).copy_from(src.bytes(size))

    def copy_from(self, mem: Any, size: int) -> None:
        """Copies bytes from another place, or from an address of the host as an int or `ctypes.c_void_p`."""
        if isinstance(mem, MemoryPointer):
            self.copy_from_device(mem, size)
        else:
            self.copy_from_host(mem, size)

    def copy_from_host(self, mem: Any, size: int) -> None:
        """Copies bytes from an address of the host."""
        self.bytes(size).write(host_bytes(mem, size))

    def copy_to_host(self, mem: Any, size: int) -> None:
        """Copies bytes to an address of the host."""
        host_bytes(mem, size)[:] = self.bytes(size).numpy()


def host_bytes(address: Any, nbytes: int) -> np.ndarray[Any, Any]:
    """Returns bytes of the host at an address, as an array that shares them."""
    import ctypes

    number = address if isinstance(address, int) else getattr(address, "ptr", getattr(address, "value", address))
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(int(number)))


def alloc(size: int) -> MemoryPointer:
    """Returns new memory of `size` bytes."""
    return MemoryPointer.to(current_runtime().empty((size,), np.uint8))


malloc_managed = malloc_async = alloc
"""The same: when the device is full, arrays that were not used for long move to the host, whichever they are."""


def memory_at(ptr: int) -> MemoryPointer | None:
    """Returns the pointer with a number; None if no memory that somebody holds has it."""
    for start, buffer in list(_buffers.items()):
        if start <= ptr <= start + buffer.used_bytes:
            return MemoryPointer(Memory(current_runtime(), buffer), ptr - start)
    return None


def array_of_interface(described: dict[str, Any]) -> Array:
    """Returns the array that a `__cuda_array_interface__` describes.

    Raises:
        TypeError: its memory is none of vkcompute's.
    """
    if described.get("mask") is not None:
        raise ValueError("CuPy currently does not support masked arrays.")
    if not np.dtype(described["typestr"]).isnative:
        raise ValueError("CuPy currently does not support big-endian arrays.")
    array = cuda_interface.array_of(described)
    return _at_number(described) if array is None else array


def _at_number(described: dict[str, Any]) -> Array:
    """Returns the array at a number of `data.ptr`."""
    shape, dtype = tuple(described["shape"]), np.dtype(described["typestr"])
    if dtype.kind == "V" and described.get("descr"):  # it has the fields, which the other lacks
        dtype = np.dtype([tuple(field) for field in described["descr"]])
    pointer = memory_at(int(described["data"][0]))
    if pointer is None:
        raise TypeError(
            "__cuda_array_interface__ has an address of CUDA's memory, which no Vulkan device reads; copy the array "
            "to the host before, or pass it by DLPack"
        )
    strides = described.get("strides")
    return pointer.array(
        shape, layout.contiguous_strides(shape, dtype.itemsize) if strides is None else tuple(strides), dtype
    )
