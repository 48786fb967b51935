"""The types of blocks."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from vkcompute.ir.types import BFLOAT16 as BFLOAT16  # also of blocks
from vkcompute.ir.types import Scalar, Type, Vector


@dataclass(frozen=True, slots=True, eq=False)
class Block(Vector):
    """A block of numbers; `block` makes each type a single object.

    Attributes:
        shape: lengths of the axes.
    """

    shape: tuple[int, ...]

    @property
    def kind(self) -> str:
        """The kind of the elements: "b" bool, "i" int, "u" uint or "f" float."""
        return self.element.kind

    @property
    def name(self) -> str:
        """The name of the type."""
        return str(self)

    def __str__(self) -> str:
        return f"{self.element}[{', '.join(map(str, self.shape))}]"


@functools.cache
def block(element: Scalar, shape: tuple[int, ...]) -> Block:
    """Returns the type of blocks with these elements and this shape.

    Raises:
        ValueError: a length is not positive.
    """
    for n in shape:
        if n < 1:
            raise ValueError(f"the lengths of a block are positive; got {n}; build nothing for an empty block")
    return Block(element, math.prod(shape), shape)


def shape_of(kind: Type) -> tuple[int, ...]:
    """Returns the shape of a value: () for a scalar."""
    return kind.shape if isinstance(kind, Block) else ()


def typed(element: Scalar, shape: tuple[int, ...]) -> Type:
    """Returns the type of a block, or for the shape () of a scalar."""
    return block(element, shape) if shape else element
