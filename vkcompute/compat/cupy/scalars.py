"""CuPy's functions of dtypes, and others without arrays; most were NumPy's before its version 2."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from vkcompute.compat.cupy.arrays import ndarray
from vkcompute.errors import VkComputeError


def is_available() -> bool:
    """Returns True if there is a device."""
    from vkcompute.runtime.runtime import default_runtime  # not at import: it loads the driver

    try:
        default_runtime()
    except (VkComputeError, OSError):
        return False
    return True


def isscalar(element: Any) -> bool:
    """Returns `numpy.isscalar(element)`."""
    return bool(np.isscalar(element))


def _dtype_or(value: Any) -> Any:
    """Returns the dtype of an array of the device; anything else unchanged."""
    return value._array.dtype if isinstance(value, ndarray) else value


def result_type(*arrays_and_dtypes: Any) -> Any:
    """Returns the dtype to which NumPy promotes arrays, numbers and dtypes."""
    return np.result_type(*[_dtype_or(value) for value in arrays_and_dtypes])


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Returns True if NumPy casts between dtypes by a rule."""
    return bool(np.can_cast(_dtype_or(from_), to, casting))


def common_type(*arrays: Any) -> Any:
    """Returns the type of floats, or complex numbers, that arrays have in common."""
    if any(value._array.dtype.kind == "b" for value in arrays):
        raise TypeError("can't get common type for non-numeric array")
    kinds = [value._array.dtype if value._array.dtype.kind in "fc" else np.dtype(float) for value in arrays]
    return np.result_type(np.float16, *kinds).type


def issubclass_(arg1: Any, arg2: Any) -> bool:
    """Returns `issubclass(arg1, arg2)`; False for what is no class."""
    try:
        return issubclass(arg1, arg2)
    except TypeError:
        return False


def obj2sctype(rep: Any, default: Any = None) -> Any:
    """Returns the type of numbers of an array, a dtype or a type; `default` for others."""
    if isinstance(rep, type) and issubclass(rep, np.generic):
        return rep
    if isinstance(rep, np.ndarray):
        return rep.dtype.type
    try:
        return np.dtype(rep).type
    except TypeError:
        return default


def issubsctype(arg1: Any, arg2: Any) -> bool:
    """Returns True if the first type of numbers is derived from the second."""
    return issubclass(obj2sctype(arg1), obj2sctype(arg2))


def sctype2char(sctype: Any) -> str:
    """Returns the letter of a type of numbers."""
    kind = obj2sctype(sctype)
    if kind is None:
        raise ValueError("unrecognized type")
    return str(np.dtype(kind).char)


def issctype(rep: Any) -> bool:
    """Returns True for a type of numbers, or its dtype."""
    kind = obj2sctype(rep) if isinstance(rep, (type, np.dtype)) else None
    return kind is not None and kind is not np.object_


def make_aligned_dtype(dtype: Any) -> np.dtype[Any]:
    """Returns the dtype with aligned fields."""
    aligned: np.dtype[Any] = np.dtype(dtype, align=True)
    return aligned


def show_config(*, _full: bool = False) -> None:
    """Prints the device, as `vkcompute info` describes it."""
    from vkcompute.runtime.runtime import default_runtime  # not at import: it loads the driver

    sys.stdout.write(f"{default_runtime().device}\n")


def memoize(for_each_device: bool = False) -> Any:
    """Returns a decorator that remembers the results of a function."""
    from functools import cache

    def decorate(function: Any) -> Any:
        remembered = cache(function)
        _memos.append(remembered)
        return remembered

    return decorate


def clear_memo() -> None:
    """Forgets the results of all functions by `memoize`."""
    for remembered in _memos:
        remembered.cache_clear()


_memos: list[Any] = []
