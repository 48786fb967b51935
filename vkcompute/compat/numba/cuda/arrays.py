"""Arrays of the device, as Numba has them: `DeviceNDArray`, records, and views of the memory of others."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np

from vkcompute.compat.numba import config
from vkcompute.compat.numba.cuda.streams import external_stream
from vkcompute.compat.numba.member_choices import Enumeration, is_member
from vkcompute.compat.numba.types import Array as ArrayType
from vkcompute.compat.numba.types import from_dtype, layout_of
from vkcompute.compiled import composites
from vkcompute.compiled.composites import Form
from vkcompute.dtypes import is_record
from vkcompute.jit.frontend.values import ArrayValue, Record
from vkcompute.runtime import cuda_interface
from vkcompute.runtime.memory import layout
from vkcompute.runtime.memory.array import Array, empty
from vkcompute.runtime.memory.holders import held, is_holder
from vkcompute.runtime.runtime import current_runtime

_ORDERS = "C", "F", "A", "K"


class DeviceNDArray:
    """An array on the device; a view shares its memory.

    Attributes:
        array: the `vc.Array`.
        stream: of its transfers; without effect.
    """

    __cuda_memory__ = True
    __cuda_ndarray__ = True
    __array_priority__ = 1000.0

    def __init__(self, array: Array, stream: Any = 0) -> None:
        self.array, self.stream = array, stream

    # -- layout -------------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self.array.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """The distances between neighbours along the axes, in bytes."""
        return self.array.strides

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self.array.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.array.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.array.size

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.array.nbytes

    @property
    def alloc_size(self) -> int:
        """The bytes from the first to the last element."""
        return self.array.nbytes

    @property
    def flags(self) -> dict[str, bool]:
        """The layout: "C_CONTIGUOUS", "F_CONTIGUOUS"."""
        flags = self.array.flags
        return {name: bool(flags[name]) for name in ("C_CONTIGUOUS", "F_CONTIGUOUS")}

    def is_c_contiguous(self) -> bool:
        """Returns True for a row-major array."""
        return self.flags["C_CONTIGUOUS"]

    def is_f_contiguous(self) -> bool:
        """Returns True for a column-major array."""
        return self.flags["F_CONTIGUOUS"]

    @property
    def gpu_data(self) -> Any:
        """The memory."""
        return self.array.buffer

    @property
    def device_ctypes_pointer(self) -> ctypes.c_void_p:
        """The address, which no pointer of the host has."""
        return ctypes.c_void_p(cuda_interface.Address(self.array).number if self.size else 0)

    @property
    def _numba_type_(self) -> ArrayType:
        return ArrayType(from_dtype(self.dtype), self.ndim, layout_of(self))

    @property
    def __vkcompute_array__(self) -> Array:
        """The array that this one holds, for functions and launches of vkcompute."""
        return self.array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return cuda_interface.described(self.array, int(self.stream) if self.stream != 0 else None)

    # -- transfers ----------------------------------------------------------------------------------------------------

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> Any:
        """Copies the elements to an array of the host, by default a new one, and returns it."""
        _check_stream(stream)
        if ary is None:
            is_column_major = self.is_f_contiguous() and not self.is_c_contiguous()
            ary = np.empty(self.shape, self.dtype, "F" if is_column_major else "C")
        else:
            _demand_alike(self, ary, lays_out=False)
        self.array.read(ary)
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Copies the elements of an array, of the host or of the device, into this one."""
        _check_stream(stream)
        if ary is self:
            return
        if is_cuda_array(ary):
            other = as_device_array(ary)
            _demand_alike(self, other)
            self.array.copy_from(other.array)
            return
        host = np.asarray(ary)
        if host.ndim == 0 and self.size == 1:
            host = host.reshape(self.shape)
        _demand_alike(self, host, lays_out=False)
        self.array.write(host)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("`copy=False` is not supported: a device array becomes a NumPy array by copying")
        host = self.copy_to_host()
        return host if dtype is None else host.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))

    def bind(self, stream: Any = 0) -> DeviceNDArray:
        """Returns the same array with another stream."""
        return DeviceNDArray(self.array, stream)

    # -- views --------------------------------------------------------------------------------------------------------

    @property
    def T(self) -> DeviceNDArray:  # noqa: N802
        """The view with all axes in reverse order."""
        return self.transpose()

    def transpose(self, axes: Any = None) -> DeviceNDArray:
        """Returns the view with the axes in reverse order, or, for two axes, in a given one."""
        if axes and tuple(axes) == tuple(range(self.ndim)):
            return self
        if self.ndim != 2 and axes:
            raise NotImplementedError("transposing a non-2D DeviceNDArray isn't supported")
        if axes is not None and set(axes) != set(range(self.ndim)):
            raise ValueError(f"invalid axes list {axes!r}")
        return self._viewed(self.array.transpose(*(axes or ())))

    def reshape(self, *newshape: Any, order: str = "C") -> DeviceNDArray:
        """Returns a view of another shape; -1 stands for one length.

        Raises:
            NotImplementedError: the array is not contiguous in this order.
        """
        given = newshape[0] if len(newshape) == 1 and isinstance(newshape[0], (tuple, list)) else newshape
        shape = tuple(map(int, given))
        if shape == self.shape:
            return self
        if order == "F" and self.is_f_contiguous():
            return self._viewed(self.array.transpose().reshape(shape[::-1]).transpose())
        if not self.is_c_contiguous() and order in "CF":
            raise NotImplementedError("reshape would require copy")
        return self._viewed(self.array.reshape(shape))

    def ravel(self, order: str = "C", stream: Any = 0) -> DeviceNDArray:
        """Returns the view with one axis."""
        if order not in _ORDERS:
            raise TypeError(f"order is one of {', '.join(_ORDERS)}; got {order!r}")
        if order in "CA" and self.is_c_contiguous():
            return self._viewed(self.array.reshape(-1))
        if order in "FA" and self.is_f_contiguous():
            return self._viewed(self.array.transpose().reshape(-1))
        raise NotImplementedError("ravel would require copy")

    def squeeze(self, axis: Any = None, stream: Any = 0) -> DeviceNDArray:
        """Returns the view without axes of length 1."""
        axes = range(self.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
        dropped = {at % self.ndim for at in axes if axis is not None or self.shape[at] == 1}
        if any(self.shape[at] != 1 for at in dropped):
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
        kept = [at for at in range(self.ndim) if at not in dropped]
        shape, strides = [tuple(values[at] for at in kept) for values in (self.shape, self.strides)]
        return self._viewed(self.array.viewed(0, shape, strides))

    def view(self, dtype: Any) -> DeviceNDArray:
        """Returns a view of the same bytes with another dtype."""
        wanted = np.dtype(dtype)
        if wanted.itemsize != self.dtype.itemsize and not self.is_c_contiguous():
            raise ValueError("To change to a dtype of a different size, the array must be C-contiguous")
        if self.ndim and self.shape[-1] * self.dtype.itemsize % wanted.itemsize:
            raise ValueError(
                "When changing to a larger dtype, its size must be a divisor of the total size in bytes of the last "
                "axis of the array."
            )
        return self._viewed(self.array.view(wanted))

    def split(self, section: int, stream: Any = 0) -> Iterator[DeviceNDArray]:
        """Yields views of `section` elements each; the last one may have fewer."""
        if self.ndim != 1:
            raise ValueError("only support 1d array")
        if self.strides[0] != self.dtype.itemsize:
            raise ValueError("only support unit stride")
        for start in range(0, self.size, section):
            yield self._viewed(self.array[start : start + section])

    def _viewed(self, array: Array) -> DeviceNDArray:
        return DeviceNDArray(array, self.stream)

    # -- elements -----------------------------------------------------------------------------------------------------

    def __getitem__(self, item: Any) -> Any:
        return self.getitem(item)

    def getitem(self, item: Any, stream: Any = 0) -> Any:
        """Returns an element as a NumPy scalar, or a view."""
        if isinstance(item, str):
            return _field(self.array, item, self.stream)
        part = self._part(item)
        if part.shape or _has_slices(item):
            return self._viewed(part)
        if is_record(self.dtype):
            return DeviceRecord(self.dtype, stream, part)
        return part.numpy()[()]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.setitem(key, value)

    def setitem(self, key: Any, value: Any, stream: Any = 0) -> None:
        """Assigns an element, a field or a part."""
        part = self.array[key] if isinstance(key, str) else self._part(key)
        if is_cuda_array(value):
            source: Any = as_device_array(value).array
            shape = source.shape
        else:
            source = np.asarray(value, dtype=part.dtype)
            shape = source.shape
        _demand_fit(shape, part.shape)
        if isinstance(source, Array):
            source = source if source.dtype == part.dtype else source.astype(part.dtype)
            part.copy_from(source if source.shape == part.shape else source.broadcast_to(part.shape))
        else:
            part.write(source)

    def _part(self, item: Any) -> Array:
        """Returns the view of an index."""
        indices = item if isinstance(item, tuple) else (item,)
        if any(isinstance(index, (list, np.ndarray)) and np.ndim(index) for index in indices):
            raise NotImplementedError("only ints, slices and ... index an array of the device")
        given = [index if isinstance(index, slice) or index is Ellipsis else index.__index__() for index in indices]
        if not self.shape:
            return self.array
        shape, strides, offset = layout.view(self.shape, self.strides, tuple(given))
        if 0 in shape:
            return empty(self.array.runtime, shape, self.dtype)
        return self.array.viewed(offset, shape, strides)

    def as_cuda_arg(self) -> DeviceNDArray:
        """Returns the array."""
        return self

    def get_ipc_handle(self) -> Any:
        """Raises: arrays belong to one process."""
        raise NotImplementedError("arrays are not shared with other processes; copy them to the host")


DeviceArray = DeviceNDArray


class DeviceRecord(DeviceNDArray):
    """A record on the device; its fields are read and written one by one."""

    def __init__(self, dtype: Any, stream: Any = 0, gpu_data: Any = None) -> None:
        super().__init__(empty(current_runtime(), (), np.dtype(dtype)) if gpu_data is None else gpu_data, stream)

    @property
    def _numba_type_(self) -> Any:
        return from_dtype(self.dtype)

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> Any:
        """Copies the record to one of the host, by default a new one, and returns it."""
        host = super().copy_to_host()[()]
        if ary is None:
            return host
        for name in self.dtype.names or ():
            ary[name] = host[name]
        return ary

    def _part(self, item: Any) -> Array:
        """Returns the view of a field, by its position."""
        return self.array[(self.dtype.names or ())[item]] if isinstance(item, int) else super()._part(item)


def _record(array: ArrayValue) -> Record:
    """Returns a record that is passed as an array without axes."""
    return Record(array)


def form_of(arg: Any, leaves: list[Any]) -> Form | None:
    """Returns the form of a tuple, a record or a member, None for another argument, and adds its leaves to a list."""
    if isinstance(arg, tuple):
        return composites.form_of(arg, leaves, form_of)
    if is_member(arg):
        members = Enumeration(type(arg))
        leaves.append(members.index(arg))
        return Form(members, (None,))
    leaves.append(arg)
    return Form(_record, (None,)) if isinstance(arg, (np.void, DeviceRecord)) else None


def _field(array: Array, name: str, stream: Any) -> Any:
    """Returns a field of records: an array, a record, or a number."""
    part = array[name]
    if part.shape:
        return DeviceNDArray(part, stream)
    return DeviceRecord(part.dtype, stream, part) if is_record(part.dtype) else part.numpy()[()]


def from_record_like(rec: Any, stream: Any = 0, gpu_data: Any = None) -> DeviceRecord:
    """Makes a record of the device with the fields of another."""
    return DeviceRecord(rec.dtype, stream, gpu_data)


def forgive(array: Array) -> None:
    """Makes what a failed launch has written valid: Numba's arrays are used again after an exception."""
    _, start, stop = array.span
    array.runtime.scheduler.overwritten(array.buffer, start, stop)


def _has_slices(item: Any) -> bool:
    indices = item if isinstance(item, tuple) else (item,)
    return any(isinstance(index, slice) or index is Ellipsis for index in indices)


def _demand_fit(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    """Raises ValueError unless a shape broadcasts to another."""
    if len(shape) > len(target):
        raise ValueError(f"Can't assign {len(shape)}-D array to {len(target)}-D self")
    for at, length in enumerate(shape[::-1]):
        wanted = target[len(target) - 1 - at]
        if length not in (1, wanted):
            raise ValueError(
                f"Can't copy sequence with size {length} to array axis {len(target) - 1 - at} with dimension {wanted}"
            )


def _check_stream(stream: Any) -> None:
    if isinstance(stream, np.ndarray):
        raise TypeError(f"stream is a stream of cuda.stream(), or 0; got {type(stream).__name__}")


def _demand_alike(device: DeviceNDArray, other: Any, *, lays_out: bool = True) -> None:
    """Raises an error unless two arrays have one dtype and shape, and lay out their elements in one order."""
    if other.dtype != device.dtype:
        raise TypeError(f"incompatible dtype: {device.dtype} vs. {other.dtype}")
    if tuple(other.shape) != tuple(device.shape):
        raise ValueError(f"incompatible shape: {tuple(device.shape)} vs. {tuple(other.shape)}")
    ours, theirs = device.flags, other.flags
    names = "C_CONTIGUOUS", "F_CONTIGUOUS"
    have_order = any(ours[name] for name in names) and any(theirs[name] for name in names)
    if lays_out and device.size and have_order and not any(ours[name] and theirs[name] for name in names):
        raise ValueError(f"incompatible strides: {device.strides} vs. {other.strides}")


# -- arrays of others --------------------------------------------------------------------------------------------------


def from_cuda_array_interface(desc: dict[str, Any], owner: Any = None, sync: bool = True) -> DeviceNDArray:
    """Returns the array that a description of `__cuda_array_interface__` has, if it is one of this library.

    Args:
        sync: wait for the stream that the description names; `config.CUDA_ARRAY_INTERFACE_SYNC` switches it off.
    """
    if desc.get("mask") is not None:
        raise NotImplementedError("Masked arrays are not supported")
    array = cuda_interface.array_of(desc)
    if array is None:
        raise ValueError("this array is in memory of another library; copy it by cuda.to_device(data of the host)")
    made = DeviceNDArray(array, _stream_of(desc, sync) if array.size else 0)
    made.owner = owner  # type: ignore[attr-defined]
    return made


def _stream_of(desc: dict[str, Any], sync: bool) -> Any:
    """Returns the stream that a description names, or 0, once it has been waited for."""
    if desc.get("stream") is None:
        return 0
    stream = external_stream(desc["stream"])
    if sync and config.CUDA_ARRAY_INTERFACE_SYNC:
        stream.synchronize()
    return stream


def is_cuda_array(obj: Any) -> bool:
    """Returns True for an object with `__cuda_array_interface__`, for a `vc.Array`, and for what holds one."""
    return isinstance(obj, Array) or is_holder(obj) or hasattr(obj, "__cuda_array_interface__")


is_cuda_ndarray = is_cuda_array


def as_device_array(obj: Any, sync: bool = True) -> DeviceNDArray:
    """Returns an array of the device, without a copy."""
    if isinstance(obj, DeviceNDArray):
        return obj
    if isinstance(array := held(obj), Array):
        return DeviceNDArray(array)
    return from_cuda_array_interface(obj.__cuda_array_interface__, owner=obj, sync=sync)


def as_cuda_array(obj: Any, sync: bool = True) -> DeviceNDArray:
    """Returns an array of an object with `__cuda_array_interface__`, without a copy.

    Raises:
        TypeError: it has none.
        ValueError: its memory is of another library.
    """
    if not is_cuda_array(obj):
        raise TypeError("*obj* doesn't implement the cuda array interface.")
    return as_device_array(obj, sync)
