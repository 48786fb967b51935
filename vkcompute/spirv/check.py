"""Well-formed enough to hand to a driver: what is cheap to see and would otherwise crash a driver's compiler.

Not a validator: dominance, the nesting of control flow, layouts, and the operands of most arithmetic are left to
spirv-val.
"""

from __future__ import annotations

from vkcompute.errors import SpirvError
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.blocks import Blocks, Signature
from vkcompute.spirv.capabilities import missing_features
from vkcompute.spirv.instruction import LAYOUT, Instruction, string_at, used_ids
from vkcompute.spirv.module import DECLARATIONS, FUNCTIONS, SECTION_OF, Module
from vkcompute.spirv.rules import RULES, TYPES, Values

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
_LATER = (op.OpTypeForwardPointer, op.OpMemberName, op.OpMemberDecorate, op.OpMemberDecorateString)
_LINKAGE = 5  # the capability
_EXTENDED = (op.OpExtInst, op.OpExtInstWithForwardRefsKHR)


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
        function = checker.values.definition(entry.operands[1])
        if function.opcode != op.OpFunction:
            raise SpirvError(f"{entry} starts at id {entry.operands[1]}, which is no function")
        kind = checker.values.definition(function.operands[3])
        if len(kind.operands) != 2 or checker.values.definition(kind.operands[1]).opcode != op.OpTypeVoid:
            raise SpirvError(f"{entry} starts at {function}, which takes parameters or returns something")


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
    linkage = any(each.operands[0] == _LINKAGE for each in module.capabilities)
    if not module.entry_points and not linkage:
        raise SpirvError("no entry point; a shader needs one")


class _Ids:
    """Walks a module in order and knows which ids are defined, and of what type."""

    __slots__ = ("_bound", "_members", "_pending", "_retired", "values")

    def __init__(self, module: Module) -> None:
        self._bound = module.bound
        self.values = Values()
        self._pending: dict[int, Instruction] = {}  # id used before its definition -> first use
        self._retired: set[int] = set()  # ids of functions that have ended
        self._members: list[Instruction] = []  # names and decorations of members, whose structures come later

    def declare(self, instruction: Instruction) -> list[int]:
        """Check one instruction's operands against what came before it, and take in what it defines.

        Returns the ids that it uses.
        """
        opcode, operands, defined = instruction.opcode, instruction.operands, self.values.defined
        used = used_ids(instruction, self._literal_words(instruction))
        if opcode in _EXTENDED:
            used = self._extended(instruction, used)
        for identifier in used:
            if identifier not in defined:
                self._undefined(instruction, identifier, used)
            elif identifier in self._retired:
                raise SpirvError(f"{instruction} uses id {identifier}, which is defined inside another function")
        index = LAYOUT[opcode][1]
        if index == 1 and self.values.definition(operands[0]).opcode not in TYPES:
            raise SpirvError(f"{instruction} has id {operands[0]} for its result type, which is no type")
        rule = RULES.get(opcode)
        if rule is not None:
            rule(instruction, self.values)
        if index >= 0:
            self._define(instruction, operands[index])
        elif opcode in _LATER:
            self._note(instruction)
        if index == 1:
            self.values.types[operands[1]] = operands[0]
        return used

    def _note(self, instruction: Instruction) -> None:
        """What `finish` or a later instruction has to look at again."""
        if instruction.opcode == op.OpTypeForwardPointer:
            self.values.forward_pointers.add(instruction.operands[0])
        else:
            self._members.append(instruction)

    def _define(self, instruction: Instruction, identifier: int) -> None:
        if not 0 < identifier < self._bound:
            raise SpirvError(f"{instruction} defines id {identifier}; ids are 1 to {self._bound - 1} here")
        if identifier in self.values.defined:
            raise SpirvError(f"{instruction} defines id {identifier} again, after {self.values.defined[identifier]}")
        self.values.defined[identifier] = instruction

    def _extended(self, instruction: Instruction, used: list[int]) -> list[int]:
        """The ids that are known to be such of an extended instruction: not those of OpenCL's debug information."""
        name = self._set_name(instruction)
        return used if name.startswith("NonSemantic.") or "DebugInfo" not in name else used[:2]

    def _set_name(self, instruction: Instruction) -> str:
        """The name of the instruction set that an extended instruction is from."""
        imported = self.values.definition(instruction.operands[2])
        if imported.opcode != op.OpExtInstImport:
            raise SpirvError(f"{instruction} is of set {instruction.operands[2]}, which is no OpExtInstImport")
        return string_at(imported.operands, 1, imported)[0]

    def _literal_words(self, instruction: Instruction) -> int:
        """Words of an OpSwitch's literals: those of its selector's type."""
        if instruction.opcode != op.OpSwitch:
            return 1
        kind = self.values.type_of(instruction.operands[0])
        if kind.opcode != op.OpTypeInt:
            raise SpirvError(f"{instruction} selects by id {instruction.operands[0]}, which is no integer")
        return max(1, kind.operands[1] // 32)

    def _undefined(self, instruction: Instruction, identifier: int, used: list[int]) -> None:
        """A use before the definition: to be settled later where the instruction may, an error elsewhere."""
        forward = identifier in used[_FORWARD.get(instruction.opcode, slice(0, 0))]
        if instruction.opcode in TYPES and identifier in self.values.forward_pointers:
            forward = True
        if not forward or not 0 < identifier < self._bound:
            raise SpirvError(f"{instruction} uses id {identifier}, which is not defined before it")
        self._pending.setdefault(identifier, instruction)

    def functions(self, instructions: list[Instruction]) -> None:
        """The function section: operands, scopes, signatures and blocks."""
        blocks, signature = Blocks(), Signature(self.values)
        local: list[int] = []
        for instruction in instructions:
            used = self.declare(instruction)
            if not (instruction.opcode in _EXTENDED and self._set_name(instruction).startswith("NonSemantic.")):
                blocks.step(instruction, used)
                signature.step(instruction)
            index = LAYOUT[instruction.opcode][1]
            if index >= 0 and instruction.opcode != op.OpFunction:
                local.append(instruction.operands[index])
            elif instruction.opcode == op.OpFunctionEnd:
                self._check_phis(blocks)
                self._retired.update(local)
                local.clear()
        blocks.finish()
        signature.finish()

    def _check_phis(self, blocks: Blocks) -> None:
        """At the end of a function: the values that its phis name are there, its own, and of the phi's type."""
        for identifier, phi in blocks.values:
            if identifier not in self.values.defined or identifier in self._retired:
                raise SpirvError(f"{phi} uses id {identifier}, which this function does not define")
            if self.values.types.get(identifier) != phi.operands[0]:
                raise SpirvError(f"{phi}: id {identifier} is of another type")

    def finish(self) -> None:
        """Everything that was used ahead of its definition has one by now, and is what it was taken for."""
        for identifier, user in self._pending.items():
            if identifier not in self.values.defined:
                raise SpirvError(f"{user} uses id {identifier}, which is defined nowhere")
        for instruction in self._members:
            structure, member = instruction.operands[:2]
            kind = self.values.definition(structure)
            if kind.opcode != op.OpTypeStruct or member >= len(kind.operands) - 1:
                raise SpirvError(f"{instruction} is about member {member} of {kind}, which there is not")
