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
    padded = [(1,) * (len(shape) - len(lengths)) + lengths for lengths in shapes]
    strided = [broadcast_strides(shapes[at], strides, shape) for at, strides in views.items()]
    merged: list[tuple[int, Mask, Shape]] = []
    for axis, n in enumerate(shape):
        mask, steps = tuple([lengths[axis] == n for lengths in padded]), tuple([strides[axis] for strides in strided])
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
    indices = _indices(builder, offset, lengths)
    return [
        _strided(builder, indices, layouts[at])
        if at in layouts
        else offset
        if all(mask)
        else _offset(builder, indices, [indices[0], *lengths], mask)
        for at, mask in enumerate(masks)
    ]


def _indices(builder: Builder, offset: Value, lengths: Sequence[Value]) -> list[Value]:
    """Returns the index along each merged axis of the element at an offset."""
    indices, rest = list[Value](), offset
    for length in reversed(lengths):
        indices.append(builder.compute("rem", rest, length))
        rest = builder.compute("div", rest, length)
    return [rest, *reversed(indices)]


class Run:
    """Adjacent elements of the broadcast shape, whose places in each array are found without further divisions.

    Args:
        first: offset of the first of `size` elements.
        stop: number of all elements; an element from there on counts as the first one.
        lengths: lengths of the merged axes except the first.

    Attributes:
        inside: for each element, a condition that is True before `stop`.
    """

    def __init__(self, builder: Builder, first: Value, size: int, stop: Value, lengths: Sequence[Value]) -> None:
        self._b, self._lengths = builder, lengths
        self._indices = _indices(builder, first, lengths)
        offsets = [builder.compute("add", first, builder.const(k, UINT32)) for k in range(size)]
        self.inside = [builder.compute("lt", offset, stop) for offset in offsets]
        self._ends = self._found_ends(size)

    def _found_ends(self, size: int) -> list[list[Value]]:
        """Returns for each element but the first whether each axis but the first begins anew, the last axis first."""
        b, indices, rows = self._b, self._indices[1:], list[list[Value]]()
        zero, one = b.const(0, UINT32), b.const(1, UINT32)
        for _ in range(1, size):
            ends = list[Value]()
            step: Value = one
            for axis in reversed(range(len(indices))):
                following = b.compute("add", indices[axis], step)
                ends.append(b.compute("eq", following, self._lengths[axis]))
                indices[axis], step = b.select(ends[-1], zero, following), b.select(ends[-1], one, zero)
            rows.append(ends)
        return rows

    def offsets(self, mask: Mask, layout: Layout | None) -> list[Value]:
        """Returns the offset of each element in an array with a mask, or in a view with a layout."""
        b = self._b
        strides = self._strides(mask) if layout is None else list(layout[1:])
        at = _strided(b, self._indices, [b.const(0, UINT32) if layout is None else layout[0], *strides])
        steps = self._steps(strides)
        result = [at]
        for ends in self._ends:
            step = steps[0]
            for at_end, longer in zip(ends, steps[1:], strict=True):
                step = b.select(at_end, longer, step)
            at = b.compute("add", at, step)
            result.append(at)
        return [result[0], *[b.select(*row, result[0]) for row in zip(self.inside[1:], result[1:], strict=True)]]

    def _strides(self, mask: Mask) -> list[Value]:
        """Returns the strides of a contiguous array along the axes, 0 where it is repeated."""
        b, strides = self._b, list[Value]()
        one = b.const(1, UINT32)
        step: Value = one
        for varies, length in zip(reversed(mask), [*reversed(self._lengths), one], strict=False):
            strides.append(step if varies else b.const(0, UINT32))
            step = b.compute("mul", step, length) if varies else step
        return strides[::-1]

    def _steps(self, strides: Sequence[Value]) -> list[Value]:
        """Returns the step to the next element: within the last axis, and where one, two, … axes begin anew."""
        b = self._b
        steps: list[Value] = [strides[-1] if strides else b.const(0, UINT32)]
        back: Value = b.const(0, UINT32)
        for axis in reversed(range(len(strides) - 1)):
            last = b.compute("sub", self._lengths[axis], b.const(1, UINT32))
            back = b.compute("add", back, b.compute("mul", last, strides[axis + 1]))
            steps.append(b.compute("sub", strides[axis], back))
        return steps


def _strided(builder: Builder, indices: list[Value], layout: Layout) -> Value:
    """Returns the offset of an element of a view, modulo 2**32, which exceeds every binding."""
    offset, *strides = layout
    for index, stride in zip(indices, strides, strict=False):  # a shape of one element has an index, and no axis
        offset = builder.compute("add", offset, builder.compute("mul", index, stride))
    return offset


def _offset(builder: Builder, indices: list[Value], lengths: Sequence[Value], mask: Mask) -> Value:
    offset: Value | None = None
    for index, length, varies in zip(indices, lengths, mask, strict=True):
        if varies and offset is not None:
            offset = builder.compute("add", builder.compute("mul", offset, length), index)
        elif varies:
            offset = index
    return offset or builder.const(0, UINT32)
