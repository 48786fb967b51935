"""Pieces of blocks, which pass through workgroup memory one after the other where the whole block exceeds it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from vkcompute.tile.layout import Layout


class Piece(NamedTuple):
    """The elements of a block whose numbers have given values of some bits, in a layout of the block.

    Attributes:
        registers: those that hold elements of it.
        layout: that of its elements, which are numbered without these bits.
        mask: the bits of an invocation's number that decide whether it holds elements of the piece.
        threads: the values of these bits for those that hold some.
    """

    registers: Sequence[int]
    layout: Layout
    mask: int
    threads: int

    @property
    def n_bits(self) -> int:
        """log2 of its elements."""
        return self.layout.n_bits


def piece_of(layout: Layout, bits: Collection[int], values: int) -> Piece:
    """Returns a piece of a block.

    Args:
        bits: those of an element's number that choose the piece.
        values: an element's number with these bits of the piece's elements.
    """
    left = [bit for bit in range(layout.n_bits) if bit not in bits]
    numbered = {bit: at for at, bit in enumerate(left)}
    own = sum(1 << bit for bit in layout.registers if bit in bits)
    deciding = [at for at, bit in enumerate(layout.threads) if bit is not None and bit in bits]
    return Piece(
        [n for n in range(layout.n_registers) if layout.element(n) & own == values & own],
        layout.mapped([numbered.get(bit) for bit in range(layout.n_bits)]),
        sum(1 << at for at in deciding),
        sum(1 << at for at in deciding if values >> (layout.threads[at] or 0) & 1),
    )
