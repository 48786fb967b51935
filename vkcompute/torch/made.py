"""Tensors on addresses that are no pointers, made by DLPack: PyTorch's one call that takes all of a tensor at once.

PyTorch reads the description in the call, and its end, which is none, when it frees the storage. So descriptions are in
memory that is never freed, but used again: as many as layouts have, and threads have made tensors at one time.
"""

from __future__ import annotations

import ctypes
from struct import Struct
from typing import Any

import torch

_from_dlpack = torch._C._from_dlpack
_EXTENSION = 12  # DLPack's number of the device for which PyTorch has the key PrivateUse1
_NAME = b"dltensor"
_HEAD = "PiiiBBHPPQPP"  # DLManagedTensor: its DLTensor, a context and a deleter
_MOST_AXES = 64
_HEAD_NBYTES = Struct(_HEAD + "0q").size
_NBYTES = _HEAD_NBYTES + 16 * _MOST_AXES
_capsule: Any = ctypes.PyDLL(None).PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_set_address = Struct("P").pack_into
_Description = tuple[Any, int]
"""A description, and its address."""
_free: list[_Description] = []
"""Descriptions that no layout uses."""
_KINDS = {
    torch.bool: 6, torch.uint8: 1, torch.uint16: 1, torch.uint32: 1, torch.uint64: 1, torch.int8: 0, torch.int16: 0,
    torch.int32: 0, torch.int64: 0, torch.float16: 2, torch.float32: 2, torch.float64: 2, torch.bfloat16: 4,
    torch.complex64: 5, torch.complex128: 5,
}  # fmt: skip
"""DLPack's kinds of elements; later versions have more."""


class Layout:
    """Makes tensors of a dtype, a shape and strides, each on a storage that ends with the tensor's last element.

    Args:
        nbytes: the size of such a storage.
    """

    __slots__ = ("_dtype", "_free", "_shape", "_strides", "nbytes")

    def __init__(self, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], nbytes: int) -> None:
        self._dtype, self._shape, self._strides, self.nbytes = dtype, shape, strides, nbytes
        self._free: list[_Description] = []
        """Descriptions of this layout that no thread uses."""

    def __del__(self) -> None:
        _free.extend(self._free)

    def tensor(self, address: int) -> Any:
        """Returns a tensor whose storage begins at an address."""
        try:
            description = self._free.pop()
        except IndexError:  # as many threads make one now as there are descriptions
            description = self._description()
        memory, at = description
        _set_address(memory, 0, address)
        tensor = _from_dlpack(_capsule(at, _NAME, None))
        self._free.append(description)
        return tensor

    def _description(self) -> _Description:
        try:
            memory, at = _free.pop()
        except IndexError:
            memory = ctypes.create_string_buffer(_NBYTES)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))  # never freed
            at = ctypes.addressof(memory)
        n, shape_at = len(self._shape), at + _HEAD_NBYTES
        kind = _KINDS[self._dtype], 8 * self._dtype.itemsize, 1
        ends = shape_at, shape_at + 8 * n, 0, 0, 0
        numbers = *kind, *ends, *self._shape, *self._strides
        Struct(f"{_HEAD}{2 * n}q").pack_into(memory, 0, 0, _EXTENSION, 0, n, *numbers)
        return memory, at


def takes(dtype: Any, n_axes: int) -> bool:
    """True if there are layouts of a dtype with so many axes."""
    return dtype in _KINDS and n_axes <= _MOST_AXES
