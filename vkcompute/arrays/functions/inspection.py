"""Information about dtypes and devices, as the Array API standard defines it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.expressions.promotion import complex_of, default_float, default_int, require_dtype
from vkcompute.arrays.functions.creation import Casting, runtime_for
from vkcompute.dtypes import COMPLEX, TABLE, as_dtype, promote, small_float
from vkcompute.dtypes import can_cast as can_cast_dtype
from vkcompute.dtypes import finfo as limits_of
from vkcompute.errors import MissingFeature
from vkcompute.runtime.memory import layout
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime, current_runtime

_FIRST = 1 << 20
"""The address of the first byte of a buffer, for comparisons within it; 0 is that of no memory."""
_KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
    "complex floating": "c", "numeric": "iufc",
}  # fmt: skip


def isdtype(dtype: npt.DTypeLike, kind: Any) -> bool:
    """Returns True if a dtype is of a kind.

    Args:
        kind: a dtype; "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating" or
            "numeric"; or a tuple of these.

    Raises:
        TypeError: one is no dtype: a name of a dtype is none, nor is a type of Python.
        ValueError: the kind is unknown.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, option) for option in kind)
    for given in (dtype, *[kind] * (not isinstance(kind, str))):
        if not (isinstance(given, np.dtype) or (isinstance(given, type) and issubclass(given, np.generic))):
            raise TypeError(f"isdtype takes dtypes, as np.float32; got {given!r}")
    if not isinstance(kind, str):
        return bool(as_dtype(dtype) == as_dtype(kind))
    if kind not in _KINDS:
        raise ValueError(f"a kind is a dtype, or one of {', '.join(_KINDS)}; got {kind!r}")
    return bool(as_dtype(dtype).kind in _KINDS[kind])


def can_cast(from_: Array | npt.DTypeLike, to: npt.DTypeLike, casting: Casting = "safe") -> bool:
    """Returns True if a dtype, or that of an array, is converted to another one.

    Args:
        casting: which conversions are allowed, as in NumPy; "safe" are those without loss.
    """
    if from_ is None:
        raise TypeError("can_cast takes an array or a dtype; got None")
    dtype = from_.dtype if type(from_) is Array else as_dtype(from_)
    return can_cast_dtype(dtype, to, casting)


def promote_types(type1: npt.DTypeLike, type2: npt.DTypeLike) -> Any:
    """Returns the smallest dtype to which two dtypes are converted without loss, as NumPy; JAX's for bfloat16."""
    return promote(small_float(type1) or type1, small_float(type2) or type2)


def may_share_memory(a: Any, b: Any) -> bool:
    """Returns True if the memory of two arrays overlaps; one may be a NumPy array, such as a view by DLPack.

    Gaps between elements count as memory of the array.
    """
    for array in (a, b):
        if not isinstance(array, (Array, np.ndarray)):
            raise TypeError(f"may_share_memory takes arrays; got {type(array).__name__}")
    if type(a) is Array and type(b) is Array:
        return not (a.is_pending or b.is_pending) and a.overlaps(b)
    (low, high), (start, stop) = _addresses(a), _addresses(b)
    return low < stop and start < high


def shares_memory(a: Any, b: Any) -> bool:
    """Returns True if two arrays have an element in common; gaps between elements do not count."""
    if not (type(a) is Array and type(b) is Array and may_share_memory(a, b)):
        return may_share_memory(a, b)
    return np.shares_memory(_of_addresses(a), _of_addresses(b))


def _of_addresses(x: Array) -> np.ndarray[Any, Any]:
    """Returns an array with the layout of `x` in its buffer, without memory: NumPy only computes with its addresses."""
    interface = {"data": (_FIRST + x.offset, True), "shape": x.shape, "strides": x.strides, "typestr": x.dtype.str}
    return np.asarray(SimpleNamespace(__array_interface__={**interface, "version": 3}))


def common_type(*arrays: Array) -> type:
    """Returns NumPy's type of floats, or complex numbers, that holds the elements of all arrays."""
    result: type = np.common_type(*[np.empty(0, array.dtype) for array in arrays])
    return result


def min_scalar_type(a: Any) -> np.dtype[Any]:
    """Returns the smallest dtype that holds a number; that of an array, as for NumPy's arrays."""
    return a.dtype if type(a) is Array else np.min_scalar_type(a)


def _addresses(x: Any) -> tuple[int, int]:
    """Returns the addresses of the first byte in host memory, and behind the last; equal ones for no such memory."""
    if type(x) is not Array:
        low, high = layout.extent(x.shape, x.strides, x.itemsize)
        return x.ctypes.data + low, x.ctypes.data + high
    if x.is_pending or not x.size or not x.buffer.address:
        return 0, 0
    buffer, start, stop = x.range
    return buffer.address + start, buffer.address + stop


class finfo:  # noqa: N801
    """Limits of a float dtype, or of an array's: bits, eps, max, min, smallest_normal, dtype."""

    def __init__(self, of: Array | npt.DTypeLike) -> None:
        limits = limits_of(of.dtype if type(of) is Array else of)
        self.bits, self.dtype = int(limits.bits), limits.dtype
        self.eps, self.max, self.min = float(limits.eps), float(limits.max), float(limits.min)
        self.smallest_normal = self.tiny = float(limits.smallest_normal)


class iinfo:  # noqa: N801
    """Limits of an integer dtype, or of an array's: bits, max, min, dtype."""

    def __init__(self, of: Array | npt.DTypeLike) -> None:
        limits = np.iinfo(of.dtype if type(of) is Array else of)
        self.bits, self.max, self.min, self.dtype = int(limits.bits), int(limits.max), int(limits.min), limits.dtype


class NamespaceInfo:
    """The answers of `__array_namespace_info__()`."""

    def capabilities(self) -> dict[str, Any]:
        """Returns what the namespace can do."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> Runtime:
        """Returns the runtime of new arrays."""
        return current_runtime()

    def devices(self) -> tuple[Runtime, ...]:
        """Returns the runtime of new arrays; others are opened by `vkcompute.Runtime`."""
        return (current_runtime(),)

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """Returns the dtypes of Python numbers and of indices on a device."""
        whole = default_int(runtime_for(device))
        return {
            "real floating": default_float(), "complex floating": complex_of(default_float()), "integral": whole,
            "indexing": whole,
        }  # fmt: skip

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """Returns the dtypes of the standard, which has no float16, with which a device computes, by their names."""
        by_name = {}
        for row in TABLE + COMPLEX:
            try:
                require_dtype(runtime_for(device), row.numpy, "dtypes")
            except MissingFeature:
                continue
            if row.name != "float16" and (kind is None or isdtype(row.numpy, kind)):
                by_name[row.name] = row.numpy
        return by_name


def namespace_info() -> NamespaceInfo:
    """Returns information about the namespace, by the Array API standard."""
    return NamespaceInfo()
