"""Parts of blocks: what is computed from loads and indices is computed for a part of its axes, too."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from vkcompute.ir import INT32, Value
from vkcompute.ir.function import Op
from vkcompute.ir.types import element_of
from vkcompute.tile.builder import Builder
from vkcompute.tile.layout import log2
from vkcompute.tile.operations import BLOCK_OPERATIONS, BlockOp
from vkcompute.tile.types import Block, block, shape_of


class Cut(NamedTuple):
    """A part of an axis.

    Attributes:
        first: the index of its first element, a multiple of `n`.
        n: the number of elements, a power of two.
    """

    first: Value
    n: int


Cuts = tuple[Cut | None, ...]
"""A part of each axis of a block; None for a whole axis."""


class UncutError(Exception):
    """A block is only computed as a whole."""


class Cutting:
    """Computes parts of blocks.

    Args:
        is_same: True for a load that reads the same elements here.
    """

    def __init__(self, builder: Builder, is_same: Callable[[Op], bool]) -> None:
        self._b, self._is_same = builder, is_same
        self._known: dict[tuple[Value, Cuts], Value] = {}

    def cut(self, value: Value, cuts: Cuts) -> Value:
        """Returns the part of a block.

        Raises:
            UncutError: something that it is computed from is only computed as a whole.
        """
        if not any(cuts):
            return value
        if (value, cuts) not in self._known:
            self._known[value, cuts] = self._cut(value, cuts)
        return self._known[value, cuts]

    def _cut(self, op: Value, cuts: Cuts) -> Value:
        if not isinstance(op, BlockOp) or op.regions:
            raise UncutError
        b, args = self._b, op.args
        shape = tuple([n if cut is None else cut.n for n, cut in zip(shape_of(op.type), cuts, strict=True)])
        if op.code == "arange":
            return b.compute("add", b.arange(0, shape[0]), b.full(cuts[0].first, shape)) if cuts[0] else op
        if op.code == "splat":
            return b.full(args[0], shape)
        if op.code == "broadcast":
            before = [None if n == 1 else cut for n, cut in zip(shape_of(args[0].type), cuts, strict=True)]
            return b.broadcast(self.cut(args[0], tuple(before)), shape)
        if op.code == "permute":
            return b.permute(self.cut(args[0], _permuted(cuts, op.attribute)), op.attribute)
        if op.code == "reshape":
            return b.reshape(self.cut(args[0], self._reshaped(shape_of(args[0].type), shape_of(op.type), cuts)), shape)
        if op.code in BLOCK_OPERATIONS and not (op.code == "load_block" and self._is_same(op)):
            raise UncutError
        kind = block(element_of(op.type), shape)
        attribute = kind if isinstance(op.attribute, Block) else op.attribute
        return b.append(BlockOp(op.code, kind, tuple([self.cut(arg, cuts) for arg in args]), attribute, (), op.loc))

    # -- reshapes -----------------------------------------------------------------------------------------------------

    def _reshaped(self, before: Sequence[int], after: Sequence[int], cuts: Cuts) -> Cuts:
        """Returns the part of the operand of a reshape; axes that are joined or split have the same elements."""
        starts = {*_starts(before)} & {*_starts(after)}
        result: list[Cut | None] = [None] * len(before)
        for start in starts:
            end = min([other for other in starts if other > start], default=math.inf)
            sources, targets = (
                [axis for axis, first in enumerate(_starts(shape)) if start <= first < end] for shape in (before, after)
            )
            if any(cuts[axis] for axis in targets):
                joined = self._joined([after[axis] for axis in targets], [cuts[axis] for axis in targets])
                for axis, cut in zip(sources, self._split([before[axis] for axis in sources], joined), strict=True):
                    result[axis] = cut
        return tuple(result)

    def _joined(self, lengths: Sequence[int], cuts: Sequence[Cut | None]) -> Cut:
        """Returns the part of adjacent axes as one axis."""
        b, whole = self._b, Cut(self._b.const(0, INT32), 1)
        for n, cut in zip(lengths, cuts, strict=True):
            first, length = cut or Cut(b.const(0, INT32), n)
            if whole.n > 1 and length < n:
                raise UncutError
            above = b.compute("mul", whole.first, b.const(n, INT32))
            whole = Cut(b.compute("add", above, first), whole.n * length)
        return whole

    def _split(self, lengths: Sequence[int], cut: Cut) -> list[Cut | None]:
        """Returns the part of each of the axes that have the elements of one axis."""
        b, (first, n) = self._b, cut
        parts: list[Cut | None] = []
        for length in reversed(lengths):
            inside = b.compute("and", first, b.const(length - 1, INT32))
            parts.append(Cut(inside, n) if n < length else None)
            first, n = b.compute("shr", first, b.const(log2(length), INT32)), max(1, n // length)
        return parts[::-1]


def _permuted(cuts: Cuts, order: Sequence[int]) -> Cuts:
    """Returns the part of the operand of a permutation."""
    before = dict(zip(order, cuts, strict=True))
    return tuple([before[axis] for axis in range(len(cuts))])


def _starts(shape: Sequence[int]) -> list[int]:
    """Returns for each axis the product of the lengths before it."""
    return [math.prod(shape[:axis]) for axis in range(len(shape))]
