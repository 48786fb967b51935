"""Validation rules for decorations: the kinds of ids that each may have as its target."""

from __future__ import annotations

from vkcompute.errors import SpirvError
from vkcompute.spirv import enums
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.enums import BuiltIn, Decoration
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.values import CONSTANTS

_STRUCTURES = frozenset((op.OpTypeStruct,))
_ARRAYS = frozenset((op.OpTypeArray, op.OpTypeRuntimeArray, op.OpTypePointer, op.OpTypeUntypedPointerKHR))
_VARIABLES = frozenset((op.OpVariable, op.OpUntypedVariableKHR))
_OBJECTS = frozenset((*_VARIABLES, op.OpFunctionParameter, op.OpRawAccessChainNV))
_SPEC_CONSTANTS = frozenset((op.OpSpecConstantTrue, op.OpSpecConstantFalse, op.OpSpecConstant))
# Names of decorations, and the opcodes of their targets (SPIR-V 3.20).
_BY_NAME = {
    "SpecId": _SPEC_CONSTANTS,
    "Block BufferBlock GLSLShared GLSLPacked CPacked": _STRUCTURES,
    "ArrayStride": _ARRAYS,
    """NoPerspective Flat Patch Centroid Sample Restrict Aliased Volatile Constant Coherent NonWritable NonReadable
    Stream Component XfbBuffer XfbStride RestrictPointer AliasedPointer""": _OBJECTS,
    "Invariant Location Index Binding DescriptorSet InputAttachmentIndex": _VARIABLES,
    "BuiltIn": _VARIABLES | CONSTANTS,
}
_TARGETS = {name: targets for names, targets in _BY_NAME.items() for name in names.split()}
_MEMBERS_ONLY = frozenset(("RowMajor", "ColMajor", "MatrixStride"))
_NO_MEMBERS = frozenset(
    """SpecId Block BufferBlock ArrayStride GLSLShared GLSLPacked CPacked Constant Uniform UniformId
    SaturatedConversion Index Binding DescriptorSet NoContraction InputAttachmentIndex Alignment MaxByteOffset
    AlignmentId MaxByteOffsetId NoSignedWrap NoUnsignedWrap NonUniform RestrictPointer AliasedPointer
    CounterBuffer""".split()
)


def check_decoration(instruction: Instruction, target: Instruction) -> None:
    """Checks an OpDecorate, OpDecorateId or OpMemberDecorate of the id that `target` defines.

    Raises:
        SpirvError: a target that the decoration does not have; a member that the structure does not have.
    """
    if instruction.opcode in (op.OpDecorate, op.OpDecorateId):
        kind = enums.name(Decoration, instruction.operands[1])
        wrong = kind in _MEMBERS_ONLY or target.opcode not in _TARGETS.get(kind, (target.opcode,))
        if kind == "BuiltIn":
            is_size = instruction.operands[2] == BuiltIn.WorkgroupSize
            wrong = wrong or (target.opcode in CONSTANTS) != is_size
        if wrong and target.opcode != op.OpDecorationGroup:
            raise SpirvError(f"{instruction} decorates {target} with {kind}")
        return
    structure, member = target, instruction.operands[1]
    if structure.opcode != op.OpTypeStruct or member >= len(structure.operands) - 1:
        raise SpirvError(f"{instruction} names member {member} of {structure}, which does not exist")
    kind = enums.name(Decoration, instruction.operands[2])
    if instruction.opcode == op.OpMemberDecorate and kind in _NO_MEMBERS:
        raise SpirvError(f"{instruction} decorates a member with {kind}")
