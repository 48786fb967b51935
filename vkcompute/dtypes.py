"""The table of tensor dtypes: numpy's dtype, GLSL's type, and the device features that kernels need.

Tensors of every dtype can be created, filled and copied on every device. The features are needed only by kernels that
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
        glsl: the GLSL type that holds one element in a storage buffer (std430).
        kind: "bool", "int", "uint" or "float".
        bits: size of an element in memory.
        features: Vulkan feature names that a kernel with elements of this type needs.
    """

    name: str
    numpy: np.dtype[np.generic]
    glsl: str
    kind: str
    bits: int
    features: tuple[str, ...]


def _row(name: str, glsl: str, kind: str, bits: int, *features: str) -> DType:
    return DType(name, np.dtype(name), glsl, kind, bits, features)


TABLE: tuple[DType, ...] = (
    _row("bool", "uint8_t", "bool", 8, "shaderInt8", "storageBuffer8BitAccess"),
    _row("int8", "int8_t", "int", 8, "shaderInt8", "storageBuffer8BitAccess"),
    _row("int16", "int16_t", "int", 16, "shaderInt16", "storageBuffer16BitAccess"),
    _row("int32", "int", "int", 32),
    _row("int64", "int64_t", "int", 64, "shaderInt64"),
    _row("uint8", "uint8_t", "uint", 8, "shaderInt8", "storageBuffer8BitAccess"),
    _row("uint16", "uint16_t", "uint", 16, "shaderInt16", "storageBuffer16BitAccess"),
    _row("uint32", "uint", "uint", 32),
    _row("uint64", "uint64_t", "uint", 64, "shaderInt64"),
    _row("float16", "float16_t", "float", 16, "shaderFloat16", "storageBuffer16BitAccess"),
    _row("float32", "float", "float", 32),
    _row("float64", "double", "float", 64, "shaderFloat64"),
)

BY_NAME: dict[str, DType] = {row.name: row for row in TABLE}
BY_NUMPY: dict[np.dtype[np.generic], DType] = {row.numpy: row for row in TABLE}


def lookup(dtype: npt.DTypeLike) -> DType:
    """The row of `dtype`, which may be anything that `numpy.dtype()` accepts.

    Raises:
        TypeError: tensors do not support the type (complex, object, strings, structures, foreign byte order).
    """
    resolved = np.dtype(dtype)
    row = BY_NUMPY.get(resolved)
    if row is None:
        remedy = f"; convert with .astype({resolved.name!r})" if resolved.newbyteorder("=") in BY_NUMPY else ""
        known = ", ".join(BY_NAME)
        raise TypeError(f"a tensor's dtype must be one of {known}; got {resolved.str!r} ({resolved.name}){remedy}")
    return row
