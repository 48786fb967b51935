"""DLPack capsules of dtypes that NumPy lacks: those of integers of the same size, with another type code.

The structures and codes are those of DLPack 1.1 (dlpack.h). A capsule "dltensor" points to a DLManagedTensor, which
begins with the DLTensor. A capsule "dltensor_versioned" points to a DLManagedTensorVersioned, where the DLTensor
follows four words of 8 bytes.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from vkcompute.dtypes import SmallFloat, small_float

_CODES = {
    "bfloat16": 4, "float8_e4m3fn": 10, "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13,
}  # fmt: skip
_UNSIGNED = 1
_TYPE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}
"""Name of a capsule -> the offset of the code of the type: behind a pointer, the device and the number of axes."""


def exported(bits: np.ndarray[Any, Any], dtype: SmallFloat, options: dict[str, Any]) -> Any:
    """Returns the capsule of an array of bits, whose elements are of a dtype that NumPy lacks."""
    capsule = bits.__dlpack__(**options)
    _code_of(capsule).value = _CODES[dtype.name]
    return capsule


def imported(data: Any) -> np.ndarray[Any, Any]:
    """Returns the data of an object with `__dlpack__` as a NumPy array, of dtypes that NumPy lacks, too.

    Raises:
        BufferError: NumPy takes neither the device nor the dtype.
    """
    try:
        return np.from_dlpack(data)
    except (RuntimeError, BufferError):  # perhaps a dtype that NumPy lacks
        capsule = data.__dlpack__()
    code = _code_of(capsule)
    name = next((name for name, known in _CODES.items() if known == code.value), None)
    if name is not None:
        code.value = _UNSIGNED
    host = np.from_dlpack(_Capsule(capsule))
    dtype = small_float(name)
    return host if dtype is None else host.view(dtype.dtype)


class _Capsule:
    """An exporter of one capsule."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU; NumPy checks the device of the capsule


def _code_of(capsule: Any) -> ctypes.c_uint8:
    """Returns the code of the type of a capsule's elements, in its memory."""
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = name_of(capsule)
    return ctypes.c_uint8.from_address(pointer_of(capsule, name) + _TYPE_AT[name])
