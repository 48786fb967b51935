"""Zeros of floats, hidden from compilers that simplify arithmetic with them.

Mesa's gallivm folds arithmetic with constant zeros in lp_build_mul, lp_build_add, lp_build_sub and lp_build_div. It
takes x * 0 and 0 / x for 0, x + 0 for x, and x / 0 for undefined. That is wrong for NaN, infinities and signs of zeros.
"""

from __future__ import annotations

import numpy as np

from vkcompute.spirv import opcodes as op
from vkcompute.spirv.hiding import Hider
from vkcompute.spirv.instruction import Instruction, value_positions
from vkcompute.spirv.module import Module

_CONVERSIONS = op.OpConvertSToF, op.OpConvertUToF
_COMPOSITES = op.OpConstantComposite, op.OpSpecConstantComposite


def hide_zeros(spirv: bytes) -> bytes:
    """Replaces constant zeros of floats, and constants with such an element, in the functions of a module.

    Their replacement is computed from the invocation's index. In modules with loops or specialization constants, it is
    also added to integers of 32 bits that are converted to floats. For compilers know these constants, and the counters
    of loops that they unroll. Specialization constants of floats, which may be zeros, pass through a selection by it.

    Zeros stay that the compiler computes itself from other constants.
    """
    module = Module.parse(spirv)
    return module.words() if _Zeros(module).run() else spirv


class _Zeros(Hider):
    """Replaces the zeros of a module."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self._floats = {
            declaration.operands[0] for declaration in module.declarations if declaration.opcode == op.OpTypeFloat
        }
        self._constants: dict[int, Instruction] = {}  # those that are or may be a zero, or have one
        for declaration in module.declarations:
            if self._has_zero(declaration):
                self._constants[declaration.operands[1]] = declaration
        opcodes = {instruction.opcode for instruction in (*module.declarations, *module.functions)}
        self._hides_integers = not opcodes.isdisjoint((op.OpLoopMerge, op.OpSpecConstant))
        self._known: dict[int, int] = {}  # constant -> its replacement in the current function

    def start(self) -> None:
        """Starts a function."""
        super().start()
        self._known = {}

    def _has_zero(self, given: Instruction) -> bool:
        if given.opcode == op.OpConstant:
            return given.operands[0] in self._floats and not any(self._magnitude(given))
        if given.opcode == op.OpConstantNull:
            kind = given.operands[0]
            return self.builder.width(kind) > 0 and self.builder.shape(kind)[0] in self._floats
        if given.opcode == op.OpSpecConstant:
            return given.operands[0] in self._floats
        return given.opcode in _COMPOSITES and not self._constants.keys().isdisjoint(given.operands[2:])

    def _magnitude(self, constant: Instruction) -> tuple[int, ...]:
        """Returns the words of a float without its sign."""
        kind, _, *words = constant.operands
        sign = 1 << (self.builder.width(kind) - 1) % 32
        return *words[:-1], words[-1] & ~sign

    def rewritten(self, given: Instruction) -> list[Instruction]:
        """Returns an instruction with its zeros replaced, after what that needs."""
        if given.opcode == op.OpVariable:  # its initial value is a constant
            return [given]
        operands = list(given.operands)
        positions = [at for at in value_positions(given.opcode, len(operands)) if operands[at] in self._constants]
        for at in positions:
            operands[at] = self._zero(operands[at])
        before: list[Instruction] = []
        if self._hides_integers and given.opcode in _CONVERSIONS:
            kind = self.builder.types.get(operands[2], 0)
            if self.builder.width(kind) == 32 and self.builder.shape(kind)[1] == 1:
                zero = self.zero_word()
                operands[2] = self.made(before, op.OpIAdd, kind, operands[2], zero)
        return [*before, given._replace(operands=tuple(operands))] if positions or before else [given]

    def _true(self) -> int:
        """Returns a bool that is True."""
        builder, zero = self.builder, self.zero_word()
        return self.made(self.code, op.OpIEqual, builder.bool, zero, builder.constant(builder.word, 0))

    def _three(self, kind: int) -> int:
        """Returns the constant 3.0 of a type of floats. Mesa takes a selection of -0.0 or 1.0 for one of 0.0 or 1.0."""
        width = self.builder.width(kind)
        words = np.array([3], f"f{width // 8}").tobytes().ljust(4, b"\0")
        return self.builder.constant(kind, *np.frombuffer(words, np.uint32).tolist())

    def _zero(self, constant: int) -> int:
        """Returns the replacement of a constant with a zero."""
        if constant not in self._known:
            opcode, (kind, _, *parts) = self._constants[constant].opcode, self._constants[constant].operands
            if opcode == op.OpSpecConstant:
                selected = self.made(self.code, op.OpSelect, kind, self._true(), constant, self._three(kind))
            elif opcode in _COMPOSITES:
                parts = [self._zero(part) if part in self._constants else part for part in parts]
                selected = self.made(self.code, op.OpCompositeConstruct, kind, *parts)
            else:
                element, n = self.builder.shape(kind)
                selected = self.made(self.code, op.OpConvertUToF, element, self.zero_word())
                if any(parts):  # -0.0: compilers write x - 0.0 as x + -0.0
                    selected = self.made(self.code, op.OpFNegate, element, selected)
                selected = selected if n == 1 else self.made(self.code, op.OpCompositeConstruct, kind, *[selected] * n)
            self._known[constant] = selected
        return self._known[constant]
