"""Replacement of conversions of numbers that a driver computes wrongly, by instructions that it computes right.

Rounding to an integer of the same type is such a conversion, too: an extended instruction of GLSL.std.450.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from vkcompute.spirv import glsl_std_450 as glsl
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.builder import Builder
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.module import Module, scan

_SIGN = 1 << 31  # of the high word of float64
Replace = Callable[[Builder, int, int, int], int]
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
    if not _may_have(spirv, rows):
        return spirv
    module = Module.parse(spirv)
    builder = Builder(module)
    module.functions = [instruction for given in module.functions for instruction in _replaced(builder, given, rows)]
    return module.words()


def _may_have(spirv: bytes, keys: Collection[_Key]) -> bool:
    """Returns False if certainly none of the conversions is in a module, whose types are not looked at."""
    wanted = {(key.opcode, key.number) for key in keys}
    instructions = scan(spirv, {opcode for opcode, _ in wanted})
    return any(
        (instruction.opcode, instruction.operands[3] if instruction.opcode == op.OpExtInst else 0) in wanted
        for instruction in instructions
    )


def _replaced(builder: Builder, given: Instruction, rows: Mapping[_Key, Replace]) -> list[Instruction]:
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
    replacement = replace(builder, source, target, value)
    return [*builder.code, Instruction(op.OpCopyObject, (target, result, replacement))]


def _widened(b: Builder, source: int, target: int, value: int) -> int:
    """Extends the sign: (zero-extended ^ 2**31) - 2**31."""
    wide = b.like(source, op.OpTypeInt, 64, 0)
    sign = b.constant(wide, 1 << 31, 0)
    difference = b(op.OpISub, wide, b(op.OpBitwiseXor, wide, b(op.OpUConvert, wide, value), sign), sign)
    return difference if target == wide else b(op.OpBitcast, target, difference)


def _float_of_uint(b: Builder, source: int, target: int, value: int) -> int:
    """Adds the two halves as floats, which are exact: only the sum is rounded."""
    upper = b(op.OpShiftRightLogical, source, value, b.constant(source, 16))
    lower = b(op.OpBitwiseAnd, source, value, b.constant(source, 0xFFFF))
    scale = b.constant(target, *struct.unpack("=I", struct.pack("=f", 65536)))
    scaled = b(op.OpFMul, target, b(op.OpConvertUToF, target, upper), scale)
    return b(op.OpFAdd, target, scaled, b(op.OpConvertUToF, target, lower))


def _rounded_once(b: Builder, _: int, target: int, value: int) -> int:
    """Forbids to combine the conversion with the one back."""
    return b(op.OpFConvert, target, value)


def _half_of_double(b: Builder, source: int, target: int, value: int) -> int:
    """Clears the low word of the significand, and sets the lowest bit above it if the word was not zero.

    The result is a float32 and rounds to the same float16: it is between the same neighbours, and a tie only if the
    number was. Boldo and Melquiond, Emulation of a FMA and Correctly Rounded Sums: Proved Algorithms Using Rounding to
    Odd (2008).
    """

    def odd(low: int, high: int) -> tuple[int, int]:
        zero, one = (b.constant(b.word, value) for value in (0, 1))
        is_exact = b(op.OpIEqual, b.bool, low, zero)
        return zero, b(op.OpBitwiseOr, b.word, high, b(op.OpSelect, b.word, is_exact, zero, one))

    single = b.like(source, op.OpTypeFloat, 32)
    return b(op.OpFConvert, target, b(op.OpFConvert, single, _by_words(b, source, (value,), odd)))


def _truncated(b: Builder, _: int, kind: int, value: int) -> int:
    """Rounds the magnitude down."""
    return _by_magnitude(b, kind, value, lambda magnitude: b.call(glsl.Floor, kind, magnitude))


def _rounded(b: Builder, _: int, kind: int, value: int) -> int:
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


def _by_magnitude(b: Builder, kind: int, value: int, function: Callable[[int], int]) -> int:
    """Applies a function to the magnitude of float64, and gives the result their signs."""
    sign = b.constant(b.word, _SIGN)
    magnitude = function(_magnitude(b, kind, value))

    def signed(low: int, high: int, _: int, given: int) -> tuple[int, int]:
        return low, b(op.OpBitwiseOr, b.word, high, b(op.OpBitwiseAnd, b.word, given, sign))

    return _by_words(b, kind, (magnitude, value), signed)


def _magnitude(b: Builder, kind: int, value: int) -> int:
    """Clears the sign bits of float64."""
    mask = b.constant(b.word, _SIGN - 1)
    return _by_words(b, kind, (value,), lambda low, high: (low, b(op.OpBitwiseAnd, b.word, high, mask)))


def _by_words(b: Builder, kind: int, values: Sequence[int], function: Callable[..., tuple[int, int]]) -> int:
    """Applies a function to the low and the high word of float64 values; it returns those of the result."""
    pair, parts = b.pair, []
    element, n = b.shape(kind)
    for at in range(n):
        wholes = values if n == 1 else [b(op.OpCompositeExtract, element, column, at) for column in values]
        pairs = [b(op.OpBitcast, pair, whole) for whole in wholes]
        changed = function(*[b(op.OpCompositeExtract, b.word, pair, half) for pair in pairs for half in (0, 1)])
        parts.append(b(op.OpBitcast, element, b(op.OpCompositeConstruct, pair, *changed)))
    return parts[0] if n == 1 else b(op.OpCompositeConstruct, kind, *parts)


def _double(b: Builder, kind: int, value: float) -> int:
    return b.constant(kind, *struct.unpack("=2I", struct.pack("=d", value)))


CONVERSIONS: dict[str, dict[_Key, Replace]] = {
    "int32 to int64": {_Key(op.OpSConvert, 32, 64): _widened},
    "uint32 to float32": {_Key(op.OpConvertUToF, 32, 32): _float_of_uint},
    "float64 to float32": {_Key(op.OpFConvert, 64, 32): _rounded_once},
    "float32 to float16": {_Key(op.OpFConvert, 32, 16): _rounded_once},
    "float64 to float16": {_Key(op.OpFConvert, 64, 16): _half_of_double},
    "truncation of float64": {_Key(op.OpExtInst, 64, 64, glsl.Trunc): _truncated},
    "rounding of float64": {
        _Key(op.OpExtInst, 64, 64, rounding): _rounded for rounding in (glsl.Round, glsl.RoundEven)
    },
}
"""Name -> its keys, each with the replacement."""
