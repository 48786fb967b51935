"""Replacement of conversions of numbers that a driver computes wrongly, by instructions that it computes right.

Rounding to an integer of the same type is such a conversion, too: an extended instruction of GLSL.std.450.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from vkcompute.spirv import glsl_std_450 as glsl
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.enums import Decoration
from vkcompute.spirv.instruction import LAYOUT, Instruction, string_at
from vkcompute.spirv.module import Module

_SIGN = 1 << 31  # of the high word of float64
_INT, _FLOAT, _GLSL = op.OpTypeInt, op.OpTypeFloat, "GLSL.std.450"
Replace = Callable[["_Builder", int, int, int], int]
"""(builder, type of the source, type of the result, value) -> the result, of instructions appended to the builder."""


class _Key(NamedTuple):
    """The key of a conversion.

    Attributes:
        source, target: the widths of the number and of the result.
        number: of an extended instruction; 0 of others.
    """

    opcode: int
    source: int
    target: int
    number: int = 0


def replace_conversions(spirv: bytes, names: Collection[str]) -> bytes:
    """Replaces the conversions with these names (of CONVERSIONS) in the functions of a valid module."""
    rows = {key: replace for name in names for key, replace in CONVERSIONS[name].items()}
    if not _may_have(np.frombuffer(spirv, np.uint32), rows):
        return spirv
    module = Module.parse(spirv)
    builder = _Builder(module)
    module.functions = [each for given in module.functions for each in _replaced(builder, given, rows)]
    return module.words()


def _may_have(words: np.ndarray[tuple[int], np.dtype[np.uint32]], keys: Collection[_Key]) -> bool:
    """Returns False if certainly none of the conversions is in a module."""
    numbers = [key.number for key in keys if key.opcode == op.OpExtInst]
    extended = np.flatnonzero(words == (6 << 16 | op.OpExtInst))
    plain = [4 << 16 | key.opcode for key in keys if key.opcode != op.OpExtInst]
    return bool(np.isin(words, plain).any() or np.isin(words[np.minimum(extended + 4, len(words) - 1)], numbers).any())


def _replaced(builder: _Builder, given: Instruction, rows: Mapping[_Key, Replace]) -> list[Instruction]:
    """The instructions in the place of one."""
    builder.define(given)
    if given.opcode == op.OpExtInst and len(given.operands) == 5 and given.operands[2] in builder.glsl:
        target, result, builder.extended, number, value = given.operands
    elif len(given.operands) == 3:
        (target, result, value), number = given.operands, 0
    else:
        return [given]
    source = builder.types.get(value, 0)
    replace = rows.get(_Key(given.opcode, builder.width(source), builder.width(target), number))
    if replace is None:
        return [given]
    builder.code = []
    found = replace(builder, source, target, value)
    return [*builder.code, Instruction(op.OpCopyObject, (target, result, found))]


class _Builder:
    """Makes instructions with ids, and the types and constants that they need.

    Attributes:
        types: id of a value -> id of its type.
        code: the instructions made so far.
        glsl: the ids of the set GLSL.std.450 of extended instructions.
        extended: that of the instruction that is replaced.
    """

    def __init__(self, module: Module) -> None:
        self._module, self.types, self.code = module, dict[int, int](), list[Instruction]()
        self.glsl = {each.operands[0] for each in module.imports if string_at(each.operands, 1, each)[0] == _GLSL}
        self.extended = 0
        self._known: dict[tuple[int, ...], int] = {}  # a type as words -> its id
        self._words: dict[int, tuple[int, ...]] = {}  # the reverse
        for each in module.declarations:
            self.define(each)

    def define(self, given: Instruction) -> None:
        """Notes a type, or the type of a value."""
        operands = given.operands
        if given.opcode in (_INT, _FLOAT, op.OpTypeBool, op.OpTypeVector):
            self._words[operands[0]] = words = given.opcode, *operands[1:]
            self._known.setdefault(words, operands[0])
        elif LAYOUT.get(given.opcode, (0, -1))[1] == 1:
            self.types[operands[1]] = operands[0]

    def width(self, kind: int) -> int:
        """The width of a number's type, or of a vector's elements; 0 for other types."""
        words = self._words.get(kind, (0,))
        if words[0] == op.OpTypeVector:
            return self.width(words[1])
        return words[1] if words[0] in (_INT, _FLOAT) else 0

    def like(self, kind: int, *element: int) -> int:
        """The type of these elements with the shape of `kind`."""
        words = self._words[kind]
        found = self._declared(*element)
        return self._declared(op.OpTypeVector, found, words[2]) if words[0] == op.OpTypeVector else found

    def shape(self, kind: int) -> tuple[int, int]:
        """The type of a vector's elements, and their number; of a number, its type and 1."""
        words = self._words[kind]
        return (words[1], words[2]) if words[0] == op.OpTypeVector else (kind, 1)

    @property
    def word(self) -> int:
        """The type uint32."""
        return self._declared(_INT, 32, 0)

    @property
    def pair(self) -> int:
        """The type of two words."""
        return self._declared(op.OpTypeVector, self.word, 2)

    @property
    def bool(self) -> int:
        """The type bool."""
        return self._declared(op.OpTypeBool)

    def __call__(self, opcode: int, kind: int, *operands: int) -> int:
        """An instruction with a result of a type; arithmetic on floats is not contracted."""
        result = self._id()
        self.code.append(Instruction(opcode, (kind, result, *operands)))
        if opcode in (op.OpFAdd, op.OpFSub, op.OpFMul, op.OpFConvert):
            self._module.annotations.append(Instruction(op.OpDecorate, (result, Decoration.NoContraction)))
        return result

    def call(self, number: int, kind: int, *operands: int) -> int:
        """An extended instruction of GLSL.std.450 with a result of a type."""
        return self(op.OpExtInst, kind, self.extended, number, *operands)

    def constant(self, kind: int, *words: int) -> int:
        """A constant of a type; of a vector, with equal elements."""
        _, *shape = self._words[kind] if self._words[kind][0] == op.OpTypeVector else (0,)
        result, declared = self._id(), self._module.declarations
        declared.append(Instruction(op.OpConstant, (shape[0] if shape else kind, result, *words)))
        if not shape:
            return result
        whole = self._id()
        declared.append(Instruction(op.OpConstantComposite, (kind, whole, *[result] * shape[1])))
        return whole

    def _declared(self, opcode: int, *words: int) -> int:
        found = self._known.get((opcode, *words))
        if found is None:
            found = self._id()
            self.define(Instruction(opcode, (found, *words)))
            self._module.declarations.append(Instruction(opcode, (found, *words)))
        return found

    def _id(self) -> int:
        self._module.bound += 1
        return self._module.bound - 1


def _widened(b: _Builder, source: int, target: int, value: int) -> int:
    """Extends the sign: (zero-extended ^ 2**31) - 2**31."""
    wide = b.like(source, _INT, 64, 0)
    sign = b.constant(wide, 1 << 31, 0)
    found = b(op.OpISub, wide, b(op.OpBitwiseXor, wide, b(op.OpUConvert, wide, value), sign), sign)
    return found if target == wide else b(op.OpBitcast, target, found)


def _float_of_uint(b: _Builder, source: int, target: int, value: int) -> int:
    """Adds the two halves as floats, which are exact: only the sum is rounded."""
    upper = b(op.OpShiftRightLogical, source, value, b.constant(source, 16))
    lower = b(op.OpBitwiseAnd, source, value, b.constant(source, 0xFFFF))
    scale = b.constant(target, *struct.unpack("=I", struct.pack("=f", 65536)))
    scaled = b(op.OpFMul, target, b(op.OpConvertUToF, target, upper), scale)
    return b(op.OpFAdd, target, scaled, b(op.OpConvertUToF, target, lower))


def _rounded_once(b: _Builder, _: int, target: int, value: int) -> int:
    """Forbids to combine the conversion with the one back."""
    return b(op.OpFConvert, target, value)


def _half_of_double(b: _Builder, source: int, target: int, value: int) -> int:
    """Clears the low word of the significand, and sets the lowest bit above it if the word was not zero.

    The result is a float32 and rounds to the same float16: it is between the same neighbours, and a tie only if the
    number was. Boldo and Melquiond, Emulation of a FMA and Correctly Rounded Sums: Proved Algorithms Using Rounding to
    Odd (2008).
    """

    def odd(low: int, high: int) -> tuple[int, int]:
        zero, one = (b.constant(b.word, each) for each in (0, 1))
        is_exact = b(op.OpIEqual, b.bool, low, zero)
        return zero, b(op.OpBitwiseOr, b.word, high, b(op.OpSelect, b.word, is_exact, zero, one))

    single = b.like(source, _FLOAT, 32)
    return b(op.OpFConvert, target, b(op.OpFConvert, single, _by_words(b, source, (value,), odd)))


def _truncated(b: _Builder, _: int, kind: int, value: int) -> int:
    """Rounds the magnitude down."""
    return _by_magnitude(b, kind, value, lambda magnitude: b.call(glsl.Floor, kind, magnitude))


def _rounded(b: _Builder, _: int, kind: int, value: int) -> int:
    """Rounds the magnitude to the nearest integer, and halves to even ones."""
    bools, half, one = b.like(kind, op.OpTypeBool), _double(b, kind, 0.5), _double(b, kind, 1.0)

    def rounded(magnitude: int) -> int:
        below = b.call(glsl.Floor, kind, magnitude)
        rest, halved = b(op.OpFSub, kind, magnitude, below), b(op.OpFMul, kind, below, half)
        is_odd = b(op.OpFUnordNotEqual, bools, halved, b.call(glsl.Floor, kind, halved))
        is_tie = b(op.OpFOrdEqual, bools, rest, half)
        up = b(op.OpLogicalAnd, bools, is_tie, is_odd)
        up = b(op.OpLogicalOr, bools, up, b(op.OpFOrdGreaterThan, bools, rest, half))
        return b(op.OpSelect, kind, up, b(op.OpFAdd, kind, below, one), below)

    return _by_magnitude(b, kind, value, rounded)


def _by_magnitude(b: _Builder, kind: int, value: int, function: Callable[[int], int]) -> int:
    """Applies a function to the magnitude of float64, and gives the result their signs."""
    sign = b.constant(b.word, _SIGN)
    found = function(_magnitude(b, kind, value))

    def signed(low: int, high: int, _: int, given: int) -> tuple[int, int]:
        return low, b(op.OpBitwiseOr, b.word, high, b(op.OpBitwiseAnd, b.word, given, sign))

    return _by_words(b, kind, (found, value), signed)


def _magnitude(b: _Builder, kind: int, value: int) -> int:
    """Clears the sign bits of float64."""
    mask = b.constant(b.word, _SIGN - 1)
    return _by_words(b, kind, (value,), lambda low, high: (low, b(op.OpBitwiseAnd, b.word, high, mask)))


def _by_words(b: _Builder, kind: int, values: Sequence[int], function: Callable[..., tuple[int, int]]) -> int:
    """Applies a function to the low and the high word of float64 values; it returns those of the result."""
    pair, parts = b.pair, []
    element, n = b.shape(kind)
    for at in range(n):
        wholes = values if n == 1 else [b(op.OpCompositeExtract, element, each, at) for each in values]
        pairs = [b(op.OpBitcast, pair, each) for each in wholes]
        changed = function(*[b(op.OpCompositeExtract, b.word, each, half) for each in pairs for half in (0, 1)])
        parts.append(b(op.OpBitcast, element, b(op.OpCompositeConstruct, pair, *changed)))
    return parts[0] if n == 1 else b(op.OpCompositeConstruct, kind, *parts)


def _double(b: _Builder, kind: int, value: float) -> int:
    return b.constant(kind, *struct.unpack("=2I", struct.pack("=d", value)))


CONVERSIONS: dict[str, dict[_Key, Replace]] = {
    "int32 to int64": {_Key(op.OpSConvert, 32, 64): _widened},
    "uint32 to float32": {_Key(op.OpConvertUToF, 32, 32): _float_of_uint},
    "float64 to float32": {_Key(op.OpFConvert, 64, 32): _rounded_once},
    "float32 to float16": {_Key(op.OpFConvert, 32, 16): _rounded_once},
    "float64 to float16": {_Key(op.OpFConvert, 64, 16): _half_of_double},
    "truncation of float64": {_Key(op.OpExtInst, 64, 64, glsl.Trunc): _truncated},
    "rounding of float64": {_Key(op.OpExtInst, 64, 64, each): _rounded for each in (glsl.Round, glsl.RoundEven)},
}
"""Name -> its keys, each with the replacement."""
