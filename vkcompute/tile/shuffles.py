"""Changes of layout within subgroups, by shuffles.

lavapipe builds a loop over the lanes, with branches, for each access to workgroup memory. A shuffle of 32-bit words
needs no branch. A chain of 16 products with 1,320 accesses took 20 s to compile, and takes 3 s with shuffles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vkcompute.ir import INT32, UINT32, Builder, Scalar, Value
from vkcompute.ir.types import element_of
from vkcompute.tile.layout import Layout
from vkcompute.tile.workgroup_memory import word_type


def words(b: Builder, values: Sequence[Value]) -> list[Value]:
    """Returns numbers of up to 32 bits in the types of 32 bits that pass between lanes."""
    kind = element_of(values[0].type)
    return [b.cast(value, word_type(kind)) if kind.bits < UINT32.bits else value for value in values]


def is_within_subgroups(layout: Layout, wanted: Layout, n_lanes: int) -> bool:
    """True if each subgroup holds the same elements in both layouts; `n_lanes` is a log2."""
    return layout.threads[n_lanes:] == wanted.threads[n_lanes:]


class Shuffles:
    """Changes the layout of a block whose subgroups hold the same elements in both layouts.

    Bits of an element that the wanted layout has in the lane's number first move from the register's number there.
    Then each wanted register is a register of another lane.

    Args:
        thread: the invocation's number in its workgroup.
        n_lanes: log2 of the lanes of a subgroup.
        fixed: the values, 0 or 1 in uint32, of the bits of an element that the wanted layout does not have.
    """

    def __init__(
        self,
        b: Builder,
        thread: Value,
        n_lanes: int,
        layout: Layout,
        wanted: Layout,
        fixed: Mapping[int, Value] | None = None,
    ) -> None:
        self._b, self._thread, self._n_lanes, self._wanted, self._fixed = b, thread, n_lanes, wanted, fixed or {}
        self._registers, self._lanes = [*layout.registers], [*layout.threads[:n_lanes]]

    def converted(self, values: Sequence[Value]) -> list[Value]:
        """Returns the elements in the wanted layout, given those in the other one; they have up to 32 bits."""
        return self.moved(words(self._b, values), element_of(values[0].type))

    def moved(self, values: Sequence[Value], kind: Scalar) -> list[Value]:
        """Returns the elements in the wanted layout, of this type, given their words in the other one."""
        values = self._chosen(values)
        for bit in self._wanted.threads[: self._n_lanes]:
            if bit is not None and bit in self._registers:
                values = self._to_lanes(bit, values)
        results = self._from_lanes(self._chosen(values))
        return [self._b.cast(value, kind) for value in results] if kind.bits < UINT32.bits else results

    def _chosen(self, values: Sequence[Value]) -> Sequence[Value]:
        """Selects among the registers by the bits of their number that are fixed."""
        b = self._b
        for bit in [bit for bit in self._fixed if bit in self._registers]:
            is_set = b.compute("ne", self._fixed[bit], b.const(0, UINT32))
            values = [b.select(is_set, values[high], values[low]) for low, high in self._pairs(bit, values)]
            self._registers.remove(bit)
        return values

    def _pairs(self, bit: int, values: Sequence[Value]) -> list[tuple[int, int]]:
        """Returns the registers that differ in a bit of their elements."""
        of_bit = 1 << self._registers.index(bit)
        return [(n, n | of_bit) for n in range(len(values)) if not n & of_bit]

    def _to_lanes(self, bit: int, values: Sequence[Value]) -> list[Value]:
        """Moves a bit from the register's number to that of the lane, in place of one that is not wanted there."""
        b, pairs, wanted = self._b, self._pairs(bit, values), self._wanted.threads
        free = [at for at, other in enumerate(self._lanes) if other is None or other not in wanted]
        lane = next((at for at in free if wanted[at] == bit), free[0])
        is_set = b.compute("ne", b.compute("and", self._thread, b.const(1 << lane, INT32)), b.const(0, INT32))
        register, other = self._registers.index(bit), self._lanes[lane]
        self._lanes[lane] = bit
        if other is None:  # both lanes hold the same elements
            del self._registers[register]
            return [b.select(is_set, values[high], values[low]) for low, high in pairs]
        self._registers[register], results = other, [*values]
        for low, high in pairs:
            sent = b.select(is_set, values[low], values[high])
            received = b.subgroup("shuffle_xor", sent, b.const(1 << lane, UINT32))
            results[low] = b.select(is_set, received, values[low])
            results[high] = b.select(is_set, values[high], received)
        return results

    def _from_lanes(self, values: Sequence[Value]) -> list[Value]:
        """Returns for each register of the wanted layout the register of the lane that has its element."""
        b, results = self._b, list[Value]()
        wanted = {bit: at for at, bit in enumerate(self._wanted.threads) if bit is not None}
        sources = [at if bit is None else wanted.get(bit) for at, bit in enumerate(self._lanes)]
        lane = self._lane(sources)
        for n in range(self._wanted.n_registers):
            element = self._wanted.element(n)
            value = values[sum((element >> bit & 1) << at for at, bit in enumerate(self._registers))]
            if sources != [*range(self._n_lanes)]:
                known = sum((element >> bit & 1) << at for at, bit in enumerate(self._lanes) if bit is not None)
                value = b.subgroup("shuffle", value, b.compute("or", lane, b.const(known, UINT32)))
            results.append(value)
        return results

    def _lane(self, sources: Sequence[int | None]) -> Value:
        """Returns the bits of a lane's number that the invocation's number and fixed bits give, uint32.

        Args:
            sources: for each bit of the lane's number, that of the invocation's; None for those of an element.
        """
        b = self._b
        number: Value = b.const(0, UINT32)
        for at, (source, bit) in enumerate(zip(sources, self._lanes, strict=True)):
            if source is not None:
                shifted = b.compute("shr", b.cast(self._thread, UINT32), b.const(source, UINT32))
                value = b.compute("and", shifted, b.const(1, UINT32))
            elif bit is not None and bit in self._fixed:
                value = self._fixed[bit]
            else:
                continue
            number = b.compute("or", number, b.compute("shl", value, b.const(at, UINT32)))
        return number
