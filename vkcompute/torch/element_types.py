"""The dtypes that PyTorch and arrays share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from vkcompute.torch.errors import NotComputedError

NUMPY: dict[Any, np.dtype[Any]] = {
    torch.bool: np.dtype("bool"),
    torch.uint8: np.dtype("uint8"),
    torch.int8: np.dtype("int8"),
    torch.int16: np.dtype("int16"),
    torch.int32: np.dtype("int32"),
    torch.int64: np.dtype("int64"),
    torch.uint16: np.dtype("uint16"),
    torch.uint32: np.dtype("uint32"),
    torch.uint64: np.dtype("uint64"),
    torch.float16: np.dtype("float16"),
    torch.float32: np.dtype("float32"),
    torch.float64: np.dtype("float64"),
    torch.complex64: np.dtype("complex64"),
    torch.complex128: np.dtype("complex128"),
}
"""NumPy's dtype of the elements, by PyTorch's."""
STORED: dict[Any, np.dtype[Any]] = {
    torch.bfloat16: np.dtype("uint16"),
    torch.float8_e4m3fn: np.dtype("uint8"),
    torch.float8_e5m2: np.dtype("uint8"),
    torch.float8_e4m3fnuz: np.dtype("uint8"),
    torch.float8_e5m2fnuz: np.dtype("uint8"),
}
"""The dtype that has the bits of elements which arrays store, but do not compute."""
TORCH = {numpy: dtype for dtype, numpy in NUMPY.items()}


def bits_of(dtype: Any) -> np.dtype[Any]:
    """Returns the dtype of arrays in which elements of a dtype of PyTorch are stored.

    Raises:
        TypeError: the device does not store such elements.
    """
    stored = NUMPY.get(dtype) or STORED.get(dtype)
    if stored is None:
        raise TypeError(f"the device vk has no {dtype}; convert the tensor on the CPU, as by .to(torch.float32)")
    return stored


def computed(dtype: Any) -> np.dtype[Any]:
    """Returns the dtype of arrays that compute with elements of a dtype of PyTorch.

    Raises:
        NotComputedError: there is none.
    """
    if (numpy := NUMPY.get(dtype)) is None:
        raise NotComputedError(f"the device vk does not compute with {dtype}; convert with .to(torch.float32)")
    return numpy


def is_computed(dtype: Any) -> bool:
    """True if arrays compute with elements of a dtype of PyTorch."""
    return dtype in NUMPY
