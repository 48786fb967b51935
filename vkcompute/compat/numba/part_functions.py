"""Transposed and reshaped arrays in Numba's kernels, and functions of the elements of views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vkcompute.compat.numba import types
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, Constant
from vkcompute.jit.frontend import array_views
from vkcompute.jit.frontend.array_views import View, both, made, row_major, size, whole
from vkcompute.jit.frontend.record_types import element_type
from vkcompute.jit.frontend.values import PARTS, ArrayValue, Kind, Number
from vkcompute.jit.library.private import local


def transposed(c: Any, array: ArrayValue) -> View:
    """Returns the view with the axes in reverse order."""
    base = whole(c, array)
    return made(base, base.first, base.extents[::-1], base.steps[::-1])


def copied(c: Any, array: ArrayValue) -> ArrayValue:
    """Returns a private array with the elements of another, whose shape is known at compile time.

    Raises:
        UnsupportedError: the shape depends on the launch.
    """
    lengths = tuple([c.arrays.extent(array, axis) for axis in range(array.ndim)])
    if not all(isinstance(length, int) for length in lengths):
        raise UnsupportedError(f"copy() takes an array of a shape known at compile time; {array.name} has another one")
    target = c.call_intrinsic(local, [lengths, array.element.numpy])
    c.assign(target, (slice(None),) * array.ndim, array)
    made_array: ArrayValue = target
    return made_array


def component(c: Any, array: ArrayValue, at: int) -> View:
    """Returns the view of the real or the imaginary parts of an array."""
    if array.element not in PARTS:
        if at:
            raise UnsupportedError(f"{array.name} is not complex; its imaginary part is 0")
        return whole(c, array)
    base, b = whole(c, array), c.builder
    part = PARTS[base.element]
    if base.unit:
        first = b.compute("add", base.first, b.const(at * part.bits // 8 // base.unit, INT32))
        return replace(made(base, first, base.extents, base.steps), element=part)
    two = b.const(2, INT32)
    first = b.compute("add", b.compute("mul", base.first, two), b.const(at, INT32))
    steps = [b.compute("mul", step, two) for step in base.steps]
    return replace(made(base, first, base.extents, steps), element=part)


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
    rest = c.binary("//", size(c.builder, base), divisor)
    lengths = [_given(c, length, rest) for length in shape]
    if c.offsets.check_bounds:
        base = replace(base, inside=_fitting(c, base, lengths))
    step = base.steps[-1] if base.steps else c.builder.const(1, INT32)
    steps = [c.builder.compute("mul", packed, step) for packed in row_major(c, lengths)]
    return made(base, base.first, lengths, steps, uniform=True)


def _fitting(c: Any, view: View, lengths: Sequence[Any]) -> Any:
    """Returns the condition under which a shape has the elements of a view; reports another number of elements."""
    b = c.builder
    n = size(b, made(view, view.first, lengths, view.steps[:1] * len(lengths)))
    wanted, given = [c.cast(number, INT32) for number in (size(b, view), n)]
    fits = b.compute("eq", wanted, given)
    if isinstance(fits, Constant):
        if not fits.value:
            raise UnsupportedError(f"{view.name} has {wanted.value} elements, and this shape has {given.value}")
        return view.inside
    branch = b.if_(b.compute("not", fits))
    with branch.then:
        shape = ", ".join(f"{{{k}}}" for k in range(2, 2 + len(lengths)))
        text = f"{view.name} has {{0}} elements, and the shape ({shape}) has {{1}}"
        values = [Number(value, Kind(INT32)) for value in (wanted, given)]
        c.report(text, [*values, *[c.converted(length, INT32) for length in lengths]], fails=True)
    return both(b, view.inside, fits)


def _given(c: Any, length: Any, rest: Any) -> Any:
    """Returns a length of a new shape; the rest where it is negative."""
    if isinstance(length, int):
        length = rest if length < 0 else length
        return length if isinstance(length, int) else c.converted(length, INT32)
    return c.converted(c.where(c.compare("<", length, 0), rest, length), INT32)


# -- in the kernel language -------------------------------------------------------------------------------------------


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


def retyped(c: Any, array: ArrayValue, dtype: Any) -> ArrayValue:
    """Returns a view with elements of another type, NumPy's, Numba's or Python's."""
    given = dtype.dtype if isinstance(dtype, (types.Number, types.Record)) else np.dtype(dtype)
    return array_views.retyped(c, array, element_type(given))
