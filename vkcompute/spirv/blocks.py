"""The skeleton of functions: parameters, labelled blocks, terminators, branch targets."""

from __future__ import annotations

from vkcompute.errors import SpirvError
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.instruction import Instruction

_TERMINATORS = frozenset(
    (
        *(op.OpBranch, op.OpBranchConditional, op.OpSwitch, op.OpKill, op.OpReturn, op.OpReturnValue, op.OpUnreachable),
        *(op.OpTerminateInvocation, 4448, 4449, 5294),  # OpIgnoreIntersectionKHR, OpTerminateRayKHR, OpEmitMeshTasksEXT
    )
)
_BRANCHES = frozenset((op.OpBranch, op.OpBranchConditional, op.OpSwitch))
_MERGES = frozenset((op.OpSelectionMerge, op.OpLoopMerge))
# Opcode -> which of the ids that it uses are labels.
_LABELS: dict[int, slice] = {
    op.OpBranch: slice(0, None),
    op.OpBranchConditional: slice(1, None),
    op.OpSwitch: slice(1, None),
    op.OpSelectionMerge: slice(0, None),
    op.OpLoopMerge: slice(0, None),
    op.OpPhi: slice(2, None, 2),
}
_BETWEEN = frozenset((op.OpLine, op.OpNoLine))
_OUTSIDE, _HEAD, _BLOCK, _AFTER = "outside of any function", "before the first block", "in a block", "between blocks"


class Blocks:
    """Follows the function section one instruction at a time.

    Attributes:
        values: of the function at hand, ids that an OpPhi names -> that OpPhi.
    """

    __slots__ = ("_labels", "_last", "_state", "_targets", "values")

    def __init__(self) -> None:
        self._state, self._last = _OUTSIDE, Instruction(op.OpNop, ())
        self._labels: set[int] = set()
        self._targets: dict[int, Instruction] = {}
        self.values: dict[int, Instruction] = {}

    def step(self, instruction: Instruction, used: list[int]) -> None:
        """Take in the next instruction, which uses the ids `used`.

        Raises:
            SpirvError: it cannot stand here, or the function that it ends branches to what is no label of its own.
        """
        opcode = instruction.opcode
        if self._last.opcode in _MERGES and opcode not in _BRANCHES:
            raise SpirvError(f"{instruction} follows {self._last}, where a branch has to")
        if opcode not in _BETWEEN:
            self._state = self._next(instruction)
            self._last = instruction
        labels = _LABELS.get(opcode)
        if labels is not None:
            self._targets.update(dict.fromkeys(used[labels], instruction))
            if opcode == op.OpPhi:
                self.values.update(dict.fromkeys(used[1::2], instruction))

    def _next(self, instruction: Instruction) -> str:
        """The state after `instruction`."""
        opcode, state = instruction.opcode, self._state
        if opcode == op.OpFunction and state == _OUTSIDE:
            self._labels, self._targets, self.values = set(), {}, {}
            return _HEAD
        if opcode == op.OpFunctionParameter and state == _HEAD:
            return _HEAD
        if opcode == op.OpLabel and state in (_HEAD, _AFTER):
            self._labels.add(instruction.operands[0])
            return _BLOCK
        if opcode == op.OpFunctionEnd and state in (_HEAD, _AFTER):
            self._check_targets()
            return _OUTSIDE
        inside = opcode not in (op.OpFunction, op.OpFunctionParameter, op.OpLabel, op.OpFunctionEnd)
        if inside and state == _BLOCK:
            return _AFTER if opcode in _TERMINATORS else _BLOCK
        raise SpirvError(f"{instruction} stands {state}, where it cannot")

    def _check_targets(self) -> None:
        for target, user in self._targets.items():
            if target not in self._labels:
                raise SpirvError(f"{user} names id {target}, which is no label of its function")

    def finish(self) -> None:
        """The section has ended.

        Raises:
            SpirvError: within a function.
        """
        if self._state != _OUTSIDE:
            raise SpirvError(f"the module ends {self._state}; it is not whole")
