"""Validation rules for types: of declarations, of pointers, and of values loaded and stored through them.

Only rules that need no dominance, and whose violation tends to crash a driver's compiler.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from vkcompute.errors import SpirvError
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.instruction import Instruction, string_at

NOTHING = Instruction(op.OpNop, ())
TYPES = frozenset(
    opcode for opcode in op.DECLARED if op.SHAPES[opcode].startswith("R") and opcode != op.OpTypeForwardPointer
)
_SCALARS = (op.OpTypeInt, op.OpTypeFloat, op.OpTypeBool)
_CONSTANTS = (op.OpConstant, op.OpSpecConstant, op.OpSpecConstantOp)
_SETS = re.compile(r"GLSL\.std\.450|OpenCL\.std|(OpenCL\.)?DebugInfo(\.\d+)?|NonSemantic\..+|SPV_\w+")
_WIDTHS = (8, 16, 32, 64)


class Values:
    """The definitions so far.

    Attributes:
        defined: id -> its definition.
        types: id of a value -> id of its type.
        forward_pointers: ids declared by OpTypeForwardPointer.
    """

    __slots__ = ("defined", "forward_pointers", "types")

    def __init__(self) -> None:
        self.defined: dict[int, Instruction] = {}
        self.types: dict[int, int] = {}
        self.forward_pointers: set[int] = set()

    def definition(self, identifier: int) -> Instruction:
        """The definition of `identifier`, or `NOTHING`."""
        return self.defined.get(identifier, NOTHING)

    def type_of(self, identifier: int) -> Instruction:
        """The type of the value `identifier`, or `NOTHING`."""
        return self.definition(self.types.get(identifier, 0))

    def is_type(self, identifier: int) -> bool:
        return self.definition(identifier).opcode in TYPES or identifier in self.forward_pointers

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
        if opcode in (
            op.OpTypeArray,
            op.OpTypeRuntimeArray,
            op.OpTypeCooperativeMatrixKHR,
            op.OpTypeCooperativeMatrixNV,
        ):
            return operands[1]
        raise SpirvError(f"{instruction} indexes {composite}, which is not a composite")


def _fail(instruction: Instruction, what: str) -> None:
    raise SpirvError(f"{instruction}: {what}")


def _import(instruction: Instruction, values: Values) -> None:
    name = string_at(instruction.operands, 1, instruction)[0]
    if not _SETS.fullmatch(name):
        _fail(instruction, f"{name!r} is not a known instruction set")


def _number_type(instruction: Instruction, values: Values) -> None:
    if instruction.operands[1] not in _WIDTHS:
        _fail(instruction, f"{instruction.operands[1]} bits; valid are {_WIDTHS}")


def _vector_type(instruction: Instruction, values: Values) -> None:
    _, part, count = instruction.operands
    if values.definition(part).opcode not in _SCALARS or count not in (2, 3, 4, 8, 16):
        _fail(instruction, f"a vector of {count} of {values.definition(part)}")


def _matrix_type(instruction: Instruction, values: Values) -> None:
    _, column, count = instruction.operands
    if values.definition(column).opcode != op.OpTypeVector or not 2 <= count <= 4:
        _fail(instruction, f"a matrix of {count} columns of {values.definition(column)}")


def _array_type(instruction: Instruction, values: Values) -> None:
    length = instruction.operands[2]
    constant = values.definition(length)
    if constant.opcode not in _CONSTANTS or values.type_of(length).opcode != op.OpTypeInt:
        _fail(instruction, f"the length is {constant}, which is not an integer constant")
    if constant.opcode == op.OpConstant and not any(constant.operands[2:]):
        _fail(instruction, "the length is 0")
    _part_types(instruction, values)


def _part_types(instruction: Instruction, values: Values) -> None:
    """Elements, members, pointees, parameters and results are types; elements and members are not void."""
    start, stop = {op.OpTypePointer: (2, 3), op.OpTypeArray: (1, 2)}.get(instruction.opcode, (1, None))
    for part in instruction.operands[start:stop]:
        void = values.definition(part).opcode == op.OpTypeVoid
        void = void and instruction.opcode not in (op.OpTypePointer, op.OpTypeFunction)
        if void or not values.is_type(part):
            _fail(instruction, f"id {part} is not a type that it can have")


def _image_type(instruction: Instruction, values: Values) -> None:
    _, part, _, depth, arrayed, multisampled, sampled, *_ = instruction.operands
    if values.definition(part).opcode not in (*_SCALARS, op.OpTypeVoid):
        _fail(instruction, f"texels of {values.definition(part)}")
    if depth > 2 or arrayed > 1 or multisampled > 1 or sampled > 2:
        _fail(instruction, f"depth {depth}, arrayed {arrayed}, multisampled {multisampled}, sampled {sampled}")


def _sampled_image_type(instruction: Instruction, values: Values) -> None:
    if values.definition(instruction.operands[1]).opcode != op.OpTypeImage:
        _fail(instruction, f"of {values.definition(instruction.operands[1])}, which is not an image type")


def _boolean(instruction: Instruction, values: Values) -> None:
    if values.definition(instruction.operands[0]).opcode != op.OpTypeBool:
        _fail(instruction, "its type is not OpTypeBool")


def _number(instruction: Instruction, values: Values) -> None:
    kind, words = values.definition(instruction.operands[0]), len(instruction.operands) - 2
    if kind.opcode not in (op.OpTypeInt, op.OpTypeFloat) or words != max(1, kind.operands[1] // 32):
        _fail(instruction, f"{words} literal words for a value of {kind}")


def _variable(instruction: Instruction, values: Values) -> None:
    kind, storage_class = values.definition(instruction.operands[0]), instruction.operands[2]
    if kind.opcode != op.OpTypePointer or kind.operands[1] != storage_class:
        _fail(instruction, f"its type is not a pointer with its storage class {storage_class}")


def _function(instruction: Instruction, values: Values) -> None:
    kind = values.definition(instruction.operands[3])
    if kind.opcode != op.OpTypeFunction or kind.operands[1] != instruction.operands[0]:
        _fail(instruction, f"its type is {kind}, which is not a function type with its result")


def _load(instruction: Instruction, values: Values) -> None:
    result, _, pointer = instruction.operands[:3]
    if values.pointee(instruction, pointer) not in (result, 0):
        _fail(instruction, "its result does not have the pointee type")


def _store(instruction: Instruction, values: Values) -> None:
    pointer, value = instruction.operands[:2]
    if values.pointee(instruction, pointer) not in (values.types.get(value, -1), 0):
        _fail(instruction, "the value does not have the pointee type")


def _pointer_at(position: int) -> Callable[[Instruction, Values], None]:
    def rule(instruction: Instruction, values: Values) -> None:
        values.pointee(instruction, instruction.operands[position])

    return rule


def _access_chain(instruction: Instruction, values: Values) -> None:
    skipped = 4 if instruction.opcode in (op.OpPtrAccessChain, op.OpInBoundsPtrAccessChain) else 3
    kind = values.pointee(instruction, instruction.operands[2])
    for index in instruction.operands[skipped:]:
        if values.type_of(index).opcode != op.OpTypeInt:
            _fail(instruction, f"the index {index} is not an integer")
        # A member index is a constant. Other indices may exceed the length: undefined at run time, but valid.
        constant = values.definition(index)
        is_member = constant.opcode == op.OpConstant and values.definition(kind).opcode == op.OpTypeStruct
        kind = values.inner(instruction, kind, constant.operands[2] if is_member else None)
    result = values.definition(instruction.operands[0])
    if result.opcode != op.OpTypePointer or result.operands[2] != kind:
        _fail(instruction, "its result is not a pointer to the indexed type")


def _extract(instruction: Instruction, values: Values) -> None:
    result, _, composite, *indices = instruction.operands
    if _walk(instruction, values, values.types.get(composite, 0), indices) != result:
        _fail(instruction, "its result does not have the indexed type")


def _insert(instruction: Instruction, values: Values) -> None:
    result, _, part, composite, *indices = instruction.operands
    kind = values.types.get(composite, 0)
    if kind != result or _walk(instruction, values, kind, indices) != values.types.get(part):
        _fail(instruction, "the inserted value does not have the indexed type, or the result not that of the composite")


def _walk(instruction: Instruction, values: Values, kind: int, indices: Sequence[int]) -> int:
    for index in indices:
        kind = values.inner(instruction, kind, index)
    return kind


def _shuffle(instruction: Instruction, values: Values) -> None:
    _, _, one, other, *literals = instruction.operands
    kinds = (values.definition(instruction.operands[0]), values.type_of(one), values.type_of(other))
    if any(kind.opcode != op.OpTypeVector for kind in kinds) or len(literals) != kinds[0].operands[2]:
        _fail(instruction, f"{len(literals)} components of {kinds[1]} and {kinds[2]} to {kinds[0]}")
    count = kinds[1].operands[2] + kinds[2].operands[2]
    if any(literal >= count and literal != 0xFFFFFFFF for literal in literals):
        _fail(instruction, f"components {literals} of {count}")


def _same_type(instruction: Instruction, values: Values) -> None:
    """Operands and result have one type, as in OpFAdd."""
    result = instruction.operands[0]
    if any(values.types.get(operand) != result for operand in instruction.operands[2:]):
        _fail(instruction, "operands and result have different types")


def _select(instruction: Instruction, values: Values) -> None:
    result, _, _, one, other = instruction.operands
    if not values.types.get(one) == values.types.get(other) == result:
        _fail(instruction, "operands and result have different types")


def _condition(instruction: Instruction, values: Values) -> None:
    if values.type_of(instruction.operands[0]).opcode != op.OpTypeBool:
        _fail(instruction, f"the condition is id {instruction.operands[0]}, which is not a bool")


def _integers(instruction: Instruction, values: Values) -> None:
    """Operands and result are integers, or vectors of them, of one width and length."""
    wanted = _components(values, instruction.operands[0])
    for operand in instruction.operands[2:]:
        if wanted is None or _components(values, values.types.get(operand, 0)) != wanted:
            _fail(instruction, "operands and result are not integers of one width and length")


def _components(values: Values, kind: int) -> tuple[int, int] | None:
    """Bits and length of an integer type or vector; id and 0 for a cooperative matrix; None for other types."""
    found, count = values.definition(kind), 1
    if found.opcode in (op.OpTypeCooperativeMatrixKHR, op.OpTypeCooperativeMatrixNV):
        return kind, 0
    if found.opcode == op.OpTypeVector:
        found, count = values.definition(found.operands[1]), found.operands[2]
    return (found.operands[1], count) if found.opcode == op.OpTypeInt else None


RULES: dict[int, Callable[[Instruction, Values], None]] = {
    op.OpExtInstImport: _import,
    op.OpTypeInt: _number_type,
    op.OpTypeFloat: _number_type,
    op.OpTypeVector: _vector_type,
    op.OpTypeMatrix: _matrix_type,
    op.OpTypeArray: _array_type,
    **dict.fromkeys((op.OpTypeRuntimeArray, op.OpTypeStruct, op.OpTypePointer, op.OpTypeFunction), _part_types),
    op.OpTypeImage: _image_type,
    op.OpTypeSampledImage: _sampled_image_type,
    **dict.fromkeys((op.OpConstantTrue, op.OpConstantFalse, op.OpSpecConstantTrue, op.OpSpecConstantFalse), _boolean),
    **dict.fromkeys((op.OpConstant, op.OpSpecConstant), _number),
    op.OpVariable: _variable,
    op.OpFunction: _function,
    op.OpLoad: _load,
    op.OpStore: _store,
    op.OpCopyMemory: _pointer_at(0),
    op.OpAtomicStore: _pointer_at(0),
    **dict.fromkeys(
        (
            *(op.OpArrayLength, op.OpImageTexelPointer, op.OpAtomicLoad, op.OpAtomicFAddEXT),
            *range(op.OpAtomicExchange, op.OpAtomicXor + 1),
        ),
        _pointer_at(2),
    ),
    **dict.fromkeys(
        (op.OpAccessChain, op.OpInBoundsAccessChain, op.OpPtrAccessChain, op.OpInBoundsPtrAccessChain), _access_chain
    ),
    op.OpCompositeExtract: _extract,
    op.OpCompositeInsert: _insert,
    op.OpVectorShuffle: _shuffle,
    **dict.fromkeys(
        (
            *(op.OpCopyObject, op.OpFNegate, op.OpFAdd, op.OpFSub, op.OpFMul, op.OpFDiv, op.OpFRem, op.OpFMod),
            *(op.OpLogicalAnd, op.OpLogicalOr, op.OpLogicalEqual, op.OpLogicalNotEqual, op.OpLogicalNot),
        ),
        _same_type,
    ),
    **dict.fromkeys(
        (
            *(op.OpSNegate, op.OpIAdd, op.OpISub, op.OpIMul, op.OpUDiv, op.OpSDiv, op.OpUMod, op.OpSRem, op.OpSMod),
            *(op.OpBitwiseOr, op.OpBitwiseXor, op.OpBitwiseAnd, op.OpNot),
        ),
        _integers,
    ),
    op.OpSelect: _select,
    op.OpBranchConditional: _condition,
}
