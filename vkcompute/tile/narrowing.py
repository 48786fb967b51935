"""Offsets of 64 bits: accesses use their low words, and are masked where an offset is no element of any array.

Arrays have fewer than 2**31 elements and 2**32 bytes; drivers compute addresses modulo the latter. Sums and products
are computed on low words, which show where offsets are adjacent; the mask is computed from the exact offset.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping

from vkcompute.ir import INT32, INT64, Constant, Function, Value
from vkcompute.ir.function import Op, Region, walk
from vkcompute.ir.types import element_of
from vkcompute.tile.builder import Builder
from vkcompute.tile.layout import log2
from vkcompute.tile.types import shape_of

_ACCESSES = "load_block", "store_block", "atomic_block"
_OF_LOW_WORDS = "add", "sub", "mul", "and", "or", "xor"
"""Operations whose low words are those of their operands' low words."""

Known = MutableMapping[Value, Value]
"""Values of 64 bits -> their low words, as far as they are computed."""


def narrow_offsets(function: Function) -> None:
    """Replaces offsets of 64 bits by int32, in place."""
    if any(_is_wide(op.args[0]) for op in walk(function.body) if op.code in _ACCESSES):
        _Narrowing(Builder(function)).region(function.body, {})


def _is_wide(value: Value) -> bool:
    return element_of(value.type).bits == 64


class _Narrowing:
    def __init__(self, builder: Builder) -> None:
        self._b = builder

    def region(self, region: Region, known: Known) -> None:
        """Replaces the offsets in a region; those known around it are not computed again."""
        kept: list[Op] = []
        known = ChainMap({}, known)
        for op in region.ops:
            for inner in op.regions:
                self.region(inner, known)
            if op.code in _ACCESSES and _is_wide(op.args[0]):
                kept += self._narrowed(op, known)
            kept.append(op)
        region.ops = kept

    def _narrowed(self, op: Op, known: Known) -> list[Op]:
        """Changes an access; returns the operations before it."""
        b, (wide, *rest), access = self._b, op.args, op.attribute

        def build() -> Value:
            low, mask = self._low(wide, known), self._inside(wide, access.memory.element.bits // 8)
            if access.masked:
                at = 0 if op.code == "load_block" else -1
                rest[at] = b.compute("and", rest[at], mask)
            elif op.code == "load_block":
                rest[:] = mask, b.full(b.const(0, access.memory.element), shape_of(wide.type))
            else:
                rest.append(mask)
            op.args, op.attribute = (low, *rest), access._replace(masked=True)
            return low

        return [*b.apart(build, op.loc)[1]]

    def _inside(self, wide: Value, nbytes: int) -> Value:
        """Returns True for offsets of elements that arrays may have: the upper bits are 0."""
        b, shape = self._b, shape_of(wide.type)
        n_bits = min(31, 32 - log2(nbytes))
        offset = b.bitcast(wide, INT64)
        above = b.compute("shr", offset, b.full(b.const(n_bits, INT64), shape))
        return b.compute("eq", above, b.full(b.const(0, INT64), shape))

    def _low(self, value: Value, known: Known) -> Value:
        """Returns the low words of integers, as int32."""
        if value not in known:
            known[value] = self._low_of(value, known)
        return known[value]

    def _low_of(self, value: Value, known: Known) -> Value:
        b = self._b
        if isinstance(value, Constant):
            word = int(value.value) & 0xFFFFFFFF
            return b.const(word - (word >> 31 << 32), INT32)
        if not _is_wide(value) or not isinstance(value, Op):
            return b.cast(value, INT32)
        if value.code in _OF_LOW_WORDS:
            return b.compute(value.code, *[self._low(arg, known) for arg in value.args])
        if value.code == "select":
            return b.select(value.args[0], *[self._low(arg, known) for arg in value.args[1:]])
        if value.code in ("splat", "broadcast"):
            return b.broadcast(self._low(value.args[0], known), shape_of(value.type))
        if value.code == "reshape":
            return b.reshape(self._low(value.args[0], known), shape_of(value.type))
        if value.code == "permute":
            return b.permute(self._low(value.args[0], known), value.attribute)
        if value.code in ("cast", "bitcast") and element_of(value.args[0].type).kind in "iu":
            return self._low(value.args[0], known)
        return b.cast(value, INT32)
