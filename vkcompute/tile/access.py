"""Loads, stores and atomic operations of the elements that an invocation holds.

One condition masks adjacent elements that no bound separates: `columns < n` has one value for columns 4 to 7 if n is a
multiple of four. Such elements are accessed together or not at all, so the code for a part of them is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial, reduce

from vkcompute.compiled.block_access import BlockAccess, ElementBlock
from vkcompute.ir import INT32, UINT32, Builder, Constant, Memory, Value
from vkcompute.ir.function import Op
from vkcompute.tile.contiguity import Offsets
from vkcompute.tile.exchange import Exchange
from vkcompute.tile.invocations import first_element, owner, where
from vkcompute.tile.layout import Layout
from vkcompute.tile.registers import ADJACENT, Group, LazyRegisters

_MOST_GROUPS = 32
AccessKey = tuple[Memory | None, Value, Layout | None]
"""The buffer of an access, its offsets, and the layout of its elements."""


class Accesses:
    """Builds accesses to buffers, wide ones where adjacent registers have adjacent offsets.

    Args:
        word: the type of the words of wide accesses.

    Attributes:
        aliases: the buffers of the wide accesses, in the order of their bindings, which follow the others.
        pending: the accesses since the last barrier: (buffer, offsets, layout) -> True if one of them writes; None in
            place of a buffer for all buffers.
    """

    def __init__(
        self,
        builder: Builder,
        thread: Value,
        offsets: Offsets,
        wide: Collection[Memory],
        exchange: Exchange,
        *,
        texels: bool,
        word: str,
        overlapping: bool,
        aliased: bool,
        written: Collection[Memory],
    ) -> None:
        self._written = written  # texel buffers are read-only: drivers load them before earlier stores
        self._b, self._thread, self._wide, self._exchange = builder, thread, wide, exchange
        self._offsets, self._texels, self._word = offsets, texels, word
        self._loaders: dict[Memory, BlockAccess] = {}
        self._storers: dict[Memory, BlockAccess] = {}
        self.aliases: list[Memory] = []
        self.pending: dict[AccessKey, bool] = {}
        self._overlapping, self._aliased = overlapping, aliased
        exchange.on_barrier = self.forget

    def bound_with(self, memory: Memory) -> list[Memory]:
        """Returns the buffers that are bound to the same array."""
        wide = [known[memory].memory for known in (self._loaders, self._storers) if memory in known]
        return [memory, *[buffer for buffer in wide if not buffer.texels]]

    def forget(self) -> None:
        """Notes a barrier: accesses before it are ordered before all that follow."""
        self.pending = {}

    def first_element(self, layout: Layout) -> Value:
        """Returns the bits of an element's number that the invocation's number gives."""
        return first_element(self._b, self._thread, layout)

    def _order(self, op: Op, layout: Layout | None, *, writes: bool) -> None:
        """Builds a barrier if an earlier access of another invocation may be to the same element."""
        key = self._buffer(op), op.args[0], layout
        if any((writes or wrote) and self._may_meet(key, other) for other, wrote in self.pending.items()):
            self._exchange.barrier()
        self.pending[key] = writes or self.pending.get(key, False)

    def note_loop(self, loop: Op, accesses: Sequence[Op]) -> None:
        """Notes the accesses of a loop, which later ones may meet at any element."""
        for access in accesses:
            key = self._buffer(access), loop, None
            self.pending[key] = access.operation.writes or self.pending.get(key, False)

    @staticmethod
    def _buffer(op: Op) -> Memory | None:
        """Returns the buffer of an access; None for all of them.

        Atomic operations may be those of locks, so they are ordered with accesses to all buffers.
        """
        return None if op.code == "atomic_block" else op.attribute.memory

    def _may_meet(self, key: AccessKey, other: AccessKey) -> bool:
        """True if accesses may be to the same element by different invocations.

        Accesses at the same offsets in the same layout are the same invocation's, if it alone holds its elements. That
        holds for different buffers, too, unless these overlap in another way than being the same.
        """
        (buffer, *location), (other_buffer, *other_location) = key, other
        is_same = buffer is other_buffer
        if not (is_same or self._aliased or None in (buffer, other_buffer)):
            return False
        layout = key[2]
        alone = layout is not None and not layout.duplicates
        return not (alone and location == other_location and (is_same or not self._overlapping))

    # -- loads --------------------------------------------------------------------------------------------------------

    def load(self, op: Op, layout: Layout | None, args: Sequence[list[Value]]) -> Sequence[Value]:
        """Returns the elements at offsets; args are offsets and, with a mask, the mask and the other values."""
        return [*self.lazy_load(op, layout, args)]

    def lazy_load(self, op: Op, layout: Layout | None, args: Sequence[list[Value]]) -> LazyRegisters:
        """Returns elements that are loaded where they are first asked for."""
        self._order(op, layout, writes=False)
        memory, offsets = op.attribute.memory, args[0]

        def load(group: Group) -> list[Value]:
            mask = common_mask([args[1][at] for at in group], self._offsets) if len(args) > 1 else None
            elements = self._group(memory, [offsets[at] for at in group], mask)
            if mask is None:
                return elements
            others = [args[2][at] for at in group]
            return [self._b.select(*row) for row in zip(mask, elements, others, strict=True)]

        groups = self._groups(memory, offsets)
        if len(args) == 1 and layout is not None and self._is_shared(layout, offsets, groups):
            return LazyRegisters(lambda shared: self._shared(memory, offsets[0], len(groups)), [range(len(offsets))])
        return LazyRegisters(load, groups)

    def _is_shared(self, layout: Layout, offsets: list[Value], groups: Sequence[Group]) -> bool:
        """True if all lanes of a CPU's subgroup load the same adjacent elements, by several wide accesses."""
        is_alike = (
            self._texels and not {*layout.threads} - {None} and layout.registers == (*range(len(layout.registers)),)
        )
        is_wide = 1 < len(groups) <= self._exchange.n_lanes and len(groups[0]) == ADJACENT
        return is_alike and is_wide and self._offsets.consecutive(offsets)

    def _shared(self, memory: Memory, offset: Value, n_groups: int) -> list[Value]:
        """Loads elements from an offset on, of which each lane loads four, and shuffles them to all lanes."""
        b = self._b
        lane = b.cast(b.compute("and", self._thread, b.const(n_groups - 1, INT32)), UINT32)
        number = b.compute("add", b.compute("shr", b.cast(offset, UINT32), b.const(2, UINT32)), lane)
        mine = self._access(self._loaders, memory, is_result=False).load(b, number)
        return [self._exchange.from_lane(value, at) for at in range(n_groups) for value in mine]

    def _group(self, memory: Memory, offsets: list[Value], mask: Sequence[Value] | None) -> list[Value]:
        """Loads adjacent elements by a wide access, or one element; where the mask is False, the first of all."""
        b = self._b
        if len(offsets) == 1:
            return [b.load(memory, self._inside(offsets[0], None if mask is None else mask[0]))]
        any_ = None if mask is None else reduce(lambda x, y: x if x is y else b.compute("or", x, y), mask)
        number = b.compute("shr", b.cast(self._inside(offsets[0], any_), UINT32), b.const(2, UINT32))
        return self._access(self._loaders, memory, is_result=False).load(b, number)

    def _inside(self, offset: Value, mask: Value | None) -> Value:
        return offset if mask is None else self._b.select(mask, offset, self._b.const(0, INT32))

    def _groups(self, memory: Memory, offsets: Sequence[Value]) -> list[Group]:
        """Returns the registers that one access covers: those that differ in two bits of their numbers, or single ones.

        Along the first of these bits offsets differ by one, along the other by two.
        """
        steps = self._offsets.steps(offsets) if memory in self._wide else {}
        if not {1, 2} <= steps.keys():
            return [(at,) for at in range(len(offsets))]
        groups: list[Group] = []
        for at in range(len(offsets)):
            if at & (steps[1] | steps[2]):
                continue
            group = at, at | steps[1], at | steps[2], at | steps[1] | steps[2]
            is_wide = self._offsets.adjacent([offsets[index] for index in group])
            groups += [group] if is_wide else [(index,) for index in group]
        return groups

    def _access(self, known: dict[Memory, BlockAccess], memory: Memory, *, is_result: bool) -> BlockAccess:
        if memory not in known:
            words = ElementBlock(
                ADJACENT, self._word, self._texels and memory not in self._written, pairs=not self._texels
            )
            known[memory] = BlockAccess(
                self._b.function, f"{memory.name} wide", memory.element, words, is_result=is_result
            )
            self.aliases.append(memory)
        return known[memory]

    # -- stores -------------------------------------------------------------------------------------------------------

    def store(self, op: Op, layout: Layout | None, args: Sequence[list[Value]]) -> None:
        """Stores elements; args are offsets, values and perhaps the mask."""
        self._order(op, layout, writes=True)
        memory, offsets = op.attribute.memory, args[0]

        def build() -> None:
            partial_groups = []
            for group in self._groups(memory, offsets):
                offset, values, *masks = ([column[at] for at in group] for column in args)
                mask = common_mask(masks[0], self._offsets) if masks else None
                is_partial = self._store_group(memory, offset, values, mask)
                if mask is not None and is_partial:
                    partial_groups.append((offset[0], values, mask))
            for first in range(0, len(partial_groups), _MOST_GROUPS):
                self._store_partial(memory, partial_groups[first : first + _MOST_GROUPS])

        where(self._b, owner(self._b, self._thread, layout), build)

    def _store_group(
        self, memory: Memory, offsets: list[Value], values: list[Value], mask: Sequence[Value] | None
    ) -> bool:
        """Stores one element, or adjacent ones if the mask of all is True; returns True if it may be so of some."""
        b = self._b
        if len(offsets) == 1:
            where(self._b, mask[0] if mask else None, partial(b.store, memory, offsets[0], values[0]))
            return False

        def whole() -> None:
            number = b.compute("shr", b.cast(offsets[0], UINT32), b.const(2, UINT32))
            self._access(self._storers, memory, is_result=True).store(b, number, values)

        where(self._b, self._of_all(mask), whole)
        return mask is not None and any(condition is not mask[0] for condition in mask)

    def _of_all(self, mask: Sequence[Value] | None) -> Value | None:
        return None if mask is None else reduce(lambda x, y: x if x is y else self._b.compute("and", x, y), mask)

    def _store_partial(self, memory: Memory, groups: Sequence[tuple[Value, list[Value], Sequence[Value]]]) -> None:
        """Stores the elements of the groups of which the mask is True for some, one group per iteration of a loop.

        Most programs have one such group, at the end of an array, and drivers for CPUs execute both sides of a branch.
        """
        b = self._b
        bits: Value = b.const(0, UINT32)
        for number, (_, _, mask) in enumerate(groups):
            any_ = reduce(lambda x, y: b.compute("or", x, y), mask)
            some = b.compute("and", any_, b.compute("not", self._of_all(mask) or any_))
            bits = b.compute("or", bits, b.select(some, b.const(1 << number, UINT32), b.const(0, UINT32)))
        loop = b.loop(bits, b.const(0, UINT32))
        with loop.body:
            left, count = loop.params
            at_end = b.compute("ge", count, b.const(len(groups), UINT32))
            with b.if_(b.compute("or", at_end, b.compute("eq", left, b.const(0, UINT32)))).then:
                b.break_(loop)
            at = b.compute("find_lsb", left)
            first, *rest = self._chosen([[offset, *values, *mask] for offset, values, mask in groups], at)
            for n in range(ADJACENT):
                offset = b.compute("add", first, b.const(n, INT32))
                where(self._b, rest[ADJACENT + n], partial(b.store, memory, offset, rest[n]))
            less = b.compute("and", left, b.compute("sub", left, b.const(1, UINT32)))
            b.yield_(less, b.compute("add", count, b.const(1, UINT32)))

    def _chosen(self, rows: Sequence[Sequence[Value]], at: Value) -> Sequence[Value]:
        """Returns one of several rows of values, by the bits of its index, the lowest first."""
        b, bit = self._b, 1
        while len(rows) > 1:
            is_set = b.compute("ne", b.compute("and", at, b.const(bit, UINT32)), b.const(0, UINT32))
            pairs = zip(rows[::2], rows[1::2], strict=False)
            chosen = [[b.select(is_set, y, x) for x, y in zip(*pair, strict=True)] for pair in pairs]
            rows, bit = [*chosen, *rows[len(rows) & ~1 :]], bit * 2
        return rows[0]

    # -- atomic operations --------------------------------------------------------------------------------------------

    def atomic(self, op: Op, layout: Layout | None, args: Sequence[list[Value]]) -> list[Value]:
        """Combines elements atomically, each once; returns the values before to all holders of the element.

        An operation on a scalar may be that of a lock, so accesses before and after it are ordered for other programs.
        """
        access, b = op.attribute, self._b
        if layout is None:
            b.fence()
        self._order(op, layout, writes=True)
        alone = owner(b, self._thread, layout)
        mask = args[-1] if access.masked else [None] * len(args[0])
        values = args[1:-1] if access.masked else args[1:]
        results = []
        for n, offset in enumerate(args[0]):
            row = [column[n] for column in values]
            conditions = [condition for condition in (alone, mask[n]) if condition is not None]
            results.append(self._atomic(access, offset, row, conditions))
        results = results if alone is None else self._exchange.shared_by_all(results, layout)
        if layout is None:
            b.fence()
        return results

    def _atomic(self, access: object, offset: Value, row: Sequence[Value], conditions: Sequence[Value]) -> Value:
        b, memory, name = self._b, access.memory, access.name  # type: ignore[attr-defined]

        def perform() -> Value:
            if name == "compare_exchange":
                return b.compare_exchange(memory, offset, row[0], row[1])
            return b.atomic(name, memory, offset, row[0])

        if not conditions:
            return perform()
        branch = b.if_(reduce(lambda x, y: b.compute("and", x, y), conditions))
        with branch.then:
            b.yield_(perform())
        with branch.otherwise:
            b.yield_(b.const(0, memory.element))
        return branch.results[0]


_LOGICAL = "and", "or", "not"
_BOUNDS = {"lt": (0, 1), "ge": (0, 1), "gt": (1, 0), "le": (1, 0)}
"""Comparison that is the same for x, x + 1, … up to the next multiple -> places of x, and of the multiple."""


def common_mask(masks: Sequence[Value], offsets: Offsets) -> Sequence[Value]:
    """Returns the masks of adjacent elements: that of the first for all, if they are known to be equal."""
    return [masks[0]] * len(masks) if _are_equal(masks, offsets) else masks


def _are_equal(values: Sequence[Value], offsets: Offsets) -> bool:
    first = values[0]
    if all(value is first for value in values):
        return True
    ops = [value for value in values if isinstance(value, Op) and isinstance(first, Op) and value.code == first.code]
    if len(ops) < len(values):
        return False
    columns = list(zip(*[op.args for op in ops], strict=True))
    if ops[0].code in _LOGICAL:
        return all(_are_equal(column, offsets) for column in columns)
    if ops[0].code == "eq":
        return all(value is columns[1][0] for value in columns[1]) and _have_equal_upper_bits(columns[0], offsets)
    if ops[0].code not in _BOUNDS:
        return False
    inside, bounds = (columns[at] for at in _BOUNDS[ops[0].code])
    return all(bound is bounds[0] for bound in bounds) and offsets.between_multiples(inside, bounds[0])


def _have_equal_upper_bits(values: Sequence[Value], offsets: Offsets) -> bool:
    """True if values are the upper bits of integers that count upwards by one from a multiple of their number."""
    ops = [value for value in values if isinstance(value, Op) and value.code == "shr"]
    amounts = {int(op.args[1].value) for op in ops if isinstance(op.args[1], Constant)}
    if len(ops) < len(values) or len(amounts) != 1 or 1 << min(amounts) < len(values):
        return False
    return offsets.is_run([op.args[0] for op in ops])
