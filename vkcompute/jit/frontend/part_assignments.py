"""Assignments to slices and rows of arrays, with NumPy's meaning: `x[2:5] = 0`, `x[:, j] = y[:, k]`.

Each invocation that reaches one stores all elements. A source is broadcast; lengths that differ are errors, at run time
where they are known then. So are parts of one array that overlap such that no order of copies is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, INT32, Constant, Value
from vkcompute.jit.frontend import array_views
from vkcompute.jit.frontend.array_views import View
from vkcompute.jit.frontend.intrinsics import register
from vkcompute.jit.frontend.values import ArrayValue, Complex, Kind, Number, Row, describe


def assign_part(c: Any, array: ArrayValue, indices: Sequence[Any], value: Any) -> None:
    """Stores a value to the part that indices denote, some of which are slices, or are left out."""
    assign(c, c.part(array, indices), value)


def assign(c: Any, target: View, value: Any) -> None:
    """Stores a number or record to all elements of a part, or a tuple or an array that broadcasts to it.

    Raises:
        UnsupportedError: the lengths are known and differ, or the value has more axes.
    """
    array = value.array if isinstance(value, Row) else value
    if isinstance(array, ArrayValue) and array.item is not None:
        value = c.items(value)
    elif isinstance(value, Row):
        value = c.part(array, value.indices)
    if isinstance(value, ArrayValue):
        _demand_shape(c, target, value)
        _copy(c, target, value)
    elif isinstance(value, tuple) and not isinstance(value, Complex) and target.ndim == 1 and len(value) != 1:
        _demand_length(c, target.extents[0], len(value))
        for k, part in enumerate(value):
            c.assign(target, (k,), part)
    else:
        is_one = isinstance(value, tuple) and not isinstance(value, Complex) and target.ndim == 1
        c.call(fill if target.ndim == 1 else fill_rows, target, value[0] if is_one else value)


def _demand_shape(c: Any, target: View, source: ArrayValue) -> None:
    """Refuses a source that does not broadcast, at run time where the lengths are not known before."""
    if source.ndim > target.ndim:
        rule = f"a part of {target.name} with {target.ndim} axes takes an array with as many or fewer"
        raise UnsupportedError(f"{rule}; got {describe(source)}; index its other axes")
    for axis in range(source.ndim):
        given = c.arrays.extent(source, axis)
        if given is not target.extents[axis - source.ndim]:
            _demand_length(c, target.extents[axis - source.ndim], given)


def _demand_length(c: Any, wanted: Any, given: Any) -> None:
    """Refuses a number of elements that is neither that of an axis nor 1."""
    if not (isinstance(wanted, int) and isinstance(given, int)):
        c.call(demand_length, wanted, given)
    elif given not in (wanted, 1):
        raise UnsupportedError(f"an axis of {wanted} elements takes as many, or 1; got {given}")


def _copy(c: Any, target: View, source: ArrayValue) -> None:
    """Copies an array; one in the same memory in an order, or under a condition, that makes the result right."""
    if not source.ndim:
        c.assign(target, (slice(None),) * target.ndim, c.item(source, ()))
        return
    if (target.memory.of or target.memory) is not (source.memory.of or source.memory):
        _copied(c, target, source)
        return
    given = array_views.whole(c, source)
    if given.unit != target.unit or given.element is not target.element:
        rule = f"parts of {target.name} as different types are not copied to each other"
        raise UnsupportedError(f"{rule}; copy one to another array, or write a for loop")
    c.call(copy_within, target, given, *map(_condition, _relations(c, target, given)))


def _copied(c: Any, target: View, source: ArrayValue) -> None:
    if source.ndim < target.ndim:
        c.call(copy_to_rows, target, source)
    else:
        c.call(copy if target.ndim == 1 else copy_rows, target, source)


def _moved(c: Any, target: View, source: View, up: Any) -> None:
    is_positive = c.builder.compute("lt", c.builder.const(0, INT32), target.steps[0])
    back = c.compare("==", _condition(is_positive), up)
    c.call(move if target.ndim == 1 else move_rows, target, source, back, up)


def _row(c: Any, x: ArrayValue, i: Any) -> ArrayValue:
    row: ArrayValue = c.part(x, (i,))
    return row


def _condition(value: Value) -> Any:
    """Returns a condition as a number, or as a Python bool if it is known."""
    return bool(value.value) if isinstance(value, Constant) else Number(value, Kind(BOOL))


def _relations(c: Any, target: View, source: View) -> tuple[Value, Value, Value]:
    """Returns how two parts of one array are related.

    Returns:
        Three conditions. The first: no element is in both. The second: the elements of the target are those of the
        source, moved by one distance, and have row-major order in memory. The third: this distance is positive.
    """
    b = c.builder
    (low, high), (first, last) = [_span(c, view) for view in (target, source)]
    apart = b.compute("or", b.compute("lt", high, first), b.compute("lt", last, low))
    shifted, inner, one = b.const(target.ndim == source.ndim, BOOL), b.const(0, INT32), b.const(1, INT32)
    for axis in reversed(range(target.ndim)):
        step, n = target.steps[axis], c.cast(target.extents[axis], INT32)
        apart = b.compute("or", apart, b.compute("lt", n, one))
        if target.ndim == source.ndim:
            same = b.compute("eq", step, source.steps[axis])
            size = b.compute("abs", step)
            short = b.compute("le", n, one)
            ordered = b.compute("or", short, b.compute("and", same, b.compute("lt", inner, size)))
            equal = b.compute("eq", n, c.cast(source.extents[axis], INT32))
            shifted = b.compute("and", shifted, b.compute("and", equal, ordered))
            inner = b.compute("add", inner, b.compute("mul", b.compute("sub", n, one), size))
    return apart, shifted, b.compute("lt", b.cast(source.first, INT32), b.cast(target.first, INT32))


def _span(c: Any, view: View) -> tuple[Value, Value]:
    """Returns the offsets of the first and the last unit in memory of a view that is not empty."""
    b = c.builder
    low = b.cast(view.first, INT32)
    zero, one = b.const(0, INT32), b.const(1, INT32)
    high = b.compute("add", low, b.const(array_views.units_of(view) - 1, INT32))
    for length, step in zip(view.extents, view.steps, strict=True):
        reach = b.compute("mul", b.compute("sub", c.cast(length, INT32), one), step)
        low, high = (
            b.compute("add", low, b.compute("min", reach, zero)),
            b.compute("add", high, b.compute("max", reach, zero)),
        )
    return low, high


# -- in the kernel language -------------------------------------------------------------------------------------------


def demand_length(wanted: Any, given: Any) -> None:
    """Raises ValueError for another number of elements than an axis has, or 1."""
    if given != wanted and given != 1:
        raise ValueError(f"an axis of {wanted} elements takes as many, or 1; got {given}")


def fill(target: Any, value: Any) -> None:
    """Sets all elements of an array with one axis."""
    for i in range(target.shape[0]):
        target[i] = value


def fill_rows(target: Any, value: Any) -> None:
    """Sets all elements of an array with several axes."""
    for i in range(target.shape[0]):
        filled(row(target, i), value)


def filled(target: Any, value: Any) -> None:
    """Sets all elements of an array."""


def copy(target: Any, source: Any) -> None:
    """Copies an array with one axis; one element is repeated."""
    for i in range(target.shape[0]):
        target[i] = source[i if source.shape[0] != 1 else 0]


def copy_rows(target: Any, source: Any) -> None:
    """Copies an array with as many axes; one row is repeated."""
    for i in range(target.shape[0]):
        copied(row(target, i), row(source, i if source.shape[0] != 1 else 0))


def copy_to_rows(target: Any, source: Any) -> None:
    """Copies an array with fewer axes to each row."""
    for i in range(target.shape[0]):
        copied(row(target, i), source)


def copied(target: Any, source: Any) -> None:
    """Copies an array, from the first element to the last one."""


def copy_within(target: Any, source: Any, apart: Any, shifted: Any, up: Any) -> None:
    """Copies a part of an array to another one of the same array."""
    if shifted:
        moved(target, source, up)
    elif apart:
        copied(target, source)
    elif source.ndim == 1 and source.shape[0] == 1:
        filled(target, source[0])
    else:
        raise ValueError("the two parts overlap in an order in which no copy is right; copy to another array first")


def move(target: Any, source: Any, back: Any, up: Any) -> None:
    """Copies an array with one axis, from its last element where it goes back."""
    n = target.shape[0]
    for i in range(n):
        at = n - 1 - i if back else i
        target[at] = source[at]


def move_rows(target: Any, source: Any, back: Any, up: Any) -> None:
    """Copies an array with several axes, likewise."""
    n = target.shape[0]
    for i in range(n):
        at = n - 1 - i if back else i
        moved(row(target, at), row(source, at), up)


def moved(target: Any, source: Any, up: Any) -> None:
    """Copies an array whose elements are moved up or down in memory."""


def row(x: Any, i: Any) -> Any:
    """Returns the part of an array at an index along its first axis."""


register([filled], assign, 2)
register([copied], _copied, 2)
register([moved], _moved, 3)
register([row], _row, 2)
