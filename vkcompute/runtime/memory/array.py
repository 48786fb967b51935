"""Arrays: strided views of device memory with transfers to and from the host.

Operators, and the methods that functions of arrays compute, are defined on a higher floor, and set on first use.
"""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute import dtypes
from vkcompute.core.buffer import Buffer
from vkcompute.core.interrupts import BlockExit, begin_block
from vkcompute.runtime.memory import dlpack, layout
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.memory.copies import copy_elements, is_packed_first
from vkcompute.runtime.memory.downloads import settle
from vkcompute.runtime.memory.flat import Flags, Flat
from vkcompute.runtime.memory.host_data import HostArray, broadcast, converted, warn_of_numpy
from vkcompute.runtime.memory.mathematics import Mathematics, define_later
from vkcompute.runtime.memory.printing import html, representation, text
from vkcompute.runtime.memory.view import StridedView, copy_view, fill_view
from vkcompute.runtime.scheduling.future import Future


class Array(StridedView, Mathematics):
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

    def numpy(self) -> HostArray:
        """Returns a C-contiguous copy of the data. Waits only for the work that writes it.

        Raises:
            TypeError: NumPy lacks the dtype, and the package ml_dtypes, which adds it, is not installed.
        """
        if isinstance(self._dtype, dtypes.SmallFloat):
            dtypes.require_host(self._dtype)
        return self._on_host()

    def _on_host(self) -> HostArray:
        """Returns a copy of the data; of a dtype that NumPy lacks, it may be records of the bits."""
        self.runtime.scheduler.refuse_recording(
            "numpy() of an array", "read() it into an array, or after the graph has run"
        )
        out = np.empty(self._shape, self._dtype)
        self._download(out)
        return out

    def read(self, out: HostArray) -> None:
        """Copies the data into an array of the same shape and dtype, with any strides. Waits as `numpy()` does.

        While a graph is recorded, this is a part of it. Each run fills the array before its future is done, at the
        latest in `Runtime.wait()` or when a later run, read or write uses the same memory. Do not change it before.

        Raises:
            TypeError: `out` is not a NumPy array.
            ValueError: shape or dtype differ, or `out` is read-only.
        """
        if not isinstance(out, np.ndarray):
            raise TypeError(f"a device array is read into a NumPy array; got {type(out).__name__}")
        if (out.shape, out.dtype) != (self.shape, self.dtype) or not out.flags.writeable:
            raise ValueError(
                f"an array of shape {self.shape} and {self.dtype} is read into a writeable NumPy array of both; "
                f"got one of shape {out.shape} and {out.dtype}{'' if out.flags.writeable else ', read-only'}"
            )
        if not self.size:
            return
        if (recorder := self.runtime.scheduler.recording()) is not None:
            self._staged(recorder.stage_download(out)).copy_from(self)
            return
        settle(out)
        self._download(out)

    def _download(self, out: HostArray) -> None:
        """Waits for the data, and copies them into an array of the same shape, for which no copy is pending."""
        if not self.size:
            return
        if not self.contiguous:
            out[...] = self._strided(self._download_extent())
        elif out.flags.c_contiguous:
            self.runtime.transfers.download(self._buffer or self.buffer, self._offset, out)
        else:
            out[...] = self._on_host()

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

    def _staged(self, buffer: Buffer) -> Array:
        """A contiguous array of the same shape and dtype on a staging buffer."""
        strides = layout.contiguous_strides(self.shape, self.dtype.itemsize)
        return Array(self.runtime, buffer, 0, self.shape, strides, self.dtype)

    def _download_extent(self) -> npt.NDArray[np.uint8]:
        buffer, start, stop = self.range
        whole = np.empty(stop - start, np.uint8)
        self.runtime.transfers.download(buffer, start, whole)
        return whole

    def _strided(self, whole: npt.NDArray[np.uint8]) -> HostArray:
        low, _ = layout.extent(self.shape, self.strides, self.dtype.itemsize)
        strided: HostArray = np.ndarray(self.shape, dtypes.on_host(self.dtype), whole.data, -low, self.strides)
        return strided

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        if copy is False:
            raise ValueError("a device array becomes a NumPy array by copying; use np.asarray(x), or np.from_dlpack")
        warn_of_numpy(sys._getframe(1))
        host = self.numpy()
        return host if dtype is None else host.astype(dtype, copy=False)

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Exports the memory itself as a CPU array, for `np.from_dlpack(x)`. Waits for the work on it.

        The memory stays valid as long as the exported array exists, even if the runtime is closed.

        Raises:
            BufferError: the memory is not host-visible; use `.numpy()`.
        """
        self.runtime.scheduler.refuse_recording("the host's view of an array", "take it before or after the recording")
        buffer, start, stop = self.range
        memory = self.runtime.transfers.lend(buffer, start, stop - start)
        if memory is None:
            raise BufferError(f"the memory of {self.runtime.device} is not host-visible; use .numpy(), which copies")
        options = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        given: Any = {name: value for name, value in options.items() if value is not None}
        if isinstance(self.dtype, dtypes.SmallFloat):
            return dlpack.exported(self._strided(memory).view(f"u{self.dtype.itemsize}"), self.dtype, given)
        return self._strided(memory).__dlpack__(**given)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU

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
        wanted = layout.lengths_of_array(shape)
        strides = layout.broadcast_strides(self.shape, self.strides, wanted)
        return self.viewed(0, wanted, strides)

    def view(self, dtype: npt.DTypeLike | None = None) -> Array:
        """Returns a view of the same bytes with another dtype; the length of the last axis changes with the item size.

        Without a dtype, it is another array object with the same elements.

        Raises:
            ValueError: the last axis is not contiguous, or its bytes are not a multiple of the new item size.
        """
        new = self.dtype if dtype is None else dtypes.stored(dtype)
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

    def item(self, *at: Any) -> Any:
        """Returns an element as a Python scalar, by default the only one. Waits for the work that writes it.

        Args:
            at: its index in row-major order; or one index per axis, also as a tuple.

        Raises:
            IndexError: there is no such element.
            ValueError: there is no index, and the array has no element, or several.
        """
        element = dtypes.numbers_of(self._element(at)._on_host() if at else self._on_host())
        if element.size != 1:
            raise ValueError(f"only an array of one element is a number; this one has shape {self.shape}; use .numpy()")
        return element.item()

    def _element(self, at: tuple[Any, ...]) -> Array:
        """Returns the view of one element; see `item`."""
        given = at[0] if len(at) == 1 else at
        if not isinstance(given, tuple):
            number = operator.index(given)
            if not -self.size <= number < self.size:
                raise IndexError(f"the index of an element is {-self.size} to {self.size - 1} here; got {number}")
            given = tuple(map(int, np.unravel_index(number % self.size, self.shape)))
        if len(given) != self.ndim:
            raise IndexError(f"an element has one index per axis; got {len(given)} for {self.ndim} axes")
        return self[given]

    def tobytes(self, order: str = "C") -> bytes:
        """Returns the bytes of the elements, in row-major order, or column-major for "F". Waits as `numpy()`."""
        return self._on_host().tobytes(order)  # type: ignore[arg-type]

    def tolist(self) -> Any:
        """Returns the data as nested Python lists, or as a scalar if the shape is ()."""
        return dtypes.numbers_of(self._on_host()).tolist()

    def __bool__(self) -> bool:
        if self.size != 1:
            rule = f"only an array of one element has a truth value; this one has shape {self.shape}"
            raise ValueError(f"{rule}; call .any() or .all()")
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        value = self.item()
        if not isinstance(value, int):
            raise TypeError(f"only an array of integers is an index; its element is {value!r}")
        return value

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of shape () has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("an array of shape () cannot be iterated over; use .item()")
        return (self[i] for i in range(self.shape[0]))

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

    def __format__(self, spec: str) -> str:
        """Formats the only element of an array of shape () as a number; other arrays without a format as text."""
        if spec and self.shape:
            raise TypeError(
                f"one number has a format; got {spec!r} for an array of shape {self.shape}; use an element, or .numpy()"
            )
        return format(self.item(), spec) if spec else str(self)

    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        return representation(self)

    def _repr_html_(self) -> str:
        return html(self)


define_later(Array)


class Restored:
    """The expression of an array that was unpickled: its elements are still on the host.

    Attributes:
        host: the elements.
        readers, depth: as of other expressions.
    """

    __slots__ = ("depth", "host", "readers")

    def __init__(self, host: HostArray) -> None:
        self.host = host
        self.readers: list[Any] = []
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
    dtype = dtypes.stored(host.dtype)
    return Array.lazy(None, host.shape, dtype, Restored(host.astype(dtypes.on_host(dtype), copy=False)))


def copied(array: Array) -> Array:
    """Returns a contiguous copy of an array."""
    result = empty(array.runtime, array.shape, array.dtype)
    copy_elements(array, result)
    return result


def empty(context: Context, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Makes an array with arbitrary content; raises as `Runtime.empty`."""
    context.require_open()
    return allocate(context, context.device.buffer, shape, dtype)


def empty_result(context: Context, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Makes an array for the result of launches, as `empty`; the device may still use its memory."""
    context.require_open()
    return allocate(context, context.device.result_buffer, shape, dtype)


def allocate(
    context: Context, buffer_of: Callable[[int], Buffer], shape: int | tuple[int, ...], dtype: npt.DTypeLike
) -> Array:
    """Makes an array on the buffer that `buffer_of(nbytes)` returns; raises as `Runtime.empty`."""
    lengths = layout.lengths_of_array(shape)
    kind = dtypes.stored(dtype)
    strides = layout.contiguous_strides(lengths, kind.itemsize)
    nbytes = kind.itemsize
    for length in lengths:
        nbytes *= length
    buffer = buffer_of(nbytes)
    if context.scheduler.tracers and (tracer := context.scheduler.tracer()) is not None:
        tracer.allocated(buffer)
    return Array(context, buffer, 0, lengths, strides, kind)


def alias(array: Array) -> Array:
    """Returns the same array as another object, which stays open when the first one is closed."""
    return Array(array.runtime, array.buffer, array.offset, array.shape, array.strides, array.dtype)
