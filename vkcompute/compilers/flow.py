"""The body of a SPIR-V function, written shorter: variables that are values, values computed once, blocks joined.

Drivers do the same before they compile; here it makes the files small. Nothing moves and arithmetic stays as it is:
what goes is a load of what was just stored or loaded, and a second computation where the first dominates it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from vkcompute.spirv import opcodes as op
from vkcompute.spirv.instruction import LAYOUT, Instruction, id_positions

Body = list[Instruction]
Names = dict[int, int]
"""An id -> the one that takes its place."""

# What depends on nothing but its operands: chains of pointers, composites, conversions, arithmetic, comparisons, bits.
_PURE = {
    *(op.OpAccessChain, op.OpInBoundsAccessChain, op.OpArrayLength),
    *range(op.OpVectorExtractDynamic, op.OpTranspose + 1),
    *range(op.OpConvertFToU, op.OpBitcast + 1),
    *range(op.OpSNegate, op.OpBitCount + 1),
}
_MERGES = (op.OpLoopMerge, op.OpSelectionMerge)


@dataclass(slots=True)
class Block:
    """From a label to the branch that ends it.

    Attributes:
        code: its instructions.
        before: labels of the blocks that branch here.
        dominators: labels of the blocks that every path here comes through, in that order, itself the last.
    """

    code: Body = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    dominators: list[int] = field(default_factory=list)


Blocks = dict[int, Block]
"""By label; each after those that dominate it, as SPIR-V orders them."""


def uses(instruction: Instruction) -> list[int]:
    """The ids that an instruction uses, its result type among them."""
    return [instruction.operands[k] for k in id_positions(instruction)]


def defined(instruction: Instruction) -> int:
    """The id that an instruction defines; 0 if none."""
    index = LAYOUT[instruction.opcode][1]
    return instruction.operands[index] if index >= 0 else 0


def renamed(instruction: Instruction, names: Mapping[int, int]) -> Instruction:
    """The instruction, using other ids."""
    operands = list(instruction.operands)
    for k in id_positions(instruction):
        operands[k] = names.get(operands[k], operands[k])
    return Instruction(instruction.opcode, tuple(operands))


def shorten(body: Body, marks: Mapping[int, object], constant: set[int]) -> Body:
    """The instructions of a function from its first label on, without those that it can do without.

    Args:
        marks: id -> how it is decorated; values that are decorated in different ways are different.
        constant: global variables that do not change while a shader runs.
    """
    for step in (_known_loads, lambda blocks: _repeated(blocks, marks, constant), _joined):
        n_before = -1
        while len(body) != n_before:
            n_before = len(body)
            body = _replaced(body, step)
    return body


def _blocks(body: Body) -> Blocks:
    blocks: Blocks = {}
    for instruction in body:
        if instruction.opcode == op.OpLabel:
            block = blocks[instruction.operands[0]] = Block()
        block.code.append(instruction)
    for label, block in blocks.items():
        for target in dict.fromkeys(uses(block.code[-1])):
            if target in blocks:
                blocks[target].before.append(label)
    _find_dominators(blocks)
    return blocks


def _find_dominators(blocks: Blocks) -> None:
    """By the definition: what dominates all the blocks before, and the block itself."""
    first, *others = blocks
    found = {label: set(blocks) for label in others} | {first: {first}}
    changed = True
    while changed:
        changed = False
        for label in others:
            above = set(blocks).intersection(*(found[each] for each in blocks[label].before)) | {label}
            changed |= above != found[label]
            found[label] = above
    for label, block in blocks.items():
        block.dominators = [each for each in blocks if each in found[label]]


def _replaced(body: Body, step: Callable[[Blocks], Names]) -> Body:
    """`body` with the ids that `step` found replaced, and without what then does nothing."""
    blocks = _blocks(body)
    names = step(blocks)
    for old in names:
        while names[old] in names:
            names[old] = names[names[old]]
    body = [renamed(each, names) for block in blocks.values() for each in block.code if defined(each) not in names]
    n_before = -1
    while len(body) != n_before:
        n_before = len(body)
        body = _without_dead(body)
    return body


def _without_dead(body: Body) -> Body:
    used = Counter(identifier for each in body for identifier in uses(each))
    stored = Counter(each.operands[0] for each in body if each.opcode == op.OpStore)
    own = {each.operands[1] for each in body if each.opcode == op.OpVariable}

    def is_dead(instruction: Instruction) -> bool:
        opcode, operands, _ = instruction
        if opcode == op.OpStore:
            return operands[0] in own and used[operands[0]] == stored[operands[0]]
        removable = opcode in _PURE or opcode == op.OpVariable or (opcode == op.OpLoad and len(operands) == 3)
        return removable and not used[operands[1]]

    return [each for each in body if not is_dead(each)]


def _known_loads(blocks: Blocks) -> Names:
    """Loads of the function's own variables -> the value that is in them, where that was stored or loaded before."""
    plain = _only_loaded_and_stored(blocks)
    stores = Counter(each.operands[0] for block in blocks.values() for each in block.code if each.opcode == op.OpStore)
    names: Names = {}
    once: dict[int, tuple[int, int]] = {}  # variable stored once -> that value, and the block of it
    ends: dict[int, Names] = {}  # label -> variable -> value at the end of the block
    for label, block in blocks.items():
        values = ends[label] = dict(ends[block.before[0]]) if len(block.before) == 1 else {}
        for opcode, operands, _ in block.code:
            if opcode == op.OpStore and operands[0] in plain:
                values[operands[0]] = operands[1]
                if stores[operands[0]] == 1:
                    once[operands[0]] = operands[1], label
            elif opcode == op.OpLoad and operands[2] in plain:
                value, home = once.get(operands[2], (0, 0))
                value = value if home in block.dominators else values.setdefault(operands[2], operands[1])
                if value != operands[1]:
                    names[operands[1]] = value
    return names


def _only_loaded_and_stored(blocks: Blocks) -> set[int]:
    """The function's variables of which nothing takes a pointer."""
    body = [each for block in blocks.values() for each in block.code]
    found = {each.operands[1] for each in body if each.opcode == op.OpVariable and len(each.operands) == 3}
    for each in body:
        if each.opcode == op.OpStore and len(each.operands) == 2:
            found.discard(each.operands[1])
        elif each.opcode != op.OpLoad or len(each.operands) > 3:
            found.difference_update(uses(each))
    return found


def _repeated(blocks: Blocks, marks: Mapping[int, object], constant: set[int]) -> Names:
    """Values -> the same ones, computed or loaded from what does not change, in a block that dominates theirs."""
    names: Names = {}
    constants = set(constant)  # and what points into them
    seen: dict[int, dict[object, int]] = {}
    for label, block in blocks.items():
        known = seen[label] = dict(seen[block.dominators[-2]]) if block.dominators[1:] else {}
        for instruction in block.code:
            opcode, operands, _ = renamed(instruction, names)
            is_chain = opcode in (op.OpAccessChain, op.OpInBoundsAccessChain)
            if is_chain and operands[2] in constants:
                constants.add(operands[1])
            is_fixed = opcode == op.OpLoad and len(operands) == 3 and operands[2] in constants
            if opcode in _PURE or is_fixed:
                key = (opcode, operands[0], operands[2:], marks.get(operands[1]))
                first = known.setdefault(key, operands[1])
                if first != operands[1]:
                    names[operands[1]] = first
    return names


def _joined(blocks: Blocks) -> Names:
    """Labels of blocks that only go on where another ends -> its label; moves their code there."""
    targets = {
        each for block in blocks.values() for at in block.code if at.opcode in _MERGES for each in at.operands[:2]
    }
    names: Names = {}
    for label, block in [*blocks.items()]:
        if len(block.before) == 1 and label not in targets:
            above = names.get(block.before[0], block.before[0])
            if _takes(blocks[above].code, block.code):
                *kept, _ = blocks[above].code
                merge = [kept.pop()] if kept[-1].opcode in _MERGES else []
                blocks[above].code = [*kept, *block.code[1:-1], *merge, block.code[-1]]
                names[label] = above
                del blocks[label]
    return names


def _takes(above: Body, below: Body) -> bool:
    """Whether the block `above`, which `below` follows, can go on with its code. Only one can say where paths meet."""
    both_merge = above[-2].opcode in _MERGES and below[-2].opcode in _MERGES
    return above[-1].opcode == op.OpBranch and below[1].opcode != op.OpPhi and not both_merge
