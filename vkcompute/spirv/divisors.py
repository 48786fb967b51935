"""Divisors of integers, hidden from compilers that know them for each lane.

A divisor `inside ? d : 1` may have a lane in which `d` is 0. LLVM takes the vector of all quotients by `d` for
undefined then, and returns the dividends: threadBinOpOverSelect and simplifyDivRem in InstructionSimplify.cpp.
"""

from __future__ import annotations

import numpy as np

from vkcompute.spirv import opcodes as op
from vkcompute.spirv.builder import Builder
from vkcompute.spirv.enums import BuiltIn
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.module import Module

_DIVISIONS = op.OpUDiv, op.OpSDiv, op.OpUMod, op.OpSRem, op.OpSMod
_HIGHEST = 31
"""The highest bit of an invocation's index in its workgroup: 0 on every device, but unknown to compilers."""


def hide_divisors(spirv: bytes) -> bytes:
    """Adds the bit that compilers do not know to divisors of integers that are no constants, by a bitwise or."""
    if not np.isin(np.frombuffer(spirv, np.uint32) & 0xFFFF, _DIVISIONS).any():
        return spirv
    module = Module.parse(spirv)
    rewriter, functions, start = _Rewriter(module), list[Instruction](), 0
    for stop, each in enumerate(module.functions, 1):
        if each.opcode == op.OpFunctionEnd:
            functions += rewriter.function(module.functions[start:stop])
            start = stop
    if len(functions) == len(module.functions):
        return spirv
    module.functions = functions
    return module.words()


class _Rewriter:
    """Rewrites the divisions of a module, function by function."""

    def __init__(self, module: Module) -> None:
        self._builder = Builder(module)
        self._constants = {each.operands[1] for each in module.declarations if each.opcode in _CONSTANTS}
        self._zeros: dict[int, int] = {}  # type -> a number that is 0, in the current function
        self._word = 0

    def function(self, given: list[Instruction]) -> list[Instruction]:
        """Returns the instructions of a function with its divisors hidden."""
        body, head = list[Instruction](), list[Instruction]()
        self._zeros, self._word = {}, 0
        for each in given:
            self._builder.define(each)
            is_hidden = each.opcode in _DIVISIONS and each.operands[3] not in self._constants
            body += self._hidden(each, head) if is_hidden else [each]
        start = next((at for at, each in enumerate(body, 1) if each.opcode == op.OpLabel), 0)
        while body[start].opcode in (op.OpVariable, op.OpLine, op.OpNoLine):
            start += 1
        return [*body[:start], *head, *body[start:]]

    def _hidden(self, division: Instruction, head: list[Instruction]) -> list[Instruction]:
        builder, (kind, result, dividend, divisor) = self._builder, division.operands
        kind_of_divisor = builder.types[divisor]
        zero = self._zero(kind_of_divisor, head)
        builder.code = code = list[Instruction]()
        hidden = builder(op.OpBitwiseOr, kind_of_divisor, divisor, zero)
        return [*code, division._replace(operands=(kind, result, dividend, hidden))]

    def _zero(self, kind: int, head: list[Instruction]) -> int:
        """Returns a number or vector of a type that is 0; the instructions go to the start of the function."""
        builder = self._builder
        if kind not in self._zeros:
            builder.code = head
            if not self._word:
                index = builder(op.OpLoad, builder.word, builder.builtin(BuiltIn.LocalInvocationIndex))
                shift = builder.constant(builder.word, _HIGHEST)
                self._word = builder(op.OpShiftRightLogical, builder.word, index, shift)
            element, n = builder.shape(kind)
            unsigned = builder.unsigned(element)
            zero = self._word if unsigned == builder.word else builder(op.OpUConvert, unsigned, self._word)
            if unsigned != element:
                zero = builder(op.OpBitcast, element, zero)
            self._zeros[kind] = zero if n == 1 else builder(op.OpCompositeConstruct, kind, *[zero] * n)
        return self._zeros[kind]


_CONSTANTS = (
    op.OpConstant, op.OpConstantComposite, op.OpConstantNull, op.OpSpecConstant, op.OpSpecConstantComposite,
    op.OpSpecConstantOp,
)  # fmt: skip
