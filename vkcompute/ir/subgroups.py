"""The table of subgroup operations, which the active invocations of a subgroup compute together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from vkcompute.spirv import opcodes as spv
from vkcompute.spirv.enums import Capability, GroupOperation


class SubgroupOperation(NamedTuple):
    """One row of the table.

    Attributes:
        capability: of SPIR-V, beside GroupNonUniform.
        opcodes: by kind of the value: "b" bool, "i" int, "u" uint, "f" float.
        group_operation: SPIR-V's GroupOperation; None for instructions without one.
        takes_value, takes_lane: True if there is such an operand; a lane is a uint32.
        constant_lane: the operation for a lane that is a constant, if it is another.
        combine: numpy's function that combines the values of two lanes; None if lanes are not combined.
    """

    capability: int
    opcodes: Mapping[str, int]
    group_operation: int | None = None
    takes_value: bool = True
    takes_lane: bool = False
    constant_lane: SubgroupOperation | None = None
    combine: np.ufunc | None = None


_ADD = np.add, {"i": spv.OpGroupNonUniformIAdd, "u": spv.OpGroupNonUniformIAdd, "f": spv.OpGroupNonUniformFAdd}
_MUL = np.multiply, {"i": spv.OpGroupNonUniformIMul, "u": spv.OpGroupNonUniformIMul, "f": spv.OpGroupNonUniformFMul}
_MIN = np.minimum, {"i": spv.OpGroupNonUniformSMin, "u": spv.OpGroupNonUniformUMin, "f": spv.OpGroupNonUniformFMin}
_MAX = np.maximum, {"i": spv.OpGroupNonUniformSMax, "u": spv.OpGroupNonUniformUMax, "f": spv.OpGroupNonUniformFMax}
_AND, _OR, _XOR = (
    (combine, {"i": bitwise, "u": bitwise, "b": logical})
    for combine, bitwise, logical in (
        (np.bitwise_and, spv.OpGroupNonUniformBitwiseAnd, spv.OpGroupNonUniformLogicalAnd),
        (np.bitwise_or, spv.OpGroupNonUniformBitwiseOr, spv.OpGroupNonUniformLogicalOr),
        (np.bitwise_xor, spv.OpGroupNonUniformBitwiseXor, spv.OpGroupNonUniformLogicalXor),
    )
)


def _grouped(
    operation: tuple[np.ufunc, Mapping[str, int]], group_operation: int = GroupOperation.Reduce
) -> SubgroupOperation:
    combine, opcodes = operation
    return SubgroupOperation(Capability.GroupNonUniformArithmetic, opcodes, group_operation, combine=combine)


def _vote(combine: np.ufunc, opcode: int) -> SubgroupOperation:
    return SubgroupOperation(Capability.GroupNonUniformVote, {"b": opcode}, combine=combine)


def _any_kind(opcode: int) -> dict[str, int]:
    return dict.fromkeys("biuf", opcode)


_BROADCAST = SubgroupOperation(
    Capability.GroupNonUniformBallot, _any_kind(spv.OpGroupNonUniformBroadcast), takes_lane=True
)
SUBGROUP_OPERATIONS = {
    "add": _grouped(_ADD),
    "mul": _grouped(_MUL),
    "min": _grouped(_MIN),
    "max": _grouped(_MAX),
    "inclusive_add": _grouped(_ADD, GroupOperation.InclusiveScan),
    "inclusive_mul": _grouped(_MUL, GroupOperation.InclusiveScan),
    "inclusive_min": _grouped(_MIN, GroupOperation.InclusiveScan),
    "inclusive_max": _grouped(_MAX, GroupOperation.InclusiveScan),
    "exclusive_add": _grouped(_ADD, GroupOperation.ExclusiveScan),
    "exclusive_mul": _grouped(_MUL, GroupOperation.ExclusiveScan),
    "exclusive_min": _grouped(_MIN, GroupOperation.ExclusiveScan),
    "exclusive_max": _grouped(_MAX, GroupOperation.ExclusiveScan),
    "and": _grouped(_AND),
    "or": _grouped(_OR),
    "xor": _grouped(_XOR),
    "shuffle": SubgroupOperation(
        Capability.GroupNonUniformShuffle,
        _any_kind(spv.OpGroupNonUniformShuffle),
        takes_lane=True,
        constant_lane=_BROADCAST,
    ),
    "shuffle_xor": SubgroupOperation(
        Capability.GroupNonUniformShuffle, _any_kind(spv.OpGroupNonUniformShuffleXor), takes_lane=True
    ),
    "broadcast_first": SubgroupOperation(
        Capability.GroupNonUniformBallot, _any_kind(spv.OpGroupNonUniformBroadcastFirst)
    ),
    "ballot": SubgroupOperation(Capability.GroupNonUniformBallot, {"b": spv.OpGroupNonUniformBallot}),
    "all": _vote(np.bitwise_and, spv.OpGroupNonUniformAll),
    "any": _vote(np.bitwise_or, spv.OpGroupNonUniformAny),
    "elect": SubgroupOperation(Capability.GroupNonUniform, {"b": spv.OpGroupNonUniformElect}, takes_value=False),
}
