"""The axes of the ids of workgroups that a module reads."""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute.spirv import opcodes as op
from vkcompute.spirv.enums import BuiltIn, Decoration
from vkcompute.spirv.instruction import Instruction, result_id, used_ids
from vkcompute.spirv.module import Module

Axes = tuple[int, ...]
"""The axis of each component."""

_IDS = BuiltIn.GlobalInvocationId, BuiltIn.WorkgroupId
_CHAINS = op.OpAccessChain, op.OpInBoundsAccessChain
_CONVERSIONS = op.OpBitcast, op.OpUConvert, op.OpSConvert, op.OpConvertUToF, op.OpConvertSToF, op.OpCopyObject


def group_axes(module: Module) -> Axes:
    """Returns the axes along which a valid module reads global or workgroup ids.

    None if it may read the number of workgroups: it may compute one index from all axes. Unknown uses of all three
    components together do not count.
    """
    builtins = {
        instruction.operands[0]: instruction.operands[2]
        for instruction in module.annotations
        if instruction.opcode == op.OpDecorate and instruction.operands[1] == Decoration.BuiltIn
    }
    if BuiltIn.NumWorkgroups in builtins.values():
        return ()
    constants = {
        instruction.operands[1]: instruction.operands[2]
        for instruction in module.declarations
        if instruction.opcode == op.OpConstant
    }
    reader = _Reader([variable for variable, number in builtins.items() if number in _IDS], constants)
    for instruction in module.functions:
        reader.read(instruction)
    return tuple(sorted(reader.axes))


class _Reader:
    """Follows ids through loads, variables, shuffles and conversions.

    Attributes:
        axes: those that are read.
    """

    def __init__(self, variables: Sequence[int], constants: dict[int, int]) -> None:
        self._constants = constants
        self._vectors: dict[int, Axes] = dict.fromkeys(variables, (0, 1, 2))  # pointers to them, and values
        self.axes = set[int]()

    def read(self, instruction: Instruction) -> None:
        """Notes what an instruction reads."""
        opcode, operands, result = instruction.opcode, instruction.operands, result_id(instruction)
        used = [each for each in used_ids(instruction) if each in self._vectors]
        if not used:
            return
        axes = self._vectors[used[0]]
        if opcode == op.OpStore:
            if operands[1] in self._vectors:
                self._vectors[operands[0]] = self._vectors[operands[1]]
        elif result is not None and (opcode == op.OpLoad or opcode in _CONVERSIONS):
            self._vectors[result] = axes
        elif opcode in _CHAINS:
            index = self._constants.get(operands[3])
            self._note([axes[index]] if index is not None and index < len(axes) else [])
        elif opcode == op.OpCompositeExtract:
            self._note([axes[operands[3]]] if operands[3] < len(axes) else [])
        elif opcode == op.OpVectorShuffle and result is not None and operands[2] in self._vectors:
            self._vectors[result] = tuple([axes[each] for each in operands[4:] if each < len(axes)])
        elif len(axes) < 3:
            self._note(axes)

    def _note(self, axes: Sequence[int]) -> None:
        self.axes.update(axes)
