"""Offsets of elements in simulated memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vkcompute.ir import INT32, INT64, Constant, Scalar, Value
from vkcompute.jit.frontend.array_views import View
from vkcompute.jit.frontend.values import ArrayValue, Kind, Number
from vkcompute.jit.simulator.invocations import Grid


def _as_int(value: Any) -> int:
    """Returns an int for an evaluated number or value."""
    value = value.value if isinstance(value, Number) else value
    return int(value.value) if isinstance(value, Constant) else int(value)


class SimulatedOffsets:
    """Offsets in simulated memory; an index out of bounds is an error.

    Attributes:
        shapes: those of the array arguments, by position.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self.shapes: dict[int, tuple[int, ...]] = {}

    def shape(self, array: ArrayValue) -> tuple[int, ...]:
        """Returns the shape of an array argument, a shared array or a view."""
        if isinstance(array, View):
            return tuple([_as_int(length) for length in array.extents])
        return self.shapes[array.position] if array.shape is None else array.shape

    def extent(self, array: ArrayValue, axis: int) -> Any:
        """Returns the length of an axis, or the size for axis -1."""
        shape = self.shape(array)
        if isinstance(array, View) and axis >= 0:
            return array.extents[axis]
        if array.shape is not None or array.ndim == 0:
            return math.prod(shape) if axis < 0 else shape[axis]
        extent = math.prod(shape) if axis < 0 else shape[axis]
        return Number(Constant(INT32, np.int32(extent)), Kind(INT32))

    def offset(self, array: Any, index: Any) -> Value:
        """Returns the offset of an element; an index out of bounds is an error."""
        along, starts, flat, shape = [], [], 0, self.shape(array)
        for position, length in zip(index if isinstance(index, tuple) else (index,), shape, strict=True):
            known = not isinstance(position, Number)
            n = int(position if known else position.value.value)
            along.append(n)
            n += length if known and n < 0 else 0
            starts.append(n)
            flat = flat * length + n if 0 <= n < length else -1 << 99
        if flat < 0:
            raise self._grid.fault(
                f"{array.name}[{', '.join(map(str, along))}] is out of bounds: {array.name} has the shape {shape}; "
                "compare the index before"
            )
        if isinstance(array, View):
            steps = [_as_int(step) for step in array.steps]
            flat = _as_int(array.first) + sum(n * step for n, step in zip(starts, steps, strict=True))
        return Constant(INT64, np.int64(flat))

    def from_start(self, index: Any, length: Any) -> Value:
        """Returns an index along an axis of this length; one out of bounds is an error."""
        n, known = _as_int(length), not isinstance(index, Number)
        at = int(index if known else index.value.value)
        if not (-n if known else 0) <= at < n:
            raise self._grid.fault(f"index {at} is out of bounds of an axis with {n} elements; compare it before")
        return Constant(INT32, np.int32(at % n))

    def guarded(self, offset: Value, use: Callable[[], Value | None], kind: Scalar | None = None) -> Any:
        """Returns what `use` does at an offset, which is in bounds."""
        return use()
