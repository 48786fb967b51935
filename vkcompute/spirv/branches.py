"""Branches that specialization decides, decided before a driver sees them: some run both ways and mask one."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from vkcompute.spirv import opcodes as op
from vkcompute.spirv.enums import Decoration
from vkcompute.spirv.index import Index
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.module import Module

_OPERATIONS: dict[int, Callable[..., int]] = {
    op.OpLogicalNot: operator.not_,
    op.OpLogicalAnd: operator.and_,
    op.OpLogicalOr: operator.or_,
    op.OpIEqual: operator.eq,
    op.OpINotEqual: operator.ne,
}


def decided(spirv: bytes, constants: Mapping[int, int]) -> bytes:
    """`spirv`, which is valid, without the ways that `constants`, values by SpecId, rule out.

    The blocks stay where they are, and nothing reaches them.
    """
    module = Module.parse(spirv)
    known = _values(Index(module), constants)
    functions: list[Instruction] = []
    # A block that begins with OpPhi tells its values by where they come from: the ways to it stay as they are.
    pairs = zip(module.functions, module.functions[1:], strict=False)
    told = {label.operands[0] for label, first in pairs if label.opcode == op.OpLabel and first.opcode == op.OpPhi}
    for instruction in module.functions:
        if instruction.opcode == op.OpBranchConditional and instruction.operands[0] in known:
            condition, *ways = instruction.operands[:3]
            if ways[known[condition]] not in told:
                if functions[-1].opcode == op.OpSelectionMerge:
                    functions.pop()
                instruction = Instruction(op.OpBranch, (ways[not known[condition]],))
        functions.append(instruction)
    module.functions = functions
    return module.words()


def _values(index: Index, constants: Mapping[int, int]) -> dict[int, int]:
    """Id -> value, of constants of one word and what is computed of them by an operation of the table."""
    values: dict[int, int] = {}
    for identifier, (opcode, operands, _) in index.definitions.items():
        if opcode in (op.OpConstantTrue, op.OpSpecConstantTrue):
            values[identifier] = 1
        elif opcode in (op.OpConstantFalse, op.OpSpecConstantFalse):
            values[identifier] = 0
        elif opcode in (op.OpConstant, op.OpSpecConstant) and len(operands) == 3:
            values[identifier] = operands[2]
        elif opcode == op.OpSpecConstantOp and operands[2] in _OPERATIONS and values.keys() >= {*operands[3:]}:
            values[identifier] = int(_OPERATIONS[operands[2]](*(values[each] for each in operands[3:])))
        spec_id = index.decorations.get(identifier, {}).get(Decoration.SpecId)
        if spec_id and identifier in values:
            values[identifier] = constants.get(spec_id[0], values[identifier])
    return values
