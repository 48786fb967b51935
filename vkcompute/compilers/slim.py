"""Compiled shaders in fewer bytes: no names that only a debugger reads, no detours, and ids that follow each other."""

from __future__ import annotations

import struct
from collections import Counter, defaultdict

from vkcompute.compilers.flow import Body, defined, renamed, shorten, uses
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.instruction import LAYOUT, Instruction

_HEADER_WORDS, _BOUND = 5, 3
# Instructions of the SPIR-V specification's section on debug information, and OpModuleProcessed.
_DEBUG = {
    *(op.OpSourceContinued, op.OpSource, op.OpSourceExtension, op.OpString, op.OpLine, op.OpNoLine),
    op.OpModuleProcessed,
}
_NAMES = (op.OpName, op.OpMemberName)
_ANNOTATIONS = (op.OpDecorate, op.OpMemberDecorate, op.OpDecorateId)
# What a kernel's caller sees: blocks and their members, bindings, specialization constants.
_SPEC_CONSTANTS = (op.OpSpecConstantTrue, op.OpSpecConstantFalse, op.OpSpecConstant)
_BOUND_CLASSES = (0, 2, 9, 12)  # storage classes UniformConstant, Uniform, PushConstant, StorageBuffer
_CONSTANT_CLASSES = (0, 1, 9)  # UniformConstant, Input, PushConstant


def slim(spirv: bytes) -> bytes:
    """SPIR-V that does and declares the same, with the names of its interface and no others.

    `spirv` is a compiler's output, in the machine's byte order.
    """
    words = struct.unpack(f"={len(spirv) // 4}I", spirv)
    code = [each for each in _instructions(words) if each.opcode not in _DEBUG]
    if not code:
        return spirv
    code = _without_unused(_without_doubles(_shortened(_without_inner_names(code))))
    numbers: dict[int, int] = {}
    for each in code:
        if defined(each):
            numbers[defined(each)] = len(numbers) + 1
    header = [*words[:_BOUND], len(numbers) + 1, *words[_BOUND + 1 : _HEADER_WORDS]]
    kept = [word for each in code for word in _words(_numbered(each, numbers))]
    return struct.pack(f"={len(header) + len(kept)}I", *header, *kept)


def _instructions(words: tuple[int, ...]) -> Body:
    code, at = [], _HEADER_WORDS
    while at < len(words):
        stop = at + (words[at] >> 16)
        code.append(Instruction(words[at] & 0xFFFF, words[at + 1 : stop]))
        at = stop
    return code


def _words(instruction: Instruction) -> tuple[int, ...]:
    return (len(instruction.operands) + 1 << 16 | instruction.opcode, *instruction.operands)


def _numbered(instruction: Instruction, numbers: dict[int, int]) -> Instruction:
    opcode, operands, _ = renamed(instruction, numbers)
    index = LAYOUT[opcode][1]
    if index >= 0:
        operands = (*operands[:index], numbers[operands[index]], *operands[index + 1 :])
    return Instruction(opcode, operands)


def _without_inner_names(code: Body) -> Body:
    """Only what means something to a caller keeps its name."""
    found = set()
    for opcode, operands, _ in code:
        if opcode == op.OpTypeStruct:
            found.add(operands[0])
        elif opcode in _SPEC_CONSTANTS or (opcode == op.OpVariable and operands[2] in _BOUND_CLASSES):
            found.add(operands[1])
    return [each for each in code if each.opcode not in _NAMES or each.operands[0] in found]


def _marks(code: Body) -> dict[int, tuple[Instruction, ...]]:
    """How each id is decorated, without the id itself."""
    found: defaultdict[int, tuple[Instruction, ...]] = defaultdict(tuple)
    for opcode, operands, _ in code:
        if opcode in _ANNOTATIONS:
            found[operands[0]] += (Instruction(opcode, operands[1:]),)
    return found


def _shortened(code: Body) -> Body:
    """Each function's blocks through `flow.shorten`, and the decorations of what is left."""
    variables = [each.operands for each in code if each.opcode == op.OpVariable]
    constant = {operands[1] for operands in variables if operands[2] in _CONSTANT_CLASSES}
    marks = _marks(code)
    kept: Body = []
    body: Body = []
    for each in code:
        if each.opcode == op.OpFunctionEnd:
            kept += shorten(body, marks, constant)
            body = []
        if each.opcode == op.OpLabel or body:
            body.append(each)
        else:
            kept.append(each)
    there = set(map(defined, kept))
    return [each for each in kept if each.opcode not in _ANNOTATIONS or each.operands[0] in there]


def _without_doubles(code: Body) -> Body:
    """Of types and constants that are declared twice, in the same words and with the same decorations, the first."""
    marks = _marks(code)
    first: dict[object, int] = {}
    names: dict[int, int] = {}
    for each in code:
        if each.opcode in op.DECLARED and each.opcode != op.OpTypeStruct:
            opcode, operands, _ = renamed(each, names)
            own, index = defined(each), LAYOUT[opcode][1]
            key = opcode, operands[:index], operands[index + 1 :], marks.get(own)
            if first.setdefault(key, own) != own:
                names[own] = first[key]
    return [
        renamed(each, names)
        for each in code
        if defined(each) not in names and not (each.opcode in _ANNOTATIONS and each.operands[0] in names)
    ]


def _without_unused(code: Body) -> Body:
    """Without types and constants that nothing uses."""
    code, before = [*code], 0
    while len(code) != before:
        before = len(code)
        used = Counter(identifier for each in code for identifier in uses(each))
        code = [each for each in code if each.opcode not in op.DECLARED or used[defined(each)]]
    return code
