"""Arrays of the host: pinned ones are ordinary, mapped and managed ones share the memory of an array of the device."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from vkcompute.compat.numba.cuda.arrays import DeviceNDArray
from vkcompute.compat.numba.cuda.factories import to_device
from vkcompute.core.buffer import Buffer
from vkcompute.runtime.memory import layout
from vkcompute.runtime.memory.array import Array, empty
from vkcompute.runtime.runtime import current_runtime


class MappedNDArray(np.ndarray[Any, Any]):
    """An array of the host in memory of the device, which launches and functions take without a copy.

    Views share the memory; results of NumPy are ordinary. Work on the memory finishes within the call that launches it,
    so that the host may access it at any time. If the host does not see the memory of the device, the array has none of
    it, and launches copy it.

    Attributes:
        stream: without effect.
    """

    stream: Any = 0
    _memory: Array | None = None
    _start: int = 0

    def __array_finalize__(self, source: Any) -> None:
        if isinstance(source, MappedNDArray):
            self.stream, self._memory, self._start = source.stream, source._memory, source._start

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array if array is self else np.asarray(array)[()]

    @property
    def __vkcompute_array__(self) -> Array | None:
        """The array of the device, for functions and launches of vkcompute; None for memory of the host."""
        if self._memory is None or not self.size:
            return None
        low, high = layout.extent(self.shape, self.strides, self.itemsize)
        first = self.__array_interface__["data"][0] - self._start
        if first + low < 0 or first + high > self._memory.nbytes:
            return None
        return self._memory.viewed(first, self.shape, self.strides, self.dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if (array := self.__vkcompute_array__) is None:
            raise AttributeError("this array is in memory that only the host sees; copy it by cuda.to_device(array)")
        return DeviceNDArray(array, self.stream).__cuda_array_interface__

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> Any:
        """Waits for the work on the array, and copies it to another array of the host, by default a new one."""
        if (array := self.__vkcompute_array__) is not None:
            array.runtime.transfers.wait_for(array.range, write=True)
        if ary is None:
            return np.array(self, subok=False)
        if ary is not self:
            ary[...] = self
        return ary


def pinned_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C") -> Any:
    """Makes an array of the host."""
    return np.ndarray(shape, dtype, strides=strides, order="F" if order == "F" else "C")


def mapped_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0, **options: Any
) -> Any:
    """Makes an array of the host and of the device; see `MappedNDArray`."""
    lengths = tuple(shape) if np.ndim(shape) else (int(shape),)
    itemsize = np.dtype(dtype).itemsize
    low, high = layout.extent(lengths, strides, itemsize) if strides else (0, itemsize * math.prod(lengths))
    memory = empty(current_runtime(), (max(high - low, 1),), np.dtype(np.uint8))
    lent = memory.runtime.transfers.lend(*_bytes_of(memory))
    host = np.empty(memory.nbytes, np.uint8) if lent is None else lent
    made = MappedNDArray(lengths, dtype, host, -low, strides, "F" if order == "F" else "C")
    if lent is not None:
        made._memory, made._start = memory, lent.__array_interface__["data"][0]
    made.stream = stream
    return made


def _bytes_of(memory: Array) -> tuple[Buffer, int, int]:
    """Returns the buffer of an array, the offset of its first byte, and the number of its bytes."""
    buffer, start, stop = memory.range
    return buffer, start, stop - start


def managed_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    stream: Any = 0,
    attach_global: bool = True,
) -> Any:
    """Makes an array of the host and of the device, like `mapped_array`."""
    return mapped_array(shape, dtype, strides, order, stream)


def pinned_array_like(ary: Any) -> Any:
    """Makes an array of the host with the shape, the dtype and the order of axes of another, also of a device array."""
    return np.empty_like(as_strided(np.empty((), ary.dtype), ary.shape, ary.strides), subok=False)


def mapped_array_like(ary: Any, stream: Any = 0, **options: Any) -> Any:
    """Makes an array of the host and of the device, like another; see `mapped_array`."""
    return mapped_array(ary.shape, ary.dtype, pinned_array_like(ary).strides, stream=stream)


@contextlib.contextmanager
def pinned(*arylist: Any) -> Iterator[None]:
    """Has no effect."""
    yield


@contextlib.contextmanager
def mapped(*arylist: Any, **options: Any) -> Iterator[Any]:
    """Copies arrays of the host to the device for a block, and back at its end."""
    devices = [to_device(array, stream=options.get("stream", 0)) for array in arylist]
    yield devices[0] if len(devices) == 1 else devices
    for device, host in zip(devices, arylist, strict=True):
        device.copy_to_host(host)
