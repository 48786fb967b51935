"""Blocks of which products read one part after the other: in workgroup memory, or in the registers of a subgroup."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vkcompute.ir import INT32, UINT32, Builder, Value
from vkcompute.ir.function import Op
from vkcompute.ir.types import element_of
from vkcompute.tile.exchange import Exchange
from vkcompute.tile.layout import Layout, axis_bits, log2
from vkcompute.tile.pieces import piece_of
from vkcompute.tile.product_loops import N_TERMS
from vkcompute.tile.shuffles import words
from vkcompute.tile.types import shape_of

_MOST_SELECTED = 2  # bits of a register's number that choose a part: each selects among half of the registers


class Staging:
    """Builds the writes of staged blocks and the reads of their parts."""

    def __init__(self, builder: Builder, exchange: Exchange) -> None:
        self._b, self._exchange = builder, exchange
        self._readers: dict[Value, Callable[[Value], Value]] = {}
        self._layouts: dict[Value, Layout] = {}  # of staged pieces
        self._words: dict[Value, list[Value]] = {}  # of blocks that stay in registers

    def stage(self, op: Op, blocks: Sequence[tuple[list[Value], Layout]]) -> None:
        """Writes the pieces that a `stage` chooses, all at once; one subgroup keeps whole blocks in its registers.

        Args:
            blocks: the numbers of its operands, and their layouts.
        """
        axes, number, n_pieces = op.attribute
        pieces = {}
        for result, value, axis, (registers, layout) in zip(op.results, op.args, axes, blocks, strict=True):
            bits = axis_bits(shape_of(value.type), axis)
            self._layouts[result] = layout
            if n_pieces == 1 and self._is_kept(layout, bits, element_of(value.type).bits):
                self._words[result] = words(self._b, registers)
                continue
            chosen = bits[len(bits) - log2(n_pieces) :]
            piece = piece_of(layout, chosen, number << chosen.start)
            pieces[result] = registers, layout, piece
            self._layouts[result] = piece.layout
        if pieces:
            readers = self._exchange.written([*pieces.values()], checked=True)
            self._readers.update(zip(pieces, readers, strict=True))

    def _is_kept(self, layout: Layout, axis: range, n_bits: int) -> bool:
        """True if few selections and a shuffle give an element of a part."""
        n_selected = len({*axis[log2(N_TERMS) :]} & {*layout.registers})
        return self._exchange.shuffles_all and n_bits <= UINT32.bits and n_selected <= _MOST_SELECTED

    def part(self, op: Op, layout: Layout, number: Value) -> list[Value]:
        """Reads a part of a staged block, by its number along the axis, in a layout of the part."""
        b, staged = self._b, op.args[0]
        bits = axis_bits(shape_of(op.type), op.attribute)
        n_above = log2(shape_of(staged.type)[op.attribute]) - len(bits)
        whole = layout.mapped([bit if bit < bits.stop else bit + n_above for bit in range(layout.n_bits)])
        if staged in self._words:
            part = b.cast(number, UINT32)
            shifted = [b.compute("shr", part, b.const(n, UINT32)) for n in range(n_above)]
            fixed = {bits.stop + n: b.compute("and", value, b.const(1, UINT32)) for n, value in enumerate(shifted)}
            shuffles = self._exchange.shuffles(self._layouts[staged], whole, fixed)
            return shuffles.moved(self._words[staged], element_of(op.type))
        if self._exchange.within is not None:
            self._exchange.within.check_read(self._layouts[staged], whole)
        first = b.compute("shl", number, b.const(bits.stop, INT32))
        return self._exchange.elements(lambda at: self._readers[staged](b.compute("add", at, first)), whole)
