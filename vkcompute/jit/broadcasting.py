"""How arrays of several shapes are one: numpy's broadcasting, in as few axes as it takes."""

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
    """Contiguous arrays as one.

    Attributes:
        shape: of all together.
        lengths: of the axes in which they differ: neighbouring ones in which they do not are one.
        masks: per array, along which of these it goes on; along the others it is repeated.
    """

    shape: Shape
    lengths: Shape
    masks: tuple[Mask, ...]

    @property
    def size(self) -> int:
        """Elements of all together."""
        return math.prod(self.shape)


def broadcast(shapes: Sequence[Shape]) -> Broadcast:
    """These shapes as one.

    Raises:
        ValueError: they do not fit.
    """
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(map(str, shapes))
        raise ValueError(
            f"shapes broadcast where lengths are equal or 1, from the last axis on; got {listed}"
        ) from None
    padded = [(1,) * (len(shape) - len(each)) + each for each in shapes]
    axes = [(n, tuple([each[axis] == n for each in padded])) for axis, n in enumerate(shape) if n != 1]
    merged = [(math.prod([n for n, _ in run]), mask) for mask, run in itertools.groupby(axes, lambda axis: axis[1])]
    lengths, columns = tuple([n for n, _ in merged]), [mask for _, mask in merged]
    return Broadcast(shape, lengths, tuple(zip(*columns, strict=True)) if merged else ((),) * len(shapes))


def places(builder: Builder, place: Value, lengths: Sequence[Value], masks: Sequence[Mask]) -> list[Value]:
    """Where the element at a place of all together lies in each array; uint32, as are the place and the lengths.

    Args:
        lengths: of the axes but the first.
    """
    coordinates, rest = [], place
    for length in reversed(lengths):
        coordinates.append(builder.binary("rem", rest, length))
        rest = builder.binary("div", rest, length)
    coordinates = [rest, *reversed(coordinates)]
    return [place if all(mask) else _place(builder, coordinates, [rest, *lengths], mask) for mask in masks]


def _place(builder: Builder, coordinates: list[Value], lengths: Sequence[Value], mask: Mask) -> Value:
    found: Value | None = None
    for coordinate, length, goes_on in zip(coordinates, lengths, mask, strict=True):
        if goes_on and found is not None:
            found = builder.binary("add", builder.binary("mul", found, length), coordinate)
        elif goes_on:
            found = coordinate
    return found or builder.const(0, UINT32)
