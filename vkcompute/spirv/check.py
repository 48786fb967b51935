"""Well-formed enough to hand to a driver: what is cheap to see and would otherwise crash a driver's compiler.

Not a validator: the types of operands, dominance and the structure of control flow are left to spirv-val.
"""

from __future__ import annotations

from vkcompute.errors import SpirvError
from vkcompute.spirv import enums
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.blocks import Blocks
from vkcompute.spirv.capabilities import missing_features
from vkcompute.spirv.instruction import LAYOUT, Instruction, string_at, used_ids
from vkcompute.spirv.module import DECLARATIONS, FUNCTIONS, SECTION_OF, Module

__all__ = ["check", "missing_features"]

# Instructions that may name ids which are defined after them -> first of their used ids that may, and the one after
# the last. SPIR-V 2.4: "all other ids must be defined before their use".
_ANY = slice(0, None)
_FORWARD: dict[int, slice] = {
    **dict.fromkeys(
        (
            *(op.OpEntryPoint, op.OpExecutionMode, op.OpExecutionModeId, op.OpName, op.OpMemberName, op.OpDecorate),
            *(op.OpMemberDecorate, op.OpDecorateId, op.OpDecorateString, op.OpMemberDecorateString, op.OpBranch),
            *(op.OpSelectionMerge, op.OpLoopMerge, op.OpTypeForwardPointer, op.OpExtInstWithForwardRefsKHR),
        ),
        _ANY,
    ),
    **dict.fromkeys(
        (op.OpGroupDecorate, op.OpGroupMemberDecorate, op.OpBranchConditional, op.OpSwitch, op.OpPhi), slice(1, None)
    ),
    op.OpFunctionCall: slice(1, 2),
    292: _ANY,  # OpEnqueueKernel names functions
}
# Opcode -> position of an operand that has to be a pointer.
_POINTERS: dict[int, int] = {
    **dict.fromkeys((op.OpLoad, op.OpAccessChain, op.OpInBoundsAccessChain, op.OpPtrAccessChain, op.OpArrayLength), 2),
    **dict.fromkeys(range(op.OpAtomicExchange, op.OpAtomicXor + 1), 2),
    **dict.fromkeys((op.OpStore, op.OpAtomicStore, op.OpCopyMemory), 0),
    op.OpAtomicLoad: 2,
    op.OpImageTexelPointer: 2,
}
_POINTER_TYPES = (op.OpTypePointer, op.OpTypeUntypedPointerKHR)
_EXTENDED = (op.OpExtInst, op.OpExtInstWithForwardRefsKHR)
_NUMBERS = (op.OpConstant, op.OpSpecConstant)


def check(module: Module) -> None:
    """Refuse a module that is not well-formed.

    Raises:
        SpirvError: sections out of order, no memory model or entry point, an unknown opcode, operands missing or left
            over, an id that is defined twice, nowhere, or only after its use or in another function, a result type
            that is no type, or functions whose blocks are not labelled, ended and connected.
    """
    _sections(module)
    checker = _Ids(module)
    for section in module.sections()[:FUNCTIONS]:
        for instruction in section:
            checker.declare(instruction)
    checker.functions(module.functions)
    checker.finish()
    for entry in module.entry_points:
        if checker.defined.get(entry.operands[1], _NOTHING).opcode != op.OpFunction:
            raise SpirvError(f"{entry} starts at id {entry.operands[1]}, which is no function")


_NOTHING = Instruction(op.OpNop, ())
_TYPES = frozenset(
    opcode for opcode in op.DECLARED if op.SHAPES[opcode].startswith("R") and opcode != op.OpTypeForwardPointer
)


def _sections(module: Module) -> None:
    """Every instruction in its section, and what a module must have."""
    for index, section in enumerate(module.sections()):
        for instruction in section:
            wanted = SECTION_OF.get(instruction.opcode, FUNCTIONS)
            anywhere = wanted == DECLARATIONS and index == FUNCTIONS and instruction.opcode not in op.DECLARED
            if instruction.opcode not in op.SHAPES:
                raise SpirvError(f"{instruction}: the opcode is in no SPIR-V grammar known here; is the file damaged?")
            if wanted != index and not anywhere:
                raise SpirvError(f"{instruction} is out of order (SPIR-V 2.4, logical layout of a module)")
    if len(module.memory_model) != 1:
        raise SpirvError(f"{len(module.memory_model)} OpMemoryModel; a module has exactly one")
    linkage = any(each.operands[0] == enums.Capability.Linkage for each in module.capabilities)
    if not module.entry_points and not linkage:
        raise SpirvError("no entry point; a shader needs one")


class _Ids:
    """Walks a module in order and knows which ids are defined, and of what type."""

    __slots__ = ("_bound", "_forward_pointers", "_pending", "_retired", "_types", "defined")

    def __init__(self, module: Module) -> None:
        self._bound = module.bound
        self.defined: dict[int, Instruction] = {}
        self._types: dict[int, int] = {}  # id -> its result type
        self._pending: dict[int, Instruction] = {}  # id used before its definition -> first use
        self._forward_pointers: set[int] = set()
        self._retired: set[int] = set()  # ids of functions that have ended

    def declare(self, instruction: Instruction) -> list[int]:
        """Check one instruction's operands against what came before it, and take in what it defines.

        Returns the ids that it uses.
        """
        opcode, operands = instruction.opcode, instruction.operands
        used = used_ids(instruction, self._literal_words(instruction))
        if opcode in _EXTENDED:
            used = self._extended(instruction, used)
        for identifier in used:
            if identifier not in self.defined:
                self._undefined(instruction, identifier, used)
            elif identifier in self._retired:
                raise SpirvError(f"{instruction} uses id {identifier}, which is defined inside another function")
        if opcode == op.OpTypeForwardPointer:
            self._forward_pointers.add(operands[0])
        index = LAYOUT[opcode][1]
        if index == 1:
            self._typed(instruction)
        elif opcode in _POINTERS:
            self._pointer(instruction, operands[_POINTERS[opcode]])
        if index >= 0:
            self._define(instruction, operands[index])
        return used

    def _extended(self, instruction: Instruction, used: list[int]) -> list[int]:
        """The ids that are known to be such of an extended instruction: not those of OpenCL's debug information."""
        imported = self.defined.get(instruction.operands[2], _NOTHING)
        if imported.opcode != op.OpExtInstImport:
            raise SpirvError(f"{instruction} is of set {instruction.operands[2]}, which is no OpExtInstImport")
        name = string_at(imported.operands, 1, imported)[0]
        return used if name.startswith("NonSemantic.") or "DebugInfo" not in name else used[:2]

    def _define(self, instruction: Instruction, identifier: int) -> None:
        if not 0 < identifier < self._bound:
            raise SpirvError(f"{instruction} defines id {identifier}; ids are 1 to {self._bound - 1} here")
        if identifier in self.defined:
            raise SpirvError(f"{instruction} defines id {identifier} again, after {self.defined[identifier]}")
        self.defined[identifier] = instruction

    def _typed(self, instruction: Instruction) -> None:
        """An instruction with a result type."""
        opcode, operands = instruction.opcode, instruction.operands
        kind = self.defined.get(operands[0], _NOTHING)
        if kind.opcode not in _TYPES:
            raise SpirvError(f"{instruction} has id {operands[0]} for its result type, which is no type")
        if opcode in _POINTERS:
            self._pointer(instruction, operands[_POINTERS[opcode]])
        elif opcode in _NUMBERS:
            self._number(instruction, kind)
        elif opcode == op.OpVariable and (kind.opcode != op.OpTypePointer or kind.operands[1] != operands[2]):
            raise SpirvError(f"{instruction} is not of a pointer type of its own storage class {operands[2]}")
        self._types[operands[1]] = operands[0]

    def _number(self, instruction: Instruction, kind: Instruction) -> None:
        words = len(instruction.operands) - 2
        if kind.opcode not in (op.OpTypeInt, op.OpTypeFloat) or words != max(1, kind.operands[1] // 32):
            raise SpirvError(f"{instruction} has {words} literal words for a value of {kind}")

    def _pointer(self, instruction: Instruction, identifier: int) -> None:
        kind = self.defined.get(self._types.get(identifier, 0), _NOTHING)
        if kind.opcode not in _POINTER_TYPES:
            raise SpirvError(f"{instruction} wants a pointer, and id {identifier} is none")

    def _literal_words(self, instruction: Instruction) -> int:
        """Words of an OpSwitch's literals: those of its selector's type."""
        if instruction.opcode != op.OpSwitch:
            return 1
        kind = self.defined.get(self._types.get(instruction.operands[0], 0), _NOTHING)
        if kind.opcode != op.OpTypeInt:
            raise SpirvError(f"{instruction} selects by id {instruction.operands[0]}, which is no integer")
        return max(1, kind.operands[1] // 32)

    def _undefined(self, instruction: Instruction, identifier: int, used: list[int]) -> None:
        """A use before the definition: to be settled later where the instruction may, an error elsewhere."""
        forward = identifier in used[_FORWARD.get(instruction.opcode, slice(0, 0))]
        if instruction.opcode in _TYPES and identifier in self._forward_pointers:
            forward = True
        if not forward or not 0 < identifier < self._bound:
            raise SpirvError(f"{instruction} uses id {identifier}, which is not defined before it")
        self._pending.setdefault(identifier, instruction)

    def functions(self, instructions: list[Instruction]) -> None:
        """The function section: operands, scopes and blocks."""
        blocks = Blocks()
        local: list[int] = []
        for instruction in instructions:
            blocks.step(instruction, self.declare(instruction))
            index = LAYOUT[instruction.opcode][1]
            if index >= 0 and instruction.opcode != op.OpFunction:
                local.append(instruction.operands[index])
            elif instruction.opcode == op.OpFunctionEnd:
                self._check_local(blocks)
                self._retired.update(local)
                local.clear()
        blocks.finish()

    def _check_local(self, blocks: Blocks) -> None:
        """At the end of a function: what it used ahead of its definition is there, and its own."""
        for identifier, user in blocks.values.items():
            if identifier not in self.defined or identifier in self._retired:
                raise SpirvError(f"{user} uses id {identifier}, which this function does not define")

    def finish(self) -> None:
        """Everything that was used ahead of its definition has one by now."""
        for identifier, user in self._pending.items():
            if identifier not in self.defined:
                raise SpirvError(f"{user} uses id {identifier}, which is defined nowhere")
