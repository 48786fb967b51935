"""Elements of arrays: shapes, indices, loads and stores, and bounds checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from vkcompute import ir
from vkcompute.compiled.report import Reports, Site, escaped
from vkcompute.compiled.specialization import OFFSET, STRIDE
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import FLOAT32, INT32, INT64, SCALARS, UINT32, Constant, Scalar, Value
from vkcompute.ir.function import Op
from vkcompute.ir.types import SmallFloat, element_of
from vkcompute.jit.frontend.arithmetic import Arithmetic
from vkcompute.jit.frontend.complex_values import parts_of
from vkcompute.jit.frontend.tuples import Operators
from vkcompute.jit.frontend.values import PARTS, ArrayValue, Complex, Kind, Number, Row, Vector, describe

WHERE = "\0"
"""The message of the error that is kept with an access to memory, for its location in the source."""


class MemoryAccess(Arithmetic):
    """Loads and stores of elements, and reports to the host.

    Attributes:
        check_bounds: True if indices are compared with the shape.
        reports: the kernel's reports; None where no host reads them.
        written: position of an array argument that is written -> True if its elements are assigned to, False if they
            are only changed by atomic operations.
        extents: push constants for lengths, offsets and strides, by (position of the array, source).
        in_bounds: checked offset -> the condition under which the element exists.
    """

    def __init__(
        self, function: ir.Function, evaluator: Evaluator, real: Scalar, host: Operators | None = None
    ) -> None:
        super().__init__(function, evaluator, real, host)
        self.check_bounds = False
        self.reports: Reports | None = None
        self.written: dict[int, bool] = {}
        self.extents: dict[tuple[int, int], Value] = {}
        self.in_bounds: dict[Value, Value] = {}

    @property
    def first_assigned(self) -> int | None:
        """Position of the first array argument whose elements are assigned to, so far."""
        return min((n for n, assigned in self.written.items() if assigned), default=None)

    # -- elements and rows --------------------------------------------------------------------------------------------

    def item(self, base: Any, index: Any) -> Any:
        """Returns an element, or a row where the last index is left out."""
        array, indices, is_row = indexed(base, index)
        return Row(array, indices) if is_row else self.load(array, self.offset(array, indices))

    def assign(self, base: Any, index: Any, value: Any) -> None:
        """Stores an element, or a vector or tuple to a row of the same length."""
        array, indices, is_row = indexed(base, index)
        if not is_row:
            self.store(array, self.offset(array, indices), value)
            return
        if not isinstance(value, tuple):
            rule = f"{array.name} takes {array.ndim} indices; a row, with one less, takes a vector or a tuple"
            raise UnsupportedError(f"{rule}; got {describe(value)}")
        _demand_length(array, len(value))
        for k, part in enumerate(value):
            self.store(array, self.offset(array, (*indices, k)), part)

    def update(self, base: Any, index: Any, change: Callable[[Any], Any]) -> None:
        """Assigns an element or a row what `change` makes of it."""
        array, indices, is_row = indexed(base, index)
        if is_row:
            self.assign(array, indices, change(Row(array, indices)))
            return
        offset = self.offset(array, indices)
        self.store(array, offset, change(self.load(array, offset)))

    def loaded(self, row: Row, n: int) -> Vector:
        """Loads a row of `n` elements."""
        _demand_length(row.array, n)
        return Vector([self.load(row.array, self.offset(row.array, (*row.indices, k))) for k in range(n)])

    def each(self, work: Callable[..., Any], *values: Any) -> Vector:
        """Applies a function of numbers to each element of vectors and rows; other values are repeated."""
        n = next(len(value) for value in values if isinstance(value, Vector))
        return super().each(work, *[self.loaded(value, n) if isinstance(value, Row) else value for value in values])

    def load(self, array: ArrayValue, offset: Value) -> Any:
        """Loads the element at an offset."""
        if array.element in PARTS:
            kinds: Any = array.item or (Kind(array.memory.element),) * 2
            parts = zip(self._part_offsets(offset), kinds, strict=True)
            return Complex([Number(self._loaded(array, offset, at), kind) for at, kind in parts])
        value = self._loaded(array, offset, offset)
        if isinstance(array.element, SmallFloat) and array.element.bits == 8:  # which is for storage
            return Number(self.builder.cast(value, FLOAT32), Kind(FLOAT32))
        return Number(self.builder.cast(value, array.element), array.item or Kind(array.element))

    def store(self, array: ArrayValue, offset: Value, value: Any) -> None:
        """Stores an element at an offset, converted as by numpy's `astype`."""
        self.mark_written(array)
        if array.element in PARTS:
            for at, part in zip(self._part_offsets(offset), parts_of(value), strict=True):
                self._put(array, offset, at, self.cast(part, array.memory.element))
            return
        number = self.builder.cast(self.cast(value, array.element), array.memory.element)
        self._put(array, offset, offset, number)

    def _loaded(self, array: ArrayValue, offset: Value, at: Value) -> Value:
        """Loads what is in memory at `at` for the element at an offset."""
        with self._located(array):
            value: Value = self.guarded(offset, lambda: self.builder.load(array.memory, at), array.memory.element)
        return value

    def _put(self, array: ArrayValue, offset: Value, at: Value, number: Value) -> None:
        """Stores a number to memory at `at`, a part of the element at an offset."""
        with self._located(array):
            self.guarded(offset, lambda: self.builder.store(array.memory, at, number))

    def _part_offsets(self, offset: Value) -> list[Value]:
        """Returns the offsets of the parts of a complex element: modulo 2**32, as int32 does not hold all."""
        b, kind = self.builder, SCALARS[f"uint{element_of(offset.type).bits}"]
        first = b.compute("shl", b.cast(offset, kind), b.const(1, kind))
        return [first, b.compute("add", first, b.const(1, kind))]

    def _located(self, array: ArrayValue) -> AbstractContextManager[None]:
        """Keeps the source location of an access that may not fit the local size."""
        is_shared = array.memory in self.function.shared_memory
        has_tiles = any(isinstance(value, Op) and value.attribute[0] == "group_id" for value in self.ids)
        return self.builder.at(self.error(WHERE)) if is_shared or has_tiles else nullcontext()

    def mark_written(self, array: ArrayValue, *, assigned: bool = True) -> None:
        """Notes that the kernel writes an array, by assignment or only by atomic operations."""
        if array.constant:
            raise UnsupportedError(f"{array.name} is an array from outside of the kernel; pass it as an argument")
        if array.shape is None:
            self.written[array.position] = assigned or self.written.get(array.position, False)

    # -- shapes and offsets -------------------------------------------------------------------------------------------

    def extent(self, array: ArrayValue, axis: int) -> Any:
        """Returns the length of an axis, or the size for axis -1: int32; for a shared array a Python int."""
        if array.shape is not None:
            return math.prod(array.shape) if axis < 0 else array.shape[axis]
        if array.ndim == 0:
            return 1
        return Number(self.parameter(array, 0 if array.ndim == 1 else axis), Kind(INT32))

    def parameter(self, array: ArrayValue, source: int) -> Value:
        """Returns a parameter of an array: a length, SPAN or LOWEST (int32), OFFSET or STRIDE + axis (uint32)."""
        key = array.position, source
        if key not in self.extents:
            of_layout = source == OFFSET or source >= STRIDE
            part = "layout" if of_layout else "size" if source < 0 else f"shape[{source}]"
            self.extents[key] = self.function.push(f"{array.name}.{part}", UINT32 if of_layout else INT32)
        return self.extents[key]

    def offset(self, array: Any, index: Any) -> Value:
        """Returns the offset of an element in a row-major array; negative constants count from the end."""
        indices = _along(index)
        if not isinstance(array, ArrayValue):
            remedy = "; make it a tuple" if isinstance(array, list) else ""
            raise UnsupportedError(f"only arrays, vectors and tuples are indexed; got {describe(array)}{remedy}")
        if len(indices) != array.ndim:
            example = f"{array.name}[{', '.join('ijklmnopq'[: array.ndim]) or '()'}]"
            rule = f"{array.name} takes {array.ndim} indices, one per axis; got {len(indices)}"
            raise UnsupportedError(f"{rule}; write {example}")
        if any(isinstance(position, slice) for position in indices):
            raise UnsupportedError("only vectors and tuples have slices; index single elements, in a for loop")
        for position, length in zip(indices, array.shape or (), strict=False):
            if isinstance(position, int) and not -length <= position < length:
                raise UnsupportedError(f"{array.name} has {length} elements along this axis; got {position}")
        along = [self._from_start(array, axis, position) for axis, position in enumerate(indices)]
        return self._checked(array, along) if self.check_bounds and along else self._offset(array, along)

    def _from_start(self, array: ArrayValue, axis: int, index: Any) -> Any:
        """Returns an index that counts from the start."""
        if isinstance(index, (int, np.integer)) and index < 0:
            return self.binary("+", self.extent(array, axis), int(index))
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
        last = self.builder.const(math.prod(array.shape or ()) - 1, unsigned)
        return self.builder.compute("min", self.builder.bitcast(offset, unsigned), last)

    def _strided_offset(self, array: ArrayValue, indices: Sequence[Any]) -> Value:
        """Returns the offset of an element of a view; modulo 2**32, which exceeds every binding, and strides."""
        b, offset = self.builder, self.parameter(array, OFFSET)
        for axis, index in enumerate(indices):
            step = b.compute("mul", b.cast(self.index(index), UINT32), self.parameter(array, STRIDE + axis))
            offset = b.compute("add", offset, step)
        return offset

    def _row_major_offset(self, array: ArrayValue, indices: Sequence[Any]) -> Value:
        """Returns the offset of an element, for indices that count from the start."""
        offset: Any = 0
        for axis, index in enumerate(indices):
            at = self.index(index)
            if len(indices) == 1:
                return at
            at = self.builder.cast(at, INT32 if at.type in (INT32, UINT32) else INT64)
            before = self.binary("*", offset, self.extent(array, axis)) if axis else 0
            offset = self.binary("+", before, Number(at, Kind(at.type)))  # type: ignore[arg-type]
        return self.index(offset)

    # -- bounds checks ------------------------------------------------------------------------------------------------

    def _checked(self, array: ArrayValue, indices: Sequence[Any]) -> Value:
        """Returns the offset of an element for `guarded`; an index out of bounds is reported as a failure."""
        b, inside = self.builder, None
        shape = [self.extent(array, axis) for axis in range(array.ndim)]
        for index, length in zip(indices, shape, strict=True):
            at = self.index(index)
            unsigned = SCALARS[f"uint{element_of(at.type).bits}"]
            fits = b.compute("lt", b.bitcast(at, unsigned), self.cast(length, unsigned))  # excludes negative ones, too
            inside = fits if inside is None else b.compute("and", inside, fits)
        offset = self._offset(array, indices)
        if inside is None or isinstance(inside, Constant):  # constant indices of shared arrays are checked already
            return offset
        branch = b.if_(b.compute("not", inside))
        with branch.then:
            n, one = array.ndim, "," * (array.ndim == 1)
            index = f"({', '.join(f'{{{k}}}' for k in range(n))})" if n > 1 else "{0}"
            lengths = ", ".join(f"{{{n + k}}}" for k in range(n))
            text = f"index {index} is outside of {array.name}, whose shape is ({lengths}{one})"
            self.report(text, [*indices, *[self.converted(length, INT32) for length in shape]], fails=True)
        offset = b.select(inside, offset, b.const(0, element_of(offset.type)))  # a new value, the key of its condition
        self.in_bounds[offset] = inside
        return offset

    def guarded(self, offset: Value, use: Callable[[], Value | None], kind: Scalar | None = None) -> Any:
        """Returns what `use` builds; out of bounds at a checked offset, zero of this type instead."""
        if offset not in self.in_bounds:
            return use()
        branch = self.builder.if_(self.in_bounds[offset])
        with branch.then:
            value = use()
            self.builder.yield_(*[] if value is None else [value])
        with branch.otherwise:
            self.builder.yield_(*[] if kind is None else [self.builder.const(0, kind)])
        return branch.results[0] if kind is not None else None

    def report(self, text: str, values: Sequence[Any], *, fails: bool = False, error: str = "") -> None:
        """Reports to the host from the current place in the kernel.

        Args:
            text: format string for `str.format` with the values, at most 100.
            fails: True if the launch fails, with an error that adds the source location and the invocation.
            error: Python's name of the error's class; KernelError by default.
        """
        if self.reports is None:
            raise UnsupportedError("only kernels of vc.kernel can report to the host; write values to an array")
        kinds = [self.kind(value).type for value in values]
        if fails:
            message = f"{text}{', ' * bool(text)}in {{invocation}} of {self.function.name}{{more}}"
            text = escaped(str(self.error("\0"))).replace("\0", message)
        site = Site(text, tuple([kind.name for kind in kinds]), fails, error)
        self.reports.add(site, (self.cast(value, kind) for value, kind in zip(values, kinds, strict=True)))


def indexed(base: Any, index: Any) -> tuple[Any, tuple[Any, ...], bool]:
    """Returns the array, all indices so far, and True if they denote a row: the last one is left out or is `:`."""
    indices = _along(index)
    if isinstance(base, Row):
        base, indices = base.array, (*base.indices, *indices)
    if len(indices) > 1 and isinstance(indices[-1], slice) and indices[-1] == slice(None):
        indices = indices[:-1]
    return base, indices, isinstance(base, ArrayValue) and base.ndim == len(indices) + 1 > 1


def _along(index: Any) -> tuple[Any, ...]:
    """Returns the indices along the axes; a complex number is one, to be refused."""
    return index if isinstance(index, tuple) and not isinstance(index, Complex) else (index,)


def _demand_length(array: ArrayValue, n: int) -> None:
    if array.shape is not None and array.shape[-1] != n:
        raise UnsupportedError(f"rows of {describe(array)} have {array.shape[-1]} elements; got {n}")
