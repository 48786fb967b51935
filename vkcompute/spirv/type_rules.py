"""Validation rules for types: of declarations, of pointers, of values loaded and stored through them, of composites."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vkcompute.errors import SpirvError
from vkcompute.spirv import enums, image_rules, signatures
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.enums import Capability, StorageClass
from vkcompute.spirv.instruction import Instruction, string_at
from vkcompute.spirv.values import CONSTANTS, Rule, Values, fail

_SCALARS = (op.OpTypeInt, op.OpTypeFloat, op.OpTypeBool)
_CONSTANTS = (op.OpConstant, op.OpSpecConstant, op.OpSpecConstantOp)
_SETS = re.compile(r"GLSL\.std\.450|OpenCL\.std|(OpenCL\.)?DebugInfo(\.\d+)?|NonSemantic\..+|SPV_\w+")
_WIDTHS = (8, 16, 32, 64)
_POINTERS = (op.OpTypePointer, op.OpTypeUntypedPointerKHR)
_STORAGE_8 = (
    Capability.StorageBuffer8BitAccess,
    Capability.UniformAndStorageBuffer8BitAccess,
    Capability.StoragePushConstant8,
)
_STORAGE_16 = (
    *(Capability.StorageBuffer16BitAccess, Capability.UniformAndStorageBuffer16BitAccess),
    *(Capability.StoragePushConstant16, Capability.StorageInputOutput16),
)
# Opcode and width of a type -> capabilities, one of which it requires.
_CAPABILITIES = {
    (op.OpTypeInt, 8): (Capability.Int8, Capability.Kernel, *_STORAGE_8),
    (op.OpTypeInt, 16): (Capability.Int16, *_STORAGE_16),
    (op.OpTypeInt, 64): (Capability.Int64,),
    (op.OpTypeFloat, 8): (Capability.Float8EXT,),
    (op.OpTypeFloat, 16): (Capability.Float16, Capability.Float16Buffer, Capability.BFloat16TypeKHR, *_STORAGE_16),
    (op.OpTypeFloat, 64): (Capability.Float64,),
}


def _import(instruction: Instruction, values: Values) -> None:
    name = string_at(instruction.operands, 1, instruction)[0]
    if not _SETS.fullmatch(name):
        fail(instruction, f"{name!r} is not a known instruction set")


def _number_type(instruction: Instruction, values: Values) -> None:
    bits, signed = instruction.operands[1], instruction.operands[2:] if instruction.opcode == op.OpTypeInt else ()
    if bits not in _WIDTHS:
        fail(instruction, f"{bits} bits; valid are {_WIDTHS}")
    if signed and signed[0] > 1 and bits == 32:  # spirv-val accepts more in other widths
        fail(instruction, f"signedness {signed[0]}; valid are 0 and 1")
    needed = _CAPABILITIES.get((instruction.opcode, bits), ())
    if needed and values.capabilities.isdisjoint(needed):
        names = " or ".join(enums.name(Capability, capability) for capability in needed)
        fail(instruction, f"{bits} bits require capability {names}")


def _vector_type(instruction: Instruction, values: Values) -> None:
    _, part, count = instruction.operands
    if values.definition(part).opcode not in _SCALARS or count not in (2, 3, 4, 8, 16):
        fail(instruction, f"a vector of {count} of {values.definition(part)}")


def _matrix_type(instruction: Instruction, values: Values) -> None:
    _, column, count = instruction.operands
    if values.shape(column).base != "f" or values.shape(column).length < 2 or not 2 <= count <= 4:
        fail(instruction, f"a matrix of {count} columns of {values.definition(column)}")


def _array_type(instruction: Instruction, values: Values) -> None:
    length = instruction.operands[2]
    constant = values.definition(length)
    if constant.opcode not in _CONSTANTS or values.type_of(length).opcode != op.OpTypeInt:
        fail(instruction, f"the length is {constant}, which is not an integer constant")
    if constant.opcode == op.OpConstant and not any(constant.operands[2:]):
        fail(instruction, "the length is 0")
    _part_types(instruction, values)


def _part_types(instruction: Instruction, values: Values) -> None:
    """Elements, members, pointees, parameters and results are types; elements and members are not void."""
    start, stop = {op.OpTypePointer: (2, 3), op.OpTypeArray: (1, 2)}.get(instruction.opcode, (1, None))
    for part in instruction.operands[start:stop]:
        void = values.definition(part).opcode == op.OpTypeVoid
        void = void and instruction.opcode not in (op.OpTypePointer, op.OpTypeFunction)
        if void or not values.is_type(part):
            fail(instruction, f"id {part} is not a type that it can have")


def _boolean(instruction: Instruction, values: Values) -> None:
    if values.definition(instruction.operands[0]).opcode != op.OpTypeBool:
        fail(instruction, "its type is not OpTypeBool")


def _number(instruction: Instruction, values: Values) -> None:
    kind, words = values.definition(instruction.operands[0]), len(instruction.operands) - 2
    if kind.opcode not in (op.OpTypeInt, op.OpTypeFloat) or words != max(1, kind.operands[1] // 32):
        fail(instruction, f"{words} literal words for a value of {kind}")


def _variable(instruction: Instruction, values: Values) -> None:
    kind, storage_class = values.definition(instruction.operands[0]), instruction.operands[2]
    if kind.opcode != op.OpTypePointer or kind.operands[1] != storage_class:
        fail(instruction, f"its type is not a pointer with its storage class {storage_class}")
    if (storage_class == StorageClass.Function) != values.in_function:
        fail(instruction, "a variable has the storage class Function if and only if it is in a function")
    for initializer in instruction.operands[3:]:
        constant = values.definition(initializer)
        if constant.opcode not in CONSTANTS and constant.opcode != op.OpVariable:
            fail(instruction, f"its initializer is {constant}, which is not a constant")
        if constant.opcode != op.OpVariable and values.types.get(initializer) != kind.operands[2]:
            fail(instruction, "its initializer does not have the pointee type")


def _function(instruction: Instruction, values: Values) -> None:
    kind = values.definition(instruction.operands[3])
    if kind.opcode != op.OpTypeFunction or kind.operands[1] != instruction.operands[0]:
        fail(instruction, f"its type is {kind}, which is not a function type with its result")


def _load(instruction: Instruction, values: Values) -> None:
    result, _, pointer = instruction.operands[:3]
    if values.pointee(instruction, pointer) not in (result, 0):
        fail(instruction, "its result does not have the pointee type")


def _store(instruction: Instruction, values: Values) -> None:
    pointer, value = instruction.operands[:2]
    if values.pointee(instruction, pointer) not in (values.types.get(value, -1), 0):
        fail(instruction, "the value does not have the pointee type")


def _copy_memory(instruction: Instruction, values: Values) -> None:
    target, source = (values.pointee(instruction, pointer) for pointer in instruction.operands[:2])
    if target != source and target and source:
        fail(instruction, "the pointers have different pointee types")


def _copy_sized(instruction: Instruction, values: Values) -> None:
    for pointer in instruction.operands[:2]:
        values.pointee(instruction, pointer)


def _array_length(instruction: Instruction, values: Values) -> None:
    result, _, pointer, member = instruction.operands
    structure = values.definition(values.pointee(instruction, pointer))
    if structure.opcode != op.OpTypeStruct or member != len(structure.operands) - 2:
        fail(instruction, f"member {member} is not the last one of a structure")
    if values.definition(structure.operands[-1]).opcode != op.OpTypeRuntimeArray:
        fail(instruction, f"member {member} is not a runtime array")
    if values.shape(result) != ("i", 32, 1):
        fail(instruction, "its result is not a 32-bit integer")


def _access_chain(instruction: Instruction, values: Values) -> None:
    skipped = 4 if instruction.opcode in (op.OpPtrAccessChain, op.OpInBoundsPtrAccessChain) else 3
    kind = values.pointee(instruction, instruction.operands[2])
    for index in instruction.operands[skipped:]:
        if values.type_of(index).opcode != op.OpTypeInt:
            fail(instruction, f"the index {index} is not an integer")
        # A member index is a constant. Other indices may exceed the length: undefined at run time, but valid.
        constant = values.definition(index)
        is_member = constant.opcode == op.OpConstant and values.definition(kind).opcode == op.OpTypeStruct
        kind = values.inner(instruction, kind, constant.operands[2] if is_member else None)
    result = values.definition(instruction.operands[0])
    if result.opcode != op.OpTypePointer or result.operands[2] != kind:
        fail(instruction, "its result is not a pointer to the indexed type")
    if result.operands[1] != values.type_of(instruction.operands[2]).operands[1]:
        fail(instruction, "its result has another storage class than its base")


def _extract(instruction: Instruction, values: Values) -> None:
    result, _, composite, *indices = instruction.operands
    if _walk(instruction, values, values.types.get(composite, 0), indices) != result:
        fail(instruction, "its result does not have the indexed type")


def _insert(instruction: Instruction, values: Values) -> None:
    result, _, part, composite, *indices = instruction.operands
    kind = values.types.get(composite, 0)
    if kind != result or _walk(instruction, values, kind, indices) != values.types.get(part):
        fail(instruction, "the inserted value does not have the indexed type, or the result not that of the composite")


def _walk(instruction: Instruction, values: Values, kind: int, indices: Sequence[int]) -> int:
    for index in indices:
        kind = values.inner(instruction, kind, index)
    return kind


def _shuffle(instruction: Instruction, values: Values) -> None:
    _, _, one, other, *literals = instruction.operands
    kinds = (values.definition(instruction.operands[0]), values.type_of(one), values.type_of(other))
    if any(kind.opcode != op.OpTypeVector for kind in kinds) or len(literals) != kinds[0].operands[2]:
        fail(instruction, f"{len(literals)} components of {kinds[1]} and {kinds[2]} to {kinds[0]}")
    count = kinds[1].operands[2] + kinds[2].operands[2]
    if any(literal >= count and literal != 0xFFFFFFFF for literal in literals):
        fail(instruction, f"components {literals} of {count}")


def _select(instruction: Instruction, values: Values) -> None:
    result, _, condition, one, other = instruction.operands
    if not values.types.get(one) == values.types.get(other) == result:
        fail(instruction, "operands and result have different types")
    kind = values.shape(values.types[condition])
    if kind.base != "b" or kind.length not in (1, values.shape(result).length):
        fail(instruction, "the condition is neither a bool nor one for each component")


def _condition(instruction: Instruction, values: Values) -> None:
    if values.type_of(instruction.operands[0]).opcode != op.OpTypeBool:
        fail(instruction, f"the condition is id {instruction.operands[0]}, which is not a bool")


def _construct(instruction: Instruction, values: Values) -> None:
    """Constituents have the types of the parts; a vector may also be made of shorter vectors."""
    result, _, *constituents = instruction.operands
    kind, kinds = values.definition(result), [values.types[constituent] for constituent in constituents]
    if kind.opcode == op.OpTypeVector and instruction.opcode == op.OpCompositeConstruct:
        parts = [values.definition(part) for part in kinds]
        kinds = [
            part.operands[1] if part.opcode == op.OpTypeVector else k for k, part in zip(kinds, parts, strict=True)
        ]
        count = sum(part.operands[2] if part.opcode == op.OpTypeVector else 1 for part in parts)
        if count != kind.operands[2] or len(parts) < 2 or any(operand != kind.operands[1] for operand in kinds):
            fail(instruction, f"{count} components of {parts} to {kind}")
        return
    if instruction.opcode != op.OpCompositeConstruct:
        for constituent in constituents:
            if values.definition(constituent).opcode not in (*CONSTANTS, op.OpUndef):
                fail(instruction, f"id {constituent} is {values.definition(constituent)}, which is not a constant")
    wanted = values.parts(instruction, result, len(kinds))
    if kind.opcode == op.OpTypeVector:  # spirv-val accepts constants of the other signedness
        same = list(map(values.shape, kinds)) == list(map(values.shape, wanted))
    else:
        same = kinds == wanted
    if not same:
        fail(instruction, f"its {len(kinds)} constituents do not have the types of the parts of {kind}")


def _null(instruction: Instruction, values: Values) -> None:
    kind = values.definition(instruction.operands[0])
    if kind.opcode in (op.OpTypeVoid, op.OpTypeFunction, op.OpTypeRuntimeArray):
        fail(instruction, f"a value of {kind}")


def _bitcast(instruction: Instruction, values: Values) -> None:
    kinds = instruction.operands[0], values.types[instruction.operands[2]]
    for kind in map(values.definition, kinds):
        is_address = kind.opcode in _POINTERS and kind.operands[1] == StorageClass.PhysicalStorageBuffer
        if values.shape(kind.operands[0]).base not in ("i", "f", "c") and not is_address:
            fail(instruction, f"{kind} is neither numbers nor an address")
    bits = {shape.width * shape.length for shape in map(values.shape, kinds) if shape.base in ("i", "f")}
    if len(bits) > 1:
        fail(instruction, f"operand and result have {bits} bits")


def _spec_constant_op(instruction: Instruction, values: Values) -> None:
    result, identifier, opcode, *operands = instruction.operands
    rule = RULES.get(opcode)
    if rule is not None:
        try:
            rule(Instruction(opcode, (result, identifier, *operands), instruction.offset), values)
        except SpirvError as error:
            fail(instruction, str(error))


_BY_NAME: dict[str, Rule] = {
    "ExtInstImport": _import,
    "TypeInt TypeFloat": _number_type,
    "TypeVector": _vector_type,
    "TypeMatrix": _matrix_type,
    "TypeArray": _array_type,
    "TypeRuntimeArray TypeStruct TypeFunction": _part_types,
    "ConstantTrue ConstantFalse SpecConstantTrue SpecConstantFalse": _boolean,
    "Constant SpecConstant": _number,
    "ConstantNull Undef": _null,
    "ConstantComposite SpecConstantComposite CompositeConstruct": _construct,
    "SpecConstantOp": _spec_constant_op,
    "Variable": _variable,
    "Function": _function,
    "Load": _load,
    "Store": _store,
    "CopyMemory": _copy_memory,
    "CopyMemorySized": _copy_sized,
    "ArrayLength": _array_length,
    "AccessChain InBoundsAccessChain PtrAccessChain InBoundsPtrAccessChain": _access_chain,
    "CompositeExtract": _extract,
    "CompositeInsert": _insert,
    "VectorShuffle": _shuffle,
    "Select": _select,
    "BranchConditional": _condition,
    "Bitcast": _bitcast,
    **signatures.RULES,
    **image_rules.RULES,
}
_OPCODES = {name: opcode for opcode, name in op.names().items()}
RULES: dict[int, Rule] = {_OPCODES[f"Op{name}"]: rule for names, rule in _BY_NAME.items() for name in names.split()}
