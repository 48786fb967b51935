"""Views of arrays in kernels: slices, rows, other types, and arrays whose elements are records.

A view is its first element, a length and a step per axis. These count elements, or units of fewer bytes
(`ArrayValue.unit`). It copies nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from vkcompute.compiled.specialization import OFFSET, STRIDE
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, UINT32, Constant, Scalar, Value, view_of
from vkcompute.jit.frontend.record_types import UNITS, RecordType, element_type
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
        first, steps = b.const(0, INT32), row_major(c, lengths, units_of(array))
    return made(array, first, lengths, steps, uniform=not array.strided)


def units_of(array: ArrayValue) -> int:
    """Returns the number of units of an element."""
    return array.element.bits // 8 // array.unit if array.unit else 1


def row_major(c: Any, lengths: Sequence[Any], step: int = 1) -> list[Value]:
    """Returns the steps of a contiguous array, whose neighbours are one `step` apart."""
    steps = [c.builder.const(step, INT32)]
    for length in reversed(lengths[1:]):
        steps.append(c.builder.compute("mul", steps[-1], c.cast(length, INT32)))
    return steps[::-1] if lengths else []


def made(
    array: ArrayValue, first: Value, lengths: Sequence[Any], steps: Sequence[Value], *, uniform: bool = False
) -> View:
    """Returns a view of an array."""
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
    n_kept = next((k for k, index in enumerate(reversed(completed)) if not is_whole_axis(index)), len(completed))
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
    inside = base.inside
    if c.offsets.check_bounds and fixed:
        inside = both(c.builder, inside, c.offsets.inside(base.name, *zip(*fixed, strict=True)))
    return replace(made(base, first, lengths, steps, uniform=uniform), inside=inside)


def is_whole_axis(index: Any) -> bool:
    """True for `:`."""
    return isinstance(index, slice) and index.start is index.stop is index.step is None


def both(builder: Any, one: Any, other: Any) -> Any:
    """Returns the conjunction of two conditions, each of which may be None for one that holds."""
    return builder.compute("and", one, other) if one and other else one or other


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


def size(builder: Any, view: View) -> Any:
    """Returns the number of elements."""
    known = math.prod(length for length in view.extents if isinstance(length, int))
    numbers = [length.value for length in view.extents if isinstance(length, Number)]
    if not numbers:
        return known
    result = builder.const(known, INT32)
    for number in numbers:
        result = builder.compute("mul", result, number)
    return Number(result, Kind(INT32))


def limited(builder: Any, view: View, at: Value) -> Value:
    """Returns the place of an element of private memory, limited to the memory."""
    memory = view.memory
    n_elements = (memory.length or 1) // (2 if view.element in PARTS and not view.unit else 1)
    last = builder.const(n_elements - units_of(view), UINT32)
    offset: Value = builder.bitcast(builder.compute("min", builder.bitcast(at, UINT32), last), INT32)
    return offset


def retyped(c: Any, array: ArrayValue, element: Scalar) -> View:
    """Returns the view of the same bytes as elements of another type; the length of the last axis changes.

    Raises:
        UnsupportedError: elements of another size, of an array without axes, or whose last axis may have gaps.
    """
    base, b = whole(c, array), c.builder
    before, after = base.element.bits // 8, element.bits // 8
    own = base.unit or before  # the bytes that offsets count
    is_record = isinstance(element, RecordType)
    wanted = math.gcd(after, 4) if is_record else after
    starts = before != after and base.ndim == 1 and is_constant(base.first, 0)
    count = wanted if own % wanted == 0 or starts else math.gcd(own, after, 4)
    first, *steps = [b.compute("mul", x, b.const(max(own // count, 1), INT32)) for x in (base.first, *base.steps)]
    extents = base.extents
    if before != after:
        if not base.ndim or not is_constant(base.steps[-1], before // own):
            raise UnsupportedError(f"a view of elements of another size has adjacent ones; {base.name} may have gaps")
        steps[-1] = b.const(after // count, INT32)
        extents = (*extents[:-1], _resized(c, extents[-1], before, after))
    natural = not is_record and count == after
    memory = view_of(base.memory, PARTS.get(element, element) if natural else UNITS[count])
    kept = replace(base, element=element, memory=memory, unit=0 if natural else count)
    return made(kept, first, extents, steps, uniform=base.uniform)


def units(c: Any, view: View, unit: int) -> View:
    """Returns the units of so many bytes of a record, as an array with one axis."""
    b = c.builder
    first = b.compute("mul", view.first, b.const(view.unit // unit, INT32))
    kept = replace(view, element=UNITS[unit], memory=view_of(view.memory, UNITS[unit]), unit=0)
    return made(kept, first, (view.element.bits // 8 // unit,), (b.const(1, INT32),))


def is_constant(value: Any, number: int) -> bool:
    """True if a value is this number, known at compile time."""
    return isinstance(value, Constant) and bool(value.value == number)


def _resized(c: Any, length: Any, before: int, after: int) -> Any:
    """Returns the length of an axis in elements of another size."""
    common = math.gcd(before, after)
    times, by = before // common, after // common
    if isinstance(length, int):
        return length * times // by
    b = c.builder
    n = b.compute("mul", c.cast(length, INT32), b.const(times, INT32))
    return Number(b.compute("div", n, b.const(by, INT32)), Kind(INT32))


def field(c: Any, view: View, name: str) -> View:
    """Returns the array of one field of an array of records; a field that is an array adds its axes."""
    assert isinstance(view.element, RecordType), "only records have fields"
    dtype, at = view.element.field(name, view.name)
    element, nbytes = element_type(dtype.base), dtype.base.itemsize
    part = math.gcd(nbytes, 4) if isinstance(element, RecordType) else part_bytes(element)
    unit = math.gcd(view.unit, at, part, 4)
    natural = unit == nbytes and element not in PARTS and not isinstance(element, RecordType)
    b, scale = c.builder, c.builder.const(view.unit // unit, INT32)
    first = b.compute("add", b.compute("mul", view.first, scale), b.const(at // unit, INT32))
    steps = [b.compute("mul", step, scale) for step in view.steps]
    memory = view_of(view.memory, element if natural else UNITS[unit])
    kept = replace(view, element=element, memory=memory, unit=0 if natural else unit)
    lengths = (*view.extents, *dtype.shape)
    steps += row_major(c, dtype.shape, nbytes // unit)
    return made(kept, first, lengths, steps, uniform=not view.ndim)


def part_bytes(element: Scalar) -> int:
    """Returns the bytes of a number, or of a part of a complex one."""
    return PARTS.get(element, element).bits // 8
