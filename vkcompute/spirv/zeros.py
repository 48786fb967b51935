"""Zeros of floats, hidden from compilers that simplify arithmetic with them.

Mesa's gallivm folds arithmetic with constant zeros in lp_build_mul, lp_build_add, lp_build_sub and lp_build_div. It
takes x * 0 and 0 / x for 0, x + 0 for x, and x / 0 for undefined. That is wrong for NaN, infinities and signs of zeros.
"""

from __future__ import annotations

import numpy as np

from vkcompute.spirv import opcodes as op
from vkcompute.spirv.builder import Builder
from vkcompute.spirv.enums import BuiltIn
from vkcompute.spirv.instruction import Instruction, value_positions
from vkcompute.spirv.module import Module

_CONVERSIONS = op.OpConvertSToF, op.OpConvertUToF
_COMPOSITES = op.OpConstantComposite, op.OpSpecConstantComposite
_HIGHEST = 31
"""The highest bit of an invocation's index in its workgroup: 0 on every device, but unknown to compilers."""


def hide_zeros(spirv: bytes) -> bytes:
    """Replaces constant zeros of floats, and constants with such an element, in the functions of a module.

    Their replacement is computed from the invocation's index. In modules with loops or specialization constants, it is
    also added to integers of 32 bits that are converted to floats. For compilers know these constants, and the counters
    of loops that they unroll. Specialization constants of floats, which may be zeros, pass through a selection by it.

    Zeros stay that the compiler computes itself from other constants.
    """
    module = Module.parse(spirv)
    rewriter = _Rewriter(module)
    functions: list[Instruction] = []
    start = 0
    for stop, each in enumerate(module.functions, 1):
        if each.opcode == op.OpFunctionEnd:
            functions += rewriter.function(module.functions[start:stop])
            start = stop
    if len(functions) == len(module.functions):
        return spirv
    module.functions = functions
    return module.words()


class _Rewriter:
    """Replaces the zeros of a module, function by function.

    Attributes:
        code: the instructions at the start of the current function, which compute its zeros.
    """

    def __init__(self, module: Module) -> None:
        self._builder = Builder(module)
        self._floats = {each.operands[0] for each in module.declarations if each.opcode == op.OpTypeFloat}
        self._constants: dict[int, Instruction] = {}  # those that are or may be a zero, or have one
        for each in module.declarations:
            if self._has_zero(each):
                self._constants[each.operands[1]] = each
        opcodes = {each.opcode for each in (*module.declarations, *module.functions)}
        self._hides_integers = not opcodes.isdisjoint((op.OpLoopMerge, op.OpSpecConstant))
        self._known: dict[int, int] = {}  # constant -> its replacement in the current function
        self._word = 0
        self.code: list[Instruction] = []

    def _has_zero(self, given: Instruction) -> bool:
        if given.opcode == op.OpConstant:
            return given.operands[0] in self._floats and not any(self._magnitude(given))
        if given.opcode == op.OpConstantNull:
            kind = given.operands[0]
            return self._builder.width(kind) > 0 and self._builder.shape(kind)[0] in self._floats
        if given.opcode == op.OpSpecConstant:
            return given.operands[0] in self._floats
        return given.opcode in _COMPOSITES and not self._constants.keys().isdisjoint(given.operands[2:])

    def _magnitude(self, constant: Instruction) -> tuple[int, ...]:
        """Returns the words of a float without its sign."""
        kind, _, *words = constant.operands
        sign = 1 << (self._builder.width(kind) - 1) % 32
        return *words[:-1], words[-1] & ~sign

    def function(self, given: list[Instruction]) -> list[Instruction]:
        """Returns the instructions of a function with its zeros replaced."""
        self._known, self._word, self.code = {}, 0, []
        body: list[Instruction] = []
        for each in given:
            self._builder.define(each)
            body += self._rewritten(each)
        start = next((at for at, each in enumerate(body, 1) if each.opcode == op.OpLabel), 0)
        while body[start].opcode in (op.OpVariable, op.OpLine, op.OpNoLine):
            start += 1
        return [*body[:start], *self.code, *body[start:]]

    def _rewritten(self, given: Instruction) -> list[Instruction]:
        if given.opcode == op.OpVariable:  # its initial value is a constant
            return [given]
        operands = list(given.operands)
        found = [at for at in value_positions(given.opcode, len(operands)) if operands[at] in self._constants]
        for at in found:
            operands[at] = self._zero(operands[at])
        before: list[Instruction] = []
        if self._hides_integers and given.opcode in _CONVERSIONS:
            kind = self._builder.types.get(operands[2], 0)
            if self._builder.width(kind) == 32 and self._builder.shape(kind)[1] == 1:
                zero = self._zero_word()
                operands[2] = self._made(before, op.OpIAdd, kind, operands[2], zero)
        return [*before, given._replace(operands=tuple(operands))] if found or before else [given]

    def _made(self, code: list[Instruction], opcode: int, kind: int, *operands: int) -> int:
        """Appends an instruction to code, and returns its result."""
        self._builder.code = code
        return self._builder(opcode, kind, *operands)

    def _zero_word(self) -> int:
        """Returns a uint32 that is 0."""
        if not self._word:
            builder = self._builder
            index = self._made(self.code, op.OpLoad, builder.word, builder.builtin(BuiltIn.LocalInvocationIndex))
            shift = builder.constant(builder.word, _HIGHEST)
            self._word = self._made(self.code, op.OpShiftRightLogical, builder.word, index, shift)
        return self._word

    def _true(self) -> int:
        """Returns a bool that is True."""
        builder, zero = self._builder, self._zero_word()
        return self._made(self.code, op.OpIEqual, builder.bool, zero, builder.constant(builder.word, 0))

    def _three(self, kind: int) -> int:
        """Returns the constant 3.0 of a type of floats. Mesa takes a selection of -0.0 or 1.0 for one of 0.0 or 1.0."""
        width = self._builder.width(kind)
        words = np.array([3], f"f{width // 8}").tobytes().ljust(4, b"\0")
        return self._builder.constant(kind, *np.frombuffer(words, np.uint32).tolist())

    def _zero(self, constant: int) -> int:
        """Returns the replacement of a constant with a zero."""
        if constant not in self._known:
            opcode, (kind, _, *parts) = self._constants[constant].opcode, self._constants[constant].operands
            if opcode == op.OpSpecConstant:
                found = self._made(self.code, op.OpSelect, kind, self._true(), constant, self._three(kind))
            elif opcode in _COMPOSITES:
                parts = [self._zero(each) if each in self._constants else each for each in parts]
                found = self._made(self.code, op.OpCompositeConstruct, kind, *parts)
            else:
                element, n = self._builder.shape(kind)
                found = self._made(self.code, op.OpConvertUToF, element, self._zero_word())
                if any(parts):  # -0.0: compilers write x - 0.0 as x + -0.0
                    found = self._made(self.code, op.OpFNegate, element, found)
                found = found if n == 1 else self._made(self.code, op.OpCompositeConstruct, kind, *[found] * n)
            self._known[constant] = found
        return self._known[constant]
