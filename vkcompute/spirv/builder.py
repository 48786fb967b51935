"""A builder of instructions that are added to the functions of a parsed module."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from vkcompute.spirv import opcodes as op
from vkcompute.spirv.enums import Decoration, StorageClass
from vkcompute.spirv.instruction import LAYOUT, Instruction, string_at
from vkcompute.spirv.module import Module

_GLSL = "GLSL.std.450"


def may_call(words: np.ndarray[tuple[int], np.dtype[np.uint32]], numbers: Collection[int]) -> bool:
    """Returns False if certainly none of these extended instructions is in a module."""
    extended = np.flatnonzero(words & 0xFFFF == op.OpExtInst)
    if not extended.size:  # np.isin of no elements would import numpy.ma, which takes 10 to 30 ms
        return False
    return bool(np.isin(words[np.minimum(extended + 4, len(words) - 1)], [*numbers]).any())


class Builder:
    """Makes instructions with ids, and the types and constants that they need.

    Attributes:
        types: id of a value -> id of its type.
        code: the instructions made so far.
        glsl: the ids of the set GLSL.std.450 of extended instructions.
        extended: that of the instruction that is replaced.
    """

    def __init__(self, module: Module) -> None:
        self._module, self.types, self.code = module, dict[int, int](), list[Instruction]()
        self.glsl = {
            imported.operands[0] for imported in module.imports if string_at(imported.operands, 1, imported)[0] == _GLSL
        }
        self.extended = 0
        self._known: dict[tuple[int, ...], int] = {}  # a type as words -> its id
        self._words: dict[int, tuple[int, ...]] = {}  # the reverse
        self._globals: dict[tuple[int, ...], int] = {}  # a declaration as words, but for its id -> its id
        for declaration in module.declarations:
            self.define(declaration)

    def define(self, given: Instruction) -> None:
        """Notes a type, or the type of a value."""
        operands = given.operands
        if given.opcode in (op.OpTypeInt, op.OpTypeFloat, op.OpTypeBool, op.OpTypeVector):
            self._words[operands[0]] = words = given.opcode, *operands[1:]
            self._known.setdefault(words, operands[0])
        elif LAYOUT.get(given.opcode, (0, -1))[1] == 1:
            self.types[operands[1]] = operands[0]

    def width(self, kind: int) -> int:
        """The width of a number's type, or of a vector's elements; 0 for other types."""
        words = self._words.get(kind, (0,))
        if words[0] == op.OpTypeVector:
            return self.width(words[1])
        return words[1] if words[0] in (op.OpTypeInt, op.OpTypeFloat) else 0

    def like(self, kind: int, *element: int) -> int:
        """The type of these elements with the shape of `kind`."""
        words = self._words[kind]
        scalar = self._declared(*element)
        return self._declared(op.OpTypeVector, scalar, words[2]) if words[0] == op.OpTypeVector else scalar

    def shape(self, kind: int) -> tuple[int, int]:
        """The type of a vector's elements, and their number; of a number, its type and 1."""
        words = self._words[kind]
        return (words[1], words[2]) if words[0] == op.OpTypeVector else (kind, 1)

    @property
    def word(self) -> int:
        """The type uint32."""
        return self._declared(op.OpTypeInt, 32, 0)

    def unsigned(self, kind: int) -> int:
        """The type of unsigned integers with the width of a type of integers."""
        return self._declared(op.OpTypeInt, self.width(kind), 0)

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
        element, n = self.shape(kind)
        one = self._global(op.OpConstant, element, *words)
        return one if n == 1 else self._global(op.OpConstantComposite, kind, *[one] * n)

    def builtin(self, number: int) -> int:
        """The input variable of a built-in uint32; declares it if the module has none."""
        module, wanted = self._module, (Decoration.BuiltIn, number)
        for annotation in module.annotations:
            if annotation.opcode == op.OpDecorate and annotation.operands[1:] == wanted:
                return annotation.operands[0]
        pointer = self._declared(op.OpTypePointer, StorageClass.Input, self.word)
        variable = self._global(op.OpVariable, pointer, StorageClass.Input)
        module.annotations.append(Instruction(op.OpDecorate, (variable, *wanted)))
        module.entry_points = [
            entry_point._replace(operands=(*entry_point.operands, variable)) for entry_point in module.entry_points
        ]
        return variable

    def hidden(self, value: int) -> int:
        """A value that compilers cannot know, even if they know `value`, which it is equal to."""
        kind = self.types[value]
        return self(op.OpSelect, kind, self._opaque_true(self.like(kind, op.OpTypeBool)), value, self._null(kind))

    def _opaque_true(self, kind: int) -> int:
        """True of a type of bools. A specialization constant without a SpecId cannot be set."""
        element, n = self.shape(kind)
        one = self._global(op.OpSpecConstantTrue, element)
        return one if n == 1 else self._global(op.OpSpecConstantComposite, kind, *[one] * n)

    def _null(self, kind: int) -> int:
        return self._global(op.OpConstantNull, kind)

    def _global(self, opcode: int, kind: int, *operands: int) -> int:
        """A declaration with a result of a type, made once."""
        key = opcode, kind, *operands
        if key not in self._globals:
            self._globals[key] = identifier = self._id()
            self._module.declarations.append(Instruction(opcode, (kind, identifier, *operands)))
        return self._globals[key]

    def _declared(self, opcode: int, *words: int) -> int:
        identifier = self._known.get((opcode, *words))
        if identifier is None:
            identifier = self._id()
            self.define(Instruction(opcode, (identifier, *words)))
            self._module.declarations.append(Instruction(opcode, (identifier, *words)))
        return identifier

    def _id(self) -> int:
        self._module.bound += 1
        return self._module.bound - 1
