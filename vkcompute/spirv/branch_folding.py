"""Branch folding on specialization constants, for drivers that run both sides of a branch and mask one."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

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


def fold_branches(spirv: bytes, constants: Mapping[int, int]) -> bytes:
    """Folds the branches of a valid module whose conditions `constants` (SpecId -> value) determine.

    The unreachable blocks stay. One with an edge to a merge or continue block ends in OpUnreachable instead: in
    structured control flow, only a loop's own blocks may branch there. Loop conditions are not folded.
    """
    module = Module.parse(spirv)
    known = _values(Index(module), constants)
    joins = _blocks_with_phis(module.functions)
    functions: list[Instruction] = []
    for instruction in module.functions:
        selects = instruction.opcode == op.OpBranchConditional and functions[-1].opcode == op.OpSelectionMerge
        if selects and instruction.operands[0] in known:
            condition, if_true, if_false = instruction.operands[:3]
            taken, skipped = (if_true, if_false) if known[condition] else (if_false, if_true)
            if skipped not in joins:
                functions.pop()
                instruction = Instruction(op.OpBranch, (taken,))
        functions.append(instruction)
    module.functions = [*_terminated(functions, joins)]
    return module.words()


def _blocks_with_phis(functions: list[Instruction]) -> set[int]:
    """Labels of the blocks that begin with OpPhi: their predecessors must stay."""
    return {
        label.operands[0]
        for label, first in pairwise(functions)
        if label.opcode == op.OpLabel and first.opcode == op.OpPhi
    }


def _terminated(functions: list[Instruction], joins: set[int]) -> Iterator[Instruction]:
    """The instructions, with OpUnreachable for branches of unreachable blocks to a loop's merge or continue block."""
    reached, loop_targets = _reached(functions)
    targets, block = loop_targets - joins, 0
    for instruction in functions:
        if instruction.opcode == op.OpLabel:
            block = instruction.operands[0]
        leaves = instruction.opcode == op.OpBranch and instruction.operands[0] in targets
        yield Instruction(op.OpUnreachable, ()) if leaves and block not in reached else instruction


def _reached(functions: list[Instruction]) -> tuple[set[int], set[int]]:
    """Labels of the reachable blocks, and the merge and continue blocks of the loops among them."""
    block, pending = 0, list[int]()
    successors, loops = dict[int, tuple[int, ...]](), dict[int, tuple[int, ...]]()
    for before, instruction in zip([functions[0], *functions], functions, strict=False):
        if instruction.opcode == op.OpLabel:
            block = instruction.operands[0]
            if before.opcode in (op.OpFunction, op.OpFunctionParameter):
                pending.append(block)
        elif instruction.opcode == op.OpLoopMerge:
            loops[block] = instruction.operands[:2]
        elif instruction.opcode in (op.OpBranch, op.OpBranchConditional, op.OpSwitch):
            # Includes the literals of an OpSwitch, which may add successors: conservative.
            successors[block] = instruction.operands[instruction.opcode != op.OpBranch :]
    reached = set[int]()
    while pending:
        block = pending.pop()
        if block not in reached:
            reached.add(block)
            pending += successors.get(block, ())
    return reached, {target for header in reached & loops.keys() for target in loops[header]}


def _values(index: Index, constants: Mapping[int, int]) -> dict[int, int]:
    """Id -> value of constants of one word, and of expressions on them with operations of the table."""
    values: dict[int, int] = {}
    for identifier, (opcode, operands, _) in index.definitions.items():
        if opcode in (op.OpConstantTrue, op.OpSpecConstantTrue):
            values[identifier] = 1
        elif opcode in (op.OpConstantFalse, op.OpSpecConstantFalse):
            values[identifier] = 0
        elif opcode in (op.OpConstant, op.OpSpecConstant) and len(operands) == 3:
            values[identifier] = operands[2]
        elif opcode == op.OpSpecConstantOp and operands[2] in _OPERATIONS and values.keys() >= {*operands[3:]}:
            values[identifier] = int(_OPERATIONS[operands[2]](*(values[operand] for operand in operands[3:])))
        spec_id = index.decorations.get(identifier, {}).get(Decoration.SpecId)
        if spec_id and identifier in values:
            values[identifier] = constants.get(spec_id[0], values[identifier])
    return values
