"""Makes Numba's arrays of the device, by `to_device` and `device_array`, and checks what is given for one."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from vkcompute.compat.numba.cuda.arrays import DeviceNDArray, as_device_array, from_record_like, is_cuda_array
from vkcompute.compat.numba.types import from_dtype
from vkcompute.runtime.memory import layout
from vkcompute.runtime.memory.array import Array, empty
from vkcompute.runtime.runtime import current_runtime


def is_contiguous(ary: Any) -> bool:
    """Returns True for an array that is row-major, but for axes that repeat elements."""
    return bool(array_core(ary).flags["C_CONTIGUOUS"])


errmsg_contiguous_buffer = (
    "Array contains non-contiguous buffer and cannot be transferred as a single memory region. Please ensure "
    "contiguous buffer with numpy .ascontiguousarray()"
)


def array_core(ary: Any) -> Any:
    """Returns an array without what is repeated: the first element along axes with a step of 0."""
    if not ary.strides or not ary.size:
        return ary
    return ary[tuple([slice(None) if step else 0 for step in ary.strides])]


def sentry_contiguous(ary: Any) -> None:
    """Raises ValueError for an array with gaps."""
    flags = array_core(ary).flags
    if not flags["C_CONTIGUOUS"] and not flags["F_CONTIGUOUS"]:
        raise ValueError(errmsg_contiguous_buffer)


def require_cuda_ndarray(obj: Any) -> None:
    """Raises ValueError for an object that is no array of the device."""
    if not is_cuda_array(obj):
        raise ValueError("require an cuda ndarray object")


def verify_cuda_ndarray_interface(obj: Any) -> None:
    """Raises an error unless an object is an array of the device."""
    require_cuda_ndarray(obj)


def auto_device(obj: Any, stream: Any = 0, copy: bool = True, user_explicit: bool = False) -> tuple[Any, bool]:
    """Returns an array of the device, and whether it was made for this."""
    if is_cuda_array(obj):
        return as_device_array(obj), False
    if not isinstance(obj, np.void):
        sentry_contiguous(np.asarray(obj))
        return to_device(obj, stream, copy), True
    record = from_record_like(obj, stream)
    if copy:
        record.copy_to_device(obj)
    return record, True


def device_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0
) -> DeviceNDArray:
    """Makes an array of the device without values."""
    lengths = tuple(map(operator.index, shape if np.ndim(shape) else (shape,)))
    kind = np.dtype(dtype)
    if strides is not None:
        return DeviceNDArray(_strided(lengths, kind, tuple(strides)), stream)
    if order == "F":
        return DeviceNDArray(empty(current_runtime(), lengths[::-1], kind).transpose(), stream)
    return DeviceNDArray(empty(current_runtime(), lengths, kind), stream)


def _strided(shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...]) -> Array:
    """Makes an array with these strides."""
    low, high = layout.extent(shape, strides, dtype.itemsize)
    memory = empty(current_runtime(), (max(high - low, 1),), np.dtype(np.uint8))
    return memory.viewed(-low, shape, strides, dtype)


def like(ary: Any) -> DeviceNDArray:
    """Makes an array with the layout of another, of the host or of the device; gaps are closed."""
    flags = ary.flags
    if flags["C_CONTIGUOUS"] or flags["F_CONTIGUOUS"] or 0 in ary.strides:
        order = "C" if flags["C_CONTIGUOUS"] or not flags["F_CONTIGUOUS"] else "F"
        return device_array(ary.shape, ary.dtype, order=order)
    axes = sorted(range(ary.ndim), key=lambda at: -abs(ary.strides[at]))
    packed = empty(current_runtime(), tuple(ary.shape[at] for at in axes), np.dtype(ary.dtype))
    return DeviceNDArray(packed.transpose(*[axes.index(at) for at in range(ary.ndim)]))


def device_array_like(ary: Any, stream: Any = 0) -> DeviceNDArray:
    """Makes an array of the device with the shape, the dtype and the order of axes of another."""
    return like(ary).bind(stream)


from_array_like = device_array_like


def to_device(obj: Any, stream: Any = 0, copy: bool = True, to: DeviceNDArray | None = None) -> DeviceNDArray:
    """Copies an array or a number of the host to the device, by default to a new array, and returns that."""
    if to is not None:
        to.copy_to_device(obj, stream)
        return to
    if is_cuda_array(obj):
        return as_device_array(obj)
    host = np.asarray(obj)
    if host.dtype.kind in "mM":
        from_dtype(host.dtype)  # raises
    made = like(host).bind(stream)
    if copy:
        made.array.write(host)
    return made
