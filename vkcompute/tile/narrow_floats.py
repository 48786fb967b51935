"""bfloat16 and floats of 8 bits. Functions compute with float32, rounded after each operation.

Sums, products, quotients and square roots are thereby the nearest number of the exact result. For a second rounding
changes nothing where the first keeps 24 >= 2 * 8 + 2 bits (S. Figueroa: When is double rounding innocuous? 1995).
Conversions to floats of 8 bits saturate, as Triton's do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from vkcompute.ir import small_floats
from vkcompute.ir.elimination import remove_unused
from vkcompute.ir.function import Constant, Function, Op, Region, Value, walk
from vkcompute.ir.types import FLOAT16, FLOAT32, INT32, SCALARS, UINT16, UINT32, Scalar, SmallFloat, Type, element_of
from vkcompute.tile.builder import Builder
from vkcompute.tile.types import BFLOAT16, Block, block, shape_of

_EXACT = {
    "neg", "abs", "select", "min", "max", "floor", "ceil", "round", "trunc", "reshape", "broadcast", "permute", "splat",
    "mirror", "gather",
}  # fmt: skip
_SHAPES = {"reshape": Builder.reshape, "broadcast": Builder.broadcast, "permute": Builder.permute}


def widen(function: Function, builder: Builder, *, keeps_operands: bool = False, by_halves: bool = False) -> Function:
    """Replaces bfloat16 and floats of 8 bits by float32, in place.

    Args:
        keeps_operands: gives products their operands of bfloat16 as bits, in uint16.
        by_halves: converts floats of 8 bits by float16, whose subnormal numbers the device has.
    """
    ops = walk(function.body)
    if any(_is_narrow(value) for op in ops for value in _values(op)):
        products = {op for op in ops if op.code == "dot"} if keeps_operands else ()
        dots = {op for op in products if all(element_of(arg.type) is BFLOAT16 for arg in op.args[:2])}
        _Widening(function, builder, dots, by_halves=by_halves).region(function.body)
        remove_unused(function.body)
    return function


def _values(op: Op) -> list[Value]:
    return [*([op] if op.has_result else []), *op.args, *op.params, *op.results]


def _is_narrow(value: Value) -> bool:
    return isinstance(element_of(value.type), SmallFloat)


def _fits_halves(kind: Scalar) -> bool:
    """True for floats of 8 bits whose exponents float16 has, and which are infinite where float16 is."""
    f = small_floats.FORMATS[kind]
    return f.bits == 8 and (f.mantissa == 3 or bool(f.infinity))


def _wide(kind: Type) -> Type:
    return block(FLOAT32, kind.shape) if isinstance(kind, Block) else FLOAT32


class _Filled:
    """A builder whose constants are blocks of one shape; () for scalars."""

    def __init__(self, builder: Builder, shape: tuple[int, ...]) -> None:
        self.compute, self.cast, self.bitcast = builder.compute, builder.cast, builder.bitcast
        self.select, self._builder, self._shape = builder.select, builder, shape

    def const(self, value: Any, kind: Scalar) -> Value:
        """Returns a constant."""
        return self._builder.full(self._builder.const(value, kind), self._shape)


class _Widening:
    """Replaces values.

    Args:
        dots: the products whose operands are bits.
    """

    def __init__(self, function: Function, builder: Builder, dots: Collection[Op], *, by_halves: bool) -> None:
        self._function, self._b, self._dots, self._by_halves = function, builder, dots, by_halves
        self._replaced: dict[Value, Value] = {}
        self._unscaled: dict[Value, tuple[Value, int]] = {}
        ops = walk(function.body)
        self._sources = {op: element_of(op.args[0].type) for op in ops if op.code in ("bitcast", "cast")}

    def region(self, region: Region) -> None:
        """Replaces the operations of a region."""
        kept: list[Op] = []
        for op in region.ops:
            op.args = tuple([self._argument(self._replaced.get(arg, arg)) for arg in op.args])
            for value in (*op.params, *op.results):
                if _is_narrow(value):
                    value.type = _wide(value.type)
            for inner in op.regions:
                self.region(inner)
            kept += [*self._bits_of_operands(op), *self._with_one_factor(op), *self._made_of(op)]
        region.ops = kept

    def _bits_of_operands(self, op: Op) -> list[Op]:
        """Gives a product the bits of its operands, if it is to have them; returns the operations that take these."""
        ops: list[Op] = []
        if op in self._dots:
            (left, of_left), (right, of_right) = (
                self._b.apart(partial(self._bits, arg, BFLOAT16, UINT16), op.loc) for arg in op.args[:2]
            )
            op.args, op.attribute = (left, right, op.args[2]), BFLOAT16.name
            ops = [*of_left, *of_right]
        return ops

    def _with_one_factor(self, op: Op) -> Sequence[Op]:
        """Multiplies one operand of a product by the powers of two of both; returns the operations that do so.

        Powers of two are exact, so the product is the same. On lavapipe, multiplying both operands takes half as long
        as a product of float16.
        """
        if op.code != "dot" or element_of(op.type) is not FLOAT32:
            return ()
        (left, right), ops = self._b.apart(lambda: self._factored(*op.args[:2]), op.loc)
        op.args = (left, right, *op.args[2:])
        return ops

    def _factored(self, left: Value, right: Value) -> tuple[Value, Value]:
        one, other = self._before_scaling(left), self._before_scaling(right)
        if one is None or other is None:
            return left, right
        return one[0], self._scaled(other[0], one[1] + other[1])

    def _before_scaling(self, value: Value) -> tuple[Value, int] | None:
        """Returns numbers before they were multiplied by a power of two, in the shape of the value, and the exponent.

        None if they were not.
        """
        if value in self._unscaled or not isinstance(value, Op) or value.code not in ("cast", *_SHAPES):
            return self._unscaled.get(value)
        before = self._before_scaling(value.args[0])
        if before is None or value.code == "cast":  # of floats of 8 bits to longer ones, which hold them
            return before
        shape = value.attribute if value.code == "permute" else shape_of(value.type)
        return _SHAPES[value.code](self._b, before[0], shape), before[1]

    def _made_of(self, op: Op) -> list[Op]:
        """Returns the operations in place of one."""
        if not op.has_result:
            return [op]
        kind, is_narrow = element_of(op.type), _is_narrow(op)
        source = self._sources.get(op)
        if op.code == "bitcast" and isinstance(source, SmallFloat):
            return self._made(op, lambda: self._reinterpreted(op.args[0], source, kind))
        if op.code == "cast" and not is_narrow and op.args[0].type is op.type:
            self._replaced[op] = op.args[0]
            return []
        if not is_narrow:
            return [op]
        if op.code == "bitcast":
            return self._made(op, lambda: self._of_bits(op.args[0], kind))
        if op.code == "cast":
            return self._made(op, lambda: self._rounded(self._b.cast(op.args[0], FLOAT32), kind))
        op.type = _wide(op.type)
        if isinstance(op.attribute, Block):
            op.attribute = op.type
        if op.code in _EXACT:
            return [op]
        return [op, *self._made(op, lambda: self._rounded(op, kind))]

    def _argument(self, value: Value) -> Value:
        is_constant = isinstance(value, Constant) and _is_narrow(value)
        return self._function.constant(value.value, FLOAT32) if is_constant else value  # type: ignore[attr-defined]

    def _made(self, op: Op, build: Callable[[], Value]) -> list[Op]:
        """Returns the operations that `build` appends; its result replaces the operation."""
        result, ops = self._b.apart(build, op.loc)
        self._replaced[op] = result
        return list(ops)

    def _filled(self, number: int, like: Value) -> Value:
        return self._of(like).const(number, UINT32)

    def _of(self, like: Value) -> _Filled:
        return _Filled(self._b, shape_of(like.type))

    def _reinterpreted(self, value: Value, source: Scalar, kind: Scalar) -> Value:
        """Returns the bits of numbers as another type."""
        word = SCALARS[f"uint{kind.bits}"]
        if isinstance(kind, SmallFloat):
            return self._of_bits(self._bits(value, source, word), kind)
        return self._bits(value, source, kind)

    def _of_bits(self, value: Value, kind: Scalar) -> Value:
        word = self._b.cast(self._b.bitcast(value, SCALARS[f"uint{kind.bits}"]), UINT32)
        if self._by_halves and _fits_halves(kind):
            return self._of_half(word, kind)
        if kind is not BFLOAT16:
            return small_floats.of_bits(self._of(word), word, kind)
        return self._b.bitcast(self._b.compute("shl", word, self._filled(16, word)), FLOAT32)

    def _of_half(self, word: Value, kind: Scalar) -> Value:
        """Returns the numbers of 8 bits as those of float16 with the same fields, times a power of two."""
        b, f = self._b, small_floats.FORMATS[kind]
        if f.infinity:
            return self._halves(b.compute("shl", word, self._filled(8, word)))
        signed = b.bitcast(b.compute("shl", word, self._filled(24, word)), INT32)
        moved = b.bitcast(b.compute("shr", signed, self._of(word).const(17, INT32)), UINT32)
        bits = b.compute("and", moved, self._filled(0xBF80, word))  # one bit of the sign is no exponent
        checked = word if f.unsigned else b.compute("and", word, self._filled(0x7F, word))
        is_nan = b.compute("eq", checked, self._filled(f.nan, word))
        number = self._halves(b.select(is_nan, self._filled(0x7E00, word), bits))
        return number if f.least == -14 else self._scaled(number, f.least + 14)

    def _scaled(self, number: Value, exponent: int) -> Value:
        """Multiplies by a power of two."""
        factor = self._of(number).const(2.0**exponent, FLOAT32)
        scaled = self._b.compute("mul", number, factor)
        self._unscaled[scaled] = number, exponent
        return scaled

    def _halves(self, bits: Value) -> Value:
        return self._b.cast(self._b.bitcast(self._b.cast(bits, UINT16), FLOAT16), FLOAT32)

    def _bits(self, value: Value, source: Scalar, kind: Scalar) -> Value:
        """Returns the bits of numbers of the type `source` as another type."""
        if source is not BFLOAT16:
            word = small_floats.bits_of(self._of(value), value, source)
        else:
            word = self._b.bitcast(value, UINT32)
            word = self._b.compute("shr", word, self._filled(16, word))
        return self._b.bitcast(self._b.cast(word, SCALARS[f"uint{source.bits}"]), kind)

    def _rounded(self, value: Value, kind: Scalar) -> Value:
        """Rounds float32 to nearest even; a NaN stays one, and keeps its upper bits as bfloat16."""
        if kind is not BFLOAT16:
            return small_floats.rounded(self._of(value), value, kind, saturates=True)
        b, word = self._b, self._b.bitcast(value, UINT32)
        odd = b.compute("and", b.compute("shr", word, self._filled(16, word)), self._filled(1, word))
        nearest = b.compute("add", b.compute("add", word, self._filled(0x7FFF, word)), odd)
        quiet = b.compute("or", word, self._filled(0x400000, word))
        chosen = b.select(b.compute("isnan", value), quiet, nearest)
        return b.bitcast(b.compute("and", chosen, self._filled(0xFFFF0000, word)), FLOAT32)
