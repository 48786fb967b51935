"""Products of the rows and columns that an invocation holds in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

from vkcompute import ir
from vkcompute.ir import FLOAT32, UINT32, Value
from vkcompute.ir.function import Op
from vkcompute.ir.types import element_of
from vkcompute.tile.exchange import Exchange
from vkcompute.tile.layout import Layout, log2
from vkcompute.tile.registers import ADJACENT
from vkcompute.tile.types import BFLOAT16, shape_of

_RUN = 8  # elements of the inner axis that a product loads together
_STAGED_RUN = ADJACENT  # with 8, AMD's compiler for navi21 needs 216 registers in place of 152
_TILE = 4  # rows and columns of the sums of a product that a CPU holds in registers


class Operands(NamedTuple):
    """The operands of a product.

    Attributes:
        layouts, registers: of the two blocks.
        n_shared: log2 of the lanes that share the first one.
    """

    layouts: Sequence[Layout]
    registers: Sequence[Sequence[Value]]
    n_shared: int


class RegisterProducts:
    """Builds the products of a function of blocks."""

    def __init__(self, builder: ir.Builder, exchange: Exchange) -> None:
        self._b, self._exchange = builder, exchange

    def multiplied(self, op: Op, given: Operands, sums: list[Value], own: Layout, *, staged: bool) -> list[Value]:
        """Adds the products of rows and columns to the sums of a `dot`, in their layout, and returns these.

        The order is by runs of the inner axis, and in each by tiles of sums that fit in registers. Elements of a run
        are loaded first: compilers for CPUs keep no sums in registers across the call by which they load texels.

        Args:
            staged: True if the operands come from workgroup memory.
        """
        n_inner, n_columns = map(log2, shape_of(op.args[1].type)[-2:])
        n_rows, run = log2(shape_of(op.type)[-2]), _STAGED_RUN if staged else _RUN
        indices = [divmod(own.element(at), 1 << n_columns) for at in range(own.n_registers)]
        left, right = (
            self._factors(numbers, layout, partial(self._factor, op), shared)
            for numbers, layout, shared in zip(given.registers, given.layouts, (given.n_shared, 0), strict=True)
        )
        all_rows = dict.fromkeys(row for row, _ in indices)
        all_columns = dict.fromkeys((row >> n_rows, column) for row, column in indices)
        for first in range(0, 1 << n_inner, run):
            inner = range(first, min(first + run, 1 << n_inner))
            rows = {(k, row): left(row << n_inner | k) for k in inner for row in all_rows}
            columns = {
                (k, matrix, column): right((matrix << n_inner | k) << n_columns | column)
                for k in inner
                for matrix, column in all_columns
            }
            for k, at in [(k, at) for tile in _tiles(indices) for k in inner for at in tile]:
                row, column = indices[at]
                sums[at] = self._multiplied(rows[k, row](), columns[k, row >> n_rows, column](), sums[at])
        return sums

    def _factors(
        self, registers: Sequence[Value], layout: Layout, convert: Callable[[Value], Value], n_shared: int
    ) -> Callable[[int], Callable[[], Value]]:
        """Returns a function that loads the register of an element; what that returns gives the element, converted.

        Args:
            n_shared: log2 of the lanes that share the block; an element of another lane is shuffled at its first use.
        """
        numbers = {layout.element(at): at for at in range(layout.n_registers)}
        lanes = [(1 << at, bit) for at, bit in enumerate(layout.threads[:n_shared]) if bit is not None]

        def load(element: int) -> Callable[[], Value]:
            lane = sum(at for at, bit in lanes if element >> bit & 1)
            mine = convert(registers[numbers[element & ~sum(1 << bit for _, bit in lanes)]])
            return cache(lambda: self._exchange.from_lane(mine, lane) if lanes else mine)

        return load

    def _factor(self, op: Op, value: Value) -> Value:
        """Returns an element of an operand of a product in the type of the sums."""
        b = self._b
        if op.attribute == BFLOAT16.name:
            value = b.bitcast(b.compute("shl", b.cast(value, UINT32), b.const(16, UINT32)), FLOAT32)
        return b.cast(value, element_of(op.type))

    def _multiplied(self, one: Value, other: Value, total: Value) -> Value:
        b = self._b
        if element_of(total.type).kind == "f":
            return b.compute("fma", one, other, total)
        return b.compute("add", b.compute("mul", one, other), total)


def _tiles(indices: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Returns the registers of a product's sums at these (row, column), by tiles of four rows and four columns."""
    rows, columns = (
        {number: at // _TILE for at, number in enumerate(sorted({*axis}))} for axis in zip(*indices, strict=True)
    )
    tiles: dict[tuple[int, int], list[int]] = {}
    for at, (row, column) in enumerate(indices):
        tiles.setdefault((rows[row], columns[column]), []).append(at)
    return [*tiles.values()]
