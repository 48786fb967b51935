"""Offsets of elements: lengths, strides and indices of arrays, and bounds checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from vkcompute import ir
from vkcompute.compiled.specialization import OFFSET, STRIDE
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, INT64, SCALARS, UINT32, Constant, Scalar, Value
from vkcompute.ir.types import element_of
from vkcompute.jit.frontend import array_views
from vkcompute.jit.frontend.array_views import View
from vkcompute.jit.frontend.number_conversion import NumberConversion
from vkcompute.jit.frontend.values import ArrayValue, Complex, Kind, Number, describe


class ElementOffsets(Protocol):
    """Offsets of the elements of arrays."""

    def extent(self, array: ArrayValue, axis: int) -> Any:
        """Returns the length of an axis, or the size for axis -1."""

    def offset(self, array: Any, index: Any) -> Value:
        """Returns the offset of an element; negative constants count from the end."""

    def guarded(self, offset: Value, use: Callable[[], Value | None], kind: Scalar | None = None) -> Any:
        """Returns what `use` builds with an offset, unless it is out of bounds."""


class DeviceOffsets:
    """Offsets in the memory of a device, whose lengths and strides are launch parameters; `ElementOffsets`.

    Args:
        function: takes push constants.
        numbers: convert indices.
        report: reports a failure, given a text with fields and their values.

    Attributes:
        check_bounds: True if indices are compared with the shape.
        pushed: push constants for lengths, offsets and strides, by (position of the array, source).
    """

    def __init__(
        self,
        function: ir.Function,
        numbers: NumberConversion,
        report: Callable[[str, Sequence[Any]], None],
    ) -> None:
        self._function, self._numbers, self._report = function, numbers, report
        self._builder = numbers.builder
        self.check_bounds = False
        self.pushed: dict[tuple[int, int], Value] = {}
        self._in_bounds: dict[Value, Value] = {}  # checked offset -> the condition under which the element exists

    def extent(self, array: ArrayValue, axis: int) -> Any:
        """Returns the length of an axis, or the size for axis -1: int32; for a shared array a Python int."""
        if isinstance(array, View):
            return array_views.size(self._builder, array) if axis < 0 else array.extents[axis]
        if array.shape is not None:
            return math.prod(array.shape) if axis < 0 else array.shape[axis]
        if array.ndim == 0:
            return 1
        if array.lengths is not None:
            raise UnsupportedError(array.lengths)
        return Number(self.parameter(array, 0 if array.ndim == 1 else axis), Kind(INT32))

    def parameter(self, array: ArrayValue, source: int) -> Value:
        """Returns a parameter of an array: a length, SPAN or LOWEST (int32), OFFSET or STRIDE + axis (uint32)."""
        key = array.position, source
        if key not in self.pushed:
            of_layout = source == OFFSET or source >= STRIDE
            part = "layout" if of_layout else "size" if source < 0 else f"shape[{source}]"
            self.pushed[key] = self._function.push(f"{array.name}.{part}", UINT32 if of_layout else INT32)
        return self.pushed[key]

    def offset(self, array: Any, index: Any) -> Value:
        """Returns the offset of an element in a row-major array; negative constants count from the end."""
        indices = along(index)
        if isinstance(array, View):
            return self.offset_in_view(array, indices, self.from_start)
        if not isinstance(array, ArrayValue):
            remedy = "; make it a tuple" if isinstance(array, list) else ""
            raise UnsupportedError(f"only arrays, vectors and tuples are indexed; got {describe(array)}{remedy}")
        if len(indices) != array.ndim:
            example = f"{array.name}[{', '.join('ijklmnopq'[: array.ndim]) or '()'}]"
            rule = f"{array.name} takes {array.ndim} indices, one per axis; got {len(indices)}"
            raise UnsupportedError(f"{rule}; write {example}")
        if any(isinstance(position, slice) for position in indices):
            raise UnsupportedError("a list has no slices in kernels; index single items, in a for loop")
        for position, length in zip(indices, array.shape or (), strict=False):
            if isinstance(position, int) and not -length <= position < length:
                raise UnsupportedError(f"{array.name} has {length} elements along this axis; got {position}")
        positions = [self._from_start(array, axis, position) for axis, position in enumerate(indices)]
        offset = self._offset(array, positions)
        if not (self.check_bounds and positions):
            return offset
        lengths = [self.extent(array, axis) for axis in range(array.ndim)]
        return self.checked(offset, self.inside(array.name, [self._numbers.index(at) for at in positions], lengths))

    def offset_in_view(self, view: View, indices: Sequence[Any], from_start: Callable[[Any, Any], Value]) -> Value:
        """Returns the place of an element of a view in memory.

        Args:
            from_start: returns an index that counts from the start, given the length of the axis.
        """
        if len(indices) != view.ndim:
            raise UnsupportedError(f"{view.name} takes {view.ndim} indices, one per axis; got {len(indices)}")
        b, at, inside = self._builder, view.first, view.inside
        starts = [from_start(*pair) for pair in zip(indices, view.extents, strict=True)]
        for start, step in zip(starts, view.steps, strict=True):
            at = b.compute("add", at, b.compute("mul", start, step))
        if view.memory.private:
            at = array_views.limited(b, view, at)
        if self.check_bounds and starts:
            inside = array_views.both(b, inside, self.inside(view.name, starts, view.extents))
        return self.checked(at, inside)

    def from_start(self, index: Any, length: Any) -> Value:
        """Returns an index along an axis of this length, as int32; a negative constant counts from the end."""
        b = self._builder
        at = b.cast(self._numbers.index(index), INT32)
        if not isinstance(index, (int, np.integer)):
            return at
        if isinstance(length, int) and not -length <= index < length:
            raise UnsupportedError(f"this axis has {length} elements; got index {index}; take one of them")
        return at if index >= 0 else b.compute("add", self._numbers.cast(length, INT32), at)

    def condition(self, offset: Value) -> Value | None:
        """Returns the condition under which the element at a checked offset exists; None for one that always does."""
        return self._in_bounds.get(offset)

    def _from_start(self, array: ArrayValue, axis: int, index: Any) -> Any:
        """Returns an index that counts from the start."""
        if isinstance(index, (int, np.integer)) and index < 0:
            length, before = self.extent(array, axis), int(index)
            if isinstance(length, int):
                return length + before
            at = self._builder.compute("add", length.value, self._numbers.cast(before, INT32))
            return Number(at, length.kind)
        return index

    def _offset(self, array: ArrayValue, indices: Sequence[Any]) -> Value:
        """Returns the offset of an element in memory, for indices that count from the start.

        That of a private array is limited to the array. An index beyond a variable of SPIR-V is undefined, and drivers
        for CPUs then overwrite their stack.
        """
        if array.strided:
            return self._strided_offset(array, indices)
        offset = self._row_major_offset(array, indices)
        if not array.memory.private:
            return offset
        unsigned = SCALARS[f"uint{element_of(offset.type).bits}"]
        last = self._builder.const(math.prod(array.shape or ()) - 1, unsigned)
        return self._builder.compute("min", self._builder.bitcast(offset, unsigned), last)

    def _strided_offset(self, array: ArrayValue, indices: Sequence[Any]) -> Value:
        """Returns the offset of an element of a view; modulo 2**32, which exceeds every binding, and strides."""
        b, offset = self._builder, self.parameter(array, OFFSET)
        for axis, index in enumerate(indices):
            step = b.compute("mul", b.cast(self._numbers.index(index), UINT32), self.parameter(array, STRIDE + axis))
            offset = b.compute("add", offset, step)
        return offset

    def _row_major_offset(self, array: ArrayValue, indices: Sequence[Any]) -> Value:
        """Returns the offset of an element, for indices that count from the start: int64 if one is."""
        if len(indices) == 1:
            return self._numbers.index(indices[0])
        b = self._builder
        offset: Value = b.const(0, INT32)
        for axis, index in enumerate(indices):
            at = self._numbers.index(index)
            at = b.cast(at, INT32 if at.type in (INT32, UINT32) else INT64)
            if axis:
                length = self._numbers.cast(self.extent(array, axis), element_of(offset.type))
                offset = b.compute("mul", offset, length)
            kind = INT64 if INT64 in (offset.type, at.type) else INT32
            offset = b.compute("add", b.cast(offset, kind), b.cast(at, kind))
        return offset

    # -- bounds checks ------------------------------------------------------------------------------------------------

    def inside(self, name: str, positions: Sequence[Value], shape: Sequence[Any]) -> Value | None:
        """Returns the condition that an element exists; None if it is known to. Reports an index out of bounds."""
        b, inside = self._builder, None
        for at, length in zip(positions, shape, strict=True):
            unsigned = SCALARS[f"uint{element_of(at.type).bits}"]
            # This excludes negative indices, too.
            fits = b.compute("lt", b.bitcast(at, unsigned), self._numbers.cast(length, unsigned))
            inside = fits if inside is None else b.compute("and", inside, fits)
        if inside is None or isinstance(inside, Constant):  # constant indices are checked already
            return None
        branch = b.if_(b.compute("not", inside))
        with branch.then:
            n, one = len(shape), "," * (len(shape) == 1)
            index = f"({', '.join(f'{{{k}}}' for k in range(n))})" if n > 1 else "{0}"
            lengths = ", ".join(f"{{{n + k}}}" for k in range(n))
            text = f"index {index} is outside of {name}, whose shape is ({lengths}{one})"
            given = [Number(at, Kind(element_of(at.type))) for at in positions]
            self._report(text, [*given, *[self._numbers.converted(length, INT32) for length in shape]])
        return inside

    def checked(self, offset: Value, inside: Value | None) -> Value:
        """Returns the offset of an element for `guarded`, if the element exists under this condition."""
        if inside is None:
            return offset
        zero = self._builder.const(0, element_of(offset.type))
        offset = self._builder.select(inside, offset, zero)  # a new value, the key of its condition
        self._in_bounds[offset] = inside
        return offset

    def guarded(self, offset: Value, use: Callable[[], Value | None], kind: Scalar | None = None) -> Any:
        """Returns what `use` builds; out of bounds at a checked offset, zero of this type instead."""
        if offset not in self._in_bounds:
            return use()
        branch = self._builder.if_(self._in_bounds[offset])
        with branch.then:
            value = use()
            self._builder.yield_(*[] if value is None else [value])
        with branch.otherwise:
            self._builder.yield_(*[] if kind is None else [self._builder.const(0, kind)])
        return branch.results[0] if kind is not None else None


def along(index: Any) -> tuple[Any, ...]:
    """Returns the indices along the axes; a complex number is one, to be refused."""
    return index if isinstance(index, tuple) and not isinstance(index, Complex) else (index,)
