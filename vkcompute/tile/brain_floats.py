"""bfloat16: the upper half of the bits of float32. Functions compute with float32, rounded after each operation.

Sums, products, quotients and square roots are thereby the nearest bfloat16 of the exact result. For a second rounding
changes nothing where the first keeps 24 >= 2 * 8 + 2 bits (S. Figueroa: When is double rounding innocuous? 1995).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from vkcompute.ir.function import Constant, Function, Op, Region, Value, walk
from vkcompute.ir.types import FLOAT32, UINT16, UINT32, Scalar, Type, element_of
from vkcompute.tile.builder import Builder
from vkcompute.tile.types import BFLOAT16, Block, block

_EXACT = {
    "neg", "abs", "select", "min", "max", "floor", "ceil", "round", "trunc", "reshape", "broadcast", "permute", "splat",
    "mirror", "gather",
}  # fmt: skip


def widen(function: Function, builder: Builder, *, keeps_operands: bool = False) -> Function:
    """Replaces bfloat16 by float32, in place.

    Args:
        keeps_operands: gives products their operands as bits, in uint16.
    """
    ops = walk(function.body)
    if any(_is_brain(value) for op in ops for value in _values(op)):
        dots = {op for op in ops if op.code == "dot" and all(map(_is_brain, op.args[:2]))} if keeps_operands else ()
        _Widening(function, builder, dots).region(function.body)
    return function


def _values(op: Op) -> list[Value]:
    return [*([op] if op.has_result else []), *op.args, *op.params, *op.results]


def _is_brain(value: Value) -> bool:
    return element_of(value.type) is BFLOAT16


def _wide(kind: Type) -> Type:
    return block(FLOAT32, kind.shape) if isinstance(kind, Block) else FLOAT32


class _Widening:
    """Replaces values.

    Args:
        dots: the products whose operands are bits.
    """

    def __init__(self, function: Function, builder: Builder, dots: Collection[Op]) -> None:
        self._function, self._b, self._dots = function, builder, dots
        self._replaced: dict[Value, Value] = {}

    def region(self, region: Region) -> None:
        """Replaces the operations of a region."""
        kept: list[Op] = []
        for op in region.ops:
            op.args = tuple([self._argument(self._replaced.get(arg, arg)) for arg in op.args])
            for value in (*op.params, *op.results):
                if _is_brain(value):
                    value.type = _wide(value.type)
            for inner in op.regions:
                self.region(inner)
            kept += [*self._bits_of_operands(op), *self._made_of(op)]
        region.ops = kept

    def _bits_of_operands(self, op: Op) -> list[Op]:
        """Gives a product the bits of its operands, if it is to have them; returns the operations that take these."""
        ops: list[Op] = []
        if op in self._dots:
            (left, of_left), (right, of_right) = (
                self._b.apart(partial(self._bits, arg, UINT16), op.loc) for arg in op.args[:2]
            )
            op.args, op.attribute = (left, right, op.args[2]), BFLOAT16.name
            ops = [*of_left, *of_right]
        return ops

    def _made_of(self, op: Op) -> list[Op]:
        """Returns the operations in place of one."""
        if not op.has_result:
            return [op]
        is_brain = _is_brain(op)
        if op.code == "bitcast" and not is_brain and op.args[0].type.bits != op.type.bits:
            return self._made(op, lambda: self._bits(op.args[0], element_of(op.type)))
        if op.code == "cast" and op.args[0].type is op.type:
            self._replaced[op] = op.args[0]
            return []
        if not is_brain:
            return [op]
        if op.code == "bitcast":
            return self._made(op, lambda: self._of_bits(op.args[0]))
        if op.code == "cast":
            return self._made(op, lambda: self._rounded(self._b.cast(op.args[0], FLOAT32)))
        op.type = _wide(op.type)
        if isinstance(op.attribute, Block):
            op.attribute = op.type
        if op.code in _EXACT:
            return [op]
        return [op, *self._made(op, lambda: self._rounded(op))]

    def _argument(self, value: Value) -> Value:
        is_constant = isinstance(value, Constant) and value.type is BFLOAT16
        return self._function.constant(value.value, FLOAT32) if is_constant else value  # type: ignore[attr-defined]

    def _made(self, op: Op, build: Callable[[], Value]) -> list[Op]:
        """Returns the operations that `build` appends; its result replaces the operation."""
        result, ops = self._b.apart(build, op.loc)
        self._replaced[op] = result
        return list(ops)

    def _filled(self, number: int, like: Value) -> Value:
        shape = like.type.shape if isinstance(like.type, Block) else ()
        return self._b.full(self._b.const(number, UINT32), shape)

    def _of_bits(self, value: Value) -> Value:
        word = self._b.cast(self._b.bitcast(value, UINT16), UINT32)
        return self._b.bitcast(self._b.compute("shl", word, self._filled(16, word)), FLOAT32)

    def _bits(self, value: Value, kind: Scalar) -> Value:
        word = self._b.bitcast(value, UINT32)
        return self._b.bitcast(self._b.cast(self._b.compute("shr", word, self._filled(16, word)), UINT16), kind)

    def _rounded(self, value: Value) -> Value:
        """Rounds float32 to nearest even; a NaN keeps its upper bits, and stays one."""
        b, word = self._b, self._b.bitcast(value, UINT32)
        odd = b.compute("and", b.compute("shr", word, self._filled(16, word)), self._filled(1, word))
        nearest = b.compute("add", b.compute("add", word, self._filled(0x7FFF, word)), odd)
        quiet = b.compute("or", word, self._filled(0x400000, word))
        chosen = b.select(b.compute("isnan", value), quiet, nearest)
        return b.bitcast(b.compute("and", chosen, self._filled(0xFFFF0000, word)), FLOAT32)
