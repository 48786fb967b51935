"""Elements of arrays on the host: NumPy arrays, numbers, lists, bytes and text. Each waits for the work on them."""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute import dtypes
from vkcompute.core.buffer import Buffer
from vkcompute.runtime.memory import dlpack, layout
from vkcompute.runtime.memory.downloads import settle
from vkcompute.runtime.memory.host_data import HostArray, warn_of_numpy
from vkcompute.runtime.memory.printing import html, representation, text
from vkcompute.runtime.memory.view import StridedView


class HostValues(StridedView):
    """A view whose elements are read by the host."""

    __slots__ = ()

    def _staged(self, buffer: Buffer) -> Any:
        """A contiguous array of the same shape and dtype on a staging buffer."""
        strides = layout.contiguous_strides(self.shape, self.dtype.itemsize)
        return type(self)(self.runtime, buffer, 0, self.shape, strides, self.dtype)

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

    def _number(self) -> Any:
        """Returns the only element as a Python scalar."""
        element = dtypes.numbers_of(self._on_host())
        if element.size != 1:
            raise ValueError(f"only an array of one element is a number; this one has shape {self.shape}; use .numpy()")
        return element.item()

    def _index_of(self, at: tuple[Any, ...]) -> tuple[int, ...]:
        """Returns the index of one element, one number per axis; see `Array.item`."""
        given = at[0] if len(at) == 1 else at
        if not isinstance(given, tuple):
            number = operator.index(given)
            if not -self.size <= number < self.size:
                raise IndexError(f"the index of an element is {-self.size} to {self.size - 1} here; got {number}")
            given = tuple(map(int, np.unravel_index(number % self.size, self.shape)))
        if len(given) != self.ndim:
            raise IndexError(f"an element has one index per axis; got {len(given)} for {self.ndim} axes")
        return given

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
        return bool(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def __complex__(self) -> complex:
        return complex(self._number())

    def __index__(self) -> int:
        value = self._number()
        if not isinstance(value, int):
            raise TypeError(f"only an array of integers is an index; its element is {value!r}")
        return value

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of shape () has no length")
        return self.shape[0]

    def __format__(self, spec: str) -> str:
        """Formats the only element of an array of shape () as a number; other arrays without a format as text."""
        if spec and self.shape:
            raise TypeError(
                f"one number has a format; got {spec!r} for an array of shape {self.shape}; use an element, or .numpy()"
            )
        return format(self._number(), spec) if spec else str(self)

    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        return representation(self)

    def _repr_html_(self) -> str:
        return html(self)
