"""Values: the definitions and types of ids so far, for the rules of validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, NoReturn

from vkcompute.errors import SpirvError
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.instruction import Instruction

NOTHING = Instruction(op.OpNop, ())
TYPES = frozenset(
    opcode for opcode in op.DECLARED if op.SHAPES[opcode].startswith("R") and opcode != op.OpTypeForwardPointer
)
CONSTANTS = frozenset(opcode for opcode in op.DECLARED if op.SHAPES[opcode].startswith("TR"))
_COOPERATIVE = (op.OpTypeCooperativeMatrixKHR, op.OpTypeCooperativeMatrixNV)
_BASES = {op.OpTypeBool: "b", op.OpTypeInt: "i", op.OpTypeFloat: "f"}


class Shape(NamedTuple):
    """A scalar or vector type.

    Attributes:
        base: b bool, i integer, f float, c cooperative matrix, or "" for other types.
        width: bits of a component; of a cooperative matrix, its id.
        length: components; 0 for a cooperative matrix.
    """

    base: str
    width: int
    length: int


class Values:
    """The definitions so far.

    Attributes:
        defined: id -> its definition.
        types: id of a value -> id of its type.
        forward_pointers: ids declared by OpTypeForwardPointer.
        in_function: True in the function section.
        capabilities: those that the module declares, and those that they imply.
    """

    __slots__ = ("capabilities", "defined", "forward_pointers", "in_function", "types")

    def __init__(self, capabilities: set[int]) -> None:
        self.capabilities = capabilities
        self.defined: dict[int, Instruction] = {}
        self.types: dict[int, int] = {}
        self.forward_pointers: set[int] = set()
        self.in_function = False

    def definition(self, identifier: int) -> Instruction:
        """The definition of `identifier`, or `NOTHING`."""
        return self.defined.get(identifier, NOTHING)

    def type_of(self, identifier: int) -> Instruction:
        """The type of the value `identifier`, or `NOTHING`."""
        return self.definition(self.types.get(identifier, 0))

    def is_type(self, identifier: int) -> bool:
        return self.definition(identifier).opcode in TYPES or identifier in self.forward_pointers

    def shape(self, kind: int) -> Shape:
        """The shape of the type `kind`."""
        definition, count = self.definition(kind), 1
        if definition.opcode == op.OpTypeVector:
            definition, count = self.definition(definition.operands[1]), definition.operands[2]
        if definition.opcode in _COOPERATIVE:
            return Shape("c", kind, 0)
        base = _BASES.get(definition.opcode, "")
        return Shape(base, definition.operands[1] if base in ("i", "f") else 0, count)

    def pointee(self, instruction: Instruction, identifier: int) -> int:
        """Id of the pointee type of the pointer `identifier`; 0 for an untyped pointer.

        Raises:
            SpirvError: not a pointer.
        """
        kind = self.type_of(identifier)
        if kind.opcode == op.OpTypePointer:
            return kind.operands[2]
        if kind.opcode != op.OpTypeUntypedPointerKHR:
            raise SpirvError(f"{instruction} needs a pointer; id {identifier} is not one")
        return 0

    def parts(self, instruction: Instruction, kind: int, count: int) -> list[int]:
        """Ids of the types of the parts of the composite type `kind`; of a runtime-sized one, `count` of them."""
        composite = self.definition(kind)
        if composite.opcode == op.OpTypeStruct:
            return list(composite.operands[1:])
        length = composite.operands[2] if composite.opcode in (op.OpTypeVector, op.OpTypeMatrix) else count
        if composite.opcode == op.OpTypeArray and self.definition(composite.operands[2]).opcode == op.OpConstant:
            length = self.definition(composite.operands[2]).operands[2]
        return [self.inner(instruction, kind, None)] * min(length, count + 1)

    def matrix(self, kind: int) -> tuple[int, int, int]:
        """Id of the component's type, columns and rows of a matrix, a vector (one column) or a scalar."""
        definition, columns = self.definition(kind), 1
        if definition.opcode == op.OpTypeMatrix:
            kind, columns = definition.operands[1:]
            definition = self.definition(kind)
        return (
            (definition.operands[1], columns, definition.operands[2])
            if definition.opcode == op.OpTypeVector
            else (kind, columns, 1)
        )

    def inner(self, instruction: Instruction, kind: int, index: int | None) -> int:
        """Id of the type of component `index` of the composite type `kind`; None is an index not known before run time.

        Raises:
            SpirvError: no such component.
        """
        composite = self.definition(kind)
        opcode, operands = composite.opcode, composite.operands
        if opcode == op.OpTypeStruct:
            if index is None or index >= len(operands) - 1:
                raise SpirvError(f"{instruction} indexes member {index} of {composite}, which has {len(operands) - 1}")
            return operands[1 + index]
        if opcode in (op.OpTypeVector, op.OpTypeMatrix):
            if index is not None and index >= operands[2]:
                raise SpirvError(f"{instruction} indexes component {index} of {composite}, which has {operands[2]}")
            return operands[1]
        if opcode in (op.OpTypeArray, op.OpTypeRuntimeArray, *_COOPERATIVE):
            return operands[1]
        raise SpirvError(f"{instruction} indexes {composite}, which is not a composite")


Rule = Callable[[Instruction, Values], None]
"""Checks an instruction against earlier definitions; raises SpirvError."""


def fail(instruction: Instruction, what: str) -> NoReturn:
    """Raises the error of a rule."""
    raise SpirvError(f"{instruction}: {what}")
