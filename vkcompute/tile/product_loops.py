"""Products along long axes, as loops over parts of the axis: drivers take a minute to compile 32,000 multiplications.

A loop computes the same sums in the same order. Each iteration loads its part of an operand that is computed from
loads and indices alone. Other operands are in workgroup memory before the loop, or in registers of one subgroup.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import cache

from vkcompute.ir import INT32, Function, Memory, Value
from vkcompute.ir.elimination import remove_unused
from vkcompute.ir.function import Op, Region, walk
from vkcompute.ir.types import element_of
from vkcompute.tile.builder import Builder
from vkcompute.tile.cutting import Cut, Cutting, UncutError
from vkcompute.tile.operations import BlockOp
from vkcompute.tile.target import Target
from vkcompute.tile.types import shape_of

MOST_PRODUCTS = 1024
"""Multiplications of a product in the code of an invocation. Of more, lavapipe runs the loop faster, by 5 to 25 %."""
MOST_OF_ALL = 4096
"""Multiplications of all products without loops. Of 16 with 512 each, lavapipe took 27 s to compile the code."""
_FEW_PRODUCTS = 256  # multiplications of a product without a loop, in programs that would have more than MOST_OF_ALL
N_TERMS = 4
"""Terms of each sum in an iteration."""
_N_TERMS_OF_PIECES = (
    2  # if there are several loops: lavapipe compiles four in 4.1 s, with 4 terms in 6.8 s; they run as fast
)
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
    chosen = _long(products, n_invocations)
    if not chosen or target.stages or target.matrices:
        return
    _Rolling(function, target, aliased=aliased).region(function.body, chosen)
    remove_unused(function.body)


def _long(products: Sequence[Op], n_invocations: int) -> set[Op]:
    """Returns the products that become loops: the long ones, and shorter ones in a program with many."""
    numbers = {}
    for op in products:
        n_terms = shape_of(op.args[0].type)[-1]
        if n_terms > N_TERMS:
            numbers[op] = math.prod(shape_of(op.type)) // n_invocations * n_terms
    unrolled = sum(number for number in numbers.values() if number <= MOST_PRODUCTS)
    most = MOST_PRODUCTS if unrolled <= MOST_OF_ALL else _FEW_PRODUCTS
    return {op for op, number in numbers.items() if number > most}


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
        cut = [self._is_cut(value, axis, op) for value, axis in self._operands(op)]
        kept = [operand for operand, is_cut in zip(self._operands(op), cut, strict=True) if not is_cut]
        nbytes = sum(math.prod(shape_of(value.type)) * max(4, element_of(value.type).bits // 8) for value, _ in kept)
        n_pieces = 1 << max(0, (nbytes - 1) // self._most_nbytes).bit_length()
        if n_terms // n_pieces < N_TERMS:
            return None

        n_in_iteration = N_TERMS if n_pieces == 1 else _N_TERMS_OF_PIECES

        def build() -> Value:
            sums = op.args[2]
            for piece in range(n_pieces):
                staged = self._staged(kept, piece, n_pieces)
                terms = range(piece * n_terms // n_pieces, (piece + 1) * n_terms // n_pieces, n_in_iteration)
                sums = self._piece(op, sums, staged, terms)
            return sums

        self._replaced[op], made = self._b.apart(build, op.loc)
        return made

    def _operands(self, op: Op) -> list[tuple[Value, int]]:
        return list(zip(op.args[:2], _AXES, strict=True))

    def _staged(self, kept: Sequence[tuple[Value, int]], piece: int, n_pieces: int) -> dict[tuple[Value, int], Value]:
        """Stages a piece of blocks; returns what reads it, by the block and the axis."""
        axes = [axis % len(shape_of(value.type)) for value, axis in kept]
        values = [value for value, _ in kept]
        return dict(zip(kept, self._b.stage(values, axes, piece, n_pieces), strict=True)) if kept else {}

    def _piece(self, op: Op, start: Value, staged: dict[tuple[Value, int], Value], terms: range) -> Value:
        """Builds the loop over a piece of the axis, whose iterations begin at these terms; returns the sums."""
        b, n = self._b, terms.step
        loop = b.loop(b.const(0, INT32), start)
        with loop.body:
            part, sums = loop.params
            b.assume_natural(part)
            first = b.compute("add", b.compute("mul", part, b.const(n, INT32)), b.const(terms.start, INT32))
            parts = [
                b.part(staged[value, axis], part, axis % len(shape_of(value.type)), n)
                if (value, axis) in staged
                else self._cut(value, axis, first, n, op)
                for value, axis in self._operands(op)
            ]
            total = b.append(BlockOp("dot", op.type, (*parts, sums), op.attribute, (), op.loc))
            following = b.compute("add", part, b.const(1, INT32))
            branch = b.if_(b.compute("ge", following, b.const(len(terms), INT32)))
            with branch.then:
                b.break_(loop, total)
            with branch.otherwise:
                pass
            b.yield_(following, total)
        return loop.results[0]

    def _cut(self, value: Value, axis: int, first: Value, n: int, product: Op) -> Value:
        """Returns `n` elements of an operand along an axis, at a product."""
        cuts: list[Cut | None] = [None] * len(shape_of(value.type))
        cuts[axis] = Cut(first, n)
        cutting = Cutting(self._b, lambda load: self._is_same(load, product))
        return cutting.cut(value, tuple(cuts))

    def _is_cut(self, value: Value, axis: int, product: Op) -> bool:
        """True if an operand can be computed part by part at a product."""
        try:
            self._b.apart(lambda: self._cut(value, axis, self._b.const(0, INT32), N_TERMS, product), product.loc)
        except UncutError:
            return False
        return True

    def _is_same(self, load: Op, product: Op) -> bool:
        """True if a load reads the same elements at a product."""
        epochs = self._epochs(load.attribute.memory)
        return epochs[load] == epochs[product]


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
