"""Strided views of device memory; copies between them, and fills, on the device."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter
from sys import _getframe
from typing import Any, Protocol, TypeVar

import numpy as np

from vkcompute import deferred_calls
from vkcompute.array_namespace import namespace
from vkcompute.core import vk
from vkcompute.core.buffer import Buffer
from vkcompute.core.interrupts import takes_lock
from vkcompute.dtypes import type_code
from vkcompute.errors import ClosedError
from vkcompute.runtime.memory import layout
from vkcompute.runtime.memory.context import ONE_RUNTIME, Context, Reader
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.current import unrecorded
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.task import CopyPart, copy_region, refuse_overlap

_MEMORY = ("_buffer", "launch_key", "span")
_SIZES = ("_size", "_nbytes")
_MOST_JOINED = 2**24
"""Bytes of arrays that one task joins: they are on the device at the same time."""
_View = TypeVar("_View", bound="StridedView")
_REMEDIES = {
    "clone": "x.copy()",
    "copy_to_host": "x.numpy()",
    "asnumpy": "x.numpy()",
    "cpu": "x.numpy()",
    "cuda": "gpu.array(x)",
    "data_ptr": "x as an argument, or triton.PointerTable(arrays) for a table of addresses",
    "detach": "x; there are no gradients",
    "dim": "x.ndim",
    "element_size": "x.itemsize",
    "float": "x.astype(np.float32)",
    "get": "x.numpy()",
    "half": "x.astype(np.float16)",
    "is_contiguous": "x.contiguous",
    "numel": "x.size",
    "permute": "x.transpose(axes)",
    "set": "x.write(data)",
    "stride": "x.strides[axis] // x.itemsize, as x.strides are bytes",
    "to_numpy": "x.numpy()",
    "to": "x.astype(dtype), x.to_device(runtime) or x.numpy()",
    "unsqueeze": "x[None]",
}
"""Replacements for attributes of arrays of CuPy, Numba, PyCUDA and PyTorch, by name."""


class Expression(Protocol):
    """The work that computes an array when somebody needs its memory.

    Attributes:
        readers: the arrays that are to be computed from the array.
        reader: the reference to the array in `Context.pending`; None if nobody has the array but other expressions.
    """

    readers: list[Reader]
    reader: Reader | None

    def compute(self, array: Any) -> StridedView:
        """Returns new memory with the elements of `array`, which holds the expression. Requires the device's lock."""


def _read_only(slot: str, instead: str) -> Any:
    """Returns a read-only property of a slot: writing the slot could make the array overlap others.

    Its getter is C, and twice as fast as one in Python.
    """

    def refuse(view: object, value: object) -> None:
        raise AttributeError(f"{slot[1:]} of an array is read-only; make another array, as by {instead}")

    return property(attrgetter(slot), refuse)


class StridedView:
    """Typed elements in device memory: (buffer, offset, shape, strides, dtype). Views may share memory.

    Attributes:
        runtime: the runtime of the memory.
        shape, dtype, size, nbytes, ndim: as in numpy; nbytes counts the elements, without gaps between them.
        strides: distance between neighbours along each axis, in bytes.
        offset: of the first element in the buffer, in bytes.
        contiguous: True if the elements are C-contiguous.
        launch_key: equal keys mean equal bindings and default grids, so launches reuse a plan.
        span: the range of the elements, as `range` gives it.
        owner: a weak reference to what has the array as all of its memory, such as a tensor's storage; None for others.
    """

    __slots__ = (
        "__weakref__", "_base", "_buffer", "_contiguous", "_dtype", "_expression", "_nbytes", "_offset", "_shape",
        "_size", "_strides", "launch_key", "owner", "runtime", "span",
    )  # fmt: skip

    shape: layout.Shape = _read_only("_shape", "x.reshape(shape)")
    dtype: np.dtype[Any] = _read_only("_dtype", "x.view(dtype) or x.astype(dtype)")
    strides: layout.Shape = _read_only("_strides", "x[::2] or x.transpose()")
    offset: int = _read_only("_offset", "x[1:]")
    size: int = _read_only("_size", "x.reshape(shape)")
    nbytes: int = _read_only("_nbytes", "x.reshape(shape)")
    contiguous: bool = _read_only("_contiguous", "x.copy()")

    def __init__(
        self,
        runtime: Context | None = None,  # like the rest, it has a default for the sake of the error
        buffer: Buffer | None = None,
        offset: int = 0,
        shape: layout.Shape = (),
        strides: layout.Shape = (),
        dtype: np.dtype[Any] | None = None,
    ) -> None:
        if runtime is None or buffer is None or dtype is None:
            raise TypeError(
                "arrays are made by functions: array(data), zeros(shape) and others of a runtime, as in "
                "vc.default_runtime().array([1, 2]), or of vkcompute.numpy"
            )
        self._expression: Expression | None = None
        self._base: weakref.ref[Any] | None = None
        self.owner: weakref.ref[Any] | None = None
        self._buffer: Buffer | None = buffer
        self.runtime, self._offset = runtime, offset
        self._shape, self._strides, self._dtype = shape, strides, dtype
        self._size = math.prod(shape)
        self._nbytes = self._size * dtype.itemsize
        self._contiguous = layout.is_contiguous(shape, strides, dtype.itemsize)
        self.launch_key: Any = None
        self.span: Any = None
        if self._contiguous:
            self._bind(buffer)
        else:
            self.launch_key = (buffer.location + offset, shape, type_code(dtype), strides)
            self.span = self.range

    @classmethod
    def lazy(
        cls: type[_View], runtime: Context | None, shape: layout.Shape, dtype: np.dtype[Any], expression: Expression
    ) -> _View:
        """Makes an array whose memory is computed on first use; without a runtime, the default one is opened then."""
        self = cls.__new__(cls)
        self._offset, self._shape, self._dtype, self._contiguous = 0, shape, dtype, True
        self._expression, self._base, self.owner = expression, None, None
        if runtime is not None:
            self.runtime = runtime
            if runtime.scheduler.recordings:
                runtime.own(self)
            reader = Reader(self, runtime.forget)
            runtime.pending[reader] = None
            expression.reader = reader
        return self

    @classmethod
    def whole(
        cls: type[_View], runtime: Context, buffer: Buffer, shape: layout.Shape, dtype: np.dtype[Any], nbytes: int
    ) -> _View:
        """Makes a contiguous array at the start of a buffer; in half the time of the constructor."""
        self = cls.__new__(cls)
        self.runtime, self._buffer, self._expression, self._contiguous = runtime, buffer, None, True
        self._offset, self._shape, self._dtype, self._nbytes = 0, shape, dtype, nbytes
        self._base = self.owner = None
        char = dtype.char if dtype.char != "V" else type_code(dtype)
        self.launch_key = buffer.location, shape, char + "." if nbytes == buffer.used_bytes else char  # as in `_bind`
        self.span = buffer, 0, nbytes
        return self

    @classmethod
    def strided(
        cls: type[_View], runtime: Context, buffer: Buffer, offset: int, like: tuple[Any, ...], extent: tuple[int, int]
    ) -> _View:
        """Makes an array that is not contiguous, faster than the constructor.

        Args:
            like: the shape, the strides, the dtype and its `type_code`.
            extent: the first byte of the elements and the end of the last one, from the offset.
        """
        self = cls.__new__(cls)
        self.runtime, self._buffer, self._expression, self._contiguous = runtime, buffer, None, False
        self._shape, self._strides, self._dtype, char = like
        self._offset, self._base, self.owner = offset, None, None
        self.launch_key = buffer.location + offset, self._shape, char, self._strides
        self.span = buffer, offset + extent[0], offset + extent[1]
        return self

    def _bind(self, buffer: Buffer) -> None:
        """Sets the key and the span of contiguous elements."""
        # "." marks the end of the buffer, where padding follows. Elsewhere the next bytes belong to other views.
        stop = self._offset + self._nbytes
        end = "." if stop == buffer.used_bytes else ""
        self.launch_key = (buffer.location + self._offset, self._shape, type_code(self._dtype) + end)
        self.span = (buffer, self._offset, stop)

    def __getattr__(self, name: str) -> Any:
        """Sets attributes of a lazy array that are not set at first: sizes, runtime, or memory, which is computed."""
        if name in _SIZES:
            self._size = math.prod(self._shape)
            self._nbytes = self._size * self._dtype.itemsize
        elif name == "_strides":
            self._strides = layout.contiguous_strides(self._shape, self._dtype.itemsize)
        elif name in _MEMORY:
            self.compute()
        elif name == "runtime":
            self.runtime = runtime = namespace().current_runtime()
            if (expression := self._expression) is not None:
                expression.reader = Reader(self, runtime.forget)
                runtime.pending[expression.reader] = None
        elif isinstance(attribute := getattr(type(self), name, None), property):
            return attribute.__get__(self)  # raises its own AttributeError again, which led here
        else:
            remedy = f"; write {_REMEDIES[name]}" if name in _REMEDIES else ""
            text = f"{type(self).__name__!r} object has no attribute {name!r}{remedy}"
            raise AttributeError(text, name=name, obj=self)
        return object.__getattribute__(self, name)

    @property
    def expression(self) -> Expression | None:
        """The expression of a lazy array; None once the memory is computed."""
        return self._expression

    @property
    def is_pending(self) -> bool:
        """True if the memory is still to be computed."""
        return self._expression is not None

    @property
    def is_of_other_recording(self) -> bool:
        """True if a recording of another thread or task has made this lazy array, and alone may compute it."""
        scheduler = self.runtime.scheduler
        return bool(scheduler.recordings) and scheduler.recorder_of(self) not in (None, scheduler.recording())

    @takes_lock
    def compute(self) -> None:
        """Computes the memory of a lazy array; does nothing for others."""
        if self._expression is None:
            return
        scheduler = self.runtime.scheduler
        device = scheduler.device
        if device.is_owned():  # does what `device.lock` does, but records no holder: see `takes_lock`
            device.refuse_interruption(_getframe())
        with device.unguarded_lock:
            expression = self._expression
            if expression is None:  # another thread has computed it
                return
            if scheduler.tracers and (tracer := scheduler.tracer()) is not None:
                result = tracer.computed(self, partial(self._computed, expression))
            else:
                result = self._computed(expression) if scheduler.recordings else expression.compute(self)
            self._take(expression, result._buffer or result.buffer, result.launch_key, result.span)
        if deferred_calls.waiting or scheduler.is_ahead:
            scheduler.unlocked()

    def discard(self, buffer: Buffer) -> None:
        """Gives a lazy array a buffer without its elements, which nobody will need; does nothing for others."""
        with self.runtime.scheduler.device.lock:
            if self._expression is not None:
                view = type(self).whole(self.runtime, buffer, self.shape, self.dtype, self.nbytes)
                self._take(self._expression, buffer, view.launch_key, view.span)

    def _take(self, expression: Expression, buffer: Buffer, launch_key: Any, span: Any) -> None:
        """Sets the memory of a lazy array, on which its readers depend from now on."""
        if n_readers := len(expression.readers):
            _inherit(buffer, expression.readers[:n_readers])
        self.launch_key, self.span, self._buffer = launch_key, span, buffer
        self._expression = None
        if len(expression.readers) > n_readers:  # another thread has added some meanwhile
            _inherit(buffer, expression.readers[n_readers:])

    def _computed(self, expression: Expression) -> StridedView:
        """Computes an expression: in the recording that has made it, else at once, as for one of another thread."""
        scheduler = self.runtime.scheduler
        if not scheduler.recordings:
            return expression.compute(self)
        if self.is_of_other_recording:
            raise ValueError(
                f"this array of shape {self.shape} is made by a graph that another thread or task records: it has "
                "elements only while the graph runs; write it to an array in the recording, and read that after a run"
            )
        if scheduler.recording() is scheduler.recorder_of(self):
            return expression.compute(self)
        return unrecorded(expression.compute, self)

    @property
    def buffer(self) -> Buffer:
        """The buffer with the elements.

        Raises:
            ClosedError: the array or its runtime is closed.
        """
        if (buffer := self._buffer) is None:
            raise ClosedError(f"this array of shape {self.shape} is closed; make a new one")
        self.runtime.require_open()
        return buffer

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def closed(self) -> bool:
        """True once `close()` was called."""
        return self._expression is None and self._buffer is None

    @property
    def range(self) -> Range:
        """The bytes from the first element to the last: (buffer, start, stop)."""
        low, high = layout.extent(self.shape, self.strides, self.dtype.itemsize)
        return self.buffer, self.offset + low, self.offset + high

    @property
    def shares_elements(self) -> bool:
        """True if several elements share memory, as by `broadcast_to`, or windows that overlap."""
        return not self.contiguous and layout.shares_elements(self.shape, self.strides, self.dtype.itemsize)

    def refuse_shared(self) -> None:
        """Raises ValueError if several elements share memory, and cannot be written one by one."""
        if self.shares_elements:
            raise ValueError(
                f"elements that share memory are not written: strides are {self.strides} for the shape {self.shape}; "
                "write to a .copy()"
            )

    def overlaps(self, other: StridedView) -> bool:
        """Returns True if the ranges of the two views have bytes in common."""
        (mine, start, stop), (its, first, last) = self.range, other.range
        return mine is its and start < last and first < stop

    def close(self) -> None:
        """Releases the memory. It is freed after its last use, once no other view holds it."""
        if self._expression is None:
            if (buffer := self._buffer) is not None and buffer.readers and not self._is_left:
                buffer.compute_readers()
            self._clear()
            return
        with self.runtime.scheduler.device.lock:  # another thread may be about to compute it
            expression = self._expression
            for reader in reversed([] if expression is None or self._is_left else expression.readers):
                reader.compute()
            self._clear()

    @property
    def _is_left(self) -> bool:
        """True if nothing can be computed on the runtime any more."""
        return self.runtime.closed or self.runtime.inherited

    def _clear(self) -> None:
        self._expression = self._buffer = None
        self.launch_key = self.span = None


def _inherit(buffer: Buffer, readers: list[Reader]) -> None:
    """Registers the arrays that are to be computed from a buffer."""
    for reader in readers:
        if not reader.is_done:
            buffer.add_reader(reader)


def copy_view(source: StridedView, target: StridedView) -> Future:
    """Copies `source`, broadcast to the shape of `target`, into it.

    Raises:
        ValueError: the shapes do not broadcast, the runtimes differ, the views overlap, or elements of the target share
            memory.
        TypeError: the dtypes differ.
    """
    target.refuse_shared()
    runtime = target.runtime
    if source.runtime is not runtime:
        raise ValueError(f"the other array belongs to another runtime; {ONE_RUNTIME}")
    if source.dtype != target.dtype:
        raise TypeError(
            f"a copy keeps the dtype; got {source.dtype} into {target.dtype}; convert on the host: "
            f"write(other.numpy().astype({target.dtype.name!r}))"
        )
    strides = layout.broadcast_strides(source.shape, source.strides, target.shape)
    if not target.size or _same_place(source, strides, target):
        return runtime.scheduler.completed_future()
    with runtime.scheduler.device.lock:
        target.buffer.compute_readers()  # before the addresses are read: it may move buffers
        runtime.scheduler.restore([source.buffer, target.buffer])
        future = runtime.scheduler.copy([_part(source, strides, target, target.shape, target.offset)], target.span)
    runtime.scheduler.unlocked()
    return future


def join_views(sources: Sequence[StridedView], target: StridedView, axis: int) -> None:
    """Copies views side by side along an axis into another, whose length along it is the sum of theirs."""
    scheduler, offset = target.runtime.scheduler, target.offset
    step = target.strides[axis]
    for group in _groups([source for source in sources if source.size], _MOST_JOINED):
        with scheduler.device.lock:
            target.buffer.compute_readers()  # before the addresses are read: it may move buffers
            scheduler.restore([target.buffer, *[source.buffer for source in group]])
            parts = []
            for source in group:
                parts.append(_part(source, source.strides, target, source.shape, offset))
                offset += source.shape[axis] * step
            scheduler.copy(parts, target.span)
        scheduler.unlocked()


def _groups(views: Sequence[_View], most: int) -> Iterator[list[_View]]:
    """Yields views in groups of at most so many bytes, or of one."""
    group, nbytes = list[_View](), 0
    for view in views:
        if group and nbytes + view.nbytes > most:
            yield group
            group, nbytes = [], 0
        group.append(view)
        nbytes += view.nbytes
    if group:
        yield group


def fill_view(view: StridedView, element: bytes) -> bool:
    """Writes the bytes of one element into every element. Returns False if the view does not consist of whole words.

    vkCmdFillBuffer writes words of 4 bytes. Of longer elements, the first is written and then doubled by copies.
    """
    scheduler, (buffer, start, stop) = view.runtime.scheduler, view.range
    if not view.contiguous or start % 4 or (stop % 4 and stop != buffer.used_bytes):
        return False
    stop += -stop % 4
    if len(element) <= 4 or element == element[:4] * (len(element) // 4):
        scheduler.fill((buffer, start, stop), int.from_bytes((element * 4)[:4], "little"))
        return True
    for at in range(0, len(element), 4):
        scheduler.fill((buffer, start + at, start + at + 4), int.from_bytes(element[at : at + 4], "little"))
    done = len(element)
    while done < stop - start:
        nbytes = min(done, stop - start - done)
        source, target = (buffer, start, start + nbytes), (buffer, start + done, start + done + nbytes)
        with scheduler.device.lock:
            scheduler.restore([buffer])
            scheduler.copy([CopyPart(source, copy_region(buffer, start, buffer, start + done, nbytes), 1)], target)
        scheduler.unlocked()
        done += nbytes
    return True


def _same_place(source: StridedView, strides: layout.Shape, target: StridedView) -> bool:
    return source.buffer is target.buffer and source.offset == target.offset and strides == target.strides


def _part(
    source: StridedView, strides: layout.Shape, target: StridedView, shape: layout.Shape, offset: int
) -> CopyPart:
    """The copy of a view, read by strides, to the elements of a target from an offset in its buffer. Requires the lock.

    Raises:
        ValueError: both share bytes.
    """
    itemsize, start, origin, goal = target.dtype.itemsize, source.offset, source.buffer, target.buffer
    nbytes = math.prod(shape) * itemsize
    one_run = layout.n_runs(shape, strides, itemsize) == 1 == layout.n_runs(shape, target.strides, itemsize)
    if one_run and (origin is not goal or abs(start - offset) >= nbytes):
        return CopyPart(source.span, copy_region(origin, start, goal, offset, nbytes), 1)
    sides = [layout.runs(shape, steps, itemsize) for steps in (strides, target.strides)]
    run = min(length for _, length in sides)
    table = np.empty((nbytes // run, 3), np.int64)
    table[:, 2] = run
    for column, (offsets, length) in enumerate(sides):
        table[:, column] = np.add.outer(offsets, np.arange(0, length, run)).reshape(-1)
    table[:, :2] += start, offset
    if origin is goal:
        refuse_overlap(table[:, 0], table[:, 1], run)
    table[:, :2] += origin.offset, goal.offset
    return CopyPart(source.span, vk.ffi.from_buffer("VkBufferCopy[]", table), len(table))
