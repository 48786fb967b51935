"""Products by cooperative matrices: which subgroup holds which of them, and how their elements are reached.

The place of an element in a matrix is known to the driver alone. So elements pass through workgroup memory: operands as
whole blocks, or in slices along the inner axis if these are too large, and sums matrix by matrix.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from vkcompute.ir import INT32, SCALARS, Builder, Scalar, Value
from vkcompute.ir.types import BFLOAT16, Matrix, element_of, matrix
from vkcompute.tile.exchange import Exchange
from vkcompute.tile.invocations import adjacent, first_element, where, with_owner
from vkcompute.tile.layout import Layout, axis_bits, log2
from vkcompute.tile.registers import ADJACENT
from vkcompute.tile.target import MatrixShape
from vkcompute.tile.workgroup_memory import Span, WorkgroupMemory

_SHARE = 80  # percent of workgroup memory for products; the rest is for other exchanges
_PADDING_NBYTES = 16  # of each row in workgroup memory, so that rows begin in different banks; Vulkan aligns rows to it


@dataclass(frozen=True, slots=True)
class MatrixLayout(Layout):
    """The place of the matrices of a product's sums; of each, `registers` and `threads` give the first element.

    Attributes:
        elements: the layout in which the invocations of a subgroup hold the elements of its matrices.
        shape: of the matrices.
        bits: log2 of the rows and columns of a block of sums.
    """

    elements: Layout
    shape: MatrixShape
    bits: tuple[int, int]


def matrix_layout(shape: Sequence[int], matrices: MatrixShape, n_lanes: int, n_threads: int) -> MatrixLayout:
    """Returns the layout of sums in matrices: subgroups divide a stack first, then the longer axis, over and over.

    Args:
        shape: of the sums.
        n_lanes, n_threads: log2 of the invocations of a subgroup, and of a workgroup.
    """
    n_rows, n_columns = map(log2, shape[-2:])
    n_bits = sum(map(log2, shape))
    height, width = log2(matrices.rows), log2(matrices.columns)
    columns, rows = [*range(width, n_columns)], [*range(n_columns + height, n_columns + n_rows)]
    stack, groups = [*range(n_columns + n_rows, n_bits)], list[int | None]()
    for _ in range(n_lanes, n_threads):
        source = stack or (columns if len(columns) > len(rows) else rows)
        groups.append(source.pop() if source else None)
    within = [*range(width), *range(n_columns, n_columns + height)]
    own, lanes = log2(ADJACENT), within[log2(ADJACENT) :][:n_lanes]
    registers = (*columns, *rows, *stack)
    elements = Layout(
        (*within[:own], *within[own + n_lanes :], *registers), (*lanes, *[None] * (n_lanes - len(lanes)), *groups)
    )
    return MatrixLayout(registers, (*[None] * n_lanes, *groups), elements, matrices, (n_rows, n_columns))


def n_slices(
    operands: Sequence[tuple[Scalar, Sequence[int]]], matrices: MatrixShape, n_groups: int, shared_nbytes: int
) -> int | None:
    """Returns the slices along the inner axis in which a product's operands fit in workgroup memory; None if none does.

    Args:
        operands: the types of their elements, and their shapes.
        n_groups: subgroups of a workgroup.
        shared_nbytes: workgroup memory.
    """
    (left, left_shape), (right, right_shape) = operands
    scratch = n_groups * _nbytes(SCALARS[matrices.sums], (matrices.rows, matrices.columns))
    n = 1
    while left_shape[-1] % (matrices.inner * n) == 0:
        nbytes = _nbytes(left, _sliced(left_shape, -1, n)) + _nbytes(right, _sliced(right_shape, -2, n))
        if nbytes + scratch <= shared_nbytes * _SHARE // 100:
            return n
        n *= 2
    return None


def _sliced(shape: Sequence[int], axis: int, n: int) -> list[int]:
    """Returns the shape of one of `n` slices along an axis."""
    lengths = list(shape)
    lengths[axis] //= n
    return lengths


def _nbytes(kind: Scalar, shape: Sequence[int]) -> int:
    """Returns the workgroup memory of a block, with the padding of its rows."""
    *rows, n_columns = shape
    return math.prod(rows) * (n_columns * kind.bits // 8 + _PADDING_NBYTES)


class _Stage(NamedTuple):
    """A block in workgroup memory, four elements by four; a row takes `stride` of them."""

    span: Span
    stride: int


class Slice(NamedTuple):
    """One of the slices of a block along an axis.

    Attributes:
        kept: for each bit of an element's number in the block, its bit in the slice; None for those of the slice's own
            number.
        number: the bits of the slice's number, at their place in that of an element.
        n_columns: log2 of the columns of the slice.
    """

    kept: Sequence[int | None]
    number: int
    n_columns: int

    @classmethod
    def of(cls, shape: Sequence[int], axis: int, number: int, n: int) -> Slice:
        """Returns a slice of a block, by its number of `n`."""
        stop, n_bits = axis_bits(shape, axis % len(shape)).stop, sum(map(log2, shape))
        first = stop - log2(n)
        kept = [None if first <= bit < stop else bit - log2(n) * (bit >= stop) for bit in range(n_bits)]
        return cls(kept, number << first, log2(_sliced(shape, axis, n)[-1]))

    def has(self, element: int, bits: Collection[int | None]) -> bool:
        """True if some bits of an element's number are those of the slice's elements."""
        return not (element ^ self.number) & self._mask(bits)

    def holder(self, b: Builder, thread: Value, layout: Layout) -> Value | None:
        """Returns a condition that holds for the invocations that hold elements of the slice; None if all do."""
        mask = wanted = 0
        for at, bit in enumerate(layout.threads):
            if bit is not None and self.kept[bit] is None:
                mask |= 1 << at
                wanted |= (self.number >> bit & 1) << at
        if not mask:
            return None
        return b.compute("eq", b.compute("and", thread, b.const(mask, INT32)), b.const(wanted, INT32))

    def _mask(self, bits: Collection[int | None]) -> int:
        return sum(1 << bit for bit, kept in enumerate(self.kept) if kept is None and bit in bits)


class Matrices:
    """Builds products by cooperative matrices.

    Args:
        thread: the invocation's number.
        n_lanes: log2 of the invocations of a subgroup.
    """

    def __init__(
        self, builder: Builder, thread: Value, exchange: Exchange, memory: WorkgroupMemory, n_lanes: int
    ) -> None:
        self._b, self._thread, self._exchange, self._memory = builder, thread, exchange, memory
        self._n_lanes = n_lanes

    # -- products -----------------------------------------------------------------------------------------------------

    def multiplied(
        self,
        operands: Sequence[tuple[Sequence[Value], Layout]],
        shapes: Sequence[Sequence[int]],
        sums: Sequence[Value],
        layout: MatrixLayout,
        n_slices: int,
    ) -> list[Value]:
        """Adds the product of two blocks to sums.

        Args:
            operands: the numbers of each block, and their layout, whose lowest registers are adjacent elements.
            shapes: those of the blocks.
            n_slices: slices along the inner axis that pass through workgroup memory one after the other.
        """
        n_inner, results = shapes[1][-2] // n_slices, list(sums)
        for number in range(n_slices):
            self._exchange.begin()
            left, right = (
                self._staged(*block, Slice.of(block_shape, axis, number, n_slices))
                for block, block_shape, axis in zip(operands, shapes, (-1, -2), strict=True)
            )
            self._exchange.end()
            results = self._added(left, right, n_inner, results, layout)
        return results

    def _added(
        self, left: _Stage, right: _Stage, n_inner: int, sums: Sequence[Value], layout: MatrixLayout
    ) -> list[Value]:
        """Adds the product of what is in workgroup memory to sums."""
        b, shape, (n_rows, n_columns) = self._b, layout.shape, layout.bits
        first = first_element(b, self._thread, layout)
        row, column = (self._index(first, bits) for bits in ((n_columns, None), (0, n_columns)))
        stack = self._index(first, (n_columns + n_rows, None))
        own_left = b.compute("mul", row, b.const(left.stride, INT32))
        own_right = b.compute(
            "add",
            b.compute("mul", stack, b.const(n_inner * right.stride, INT32)),
            b.compute("shr", column, b.const(log2(ADJACENT), INT32)),
        )
        elements = [layout.element(at) for at in range(layout.n_registers)]
        rows = {element >> n_columns for element in elements}
        columns = {(element >> n_columns + n_rows, element & (1 << n_columns) - 1) for element in elements}
        totals = list(sums)
        for inner in range(0, n_inner, shape.inner):
            lefts = {
                index: self._load(left, own_left, index * left.stride + inner // ADJACENT, _left(shape))
                for index in sorted(rows)
            }
            rights = {
                pair: self._load(
                    right, own_right, (pair[0] * n_inner + inner) * right.stride + pair[1] // ADJACENT, _right(shape)
                )
                for pair in sorted(columns)
            }
            for at, element in enumerate(elements):
                its_right = rights[element >> n_columns + n_rows, element & (1 << n_columns) - 1]
                totals[at] = b.multiply_matrices(lefts[element >> n_columns], its_right, totals[at])
        return totals

    def _staged(self, registers: Sequence[Value], layout: Layout, part: Slice) -> _Stage:
        """Writes a slice of a block to workgroup memory; returns its place."""
        b, of_slice = self._b, layout.mapped(part.kept)
        chosen = [at for at in range(layout.n_registers) if part.has(layout.element(at), layout.registers)]
        values = [registers[at] for at in chosen]  # lazy ones are loaded here, by all invocations
        stage = self._array(element_of(values[0].type), of_slice.n_bits, part.n_columns)
        first = self._stage_index(first_element(b, self._thread, of_slice), stage, part.n_columns)

        def write() -> None:
            for group in adjacent(of_slice):
                at = b.const(_padded(of_slice.element(group[0]), stage, part.n_columns), INT32)
                b.store(stage.span.memory, b.compute("add", first, at), b.vector(*[values[index] for index in group]))

        holder = part.holder(b, self._thread, layout)
        where(b, holder, lambda: with_owner(b, self._thread, layout, write))
        return stage

    def _array(self, kind: Scalar, n_bits: int, n_columns: int) -> _Stage:
        """Returns workgroup memory for a block; arguments are log2 of its elements and columns."""
        padding = _PADDING_NBYTES * 8 // kind.bits
        stride = ((1 << n_columns) + padding) // ADJACENT
        return _Stage(self._memory.array(kind, stride << n_bits - n_columns, ADJACENT), stride)

    def _stage_index(self, element: Value, stage: _Stage, n_columns: int) -> Value:
        """Returns the index in workgroup memory of an element of a block."""
        b = self._b
        row = b.compute("shr", element, b.const(n_columns, INT32))
        column = b.compute("and", element, b.const((1 << n_columns) - 1, INT32))
        inside = b.compute("shr", column, b.const(log2(ADJACENT), INT32))
        return stage.span.at(b, b.compute("add", b.compute("mul", row, b.const(stage.stride, INT32)), inside))

    def _index(self, element: Value, bits: tuple[int, int | None]) -> Value:
        """Returns some bits of an element's number; without an end, all from the first on."""
        b, (first, stop) = self._b, bits
        shifted = b.compute("shr", element, b.const(first, INT32)) if first else element
        return shifted if stop is None else b.compute("and", shifted, b.const((1 << stop - first) - 1, INT32))

    def _load(self, stage: _Stage, first: Value, offset: int, kind: Matrix) -> Value:
        at = self._b.compute("add", first, self._b.const(stage.span.first + offset, INT32))
        return self._b.load_matrix(kind, stage.span.memory, at, stage.stride)

    # -- sums ---------------------------------------------------------------------------------------------------------

    def filled(self, value: Value, layout: MatrixLayout) -> list[Value]:
        """Returns matrices of equal elements."""
        return [self._b.fill_matrix(_sums(layout.shape), value)] * layout.n_registers

    def elements(self, matrices: Sequence[Value], layout: MatrixLayout) -> list[Value]:
        """Returns the elements of matrices, in the layout `elements`."""
        b, numbers = self._b, list[Value]()
        stage, first = self._scratch(layout)
        for source in matrices:
            self._barrier()  # after the reads of the matrix before
            b.store_matrix(stage.span.memory, stage.span.at(b, first), stage.stride, source)
            self._barrier()
            for at in self._places_of_lane(stage, layout):
                four = b.load(stage.span.memory, b.compute("add", first, at))
                numbers += [b.extract(four, lane) for lane in range(ADJACENT)]
        return numbers

    def joined(self, elements: Sequence[Value], layout: MatrixLayout) -> list[Value]:
        """Returns matrices of elements in the layout `elements`."""
        b, numbers = self._b, list[Value]()
        stage, first = self._scratch(layout)
        n = len(elements) // layout.n_registers
        for start in range(0, len(elements), n):
            self._barrier()
            offsets = self._places_of_lane(stage, layout)
            fours = [elements[at : at + ADJACENT] for at in range(start, start + n, ADJACENT)]
            with_owner(b, self._thread, layout.elements, partial(self._store_fours, stage, first, offsets, fours))
            self._barrier()
            at = stage.span.at(b, first)
            numbers.append(b.load_matrix(_sums(layout.shape), stage.span.memory, at, stage.stride))
        return numbers

    def _store_fours(
        self, stage: _Stage, first: Value, offsets: Sequence[Value], fours: Sequence[Sequence[Value]]
    ) -> None:
        b = self._b
        for at, four in zip(offsets, fours, strict=True):
            b.store(stage.span.memory, b.compute("add", first, at), b.vector(*four))

    def _scratch(self, layout: MatrixLayout) -> tuple[_Stage, Value]:
        """Begins an exchange; returns memory for a matrix per subgroup, and the index of this subgroup's."""
        b, shape = self._b, layout.shape
        self._exchange.begin()
        self._exchange.in_use = True
        n_groups = len(layout.threads) - self._n_lanes
        n_bits, n_columns = log2(shape.rows) + log2(shape.columns) + n_groups, log2(shape.columns)
        stage = self._array(SCALARS[shape.sums], n_bits, n_columns)
        group = b.compute("shr", self._thread, b.const(self._n_lanes, INT32))
        return stage, b.compute("mul", group, b.const(shape.rows * stage.stride, INT32))

    def _places_of_lane(self, stage: _Stage, layout: MatrixLayout) -> list[Value]:
        """Returns the indices in a matrix of this invocation's elements, four by four."""
        b, elements, n_columns = self._b, layout.elements, layout.bits[1]
        own = elements.registers[: len(elements.registers) - len(layout.registers)]
        lanes = Layout(own, elements.threads[: self._n_lanes])
        lane = b.compute("and", self._thread, b.const((1 << self._n_lanes) - 1, INT32))
        first = first_element(b, lane, lanes)
        dynamic = self._stage_index(first, stage, n_columns)
        return [
            b.compute("add", dynamic, b.const(_padded(lanes.element(group[0]), stage, n_columns), INT32))
            for group in adjacent(lanes)
        ]

    def _barrier(self) -> None:
        with self._b.at(None):  # control flow is uniform, whether or not the analysis of kernels can prove it
            self._b.subgroup_barrier()


def _padded(element: int, stage: _Stage, n_columns: int) -> int:
    """Returns the index in workgroup memory of an element of a block."""
    return (element >> n_columns) * stage.stride + (element & (1 << n_columns) - 1) // ADJACENT


def _element(shape: MatrixShape) -> Scalar:
    return BFLOAT16 if shape.operand == BFLOAT16.name else SCALARS[shape.operand]


def _left(shape: MatrixShape) -> Matrix:
    return matrix(_element(shape), (shape.rows, shape.inner), "left")


def _right(shape: MatrixShape) -> Matrix:
    return matrix(_element(shape), (shape.inner, shape.columns), "right")


def _sums(shape: MatrixShape) -> Matrix:
    return matrix(SCALARS[shape.sums], (shape.rows, shape.columns), "sums")
