"""The SPIR-V instructions of operations on values."""

from __future__ import annotations

from vkcompute.errors import IrError
from vkcompute.ir.assembler import Assembler
from vkcompute.ir.operation import Operation
from vkcompute.ir.operations import OPERATIONS
from vkcompute.ir.subgroups import SUBGROUP_OPERATIONS
from vkcompute.ir.types import BOOL, SCALARS, Scalar, Type, Vector, element_of, vector
from vkcompute.spirv import opcodes as spv
from vkcompute.spirv.enums import Capability, Scope

_FLOAT_CONVERSIONS = {
    "fu": spv.OpConvertFToU,
    "fi": spv.OpConvertFToS,
    "if": spv.OpConvertSToF,
    "uf": spv.OpConvertUToF,
    "ff": spv.OpFConvert,
}
"""Kinds of source and target, one of them float -> opcode."""


def arithmetic(out: Assembler, operation: Operation, result: Type, kind: Type, operands: list[int]) -> int:
    """Emits an operation on numbers of type `kind`, and returns the id of the result."""
    element, name = element_of(kind), operation.name
    if name == "mul_high":  # the second member of the instruction's result
        product = out.pair(operation.opcodes[element.kind], kind, *operands)
        return out.value(spv.OpCompositeExtract, result, product, 1)
    if element.kind in operation.opcodes:
        return out.value(operation.opcodes[element.kind], result, *operands)
    if element.kind in operation.extended and not (operation.elementary and element.bits == 64):
        instruction = operation.extended[element.kind]
        return out.value(spv.OpExtInst, result, out.standard, instruction, *operands)
    if element.kind == "i" and name in ("rem", "mod"):
        return _signed_remainder(out, name, result, *operands)
    raise IrError(f"{name} of {kind} has no instruction; replace it before lowering")


def _signed_remainder(out: Assembler, name: str, kind: Type, one: int, other: int) -> int:
    """The remainder of a division that truncates, or for "mod" rounds down.

    OpSRem and OpSMod are undefined for negative operands in Vulkan.
    """

    def compute(name: str, result: Type, *operands: int) -> int:
        return arithmetic(out, OPERATIONS[name], result, kind, list(operands))

    rest = compute("sub", kind, one, compute("mul", kind, compute("div", kind, one, other), other))
    if name == "rem":
        return rest
    zero = out.number(0, kind)
    bools = _shaped(BOOL, kind)
    signs_differ = compute("lt", bools, compute("xor", kind, rest, other), zero)
    inexact = compute("ne", bools, rest, zero)
    corrected = out.value(spv.OpLogicalAnd, bools, signs_differ, inexact)
    return out.value(spv.OpSelect, kind, corrected, compute("add", kind, rest, other), rest)


def subgroup(out: Assembler, name: str, result: Type, args: list[int], *, constant_lane: bool) -> int:
    """Emits a subgroup operation, and returns the id of the result."""
    operation = SUBGROUP_OPERATIONS[name]
    if constant_lane and operation.constant_lane is not None:
        operation = operation.constant_lane
    scope = out.uint(Scope.Subgroup)
    group = () if operation.group_operation is None else (operation.group_operation,)
    out.require(Capability.GroupNonUniform)
    out.require(operation.capability)
    kind = "b" if name == "ballot" else element_of(result).kind
    return out.value(operation.opcodes[kind], result, scope, *group, *args)


def cast(out: Assembler, value: int, source: Type, target: Type) -> int:
    """Emits a conversion, and returns the id of the result."""
    old, new = element_of(source), element_of(target)
    if new is BOOL:
        return out.value(OPERATIONS["ne"].opcodes[old.kind], target, value, out.number(0, source))
    if old is BOOL:
        return out.value(spv.OpSelect, target, value, out.number(1, target), out.number(0, target))
    if "f" in (old.kind, new.kind):
        return out.value(_FLOAT_CONVERSIONS[old.kind + new.kind], target, value)
    if old.bits != new.bits:  # extended by the source's signedness, then reinterpreted
        wide = _shaped(SCALARS[f"{'u' * (old.kind == 'u')}int{new.bits}"], target)
        value = out.value(spv.OpSConvert if old.kind == "i" else spv.OpUConvert, wide, value)
    return value if old.kind == new.kind else out.value(spv.OpBitcast, target, value)


def _shaped(element: Scalar, like: Type) -> Type:
    return vector(element, like.n) if isinstance(like, Vector) else element
