"""Products along long axes, as loops over parts of the axis: drivers take a minute to compile 32,000 multiplications.

A loop computes the same sums in the same order. Each iteration loads its part of an operand where the operand is
computed from loads and indices alone; other operands are read from workgroup memory, which they enter before the loop.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from vkcompute.ir import INT32, Function, Memory, Value
from vkcompute.ir.elimination import remove_unused
from vkcompute.ir.function import Op, Region, walk
from vkcompute.ir.types import element_of
from vkcompute.tile.builder import Builder
from vkcompute.tile.operations import BLOCK_OPERATIONS, BlockOp
from vkcompute.tile.target import Target
from vkcompute.tile.types import Block, block, shape_of

MOST_PRODUCTS = 1024
"""Multiplications of a product in the code of an invocation. Of more, lavapipe runs the loop faster, by 5 to 25 %."""
_N_TERMS = 4  # of each sum in an iteration
_AXES = -1, -2  # along which the operands of a product are cut


def roll_products(function: Function, target: Target, *, aliased: bool) -> None:
    """Replaces long products by loops, in place.

    Not on devices where operands pass through workgroup memory: each iteration would wait for all invocations.

    Args:
        aliased: True if buffers may have bytes in common.
    """
    products = [op for op in walk(function.body) if op.code == "dot"]
    most = max([math.prod(shape_of(op.type)) for op in products], default=0)
    n_invocations = min(max(most // target.sums, target.subgroup_size), target.max_invocations)
    chosen = {op for op in products if _is_long(op, n_invocations)}
    if not chosen or target.stages or target.matrices:
        return
    _Rolling(function, target, aliased=aliased).region(function.body, chosen)
    remove_unused(function.body)


def _is_long(op: Op, n_invocations: int) -> bool:
    n_terms = shape_of(op.args[0].type)[-1]
    return n_terms > _N_TERMS and math.prod(shape_of(op.type)) // n_invocations * n_terms > MOST_PRODUCTS


class _Rolling:
    """Builds loops."""

    def __init__(self, function: Function, target: Target, *, aliased: bool) -> None:
        self._b = Builder(function)
        self._replaced: dict[Value, Value] = {}
        self._epochs = cache(lambda memory: _epochs(function, None if aliased else memory))
        self._most_nbytes = target.shared_nbytes // 2  # the detection of cut loops needs some, too

    def region(self, region: Region, chosen: Collection[Op]) -> None:
        """Replaces the chosen products in a region."""
        kept: list[Op] = []
        for op in region.ops:
            op.args = tuple([self._replaced.get(value, value) for value in op.args])
            for inner in op.regions:
                self.region(inner, chosen)
            kept += (self._loops(op) if op in chosen else None) or [op]
        region.ops = kept

    def _loops(self, op: Op) -> Sequence[Op] | None:
        """Returns the operations in the place of a product; None where workgroup memory does not suffice."""
        n_terms = shape_of(op.args[0].type)[-1]
        cut = [self._is_cut(value, axis % len(shape_of(value.type)), op) for value, axis in self._operands(op)]
        kept = [operand for operand, is_cut in zip(self._operands(op), cut, strict=True) if not is_cut]
        nbytes = sum(math.prod(shape_of(value.type)) * max(4, element_of(value.type).bits // 8) for value, _ in kept)
        n_pieces = 1 << max(0, (nbytes - 1) // self._most_nbytes).bit_length()
        if n_terms // n_pieces < _N_TERMS:
            return None

        def build() -> Value:
            sums = op.args[2]
            for piece in range(n_pieces):
                staged = self._staged(kept, piece, n_pieces)
                sums = self._piece(op, sums, staged, piece * n_terms // n_pieces, n_terms // n_pieces)
            return sums

        self._replaced[op], made = self._b.apart(build, op.loc)
        return made

    def _operands(self, op: Op) -> list[tuple[Value, int]]:
        return list(zip(op.args[:2], _AXES, strict=True))

    def _staged(self, kept: Sequence[tuple[Value, int]], piece: int, n_pieces: int) -> dict[tuple[Value, int], Value]:
        """Writes a piece of blocks to workgroup memory; returns what reads it, by the block and the axis."""
        axes = [axis % len(shape_of(value.type)) for value, axis in kept]
        values = [value for value, _ in kept]
        return dict(zip(kept, self._b.stage(values, axes, piece, n_pieces), strict=True)) if kept else {}

    def _piece(self, op: Op, start: Value, staged: dict[tuple[Value, int], Value], index: int, n: int) -> Value:
        """Builds the loop over a piece of the axis, from an index on; returns the sums."""
        b = self._b
        loop = b.loop(b.const(0, INT32), start)
        with loop.body:
            part, sums = loop.params
            b.assume_natural(part)
            first = b.compute("add", b.compute("mul", part, b.const(_N_TERMS, INT32)), b.const(index, INT32))
            parts = [
                b.part(staged[value, axis], part, axis % len(shape_of(value.type)), _N_TERMS)
                if (value, axis) in staged
                else _Cutting(b, first).cut(value, axis % len(shape_of(value.type)))
                for value, axis in self._operands(op)
            ]
            total = b.append(BlockOp("dot", op.type, (*parts, sums), op.attribute, (), op.loc))
            following = b.compute("add", part, b.const(1, INT32))
            branch = b.if_(b.compute("ge", following, b.const(n // _N_TERMS, INT32)))
            with branch.then:
                b.break_(loop, total)
            with branch.otherwise:
                pass
            b.yield_(following, total)
        return loop.results[0]

    def _is_cut(self, value: Value, axis: int, product: Op) -> bool:
        """True if a block can be computed for a part of an axis at a product: loads read what they did."""
        operands = _operands_along(value, axis)
        if operands is None or (isinstance(value, Op) and not self._is_same(value, product)):
            return False
        return all(along is None or self._is_cut(operand, along, product) for operand, along in operands)

    def _is_same(self, op: Op, product: Op) -> bool:
        """True if an operation, which may be a load, has the same result at a product."""
        if op.code != "load_block":
            return True
        epochs = self._epochs(op.attribute.memory)
        return epochs[op] == epochs[product]


def _epochs(function: Function, memory: Memory | None) -> dict[Op, int]:
    """Returns a number for each operation: a buffer has the same elements at operations with the same number.

    Args:
        memory: the buffer; None for all of them.
    """
    epochs: dict[Op, int] = {}
    n = 0

    def writes(op: Op) -> bool:
        is_other = memory is not None and op.code == "store_block" and op.attribute.memory is not memory
        return (op.operation.writes and not is_other) or any(writes(inner) for part in op.regions for inner in part.ops)

    def visit(region: Region) -> None:
        nonlocal n
        for op in region.ops:
            is_write = writes(op)
            n += is_write
            epochs[op] = n
            for part in op.regions:
                visit(part)
            n += is_write

    visit(function.body)
    return epochs


def _operands_along(value: Value, axis: int) -> list[tuple[Value, int | None]] | None:
    """Returns the operands of a block, each with the axis that is cut where an axis of the block is.

    The axis is None for an operand that stays whole. Without a result, the block is not computed part by part.
    """
    if not isinstance(value, Op) or value.regions:
        return None
    if value.code in ("arange", "splat"):
        return [(arg, None) for arg in value.args]
    if value.code == "broadcast":
        (arg,) = value.args
        return [(arg, None if shape_of(arg.type)[axis] == 1 else axis)]
    if value.code == "permute":
        return [(value.args[0], value.attribute[axis])]
    if value.code == "reshape":
        along = _axis_before(shape_of(value.args[0].type), shape_of(value.type), axis)
        return None if along is None else [(value.args[0], along)]
    if value.code == "load_block" or (isinstance(value, BlockOp) and value.code not in BLOCK_OPERATIONS):
        return [(arg, axis) for arg in value.args]
    return None


def _axis_before(before: Sequence[int], after: Sequence[int], axis: int) -> int | None:
    """Returns the axis of the operand of a reshape that has the same elements as an axis of its result."""
    above = math.prod(after[:axis])
    same = (at for at, n in enumerate(before) if n == after[axis] and math.prod(before[:at]) == above)
    return next(same, None)


class _Cutting:
    """Computes blocks for a part of an axis.

    Args:
        first: the index of the part's first element.
    """

    def __init__(self, builder: Builder, first: Value) -> None:
        self._b, self._first = builder, first
        self._known: dict[tuple[Value, int], Value] = {}

    def cut(self, value: Value, axis: int) -> Value:
        """Returns the part of a block."""
        if (value, axis) not in self._known:
            self._known[value, axis] = self._cut(value, axis)
        return self._known[value, axis]

    def _cut(self, op: Any, axis: int) -> Value:
        b, shape = self._b, list(shape_of(op.type))
        shape[axis] = _N_TERMS
        if op.code == "arange":
            return b.compute("add", b.arange(0, _N_TERMS), b.full(self._first, (_N_TERMS,)))
        if op.code == "splat":
            return b.full(op.args[0], tuple(shape))
        operands = _operands_along(op, axis) or ()
        args = [arg if along is None else self.cut(arg, along) for arg, along in operands]
        if op.code in ("broadcast", "reshape"):
            return getattr(b, op.code)(args[0], tuple(shape))
        kind = block(element_of(op.type), tuple(shape))
        attribute = kind if isinstance(op.attribute, Block) else op.attribute
        return b.append(BlockOp(op.code, kind, tuple(args), attribute, (), op.loc))
