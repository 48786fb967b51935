"""The tables of array dtypes, and the device features that kernels need for each.

Arrays of every dtype can be created, filled and copied on every device. The features are needed only by kernels that
load, store or compute with elements of the type. Kernels have no complex numbers: they take the parts, as two arrays.
Every device has kernels with all integers and float16. Those of 8 and 16 bits that it lacks are computed in 32 bits
(ir/small_types.py), those of 64 bits by pairs of words (ir/wide_types.py). So is float64, if it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class DType:
    """A data type.

    Attributes:
        name: numpy's name.
        numpy: the numpy dtype, native byte order.
        element: numpy's name of the scalar type that a kernel's binding declares for such elements.
        features: Vulkan feature names that a kernel with elements of this type needs.
        native: further features, without which kernels in Python compute such elements by words of 32 bits.
    """

    name: str
    numpy: np.dtype[np.generic]
    element: str
    features: tuple[str, ...] = ()
    native: tuple[str, ...] = ()


def _row(name: str, element: str = "", features: tuple[str, ...] = (), native: tuple[str, ...] = ()) -> DType:
    return DType(name, np.dtype(name), element or name, features, native)


_BYTES = "shaderInt8", "storageBuffer8BitAccess"
_HALVES = "shaderInt16", "storageBuffer16BitAccess"


def _emulates_doubles() -> bool:
    """True if float64 is computed by words where the device lacks it: VKCOMPUTE_FLOAT64=emulate."""
    setting = os.environ.get("VKCOMPUTE_FLOAT64", "refuse")
    if setting not in ("emulate", "refuse"):
        raise ValueError(
            f"VKCOMPUTE_FLOAT64 is emulate or refuse; got {setting!r}; with emulate, devices without float64 compute "
            "it by words of 32 bits"
        )
    return setting == "emulate"


def _double(name: str) -> DType:
    needed = ("shaderFloat64",)
    return _row(name, native=needed) if _emulates_doubles() else _row(name, features=needed)


TABLE: tuple[DType, ...] = (
    _row("bool", element="uint8"),
    _row("int8", native=_BYTES),
    _row("int16", native=_HALVES),
    _row("int32"),
    _row("int64", native=("shaderInt64",)),
    _row("uint8", native=_BYTES),
    _row("uint16", native=_HALVES),
    _row("uint32"),
    _row("uint64", native=("shaderInt64",)),
    _row("float16", native=("shaderFloat16", "storageBuffer16BitAccess")),
    _row("float32"),
    _double("float64"),
)


def of_kernels(features: Mapping[str, bool]) -> list[str]:
    """The names of the dtypes that kernels take on a device with these features."""
    return [row.name for row in TABLE if all(features.get(name) for name in row.features)]


def emulated(features: Mapping[str, bool]) -> list[str]:
    """The names of the dtypes that kernels compute by others on a device with these features."""
    return [
        name for name in of_kernels(features) if not all(features.get(feature) for feature in _BY_NAME[name].native)
    ]


COMPLEX: tuple[DType, ...] = (_row("complex64"), _double("complex128"))
"""Dtypes of arrays, and of no kernel: their elements are pairs of floats."""

_BY_NAME = {row.name: row for row in TABLE}
BY_NUMPY: dict[np.dtype[np.generic], DType] = {row.numpy: row for row in TABLE}
_COMPLEX_BY_NUMPY = {row.numpy: row for row in COMPLEX}


def lookup(dtype: npt.DTypeLike, *, in_kernels: bool = False) -> DType:
    """The row of `dtype`, which may be anything that `numpy.dtype()` accepts.

    Args:
        in_kernels: True for a dtype with which kernels compute, which are not complex.

    Raises:
        TypeError: arrays do not support the type (object, strings, structures, foreign byte order).
    """
    if isinstance(dtype, int):
        raise TypeError(f"a dtype is numpy's, or its name; got {dtype}; lengths are one argument, as in zeros((3, 4))")
    resolved = np.dtype(dtype)
    row = BY_NUMPY.get(resolved)
    if row is None and not in_kernels:
        row = _COMPLEX_BY_NUMPY.get(resolved)
    if row is None:
        remedy = f"; convert with .astype({resolved.name!r})" if resolved.newbyteorder("=") in BY_NUMPY else ""
        known = ", ".join(row.name for row in (TABLE if in_kernels else TABLE + COMPLEX))
        raise TypeError(f"an array's dtype must be one of {known}; got {resolved.str!r} ({resolved.name}){remedy}")
    return row


def conversion(dtype: np.dtype[np.generic], name: str) -> str:
    """The remedy of an error for the NumPy array `name`, whose dtype kernels lack; "" if none converts it."""
    nearest = {"i": "int64", "u": "uint64", "f": "float64", "O": "float32"}.get(dtype.kind, "")
    if dtype.newbyteorder("=") in BY_NUMPY:
        nearest = dtype.name
    if dtype.kind == "c":
        return f"; pass {name}.real and {name}.imag"
    return f"; convert it, as {name}.astype(np.{nearest})" if nearest else ""


_default_float: list[np.dtype[np.generic]] = [np.dtype(np.float32)]


def set_default_float(dtype: np.dtype[np.generic]) -> None:
    """Sets the dtype that `default_float` returns."""
    _default_float[0] = dtype


def default_float() -> np.dtype[np.generic]:
    """Returns the dtype of Python floats and of functions that make floats of integers."""
    return _default_float[0]
