"""Layouts: which invocations of a workgroup hold which elements of a block.

A block has 2**k elements, numbered in row-major order, so an element is k bits. Each bit is held by a bit of the
register's number or by a bit of the invocation's number. This is the case of Triton's linear layouts (Zhou et al.:
Linear layouts, ASPLOS 2026) in which no bit is a sum of others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """The place of each bit of an element's number.

    Attributes:
        registers: for each bit of a register's number, the element's bit.
        threads: for each bit of an invocation's number, the element's bit; None if both invocations hold the same.
    """

    registers: tuple[int, ...]
    threads: tuple[int | None, ...]

    @property
    def n_registers(self) -> int:
        """The number of elements that an invocation holds."""
        return 1 << len(self.registers)

    @property
    def n_bits(self) -> int:
        """log2 of the elements of the block."""
        return len({*self.registers, *self.threads} - {None})

    def element(self, register: int) -> int:
        """Returns the bits of an element's number that a register gives."""
        return sum(1 << bit for at, bit in enumerate(self.registers) if register >> at & 1)

    def mapped(self, bits: Sequence[int | None]) -> Layout:
        """Returns the layout of an operand whose bit `bits[k]` is bit k of the result; None for none."""
        registers = tuple([bit for bit in (bits[position] for position in self.registers) if bit is not None])
        return Layout(registers, tuple([None if position is None else bits[position] for position in self.threads]))

    def sources(self, bits: Sequence[int | None]) -> Iterator[int]:
        """Yields for each register of the result the register of the operand that `mapped(bits)` lays out."""
        kept = [at for at, position in enumerate(self.registers) if bits[position] is not None]
        for register in range(self.n_registers):
            yield sum(1 << to for to, at in enumerate(kept) if register >> at & 1)

    def repeated(self, n_bits: int) -> Layout:
        """Returns the layout with bits for each element that it does not place, in further registers."""
        missing = sorted({*range(n_bits)} - {*self.registers, *self.threads})
        return Layout((*self.registers, *missing), self.threads)

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """Yields runs of adjacent bits (first bit of the invocation's number, bit of the element's, length)."""
        at = 0
        while at < len(self.threads):
            bit, n = self.threads[at], 1
            if bit is None:
                at += 1
                continue
            while at + n < len(self.threads) and self.threads[at + n] == bit + n:
                n += 1
            yield at, bit, n
            at += n

    @property
    def duplicates(self) -> int:
        """The bits of an invocation's number that choose among holders of the same elements."""
        return sum(1 << at for at, bit in enumerate(self.threads) if bit is None)


def log2(n: int) -> int:
    """Returns the exponent of a power of two."""
    return n.bit_length() - 1


def blocked(n_bits: int, n_threads: int, adjacent: int = 2, least: int = 0) -> Layout:
    """Returns the layout for wide accesses: runs of 2**adjacent elements, one per invocation, over and over.

    Args:
        least: log2 of the elements of a run if the invocations are more than the runs; then several hold the same.
    """
    own = max(min(adjacent, n_bits - n_threads), least)
    threads = [bit if bit < n_bits else None for bit in range(own, own + n_threads)]
    return Layout((*range(own), *range(own + n_threads, n_bits)), tuple(threads))


def axis_bits(shape: Sequence[int], axis: int) -> range:
    """Returns the bits of an element's number that are its index along an axis."""
    first = sum(map(log2, shape[axis + 1 :]))
    return range(first, first + log2(shape[axis]))


def without_axis(shape: Sequence[int], axis: int) -> list[int | None]:
    """Returns for each bit of an element the bit in the shape without this axis; None for bits along it."""
    gone = axis_bits(shape, axis)
    n_bits = sum(map(log2, shape))
    return [None if bit in gone else bit if bit < gone.start else bit - len(gone) for bit in range(n_bits)]


def broadcast_bits(source: Sequence[int], result: Sequence[int]) -> list[int | None]:
    """Returns for each bit of a broadcast block the bit of its operand, None along repeated axes."""
    bits: list[int | None] = []
    below = 0
    for one, other in zip(reversed(source), reversed(result), strict=True):
        n_bits = log2(other)
        bits += [None] * n_bits if one != other else range(below, below + n_bits)
        below += log2(one)
    return bits


def permuted_bits(shape: Sequence[int], order: Sequence[int]) -> list[int | None]:
    """Returns for each bit of a permuted block the bit of its operand, which has this shape."""
    return [bit for axis in reversed(order) for bit in axis_bits(shape, axis)]
