"""Views of arrays in kernels: slices, rows, transposed and reshaped arrays.

A view is its first element, a length and a step per axis, all in elements of the memory. It copies nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from vkcompute.compiled.specialization import OFFSET, STRIDE
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, UINT32, Value
from vkcompute.jit.frontend.values import PARTS, ArrayValue, Kind, Number


@dataclass(frozen=True, slots=True, eq=False)
class View(ArrayValue):
    """A part of an array.

    Attributes:
        first: the place of the first element in memory.
        extents: lengths of the axes: ints, or numbers of int32.
        steps: between neighbours along the axes.
        uniform: True if all elements, in row-major order, are one step apart.
        inside: the condition under which it is a part of the array; None if it always is, or indices are not checked.
    """

    first: Any = None
    extents: tuple[Any, ...] = ()
    steps: tuple[Any, ...] = ()
    uniform: bool = False
    inside: Any = None


def is_part(array: ArrayValue, indices: Sequence[Any]) -> bool:
    """True if indices denote a view of an array, and not an element."""
    n = sum(index is not None for index in indices)
    return n < array.ndim or any(index is None or index is Ellipsis or isinstance(index, slice) for index in indices)


def whole(c: Any, array: ArrayValue) -> View:
    """Returns an array as a view of all of its elements."""
    if isinstance(array, View):
        return array
    b = c.builder
    lengths = tuple([c.arrays.extent(array, axis) for axis in range(array.ndim)])
    if array.strided:
        first = b.cast(c.offsets.parameter(array, OFFSET), INT32)
        steps = [b.cast(c.offsets.parameter(array, STRIDE + axis), INT32) for axis in range(array.ndim)]
    else:
        first, steps = b.const(0, INT32), row_major(c, lengths)
    return _made(array, first, lengths, steps, uniform=not array.strided)


def row_major(c: Any, lengths: Sequence[Any]) -> list[Value]:
    """Returns the steps of a contiguous array."""
    steps = [c.builder.const(1, INT32)]
    for length in reversed(lengths[1:]):
        steps.append(c.builder.compute("mul", steps[-1], c.cast(length, INT32)))
    return steps[::-1] if lengths else []


def _made(
    array: ArrayValue, first: Value, lengths: Sequence[Any], steps: Sequence[Value], *, uniform: bool = False
) -> View:
    kept = {field.name: getattr(array, field.name) for field in fields(ArrayValue)}
    kept |= {"ndim": len(lengths), "first": first, "extents": tuple(lengths), "steps": tuple(steps)}
    return View(**kept, uniform=uniform or len(lengths) < 2, inside=getattr(array, "inside", None))


def part(c: Any, array: ArrayValue, indices: Sequence[Any]) -> View:
    """Returns the view that indices denote: ints, slices, `...` and None."""
    base = whole(c, array)
    b, first, axis = c.builder, base.first, 0
    lengths: list[Any] = []
    steps: list[Value] = []
    fixed: list[tuple[Value, Any]] = []
    completed = _completed(base, indices)
    n_kept = next((k for k, index in enumerate(reversed(completed)) if index != slice(None)), len(completed))
    firsts = [index for index in completed[: len(completed) - n_kept] if index is not None]
    uniform = base.uniform and all(not isinstance(index, slice) for index in firsts)
    for index in completed:
        if index is None:
            lengths.append(1)
            steps.append(b.const(0, INT32))
            continue
        length, step = base.extents[axis], base.steps[axis]
        axis += 1
        if isinstance(index, slice):
            start, count, by = bounds(c, index, length)
            lengths.append(count)
            steps.append(b.compute("mul", step, b.const(by, INT32)))
        else:
            start = c.element_offsets.from_start(index, length)
            fixed.append((start, length))
        first = b.compute("add", first, b.compute("mul", start, step))
    return replace(_made(base, first, lengths, steps, uniform=uniform), inside=_inside(c, base, fixed))


def _inside(c: Any, view: View, positions: Sequence[tuple[Value, Any]]) -> Any:
    """Returns the condition under which a part of a view exists; reports indices that are out of bounds.

    Args:
        positions: indices from the start, with the lengths of their axes.
    """
    if not (c.offsets.check_bounds and positions):
        return view.inside
    inside = c.offsets.inside(view.name, *zip(*positions, strict=True))
    return c.builder.compute("and", view.inside, inside) if view.inside and inside else view.inside or inside


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
    begin = _clamped(c, index.start, n, low, high, low if by > 0 else high)
    end = _clamped(c, index.stop, n, low, high, high if by > 0 else low)
    span = b.compute("sub", end, begin) if by > 0 else b.compute("sub", begin, end)
    size = abs(by)
    if size > 1:
        span = b.compute("div", b.compute("add", span, b.const(size - 1, INT32)), b.const(size, INT32))
    return begin, Number(b.compute("max", span, b.const(0, INT32)), Kind(INT32)), by


def _clamped(c: Any, bound: Any, n: Value, low: Value, high: Value, default: Value) -> Value:
    if bound is None:
        return default
    b, at = c.builder, c.index(bound)
    at = b.cast(at, INT32)
    negative = b.compute("lt", at, b.const(0, INT32))
    at = b.select(negative, b.compute("add", at, n), at)
    clamped: Value = b.compute("max", low, b.compute("min", at, high))
    return clamped


def transposed(c: Any, array: ArrayValue) -> View:
    """Returns the view with the axes in reverse order."""
    base = whole(c, array)
    return _made(base, base.first, base.extents[::-1], base.steps[::-1])


def component(c: Any, array: ArrayValue, at: int) -> View:
    """Returns the view of the real or the imaginary parts of an array."""
    if array.element not in PARTS:
        if at:
            raise UnsupportedError(f"{array.name} is not complex; its imaginary part is 0")
        return whole(c, array)
    base, b = whole(c, array), c.builder
    two = b.const(2, INT32)
    first = b.compute("add", b.compute("mul", base.first, two), b.const(at, INT32))
    steps = [b.compute("mul", step, two) for step in base.steps]
    return replace(_made(base, first, base.extents, steps), element=PARTS[base.element])


def reshaped(c: Any, array: ArrayValue, shape: Sequence[Any]) -> View:
    """Returns the view of another shape, one length of which may be -1.

    Raises:
        UnsupportedError: the array may have gaps, or another order than row-major.
    """
    base = whole(c, array)
    if not base.uniform:
        raise UnsupportedError("reshape() supports contiguous array only; copy it outside of the kernel")
    product: Any = 1
    for length in shape:
        product = c.binary("*", product, length)
    others = c.unary("-", product)  # where one length is -1
    divisor = others or 1 if isinstance(others, int) else c.where(c.compare("==", others, 0), 1, others)
    rest = c.binary("//", size(c, base), divisor)
    lengths = [_given(c, length, rest) for length in shape]
    step = base.steps[-1] if base.steps else c.builder.const(1, INT32)
    steps = [c.builder.compute("mul", packed, step) for packed in row_major(c, lengths)]
    return _made(base, base.first, lengths, steps, uniform=True)


def _given(c: Any, length: Any, rest: Any) -> Any:
    """Returns a length of a new shape; the rest where it is negative."""
    if isinstance(length, int):
        length = rest if length < 0 else length
        return length if isinstance(length, int) else c.converted(length, INT32)
    return c.converted(c.where(c.compare("<", length, 0), rest, length), INT32)


def size(c: Any, view: View) -> Any:
    """Returns the number of elements."""
    result: Any = 1
    for length in view.extents:
        result = c.binary("*", result, length)
    return result if isinstance(result, int) else c.converted(result, INT32)


def offset(c: Any, view: View, indices: Sequence[Any]) -> Value:
    """Returns the place of an element in memory."""
    if len(indices) != view.ndim:
        raise UnsupportedError(f"{view.name} takes {view.ndim} indices, one per axis; got {len(indices)}")
    b, at = c.builder, view.first
    starts = [c.element_offsets.from_start(*pair) for pair in zip(indices, view.extents, strict=True)]
    for start, step in zip(starts, view.steps, strict=True):
        at = b.compute("add", at, b.compute("mul", start, step))
    if view.memory.private:
        n_elements = (view.memory.length or 1) // (2 if view.element.kind == "c" else 1)
        at = b.compute("min", b.bitcast(at, UINT32), b.const(n_elements - 1, UINT32))
    element: Value = c.offsets.checked(at, _inside(c, view, list(zip(starts, view.extents, strict=True))))
    return element


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


def part_of(x: Any, i: Any) -> Any:
    """Returns an element or a row of an array that broadcasts; a number unchanged."""
    return x


def apply_unary(function: Any, x: Any, out: Any) -> None:
    """Applies a function to the elements of an array with one axis."""
    for i in range(out.shape[0]):
        out[i] = function(part_of(x, i))


def apply_unary_rows(function: Any, x: Any, out: Any) -> None:
    """Applies a function to the rows of an array."""
    for i in range(out.shape[0]):
        function(part_of(x, i), out[i])


def apply_binary(function: Any, x: Any, y: Any, out: Any) -> None:
    """Applies a function to the elements of two arrays with one axis."""
    for i in range(out.shape[0]):
        out[i] = function(part_of(x, i), part_of(y, i))


def apply_binary_rows(function: Any, x: Any, y: Any, out: Any) -> None:
    """Applies a function to the rows of two arrays."""
    for i in range(out.shape[0]):
        function(part_of(x, i), part_of(y, i), out[i])


APPLIED: dict[tuple[int, bool], Any] = {
    (1, False): apply_unary, (1, True): apply_unary_rows, (2, False): apply_binary, (2, True): apply_binary_rows,
}  # fmt: skip
"""Number of operands, and whether the result has several axes -> the function that applies one of elements."""
