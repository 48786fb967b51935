"""Loads, stores and atomic operations of the block language."""

from __future__ import annotations

from typing import Any

from vkcompute.blocks.compiler.accessed_elements import (
    atomic_at,
    checked_axes,
    elements_at,
    loaded,
    padding_of,
    stored_at,
    window,
)
from vkcompute.blocks.compiler.arithmetic import describe
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.complex_blocks import takes_complex
from vkcompute.blocks.compiler.functions import block_function, method
from vkcompute.blocks.compiler.refusals import check_choices
from vkcompute.blocks.compiler.types import OF_SCALAR, BlockPointer, Pointer, TableValue
from vkcompute.blocks.language.addresses import address_at
from vkcompute.blocks.language.narrow_atomics import UPDATES, exchanged, is_narrow, updated
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.jit.frontend.values import Number


def _only_hints(pointer: Any, **given: Any) -> None:
    for name, value in given.items():
        if value not in (None, "", (), False):
            raise UnsupportedError(
                f"{name} takes a pointer made by tl.make_block_ptr; got {describe(pointer)}; use a mask"
            )


def _unmasked(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise UnsupportedError(f"a block pointer takes boundary_check in place of {name}")


@takes_complex
@block_function
def load(
    c: BlockCompiler,
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: Any = "",
    cache_modifier: Any = "",
    eviction_policy: Any = "",
    volatile: Any = False,
) -> Any:
    """The elements at a pointer, where the mask is True; `other`, or 0, elsewhere. Hints have no effect."""
    check_choices(cache_modifier=cache_modifier or "", eviction_policy=eviction_policy or "")
    if isinstance(pointer, BlockPointer):
        _unmasked(mask=mask, other=other)
        padding = padding_of(pointer, padding_option)
        return loaded(c, window(c, pointer, pointer.offsets, checked_axes(pointer, boundary_check)), padding)
    _only_hints(pointer, boundary_check=boundary_check, padding_option=padding_option)
    if mask is None and other is not None and c.is_users():
        raise UnsupportedError(f"other cannot be provided without mask; got {describe(other)}; give both, or none")
    if isinstance(pointer, Pointer) and isinstance(pointer.array, TableValue):
        return address_at(c, pointer, pointer.array, mask, other)
    shape = c.common_shape(pointer, mask)
    if isinstance(pointer, Pointer) and pointer.offset is not None and shape != c.shape(pointer):
        offset = pointer.offset.value
        pointer = pointer._replace(offset=c.number(c.spread(offset, shape)))
    return loaded(c, elements_at(c, pointer, mask, "load"), 0 if other is None else other)


@takes_complex
@method
@block_function
def store(
    c: BlockCompiler,
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: Any = "",
    eviction_policy: Any = "",
) -> None:
    """Writes elements at a pointer, where the mask is True. Hints have no effect."""
    check_choices(cache_modifier=cache_modifier or "", eviction_policy=eviction_policy or "")
    if isinstance(pointer, BlockPointer):
        _unmasked(mask=mask)
        stored_at(c, window(c, pointer, pointer.offsets, checked_axes(pointer, boundary_check)), value)
        return
    _only_hints(pointer, boundary_check=boundary_check)
    stored_at(c, elements_at(c, pointer, mask, "store"), value)


def _refuse_narrow(c: BlockCompiler, name: str, pointer: Any, n_bits: int) -> None:
    """Raises UnsupportedError for an atomic operation of users on integers below a number of bits."""
    kind = pointer.array.element if isinstance(pointer, Pointer) else None
    if kind is not None and kind.kind in "iu" and kind.bits < n_bits and c.is_users():
        raise UnsupportedError(
            f"tl.atomic_{name} does not support {OF_SCALAR[kind]}, but integers of {n_bits} bits and more; got "
            f"{describe(pointer)}; pass an array of int32"
        )


def _check_same_type(c: BlockCompiler, pointer: Pointer, *values: Any) -> None:
    """Raises UnsupportedError for numbers of another type than the elements, which a comparison does not convert."""
    kind = pointer.array.element
    wrong = [value for value in values if isinstance(value, Number) and c.element_type(value) is not kind]
    if wrong and c.is_users():
        raise UnsupportedError(
            f"tl.atomic_cas takes numbers of the dtype of the elements, {OF_SCALAR[kind]}; got {describe(wrong[0])}; "
            f"convert it, as x.to(tl.{kind.name})"
        )


def _atomic_function(name: str, code: str, what: str) -> Any:
    def emit(c: BlockCompiler, pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
        check_choices(sem=sem, scope=scope)
        _refuse_narrow(c, name, pointer, 32)
        if is_narrow(pointer) and code in UPDATES:
            return updated(c, code, pointer, val, mask)
        return atomic_at(c, code, elements_at(c, pointer, mask, "atomic operation"), (val,))

    emit.__name__, emit.__doc__ = f"atomic_{name}", f"{what} at a pointer, atomically; returns the elements before."
    return method(block_function(emit))


atomic_add = _atomic_function("add", "add", "Adds to the elements")
atomic_max = _atomic_function("max", "max", "Takes the maximum of the elements")
atomic_min = _atomic_function("min", "min", "Takes the minimum of the elements")
atomic_and = _atomic_function("and", "and", "Takes the bitwise and of the elements")
atomic_or = _atomic_function("or", "or", "Takes the bitwise or of the elements")
atomic_xor = _atomic_function("xor", "xor", "Takes the bitwise exclusive or of the elements")
atomic_xchg = _atomic_function("xchg", "exchange", "Replaces the elements")


@method
@block_function
def atomic_cas(c: BlockCompiler, pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> Any:
    """Replaces the elements at a pointer that have the bits of `cmp`, atomically; returns the elements before."""
    check_choices(sem=sem, scope=scope)
    _refuse_narrow(c, "cas", pointer, 16)
    if isinstance(pointer, Pointer):
        _check_same_type(c, pointer, cmp, val)
    if is_narrow(pointer):
        return exchanged(c, "compare_exchange", pointer, (cmp, val))
    return atomic_at(c, "compare_exchange", elements_at(c, pointer, None, "atomic operation"), (cmp, val))


@method
@block_function
def atomic_load(c: BlockCompiler, pointer: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """The elements at a pointer, read atomically."""
    check_choices(sem_of_load=sem, scope=scope)
    if is_narrow(pointer):
        return exchanged(c, "or", pointer, (0,), mask)
    elements = elements_at(c, pointer, mask, "atomic operation")
    is_float = elements.array.element.kind == "f"
    return atomic_at(c, "add" if is_float else "or", elements, (-0.0 if is_float else 0,))


@method
@block_function
def atomic_store(
    c: BlockCompiler, pointer: Any, value: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> None:
    """Writes elements at a pointer, atomically."""
    check_choices(sem_of_store=sem, scope=scope)
    if is_narrow(pointer):
        exchanged(c, "exchange", pointer, (value,), mask)
        return
    atomic_at(c, "exchange", elements_at(c, pointer, mask, "atomic operation"), (value,))


_MOST_POLLS = 65000  # lavapipe runs at most 65,535 iterations
_POLL_NS = 20  # of a load from memory that other programs write, at least


@block_function
def atomic_poll(
    c: BlockCompiler, pointer: Any, expected: Any, sem: Any = None, scope: Any = None, timeout_ns: Any = None
) -> Any:
    """Waits until the element at a pointer has a value; True if it has, False after the time, or 65,000 loads."""
    check_choices(sem=sem, scope=scope)
    if not isinstance(pointer, Pointer) or c.shape(pointer):
        raise UnsupportedError(f"tl.atomic_poll takes a pointer to one element; got {describe(pointer)}")
    if timeout_ns is not None and type(timeout_ns) is not int:
        raise UnsupportedError(f"timeout_ns is an int known at compile time; got {describe(timeout_ns)}")
    most = _MOST_POLLS if timeout_ns is None else max(1, min(timeout_ns // _POLL_NS, _MOST_POLLS))
    return c.called(_polled, [pointer, expected, most])


def _polled(pointer: Any, expected: Any, most: Any) -> Any:
    """Loads an element until it has a value, a number of times at most."""
    is_seen = atomic_load(pointer) == expected
    n = 1
    while n < most and not is_seen:
        is_seen = atomic_load(pointer) == expected
        n += 1
    return is_seen
