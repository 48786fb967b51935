"""Elements of arrays: loads and stores, and rows of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from vkcompute.dtypes import as_dtype
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import FLOAT32, SCALARS, UINT32, Value
from vkcompute.ir.function import Op
from vkcompute.ir.types import SmallFloat, element_of
from vkcompute.jit.frontend import array_views, part_assignments, records
from vkcompute.jit.frontend.context import CompilerContext
from vkcompute.jit.frontend.element_offsets import ElementOffsets, along
from vkcompute.jit.frontend.intrinsics import Intrinsic
from vkcompute.jit.frontend.item_types import ItemTypes
from vkcompute.jit.frontend.number_conversion import NumberConversion
from vkcompute.jit.frontend.record_types import RecordType, element_type, is_of_records
from vkcompute.jit.frontend.values import (
    PARTS,
    ArrayValue,
    Complex,
    Kind,
    Number,
    Record,
    Row,
    Vector,
    describe,
    parts_of,
)

WHERE = "\0"
"""The message of the error that is kept with an access to memory, for its location in the source."""


class ElementAccess:
    """Loads and stores of elements.

    Args:
        program: the function that is built.
        numbers: convert what is stored.
        offsets: those of the elements.
        items: the types of the items of lists; None where they are known.

    Attributes:
        written: position of an array argument that is written -> True if its elements are assigned to, False if they
            are only changed by atomic operations.
    """

    def __init__(
        self,
        program: CompilerContext,
        numbers: NumberConversion,
        offsets: ElementOffsets,
        items: ItemTypes | None = None,
    ) -> None:
        self._program, self._numbers, self._offsets, self._items = program, numbers, offsets, items
        self._builder = numbers.builder
        self.extent, self.offset, self.guarded = offsets.extent, offsets.offset, offsets.guarded
        self.written: dict[int, bool] = {}

    @property
    def first_assigned(self) -> int | None:
        """Position of the first array argument whose elements are assigned to, so far."""
        return min((n for n, assigned in self.written.items() if assigned), default=None)

    def item(self, base: Any, index: Any) -> Any:
        """Returns an element, or a row where the last index is left out."""
        if isinstance(base, Record):
            return records.field(self._program, base, index)
        if isinstance(index, str) and is_of_records(base):
            return array_views.field(self._program, array_views.whole(self._program, base), index)
        array, indices, is_row = indexed(base, index)
        return Row(array, indices) if is_row else self.load(array, self._offsets.offset(array, indices))

    def assign(self, base: Any, index: Any, value: Any) -> None:
        """Stores an element or a field, or the elements of a row or a slice."""
        if isinstance(base, Record):
            self.mark_written(base.array)
            records.assign_field(self._program, base, index, value)
            return
        _refuse_name(index)
        array, indices, is_row = indexed(base, index)
        if is_assigned_by_parts(array, indices, value):
            part_assignments.assign_part(self._program, array, indices, value)
            return
        if not is_row:
            self.store(array, self._offsets.offset(array, indices), value)
            return
        _demand_length(array, len(value))
        for k, part in enumerate(value):
            self.store(array, self._offsets.offset(array, (*indices, k)), part)

    def update(self, base: Any, index: Any, change: Callable[[Any], Any]) -> None:
        """Assigns an element, a field or a row what `change` makes of it."""
        if isinstance(base, Record):
            self.assign(base, index, change(self.item(base, index)))
            return
        _refuse_name(index)
        array, indices, is_row = indexed(base, index)
        if is_sliced(array, indices):
            raise UnsupportedError(
                f"an operator assigns to one element of {array.name}; write a for loop over the slice"
            )
        if is_row:
            self.assign(array, indices, change(Row(array, indices)))
            return
        offset = self._offsets.offset(array, indices)
        self.store(array, offset, change(self.load(array, offset)))

    def attribute(self, base: Any, name: str) -> Any:
        """Returns `view` of an array, a field of a record, or the array of a field of records; None for others."""
        if isinstance(base, Record) or (is_of_records(base) and name in base.element.dtype.names):
            return self.item(base, name)
        if name == "view" and isinstance(base, ArrayValue) and base.item is None:
            return Intrinsic(lambda c, dtype: array_views.retyped(c, base, element_type(as_dtype(dtype))), 1, 1)
        return None

    def table(self, name: str, array: np.ndarray[Any, Any]) -> ArrayValue:
        """Declares a buffer with the elements of an array of the host."""
        element = element_type(array.dtype)
        is_record = isinstance(element, RecordType)
        memory = self._program.function.buffer(name, UINT32 if is_record else PARTS.get(element, element))
        table = ArrayValue(name, -1, element, array.ndim, memory, array.shape, constant=True)
        return records.in_memory(self._program, table) if is_record else table

    def loaded(self, row: Row, n: int) -> Vector:
        """Loads a row of `n` elements."""
        _demand_length(row.array, n)
        return Vector([self.load(row.array, self._offsets.offset(row.array, (*row.indices, k))) for k in range(n)])

    def load(self, array: ArrayValue, offset: Value) -> Any:
        """Loads the element at an offset; a record stays in memory."""
        if isinstance(array.element, RecordType):
            return records.at(self._program, array, offset)
        if array.element in PARTS:
            kinds: Any = array.item or (Kind(PARTS[array.element]),) * 2
            parts = zip(self._part_offsets(array, offset), kinds, strict=True)
            return Complex([Number(self._loaded(array, offset, at), kind) for at, kind in parts])
        value = self._loaded(array, offset, offset)
        if isinstance(array.element, SmallFloat) and array.element.bits == 8:  # which is for storage
            return Number(self._builder.cast(value, FLOAT32), Kind(FLOAT32))
        return Number(self._builder.cast(value, array.element), array.item or Kind(array.element))

    def store(self, array: ArrayValue, offset: Value, value: Any) -> None:
        """Stores an element at an offset, converted as by numpy's `astype`.

        Raises:
            RebuildError: the array is a list, and its type of items does not hold the value.
        """
        if isinstance(array.element, RecordType):
            self.mark_written(array)
            records.assign(self._program, records.at(self._program, array, offset), value)
            return
        if array.item is not None and self._items is not None:
            self._items.demand(array, value)
        self.mark_written(array)
        if array.element in PARTS:
            for at, part in zip(self._part_offsets(array, offset), parts_of(value), strict=True):
                self._put(array, offset, at, self._numbers.cast(part, PARTS[array.element]))
            return
        number = self._numbers.cast(value, array.element)
        self._put(array, offset, offset, number if array.unit else self._builder.cast(number, array.memory.element))

    def _loaded(self, array: ArrayValue, offset: Value, at: Value) -> Value:
        """Loads what is in memory at `at` for the element at an offset."""
        kind, load = array.memory.element, partial(self._builder.load, array.memory, at)
        if array.unit:
            kind = PARTS.get(array.element, array.element)
            load = partial(records.loaded, self._builder, array, at, kind)
        with self._located(array):
            value: Value = self._offsets.guarded(offset, load, kind)
        return value

    def _put(self, array: ArrayValue, offset: Value, at: Value, number: Value) -> None:
        """Stores a number to memory at `at`, a part of the element at an offset."""
        put = partial(records.store, self._builder, array, at, number)
        if not array.unit:
            put = partial(self._builder.store, array.memory, at, number)
        with self._located(array):
            self._offsets.guarded(offset, put)

    def _part_offsets(self, array: ArrayValue, offset: Value) -> list[Value]:
        """Returns the offsets of the parts of a complex element: modulo 2**32, as int32 does not hold all."""
        b, kind = self._builder, SCALARS[f"uint{element_of(offset.type).bits}"]
        if array.unit:
            n_units = PARTS[array.element].bits // 8 // array.unit
            return [offset, b.compute("add", offset, b.const(n_units, offset.type))]  # type: ignore[arg-type]
        first = b.compute("shl", b.cast(offset, kind), b.const(1, kind))
        return [first, b.compute("add", first, b.const(1, kind))]

    def _located(self, array: ArrayValue) -> AbstractContextManager[None]:
        """Keeps the source location of an access that may not fit the local size."""
        is_shared = (array.memory.of or array.memory) in self._program.function.shared_memory
        has_tiles = any(isinstance(value, Op) and value.attribute[0] == "group_id" for value in self._program.ids)
        return self._builder.at(self._program.error(WHERE)) if is_shared or has_tiles else nullcontext()

    def mark_written(self, array: ArrayValue, *, assigned: bool = True) -> None:
        """Notes that the kernel writes an array, by assignment or only by atomic operations."""
        if array.constant:
            raise UnsupportedError(f"{array.name} is an array from outside of the kernel; pass it as an argument")
        if array.shape is None:
            self.written[array.position] = assigned or self.written.get(array.position, False)


def indexed(base: Any, index: Any) -> tuple[Any, tuple[Any, ...], bool]:
    """Returns the array, all indices so far, and True if they denote a row: the last one is left out or is `:`."""
    indices = along(index)
    if isinstance(base, Row):
        base, indices = base.array, (*base.indices, *indices)
    if len(indices) > 1 and array_views.is_whole_axis(indices[-1]):
        indices = indices[:-1]
    return base, indices, isinstance(base, ArrayValue) and base.ndim == len(indices) + 1 > 1


def is_assigned_by_parts(array: Any, indices: Sequence[Any], value: Any) -> bool:
    """True if an assignment stores several elements of an array, other than a tuple to a row of numbers."""
    if not isinstance(array, ArrayValue) or array.item is not None:
        return False
    is_vector = isinstance(value, tuple) and not isinstance(value, Complex)
    return is_sliced(array, indices) or array.ndim > len(indices) + (1 if is_vector else 0)


def is_sliced(array: Any, indices: Sequence[Any]) -> bool:
    """True if indices denote a view of an array: one of them is a slice, `...` or None. A list has none."""
    if not isinstance(array, ArrayValue) or array.item is not None:
        return False
    return any(index is None or index is Ellipsis or isinstance(index, slice) for index in indices)


def _refuse_name(index: Any) -> None:
    """Raises UnsupportedError for an assignment to an attribute of what is no record."""
    if isinstance(index, str):
        raise UnsupportedError(
            "a kernel assigns to variables and to elements of arrays; vectors are immutable, only records have fields"
        )


def _demand_length(array: ArrayValue, n: int) -> None:
    if array.shape is not None and array.shape[-1] != n:
        raise UnsupportedError(f"rows of {describe(array)} have {array.shape[-1]} elements; got {n}")
