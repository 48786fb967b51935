"""numpy's broadcasting, with adjacent axes merged where possible."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from vkcompute.ir import UINT32, Builder, Value
from vkcompute.runtime.memory.layout import broadcast_strides

Shape = tuple[int, ...]
Mask = tuple[bool, ...]


class Broadcast(NamedTuple):
    """Arrays, broadcast.

    Attributes:
        shape: broadcast shape.
        lengths: lengths of the merged axes; adjacent axes along which the same arrays are repeated are merged.
        masks: per array, True for each merged axis along which it is not repeated.
        strides: per array that is a view, its strides along the merged axes.
    """

    shape: Shape
    lengths: Shape
    masks: tuple[Mask, ...]
    strides: tuple[Shape, ...]

    @property
    def size(self) -> int:
        """Number of elements of the broadcast shape."""
        return math.prod(self.shape)


def broadcast(shapes: Sequence[Shape], views: Mapping[int, Shape] = MappingProxyType({})) -> Broadcast:
    """Broadcasts shapes.

    Args:
        views: index of an array that is a view -> its strides; the others are contiguous.

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
    strided = [broadcast_strides(shapes[at], strides, shape) for at, strides in views.items()]
    merged: list[tuple[int, Mask, Shape]] = []
    for axis, n in enumerate(shape):
        mask, steps = tuple([each[axis] == n for each in padded]), tuple([each[axis] for each in strided])
        if n == 1:
            continue
        if merged and merged[-1][1] == mask and merged[-1][2] == tuple([n * step for step in steps]):
            n *= merged.pop()[0]
        merged.append((n, mask, steps))
    lengths, masks, strides = zip(*merged, strict=True) if merged else ((), (), ())
    return Broadcast(
        shape,
        lengths,
        tuple(zip(*masks, strict=True)) if merged else ((),) * len(shapes),
        tuple(zip(*strides, strict=True)) if merged else ((),) * len(views),
    )


Layout = Sequence[Value]
"""Of a view: the index of its first element, and its strides along the merged axes."""


def offsets(
    builder: Builder,
    offset: Value,
    lengths: Sequence[Value],
    masks: Sequence[Mask],
    layouts: Mapping[int, Layout] = MappingProxyType({}),
) -> list[Value]:
    """Returns the offset in each array of the element at an offset in the broadcast shape; all are uint32.

    Args:
        lengths: lengths of the merged axes except the first.
        layouts: index of an array that is a view -> its layout.
    """
    indices, rest = [], offset
    for length in reversed(lengths):
        indices.append(builder.compute("rem", rest, length))
        rest = builder.compute("div", rest, length)
    indices = [rest, *reversed(indices)]
    return [
        _strided(builder, indices, layouts[at])
        if at in layouts
        else offset
        if all(mask)
        else _offset(builder, indices, [rest, *lengths], mask)
        for at, mask in enumerate(masks)
    ]


def _strided(builder: Builder, indices: list[Value], layout: Layout) -> Value:
    """Returns the offset of an element of a view, modulo 2**32, which exceeds every binding."""
    found, *strides = layout
    for index, stride in zip(indices, strides, strict=False):  # a shape of one element has an index, and no axis
        found = builder.compute("add", found, builder.compute("mul", index, stride))
    return found


def _offset(builder: Builder, indices: list[Value], lengths: Sequence[Value], mask: Mask) -> Value:
    found: Value | None = None
    for index, length, varies in zip(indices, lengths, mask, strict=True):
        if varies and found is not None:
            found = builder.compute("add", builder.compute("mul", found, length), index)
        elif varies:
            found = index
    return found or builder.const(0, UINT32)
