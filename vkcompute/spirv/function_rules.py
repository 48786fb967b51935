"""Validation rules for functions: blocks, terminators, branch targets; parameters, results, calls."""

from __future__ import annotations

from collections.abc import Collection

from vkcompute.errors import SpirvError
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.control_flow import BasicBlock, check_control_flow
from vkcompute.spirv.instruction import LAYOUT, Instruction
from vkcompute.spirv.module import Module
from vkcompute.spirv.values import NOTHING, Values

_TERMINATORS = frozenset(
    (
        *(op.OpBranch, op.OpBranchConditional, op.OpSwitch, op.OpKill, op.OpReturn, op.OpReturnValue, op.OpUnreachable),
        *(op.OpTerminateInvocation, op.OpIgnoreIntersectionKHR, op.OpTerminateRayKHR, op.OpEmitMeshTasksEXT),
    )
)
_BRANCHES = frozenset((op.OpBranch, op.OpBranchConditional, op.OpSwitch))
_MERGES = frozenset((op.OpSelectionMerge, op.OpLoopMerge))
# Opcode -> which of its used ids are labels.
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


class BlockRules:
    """A state machine that takes the instructions of the function section, one at a time.

    Attributes:
        values: operands of the current function's OpPhis, each with its OpPhi.
    """

    __slots__ = ("_block", "_blocks", "_definitions", "_last", "_state", "_targets", "values")

    def __init__(self) -> None:
        self._state, self._last = _OUTSIDE, NOTHING
        self._block = BasicBlock(0, NOTHING)
        self._blocks: dict[int, BasicBlock] = {}
        self._definitions: dict[int, int] = {}  # id of a value -> label of its block
        self._targets: dict[int, Instruction] = {}
        self.values: list[tuple[int, Instruction]] = []

    def step(self, instruction: Instruction, used: list[int]) -> None:
        """Takes the next instruction, which uses the ids `used`.

        Raises:
            SpirvError: it is not allowed here, or it ends a function with a branch to an unknown label.
        """
        opcode = instruction.opcode
        if self._last.opcode in _MERGES and opcode not in _BRANCHES:
            raise SpirvError(f"{instruction} follows {self._last}; a branch must follow that")
        if opcode not in _BETWEEN:
            if opcode == op.OpPhi and self._last.opcode not in (op.OpLabel, op.OpPhi):
                raise SpirvError(f"{instruction} is not at the start of its block")
            self._state = self._next(instruction)
            self._last = instruction
            if self._state in (_BLOCK, _AFTER):
                self._collect(instruction, used)
        labels = _LABELS.get(opcode)
        if labels is not None:
            self._targets.update(dict.fromkeys(used[labels], instruction))
            if opcode == op.OpPhi:
                self.values += [(value, instruction) for value in used[1::2]]

    def _collect(self, instruction: Instruction, used: list[int]) -> None:
        """Adds an instruction to the current block."""
        opcode, block, definitions = instruction.opcode, self._block, self._definitions
        if opcode == op.OpPhi:
            block.phis.append(instruction)
        elif opcode in _MERGES:
            block.merge = instruction
        elif opcode in _BRANCHES:
            block.targets = used[_LABELS[opcode]]
            block.last = instruction
        if opcode != op.OpPhi:
            for identifier in used:
                source = definitions.get(identifier, block.label)
                if source != block.label:
                    block.uses.setdefault(source, instruction)
        index = LAYOUT[opcode][1]
        if index == 1:
            definitions[instruction.operands[1]] = block.label

    def _next(self, instruction: Instruction) -> str:
        """The state after `instruction`."""
        opcode, state = instruction.opcode, self._state
        if opcode == op.OpFunction and state == _OUTSIDE:
            self._blocks, self._definitions, self._targets, self.values = {}, {}, {}, []
            return _HEAD
        if opcode == op.OpFunctionParameter and state == _HEAD:
            return _HEAD
        if opcode == op.OpLabel and state in (_HEAD, _AFTER):
            self._block = self._blocks[instruction.operands[0]] = BasicBlock(instruction.operands[0], instruction)
            return _BLOCK
        if opcode == op.OpFunctionEnd and state in (_HEAD, _AFTER):
            self._check_targets()
            return _OUTSIDE
        inside = opcode not in (op.OpFunction, op.OpFunctionParameter, op.OpLabel, op.OpFunctionEnd)
        if inside and state == _BLOCK:
            return _AFTER if opcode in _TERMINATORS else _BLOCK
        raise SpirvError(f"{instruction} is not allowed {state}")

    def _check_targets(self) -> None:
        for target, user in self._targets.items():
            if target not in self._blocks:
                raise SpirvError(f"{user} names id {target}, which is not a label of its function")
        if self._blocks:
            check_control_flow(self._blocks, self._definitions)

    def finish(self) -> None:
        """Ends the section.

        Raises:
            SpirvError: a function is not complete.
        """
        if self._state != _OUTSIDE:
            raise SpirvError(f"truncated: the module ends {self._state}")


class SignatureRules:
    """Checks parameters, results and calls of functions against the functions' types."""

    __slots__ = ("_calls", "_function", "_parameters", "_values")

    def __init__(self, values: Values) -> None:
        self._values = values
        self._function = NOTHING
        self._parameters: list[int] = []  # types of the OpFunctionParameters to follow
        self._calls: list[Instruction] = []

    def step(self, instruction: Instruction) -> None:
        """Takes the next instruction of the function section.

        Raises:
            SpirvError: a parameter or a result differs from the function's type.
        """
        opcode = instruction.opcode
        if opcode == op.OpFunction:
            self._function = instruction
            self._parameters = list(self._values.definition(instruction.operands[3]).operands[2:])
        elif opcode == op.OpFunctionParameter:
            if not self._parameters or self._parameters.pop(0) != instruction.operands[0]:
                raise SpirvError(f"{instruction} does not match the type of {self._function}")
        elif opcode in (op.OpReturn, op.OpReturnValue):
            self._returned(instruction)
        elif opcode == op.OpFunctionCall:
            self._calls.append(instruction)

    def _returned(self, instruction: Instruction) -> None:
        kind = self._function.operands[0]
        if instruction.opcode == op.OpReturn:
            if self._values.definition(kind).opcode != op.OpTypeVoid:
                raise SpirvError(f"{instruction} returns nothing from {self._function}, which is not void")
        elif self._values.types.get(instruction.operands[0]) != kind:
            raise SpirvError(f"{instruction} returns another type than {self._function}")

    def finish(self) -> None:
        """Checks the calls, once every function is known.

        Raises:
            SpirvError: the callee is not a function, or has other parameters or another result.
        """
        for call in self._calls:
            result, _, callee, *arguments = call.operands
            function = self._values.definition(callee)
            if function.opcode != op.OpFunction:
                raise SpirvError(f"{call} calls id {callee}, which is not a function")
            kinds = [self._values.types.get(argument) for argument in arguments]
            if [result, *kinds] != list(self._values.definition(function.operands[3]).operands[1:]):
                raise SpirvError(f"{call} does not match the type of {function}")


def check_calls(module: Module, entries: Collection[int]) -> None:
    """Checks that functions are defined, do not call themselves, not even indirectly, and never call an entry point.

    Raises:
        SpirvError: a call that is not allowed.
    """
    calls: dict[int, dict[int, Instruction]] = {}
    callers: dict[int, int] = {}
    function = 0
    for instruction in module.functions:
        if instruction.opcode == op.OpFunction:
            function = instruction.operands[1]
            calls[function] = {}
        elif instruction.opcode == op.OpFunctionCall:
            calls[function][instruction.operands[2]] = instruction
    for called in calls.values():
        for callee, call in called.items():
            callers[callee] = callers.get(callee, 0) + 1
            if callee in entries:
                raise SpirvError(f"{call} calls an entry point")
    # Kahn's algorithm: functions without a caller are taken away, until none is left.
    free = [function for function in calls if function not in callers]
    while free:
        for callee in calls.pop(free.pop()):
            callers[callee] -= 1
            if not callers[callee]:
                free.append(callee)
    for called in calls.values():
        for call in called.values():
            raise SpirvError(f"{call} is part of a recursion")
