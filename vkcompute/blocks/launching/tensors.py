"""Arguments in host memory, NumPy's and PyTorch's: their memory as NumPy arrays, which a launch copies."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import NoneType
from typing import Any

import numpy as np

from vkcompute import dtypes
from vkcompute.blocks.compiler.types import Dtype, dtype_of
from vkcompute.blocks.launching.composites import leaves_of
from vkcompute.blocks.launching.pointer_table import PointerTable
from vkcompute.blocks.launching.reinterpretation import TensorWrapper
from vkcompute.runtime.memory.holders import held, is_holder
from vkcompute.runtime.memory.layout import extent

_OTHERS = int, float, bool, NoneType, str, tuple
"""Types of arguments that have no memory."""


def on_host(args: Sequence[Any]) -> tuple[Any, ...]:
    """Returns arguments with contiguous arrays in place of tensors and of views, which share the memory with them.

    An array has the elements from the tensor's first one to the end of its memory, or to the view's last one. A program
    computes the offsets of those that it accesses, by strides that it has as arguments.

    Raises:
        TypeError: a tensor is not in host memory, or is of a dtype that NumPy does not have.
        ValueError: the first element of a view is not at its lowest address.
    """
    torch = sys.modules.get("torch")
    return tuple([arg if type(arg) in _OTHERS else _on_host(arg, torch) for arg in args])


def _on_host(arg: Any, torch: Any) -> Any:
    if type(arg) is np.ndarray:
        return arg if arg.flags.c_contiguous else span_of(arg)
    if type(arg) is TensorWrapper:
        base = _on_host(arg.base, torch)
        return TensorWrapper(base.base if type(base) is TensorWrapper else base, arg.dtype)
    if torch is not None and isinstance(arg, torch.Tensor):
        return _memory_of(arg, torch)
    return _memory_at(arg, torch) if hasattr(arg, "data_ptr") and hasattr(arg, "dtype") else arg


class _Memory:
    """Bytes at an address, for NumPy.

    Args:
        owner: keeps them alive.
    """

    def __init__(self, owner: Any, start: int, nbytes: int) -> None:
        self._owner = owner
        self.__array_interface__ = {"data": (start, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}


def _memory_at(view: Any, torch: Any) -> Any:
    """Returns the memory from the address of an object to the end of its storage.

    Raises:
        TypeError: it has no storage, or is not in host memory.
        ValueError: it is in host memory, and has a negative stride.
    """
    if not hasattr(view, "untyped_storage"):
        raise TypeError(
            f"a {type(view).__name__} with data_ptr() has untyped_storage(), whose nbytes() bound the accesses; got "
            "none; pass the tensor"
        )
    storage, start = view.untyped_storage(), view.data_ptr()
    if getattr(getattr(view, "device", None), "type", "cpu") != "cpu":
        return _device_memory_at(view, storage, torch)
    if hasattr(view, "stride") and min(view.stride(), default=0) < 0:
        raise ValueError(
            "the memory of a tensor of the host is copied from its address on; got a stride of "
            f"{min(view.stride())}; pass a copy, or a tensor of the device"
        )
    element, word = _element_of(view.dtype, torch)
    n = (storage.data_ptr() + storage.nbytes() - start) // word.itemsize
    elements = np.asarray(_Memory(view, start, n * word.itemsize)).view(word)
    return elements if element is None else TensorWrapper(elements, element)


def _device_memory_at(view: Any, storage: Any, torch: Any) -> Any:
    """Returns an array that has the device memory of an object's storage, and whose first element is at its address.

    Raises:
        TypeError: PyTorch's device is another one.
    """
    step = view.dtype.itemsize
    first, n = (view.data_ptr() - storage.data_ptr()) // step, storage.nbytes() // step
    tensor = torch.empty(0, dtype=view.dtype, device=view.device).set_(storage, first, (n - first,), (1,))
    if not is_holder(tensor):
        raise TypeError(f"tensors of the host are copied to the device; got one on {view.device}; pass tensor.cpu()")
    array = held(tensor)
    if not first:
        return array
    strides = -first * step, (n - first - 1) * step  # its corners span the storage, and share no element
    return type(array)(array.runtime, array.buffer, array.offset, (2, min(2, n - first)), strides, array.dtype)


def _element_of(dtype: Any, torch: Any) -> tuple[Dtype | None, np.dtype[Any]]:
    """Returns a dtype of the language if NumPy lacks it, or if it is one, and NumPy's dtype of as many bits."""
    if torch is not None and isinstance(dtype, torch.dtype):
        if _is_small_float(dtype):
            return dtype_of(dtype), np.dtype(f"u{dtype.itemsize}")
        return None, torch.empty(0, dtype=dtype).numpy().dtype
    if isinstance(dtype, Dtype):
        return dtype, np.dtype(f"u{dtype.itemsize}")
    return None, np.dtype(dtype)


def span_of(view: Any) -> Any:
    """Returns the memory from the first element of a view to its last one, as a contiguous array of one axis.

    Raises:
        ValueError: the first element is not at the lowest address, or the strides are no multiples of an element.
    """
    if not view.size:
        return view
    low, high = extent(view.shape, view.strides, view.itemsize)
    if low or any(step % view.itemsize for step in view.strides):
        raise ValueError(
            "the pointer of a view points at its first element, and offsets count elements; the strides of an argument "
            f"are {view.strides} bytes, those of its elements {view.itemsize}; pass a .copy()"
        )
    shape, strides = (high // view.itemsize,), (view.itemsize,)
    if isinstance(view, np.ndarray):
        return np.lib.stride_tricks.as_strided(view, shape, strides)
    return type(view)(view.runtime, view.buffer, view.offset, shape, strides, view.dtype)


def arrays_of(arg: Any) -> list[Any]:
    """Returns the arrays of an argument, as `elements_of`: those of all its leaves, and of tables of pointers.

    Raises:
        TypeError: it has none.
    """
    groups = [leaf.arrays if isinstance(leaf, PointerTable) else (leaf,) for leaf in leaves_of(arg)]
    arrays = [elements_of(array) for group in groups for array in group if _is_array(array)]
    if not arrays:
        raise TypeError(f"reset_to_zero and restore_value name arrays; got {arg!r}; leave its name out")
    return arrays


def _is_array(arg: Any) -> bool:
    return hasattr(arg, "shape") and not isinstance(arg, np.generic)


def elements_of(arg: Any) -> Any:
    """Returns the array of an argument: of a wrapper, or of a tensor; of the host's, NumPy's, with the same memory."""
    arg = held(arg.base if isinstance(arg, TensorWrapper) else arg)
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(arg, torch.Tensor):
        return arg
    return (arg.detach().view(_word(arg, torch)) if _is_small_float(arg.dtype) else arg.detach()).numpy()


def _is_small_float(dtype: Any) -> bool:
    """True for a dtype of PyTorch that NumPy lacks."""
    return dtypes.small_float(str(dtype).removeprefix("torch.")) is not None


def _word(tensor: Any, torch: Any) -> Any:
    """Returns PyTorch's dtype of the bits of a tensor's elements."""
    return torch.uint8 if tensor.element_size() == 1 else torch.uint16


def _memory_of(tensor: Any, torch: Any) -> Any:
    if tensor.device.type != "cpu":
        raise TypeError(f"tensors of the host are copied to the device; got one on {tensor.device}; pass tensor.cpu()")
    start = tensor.storage_offset()
    n = tensor.untyped_storage().nbytes() // tensor.element_size() - start
    elements = tensor.detach().as_strided((n,), (1,), start)
    if _is_small_float(tensor.dtype):
        element = dtype_of(tensor.dtype)
        assert element is not None, "a dtype of the language"
        return TensorWrapper(elements.view(_word(tensor, torch)).numpy(), element)
    return elements.numpy()
