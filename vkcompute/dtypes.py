"""The table of array dtypes, and the device features that kernels need for each.

Arrays of every dtype can be created, filled and copied on every device. The features are needed only by kernels that
load, store or compute with elements of the type.
"""

from __future__ import annotations

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
        features: Vulkan feature names that a kernel with elements of this type needs; none for bools, which kernels in
            Python access by words where they must.
    """

    name: str
    numpy: np.dtype[np.generic]
    element: str
    features: tuple[str, ...]


def _row(name: str, *features: str, element: str = "") -> DType:
    return DType(name, np.dtype(name), element or name, features)


TABLE: tuple[DType, ...] = (
    _row("bool", element="uint8"),
    _row("int8", "shaderInt8", "storageBuffer8BitAccess"),
    _row("int16", "shaderInt16", "storageBuffer16BitAccess"),
    _row("int32"),
    _row("int64", "shaderInt64"),
    _row("uint8", "shaderInt8", "storageBuffer8BitAccess"),
    _row("uint16", "shaderInt16", "storageBuffer16BitAccess"),
    _row("uint32"),
    _row("uint64", "shaderInt64"),
    _row("float16", "shaderFloat16", "storageBuffer16BitAccess"),
    _row("float32"),
    _row("float64", "shaderFloat64"),
)

BY_NUMPY: dict[np.dtype[np.generic], DType] = {row.numpy: row for row in TABLE}


def lookup(dtype: npt.DTypeLike) -> DType:
    """The row of `dtype`, which may be anything that `numpy.dtype()` accepts.

    Raises:
        TypeError: arrays do not support the type (complex, object, strings, structures, foreign byte order).
    """
    if isinstance(dtype, int):
        raise TypeError(f"a dtype is numpy's, or its name; got {dtype}; lengths are one argument, as in zeros((3, 4))")
    resolved = np.dtype(dtype)
    row = BY_NUMPY.get(resolved)
    if row is None:
        remedy = f"; convert with .astype({resolved.name!r})" if resolved.newbyteorder("=") in BY_NUMPY else ""
        known = ", ".join(row.name for row in TABLE)
        raise TypeError(f"an array's dtype must be one of {known}; got {resolved.str!r} ({resolved.name}){remedy}")
    return row
