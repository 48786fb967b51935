"""Validation of a module before a driver compiles it: cheap rules, whose violation crashes drivers' compilers.

spirv-val checks more: layouts, duplicate types and decorations, and rules of Vulkan for single instructions.
"""

from __future__ import annotations

from collections.abc import Iterable

from vkcompute.errors import SpirvError
from vkcompute.spirv import enums
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.decoration_rules import check_decoration
from vkcompute.spirv.enums import Capability, StorageClass
from vkcompute.spirv.function_rules import BlockRules, SignatureRules, check_calls
from vkcompute.spirv.instruction import LAYOUT, Instruction, operands_of, parts, string_at
from vkcompute.spirv.module import DECLARATIONS, FUNCTIONS, SECTION_OF, Module
from vkcompute.spirv.type_rules import RULES
from vkcompute.spirv.values import TYPES, Values

# Opcode -> which of its used ids may be defined later. SPIR-V 2.4: "all other ids must be defined before their use".
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
    op.OpEnqueueKernel: _ANY,  # uses functions
}
_LATER = (
    *(op.OpTypeForwardPointer, op.OpMemberName, op.OpDecorate, op.OpDecorateId, op.OpMemberDecorate),
    op.OpMemberDecorateString,
)
_VARIABLES = (op.OpVariable, op.OpUntypedVariableKHR)
_EXTENDED = (op.OpExtInst, op.OpExtInstWithForwardRefsKHR)


def validate(module: Module) -> None:
    """Rejects a malformed module.

    Raises:
        SpirvError: sections are out of order; there is no memory model or entry point. An opcode or enumerant is
            unknown or lacks its capability, or has too few or too many operands. An id is undefined, defined twice,
            used where its definition does not dominate, or of a type that the instruction does not take. A function is
            recursive, or its control flow is not structured.
    """
    _sections(module)
    checker = _Ids(module)
    for section in module.sections()[:FUNCTIONS]:
        for instruction in section:
            checker.declare(instruction)
    checker.functions(module.functions)
    checker.finish()
    _entry_points(module, checker.values)


def _entry_points(module: Module, values: Values) -> None:
    """Checks the signatures and interfaces of entry points, and the targets of execution modes."""
    for entry in module.entry_points:
        function = values.definition(entry.operands[1])
        if function.opcode != op.OpFunction:
            raise SpirvError(f"{entry} names id {entry.operands[1]}, which is not a function")
        kind = values.definition(function.operands[3])
        if len(kind.operands) != 2 or values.definition(kind.operands[1]).opcode != op.OpTypeVoid:
            raise SpirvError(f"{entry} names {function}, which has parameters or a result; it must have neither")
        for identifier in operands_of(entry).ids[1:]:
            variable = values.definition(identifier)
            if variable.opcode not in _VARIABLES:
                raise SpirvError(f"{entry} has {variable} in its interface, which is not a variable")
            if module.version < (1, 4) and variable.operands[2] not in (StorageClass.Input, StorageClass.Output):
                raise SpirvError(
                    f"{entry} has {variable} in its interface; before SPIR-V 1.4 it is for Input and Output"
                )
    entries = {entry.operands[1] for entry in module.entry_points}
    for mode in module.execution_modes:
        if mode.operands[0] not in entries:
            raise SpirvError(f"{mode} is of id {mode.operands[0]}, which is not an entry point")
    check_calls(module, entries)


def _sections(module: Module) -> None:
    """Checks that each instruction is in its section, and that mandatory sections are not empty."""
    for index, section in enumerate(module.sections()):
        for instruction in section:
            wanted = SECTION_OF.get(instruction.opcode, FUNCTIONS)
            anywhere = wanted == DECLARATIONS and index == FUNCTIONS and instruction.opcode not in op.DECLARED
            if instruction.opcode not in op.SHAPES:
                raise SpirvError(
                    f"{instruction}: unknown opcode; compile for an older --target-env; the file may be corrupted"
                )
            if wanted != index and not anywhere:
                raise SpirvError(f"{instruction} is out of order (SPIR-V 2.4, logical layout of a module)")
    if len(module.memory_model) != 1:
        raise SpirvError(f"{len(module.memory_model)} OpMemoryModel; a module has exactly one")
    linkage = any(capability.operands[0] == Capability.Linkage for capability in module.capabilities)
    if not module.entry_points and not linkage:
        raise SpirvError("no entry point; a shader needs one")


def _closure(capabilities: Iterable[int]) -> set[int]:
    """The capabilities, and those that they imply."""
    closure, left = set[int](), list(capabilities)
    while left:
        capability = left.pop()
        if capability not in closure:
            closure.add(capability)
            left += op.enumerants("C").get(capability, ("", ()))[1]
    return closure


class _Ids:
    """Checks definitions, uses and types of ids, in the order of the module."""

    __slots__ = ("_bound", "_decorations", "_pending", "_retired", "values")

    def __init__(self, module: Module) -> None:
        self._bound = module.bound
        self.values = Values(_closure(capability.operands[0] for capability in module.capabilities))
        self._pending: dict[int, Instruction] = {}  # id used before its definition -> first use
        self._retired: set[int] = set()  # ids defined in earlier functions
        self._decorations: list[Instruction] = []  # and names of members, before their targets

    def declare(self, instruction: Instruction) -> list[int]:
        """Checks an instruction's operands against earlier definitions, and adds its own; returns the ids it uses."""
        opcode, operands, values, defined = instruction.opcode, instruction.operands, self.values, self.values.defined
        used, letters, enumerants = operands_of(instruction, self._literal_words(instruction))
        if opcode in _EXTENDED:
            used = self._extended(instruction, used)
        for identifier, letter in zip(used, letters):  # noqa: B905  # fewer ids of debug information
            if identifier not in defined:
                self._undefined(instruction, identifier, used)
            elif identifier in self._retired:
                raise SpirvError(f"{instruction} uses id {identifier}, which is defined inside another function")
            elif letter == "i" and identifier not in values.types:
                raise SpirvError(f"{instruction} uses id {identifier} as a value; it is {defined[identifier]}")
            elif letter == "t" and not values.is_type(identifier):
                raise SpirvError(f"{instruction} uses id {identifier} as a type; it is {defined[identifier]}")
        self._capabilities(instruction, enumerants)
        index = LAYOUT[opcode][1]
        if index == 1 and self.values.definition(operands[0]).opcode not in TYPES:
            raise SpirvError(f"{instruction} has id {operands[0]} as its result type, which is not a type")
        rule = RULES.get(opcode)
        if rule is not None:
            rule(instruction, self.values)
        if index >= 0:
            self._define(instruction, operands[index])
        elif opcode in _LATER:
            self._defer(instruction)
        if index == 1 and opcode != op.OpFunction:
            values.types[operands[1]] = operands[0]
        return used

    def _capabilities(self, instruction: Instruction, enumerants: list[tuple[str, int]]) -> None:
        """Checks that enumerants are known, and that the module declares what they and the opcode require."""
        declared = self.values.capabilities
        required = [(op.requirements().get(instruction.opcode, ()), "")]
        for letter, value in enumerants:
            known, kind = op.enumerants(letter), op.ENUMERANTS[letter][0]
            required += [(known[part][1], f" with {kind} {part}") for part in parts(letter, value)]
        for needed, what in required:
            if needed and declared.isdisjoint(needed):
                names = " or ".join(enums.name(Capability, capability) for capability in needed)
                raise SpirvError(f"{instruction}{what} requires capability {names}")

    def _defer(self, instruction: Instruction) -> None:
        """Keeps an instruction for checks of later ones, or for `finish`."""
        if instruction.opcode == op.OpTypeForwardPointer:
            self.values.forward_pointers.add(instruction.operands[0])
        else:
            self._decorations.append(instruction)

    def _define(self, instruction: Instruction, identifier: int) -> None:
        if not 0 < identifier < self._bound:
            raise SpirvError(f"{instruction} defines id {identifier}; valid are 1 to {self._bound - 1}")
        if identifier in self.values.defined:
            raise SpirvError(f"{instruction} defines id {identifier} again, after {self.values.defined[identifier]}")
        self.values.defined[identifier] = instruction

    def _extended(self, instruction: Instruction, used: list[int]) -> list[int]:
        """The used ids of an extended instruction, without OpenCL debug information, whose operands may be literals."""
        name = self._set_name(instruction)
        return used if name.startswith("NonSemantic.") or "DebugInfo" not in name else used[:2]

    def _set_name(self, instruction: Instruction) -> str:
        """The name of an extended instruction's set."""
        imported = self.values.definition(instruction.operands[2])
        if imported.opcode != op.OpExtInstImport:
            raise SpirvError(f"{instruction} uses set {instruction.operands[2]}, which is not an OpExtInstImport")
        return string_at(imported.operands, 1, imported)[0]

    def _literal_words(self, instruction: Instruction) -> int:
        """Words of each literal of an OpSwitch, as many as its selector has; 1 for other instructions."""
        if instruction.opcode != op.OpSwitch:
            return 1
        kind = self.values.type_of(instruction.operands[0])
        if kind.opcode != op.OpTypeInt:
            raise SpirvError(f"{instruction} has the selector {instruction.operands[0]}, which is not an integer")
        return max(1, kind.operands[1] // 32)

    def _undefined(self, instruction: Instruction, identifier: int, used: list[int]) -> None:
        """A use before the definition: checked later if the instruction allows it, else an error."""
        forward = identifier in used[_FORWARD.get(instruction.opcode, slice(0, 0))]
        if instruction.opcode in TYPES and identifier in self.values.forward_pointers:
            forward = True
        if not forward or not 0 < identifier < self._bound:
            raise SpirvError(f"{instruction} uses id {identifier}, which is not defined before it")
        self._pending.setdefault(identifier, instruction)

    def functions(self, instructions: list[Instruction]) -> None:
        """Checks the function section: operands, scopes, signatures and blocks."""
        blocks, signatures = BlockRules(), SignatureRules(self.values)
        local: list[int] = []
        self.values.in_function = True
        for instruction in instructions:
            used = self.declare(instruction)
            if not (instruction.opcode in _EXTENDED and self._set_name(instruction).startswith("NonSemantic.")):
                blocks.step(instruction, used)
                signatures.step(instruction)
            index = LAYOUT[instruction.opcode][1]
            if index >= 0 and instruction.opcode != op.OpFunction:
                local.append(instruction.operands[index])
            elif instruction.opcode == op.OpFunctionEnd:
                self._check_phis(blocks)
                self._retired.update(local)
                local.clear()
        blocks.finish()
        signatures.finish()

    def _check_phis(self, blocks: BlockRules) -> None:
        """Checks at the end of a function that operands of its phis have the right type, and are not another's."""
        for identifier, phi in blocks.values:
            if identifier not in self.values.defined or identifier in self._retired:
                raise SpirvError(f"{phi} uses id {identifier}, which this function does not define")
            if self.values.types.get(identifier) != phi.operands[0]:
                raise SpirvError(f"{phi}: id {identifier} has another type")

    def finish(self) -> None:
        """Checks forward uses at the end of the module."""
        for identifier, user in self._pending.items():
            if identifier not in self.values.defined:
                raise SpirvError(f"{user} uses id {identifier}, which is not defined")
        for instruction in self._decorations:
            check_decoration(instruction, self.values.definition(instruction.operands[0]))
