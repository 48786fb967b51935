"""Arrays: strided views of device memory with transfers to and from the host.

Operators, and the methods that functions of arrays compute, are defined in a higher layer, and set on first use.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute import dtypes
from vkcompute.core.buffer import Buffer
from vkcompute.core.interrupts import BlockExit, begin_block
from vkcompute.runtime.memory import layout
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.memory.copies import copy_elements, is_packed_first
from vkcompute.runtime.memory.downloads import settle
from vkcompute.runtime.memory.flat import Flags, Flat
from vkcompute.runtime.memory.host_data import HostArray, broadcast, converted
from vkcompute.runtime.memory.host_values import HostValues
from vkcompute.runtime.memory.mathematics import Mathematics, define_later
from vkcompute.runtime.memory.view import StridedView, copy_view, fill_view
from vkcompute.runtime.scheduling.future import Future


class Array(HostValues, Mathematics):
    """An n-dimensional array on the device: (buffer, offset, shape, strides, dtype).

    `Runtime.array`, `empty`, `zeros` and `full` make arrays. Indexing, `reshape` and `view` give views that share the
    memory, which is freed with the last of them.

    Attributes:
        shape, dtype, size, nbytes, ndim: as in numpy; nbytes counts the elements, without gaps between them.
        strides: distance between neighbours along each axis, in bytes.
        offset: of the first element in the buffer, in bytes.

    `launch_key` and `span` are internal and may change.
    """

    __slots__ = ()
    __array_priority__ = 100.0  # Dask joins chunks by the functions of the type with the highest

    def __enter__(self) -> Array:
        begin_block(self)
        return self

    def _exit(self, *_: object) -> None:
        self.close()

    __exit__ = BlockExit(_exit, lambda array: array.close())

    # -- to and from the host -----------------------------------------------------------------------------------------

    def write(self, data: npt.ArrayLike) -> None:
        """Overwrites the data with an array that broadcasts to this shape; `data` may be changed once this returns.

        While a graph is recorded, each run copies the array as it is when the run is submitted, after the results of
        earlier runs into its memory.

        Raises:
            TypeError: the dtype is of a lower kind than the data (float for complex, int for float).
            ValueError: the shapes do not broadcast, a Python int is out of range, the graph that is recorded reads
                into the array before, or this is a view by `broadcast_to`.
        """
        self.refuse_shared()
        recorder = self.runtime.scheduler.recording()
        if recorder is None:
            settle(data)
        source = converted(data, self.dtype)
        if recorder is not None:
            source = broadcast(source, self.shape)
            if self.size:
                array = data if isinstance(data, np.ndarray) else source
                self.copy_from(self._staged(recorder.stage_upload(array, self.shape, self.dtype)))
            return
        if self.contiguous and source.shape == self.shape and source.flags.c_contiguous:
            if self.size:
                self.runtime.transfers.upload(source, self.buffer, self.offset)
            return
        source = broadcast(source, self.shape)
        if self.contiguous:
            self.write(np.ascontiguousarray(source).reshape(self.shape))
        elif self.size:  # by a copy on the device, which does not touch the gaps
            packed = empty(self.runtime, self.shape, self.dtype)
            packed.write(np.ascontiguousarray(source).reshape(self.shape))
            copy_elements(packed, self)

    # -- on the device ------------------------------------------------------------------------------------------------

    def copy_from(self, other: Array) -> Future:
        """Copies another array of the same dtype into this one, broadcast to its shape, on the device. Asynchronous.

        Raises:
            ValueError: the shapes do not broadcast, the array is of another runtime, or the two overlap.
            TypeError: the dtypes differ, or the other is not a device array.
        """
        if not isinstance(other, Array):
            raise TypeError(
                f"copy_from takes a device array; got {type(other).__name__}; use write() for data of the host"
            )
        if is_packed_first(other, self):
            axes = tuple(sorted(range(self.ndim), key=lambda axis: -self.strides[axis]))
            return copy_view(other.transpose(axes).copy(), self.transpose(axes))
        return copy_view(other, self)

    def copy(self, order: str = "C") -> Array:
        """Returns a new array with the same data, copied on the device; column-major for "F", else contiguous."""
        if order in ("F", "f"):
            return self.transpose().copy().transpose()
        return self._copied()

    def fill(self, value: Any) -> Array:
        """Sets every element to `value`, by the rules of `write`; returns the array itself.

        Raises:
            TypeError: the value is of a higher kind than the dtype (a float for integers).
            ValueError: it is an array, or an int out of range.
        """
        if np.ndim(value):
            raise ValueError(f"fill takes one value; got an array of shape {np.shape(value)}; use write()")
        element = converted(value, self.dtype)
        if self.size and not fill_view(self, element.tobytes()):
            self.write(element[()])  # a scalar: a graph would read the caller's array anew in each run
        return self

    # -- views --------------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Array:
        if isinstance(index, str):
            return self._field(index)
        if not layout.is_basic(index):
            return self._selected(index)
        shape, strides, offset = layout.view(self.shape, self.strides, index)
        if 0 in shape and (self.is_pending or self.buffer):  # no bytes to share, but a kernel must be able to bind it
            if isinstance(self._expression, Restored):
                return restored(np.empty(shape, dtypes.on_host(self.dtype)))
            return empty(self.runtime, shape, self.dtype)
        if not self.shape and layout.is_empty(index):  # a number, as in numpy, and no view
            return self.astype(self.dtype) if self.is_pending else self.copy()
        return self.viewed(offset, shape, strides)

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise TypeError("an array of shape () cannot be iterated over; use .item()")
        return (self[i] for i in range(self.shape[0]))

    def item(self, *at: Any) -> Any:
        """Returns an element as a Python scalar, by default the only one. Waits for the work that writes it.

        Args:
            at: its index in row-major order; or one index per axis, also as a tuple.

        Raises:
            IndexError: there is no such element.
            ValueError: there is no index, and the array has no element, or several.
        """
        return (self[self._index_of(at)] if at else self)._number()

    def __setitem__(self, index: Any, value: npt.ArrayLike | Array) -> None:
        if isinstance(index, str):
            self._field(index)[...] = value
            return
        if not self._contiguous:
            self.refuse_shared()  # also for one element, which is several of this array
        if isinstance(value, Array) or not layout.is_basic(index):
            self._assign(index, value)
            return
        self.compute()
        target = self[... if layout.is_empty(index) else index]
        if isinstance(value, (np.ndarray, list)):  # as in numpy, an assignment drops first axes of length 1
            data = np.asarray(value)
            extra = max(data.ndim - target.ndim, 0)
            value = data[(0,) * extra] if extra and data.shape[:extra] == (1,) * extra else value
        target.write(value)

    def reshape(self, *shape: int | tuple[int, ...], order: str = "C", copy: bool | None = None) -> Array:
        """Returns a view with another shape; one length may be -1. Copies where no strides give one, as NumPy does.

        Args:
            shape: the lengths, or a tuple of them.
            order, copy: as of `vkcompute.numpy.reshape`.

        Raises:
            ValueError: the shape has another number of elements.
        """
        wanted: Any = shape[0] if len(shape) == 1 else shape
        if order != "C" or copy is not None:
            return self._reordered(wanted, order, copy)
        new = layout.reshaped(self.size, wanted)
        if self.contiguous:
            strides = layout.contiguous_strides(new, self.dtype.itemsize)
        elif (kept := layout.reshaped_strides(self.shape, self.strides, new)) is not None:
            strides = kept
        else:
            return self.copy().reshape(new)
        return self.viewed(0, new, strides)

    def _assign_shape(self, shape: int | tuple[int, ...]) -> None:
        """Sets the shape in place, without a copy.

        Raises:
            ValueError: the shape has another number of elements.
            AttributeError: the elements would have to be copied.
        """
        self.buffer.compute_readers()  # they refer to this array, with its shape
        view = self.reshape(tuple(shape) if isinstance(shape, Sequence) else shape)
        if view.buffer is not self.buffer:
            raise AttributeError(f"no strides give this array the shape {view.shape} in place; call x.reshape(shape)")
        self._shape, self._strides, self._contiguous = view.shape, view.strides, view.contiguous
        self.launch_key, self.span = view.launch_key, view.span

    shape: layout.Shape = StridedView.__dict__["shape"].setter(_assign_shape)

    def transpose(self, *axes: int | tuple[int, ...]) -> Array:
        """Returns a view with the axes in another order, by default reversed, as in numpy.

        Raises:
            ValueError: the axes are not a permutation.
        """
        wanted: Any = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = layout.permutation(self.ndim, wanted or None)
        shape, strides = ([values[axis] for axis in order] for values in (self.shape, self.strides))
        return self.viewed(0, tuple(shape), tuple(strides))

    @property
    def device(self) -> Context:
        """The runtime, as the Array API standard calls it."""
        return self.runtime

    @property
    def flags(self) -> Flags:
        """The memory layout, by NumPy's names: `x.flags.c_contiguous`, `x.flags["F_CONTIGUOUS"]`."""
        return Flags(self)

    @property
    def flat(self) -> Flat:
        """The elements in row-major order: `x.flat[5]`, `x.flat[::2] = 0`, `for element in x.flat`."""
        return Flat(self)

    @flat.setter
    def flat(self, values: Any) -> None:
        Flat(self).assign(values)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def real(self) -> Array:
        """The view of the real parts; the array itself if it is not complex."""
        return self._part(0) if self.dtype.kind == "c" else self

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Array:
        """The view of the imaginary parts; zeros for an array that is not complex."""
        return self._part(1) if self.dtype.kind == "c" else empty(self.runtime, self.shape, self.dtype).fill(0)

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.dtype.kind != "c":
            raise TypeError(
                f"an array of {self.dtype} has no imaginary part to set; convert it with .astype('complex64')"
            )
        self.imag[...] = value

    def _part(self, at: int) -> Array:
        dtype = np.dtype(f"f{self.dtype.itemsize // 2}")
        if 0 in self.shape:
            return empty(self.runtime, self.shape, dtype)
        return self.viewed(at * dtype.itemsize, self.shape, self.strides, dtype)

    def viewed(
        self, offset: int, shape: layout.Shape, strides: layout.Shape, dtype: np.dtype[Any] | None = None
    ) -> Array:
        """Returns a view from an offset in bytes. Internal: it checks nothing."""
        view = Array(
            self.runtime, self.buffer, self.offset + offset, shape, strides, self.dtype if dtype is None else dtype
        )
        view._base = self._base or weakref.ref(self)
        return view

    def _field(self, name: str) -> Array:
        """Returns the view of a field of records; a field that is an array adds its axes."""
        if not dtypes.is_record(self.dtype):
            raise IndexError(f"arrays of records have fields; got {name!r} for an array of {self.dtype}")
        if name not in (names := self.dtype.names or ()):
            raise ValueError(f"no field {name!r} in an array of {self.dtype}; its fields are {', '.join(names)}")
        dtype, offset = self.dtype.fields[name][:2]  # type: ignore[index]
        kind = dtype.base
        inner = layout.contiguous_strides(dtype.shape, kind.itemsize)
        shape = self.shape + dtype.shape
        if 0 in shape:
            return empty(self.runtime, shape, kind)
        return self.viewed(offset, shape, self.strides + inner, kind)

    @property
    def base(self) -> Array | None:
        """The array whose memory this is a view of; None for an array with memory of its own.

        A view does not keep the other array object. Once that is gone, it is another one of the same memory.
        """
        if self._base is None:
            return None
        owner: Array | None = self._base()
        if owner is not None:
            return owner
        nbytes = self.buffer.used_bytes
        dtype = self.dtype if nbytes % self.dtype.itemsize == 0 else np.dtype(np.uint8)
        return Array(self.runtime, self.buffer, 0, (nbytes // dtype.itemsize,), (dtype.itemsize,), dtype)

    @property
    def T(self) -> Array:  # noqa: N802
        """The view with all axes in reverse order."""
        return self.transpose()

    def broadcast_to(self, shape: int | tuple[int, ...]) -> Array:
        """Returns a view of this shape, in which elements are repeated by strides of 0; it cannot be written.

        Raises:
            ValueError: this shape does not broadcast to it.
        """
        wanted = layout.checked_shape(shape)
        strides = layout.broadcast_strides(self.shape, self.strides, wanted)
        return self.viewed(0, wanted, strides)

    def view(self, dtype: npt.DTypeLike | None = None) -> Array:
        """Returns a view of the same bytes with another dtype; the length of the last axis changes with the item size.

        Without a dtype, it is another array object with the same elements.

        Raises:
            ValueError: the last axis is not contiguous, or its bytes are not a multiple of the new item size.
        """
        new = self.dtype if dtype is None else dtypes.checked_dtype(dtype)
        shape, strides = self.shape, self.strides
        if new.itemsize != self.dtype.itemsize:
            if shape and shape[-1] > 1 and strides[-1] != self.dtype.itemsize:
                raise ValueError(
                    f"a view as {new} has a contiguous last axis; its elements of {self.dtype.itemsize} bytes are "
                    f"{strides[-1]} bytes apart; call .copy() first"
                )
            if not shape or shape[-1] * self.dtype.itemsize % new.itemsize:
                raise ValueError(
                    f"a last axis of {shape[-1:] or 'no'} elements of {self.dtype} is no whole number of {new} elements"
                )
            shape = (*shape[:-1], shape[-1] * self.dtype.itemsize // new.itemsize)
            strides = (*strides[:-1], new.itemsize)
        return self.viewed(0, shape, strides, new)

    # -- Python's protocols --------------------------------------------------------------------------------------------

    __hash__ = None  # type: ignore[assignment]  # arrays are compared by element, as in numpy

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the elements, out of band with protocol 5.

        Loading makes an array of the default runtime. It is opened, and the elements are uploaded, on first use: a
        process that only passes the array on needs no device.
        """
        expression = self._expression
        return restored, (expression.host if isinstance(expression, Restored) else self._on_host(),)

    def __copy__(self) -> Array:
        return self.copy()

    def __deepcopy__(self, _: object) -> Array:
        return self.copy()

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


define_later(Array)


class Restored:
    """The expression of an array that was unpickled: its elements are still on the host.

    Attributes:
        host: the elements.
        depth, reader, readers: as of other expressions.
    """

    __slots__ = ("depth", "host", "reader", "readers")

    def __init__(self, host: HostArray) -> None:
        self.host = host
        self.readers: list[Any] = []
        self.reader: Any = None
        self.depth = 0

    def compute(self, array: Array) -> Array:
        """Uploads the elements. Nothing else writes to their memory, so this waits for no downloads."""
        result = empty(array.runtime, array.shape, array.dtype)
        if result.size:
            array.runtime.transfers.upload(np.ascontiguousarray(self.host), result.buffer, 0)
        return result


def restored(host: HostArray) -> Array:
    """Makes an array of the default runtime, which is opened, and the elements uploaded, on first use.

    The memory of `host` belongs to the array from now on.
    """
    dtype = dtypes.checked_dtype(host.dtype)
    return Array.lazy(None, host.shape, dtype, Restored(host.astype(dtypes.on_host(dtype), copy=False)))


def copied(array: Array) -> Array:
    """Returns a contiguous copy of an array."""
    result = _recorded(array.runtime, array.shape, array.dtype)
    if result is None:
        result = empty(array.runtime, array.shape, array.dtype)
    copy_elements(array, result)
    return result


def empty(context: Context, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Makes an array with arbitrary content; raises as `Runtime.empty`."""
    context.require_open()
    return allocate(context, context.device.buffer, shape, dtype)


def empty_result(context: Context, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Makes an array for the result of launches, as `empty`; the device may still use its memory."""
    array = _recorded(context, shape, dtype)
    if array is not None:
        return array
    context.require_open()
    return allocate(context, context.device.result_buffer, shape, dtype)


def _recorded(context: Context, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array | None:
    """Makes an array for a result in the recording of a function; None outside of one."""
    scheduler = context.scheduler
    if not scheduler.recordings or (recorder := scheduler.recording()) is None:
        return None
    array: Array | None = recorder.result(shape, dtype)
    return array


def allocate(
    context: Context, buffer_of: Callable[[int], Buffer], shape: int | tuple[int, ...], dtype: npt.DTypeLike
) -> Array:
    """Makes an array on the buffer that `buffer_of(nbytes)` returns; raises as `Runtime.empty`."""
    return allocate_checked(context, buffer_of, layout.checked_shape(shape), dtypes.checked_dtype(dtype))


def allocate_checked(
    context: Context, buffer_of: Callable[[int], Buffer], shape: layout.Shape, dtype: np.dtype[Any]
) -> Array:
    """Makes an array as `allocate`, of a shape and a dtype that an array may have."""
    nbytes = math.prod(shape) * dtype.itemsize
    buffer = buffer_of(nbytes)
    if context.scheduler.tracers and (tracer := context.scheduler.tracer()) is not None:
        tracer.allocated(buffer)
    return Array.whole(context, buffer, shape, dtype, nbytes)


def alias(array: Array) -> Array:
    """Returns the same array as another object, which stays open when the first one is closed."""
    return Array(array.runtime, array.buffer, array.offset, array.shape, array.strides, array.dtype)
