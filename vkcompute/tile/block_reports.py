"""Reports to the host of the elements of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from vkcompute.compiled.report import Reports, Site
from vkcompute.ir import INT32, UINT32, Builder, Function, Value
from vkcompute.ir.function import Op
from vkcompute.ir.types import element_of
from vkcompute.tile.invocations import first_element, owner, where
from vkcompute.tile.layout import Layout, axis_bits
from vkcompute.tile.types import shape_of


class BlockReports:
    """The reports of one program.

    Args:
        thread: the number of the invocation in its workgroup.

    Attributes:
        records: those of the kernel.
    """

    def __init__(self, function: Function, builder: Builder, thread: Value) -> None:
        self.records = Reports(function, builder)
        self._b, self._thread = builder, thread

    def report(self, op: Op, own: Layout | None, arguments: Sequence[tuple[Value, ...]]) -> None:
        """Reports each element once, in the order of programs and elements; of failures, one per invocation.

        A branch per element would take drivers minutes to compile.

        Args:
            own: the layout of the elements; None for scalars.
            arguments: the operands of each element.
        """
        b = self._b
        shape = shape_of(op.args[0].type) if op.args else ()
        program = [b.builtin("group_id", axis) for axis in range(3)]
        plane = b.compute("add", b.compute("mul", program[2], b.builtin("n_groups", 1)), program[1])
        alone = owner(b, self._thread, own)
        rows = [(self._number(own, at), *row) for at, row in enumerate(arguments or [()])]
        for number, *row in [self._first_failure(rows)] if op.attribute.fails and op.attribute.masked else rows:
            values = row[:-1] if op.attribute.masked else row
            conditions = [flag for flag in (alone, row[-1] if op.attribute.masked else None) if flag is not None]
            numbers = [*program, *self._index(number, shape), *values]
            kinds = tuple([element_of(value.type).name for value in numbers])
            site = Site(op.attribute.text, kinds, op.attribute.fails)
            location = None if op.attribute.fails else [number, program[0], plane]
            condition = reduce(lambda x, y: b.compute("and", x, y), conditions) if conditions else None
            where(b, condition, partial(self.records.add, site, numbers, location))

    def _number(self, own: Layout | None, register: int) -> Value:
        """Returns the number of the element in a register, uint32; 0 for a scalar."""
        b = self._b
        if own is None:
            return b.const(0, UINT32)
        first = first_element(b, self._thread, own)
        return b.cast(b.compute("add", first, b.const(own.element(register), INT32)), UINT32)

    def _first_failure(self, rows: Sequence[tuple[Value, ...]]) -> tuple[Value, ...]:
        """Returns the first of rows whose last value is True, which is True if there is one."""
        b, first = self._b, rows[-1]
        for *row, fails in reversed(rows[:-1]):
            chosen = [b.select(fails, one, other) for one, other in zip(row, first[:-1], strict=True)]
            first = (*chosen, b.compute("or", fails, first[-1]))
        return first

    def _index(self, number: Value, shape: Sequence[int]) -> list[Value]:
        """Returns the index along each axis of an element."""
        index = []
        for axis in range(len(shape)):
            bits = axis_bits(shape, axis)
            above = self._b.compute("shr", number, self._b.const(bits.start, UINT32))
            index.append(self._b.compute("and", above, self._b.const((1 << len(bits)) - 1, UINT32)))
        return index
