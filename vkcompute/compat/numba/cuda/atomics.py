"""Atomic operations: `cuda.atomic.add(array, index, value)` and others."""

from __future__ import annotations

from functools import partial
from typing import Any

from vkcompute.compat.numba.kernel_names import in_kernels, refuse_outside_kernel
from vkcompute.compat.numba.language import NumbaKernels
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import SCALARS
from vkcompute.jit.frontend import array_views
from vkcompute.jit.frontend.values import ArrayValue, Kind, Number
from vkcompute.jit.library import atomic as library
from vkcompute.jit.library.bit_operations import bitcast


def _changed(function: Any, c: NumbaKernels, array: Any, index: Any, *values: Any) -> Any:
    if not isinstance(array, ArrayValue):
        raise UnsupportedError(f"atomic operations take an array; got {c.describe(array)}")
    numbers = [c.converted(value, array.element) for value in values]
    return c.call_intrinsic(function, [array, index, *numbers])


def _subtracted(c: NumbaKernels, array: Any, index: Any, value: Any) -> Any:
    kind, b = array.element, c.builder
    negative = b.compute("sub", b.const(0, kind), c.cast(value, kind))
    return c.call_intrinsic(library.add, [array, index, Number(negative, Kind(kind))])


def _swapped(c: NumbaKernels, array: Any, old: Any, value: Any) -> Any:
    return _changed(library.compare_exchange, c, array, (0,) * array.ndim, old, value)


def _repeated(step: Any, c: NumbaKernels, array: Any, index: Any, value: Any) -> Any:
    kind = array.element
    return c.call(step, array, index, c.converted(value, kind), c.converted(0, kind), c.converted(1, kind))


def _by(change: Any, function: Any, c: NumbaKernels, array: Any, index: Any, value: Any) -> Any:
    """Changes an element by a function in the language of kernels where it is a float."""
    if not isinstance(array, ArrayValue) or array.element.kind != "f":
        return _changed(function, c, array, index, value)
    return c.call(change, array, index, c.converted(value, array.element))


def larger(array: Any, index: Any, value: Any) -> Any:
    """Replaces an element by a larger value; a NaN stays."""
    old = array[index]
    if value == value:
        old = library.max(array, index, value)
    return old


def smaller(array: Any, index: Any, value: Any) -> Any:
    """Replaces an element by a smaller value; a NaN stays."""
    old = array[index]
    if value == value:
        old = library.min(array, index, value)
    return old


def _unless_nan(change: Any, c: NumbaKernels, array: Any, index: Any, value: Any) -> Any:
    """Changes an element by a function that ignores NaN, where it is a float."""
    if not isinstance(array, ArrayValue) or array.element.kind != "f":
        return _changed(library.max if change is larger_or_number else library.min, c, array, index, value)
    kind = array.element
    if kind.bits < 32:
        raise UnsupportedError(f"nanmax and nanmin take float32 and float64; got {c.describe(array)}")
    words = array_views.retyped(c, array, SCALARS[f"int{kind.bits}"])
    return c.call(change, array, words, index, c.converted(value, kind), kind.numpy.type)


def larger_or_number(array: Any, words: Any, index: Any, value: Any, kind: Any) -> Any:
    """Replaces an element by a larger value, and NaN by any other; `words` are its bits."""
    before = words[index]
    old = bitcast(before, kind)
    if value == value:
        if old != old:
            library.compare_exchange(words, index, before, bitcast(value, words.dtype))
        seen = library.max(array, index, value)
        old = old if old != old else seen
    return old


def smaller_or_number(array: Any, words: Any, index: Any, value: Any, kind: Any) -> Any:
    """Replaces an element by a smaller value, and NaN by any other; `words` are its bits."""
    before = words[index]
    old = bitcast(before, kind)
    if value == value:
        if old != old:
            library.compare_exchange(words, index, before, bitcast(value, words.dtype))
        seen = library.min(array, index, value)
        old = old if old != old else seen
    return old


def increment(array: Any, index: Any, limit: Any, zero: Any, one: Any) -> Any:
    """Adds 1 to an element, or sets it to 0 if it is at least `limit`."""
    old = array[index]
    while True:
        new = old + one if old < limit else zero
        seen = library.compare_exchange(array, index, old, new)
        if seen == old:
            break
        old = seen
    return old


def decrement(array: Any, index: Any, limit: Any, zero: Any, one: Any) -> Any:
    """Subtracts 1 from an element, or sets it to `limit` if it is 0 or larger than `limit`."""
    old = array[index]
    while True:
        new = limit if old == zero or old > limit else old - one
        seen = library.compare_exchange(array, index, old, new)
        if seen == old:
            break
        old = seen
    return old


class atomic:  # noqa: N801
    """Atomic operations on elements of arrays; they return the old element."""

    @staticmethod
    @in_kernels(partial(_changed, library.add))
    def add(ary: Any, idx: Any, val: Any) -> Any:
        """`ary[idx] += val`."""
        refuse_outside_kernel("cuda.atomic.add")

    @staticmethod
    @in_kernels(_subtracted)
    def sub(ary: Any, idx: Any, val: Any) -> Any:
        """`ary[idx] -= val`."""
        refuse_outside_kernel("cuda.atomic.sub")

    @staticmethod
    @in_kernels(partial(_changed, library.and_))
    def and_(ary: Any, idx: Any, val: Any) -> Any:
        """`ary[idx] &= val`."""
        refuse_outside_kernel("cuda.atomic.and_")

    @staticmethod
    @in_kernels(partial(_changed, library.or_))
    def or_(ary: Any, idx: Any, val: Any) -> Any:
        """`ary[idx] |= val`."""
        refuse_outside_kernel("cuda.atomic.or_")

    @staticmethod
    @in_kernels(partial(_changed, library.xor))
    def xor(ary: Any, idx: Any, val: Any) -> Any:
        """`ary[idx] ^= val`."""
        refuse_outside_kernel("cuda.atomic.xor")

    @staticmethod
    @in_kernels(partial(_repeated, increment))
    def inc(ary: Any, idx: Any, val: Any) -> Any:
        """`ary[idx] = 0 if ary[idx] >= val else ary[idx] + 1`."""
        refuse_outside_kernel("cuda.atomic.inc")

    @staticmethod
    @in_kernels(partial(_repeated, decrement))
    def dec(ary: Any, idx: Any, val: Any) -> Any:
        """`ary[idx] = val if ary[idx] == 0 or ary[idx] > val else ary[idx] - 1`."""
        refuse_outside_kernel("cuda.atomic.dec")

    @staticmethod
    @in_kernels(partial(_changed, library.exchange))
    def exch(ary: Any, idx: Any, val: Any) -> Any:
        """`ary[idx] = val`."""
        refuse_outside_kernel("cuda.atomic.exch")

    @staticmethod
    @in_kernels(partial(_by, larger, library.max))
    def max(ary: Any, idx: Any, val: Any) -> Any:
        """`ary[idx] = max(ary[idx], val)`; a NaN changes nothing, and stays."""
        refuse_outside_kernel("cuda.atomic.max")

    @staticmethod
    @in_kernels(partial(_by, smaller, library.min))
    def min(ary: Any, idx: Any, val: Any) -> Any:
        """`ary[idx] = min(ary[idx], val)`; a NaN changes nothing, and stays."""
        refuse_outside_kernel("cuda.atomic.min")

    @staticmethod
    @in_kernels(partial(_unless_nan, larger_or_number))
    def nanmax(ary: Any, idx: Any, val: Any) -> Any:
        """`max` that ignores NaN."""
        refuse_outside_kernel("cuda.atomic.nanmax")

    @staticmethod
    @in_kernels(partial(_unless_nan, smaller_or_number))
    def nanmin(ary: Any, idx: Any, val: Any) -> Any:
        """`min` that ignores NaN."""
        refuse_outside_kernel("cuda.atomic.nanmin")

    @staticmethod
    @in_kernels(_swapped)
    def compare_and_swap(ary: Any, old: Any, val: Any) -> Any:
        """Sets the first element to `val` if it is `old`."""
        refuse_outside_kernel("cuda.atomic.compare_and_swap")

    @staticmethod
    @in_kernels(partial(_changed, library.compare_exchange))
    def cas(ary: Any, idx: Any, old: Any, val: Any) -> Any:
        """Sets an element to `val` if it is `old`."""
        refuse_outside_kernel("cuda.atomic.cas")
