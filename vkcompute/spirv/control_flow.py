"""Validation rules for control flow: dominance, phis, loops, and the exits of structured constructs.

SPIR-V 2.11 "Structured Control Flow" and 2.16.1 "Universal Validation Rules". Dominators are computed as in Cooper,
Harvey and Kennedy, "A Simple, Fast Dominance Algorithm".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vkcompute.errors import SpirvError
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.instruction import Instruction


@dataclass(slots=True)
class BasicBlock:
    """A block of a function.

    Attributes:
        label: its id.
        last: the newest instruction; the terminator, once it is complete.
        merge: its OpSelectionMerge or OpLoopMerge.
        targets: labels that it branches to.
        phis: its OpPhis.
        uses: label of another block -> an instruction here that uses a value of that block.
    """

    label: int
    last: Instruction
    merge: Instruction | None = None
    targets: list[int] = field(default_factory=list)
    phis: list[Instruction] = field(default_factory=list)
    uses: dict[int, Instruction] = field(default_factory=dict)


class Dominators:
    """The dominator tree of the blocks that are reachable from the entry.

    Attributes:
        order: the labels in reverse postorder.
        parents: label -> label of the immediate dominator; the entry's is itself.
    """

    def __init__(self, entry: int, successors: Mapping[int, Iterable[int]]) -> None:
        self.order = _reverse_postorder(entry, successors)
        self.number = {label: k for k, label in enumerate(self.order)}
        predecessors: dict[int, list[int]] = {label: [] for label in self.order}
        for label in self.order:
            for target in successors[label]:
                predecessors[target].append(label)
        self.parents = {entry: entry}
        changed = True
        while changed:
            changed = False
            for label in self.order[1:]:
                done = [predecessor for predecessor in predecessors[label] if predecessor in self.parents]
                dominator = done[0]
                for predecessor in done[1:]:
                    dominator = self._common(dominator, predecessor)
                changed = changed or self.parents.get(label) != dominator
                self.parents[label] = dominator
        children: dict[int, list[int]] = {label: [] for label in self.order}
        for label in self.order[1:]:
            children[self.parents[label]].append(label)
        preorder = _reverse_postorder(entry, children)
        self._first = {label: k for k, label in enumerate(preorder)}
        self._size = dict.fromkeys(preorder, 1)
        for label in preorder[:0:-1]:
            self._size[self.parents[label]] += self._size[label]

    def _common(self, one: int, other: int) -> int:
        while one != other:
            while self.number[one] > self.number[other]:
                one = self.parents[one]
            while self.number[other] > self.number[one]:
                other = self.parents[other]
        return one

    def dominates(self, label: int, other: int) -> bool:
        """True if all ways to `other` pass `label`; also if `other` is unreachable."""
        if other not in self.number:
            return True
        first = self._first.get(label)
        return first is not None and first <= self._first[other] < first + self._size[label]


def _reverse_postorder(entry: int, successors: Mapping[int, Iterable[int]]) -> list[int]:
    order, seen = list[int](), {entry}
    stack = [(entry, iter(successors[entry]))]
    while stack:
        label, left = stack[-1]
        target = next((label for label in left if label not in seen), None)
        if target is None:
            order.append(label)
            stack.pop()
        else:
            seen.add(target)
            stack.append((target, iter(successors[target])))
    return order[::-1]


def check_control_flow(blocks: Mapping[int, BasicBlock], definitions: Mapping[int, int]) -> None:
    """Checks the blocks of one function.

    Args:
        blocks: label -> block, in the order of the module; all targets are among them.
        definitions: id of a value -> label of the block that defines it.

    Raises:
        SpirvError: a use is not dominated by the definition; a phi does not fit the predecessors; a block precedes its
            dominator. A loop, a merge block or the exit of a construct is not structured.
    """
    entry = next(iter(blocks))
    predecessors: dict[int, list[int]] = {label: [] for label in blocks}
    for label, block in blocks.items():
        for target in dict.fromkeys(block.targets):
            predecessors[target].append(label)
    if predecessors[entry]:
        raise SpirvError(f"{blocks[predecessors[entry][0]].last} branches to the first block of its function")
    tree = Dominators(entry, {label: block.targets for label, block in blocks.items()})
    position = {label: k for k, label in enumerate(blocks)}
    for label in tree.order:
        block = blocks[label]
        if position[tree.parents[label]] > position[label]:
            raise SpirvError(f"block {label} precedes block {tree.parents[label]}, which dominates it")
        for source, user in block.uses.items():
            if not tree.dominates(source, label):
                raise SpirvError(f"{user} uses a value of block {source}, which does not dominate it")
    for label, block in blocks.items():
        for phi in block.phis:
            _check_phi(phi, predecessors[label], tree, definitions)
    _Structure(blocks, predecessors, tree).check()


def _check_phi(phi: Instruction, predecessors: list[int], tree: Dominators, definitions: Mapping[int, int]) -> None:
    values, parents = phi.operands[2::2], phi.operands[3::2]
    if sorted(parents) != sorted(predecessors):
        raise SpirvError(f"{phi} has values from blocks {parents}; its block's predecessors are {predecessors}")
    for value, parent in zip(values, parents, strict=True):
        if value in definitions and not tree.dominates(definitions[value], parent):
            raise SpirvError(f"{phi}: id {value} does not dominate block {parent}")


class _Structure:
    """Checks of loops, merge blocks, and the exits of constructs in one function."""

    __slots__ = ("_blocks", "_headers", "_loops", "_predecessors", "_tree")

    def __init__(
        self, blocks: Mapping[int, BasicBlock], predecessors: Mapping[int, list[int]], tree: Dominators
    ) -> None:
        self._blocks, self._predecessors, self._tree = blocks, predecessors, tree
        merges = {label: block.merge for label, block in blocks.items() if block.merge is not None}
        self._headers = {label: merge.operands for label, merge in merges.items()}
        self._loops = {label for label, merge in merges.items() if merge.opcode == op.OpLoopMerge}

    def check(self) -> None:
        """Checks all of it.

        Raises:
            SpirvError: a rule is violated.
        """
        blocks, tree = self._blocks, self._tree
        for label in tree.order:
            for target in blocks[label].targets:
                is_back = tree.number[target] <= tree.number[label]
                if is_back and not (target in self._loops and tree.dominates(target, label)):
                    raise SpirvError(
                        f"{blocks[label].last} branches back to block {target}, which is not its loop's header"
                    )
        merges: set[int] = set()
        for label, (merge, *_) in self._headers.items():
            reachable = label in tree.number
            if merge in merges or merge == label or (reachable and not tree.dominates(label, merge)):
                raise SpirvError(
                    f"{blocks[label].merge}: block {merge} is another's merge block, or not dominated by the header"
                )
            merges.add(merge)
            if reachable and label in self._loops:
                self._check_loop(label)
        self._check_constructs()

    def _check_loop(self, header: int) -> None:
        """Checks that one block branches back, which the continue target dominates."""
        tree, (merge, target, *_) = self._tree, self._headers[header]
        back = [predecessor for predecessor in self._predecessors[header] if tree.dominates(header, predecessor)]
        what = self._blocks[header].merge
        if len(back) != 1:
            raise SpirvError(f"{what}: {len(back)} blocks branch back to the loop's header; it takes one")
        if target == merge or not tree.dominates(header, target) or not tree.dominates(target, back[0]):
            raise SpirvError(f"{what}: block {target} is not the loop's continue target")

    def _check_constructs(self) -> None:
        """Checks each construct, with the loops and switches around it."""
        closed = {merge: label for label, (merge, *_) in self._headers.items()}
        around: dict[int, frozenset[int]] = {}  # label -> blocks to which loops and switches around it may be left
        for label in self._tree.order:
            outer = closed.get(label, self._tree.parents[label])
            around[label] = around.get(outer, frozenset())
            if outer in self._headers and label not in closed:
                around[label] |= self._exits(outer)
            if label in self._headers:
                merge = self._headers[label][0]
                self._check_construct(label, merge, {label, merge, *around[label], *self._exits(label)})

    def _exits(self, header: int) -> frozenset[int]:
        """The blocks to which a loop or a switch may be left from all constructs in it; none for other selections."""
        if header in self._loops:
            return frozenset((header, *self._headers[header][:2]))
        is_switch = self._blocks[header].last.opcode == op.OpSwitch
        return frozenset(self._headers[header][:1] if is_switch else ())

    def _check_construct(self, header: int, merge: int, exits: set[int]) -> None:
        """Checks that a construct is left for one of `exits` only, and not entered from its merge block.

        An inner construct counts as a branch to its merge block.
        """
        tree, blocks = self._tree, self._blocks
        seen, left = set(exits), [header]
        while left:
            label = left.pop()
            is_inner = label in self._headers and label != header
            for target in self._headers[label][:1] if is_inner else blocks[label].targets:
                if target not in exits and not tree.dominates(header, target):
                    raise SpirvError(f"{blocks[label].last} leaves the construct of block {header} for block {target}")
                if target not in seen and target in tree.number:
                    seen.add(target)
                    left.append(target)
                    for other in self._predecessors[target]:
                        if other in tree.number and merge in tree.number and tree.dominates(merge, other):
                            raise SpirvError(f"{blocks[other].last} enters the construct of block {header}")
