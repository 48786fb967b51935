"""The dtypes that PyTorch and arrays share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from vkcompute.dtypes import as_dtype, on_host, small_float
from vkcompute.torch.errors import NotComputedError, NotStoredError

ARRAYS: dict[Any, np.dtype[Any]] = {
    getattr(torch, name): as_dtype(name)
    for name in (
        "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 "
        "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz"
    ).split()
}
"""The dtype of arrays, by PyTorch's."""
TORCH = {dtype: of_torch for of_torch, dtype in ARRAYS.items()}
_STORED = frozenset(dtype for dtype in ARRAYS if dtype.itemsize == 1 and dtype.is_floating_point)
"""Floats of 8 bits: arrays store and convert them."""
_BITS = dict.fromkeys(_STORED, torch.uint8) | {torch.bfloat16: torch.uint16}
"""The integers with the bits of floats that NumPy lacks."""
_COMPUTED = {dtype: of_arrays for dtype, of_arrays in ARRAYS.items() if dtype not in _STORED}
_WIDE = {**_COMPUTED, torch.float16: np.dtype("float32"), torch.bfloat16: np.dtype("float32")}


def array_dtype(dtype: Any) -> np.dtype[Any]:
    """Returns the dtype of arrays in which elements of a dtype of PyTorch are stored.

    Raises:
        NotStoredError: the device does not store such elements.
    """
    stored = ARRAYS.get(dtype)
    if stored is None:
        raise NotStoredError(f"the device vk has no {dtype}; convert the tensor on the CPU, as by .to(torch.float32)")
    return stored


def computed(dtype: Any) -> np.dtype[Any]:
    """Returns the dtype of arrays that compute with elements of a dtype of PyTorch.

    Raises:
        NotComputedError: there is none.
    """
    if dtype not in _COMPUTED:
        raise NotComputedError(f"the device vk does not compute with {dtype}; convert with .to(torch.float32)")
    return _COMPUTED[dtype]


def wide(dtype: Any) -> np.dtype[Any]:
    """Returns the dtype of arrays in which functions and sums of a dtype are computed, to be rounded once at the end.

    Raises:
        NotComputedError: there is none.
    """
    return _WIDE.get(dtype) or computed(dtype)


def is_computed(dtype: Any) -> bool:
    """True if arrays compute with elements of a dtype of PyTorch."""
    return dtype in _COMPUTED


def bits_of(array: Any) -> Any:
    """Returns the integers with the bits of floats that NumPy lacks; an array of other elements as it is."""
    return array.view(f"u{array.dtype.itemsize}") if small_float(array.dtype) else array


def from_numpy(array: np.ndarray[Any, Any], dtype: Any) -> Any:
    """Returns a tensor of the host on an array of NumPy, whose elements are those of a dtype of PyTorch."""
    if dtype in _BITS:
        return torch.from_numpy(array.view(f"u{array.itemsize}")).view(dtype)
    return torch.from_numpy(array)


def to_numpy(tensor: Any) -> np.ndarray[Any, Any]:
    """Returns a contiguous tensor of the host as an array of NumPy on its memory."""
    tensor, dtype = tensor.detach(), ARRAYS[tensor.dtype]
    if tensor.dtype in _BITS:
        bits: np.ndarray[Any, Any] = tensor.view(_BITS[tensor.dtype]).numpy()
        return bits.view(on_host(dtype))
    return tensor.numpy()  # type: ignore[no-any-return]
