"""CuPy's functions between the host and the device."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import vkcompute.numpy as vnp
from vkcompute.compat.cupy.arrays import ndarray
from vkcompute.compat.cupy.lifting import lifted
from vkcompute.compat.cupy.pointers import array_of_interface
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.holders import held

_array = lifted(vnp.array, host=True)


def _imported(a: Any) -> Any:
    """Returns an object with CuPy's protocols as an array; anything else unchanged."""
    if type(a) is np.ndarray or isinstance(a, (ndarray, np.generic, int, float, complex, list, tuple)):
        return a
    if hasattr(a, "__cupy_get_ndarray__"):
        return a.__cupy_get_ndarray__()
    if isinstance(array := held(a), Array):
        return ndarray._holding(array)
    if hasattr(a, "__cuda_array_interface__"):
        return ndarray._holding(array_of_interface(a.__cuda_array_interface__))
    return a


def _is_column_major(host: np.ndarray[Any, Any]) -> bool:
    """True for a matrix of the host in Fortran's order."""
    return host.ndim > 1 and host.flags.f_contiguous and not host.flags.c_contiguous


def array(
    obj: Any, dtype: Any = None, copy: bool | None = True, order: str | None = "K", subok: bool = False,
    ndmin: int = 0, *, blocking: bool = False,
) -> ndarray:  # fmt: skip
    """Returns a new array of data of the host or of the device; `subok` and `blocking` have no effect."""
    obj = _imported(obj)
    if isinstance(obj, np.ndarray) and order in (None, "K", "A", "k", "a") and _is_column_major(obj):
        return ndarray._holding(_array(obj.T, dtype, copy=copy)._array.T)
    result: ndarray = _array(_real(obj, dtype), dtype, copy=copy, order=order, ndmin=ndmin)
    return result


def _real(a: Any, dtype: Any) -> Any:
    """Returns complex numbers of the device as real ones, if the dtype is real; anything else unchanged."""
    is_cut = isinstance(a, ndarray) and dtype is not None and a.dtype.kind == "c" and np.dtype(dtype).kind in "iuf"
    return a.astype(dtype) if is_cut else a


def asarray(
    a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None, blocking: bool = False
) -> ndarray:
    """Returns data as an array: `a` itself if it is one with this dtype and order."""
    return array(a, dtype, copy, order or "K")


asanyarray = asarray


def ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    """Returns data as a row-major array of at least one axis."""
    result: ndarray = _array(_real(_imported(a), dtype), dtype, copy=None, order="C", ndmin=1)
    return result


def asfortranarray(a: Any, dtype: Any = None) -> ndarray:
    """Returns data as a column-major array."""
    result: ndarray = _array(_real(_imported(a), dtype), dtype, copy=None, order="F", ndmin=1)
    return result


def asnumpy(
    a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True
) -> np.ndarray[Any, Any]:
    """Returns data as an array of NumPy; see `ndarray.get`."""
    if not isinstance(a, ndarray) and hasattr(a, "__cuda_array_interface__"):
        a = asarray(a)
    if isinstance(a, ndarray):
        return a.get(stream, order, out, blocking)
    host = np.asarray(a, order=order)  # type: ignore[call-overload]
    if out is None:
        return host  # type: ignore[no-any-return]
    out[...] = host
    return out  # type: ignore[no-any-return]


def get_array_module(*args: Any) -> Any:
    """Returns this package if an argument is an array of the device, else `numpy`."""
    if any(isinstance(arg, (ndarray, Array)) for arg in args):
        return sys.modules[__name__.rpartition(".")[0]]
    return np


class _Capsule:
    """A capsule of DLPack, as an object that gives it."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> ndarray:
    """Returns an array with the data of an object with `__dlpack__`, or of its capsule; data of the host is copied."""
    if type(x).__name__ == "PyCapsule":
        x = _Capsule(x)
    if isinstance(x, ndarray) and not copy:
        return ndarray._holding(x._array.view(), x)
    result: ndarray = lifted(vnp.from_dlpack, host=True)(x, copy=copy)
    return result


fromDlpack = from_dlpack  # noqa: N816  # CuPy's older name
