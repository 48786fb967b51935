"""numpy's broadcasting, with adjacent axes merged where possible."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vkcompute.ir import UINT32, Builder, Value

Shape = tuple[int, ...]
Mask = tuple[bool, ...]


class Broadcast(NamedTuple):
    """Contiguous arrays, broadcast.

    Attributes:
        shape: broadcast shape.
        lengths: lengths of the merged axes; adjacent axes along which the same arrays are repeated are merged.
        masks: per array, True for each merged axis along which it is not repeated.
    """

    shape: Shape
    lengths: Shape
    masks: tuple[Mask, ...]

    @property
    def size(self) -> int:
        """Number of elements of the broadcast shape."""
        return math.prod(self.shape)


def broadcast(shapes: Sequence[Shape]) -> Broadcast:
    """Broadcasts shapes.

    Raises:
        ValueError: they do not broadcast.
    """
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(map(str, shapes))
        raise ValueError(
            f"lengths of axes, aligned from the last, must be equal or 1 to broadcast; got shapes {listed}"
        ) from None
    padded = [(1,) * (len(shape) - len(each)) + each for each in shapes]
    axes = [(n, tuple([each[axis] == n for each in padded])) for axis, n in enumerate(shape) if n != 1]
    merged = [(math.prod([n for n, _ in run]), mask) for mask, run in itertools.groupby(axes, lambda axis: axis[1])]
    lengths, columns = tuple([n for n, _ in merged]), [mask for _, mask in merged]
    return Broadcast(shape, lengths, tuple(zip(*columns, strict=True)) if merged else ((),) * len(shapes))


def offsets(builder: Builder, offset: Value, lengths: Sequence[Value], masks: Sequence[Mask]) -> list[Value]:
    """Returns the offset in each array of the element at an offset in the broadcast shape; all are uint32.

    Args:
        lengths: lengths of the merged axes except the first.
    """
    indices, rest = [], offset
    for length in reversed(lengths):
        indices.append(builder.compute("rem", rest, length))
        rest = builder.compute("div", rest, length)
    indices = [rest, *reversed(indices)]
    return [offset if all(mask) else _offset(builder, indices, [rest, *lengths], mask) for mask in masks]


def _offset(builder: Builder, indices: list[Value], lengths: Sequence[Value], mask: Mask) -> Value:
    found: Value | None = None
    for index, length, varies in zip(indices, lengths, mask, strict=True):
        if varies and found is not None:
            found = builder.compute("add", builder.compute("mul", found, length), index)
        elif varies:
            found = index
    return found or builder.const(0, UINT32)
