"""Layout choice: the layouts in which each value of a block program is computed.

Stores, reductions and products have a layout of their own. What is computed from their results has that layout, too,
and is exchanged between invocations where another one is needed. All else is computed in the layouts in which it is
needed, in several if need be: a load or an index costs less than an exchange.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from vkcompute.ir import Function, Value
from vkcompute.ir.function import Op, Param, Result, back_edges, exits, walk
from vkcompute.ir.types import element_of
from vkcompute.tile.layout import Layout, axis_bits, blocked, broadcast_bits, log2, permuted_bits, without_axis
from vkcompute.tile.matrices import MatrixLayout, matrix_layout, n_slices
from vkcompute.tile.shuffles import is_within_subgroups
from vkcompute.tile.target import MatrixShape, Target
from vkcompute.tile.types import Block, shape_of

_MOST_SUMS = 128  # of products by cooperative matrices, per invocation
_MOST_ELEMENTS = 256  # of a block, per invocation: drivers take minutes to compile code for 1,024
_MOST_OF_ELEMENTWISE = 32  # per invocation: lavapipe compiles tl.rand in 0.3 s, of 128 in 2.3 s; it runs as fast
_MOST_ATOMICS = 32  # per invocation: lavapipe compiles 512 loops of compare-exchanges in a minute
_MOST_MIRRORED = 1 << 18  # elements of all unrolled exchanges; a sort of 2,048 has half of it, and compiles in 4 s
_OF_LONG_SORTS = 32  # elements per invocation: lavapipe compiles a sort of 4,096 in 3 s, and of 128 in 7 s
_MANY = 8  # log2 of the elements per invocation from which a reduction has them along its axis
_ADJACENT = 2  # log2 of the adjacent elements that it loads and stores together


class Placement:
    """The layouts of the values of a function.

    Attributes:
        n_threads: log2 of the invocations of a workgroup.
        layouts: the layouts of each block.
        homes: the layout in which a block is computed that is exchanged for other layouts.
        own: the layout in which an operation reads its operands: of a reduction or scan, a store, an atomic
            operation, of indices, and of the sums of a product.
        staged: for stages, and products whose operands pass through workgroup memory, the layouts in which these are
            written.
        slices: for the products by cooperative matrices, the slices in which operands pass through workgroup memory.
        lazy: the loads whose elements only a product needs, which loads them one after the other.
        chained: on CPUs, the operations whose elements are computed where they are first needed. So a chain of
            operations is computed element by element, and spills no results in between.
    """

    def __init__(self, function: Function, target: Target, n_warps: int) -> None:
        self._target, ops = target, walk(function.body)
        self.lanes = log2(target.subgroup_size)
        self.slices: dict[Op, int] = {}
        sums = max([1 << _bits(op) for op in ops if op.code == "dot"], default=0)
        self._most_groups = max(32 * n_warps, sums // _MOST_SUMS) >> self.lanes
        self.n_threads = self._size(ops, n_warps)
        self.layouts: dict[Value, list[Layout]] = {}
        self.own: dict[Op, Layout] = {}
        self.homes: dict[Value, Layout] = {}
        self.staged: dict[Op, list[Layout]] = {}
        self._staged_nbytes = Counter[int]()  # the most bytes of a product's operands, by the bits of an element
        self.owners = {
            value: (op, at) for op in ops for group in (op.params, op.results) for at, value in enumerate(group)
        }
        self._natural: dict[Value, Layout | None] = {}
        self._n_uses = Counter(value for op in ops for value in op.args)
        for op in ops:
            self._root(op)
        self.lazy = _lazy_loads(function, ops)
        self.chained = _chained(function, ops) if target.own_elements > 1 else set[Op]()

    def _size(self, ops: Sequence[Op], n_warps: int) -> int:
        """Returns log2 of the invocations: as many as `n_warps` warps of 32, or fewer for small blocks.

        Products, atomic operations, long sorts and large blocks take more, so that an invocation has few elements.
        """
        most = log2(self._target.max_invocations)
        bits = [_bits(value) for op in ops for value in (op, *op.results, *op.args) if _is_block(value)]
        products = [_bits(op) for op in ops if op.code == "dot"]
        chosen = [(op, self._matrices(op)) for op in ops if op.code == "dot"]
        tiles = max(
            [_bits(op) - log2(shape.rows * shape.columns) for op, shape in chosen if shape is not None], default=None
        )
        if tiles is not None:
            wanted = max(min(log2(32 * n_warps), self.lanes + tiles), max(products) - log2(_MOST_SUMS))
        elif products:
            wanted = max(products) - log2(self._target.sums)
        else:
            few = _MOST_OF_ELEMENTWISE if _is_elementwise(ops) else self._target.own_elements
            own = max(_ADJACENT, log2(min(few, self._target.own_elements)))
            wanted = min(log2(32 * n_warps), max(bits, default=0) - own)
            wanted = max(wanted, max(bits, default=0) - log2(_MOST_ELEMENTS))
            if self._target.spreads:
                wanted = max(bits, default=0)
        atomics = [_bits(op.args[0]) for op in ops if op.code == "atomic_block" and _is_block(op.args[0])]
        mirrors = [_bits(op) for op in ops if op.code == "mirror"]
        if sum(1 << n for n in mirrors) > _MOST_MIRRORED:
            wanted = max(wanted, max(mirrors) - log2(_OF_LONG_SORTS))
        wanted = max([wanted, *[bits - log2(_MOST_ATOMICS) for bits in atomics]])
        return min(max(wanted, self.lanes), most)

    def _root(self, op: Op) -> None:
        """Demands the operands of an operation that has a layout of its own."""
        if op.code in ("store_block", "atomic_block"):
            value = op.args[1]
            if _is_block(value):
                self.own[op] = self.anchor(value)
                self._demand(self.own[op], *op.args)
        elif op.code == "mirror":
            self.own[op] = self._for_mirrors(op.args[0])
            self._demand(self.own[op], *op.args)
        elif op.code in ("reduce", "scan", "histogram", "report") and any(map(_is_block, op.args)):
            self.own[op] = self._for_reduction(op) if op.code == "reduce" else self.anchor(op.args[0])
            self._demand(self.own[op], *op.args)
        elif op.code == "gather":
            self.own[op] = self.anchor(op.args[1])
            self._demand(self.anchor(op.args[0]), op.args[0])
            self._demand(self.own[op], op.args[1])
        elif op.code == "stage":
            self.staged[op] = [self.anchor(value) for value in op.args]
            for value, layout in zip(op.args, self.staged[op], strict=True):
                self._demand(layout, value)
        elif op.code == "dot":
            self.own[op] = self._product(op)
            layouts = self._written(op)
            if layouts is not None:
                self.staged[op] = layouts
            for value, layout in zip(op.args, layouts or operands(op, self.own[op], self.lanes), strict=False):
                self._demand(layout, value)
            self._demand(self.own[op], op.args[2])

    def _written(self, op: Op) -> list[Layout] | None:
        """Returns the layouts in which the operands of a product are written to workgroup memory; None if they are not.

        They take at most half of it, so that the memory suffices for two workgroups at once and, without overlays, for
        other exchanges.
        """
        given = op.args[:2]
        if isinstance(self.own[op], MatrixLayout):
            return [self._wide(arg) or blocked(_bits(arg), self.n_threads, _ADJACENT, _ADJACENT) for arg in given]
        own = Counter[int]()
        for value in given:
            own[element_of(value.type).bits] += element_of(value.type).bits // 8 << _bits(value)
        sizes = own if self._target.overlays else self._staged_nbytes | own
        if not self._target.stages or sizes.total() > self._target.shared_nbytes // 2:
            return None
        layouts = [self._regular(arg) or blocked(_bits(arg), self.n_threads, _ADJACENT, _ADJACENT) for arg in given]
        wide = (layout.registers[:_ADJACENT] == (0, 1) for layout in (*layouts, *operands(op, self.own[op], 0)))
        if not all(wide):
            return None
        self._staged_nbytes = sizes
        return layouts

    def computed(self, value: Value) -> list[Layout]:
        """Returns the layouts in which a value is computed; exchanges give the others."""
        return [self.homes[value]] if value in self.homes else self.layouts.get(value, [])

    def canonical(self, value: Value) -> Layout:
        """Returns the layout for wide accesses to a block of this size."""
        return blocked(_bits(value), self.n_threads, _ADJACENT)

    def _for_mirrors(self, value: Value) -> Layout:
        """Returns the layout in which a block is mirrored.

        Sorting networks exchange elements along the lowest bits most often: these are in registers.
        """
        return self._regular(value) or blocked(_bits(value), self.n_threads, _bits(value))

    def _for_reduction(self, op: Op) -> Layout:
        """Returns the layout in which a reduction reads its operands.

        Many elements per invocation lie along the axis, so that few are combined between invocations; adjacent elements
        stay adjacent.
        """
        value, shape = op.args[0], shape_of(op.args[0].type)
        along, n_own = axis_bits(shape, op.attribute.axis), _bits(op.args[0]) - self.n_threads
        is_free = self._regular(value) is None and all(self._n_uses[arg] == 1 for arg in op.args)
        if not is_free or n_own < _MANY or along.start < _ADJACENT:
            return self.anchor(value)
        own = [*range(_ADJACENT), *along[: n_own - _ADJACENT]]
        rest = [bit for bit in range(_bits(value)) if bit not in own]
        n_more = n_own - len(own)
        return Layout((*own, *rest[len(rest) - n_more :]), tuple(rest[: len(rest) - n_more]))

    # -- demands ------------------------------------------------------------------------------------------------------

    def _demand(self, layout: Layout, *values: Value) -> None:
        for value in values:
            if not _is_block(value) or layout in (known := self.layouts.setdefault(value, [])):
                continue
            known.append(layout)
            home = self._natural_layout(value) or self._carried(value, layout)
            if home is None and isinstance(layout, MatrixLayout) and not _is_splat(value):
                home = layout.elements
            if home in (None, layout):
                self._demand_operands(value, layout)
            else:
                self.homes[value] = home
                self._demand(home, value)

    def _carried(self, value: Value, layout: Layout) -> Layout | None:
        """Returns the one layout in which a result of control flow is computed; None if in each that is needed.

        A loop computes its results in the layout that its body needs, or in the first that is needed. Shuffles after it
        cost less than a copy of its body for each layout.
        """
        if not self._target.shuffles or not isinstance(value, Result) or value not in self.owners:
            return None
        op, at = self.owners[value]
        if op.code not in ("if", "loop"):
            return None
        params = [param for param in op.params[at : at + 1] if param.type == value.type]
        home = next((known for param in params for known in self.layouts.get(param, ())), layout)
        if not is_within_subgroups(home, layout, self.lanes):
            return None
        self._natural[value] = home
        return home

    def _demand_operands(self, value: Value, layout: Layout) -> None:
        """Demands what a value in a layout is computed from."""
        if isinstance(value, (Param, Result)):
            op, at = self.owners[value]
            if op.code in ("if", "loop"):
                sources = [end.args[at] for end in (back_edges(op) if isinstance(value, Param) else exits(op))]
                self._demand(layout, *sources, *([op.args[at]] if isinstance(value, Param) else []))
        elif isinstance(value, Op) and value not in self.own and value.code not in _APART:
            self._demand(layout.mapped(source_bits(value)) if value.code in _SHAPES else layout, *value.args)

    # -- natural layouts ----------------------------------------------------------------------------------------------

    def anchor(self, value: Value) -> Layout:
        """Returns the layout in which a block is computed anyway, or that for wide accesses."""
        return self._regular(value) or self.canonical(value)

    def _regular(self, value: Value) -> Layout | None:
        """Returns the layout in which the elements of a value are at hand anyway; None if it can be computed in any."""
        layout = self._natural_layout(value)
        return layout.elements if isinstance(layout, MatrixLayout) else layout

    def _wide(self, value: Value) -> Layout | None:
        """Returns the same if it has four adjacent elements in its lowest registers."""
        layout = self._regular(value)
        return layout if layout is not None and layout.registers[:_ADJACENT] == (0, 1) else None

    def _natural_layout(self, value: Value) -> Layout | None:
        """Returns the layout in which a value is computed anyway; None if it can be computed in any."""
        if value not in self._natural:
            self._natural[value] = None  # while it is being found, for loops
            self._natural[value] = self._found(value)
        return self._natural[value]

    def _found(self, value: Value) -> Layout | None:
        if isinstance(value, (Param, Result)) and value in self.owners:
            op, at = self.owners[value]
            if op.code == "reduce":
                own = self._for_reduction(op)
                return own.mapped(without_axis(shape_of(op.args[0].type), op.attribute.axis))
            if op.code == "scan":
                return self.anchor(op.args[0])
            ends = list(back_edges(op) if isinstance(value, Param) else exits(op))
            return self._first([*[end.args[at] for end in ends], *([op.args[at]] if isinstance(value, Param) else [])])
        if not isinstance(value, Op) or not _is_block(value):
            return None
        if value.code == "dot":
            return self._product(value)
        if value.code in ("load_block", "splat", "arange", "broadcast", "atomic_block", "histogram", "part"):
            return None
        if value.code == "mirror":
            return self._for_mirrors(value.args[0])
        if value.code == "gather":
            return self.anchor(value.args[-1])
        if value.code == "permute":
            before = self._regular(value.args[0])
            inverse = {bit: at for at, bit in enumerate(source_bits(value))}
            return before and before.mapped([inverse[bit] for bit in range(len(inverse))])
        layout = self._first(value.args)
        return layout.elements if isinstance(layout, MatrixLayout) else layout

    def _first(self, values: Sequence[Value]) -> Layout | None:
        layouts = (self._natural_layout(value) for value in values if _is_block(value))
        return next((layout for layout in layouts if layout is not None), None)

    def _matrices(self, op: Op) -> MatrixShape | None:
        """Returns the cooperative matrices by which a product is computed; None if it is not."""
        kinds = op.attribute or element_of(op.args[0].type).name, element_of(op.type).name
        left, right = (shape_of(arg.type) for arg in op.args[:2])
        sizes = left[-2], right[-1], left[-1]
        if not self.lanes:
            return None
        for shape in self._target.matrices:
            if shape[3:] == kinds and all(n % m == 0 for n, m in zip(sizes, shape[:3], strict=True)):
                blocks = [(element_of(block.type), shape_of(block.type)) for block in op.args[:2]]
                n_groups = min(self._most_groups, (1 << _bits(op)) // (shape.rows * shape.columns))
                slices = n_slices(blocks, shape, n_groups, self._target.shared_nbytes)
                if slices is not None:
                    self.slices[op] = slices
                    return shape
        return None

    def _product(self, op: Op) -> Layout:
        """Returns the layout of the sums of a product: lanes along a row of the result, registers in both axes.

        So a lane reads its own columns of the second operand, and all lanes the same rows of the first. Operands in
        workgroup memory are read by all alike: then a lane has about as many rows as columns.
        """
        matrices = self._matrices(op)
        if matrices is not None:
            return matrix_layout(shape_of(op.type), matrices, self.lanes, self.n_threads)
        n_columns, stages = log2(shape_of(op.type)[-1]), self._target.stages
        columns, rows = list(range(n_columns)), list(range(n_columns, _bits(op)))  # rows of all matrices of a stack
        own, columns = columns[:_ADJACENT], columns[_ADJACENT:]
        n_more = max(len(columns) + len(rows) - self.n_threads, 0)
        n_wide = min(max((log2(self._target.sums) + 1) // 2 - len(own), 0), n_more)
        free = columns[: max(len(columns) - n_wide, 0)] if stages else columns
        lanes = free[: self.lanes]
        n_left = self.lanes - len(lanes)
        lanes += rows[:n_left] if stages else rows[max(len(rows) - n_left, 0) :]
        columns, rows = ([bit for bit in bits if bit not in lanes] for bits in (columns, rows))
        more = [*columns[:n_wide], *rows, *columns[n_wide:]][:n_more]
        rest = [bit for bit in (*columns, *rows) if bit not in more]
        threads: list[int | None] = [*lanes, *[None] * (self.lanes - len(lanes)), *rest]
        return Layout((*own, *more), (*threads, *[None] * (self.n_threads - len(threads))))


def _is_splat(value: Value) -> bool:
    return isinstance(value, Op) and value.code == "splat"


def _lazy_loads(function: Function, ops: Sequence[Op]) -> set[Op]:
    """Returns the loads that only one product uses, in the same region and with no write in between."""
    n_uses = Counter(value for op in ops for value in op.args)
    loads = set[Op]()
    for region in [function.body, *[region for op in ops for region in op.regions]]:
        pending: set[Value] = set()
        for op in region.ops:
            if op.regions or op.operation.writes:
                pending.clear()
            elif op.code == "load_block" and n_uses[op] == 1:
                pending.add(op)
            elif op.code == "dot":
                loads.update(arg for arg in op.args[:2] if isinstance(arg, Op) and arg in pending)
    return loads


def _chained(function: Function, ops: Sequence[Op]) -> set[Op]:
    """Returns the operations of loops whose results are used in their own region only: any use may compute them.

    Loops have blocks that are spilled and read in each iteration. Elsewhere, times on lavapipe are the same.
    """
    regions = [*enumerate([function.body, *[region for op in ops for region in op.regions]])]
    users = {(arg, number) for number, region in regions for op in region.ops for arg in op.args}
    n_regions = Counter(arg for arg, _ in users)
    bodies = {id(op.regions[0]) for op in ops if op.code == "loop"}
    return {
        op
        for number, region in regions
        if id(region) in bodies
        for op in region.ops
        if n_regions[op] == 1 and (op, number) in users
    }


def _is_elementwise(ops: Sequence[Op]) -> bool:
    """True if no invocation needs what others computed or stored, so that there are no barriers to save."""
    codes = [op.code for op in ops]
    if not _EXCHANGING.isdisjoint(codes):
        return False
    first_store = codes.index("store_block") if "store_block" in codes else len(codes)
    loops = [{inner.code for inner in walk(op.regions[0])} for op in ops if op.code == "loop"]
    return "load_block" not in codes[first_store:] and not any({"load_block", "store_block"} <= loop for loop in loops)


_EXCHANGING = {"atomic_block", "gather", "histogram", "mirror", "permute", "reduce", "scan", "stage"}
"""Operations between invocations. Stores and loads are such, too, where a load may see what another one stored."""
_APART = "atomic_block", "dot", "scan", "part"
"""Operations whose operands have layouts of their own."""
_SHAPES = "reshape", "broadcast", "permute"


def source_bits(op: Op) -> list[int | None]:
    """Returns for each bit of an element the bit in the operand of a change of shape."""
    before, after = shape_of(op.args[0].type), shape_of(op.type)
    if op.code == "permute":
        return permuted_bits(before, op.attribute)
    if op.code == "broadcast":
        return broadcast_bits(before, after)
    return list(range(log2(math.prod(after))))


def operands(op: Op, sums: Layout, n_lanes: int) -> tuple[Layout, Layout]:
    """Returns the layouts of the operands of a product whose sums have this layout.

    Each invocation holds all of the columns that it needs of the second operand. Where the lanes of a subgroup need the
    same rows of the first, they share them: each holds adjacent elements of a row.
    """
    n_inner, n_columns = map(log2, shape_of(op.args[1].type)[-2:])
    n_rows = log2(shape_of(op.type)[-2])

    def row(bit: int | None) -> int | None:
        return None if bit is None or bit < n_columns else bit - n_columns + n_inner

    def column(bit: int | None) -> int | None:
        if bit is None or bit < n_columns:
            return bit
        return bit - n_rows + n_inner if bit >= n_columns + n_rows else None  # the number of the matrix

    inner = list(range(n_inner))
    threads = [row(bit) for bit in sums.threads]
    rows = [bit for bit in map(row, sums.registers) if bit is not None]
    if shares_rows(sums, n_columns, n_lanes):
        shared = [*rows, *inner[_ADJACENT:]][:n_lanes]
        threads[: len(shared)] = shared
        inner, rows = ([bit for bit in bits if bit not in shared] for bits in (inner, rows))
    columns = [bit for bit in map(column, sums.registers) if bit is not None]
    one = Layout((*inner[:_ADJACENT], *rows, *inner[_ADJACENT:]), tuple(threads))
    below = [n_columns + bit for bit in range(n_inner)]
    other = Layout((*columns, *below), tuple([column(bit) for bit in sums.threads]))
    return one, other


def shares_rows(sums: Layout, n_columns: int, n_lanes: int) -> bool:
    """True if the lanes of a subgroup add products of the same rows; `n_columns` is a log2."""
    return n_lanes > 0 and all(bit is None or bit < n_columns for bit in sums.threads[:n_lanes])


def _is_block(value: Value) -> bool:
    return isinstance(value, (Op, Param, Result)) and isinstance(getattr(value, "type", None), Block)


def _bits(value: Value) -> int:
    return log2(math.prod(shape_of(value.type)))
