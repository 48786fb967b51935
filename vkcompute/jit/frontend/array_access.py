"""Elements of arrays: loads and stores, and rows of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import FLOAT32, SCALARS, Value
from vkcompute.ir.function import Op
from vkcompute.ir.types import SmallFloat, element_of
from vkcompute.jit.frontend.arithmetic import Arithmetic
from vkcompute.jit.frontend.complex_values import parts_of
from vkcompute.jit.frontend.item_types import ItemTypes
from vkcompute.jit.frontend.offsets import Offsets, along
from vkcompute.jit.frontend.values import PARTS, ArrayValue, Complex, Kind, Number, Row, Vector, describe

WHERE = "\0"
"""The message of the error that is kept with an access to memory, for its location in the source."""


class ArrayAccess:
    """Loads and stores of elements.

    Args:
        c: converts numbers.
        offsets: where the elements are.
        items: the types of the items of lists; None where they are known.

    Attributes:
        written: position of an array argument that is written -> True if its elements are assigned to, False if they
            are only changed by atomic operations.
    """

    def __init__(self, c: Arithmetic, offsets: Offsets, items: ItemTypes | None = None) -> None:
        self._c, self._offsets, self._items = c, offsets, items
        self.extent, self.offset, self.guarded = offsets.extent, offsets.offset, offsets.guarded
        self.written: dict[int, bool] = {}

    @property
    def first_assigned(self) -> int | None:
        """Position of the first array argument whose elements are assigned to, so far."""
        return min((n for n, assigned in self.written.items() if assigned), default=None)

    def item(self, base: Any, index: Any) -> Any:
        """Returns an element, or a row where the last index is left out."""
        array, indices, is_row = indexed(base, index)
        return Row(array, indices) if is_row else self.load(array, self._offsets.offset(array, indices))

    def assign(self, base: Any, index: Any, value: Any) -> None:
        """Stores an element, or a vector or tuple to a row of the same length."""
        array, indices, is_row = indexed(base, index)
        if not is_row:
            self.store(array, self._offsets.offset(array, indices), value)
            return
        if not isinstance(value, tuple):
            rule = f"{array.name} takes {array.ndim} indices; a row, with one less, takes a vector or a tuple"
            raise UnsupportedError(f"{rule}; got {describe(value)}")
        _demand_length(array, len(value))
        for k, part in enumerate(value):
            self.store(array, self._offsets.offset(array, (*indices, k)), part)

    def update(self, base: Any, index: Any, change: Callable[[Any], Any]) -> None:
        """Assigns an element or a row what `change` makes of it."""
        array, indices, is_row = indexed(base, index)
        if is_row:
            self.assign(array, indices, change(Row(array, indices)))
            return
        offset = self._offsets.offset(array, indices)
        self.store(array, offset, change(self.load(array, offset)))

    def loaded(self, row: Row, n: int) -> Vector:
        """Loads a row of `n` elements."""
        _demand_length(row.array, n)
        return Vector([self.load(row.array, self._offsets.offset(row.array, (*row.indices, k))) for k in range(n)])

    def load(self, array: ArrayValue, offset: Value) -> Any:
        """Loads the element at an offset."""
        if array.element in PARTS:
            kinds: Any = array.item or (Kind(array.memory.element),) * 2
            parts = zip(self._part_offsets(offset), kinds, strict=True)
            return Complex([Number(self._loaded(array, offset, at), kind) for at, kind in parts])
        value = self._loaded(array, offset, offset)
        if isinstance(array.element, SmallFloat) and array.element.bits == 8:  # which is for storage
            return Number(self._c.builder.cast(value, FLOAT32), Kind(FLOAT32))
        return Number(self._c.builder.cast(value, array.element), array.item or Kind(array.element))

    def store(self, array: ArrayValue, offset: Value, value: Any) -> None:
        """Stores an element at an offset, converted as by numpy's `astype`.

        Raises:
            RebuildError: the array is a list, and its type of items does not hold the value.
        """
        if array.item is not None and self._items is not None:
            self._items.demand(array, value)
        self.mark_written(array)
        if array.element in PARTS:
            for at, part in zip(self._part_offsets(offset), parts_of(value), strict=True):
                self._put(array, offset, at, self._c.cast(part, array.memory.element))
            return
        number = self._c.builder.cast(self._c.cast(value, array.element), array.memory.element)
        self._put(array, offset, offset, number)

    def _loaded(self, array: ArrayValue, offset: Value, at: Value) -> Value:
        """Loads what is in memory at `at` for the element at an offset."""
        with self._located(array):
            load = partial(self._c.builder.load, array.memory, at)
            value: Value = self._offsets.guarded(offset, load, array.memory.element)
        return value

    def _put(self, array: ArrayValue, offset: Value, at: Value, number: Value) -> None:
        """Stores a number to memory at `at`, a part of the element at an offset."""
        with self._located(array):
            self._offsets.guarded(offset, lambda: self._c.builder.store(array.memory, at, number))

    def _part_offsets(self, offset: Value) -> list[Value]:
        """Returns the offsets of the parts of a complex element: modulo 2**32, as int32 does not hold all."""
        b, kind = self._c.builder, SCALARS[f"uint{element_of(offset.type).bits}"]
        first = b.compute("shl", b.cast(offset, kind), b.const(1, kind))
        return [first, b.compute("add", first, b.const(1, kind))]

    def _located(self, array: ArrayValue) -> AbstractContextManager[None]:
        """Keeps the source location of an access that may not fit the local size."""
        is_shared = array.memory in self._c.function.shared_memory
        has_tiles = any(isinstance(value, Op) and value.attribute[0] == "group_id" for value in self._c.ids)
        return self._c.builder.at(self._c.error(WHERE)) if is_shared or has_tiles else nullcontext()

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
    if len(indices) > 1 and isinstance(indices[-1], slice) and indices[-1] == slice(None):
        indices = indices[:-1]
    return base, indices, isinstance(base, ArrayValue) and base.ndim == len(indices) + 1 > 1


def _demand_length(array: ArrayValue, n: int) -> None:
    if array.shape is not None and array.shape[-1] != n:
        raise UnsupportedError(f"rows of {describe(array)} have {array.shape[-1]} elements; got {n}")
