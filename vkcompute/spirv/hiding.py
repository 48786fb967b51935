"""A rewriter of functions that hides values from compilers, by a number that is 0 but that they do not know."""

from __future__ import annotations

from vkcompute.spirv import opcodes as op
from vkcompute.spirv.builder import Builder
from vkcompute.spirv.enums import BuiltIn
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.module import Module

_HIGHEST = 31
"""The highest bit of an invocation's index in its workgroup: 0 on every device, but unknown to compilers."""


class Hider:
    """Rewrites the functions of a module, one by one; a subclass has `rewritten`.

    Attributes:
        builder: of the module's instructions.
        code: the instructions at the start of the current function, which compute what hides its values.
    """

    def __init__(self, module: Module) -> None:
        self.builder = Builder(module)
        self.code: list[Instruction] = []
        self._module, self._word = module, 0

    def rewritten(self, given: Instruction) -> list[Instruction]:
        """Returns the instructions in place of one of the current function."""
        raise NotImplementedError

    def start(self) -> None:
        """Starts a function: what was computed in another one is not known in it."""
        self.code, self._word = [], 0

    def run(self) -> bool:
        """Rewrites all functions in place; returns False if nothing was hidden."""
        module, functions, first = self._module, list[Instruction](), 0
        for stop, instruction in enumerate(module.functions, 1):
            if instruction.opcode == op.OpFunctionEnd:
                functions += self._function(module.functions[first:stop])
                first = stop
        if len(functions) == len(module.functions):
            return False
        module.functions = functions
        return True

    def _function(self, given: list[Instruction]) -> list[Instruction]:
        self.start()
        body: list[Instruction] = []
        for instruction in given:
            self.builder.define(instruction)
            body += self.rewritten(instruction)
        start = next((at for at, instruction in enumerate(body, 1) if instruction.opcode == op.OpLabel), 0)
        while body[start].opcode in (op.OpVariable, op.OpLine, op.OpNoLine):
            start += 1
        return [*body[:start], *self.code, *body[start:]]

    def made(self, code: list[Instruction], opcode: int, kind: int, *operands: int) -> int:
        """Appends an instruction to code, and returns its result."""
        self.builder.code = code
        return self.builder(opcode, kind, *operands)

    def zero_word(self) -> int:
        """Returns a uint32 that is 0."""
        if not self._word:
            builder = self.builder
            index = self.made(self.code, op.OpLoad, builder.word, builder.builtin(BuiltIn.LocalInvocationIndex))
            shift = builder.constant(builder.word, _HIGHEST)
            self._word = self.made(self.code, op.OpShiftRightLogical, builder.word, index, shift)
        return self._word
