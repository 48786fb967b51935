"""The elements that an invocation of a workgroup holds, and what one of several that hold the same does."""

from __future__ import annotations

from collections.abc import Callable

from vkcompute.ir import INT32, Builder, Value
from vkcompute.tile.layout import Layout
from vkcompute.tile.registers import ADJACENT, Group


def first_element(b: Builder, thread: Value, layout: Layout) -> Value:
    """Returns the bits of an element's number that the invocation's number gives, int32."""
    number: Value = b.const(0, INT32)
    for at, bit, n in layout.runs():
        part = thread if at == 0 else b.compute("shr", thread, b.const(at, INT32))
        if at + n < len(layout.threads):
            part = b.compute("and", part, b.const((1 << n) - 1, INT32))
        part = part if bit == 0 else b.compute("shl", part, b.const(bit, INT32))
        number = b.compute("add", number, part)
    return number


def owner(b: Builder, thread: Value, layout: Layout | None) -> Value | None:
    """Returns a condition that holds for one of the invocations that hold the same elements; None if each has its own.

    A scalar, with no layout, is held by all.
    """
    n_threads = b.function.local_size[0]
    mask = n_threads - 1 if layout is None else layout.duplicates
    if not mask:
        return None
    return b.compute("eq", b.compute("and", thread, b.const(mask, INT32)), b.const(0, INT32))


def with_owner(b: Builder, thread: Value, layout: Layout | None, build: Callable[[], None]) -> None:
    """Builds what one of the invocations that hold the same elements does."""
    where(b, owner(b, thread, layout), build)


def where(b: Builder, condition: Value | None, build: Callable[[], object]) -> None:
    """Builds what is done where a condition holds; None holds everywhere."""
    if condition is None:
        build()
        return
    with b.if_(condition).then:
        build()


def adjacent(layout: Layout) -> list[Group]:
    """Returns the registers that hold adjacent elements, of a layout whose lowest registers are the lowest elements."""
    return [range(at, at + ADJACENT) for at in range(0, layout.n_registers, ADJACENT)]
