"""Views of arrays in kernels: slices, rows, transposed and reshaped arrays.

A view is its first element, a length and a step per axis, all in elements of the memory. It copies nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vkcompute.compiled.specialization import OFFSET, STRIDE
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, UINT32, Value
from vkcompute.jit.frontend.values import ArrayValue, Kind, Number


@dataclass(frozen=True, slots=True, eq=False)
class View(ArrayValue):
    """A part of an array.

    Attributes:
        first: the place of the first element in memory.
        lengths: of the axes: ints, or numbers of int32.
        steps: between neighbours along the axes.
    """

    first: Any = None
    lengths: tuple[Any, ...] = ()
    steps: tuple[Any, ...] = ()


def is_part(array: ArrayValue, indices: Sequence[Any]) -> bool:
    """True if indices denote a view of an array, and not an element."""
    n = sum(index is not None for index in indices)
    return n < array.ndim or any(index is None or index is Ellipsis or isinstance(index, slice) for index in indices)


def whole(c: Any, array: ArrayValue) -> View:
    """Returns an array as a view of all of its elements."""
    if isinstance(array, View):
        return array
    b = c.builder
    lengths = tuple([c.extent(array, axis) for axis in range(array.ndim)])
    if array.strided:
        first = b.cast(c.offsets.parameter(array, OFFSET), INT32)
        steps = [b.cast(c.offsets.parameter(array, STRIDE + axis), INT32) for axis in range(array.ndim)]
    else:
        first, steps = b.const(0, INT32), row_major(c, lengths)
    return _made(array, first, lengths, steps)


def row_major(c: Any, lengths: Sequence[Any]) -> list[Value]:
    """Returns the steps of a contiguous array."""
    steps = [c.builder.const(1, INT32)]
    for length in reversed(lengths[1:]):
        steps.append(c.builder.compute("mul", steps[-1], c.cast(length, INT32)))
    return steps[::-1] if lengths else []


def _made(array: ArrayValue, first: Value, lengths: Sequence[Any], steps: Sequence[Value]) -> View:
    return View(
        array.name, array.position, array.element, len(lengths), array.memory, array.shape, array.strided,
        array.constant, array.item, array.origin, first, tuple(lengths), tuple(steps),
    )  # fmt: skip


def part(c: Any, array: ArrayValue, indices: Sequence[Any]) -> View:
    """Returns the view that indices denote: ints, slices, `...` and None."""
    base = whole(c, array)
    b, first, lengths, steps, axis = c.builder, base.first, [], [], 0
    for index in _completed(base, indices):
        if index is None:
            lengths.append(1)
            steps.append(b.const(0, INT32))
            continue
        length, step = base.lengths[axis], base.steps[axis]
        axis += 1
        if isinstance(index, slice):
            start, count, by = bounds(c, index, length)
            lengths.append(count)
            steps.append(b.compute("mul", step, b.const(by, INT32)))
        else:
            start = c.from_start(index, length)
        first = b.compute("add", first, b.compute("mul", start, step))
    return _made(base, first, lengths, steps)


def _completed(array: View, indices: Sequence[Any]) -> list[Any]:
    n = sum(index is not None and index is not Ellipsis for index in indices)
    if n > array.ndim:
        raise UnsupportedError(f"{array.name} takes {array.ndim} indices, one per axis; got {n}")
    rest = [slice(None)] * (array.ndim - n)
    at = next((k for k, index in enumerate(indices) if index is Ellipsis), len(indices))
    return [*indices[:at], *rest, *indices[at + 1 :]]


def bounds(c: Any, index: slice, length: Any) -> tuple[Value, Any, int]:
    """Returns the start of a slice, the number of its elements, and its step, as Python has them."""
    step = 1 if index.step is None else index.step
    if not isinstance(step, (int, np.integer)) or step == 0:
        raise UnsupportedError(f"the step of a slice is an int, known at compile time and not 0; got {step}")
    by = int(step)
    known = [x is None or isinstance(x, (int, np.integer)) for x in (index.start, index.stop)]
    if all(known) and isinstance(length, int):
        start, stop, _ = slice(index.start, index.stop, by).indices(length)
        return c.builder.const(start, INT32), len(range(start, stop, by)), by
    b, n = c.builder, c.cast(length, INT32)
    low, high = (b.const(0, INT32), n) if by > 0 else (b.const(-1, INT32), b.compute("sub", n, b.const(1, INT32)))
    start = _clamped(c, index.start, n, low, high, low if by > 0 else high)
    stop = _clamped(c, index.stop, n, low, high, high if by > 0 else low)
    span = b.compute("sub", stop, start) if by > 0 else b.compute("sub", start, stop)
    size = abs(by)
    if size > 1:
        span = b.compute("div", b.compute("add", span, b.const(size - 1, INT32)), b.const(size, INT32))
    return start, Number(b.compute("max", span, b.const(0, INT32)), Kind(INT32)), by


def _clamped(c: Any, bound: Any, n: Value, low: Value, high: Value, default: Value) -> Value:
    if bound is None:
        return default
    b, at = c.builder, c.index(bound)
    at = b.cast(at, INT32)
    negative = b.compute("lt", at, b.const(0, INT32))
    at = b.select(negative, b.compute("add", at, n), at)
    return b.compute("max", low, b.compute("min", at, high))


def transposed(c: Any, array: ArrayValue) -> View:
    """Returns the view with the axes in reverse order."""
    base = whole(c, array)
    return _made(base, base.first, base.lengths[::-1], base.steps[::-1])


def reshaped(c: Any, array: ArrayValue, shape: Sequence[Any]) -> View:
    """Returns the view of another shape, of an array that is contiguous."""
    base = whole(c, array)
    lengths = list(shape)
    if any(isinstance(length, int) and length == -1 for length in lengths):
        at = next(k for k, length in enumerate(lengths) if isinstance(length, int) and length == -1)
        rest: Any = 1
        for length in [*lengths[:at], *lengths[at + 1 :]]:
            rest = c.binary("*", rest, length)
        lengths[at] = c.binary("//", size(c, base), rest)
    lengths = [length if isinstance(length, int) else c.converted(length, INT32) for length in lengths]
    step = base.steps[-1] if base.steps else c.builder.const(1, INT32)
    steps = [c.builder.compute("mul", each, step) for each in row_major(c, lengths)]
    return _made(base, base.first, lengths, steps)


def size(c: Any, view: View) -> Any:
    """Returns the number of elements."""
    result: Any = 1
    for length in view.lengths:
        result = c.binary("*", result, length)
    return result if isinstance(result, int) else c.converted(result, INT32)


def offset(c: Any, view: View, indices: Sequence[Any]) -> Value:
    """Returns the place of an element in memory."""
    if len(indices) != view.ndim:
        raise UnsupportedError(f"{view.name} takes {view.ndim} indices, one per axis; got {len(indices)}")
    b, at = c.builder, view.first
    for index, length, step in zip(indices, view.lengths, view.steps, strict=True):
        at = b.compute("add", at, b.compute("mul", c.from_start(index, length), step))
    if view.memory.private:
        last = b.const(view.memory.length // (2 if view.element.kind == "c" else 1) - 1, UINT32)
        return b.compute("min", b.bitcast(at, UINT32), last)
    return at


# -- in the kernel language -------------------------------------------------------------------------------------------


def fill(target: Any, value: Any) -> None:
    """Sets all elements of an array with one axis."""
    for i in range(target.shape[0]):
        target[i] = value


def fill_rows(target: Any, value: Any) -> None:
    """Sets all elements of an array with several axes."""
    for i in range(target.shape[0]):
        target[i, :] = value


def copy(target: Any, source: Any) -> None:
    """Copies the elements of an array with one axis, which is repeated if it has one."""
    for i in range(target.shape[0]):
        target[i] = source[i if source.shape[0] != 1 else 0]


def copy_rows(target: Any, source: Any) -> None:
    """Copies the elements of an array with as many axes."""
    for i in range(target.shape[0]):
        target[i, ...] = source[i if source.shape[0] != 1 else 0, ...]


def copy_to_rows(target: Any, source: Any) -> None:
    """Copies the elements of an array with fewer axes to each row."""
    for i in range(target.shape[0]):
        target[i, ...] = source
