"""Atomic operations on elements of device arrays and shared arrays: functions that have a value in kernels only."""

from __future__ import annotations

from functools import partial
from keyword import iskeyword
from typing import Any

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import ATOMICS
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import intrinsic
from vkcompute.jit.frontend.values import ArrayValue, Kind, Number, describe
from vkcompute.jit.library.ids import refuse_outside_kernel

__all__ = """
    add and_ compare_exchange exchange max min or_ xor
""".split()


def _atomic(name: str, c: Compiler, array: Any, index: Any, *values: Any) -> Number:
    """Builds an atomic operation on an element."""
    offset, public = c.arrays.offset(array, index), f"atomic.{name}{'_' * iskeyword(name)}"
    _check_atomic(name, public, array)
    for value in values:
        if array.element.kind != "f" and c.kind(value).type.kind == "f":
            raise UnsupportedError(f"{public} on {array.element} takes integers; got {describe(value)}; write int(x)")
    c.arrays.mark_written(array, assigned=False)
    numbers = [c.cast(value, array.element) for value in values]
    if name == "compare_exchange":
        change = partial(c.builder.compare_exchange, array.memory, offset, *numbers)
    else:
        change = partial(c.builder.atomic, name, array.memory, offset, *numbers)
    return Number(c.arrays.guarded(offset, change, array.element), Kind(array.element))


def _check_atomic(name: str, public: str, array: ArrayValue) -> None:
    """Raises UnsupportedError for an operation that the elements of the array do not support."""
    if array.memory.private:
        rule = f"{public} takes device arrays and shared arrays, which other invocations access, too"
        raise UnsupportedError(f"{rule}; got {describe(array)}; write h[i] += v")
    kinds = "iuf" if name in ATOMICS and "f" in ATOMICS[name].opcodes else "iu"
    if array.element.kind not in kinds:
        is_exchange = name == "compare_exchange" and array.element.kind == "f"
        remedy = "exchange the index of an element that holds the number" if is_exchange else "make it of int32"
        takes = "integers and floats" if "f" in kinds else "integers"
        raise UnsupportedError(f"{public} takes {takes}; got {describe(array)}; {remedy}")


@intrinsic(partial(_atomic, "add"))
def add(array: Any, index: int | tuple[int, ...], value: Any) -> Any:
    """Atomically `array[index] += value`; returns the old element.

    All atomic operations take a device array or shared array of integers, of 64 bits where the device supports them.
    This one, min, max and exchange also take floats. Those of 8 and 16 bits, and those of floats that the device does
    not support, are loops of compare-exchanges. The value is converted to the element's type; a float is not converted
    to an integer.

    Atomic operations do not order other accesses: that takes a barrier, a memory fence or another launch. The order in
    which floats are added is undefined.
    """
    refuse_outside_kernel("atomic.add(array, index, value)")


@intrinsic(partial(_atomic, "min"))
def min(array: Any, index: int | tuple[int, ...], value: Any) -> Any:
    """Atomically replaces the element by the smaller of element and value, NaN if one is; returns the old element."""
    refuse_outside_kernel("atomic.min(array, index, value)")


@intrinsic(partial(_atomic, "max"))
def max(array: Any, index: int | tuple[int, ...], value: Any) -> Any:
    """Atomically replaces the element by the larger of element and value, NaN if one is; returns the old element."""
    refuse_outside_kernel("atomic.max(array, index, value)")


@intrinsic(partial(_atomic, "and"))
def and_(array: Any, index: int | tuple[int, ...], value: int) -> int:
    """Atomically `array[index] &= value`; returns the old element."""
    refuse_outside_kernel("atomic.and_(array, index, value)")


@intrinsic(partial(_atomic, "or"))
def or_(array: Any, index: int | tuple[int, ...], value: int) -> int:
    """Atomically `array[index] |= value`; returns the old element."""
    refuse_outside_kernel("atomic.or_(array, index, value)")


@intrinsic(partial(_atomic, "xor"))
def xor(array: Any, index: int | tuple[int, ...], value: int) -> int:
    """Atomically `array[index] ^= value`; returns the old element."""
    refuse_outside_kernel("atomic.xor(array, index, value)")


@intrinsic(partial(_atomic, "exchange"))
def exchange(array: Any, index: int | tuple[int, ...], value: Any) -> Any:
    """Atomically `array[index] = value`; returns the old element."""
    refuse_outside_kernel("atomic.exchange(array, index, value)")


@intrinsic(partial(_atomic, "compare_exchange"))
def compare_exchange(array: Any, index: int | tuple[int, ...], expected: int, new: int) -> int:
    """Atomically sets the element to `new` if it is `expected`; returns the old element."""
    refuse_outside_kernel("atomic.compare_exchange(array, index, expected, new)")


def __dir__() -> list[str]:
    return __all__
