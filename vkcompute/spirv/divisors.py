"""Divisors of integers, hidden from compilers that know them for each lane.

A divisor `inside ? d : 1` may have a lane in which `d` is 0. LLVM takes the vector of all quotients by `d` for
undefined then, and returns the dividends: threadBinOpOverSelect and simplifyDivRem in InstructionSimplify.cpp.
"""

from __future__ import annotations

import numpy as np

from vkcompute.spirv import opcodes as op
from vkcompute.spirv.hiding import Hider
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.module import Module

_DIVISIONS = op.OpUDiv, op.OpSDiv, op.OpUMod, op.OpSRem, op.OpSMod


def hide_divisors(spirv: bytes) -> bytes:
    """Adds the bit that compilers do not know to divisors of integers that are no constants, by a bitwise or."""
    if not np.isin(np.frombuffer(spirv, np.uint32) & 0xFFFF, _DIVISIONS).any():
        return spirv
    module = Module.parse(spirv)
    return module.words() if _Divisors(module).run() else spirv


class _Divisors(Hider):
    """Hides the divisors of a module."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self._constants = {
            declaration.operands[1] for declaration in module.declarations if declaration.opcode in _CONSTANTS
        }
        self._zeros: dict[int, int] = {}  # type -> a number that is 0, in the current function

    def start(self) -> None:
        """Starts a function."""
        super().start()
        self._zeros = {}

    def rewritten(self, given: Instruction) -> list[Instruction]:
        """Returns an instruction, and before a division the one that hides its divisor."""
        if given.opcode not in _DIVISIONS or given.operands[3] in self._constants:
            return [given]
        kind, result, dividend, divisor = given.operands
        kind_of_divisor, before = self.builder.types[divisor], list[Instruction]()
        hidden = self.made(before, op.OpBitwiseOr, kind_of_divisor, divisor, self._zero(kind_of_divisor))
        return [*before, given._replace(operands=(kind, result, dividend, hidden))]

    def _zero(self, kind: int) -> int:
        """Returns a number or vector of a type that is 0."""
        if kind not in self._zeros:
            builder, code = self.builder, self.code
            element, n = builder.shape(kind)
            unsigned, zero = builder.unsigned(element), self.zero_word()
            if unsigned != builder.word:
                zero = self.made(code, op.OpUConvert, unsigned, zero)
            if unsigned != element:
                zero = self.made(code, op.OpBitcast, element, zero)
            self._zeros[kind] = zero if n == 1 else self.made(code, op.OpCompositeConstruct, kind, *[zero] * n)
        return self._zeros[kind]


_CONSTANTS = (
    op.OpConstant, op.OpConstantComposite, op.OpConstantNull, op.OpSpecConstant, op.OpSpecConstantComposite,
    op.OpSpecConstantOp,
)  # fmt: skip
