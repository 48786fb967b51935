"""`triton.reinterpret`: arrays whose bits a program takes for another type, as bfloat16 in an array of uint16."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.blocks.compiler.types import Dtype, dtype_of
from vkcompute.runtime.memory.holders import held


class TensorWrapper:
    """An array whose elements a program sees as another type of the same size.

    Attributes:
        base: the array.
        dtype: the type.
    """

    def __init__(self, base: Any, dtype: Dtype) -> None:
        self.base, self.dtype, self.shape = base, dtype, base.shape

    @property
    def runtime(self) -> Any:
        """The runtime of the array; arrays of the host have none."""
        return self.base.runtime

    @property
    def __vkcompute_array__(self) -> TensorWrapper | None:
        """The wrapper of the array that another interface's object holds, as a tensor of the device; else None."""
        array = held(self.base)
        return None if array is self.base else self._wrapping(array)

    @property
    def data(self) -> Any:
        """The data of the array, which a tensor takes from another one, with its shape."""
        return self.base.data

    @data.setter
    def data(self, data: Any) -> None:
        self.base.data = data
        self.shape = self.base.shape

    @property
    def device(self) -> Any:
        """The device of the array."""
        return self.base.device

    def data_ptr(self) -> int:
        """Returns the address of the first element."""
        return int(self.base.data_ptr())

    def stride(self, *axes: int) -> Any:
        """Returns the stride of an axis, or all."""
        return self.base.stride(*axes)

    def element_size(self) -> int:
        """Returns the bytes of an element."""
        return self.dtype.itemsize

    def copy_(self, other: TensorWrapper) -> None:
        """Copies the bits of another array."""
        self.base.copy_(other.base)

    def _wrapping(self, base: Any) -> TensorWrapper:
        return TensorWrapper(base, self.dtype)

    def cpu(self) -> TensorWrapper:
        """Returns it in host memory."""
        return self._wrapping(self.base.cpu())

    def clone(self) -> TensorWrapper:
        """Returns a copy."""
        return self._wrapping(self.base.clone())

    def to(self, device: Any) -> TensorWrapper:
        """Returns it on a device."""
        return self._wrapping(self.base.to(device))

    def new_empty(self, sizes: Any) -> TensorWrapper:
        """Returns an array without initial values."""
        return self._wrapping(self.base.new_empty(sizes))

    def __repr__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base!r})"


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """Returns an array as an argument whose bits a program takes for another type; a wrapper's array for its own type.

    Args:
        dtype: of `tl`, NumPy or PyTorch.

    Raises:
        TypeError: it is no array, or no dtype of these.
        ValueError: the types differ in size.
    """
    base = tensor.base if isinstance(tensor, TensorWrapper) else tensor
    given, dtype = dtype, dtype_of(dtype)
    if dtype is None or not hasattr(base, "dtype"):
        raise TypeError(f"reinterpret takes an array and a dtype, as tl.bfloat16; got {base!r} and {given!r}")
    if base.dtype.itemsize != dtype.itemsize:
        raise ValueError(
            f"elements keep their size; got {base.dtype} and {dtype}; view the array as another dtype first"
        )
    return base if base is not tensor and dtype_of(base.dtype) == dtype else TensorWrapper(base, dtype)


def unwrapped(args: Sequence[Any]) -> tuple[tuple[Any, ...], dict[int, str]]:
    """Returns arguments with the arrays of wrappers, and the names of their dtypes by position."""
    names = {at: arg.dtype.long_name for at, arg in enumerate(args) if type(arg) is TensorWrapper}
    return (tuple([arg.base if at in names else arg for at, arg in enumerate(args)]) if names else tuple(args)), names
