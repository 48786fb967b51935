"""`__cuda_array_interface__` for arrays of Vulkan devices: packages of vkcompute take them, others get an error.

The description has the keys of version 3 of the interface. Its address is an object that refuses to be a number, as no
library of CUDA could read there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.dtypes import checked_dtype
from vkcompute.runtime.memory import layout
from vkcompute.runtime.memory.array import Array, empty
from vkcompute.runtime.runtime import current_runtime


class Address:
    """The address of an array with elements. It compares with others, and has distances to those of the same memory.

    Attributes:
        array: the array.
        offset: the bytes from its first element on.
    """

    def __init__(self, array: Array, offset: int = 0) -> None:
        self.array, self.offset = array, offset

    @property
    def number(self) -> int:
        """A number that no other memory has."""
        return self.array.buffer.location + self.array.offset + self.offset

    def __eq__(self, other: object) -> bool:
        return self.number == (other.number if isinstance(other, Address) else other)

    def __hash__(self) -> int:
        return hash(self.number)

    def __add__(self, nbytes: int) -> Address:
        return Address(self.array, self.offset + nbytes)

    def __sub__(self, other: Address) -> int:
        return self.number - other.number

    def __int__(self) -> int:
        """Refuses to be a number.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "this array is memory of a Vulkan device, which has no address that CUDA's libraries take; copy it to the "
            "host, or pass it by DLPack, as np.from_dlpack(x)"
        )

    __index__ = __int__

    def __repr__(self) -> str:
        return f"<address {self.number} of {self.array.runtime.device.name}>"


def described(array: Array, stream: int | None = None) -> dict[str, Any]:
    """Returns the description of an array, for its `__cuda_array_interface__`."""
    return {
        "shape": tuple(array.shape), "strides": None if array.contiguous else tuple(array.strides),
        "typestr": array.dtype.str, "stream": stream, "version": 3,
        "data": (Address(array) if array.size else 0, False),
    }  # fmt: skip


def array_of(description: dict[str, Any]) -> Array | None:
    """Returns the array of a description, without a copy; None if its memory is of another library.

    Raises:
        TypeError: arrays have no such dtype, as of another byte order.
        ValueError: the shape and the strides go beyond the memory of the array that was described.
    """
    shape, dtype = tuple(description["shape"]), np.dtype(description["typestr"])
    if 0 in shape:
        return empty(current_runtime(), shape, dtype)
    address = description["data"][0]
    if not isinstance(address, Address):
        return None
    if dtype.kind == "V" and dtype.itemsize == address.array.dtype.itemsize:  # the text lacks the fields
        dtype = address.array.dtype
    dtype = checked_dtype(dtype)
    strides = tuple(description.get("strides") or layout.contiguous_strides(shape, dtype.itemsize))
    low, high = layout.extent(shape, strides, dtype.itemsize)
    array, first = address.array, address.array.offset + address.offset
    if first + low < 0 or first + high > array.buffer.used_bytes:
        raise ValueError(
            f"an array of shape {shape} and strides {strides} has bytes {first + low} to {first + high} "
            f"of its memory, which has {array.buffer.used_bytes}; describe an array within it"
        )
    return array.viewed(address.offset, shape, strides, dtype)
