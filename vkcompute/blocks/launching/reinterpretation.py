"""`triton.reinterpret`: arrays whose bits a program takes for another type, as bfloat16 in an array of uint16."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.blocks.compiler.types import Dtype


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

    def __repr__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base!r})"


def reinterpret(tensor: Any, dtype: Dtype) -> TensorWrapper:
    """Returns an array as an argument whose bits a program takes for another type.

    Raises:
        TypeError: it is no array, or no dtype of `tl`.
        ValueError: the types differ in size.
    """
    base = tensor.base if isinstance(tensor, TensorWrapper) else tensor
    if not isinstance(dtype, Dtype) or not hasattr(base, "dtype"):
        raise TypeError(f"reinterpret takes an array and a dtype, as tl.bfloat16; got {base!r} and {dtype!r}")
    if base.dtype.itemsize != dtype.itemsize:
        raise ValueError(
            f"elements keep their size; got {base.dtype} and {dtype}; view the array as another dtype first"
        )
    return TensorWrapper(base, dtype)


def unwrapped(args: Sequence[Any]) -> tuple[tuple[Any, ...], dict[int, str]]:
    """Returns arguments with the arrays of wrappers, and the names of their dtypes by position."""
    names = {at: arg.dtype.name for at, arg in enumerate(args) if type(arg) is TensorWrapper}
    return (tuple([arg.base if at in names else arg for at, arg in enumerate(args)]) if names else tuple(args)), names
