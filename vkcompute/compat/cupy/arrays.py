"""CuPy's array: a holder of one of ours, with CuPy's constructor, transfers and attributes.

Operators and methods are set by `vkcompute.compat.cupy.methods`.
"""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Any

import numpy as np

from vkcompute.compat.cupy.devices import Device
from vkcompute.compat.cupy.pointers import MemoryPointer
from vkcompute.dtypes import as_dtype
from vkcompute.runtime import cuda_interface
from vkcompute.runtime.memory import layout
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import current_runtime


class ndarray:  # noqa: N801
    """An array on the device, as `cupy.ndarray`. Launches and functions of vkcompute take it as its `_array`.

    Args:
        shape: the lengths, or one.
        dtype: float64 by default.
        memptr: a pointer into memory to share; by default new memory, whose content is arbitrary.
        strides: distance between neighbours along each axis, in bytes.
        order: "C" or "F".
    """

    __slots__ = ("__weakref__", "_array", "_base")
    __array_priority__ = 100.0
    __hash__ = None  # type: ignore[assignment]  # arrays are compared by element
    _array: Array
    _base: ndarray | None
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, at: Any) -> Any: ...

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: MemoryPointer | None = None, strides: Any = None,
        order: str = "C",
    ) -> None:  # fmt: skip
        kind, lengths = as_dtype(dtype), layout.checked_shape(tuple(shape) if isinstance(shape, list) else shape)
        if order not in ("C", "F", None):
            raise ValueError(f"order is C or F; got {order!r}")
        steps = tuple(strides) if strides is not None else layout.contiguous_strides(lengths, kind.itemsize)
        if strides is None and order == "F":
            steps = layout.contiguous_strides(lengths[::-1], kind.itemsize)[::-1]
        if strides is not None and memptr is None:
            memptr = _memory_for(lengths, steps, kind)
        self._base = None
        if memptr is not None:
            self._array = memptr.array(lengths, steps, kind)
        elif order == "F":
            self._array = current_runtime().empty(lengths[::-1], kind).T
        else:
            self._array = current_runtime().empty(lengths, kind)

    __class_getitem__: Any = classmethod(GenericAlias)

    @classmethod
    def _holding(cls, array: Array, base: ndarray | None = None) -> ndarray:
        """Returns the array that holds one of ours."""
        self = cls.__new__(cls)
        self._array, self._base = array, base
        return self

    # -- transfers ----------------------------------------------------------------------------------------------------

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> np.ndarray[Any, Any]:
        """Returns a copy in an array of NumPy.

        Args:
            stream, blocking: have no effect: this waits for the work that the array depends on, and for no other.
            order: "C", "F" or "A" of the result.
            out: an array of NumPy to fill instead, of this shape and dtype.
        """
        if out is not None:
            if not isinstance(out, np.ndarray):
                raise TypeError("Only numpy.ndarray can be obtained from cupy.ndarray")
            if out.dtype != self.dtype:
                raise TypeError(f"{out.dtype} array cannot be obtained from {self.dtype} array")
            if out.shape != self.shape:
                raise ValueError(f"Shape mismatch. Expected shape: {self.shape}, actual shape: {out.shape}")
            self._array.read(out)
            return out
        if order not in ("C", "F", "A"):
            raise ValueError(f"unsupported order: {order}")
        is_turned = order == "F" or (order == "A" and self.flags.f_contiguous and not self.flags.c_contiguous)
        host: np.ndarray[Any, Any] = self._array.T.numpy().T if is_turned else self._array.numpy()
        return host

    def set(self, arr: Any, stream: Any = None) -> None:
        """Overwrites the elements with an array of NumPy of the same shape and dtype."""
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if self.dtype != arr.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if self.shape != arr.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        self._array.write(arr)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array "
            "explicitly."
        )

    @property
    def __vkcompute_array__(self) -> Array:
        """The array that this one holds, for functions and launches of vkcompute."""
        return self._array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The description of the memory, which only vkcompute's packages take."""
        return {**cuda_interface.described(self._array, 1), "descr": self._array.dtype.descr}

    def __reduce__(self) -> tuple[Any, ...]:
        is_turned = self.flags.f_contiguous and not self.flags.c_contiguous
        return _restored, (self._array.T if is_turned else self._array, is_turned)

    # -- attributes ---------------------------------------------------------------------------------------------------

    @property
    def base(self) -> ndarray | None:
        """The array of which this is a view; None for one with memory of its own."""
        return self._base

    @property
    def data(self) -> MemoryPointer:
        """A pointer to the first element."""
        return MemoryPointer.to(self._array)

    @property
    def device(self) -> Device:
        """The device, as `cupy.cuda.Device`."""
        return Device(self._array.runtime)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return int(self._array.dtype.itemsize)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths; assigning them reshapes the array in place."""
        return self._array.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        view = self._array.reshape(shape)
        if not self._array.is_pending and self._array.size and view.buffer is not self._array.buffer:
            raise AttributeError("incompatible shape")
        self._array = view

    def __repr__(self) -> str:
        return repr(self._array.numpy())

    def __str__(self) -> str:
        return str(self._array.numpy())

    def __format__(self, spec: str) -> str:
        return format(self._array.numpy(), spec)


def _memory_for(lengths: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> MemoryPointer:
    """Returns a pointer to new memory, as much as elements without gaps take.

    Raises:
        ValueError: the strides reach beyond it.
    """
    low, high = layout.extent(lengths, strides, dtype.itemsize)
    memory = current_runtime().empty(lengths, dtype)
    if memory.size and (low < 0 or high > memory.nbytes):
        raise ValueError(f"ndarray() with strides {strides} needs {high - low} bytes from {low}; pass a memptr")
    return MemoryPointer.to(memory)


def _restored(array: Array, is_turned: bool) -> ndarray:
    """Returns an array that was unpickled, in Fortran's order if it was turned."""
    return ndarray._holding(array.T if is_turned else array)
