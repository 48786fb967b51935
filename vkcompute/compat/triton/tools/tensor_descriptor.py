"""`TensorDescriptor`: a strided array as one argument, of which a program loads and stores blocks at offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.compat.triton.reinterpretation import TensorWrapper

__all__ = ["TensorDescriptor"]


class TensorDescriptor:
    """A strided array as an argument. The program sees what `tl.make_tensor_descriptor` returns:

        @triton.jit
        def double(x, out, M: tl.constexpr):
            at = tl.program_id(0) * M
            out.store([at, 0], 2 * x.load([at, 0]))

        double[(4,)](TensorDescriptor.from_tensor(x, [16, 32]), TensorDescriptor.from_tensor(out, [16, 32]), 16)

    Each launch reads the attributes, so hooks of `triton.autotune` may assign `block_shape`. Each block shape and each
    padding compiles the program once. The shape and strides are ints as other arguments.

    Args:
        base: an array, a NumPy array, a tensor of the host, or one of those by `triton.reinterpret`.
        shape: numbers of elements; accesses beyond them are skipped.
        strides: in elements, one per axis.
        block_shape: lengths of the blocks, powers of two, one per axis.
        padding: the value of elements out of bounds: "zero", or "nan" for floats.
        round_f32_to_tf32: has no effect, as `input_precision` of `tl.dot`.

    Raises:
        TypeError: the base is no array.
        ValueError: the shape, strides and block shape differ in length, or there is no such padding.
    """

    def __init__(
        self,
        base: Any,
        shape: Sequence[int],
        strides: Sequence[int],
        block_shape: Sequence[int],
        padding: str = "zero",
        round_f32_to_tf32: bool = False,
    ) -> None:
        if not hasattr(base, "dtype") or not hasattr(base, "shape"):
            raise TypeError(f"a tensor descriptor has an array as its base; got {type(base).__name__}")
        self.base, self.padding = base, padding
        self.shape, self.strides, self.block_shape = list(shape), list(strides), list(block_shape)
        lengths = len(self.shape), len(self.strides), len(self.block_shape)
        if not lengths[0] or len({*lengths}) > 1:
            raise ValueError(
                "a tensor descriptor has a shape, strides and a block shape of one length, at least 1; got "
                f"{self.shape}, {self.strides} and {self.block_shape}"
            )
        if padding not in ("zero", "nan"):
            raise ValueError(f"padding is 'zero' or 'nan'; got {padding!r}")

    @classmethod
    def from_tensor(
        cls, tensor: Any, block_shape: Sequence[int], padding: str = "zero", round_f32_to_tf32: bool = False
    ) -> TensorDescriptor:
        """Returns a descriptor of a whole array, which may be a view, with its shape and strides.

        Raises:
            TypeError: it is no array.
            ValueError: the block shape has another number of axes, or a stride is no multiple of an element.
        """
        array = tensor.base if isinstance(tensor, TensorWrapper) else tensor
        if not hasattr(array, "dtype") or not hasattr(array, "shape"):
            raise TypeError(f"a tensor descriptor describes an array; got {type(array).__name__}")
        return cls(tensor, array.shape, _strides_of(array), block_shape, padding)

    def __repr__(self) -> str:
        text = ", ".join(f"{name}={getattr(self, name)}" for name in ("shape", "strides", "block_shape", "padding"))
        return f"TensorDescriptor({self.base!r}, {text})"


def _strides_of(array: Any) -> list[int]:
    """Returns strides in elements: PyTorch's tensors have them, and other arrays have bytes."""
    if callable(stride := getattr(array, "stride", None)):
        return list(stride())
    n = array.dtype.itemsize
    if any(step % n for step in array.strides):
        raise ValueError(
            f"the strides of a tensor descriptor count elements; those of the array are {array.strides} bytes, and an "
            f"element has {n}; pass a .copy()"
        )
    return [step // n for step in array.strides]
