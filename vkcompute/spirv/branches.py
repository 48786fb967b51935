"""Branches that specialization decides, decided before a driver sees them: some run both ways and mask one."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping

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

    The blocks stay where they are, and nothing reaches them. Where they led into a loop, they end: by the rules of
    structured control flow only the loop's own blocks may. Whether a loop goes on is not decided.
    """
    module = Module.parse(spirv)
    known = _values(Index(module), constants)
    functions: list[Instruction] = []
    # A block that begins with OpPhi tells its values by where they come from: the ways to it stay as they are.
    pairs = zip(module.functions, module.functions[1:], strict=False)
    told = {label.operands[0] for label, first in pairs if label.opcode == op.OpLabel and first.opcode == op.OpPhi}
    for instruction in module.functions:
        selects = instruction.opcode == op.OpBranchConditional and functions[-1].opcode == op.OpSelectionMerge
        if selects and instruction.operands[0] in known:
            condition, *ways = instruction.operands[:3]
            if ways[known[condition]] not in told:
                functions.pop()
                instruction = Instruction(op.OpBranch, (ways[not known[condition]],))
        functions.append(instruction)
    module.functions = [*_ended(functions, told)]
    return module.words()


def _ended(functions: list[Instruction], told: set[int]) -> Iterator[Instruction]:
    """The instructions, with OpUnreachable where a block that nothing reaches led to an end or the start of a loop."""
    block, ways, starts, loops = 0, dict[int, tuple[int, ...]](), list[int](), dict[int, tuple[int, ...]]()
    for before, instruction in zip([functions[0], *functions], functions, strict=False):
        if instruction.opcode == op.OpLabel:
            block = instruction.operands[0]
            if before.opcode in (op.OpFunction, op.OpFunctionParameter):
                starts.append(block)
        elif instruction.opcode == op.OpLoopMerge:
            loops[block] = instruction.operands[:2]
        elif instruction.opcode in (op.OpBranch, op.OpBranchConditional, op.OpSwitch):
            ways[block] = instruction.operands[instruction.opcode != op.OpBranch :]  # literals are taken for ways, too
    reached = set[int]()
    while starts:
        block = starts.pop()
        if block not in reached:
            reached.add(block)
            starts += ways.get(block, ())
    targets = {target for header in reached & loops.keys() for target in loops[header]} - told
    for instruction in functions:
        if instruction.opcode == op.OpLabel:
            block = instruction.operands[0]
        led = instruction.opcode == op.OpBranch and instruction.operands[0] in targets
        yield Instruction(op.OpUnreachable, ()) if led and block not in reached else instruction


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
