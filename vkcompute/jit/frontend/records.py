"""Records in kernels: elements with fields, which are loaded and stored where they are in memory.

A record is assembled from units: words, or bytes and halves of words where its layout has fields across words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vkcompute.dtypes import step_bytes
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, SCALARS, UINT32, Scalar, Value, view_of
from vkcompute.ir.types import vector
from vkcompute.jit.frontend import array_views
from vkcompute.jit.frontend.array_views import View
from vkcompute.jit.frontend.record_types import UNITS, RecordType, is_of_records
from vkcompute.jit.frontend.values import ArrayValue, Record, describe

# -- arrays of records ------------------------------------------------------------------------------------------------


def argument(c: Any, name: str, position: int, element: RecordType, ndim: int, *, strided: bool) -> Any:
    """Declares an array of records, or for an `ndim` of -1 a record, as the next argument; `opened` gives its value."""
    memory = c.function.buffer(name, UINT32)
    array = ArrayValue(name, position, element, max(ndim, 0), memory, strided=strided)
    return Record(array) if ndim < 0 else array


def opened(c: Any, value: Any) -> Any:
    """Returns the value of an argument, once all are declared: its lengths are parameters behind the numbers."""
    if isinstance(value, Record):
        return Record(in_memory(c, value.array))
    return in_memory(c, value) if is_of_records(value) else value


def in_memory(c: Any, array: ArrayValue) -> View:
    """Returns an array of records, given one whose memory has words."""
    unit = step_bytes(array.element.numpy)
    return array_views.whole(c, replace(array, memory=view_of(array.memory, UNITS[unit]), unit=unit))


def at(c: Any, array: ArrayValue, offset: Value) -> Record:
    """Returns the record at an offset in an array."""
    view = array_views.made(array, c.builder.cast(offset, INT32), (), ())
    return Record(replace(view, inside=c.offsets.condition(offset)))


# -- fields -----------------------------------------------------------------------------------------------------------


def field(c: Any, record: Record, name: Any) -> Any:
    """Returns the value of a field: a number, a record in the record, or an array in it."""
    view = array_views.field(c, array_views.whole(c, record.array), name)
    if view.ndim:
        return view
    return Record(view) if isinstance(view.element, RecordType) else c.arrays.load(view, _offset(c, view))


def assign_field(c: Any, record: Record, name: Any, value: Any) -> None:
    """Stores the value of a field."""
    view = array_views.field(c, array_views.whole(c, record.array), name)
    if view.ndim:
        c.assign(view, (slice(None),) * view.ndim, value)
    elif isinstance(view.element, RecordType):
        assign(c, Record(view), value)
    else:
        c.arrays.store(view, _offset(c, view), value)


def _offset(c: Any, view: View) -> Value:
    """Returns the offset of the only element of an array without axes."""
    offset: Value = c.offsets.checked(view.first, view.inside)
    return offset


def assign(c: Any, target: Record, value: Any) -> None:
    """Copies a record to another with the same fields.

    Raises:
        UnsupportedError: the value is no record, or its fields have other names.
    """
    wanted: Any = target.array.element
    given: Any = value.array.element if isinstance(value, Record) else None
    if given is None or given.dtype.names != wanted.dtype.names:
        has = ", ".join(wanted.dtype.names)
        raise UnsupportedError(f"an element of {target.array.name} takes a record with {has}; got {describe(value)}")
    if given.dtype != wanted.dtype:
        for name in wanted.dtype.names:
            assign_field(c, target, name, field(c, value, name))
        return
    _copy(c, target, value)


def _copy(c: Any, target: Record, source: Record) -> None:
    """Copies the bytes of a record, by words where both are at multiples of words."""
    views = [array_views.whole(c, record.array) for record in (target, source)]
    unit = min(view.unit for view in views)
    c.call(copy_units, *[array_views.units(c, view, unit) for view in views])


def copy_units(target: Any, source: Any) -> None:
    """Copies the units of a record, in the language of kernels."""
    for k in range(target.shape[0]):
        target[k] = source[k]


# -- numbers made of several units ------------------------------------------------------------------------------------


def loaded(b: Any, view: ArrayValue, offset: Value, kind: Scalar) -> Value:
    """Builds a number whose first unit is at an offset."""
    n = kind.bits // 8 // view.unit
    parts = [b.load(view.memory, b.compute("add", offset, b.const(k, offset.type))) for k in range(n)]
    words = joined(b, parts, 8 * view.unit)
    if kind.bits == 64:
        return b.bitcast(b.vector(*words), kind)  # type: ignore[no-any-return]
    if kind.bits == 32:
        return b.bitcast(words[0], kind)  # type: ignore[no-any-return]
    return b.bitcast(b.cast(words[0], SCALARS[f"uint{kind.bits}"]), kind)  # type: ignore[no-any-return]


def joined(b: Any, parts: Sequence[Value], bits: int) -> list[Value]:
    """Joins unsigned integers of so many bits to words."""
    n, words = 32 // bits, []
    for first in range(0, len(parts), n):
        word = b.cast(parts[first], UINT32)
        for k, part in enumerate(parts[first + 1 : first + n], 1):
            word = b.compute("or", word, b.compute("shl", b.cast(part, UINT32), b.const(k * bits, UINT32)))
        words.append(word)
    return words


def store(b: Any, view: ArrayValue, offset: Value, value: Value) -> None:
    """Stores a number to the units from an offset on."""
    kind, bits = value.type, 8 * view.unit
    if kind.bits == 64:
        halves = b.bitcast(value, vector(UINT32, 2))
        words = [b.extract(halves, 0), b.extract(halves, 1)]
    elif kind.bits == 32:
        words = [b.bitcast(value, UINT32)]
    else:
        words = [b.cast(b.bitcast(value, SCALARS[f"uint{kind.bits}"]), UINT32)]
    for k in range(kind.bits // bits):
        word, shift = words[k * bits // 32], k * bits % 32
        part = b.cast(b.compute("shr", word, b.const(shift, UINT32)), UNITS[view.unit])
        b.store(view.memory, b.compute("add", offset, b.const(k, offset.type)), part)
