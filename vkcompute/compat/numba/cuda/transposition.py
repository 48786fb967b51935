"""`numba.cuda.kernels.transpose`: a copy of a transposed matrix."""

from __future__ import annotations

from typing import Any

from vkcompute.compat.numba.cuda.arrays import DeviceNDArray, as_device_array


def transpose(a: Any, b: Any = None) -> DeviceNDArray:
    """Copies the transposed matrix, by default to a new array, and returns that."""
    copy = as_device_array(a).array.transpose().copy()
    if b is None:
        return DeviceNDArray(copy)
    target = as_device_array(b)
    target.array.copy_from(copy)
    return target
