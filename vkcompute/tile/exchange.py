"""Exchanges between the invocations of a workgroup: reductions, scans and changes of layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

from vkcompute.compiled.block_access import BlockAccess, ElementBlock
from vkcompute.ir import INT32, UINT32, Builder, Scalar, Value
from vkcompute.ir.types import element_of
from vkcompute.tile.invocations import adjacent, first_element, owner, where, with_owner
from vkcompute.tile.layout import Layout, log2
from vkcompute.tile.pieces import Piece, piece_of
from vkcompute.tile.registers import ADJACENT, Group, LazyRegisters
from vkcompute.tile.shuffles import Shuffles, is_within_subgroups
from vkcompute.tile.subgroup_exchanges import BeyondSubgroupError, SubgroupExchanges
from vkcompute.tile.workgroup_memory import Numbers, Span, WorkgroupMemory

Row = Sequence[Value]
"""The numbers at one index of several blocks that are reduced together."""
Combine = Callable[[Row, Row], list[Value]]
Lookup = Callable[[Value, int], Row]
"""Reads a row of another invocation, whose number is the sum of a value and a constant."""


class Exchange:
    """Builds exchanges. Within a subgroup they are shuffles, beyond it they pass through workgroup memory.

    Args:
        thread: the number of the invocation in its workgroup.
        n_lanes: log2 of the lanes of a subgroup.
        within: checks exchanges that do not wait for other subgroups; None if they wait.
        shuffles: True if changes of layout within subgroups are shuffles, and need no memory.

    Attributes:
        n_lanes: the lanes of a subgroup that can shuffle.
        within: as given.
        in_use: True if other invocations may still read the workgroup memory.
        on_barrier: is called for each barrier.
    """

    def __init__(
        self,
        builder: Builder,
        thread: Value,
        n_lanes: int,
        memory: WorkgroupMemory,
        within: SubgroupExchanges | None = None,
        *,
        shuffles: bool = False,
    ) -> None:
        self._b, self._thread, self._lanes, self._memory = builder, thread, n_lanes, memory
        self._shuffles = shuffles
        self.n_lanes, self.in_use, self.within = 1 << n_lanes, False, within
        self.on_barrier: Callable[[], None] = lambda: None

    @property
    def shuffles_all(self) -> bool:
        """True if all changes of layout of 32-bit words are shuffles: the workgroup is one subgroup."""
        return self._shuffles and self._b.function.local_size[0] == self.n_lanes

    def barrier(self) -> None:
        """Waits for all invocations; all that they have written is visible."""
        b = self._b
        with b.at(None):  # control flow is uniform, whether or not the analysis of kernels can prove it
            if b.function.local_size[0] > 1 << self._lanes:
                b.barrier()
            else:
                b.subgroup_barrier()
        self.in_use = False
        self.on_barrier()

    def begin(self, *, checked: bool = False) -> None:
        """Waits for the reads of the previous exchange, and frees its memory.

        Args:
            checked: True if the layouts of its reads are checked, too, where exchanges stay within subgroups.
        """
        if self.within is not None and not checked:
            raise BeyondSubgroupError
        if self.in_use or self.within is not None:
            self._wait()
        self._memory.free()

    def end(self) -> None:
        """Makes the written numbers visible; they are read until the next exchange."""
        self._wait()
        self.in_use = True

    def _wait(self) -> None:
        """Waits for all invocations among which numbers pass."""
        if self.within is None:
            self.barrier()
        else:
            self._b.subgroup_barrier()

    def from_lane(self, value: Value, lane: int) -> Value:
        """Returns the value of one lane of the subgroup."""
        return self._b.subgroup("shuffle", value, self._b.const(lane, UINT32))

    # -- reductions ---------------------------------------------------------------------------------------------------

    def reduced(
        self, rows: Sequence[Row], layout: Layout, bits: Sequence[int | None], combine: Combine, *, ordered: bool
    ) -> list[Row]:
        """Combines the elements along the bits that are None; all invocations get the results that they hold.

        First in registers, then between lanes, then between subgroups; if `ordered`, adjacent elements first, as needed
        by a function that is not commutative.
        """
        along = [bit for bit, kept in enumerate(bits) if kept is None]
        parts, registers, threads = list(rows), list(layout.registers), layout.threads
        if not ordered:
            along.sort(key=lambda bit: 0 if bit in registers else 1 + threads.index(bit))
        while along:
            bit = along.pop(0)
            if bit in registers:
                at = registers.index(bit)
                parts = [combine(parts[n], parts[n | 1 << at]) for n in range(len(parts)) if not n >> at & 1]
                del registers[at]
            elif threads.index(bit) < self._lanes:
                parts = [self._with_lane(row, threads.index(bit), combine, ordered=ordered) for row in parts]
            else:
                groups = [threads.index(bit)]
                while along and along[0] not in registers and threads.index(along[0]) >= self._lanes:
                    groups.append(threads.index(along.pop(0)))
                parts = self._over_groups(parts, groups, combine)
        return parts

    def _with_lane(self, row: Row, at: int, combine: Combine, *, ordered: bool) -> Row:
        """Combines the numbers of two lanes whose numbers differ in one bit."""
        b = self._b
        there = [b.subgroup("shuffle_xor", value, b.const(1 << at, UINT32)) for value in row]
        if not ordered:
            return combine(row, there)
        is_second = self._has_bit(at)
        pairs = list(zip(row, there, strict=True))
        return combine(
            [b.select(is_second, its, mine) for mine, its in pairs],
            [b.select(is_second, mine, its) for mine, its in pairs],
        )

    def _has_bit(self, at: int) -> Value:
        """Returns a condition on a bit of the invocation's number."""
        b = self._b
        return b.compute("ne", b.compute("and", self._thread, b.const(1 << at, INT32)), b.const(0, INT32))

    def _over_groups(self, rows: Sequence[Row], bits: Sequence[int], combine: Combine) -> list[Row]:
        """Combines the numbers of the subgroups that differ in these bits of an invocation's number."""
        mask = sum(1 << at for at in bits)
        first = self._b.compute("and", self._thread, self._b.const(~mask, INT32))
        offsets = [sum(1 << at for k, at in enumerate(bits) if number >> k & 1) for number in range(1 << len(bits))]

        def total(lookup: Lookup) -> Row:
            combined = lookup(first, offsets[0])
            for offset in offsets[1:]:
                combined = combine(combined, lookup(first, offset))
            return combined

        return self._passed(rows, total)

    def _passed(self, rows: Sequence[Row], result: Callable[[Lookup], Row], *, packs: bool = False) -> list[Row]:
        """Writes the rows of all invocations to workgroup memory; returns for each row a result of those of others.

        As many rows pass together as fit in the memory.

        Args:
            packs: True for rows that may share vectors. Scans run faster with them, but compile a quarter longer.
        """
        b, n_threads = self._b, self._b.function.local_size[0]
        kinds = [element_of(value.type) for value in rows[0]]
        n_together, lanes = self._memory.rows_together(kinds, len(rows), n_threads, packs=packs)
        results: list[Row] = []
        for start in range(0, len(rows), n_together):
            part = rows[start : start + n_together]
            self.begin()
            memory = self._memory.rows(kinds, len(part), n_threads, lanes)
            memory.store(b, self._thread, part)
            self.end()
            results += [result(partial(memory.load, b, n)) for n in range(len(part))]
        return results

    def shared_by_all(self, registers: Sequence[Value], layout: Layout | None) -> list[Value]:
        """Returns the numbers of the owners of elements to all invocations that hold the same; of a scalar, to all."""
        b = self._b
        mask = b.function.local_size[0] - 1 if layout is None else layout.duplicates
        own = b.compute("and", self._thread, b.const(~mask, INT32))
        rows = self._passed([[register] for register in registers], lambda lookup: lookup(own, 0))
        return [row[0] for row in rows]

    # -- scans --------------------------------------------------------------------------------------------------------

    def scanned(
        self, rows: Sequence[Row], layout: Layout, along: Sequence[int], combine: Combine, *, reverse: bool
    ) -> list[Row]:
        """Combines each element with all before it along these bits, in log2(n) steps; with those after it if reverse.

        Step k combines the last element of the lower half of each run of 2**(k + 1) with its upper half.
        """
        prefixes = list(rows)
        for bit in along:
            done = [lower for lower in along if lower < bit]
            prefixes = self._scan_step(prefixes, layout, bit, done, combine, reverse=reverse)
        return prefixes

    def _scan_step(
        self, rows: list[Row], layout: Layout, bit: int, done: Sequence[int], combine: Combine, *, reverse: bool
    ) -> list[Row]:
        """Adds the total of one half of each run to the other half."""
        b, up = self._b, 0 if reverse else 1
        low = [at for at, position in enumerate(layout.registers) if position in done]
        fixed = sum(1 << at for at in low)
        last = 0 if reverse else fixed
        register = layout.registers.index(bit) if bit in layout.registers else None
        threads = [at for at, position in enumerate(layout.threads) if position in done]
        mine = None if register is not None else layout.threads.index(bit)
        source: Value = b.const(0, INT32)
        if threads or mine is not None:
            cleared = sum(1 << at for at in threads) | (0 if mine is None else 1 << mine)
            wanted = (0 if reverse else sum(1 << at for at in threads)) | (
                0 if mine is None or not reverse else 1 << mine
            )
            kept = b.compute("and", self._thread, b.const(~cleared, INT32))
            source = b.compute("or", kept, b.const(wanted, INT32))
        totals = {n: rows[n] for n in range(len(rows)) if n & fixed == last}
        if register is not None:
            totals = {n: row for n, row in totals.items() if n >> register & 1 != up}
        within = all(at < self._lanes for at in (*threads, mine or 0))
        moved = self._fetched(totals, source, within=within) if threads or mine is not None else totals
        results = list(rows)
        for n, row in enumerate(rows):
            if register is not None and n >> register & 1 != up:
                continue
            key = n & ~fixed | last
            total = moved[key if register is None else key ^ 1 << register]
            combined = combine(total, row)
            if mine is None:
                results[n] = combined
                continue
            inside = self._has_bit(mine)
            if reverse:
                inside = b.compute("not", inside)
            results[n] = [b.select(inside, new, old) for new, old in zip(combined, row, strict=True)]
        return results

    def _fetched(self, rows: dict[int, Row], source: Value, *, within: bool, packs: bool = False) -> dict[int, Row]:
        """Returns the numbers that another invocation holds, each at the same place; `within` the same subgroup."""
        b = self._b
        if within:
            lane = b.cast(b.compute("and", source, b.const((1 << self._lanes) - 1, INT32)), UINT32)
            return {n: [b.subgroup("shuffle", value, lane) for value in row] for n, row in rows.items()}
        passed = self._passed(list(rows.values()), lambda lookup: lookup(source, 0), packs=packs)
        return dict(zip(rows, passed, strict=True))

    # -- other places --------------------------------------------------------------------------------------------------

    def mirrored(self, registers: Sequence[Value], layout: Layout, mask: int) -> list[Value]:
        """Returns for each element the one whose number differs in the bits of a mask."""
        b = self._b
        own = sum(1 << at for at, bit in enumerate(layout.registers) if mask >> bit & 1)
        other = sum(1 << at for at, bit in enumerate(layout.threads) if bit is not None and mask >> bit & 1)
        moved = list(registers)
        if other >> self._lanes:
            source = b.compute("xor", self._thread, b.const(other, INT32))
            own_rows: dict[int, Row] = {n: [register] for n, register in enumerate(registers)}
            rows = self._fetched(own_rows, source, within=False, packs=True)
            moved = [rows[n][0] for n in range(len(registers))]
        elif other:
            moved = [b.subgroup("shuffle_xor", register, b.const(other, UINT32)) for register in registers]
        return [moved[n ^ own] for n in range(len(moved))]

    def gathered(
        self,
        registers: Sequence[Value],
        source: Layout,
        index: Sequence[Value],
        layout: Layout,
        source_axis: range,
        axis: range,
    ) -> list[Value]:
        """Returns the elements at indices along an axis.

        Args:
            registers: the elements, in the layout `source`.
            index: the indices, in the layout of the result; only their bits within the axis count.
            source_axis, axis: the bits of an element's number along the axis, of the operand and of the result.
        """
        b = self._b
        first = first_element(b, self._thread, layout)
        is_innermost, is_outermost = axis.start == 0, layout.n_bits == axis.stop
        numbers = []
        for n, position in enumerate(index):
            inside = b.compute("and", b.cast(position, INT32), b.const((1 << len(source_axis)) - 1, INT32))
            at = b.compute("shl", inside, b.const(axis.start, INT32))
            number = b.compute("add", first, b.const(layout.element(n), INT32))
            if not is_outermost:
                above = b.compute("shr", number, b.const(axis.stop, INT32))
                at = b.compute("or", b.compute("shl", above, b.const(source_axis.stop, INT32)), at)
            if not is_innermost:
                at = b.compute("or", at, b.compute("and", number, b.const((1 << axis.start) - 1, INT32)))
            numbers.append(at)
        return self._looked_up(registers, source, numbers)

    def _looked_up(self, registers: Sequence[Value], layout: Layout, numbers: Sequence[Value]) -> list[Value]:
        """Returns the elements with these numbers, which pass through workgroup memory by pieces of adjacent ones."""
        b, n_bits = self._b, layout.n_bits
        below = n_bits - self._n_split(element_of(registers[0].type), n_bits)
        bits = range(below, n_bits)
        elements: list[Value] = []
        for n in range(1 << len(bits)):
            read = self._in_memory(registers, layout, piece_of(layout, bits, n << below))
            if not bits:
                return [read(number) for number in numbers]
            of_piece = [read(b.compute("and", number, b.const((1 << below) - 1, INT32))) for number in numbers]
            for at, number in enumerate(numbers if n else ()):
                is_in = b.compute("eq", b.compute("shr", number, b.const(below, INT32)), b.const(n, INT32))
                of_piece[at] = b.select(is_in, of_piece[at], elements[at])
            elements = of_piece
        return elements

    def counted(
        self, columns: Sequence[Sequence[Value]], layout: Layout, n_bins: int
    ) -> Callable[[Layout], list[Value]]:
        """Counts the elements with each value below `n_bins`, in workgroup memory.

        Args:
            columns: the elements, and perhaps conditions under which they count.

        Returns: a function that reads the counts in a layout.
        """
        b, n_threads = self._b, self._b.function.local_size[0]
        self.begin()
        (counts,) = self._memory.numbers([INT32], n_bins)
        for start in range(0, n_bins, n_threads):
            at = b.compute("add", self._thread, b.const(start, INT32))
            where(
                b,
                None if start + n_threads <= n_bins else b.compute("lt", at, b.const(n_bins, INT32)),
                partial(counts.store, b, at, b.const(0, INT32)),
            )
        self.barrier()
        alone = owner(b, self._thread, layout)
        for value, *masks in zip(*columns, strict=True):
            inside = b.compute("lt", b.bitcast(value, UINT32), b.const(n_bins, UINT32))
            conditions = [inside, *masks, *([] if alone is None else [alone])]
            condition = reduce(lambda x, y: b.compute("and", x, y), conditions)
            at = counts.span.at(b, value)
            where(b, condition, partial(b.atomic, "add", counts.span.memory, at, b.const(1, UINT32)))
        self.end()
        return lambda wanted: self.elements(partial(counts.load, b), wanted)

    # -- operands of products -----------------------------------------------------------------------------------------

    def staged(self, blocks: Sequence[tuple[Sequence[Value], Layout, Layout]]) -> list[LazyRegisters]:
        """Writes blocks to workgroup memory; returns their numbers in other layouts, read when they are asked for.

        They must be asked for before the next call.

        Args:
            blocks: for each its numbers, their layout, and the layout in which they are read. In both, the lowest bits
                of a register's number are those of an element's.
        """
        self.begin()
        stages = [self._stage(registers, layout) for registers, layout, _ in blocks]
        self.end()
        return [self._lazily(stage, wanted) for stage, (_, _, wanted) in zip(stages, blocks, strict=True)]

    def _stage(self, registers: Sequence[Value], layout: Layout) -> BlockAccess:
        """Writes a block to workgroup memory."""
        b, kind, n_bits = self._b, element_of(registers[0].type), layout.n_bits
        n_blocks = (1 << n_bits) // ADJACENT

        def declare(word: Scalar, lanes: int, n: int) -> Span:
            return self._memory.array(word, n * n_blocks, lanes)

        stage = BlockAccess(b.function, "", kind, ElementBlock(ADJACENT, pairs=True), declare=declare)
        first = self._group(layout)

        def write() -> None:
            for group in adjacent(layout):
                number = b.compute("add", first, b.const(layout.element(group[0]) // ADJACENT, UINT32))
                stage.store(b, number, [registers[index] for index in group])

        with_owner(b, self._thread, layout, write)
        return stage

    def _lazily(self, stage: BlockAccess, wanted: Layout) -> LazyRegisters:
        """Returns the numbers of a staged block in a layout."""
        b, first = self._b, self._group(wanted)

        def load(group: Group) -> list[Value]:
            return stage.load(b, b.compute("add", first, b.const(wanted.element(group[0]) // ADJACENT, UINT32)))

        return LazyRegisters(load, adjacent(wanted))

    def _group(self, layout: Layout) -> Value:
        """Returns the bits of the number of adjacent elements that the invocation's number gives, uint32."""
        b, first = self._b, first_element(self._b, self._thread, layout)
        return b.compute("shr", b.cast(first, UINT32), b.const(log2(ADJACENT), UINT32))

    # -- layouts ------------------------------------------------------------------------------------------------------

    def converted(self, registers: list[Value], layout: Layout, wanted: Layout) -> list[Value]:
        """Returns the numbers of a block in another layout."""
        if layout == wanted:
            return registers
        if all(one is None or one == other for one, other in zip(layout.threads, wanted.threads, strict=True)):
            return self._selected(registers, layout, wanted)
        is_word = element_of(registers[0].type).bits <= UINT32.bits
        if self._shuffles and is_word and is_within_subgroups(layout, wanted, self._lanes):
            return self.shuffles(layout, wanted).converted(registers)
        return self._through_memory(registers, layout, wanted)

    def shuffles(self, layout: Layout, wanted: Layout, fixed: Mapping[int, Value] | None = None) -> Shuffles:
        """Returns the shuffles from one layout to another."""
        return Shuffles(self._b, self._thread, self._lanes, layout, wanted, fixed)

    def _selected(self, registers: list[Value], layout: Layout, wanted: Layout) -> list[Value]:
        """Selects among the numbers that an invocation holds itself."""
        b, values = self._b, dict(enumerate(registers))
        for at, (one, other) in enumerate(zip(layout.threads, wanted.threads, strict=True)):
            if one == other or other is None:
                continue
            bit = 1 << layout.registers.index(other)
            is_set = self._has_bit(at)
            values = {n: b.select(is_set, values[n | bit], value) for n, value in values.items() if not n & bit}
        elements = {layout.element(n): value for n, value in values.items()}
        return [elements[wanted.element(n)] for n in range(wanted.n_registers)]

    def _through_memory(self, registers: list[Value], layout: Layout, wanted: Layout) -> list[Value]:
        """Writes the block to workgroup memory, and reads it in another layout; by pieces that fit in the memory."""
        b, n_bits = self._b, layout.n_bits
        bits = sorted(range(n_bits), key=lambda bit: (bit in wanted.threads, bit in layout.threads, -bit))
        bits = bits[: self._n_split(element_of(registers[0].type), n_bits)]
        elements: dict[int, Value] = {}
        for n in range(1 << len(bits)):
            values = sum(1 << bit for at, bit in enumerate(bits) if n >> at & 1)
            read = self._in_memory(registers, layout, piece_of(layout, bits, values))
            piece = piece_of(wanted, bits, values)
            holds = self._holds(piece.mask, piece.threads)
            for register, number in zip(piece.registers, self.elements(read, piece.layout), strict=True):
                if holds is not None and register in elements:
                    elements[register] = b.select(holds, number, elements[register])
                else:
                    elements[register] = number
        return [elements[register] for register in range(wanted.n_registers)]

    def _n_split(self, kind: Scalar, n_bits: int) -> int:
        """Returns log2 of the pieces in which a block passes through workgroup memory."""
        sizes = range(n_bits + 1)
        return next((n for n in sizes if self._memory.fits([kind], 1 << n_bits - n)), 0)

    def elements(self, read: Callable[[Value], Value], wanted: Layout) -> list[Value]:
        """Reads elements in memory by their numbers, in a layout."""
        b, first = self._b, first_element(self._b, self._thread, wanted)
        return [read(b.compute("add", first, b.const(wanted.element(n), INT32))) for n in range(wanted.n_registers)]

    def _in_memory(self, registers: Sequence[Value], layout: Layout, piece: Piece) -> Callable[[Value], Value]:
        """Writes a piece of a block to workgroup memory; returns a function that reads an element by its number."""
        return self.written([(registers, layout, piece)])[0]

    def written(
        self, blocks: Sequence[tuple[Sequence[Value], Layout, Piece]], *, checked: bool = False
    ) -> list[Callable[[Value], Value]]:
        """Writes pieces of blocks to workgroup memory; returns functions that read an element by its number.

        They read until the next exchange. `checked` is that of `begin`.
        """
        b = self._b
        self.begin(checked=checked)
        memory = [
            self._memory.numbers([element_of(registers[0].type)], 1 << piece.n_bits)[0]
            for registers, _, piece in blocks
        ]
        if self.within is not None:
            pairs = zip(memory, blocks, strict=True)
            self.within.check_writes([(numbers.span, block[2].layout) for numbers, block in pairs])
        readers: list[Callable[[Value], Value]] = []
        for numbers, (registers, layout, piece) in zip(memory, blocks, strict=True):
            writes = self._holds(layout.duplicates | piece.mask, piece.threads)
            own = [registers[at] for at in piece.registers]
            where(b, writes, partial(self._write, numbers, own, piece.layout))
            readers.append(partial(numbers.load, b))
        self.end()
        return readers

    def _holds(self, mask: int, value: int) -> Value | None:
        """Returns a condition on the bits of an invocation's number in a mask; None if there are none."""
        b = self._b
        return (
            b.compute("eq", b.compute("and", self._thread, b.const(mask, INT32)), b.const(value, INT32))
            if mask
            else None
        )

    def _write(self, numbers: Numbers, registers: Sequence[Value], layout: Layout) -> None:
        b, first = self._b, first_element(self._b, self._thread, layout)
        for n, register in enumerate(registers):
            at = b.compute("add", first, b.const(layout.element(n), INT32))
            numbers.store(b, at, register)
