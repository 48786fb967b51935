"""An index of a module by id: definitions, names, decorations, values of constants."""

from __future__ import annotations

import struct

from vkcompute.errors import SpirvError
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.instruction import Instruction, result_id, string_at
from vkcompute.spirv.module import Module

Decorations = dict[int, tuple[int, ...]]  # decoration -> the words after it


class Index:
    """Lookup tables for reflection, built once per module.

    Attributes:
        definitions: result id -> global declaration.
        names: id -> OpName.
        member_names: structure id -> {member number: OpMemberName}.
        decorations: id -> its decorations, including those of decoration groups.
        member_decorations: structure id -> {member number: decorations}.
    """

    __slots__ = ("decorations", "definitions", "member_decorations", "member_names", "names")

    def __init__(self, module: Module) -> None:
        self.definitions: dict[int, Instruction] = {}
        self.names: dict[int, str] = {}
        self.member_names: dict[int, dict[int, str]] = {}
        self.decorations: dict[int, Decorations] = {}
        self.member_decorations: dict[int, dict[int, Decorations]] = {}
        for instruction in module.names:
            self._name(instruction)
        for instruction in module.annotations:
            self._decorate(instruction)
        for instruction in module.declarations:
            result = result_id(instruction)
            if result is not None:
                self.definitions[result] = instruction

    def _name(self, instruction: Instruction) -> None:
        operands = instruction.operands
        if instruction.opcode == op.OpName:
            self.names[operands[0]] = string_at(operands, 1, instruction)[0]
        elif instruction.opcode == op.OpMemberName:
            self.member_names.setdefault(operands[0], {})[operands[1]] = string_at(operands, 2, instruction)[0]

    def _decorate(self, instruction: Instruction) -> None:
        opcode, operands = instruction.opcode, instruction.operands
        if opcode == op.OpDecorate and len(operands) > 1:
            self.decorations.setdefault(operands[0], {})[operands[1]] = operands[2:]
        elif opcode == op.OpMemberDecorate and len(operands) > 2:
            members = self.member_decorations.setdefault(operands[0], {})
            members.setdefault(operands[1], {})[operands[2]] = operands[3:]
        elif opcode == op.OpGroupDecorate:
            group = self.decorations.get(operands[0], {})
            for target in operands[1:]:
                self.decorations.setdefault(target, {}).update(group)
        elif opcode == op.OpGroupMemberDecorate:
            group = self.decorations.get(operands[0], {})
            for target, member in zip(operands[1::2], operands[2::2], strict=False):
                self.member_decorations.setdefault(target, {}).setdefault(member, {}).update(group)

    def name(self, identifier: int) -> str:
        """The OpName of `identifier`, or ""."""
        return self.names.get(identifier, "")

    def definition(self, identifier: int, what: str) -> Instruction:
        """The global declaration of `identifier`; `what` names its role in errors.

        Raises:
            SpirvError: there is none.
        """
        definition = self.definitions.get(identifier)
        if definition is None:
            raise SpirvError(f"id {identifier}, used as {what}, has no global declaration")
        return definition

    def pointee(self, identifier: int, what: str) -> Instruction:
        """The type that the pointer type `identifier` points to."""
        pointer = self.definition(identifier, what)
        if pointer.opcode != op.OpTypePointer:
            raise SpirvError(f"{what} has the type {pointer}; SPIR-V requires OpTypePointer")
        return self.definition(pointer.operands[2], what)

    def decoration(self, identifier: int, decoration: int) -> int | None:
        """The first operand of `decoration` on `identifier`; None without that decoration."""
        words = self.decorations.get(identifier, {}).get(decoration)
        return words[0] if words else None

    def integer(self, identifier: int, what: str) -> int:
        """The value of an integer constant, or the default of a specialization constant.

        Raises:
            SpirvError: not an integer constant, or computed from specialization constants.
        """
        constant = self.definition(identifier, what)
        kind = self.definition(constant.operands[0], what) if len(constant.operands) > 1 else constant
        if constant.opcode not in (op.OpConstant, op.OpSpecConstant) or kind.opcode != op.OpTypeInt:
            raise SpirvError(
                f"{what} is {constant}; vkcompute reads only OpConstant and OpSpecConstant of an integer type"
            )
        return int(literal(constant.operands[2:], scalar_name(kind), str(constant)))


_FLOAT_ENCODINGS = {0: "bfloat16", 4214: "float8_e4m3", 4215: "float8_e5m2"}  # SPV_KHR_bfloat16, SPV_EXT_float8
_WIDTHS = {op.OpTypeInt: (8, 16, 32, 64), op.OpTypeFloat: (8, 16, 32, 64)}
_FORMATS = {"float16": "<e", "float32": "<f", "float64": "<d"}


def scalar_name(kind: Instruction) -> str:
    """numpy's name of a scalar type; the common name of a float type that numpy lacks, e.g. "bfloat16".

    Raises:
        SpirvError: not a scalar type, or of an invalid width.
    """
    if kind.opcode == op.OpTypeBool:
        return "bool"
    if kind.opcode not in _WIDTHS:
        raise SpirvError(f"{kind} is not a scalar type")
    bits, rest = kind.operands[1], kind.operands[2:]
    if bits not in _WIDTHS[kind.opcode]:
        raise SpirvError(f"{kind} has {bits} bits; valid are {_WIDTHS[kind.opcode]}")
    if kind.opcode == op.OpTypeInt:
        return f"{'int' if rest[0] else 'uint'}{bits}"
    return _FLOAT_ENCODINGS.get(rest[0], f"float{bits}_encoding{rest[0]}") if rest else f"float{bits}"


def literal(words: tuple[int, ...], scalar: str, where: str) -> int | float:
    """The value of a constant's literal words, low word first; a narrow number occupies the low bits of one word."""
    digits = scalar.lstrip("abcdefghijklmnopqrstuvwxyz")
    bits = int(digits) if digits.isdigit() else 32
    if len(words) != max(1, bits // 32):
        raise SpirvError(f"{where}: a {scalar} literal has {len(words)} words; it needs {max(1, bits // 32)}")
    value = sum(word << 32 * k for k, word in enumerate(words)) & (1 << bits) - 1
    if scalar in _FORMATS:
        number: float = struct.unpack(_FORMATS[scalar], value.to_bytes(bits // 8, "little"))[0]
        return number
    signed = scalar.startswith("int") and value >> bits - 1
    return value - (1 << bits) if signed else value
