"""`TensorDescriptor`: an argument by which a program loads and stores blocks of a strided array at offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.blocks.launching.reinterpretation import TensorWrapper

__all__ = ["TensorDescriptor"]


class TensorDescriptor:
    """A strided array as an argument. In the program, it is a descriptor as of `tl.make_tensor_descriptor`:

        @triton.jit
        def double(x, out, M: tl.constexpr):
            at = tl.program_id(0) * M
            out.store([at, 0], 2 * x.load([at, 0]))

        double[(4,)](TensorDescriptor.from_tensor(x, [16, 32]), TensorDescriptor.from_tensor(out, [16, 32]), 16)

    Each launch reads the attributes, so hooks of `triton.autotune` may assign `block_shape`. The program is compiled
    once per block shape and padding. The shape and strides are arguments as other ints.

    Args:
        base: an array, a NumPy array, a tensor of the host, or one of those by `triton.reinterpret`.
        shape: numbers of elements; accesses beyond them are skipped.
        strides: in elements, one per axis.
        block_shape: lengths of the blocks, powers of two, one per axis.
        padding: the value of elements out of bounds: "zero", or "nan" for floats.
        round_f32_to_tf32: has no effect, as `input_precision` of `tl.dot`.

    Raises:
        TypeError: the base is not an array.
        ValueError: the shape, strides and block shape differ in length, or the padding is another text.
    """

    part_suffixes = "", ".shape", ".strides"  # the base has the name of the descriptor

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
            TypeError: the tensor is not an array.
            ValueError: the block shape has another number of axes, or a stride is not a multiple of an element.
        """
        array = tensor.base if isinstance(tensor, TensorWrapper) else tensor
        if not hasattr(array, "dtype") or not hasattr(array, "shape"):
            raise TypeError(f"a tensor descriptor describes an array; got {type(array).__name__}")
        return cls(tensor, array.shape, _strides_of(array), block_shape, padding)

    def __repr__(self) -> str:
        text = ", ".join(f"{name}={getattr(self, name)}" for name in ("shape", "strides", "block_shape", "padding"))
        return f"TensorDescriptor({self.base!r}, {text})"


def _strides_of(array: Any) -> list[int]:
    """Returns the strides in elements. PyTorch's tensors have those; the strides of other arrays are bytes."""
    if callable(stride := getattr(array, "stride", None)):
        return list(stride())
    n = array.dtype.itemsize
    if any(step % n for step in array.strides):
        raise ValueError(
            f"the strides of a tensor descriptor count elements; those of the array are {array.strides} bytes, and an "
            f"element has {n}; pass a .copy()"
        )
    return [step // n for step in array.strides]
