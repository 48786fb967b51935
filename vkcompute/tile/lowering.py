"""Lowers a function of blocks to a kernel in `ir/`: each block becomes the numbers that an invocation holds."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import zip_longest
from typing import NamedTuple

from vkcompute import ir
from vkcompute.compiled.report import Site
from vkcompute.ir import INT32, UINT32, Constant, Memory, Value
from vkcompute.ir.function import Function, Op, Param, Region, Result, walk
from vkcompute.ir.types import element_of
from vkcompute.tile.access import Accesses
from vkcompute.tile.block_reports import BlockReports
from vkcompute.tile.contiguity import Offsets, divisors_with_params
from vkcompute.tile.exchange import Exchange
from vkcompute.tile.layout import Layout, axis_bits, log2, without_axis
from vkcompute.tile.matrices import Matrices, MatrixLayout
from vkcompute.tile.narrowing import narrow_offsets
from vkcompute.tile.overlaps import written_buffers
from vkcompute.tile.padding import pad
from vkcompute.tile.placement import Placement, operands, shares_rows, source_bits
from vkcompute.tile.product_loops import roll_products
from vkcompute.tile.register_products import Operands, RegisterProducts
from vkcompute.tile.registers import Group, LazyRegisters
from vkcompute.tile.simplification import remove_checks
from vkcompute.tile.staging import Staging
from vkcompute.tile.subgroup_exchanges import BeyondSubgroupError, SubgroupExchanges, without_barriers
from vkcompute.tile.target import Target
from vkcompute.tile.types import Block, shape_of
from vkcompute.tile.workgroup_memory import LoweringError, WorkgroupMemory


class Lowered(NamedTuple):
    """A kernel.

    Attributes:
        function: the kernel in `ir/`.
        aliases: for each of the buffers after those of the block program, which of these it is bound to once more.
        sites: the places that report; if there are any, the buffer for reports is the last one.
    """

    function: Function
    aliases: tuple[int, ...]
    sites: tuple[Site, ...] = ()


def lower(
    function: Function,
    target: Target,
    *,
    n_warps: int = 4,
    divisors: Mapping[Value, int] | None = None,
    wide: Collection[Memory] = (),
    overlapping: bool = False,
    aliased: bool = False,
    asserts: bool = True,
) -> Lowered:
    """Lowers a function of blocks; changes it.

    Args:
        n_warps: the invocations of a workgroup are at most 32 times as many.
        divisors: powers of two that divide push constants.
        wide: the buffers that are padded to whole blocks of adjacent elements, and begin at an aligned byte.
        overlapping: True if buffers may overlap without being the same.
        aliased: True if buffers may have bytes in common.
        asserts: False to leave out reports that fail.
    """
    if not asserts:
        remove_checks(function)
    pad(function)
    narrow_offsets(function)
    roll_products(function, target, aliased=aliased or overlapping)
    known = divisors_with_params(function, divisors or {})
    lowering = partial(_Lowering, function, wide=wide, overlapping=overlapping, aliased=aliased or overlapping)
    within = without_barriers(function, target)
    if within is not None:
        with suppress(BeyondSubgroupError):
            return lowering(within, n_warps, dict(known), SubgroupExchanges(log2(target.subgroup_size))).run()
    return lowering(target, n_warps, known).run()


class _Lowering:
    """The lowering of one function."""

    def __init__(
        self,
        function: Function,
        target: Target,
        n_warps: int,
        divisors: dict[Value, int],
        within: SubgroupExchanges | None = None,
        *,
        wide: Collection[Memory],
        overlapping: bool,
        aliased: bool,
    ) -> None:
        self._function, self._placement = function, Placement(function, target, n_warps)
        made = Function(function.name, (1 << self._placement.n_threads, 1, 1))
        made.buffers, made.pushes = [*function.buffers], [*function.pushes]
        self._b, self._divisors = ir.Builder(made), divisors
        self._made, self._scalars = made, dict[Value, Value](zip(made.pushes, made.pushes, strict=True))
        self._blocks: dict[tuple[Value, Layout], Sequence[Value]] = {}
        self._loops: dict[Op, ir.Loop] = {}
        self._thread = self._thread_number(target.subgroup_size)
        packs = target.own_elements > 1 and _INDIVISIBLE.isdisjoint(op.code for op in walk(function.body))
        self._memory = WorkgroupMemory(made, target.shared_nbytes, overlays=target.overlays, packs=packs)
        lanes = self._placement.lanes
        self._exchange = Exchange(self._b, self._thread, lanes, self._memory, within, shuffles=target.shuffles)
        self._matrices = Matrices(self._b, self._thread, self._exchange, self._memory, lanes)
        self._products, self._staging = RegisterProducts(self._b, self._exchange), Staging(self._b, self._exchange)
        self._reports = BlockReports(made, self._b, self._thread)
        self._naturals = {self._thread}
        offsets = Offsets(divisors, self._naturals)
        self._aliased, self._written = aliased, written_buffers(function)
        self._accesses = Accesses(
            self._b,
            self._thread,
            offsets,
            wide,
            self._exchange,
            texels=target.texels,
            word="uint32" if any(op.code == "dot" for op in walk(function.body)) else target.word,
            overlapping=overlapping,
            aliased=aliased,
            written=function.buffers if self._written and aliased else self._written,
        )

    def run(self) -> Lowered:
        """Returns the kernel."""
        self._region(self._function.body, None)
        originals = self._function.buffers
        shared = self._made.buffers if self._written and self._aliased else self._written
        self._made.aliased = frozenset(
            [buffer for memory in shared if memory in originals for buffer in self._accesses.bound_with(memory)]
        )
        self._reports.records.put_last()
        self._memory.declare()
        aliases = tuple([originals.index(alias) for alias in self._accesses.aliases])
        return Lowered(self._made, aliases, tuple(self._reports.records.sites))

    def _thread_number(self, subgroup_size: int) -> Value:
        """Returns the invocation's number in its workgroup, whose low bits are its lane, int32.

        Vulkan leaves open how local indices are distributed to subgroups. Subgroups are full, as their size divides the
        workgroup's.
        """
        b = self._b
        if subgroup_size == 1:
            return b.cast(b.builtin("local_index"), INT32)
        first = b.compute("mul", b.builtin("subgroup_id"), b.const(subgroup_size, UINT32))
        return b.cast(b.compute("add", first, b.builtin("subgroup_local_id")), INT32)

    # -- values -------------------------------------------------------------------------------------------------------

    def _scalar(self, value: Value) -> Value:
        if isinstance(value, Constant):
            return self._b.const(value.value, element_of(value.type))
        return self._scalars[value]

    def _registers(self, value: Value, layout: Layout) -> Sequence[Value]:
        return self._blocks[value, layout]

    def _flat(self, sources: Sequence[Value], targets: Sequence[Value]) -> list[Value]:
        """Returns the numbers that are passed to loop-carried values or results."""
        pairs = [
            (source, target) for source, target in zip(sources, targets, strict=True) if isinstance(target.type, Block)
        ]
        blocks = [
            self._registers(source, layout) for source, target in pairs for layout in self._placement.computed(target)
        ]
        for _ in zip_longest(*blocks):  # computes the first element of all blocks, the second of all, and so on
            pass
        numbers: list[Value] = []
        for source, target in zip(sources, targets, strict=True):
            if isinstance(target.type, Block):
                for layout in self._placement.computed(target):
                    numbers += self._registers(source, layout)
            else:
                numbers.append(self._scalar(source))
        return numbers

    def _bind(self, targets: Sequence[Param | Result], values: Sequence[Value]) -> None:
        """Notes the numbers of loop-carried values or results, in the order of `_flat`."""
        at = 0
        for target in targets:
            if not isinstance(target.type, Block):
                self._scalars[target] = values[at]
                if target in self._divisors:
                    self._divisors[values[at]] = self._divisors[target]
                at += 1
                continue
            for layout in self._placement.computed(target):
                self._blocks[target, layout] = list(values[at : at + layout.n_registers])
                at += layout.n_registers
        for target in targets:
            self._deliver_from_home(target)

    # -- control flow -------------------------------------------------------------------------------------------------

    def _region(self, region: Region, owner: Op | None) -> None:
        for op in region.ops:
            self._located(op, owner)

    def _located(self, op: Op, owner: Op | None) -> None:
        """Builds an operation; an error gets its place."""
        try:
            with self._b.at(op.loc):
                self._operation(op, owner)
        except LoweringError as error:
            error.location = error.location or op.loc
            raise

    def _operation(self, op: Op, owner: Op | None) -> None:
        if op.code == "yield":
            targets = () if owner is None else owner.params if owner.code == "loop" else owner.results
            self._b.yield_(*(self._flat(op.args, targets) if targets else ()))
        elif op.code == "assume":
            self._naturals.add(self._scalar(op.args[0]))
        elif op.code in _STEPS:
            _STEPS[op.code](self, op)
        elif op.has_result and isinstance(op.type, Block):
            self._elements(op)
        else:
            self._b.copy(op, self._scalars)

    def _if(self, op: Op) -> None:
        branch = self._b.if_(self._scalar(op.args[0]))
        pending, in_use = self._accesses.pending, self._exchange.in_use
        ends = []
        for inner, region in zip((branch.then, branch.otherwise), op.regions, strict=True):
            self._accesses.pending, self._exchange.in_use = dict(pending), in_use
            with inner:
                self._region(region, op)
            ends.append((self._accesses.pending, self._exchange.in_use))
        keys = {key for accesses, _ in ends for key in accesses}
        self._accesses.pending = {key: any(accesses.get(key, False) for accesses, _ in ends) for key in keys}
        self._exchange.in_use = any(in_use for _, in_use in ends)
        self._bind(op.results, branch.results)

    def _loop(self, op: Op) -> None:
        loop = self._loops[op] = self._b.loop(*self._flat(op.args, op.params))
        with loop.body:
            accesses = [inner for inner in walk(op.regions[0]) if inner.code in _MEMORY]
            self._exchange.in_use = True
            if any(access.operation.writes for access in accesses):
                self._exchange.barrier()  # between the accesses of one iteration and of the next
            self._bind(op.params, loop.params)
            self._region(op.regions[0], op)
        self._exchange.in_use = True
        self._bind(op.results, loop.results)
        self._accesses.note_loop(op, accesses)

    def _break(self, op: Op) -> None:
        loop = op.attribute
        self._b.break_(self._loops[loop], *self._flat(op.args, loop.results))

    def _continue(self, op: Op) -> None:
        loop = op.attribute
        self._b.continue_(self._loops[loop], *self._flat(op.args, loop.params))

    # -- elements -----------------------------------------------------------------------------------------------------

    def _elements(self, op: Op) -> None:
        """Computes a block in each of its layouts."""
        for layout in self._placement.computed(op):
            self._blocks[op, layout] = _ELEMENTS.get(op.code, _Lowering._computed)(self, op, layout)
        self._deliver_from_home(op)

    def _computed(self, op: Op, layout: Layout) -> Sequence[Value]:
        """Applies an operation to each element that the invocation holds, once for each tuple of operands.

        So elements that are stored together keep one value as condition (`Accesses.store`).
        """
        given, b, kind = [self._registers(arg, layout) for arg in op.args], self._b, element_of(op.type)
        converts = {"cast": b.cast, "bitcast": b.bitcast}.get(op.code)

        @cache
        def compute(*row: Value) -> Value:
            return converts(row[0], kind) if converts else b.compute(op.code, *row)

        return self._by_element(op, len(given[0]), lambda at: compute(*[registers[at] for registers in given]))

    def _by_element(self, op: Op, n: int, element: Callable[[int], Value]) -> Sequence[Value]:
        """Returns n elements of a block, each of which is computed where it is first needed, or all at once."""
        if op not in self._placement.chained or n <= _NAMED_REGISTERS:
            return [element(at) for at in range(n)]

        def compute(group: Group) -> list[Value]:
            with self._b.at(op.loc):
                return [element(at) for at in group]

        return LazyRegisters(compute, [(at,) for at in range(n)])

    def _arange(self, op: Op, layout: Layout) -> list[Value]:
        b, first = self._b, self._accesses.first_element(layout)
        return [
            b.compute("add", first, b.const(layout.element(register), INT32)) for register in range(layout.n_registers)
        ]

    def _splat(self, op: Op, layout: Layout) -> list[Value]:
        if isinstance(layout, MatrixLayout):
            return self._matrices.filled(self._scalar(op.args[0]), layout)
        return [self._scalar(op.args[0])] * layout.n_registers

    def _shape(self, op: Op, layout: Layout) -> Sequence[Value]:
        bits = source_bits(op)
        given, sources = self._registers(op.args[0], layout.mapped(bits)), [*layout.sources(bits)]
        return self._by_element(op, len(sources), lambda at: given[sources[at]])

    # -- memory -------------------------------------------------------------------------------------------------------

    def _load(self, op: Op) -> None:
        if not isinstance(op.type, Block):
            self._scalars[op] = self._accesses.load(op, None, [[self._scalar(arg)] for arg in op.args])[0]
            return
        load = self._accesses.lazy_load if op in self._placement.lazy else self._accesses.load
        for layout in self._placement.computed(op):
            args = [list(self._registers(arg, layout)) for arg in op.args]
            self._blocks[op, layout] = load(op, layout, args)
        self._deliver_from_home(op)

    def _store(self, op: Op) -> None:
        own = self._placement.own.get(op)
        self._accesses.store(op, own, self._arguments(op, own))

    def _atomic(self, op: Op) -> None:
        own = self._placement.own.get(op)
        results = self._accesses.atomic(op, own, self._arguments(op, own))
        if own is None:
            self._scalars[op] = results[0]
        else:
            self._deliver(op, own, results)

    def _arguments(self, op: Op, own: Layout | None) -> list[list[Value]]:
        if own is None:
            return [[self._scalar(arg)] for arg in op.args]
        return [list(self._registers(arg, own)) for arg in op.args]

    # -- along axes ---------------------------------------------------------------------------------------------------

    def _combine(self, op: Op) -> Callable[[Sequence[Value], Sequence[Value]], list[Value]]:
        """Returns the function by which a reduction combines."""
        *ops, end = op.regions[0].ops

        def combine(one: Sequence[Value], other: Sequence[Value]) -> list[Value]:
            env: MutableMapping[Value, Value] = ChainMap({}, self._scalars)
            env.update(zip(op.params, (*one, *other), strict=True))
            for inner in ops:
                self._b.copy(inner, env)  # type: ignore[arg-type]
            return [env.get(value, value) for value in end.args]

        return combine

    def _reduce(self, op: Op) -> None:
        own, shape = self._placement.own[op], shape_of(op.args[0].type)
        bits = without_axis(shape, op.attribute.axis)
        rows = list(zip(*[self._registers(arg, own) for arg in op.args], strict=True))
        reduced = self._exchange.reduced(rows, own, bits, self._combine(op), ordered=op.attribute.ordered)
        for at, result in enumerate(op.results):
            column = [row[at] for row in reduced]
            if isinstance(result.type, Block):
                self._deliver(result, own.mapped(bits), column)
            else:
                self._scalars[result] = column[0]

    def _scan(self, op: Op) -> None:
        own, shape = self._placement.own[op], shape_of(op.args[0].type)
        along = [bit for bit, kept in enumerate(without_axis(shape, op.attribute.axis)) if kept is None]
        rows = list(zip(*[self._registers(arg, own) for arg in op.args], strict=True))
        scanned = self._exchange.scanned(rows, own, along, self._combine(op), reverse=op.attribute.reverse)
        for at, result in enumerate(op.results):
            self._deliver(result, own, [row[at] for row in scanned])

    def _mirror(self, op: Op) -> None:
        own = self._placement.own[op]
        self._deliver(op, own, self._exchange.mirrored(list(self._registers(op.args[0], own)), own, op.attribute))

    def _gather(self, op: Op) -> None:
        own, source = self._placement.own[op], self._placement.anchor(op.args[0])
        values, index = list(self._registers(op.args[0], source)), list(self._registers(op.args[1], own))
        bits = axis_bits(shape_of(op.args[0].type), op.attribute), axis_bits(shape_of(op.type), op.attribute)
        self._deliver(op, own, self._exchange.gathered(values, source, index, own, *bits))

    def _stage(self, op: Op) -> None:
        layouts = self._placement.staged[op]
        blocks = [(list(self._registers(*block)), block[1]) for block in zip(op.args, layouts, strict=True)]
        self._staging.stage(op, blocks)

    def _part(self, op: Op, layout: Layout) -> list[Value]:
        return self._staging.part(op, layout, self._scalar(op.args[1]))

    def _histogram(self, op: Op) -> None:
        own = self._placement.own[op]
        columns = [list(self._registers(arg, own)) for arg in op.args]
        read = self._exchange.counted(columns, own, shape_of(op.type)[0])
        for layout in self._placement.computed(op):
            self._blocks[op, layout] = read(layout)
        self._deliver_from_home(op)

    def _deliver(self, value: Value, layout: Layout, registers: list[Value]) -> None:
        """Notes the numbers of a block, and exchanges them for those of the other layouts in which it is needed."""
        all_wanted = self._placement.layouts.get(value, ())
        if isinstance(layout, MatrixLayout):
            self._blocks[value, layout] = registers
            if any(wanted != layout for wanted in all_wanted):
                self._deliver(value, layout.elements, self._matrices.elements(registers, layout))
            return
        for wanted in all_wanted:
            if isinstance(wanted, MatrixLayout):
                if (value, wanted) not in self._blocks:
                    elements = self._exchange.converted(registers, layout, wanted.elements)
                    self._blocks[value, wanted] = self._matrices.joined(elements, wanted)
            else:
                self._blocks[value, wanted] = self._exchange.converted(registers, layout, wanted)

    def _deliver_from_home(self, value: Value) -> None:
        """Exchanges the numbers of a block in the layout in which it is computed for those of the others."""
        home = self._placement.homes.get(value)
        if home is not None:
            self._deliver(value, home, list(self._registers(value, home)))

    def _report(self, op: Op) -> None:
        own = self._placement.own.get(op)
        self._reports.report(op, own, _rows(self._arguments(op, own)))

    # -- products -----------------------------------------------------------------------------------------------------

    def _dot(self, op: Op) -> None:
        """Adds the products of rows and columns, by cooperative matrices or by the registers of an invocation."""
        own = self._placement.own[op]
        if isinstance(own, MatrixLayout):
            staged = zip(op.args[:2], self._placement.staged[op], strict=True)
            blocks = [(self._registers(*operand), operand[1]) for operand in staged]
            shapes, sums = [shape_of(operand.type) for operand in op.args[:2]], self._registers(op.args[2], own)
            self._deliver(op, own, self._matrices.multiplied(blocks, shapes, sums, own, self._placement.slices[op]))
            return
        sums = list(self._registers(op.args[2], own))
        is_staged = op in self._placement.staged
        self._deliver(op, own, self._products.multiplied(op, self._operands(op, own), sums, own, staged=is_staged))

    def _operands(self, op: Op, own: Layout) -> Operands:
        """Returns the operands of a product.

        Args:
            own: the layout of the sums.
        """
        given = op.args[:2]
        staged = self._placement.staged.get(op)
        if staged is not None:
            layouts = operands(op, own, 0)
            blocks = [(list(self._registers(*operand)), operand[1]) for operand in zip(given, staged, strict=True)]
            stages = [(*block, layout) for block, layout in zip(blocks, layouts, strict=True)]
            return Operands(layouts, self._exchange.staged(stages), 0)
        n_lanes = self._placement.lanes
        layouts = operands(op, own, n_lanes)
        n_shared = n_lanes if shares_rows(own, log2(shape_of(op.type)[-1]), n_lanes) else 0
        registers = [self._registers(*operand) for operand in zip(given, layouts, strict=True)]
        return Operands(layouts, registers, n_shared)


def _rows(columns: Sequence[Sequence[Value]]) -> list[tuple[Value, ...]]:
    return list(zip(*columns, strict=True))


_NAMED_REGISTERS = 16
"""Vector registers of a CPU with AVX2. With more elements per invocation, results of operations are spilled."""
_INDIVISIBLE = {"dot", "histogram", "stage"}
"""Operations that cannot pass through workgroup memory in pieces."""
_MEMORY = "load_block", "store_block", "atomic_block"
_STEPS: dict[str, Callable[[_Lowering, Op], None]] = {
    "if": _Lowering._if,
    "loop": _Lowering._loop,
    "break": _Lowering._break,
    "continue": _Lowering._continue,
    "load_block": _Lowering._load,
    "store_block": _Lowering._store,
    "atomic_block": _Lowering._atomic,
    "reduce": _Lowering._reduce,
    "scan": _Lowering._scan,
    "dot": _Lowering._dot,
    "stage": _Lowering._stage,
    "mirror": _Lowering._mirror,
    "gather": _Lowering._gather,
    "report": _Lowering._report,
    "histogram": _Lowering._histogram,
}
_ELEMENTS: dict[str, Callable[[_Lowering, Op, Layout], Sequence[Value]]] = {
    "arange": _Lowering._arange,
    "part": _Lowering._part,
    "splat": _Lowering._splat,
    "reshape": _Lowering._shape,
    "broadcast": _Lowering._shape,
    "permute": _Lowering._shape,
}
