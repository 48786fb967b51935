"""Blocks in workgroup memory of which products read one part after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vkcompute.ir import INT32, Builder, Value
from vkcompute.ir.function import Op
from vkcompute.tile.exchange import Exchange
from vkcompute.tile.layout import Layout, axis_bits, log2
from vkcompute.tile.pieces import piece_of
from vkcompute.tile.types import shape_of


class Staging:
    """Builds the writes of staged blocks and the reads of their parts."""

    def __init__(self, builder: Builder, exchange: Exchange) -> None:
        self._b, self._exchange = builder, exchange
        self._readers: dict[Value, Callable[[Value], Value]] = {}
        self._layouts: dict[Value, Layout] = {}  # of staged pieces

    def stage(self, op: Op, blocks: Sequence[tuple[list[Value], Layout]]) -> None:
        """Writes the pieces that a `stage` chooses, all at once.

        Args:
            blocks: the numbers of its operands, and their layouts.
        """
        axes, number, n_pieces = op.attribute
        pieces = []
        for value, axis, (registers, layout) in zip(op.args, axes, blocks, strict=True):
            bits = axis_bits(shape_of(value.type), axis)
            chosen = bits[len(bits) - log2(n_pieces) :]
            pieces.append((registers, layout, piece_of(layout, chosen, number << chosen.start)))
        self._readers.update(zip(op.results, self._exchange.written(pieces, checked=True), strict=True))
        self._layouts.update(zip(op.results, [piece.layout for *_, piece in pieces], strict=True))

    def part(self, op: Op, layout: Layout, number: Value) -> list[Value]:
        """Reads a part of a staged block, by its number along the axis, in a layout of the part."""
        b, staged = self._b, op.args[0]
        bits = axis_bits(shape_of(op.type), op.attribute)
        n_above = log2(shape_of(staged.type)[op.attribute]) - len(bits)
        whole = layout.mapped([bit if bit < bits.stop else bit + n_above for bit in range(layout.n_bits)])
        if self._exchange.within is not None:
            self._exchange.within.check_read(self._layouts[staged], whole)
        first = b.compute("shl", number, b.const(bits.stop, INT32))
        return self._exchange.elements(lambda at: self._readers[staged](b.compute("add", at, first)), whole)
