"""Tensors on addresses that are no pointers, made by DLPack: PyTorch's one call that takes all of a tensor at once.

PyTorch reads the description in the call, and its end, which is none, when it frees the storage. So descriptions are in
memory that is never freed: as many as threads have made tensors at one time.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from struct import Struct
from typing import Any

import torch

_from_dlpack = torch._C._from_dlpack
_EXTENSION = 12  # DLPack's number of the device for which PyTorch has the key PrivateUse1
_NAME = b"dltensor"
_HEAD = "PiiiBBHPPQPP"  # DLManagedTensor: its DLTensor, a context and a deleter
_MOST_AXES = 64
_NBYTES = Struct(f"{_HEAD}{2 * _MOST_AXES}q").size
_capsule: Any = ctypes.PyDLL(None).PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_free: list[tuple[Any, int]] = []
"""Descriptions that no thread uses, and their addresses."""
_KINDS = {
    torch.bool: 6, torch.uint8: 1, torch.uint16: 1, torch.uint32: 1, torch.uint64: 1, torch.int8: 0, torch.int16: 0,
    torch.int32: 0, torch.int64: 0, torch.float16: 2, torch.float32: 2, torch.float64: 2, torch.bfloat16: 4,
    torch.complex64: 5, torch.complex128: 5,
}  # fmt: skip
"""DLPack's kinds of elements; later versions have more."""


def takes(dtype: Any, n_axes: int) -> bool:
    """True if `tensor_at` makes tensors of a dtype with so many axes."""
    return dtype in _KINDS and n_axes <= _MOST_AXES


def tensor_at(address: int, dtype: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """Returns a tensor whose storage begins at an address, and has the bytes that the tensor needs."""
    try:
        memory, at = _free.pop()
    except IndexError:  # as many threads make one now as there are descriptions
        memory, at = _description()
    n, shape_at, kind = len(shape), at + _HEAD_NBYTES, (_KINDS[dtype], 8 * dtype.itemsize, 1)
    ends = shape_at, shape_at + 8 * n, 0, 0, 0
    _packed(n)(memory, 0, address, _EXTENSION, 0, n, *kind, *ends, *shape, *strides)
    tensor = _from_dlpack(_capsule(at, _NAME, None))
    _free.append((memory, at))
    return tensor


@functools.cache
def _packed(n_axes: int) -> Any:
    return Struct(f"{_HEAD}{2 * n_axes}q").pack_into


_HEAD_NBYTES = Struct(_HEAD + "0q").size


def _description() -> tuple[Any, int]:
    memory = ctypes.create_string_buffer(_NBYTES)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))  # never freed
    return memory, ctypes.addressof(memory)
