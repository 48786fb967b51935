"""A SPIR-V module as data: parsed from words into the sections of the logical layout, and back."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from vkcompute.errors import SpirvError
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.enums import MAGIC
from vkcompute.spirv.file_type import describe_non_spirv
from vkcompute.spirv.instruction import LAYOUT, Instruction

HEADER_WORDS = 5
MAX_BOUND = 4_194_303  # SPIR-V 2.16.1, universal limits: the id bound
VERSIONS = tuple((1, minor) for minor in range(7))

# Section -> its opcodes; all others belong to the last section.
_SECTIONS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("capabilities", (op.OpCapability,)),
    ("extensions", (op.OpExtension,)),
    ("imports", (op.OpExtInstImport,)),
    ("memory_model", (op.OpMemoryModel,)),
    ("entry_points", (op.OpEntryPoint,)),
    ("execution_modes", (op.OpExecutionMode, op.OpExecutionModeId)),
    ("sources", (op.OpString, op.OpSourceExtension, op.OpSource, op.OpSourceContinued)),
    ("names", (op.OpName, op.OpMemberName)),
    ("processes", (op.OpModuleProcessed,)),
    (
        "annotations",
        (
            *(op.OpDecorate, op.OpMemberDecorate, op.OpDecorationGroup, op.OpGroupDecorate, op.OpGroupMemberDecorate),
            *(op.OpDecorateId, op.OpDecorateString, op.OpMemberDecorateString),
        ),
    ),
    ("declarations", ()),
    ("functions", ()),
)
DECLARATIONS, FUNCTIONS = len(_SECTIONS) - 2, len(_SECTIONS) - 1
# Allowed among the global declarations and in functions.
_ANYWHERE = (op.OpLine, op.OpNoLine, op.OpVariable, op.OpUndef, op.OpExtInst, op.OpUntypedVariableKHR)
SECTION_OF: dict[int, int] = {
    **dict.fromkeys((*op.DECLARED, *_ANYWHERE, op.OpExtInstWithForwardRefsKHR), DECLARATIONS),
    **{opcode: index for index, (_, members) in enumerate(_SECTIONS) for opcode in members},
}


@dataclass(slots=True)
class Module:
    """One module, in the sections of the SPIR-V specification, section 2.4 "Logical Layout of a Module".

    A parsed module keeps the order of instructions: one out of order stays in the surrounding section, so that `words`
    returns the same words. `validation.validate` reports it.

    Attributes:
        version: (major, minor).
        bound: upper bound of all ids, exclusive.
        generator, schema: words of the header.
        sources, names, processes: the three debug sections (source, OpName, OpModuleProcessed).
        declarations: types, constants and global variables.
        functions: all function declarations and definitions.
    """

    version: tuple[int, int] = (1, 3)
    bound: int = 1
    generator: int = 0
    schema: int = 0
    capabilities: list[Instruction] = field(default_factory=list)
    extensions: list[Instruction] = field(default_factory=list)
    imports: list[Instruction] = field(default_factory=list)
    memory_model: list[Instruction] = field(default_factory=list)
    entry_points: list[Instruction] = field(default_factory=list)
    execution_modes: list[Instruction] = field(default_factory=list)
    sources: list[Instruction] = field(default_factory=list)
    names: list[Instruction] = field(default_factory=list)
    processes: list[Instruction] = field(default_factory=list)
    annotations: list[Instruction] = field(default_factory=list)
    declarations: list[Instruction] = field(default_factory=list)
    functions: list[Instruction] = field(default_factory=list)

    @classmethod
    def parse(cls, data: bytes | bytearray | memoryview | npt.NDArray[np.uint32]) -> Module:
        """Parses a module of either byte order.

        Raises:
            TypeError: not bytes-like.
            SpirvError: empty, not SPIR-V, truncated, an unknown version, an instruction with too few operands, or a
                result id that is 0 or outside the bound.
        """
        words = _words(data)
        version, generator, bound, schema = _header(words)
        module = cls(version, bound, generator, schema)
        _fill(module.sections(), words, bound)
        return module

    def sections(self) -> tuple[list[Instruction], ...]:
        """The sections in order, not copied."""
        return tuple(getattr(self, name) for name, _ in _SECTIONS)

    def __iter__(self) -> Iterator[Instruction]:
        for section in self.sections():
            yield from section

    def words(self) -> bytes:
        """The module as words in the machine's byte order, as vkCreateShaderModule requires."""
        major, minor = self.version
        words = [MAGIC, major << 16 | minor << 8, self.generator, self.bound, self.schema]
        for instruction in self:
            words.append((len(instruction.operands) + 1) << 16 | instruction.opcode)
            words.extend(instruction.operands)
        return np.array(words, dtype=np.uint32).tobytes()


def scan(spirv: bytes, opcodes: Container[int]) -> Iterator[Instruction]:
    """Yields the instructions with these opcodes. A valid module is scanned in a fifth of the time of parsing it.

    Args:
        spirv: in the machine's byte order.
    """
    words = np.frombuffer(spirv, np.uint32).tolist()
    position, end = HEADER_WORDS, len(words)
    while position < end:
        first = words[position]
        stop = position + (first >> 16)
        if first & 0xFFFF in opcodes:
            yield Instruction(first & 0xFFFF, tuple(words[position + 1 : stop]), position)
        position = stop


def _words(data: bytes | bytearray | memoryview | npt.NDArray[np.uint32]) -> list[int]:
    """`data` as words, in the byte order that its magic number implies."""
    if isinstance(data, np.ndarray) and data.dtype != np.uint32:
        raise SpirvError(f"SPIR-V words are uint32; got an array of {data.dtype}; pass bytes or .view(numpy.uint32)")
    raw = np.ascontiguousarray(data).tobytes() if isinstance(data, np.ndarray) else memoryview(data).tobytes()
    orders = {MAGIC.to_bytes(4, "little"): "<u4", MAGIC.to_bytes(4, "big"): ">u4"}
    order = orders.get(raw[:4])
    if order is None:
        raise SpirvError(describe_non_spirv(raw))
    if len(raw) % 4 or len(raw) < 4 * HEADER_WORDS:
        raise SpirvError(
            f"truncated: {len(raw)} bytes; SPIR-V is words of 4 bytes, at least {HEADER_WORDS} of them for the header; "
            "read the whole file in binary mode"
        )
    words: list[int] = np.frombuffer(raw, dtype=order).tolist()
    return words


def _header(words: list[int]) -> tuple[tuple[int, int], int, int, int]:
    """Version, generator, bound and schema."""
    _, version_word, generator, bound, schema = words[:HEADER_WORDS]
    version = (version_word >> 16 & 0xFF, version_word >> 8 & 0xFF)
    if version not in VERSIONS or version_word & 0xFF0000FF:
        raise SpirvError(
            f"version word {version_word:#010x} is not one of SPIR-V {VERSIONS[0][0]}.{VERSIONS[0][1]} to "
            f"{VERSIONS[-1][0]}.{VERSIONS[-1][1]}; compile for an older --target-env"
        )
    if not 0 < bound <= MAX_BOUND:
        raise SpirvError(f"id bound is {bound}; SPIR-V allows 1 to {MAX_BOUND}; the file is corrupted")
    return version, generator, bound, schema


def _fill(sections: tuple[list[Instruction], ...], words: list[int], bound: int) -> None:
    """Splits `words` into instructions and adds each to its section."""
    position, end, current = HEADER_WORDS, len(words), 0
    section = sections[0]
    while position < end:
        first = words[position]
        opcode, stop = first & 0xFFFF, position + (first >> 16)
        if not position < stop <= end:
            raise SpirvError(_truncated(opcode, position, first >> 16, end))
        operands = tuple(words[position + 1 : stop])
        least, result = LAYOUT.get(opcode, (0, -1))
        if len(operands) < least:
            raise SpirvError(
                f"{op.name(opcode)} at word {position} has {len(operands)} operand words; it needs at least {least}"
            )
        if result >= 0 and not 0 < operands[result] < bound:
            raise SpirvError(
                f"{op.name(opcode)} at word {position} defines id {operands[result]}; valid are 1 to {bound - 1}"
            )
        wanted = SECTION_OF.get(opcode, FUNCTIONS)
        if wanted > current:
            current, section = wanted, sections[wanted]
        section.append(Instruction(opcode, operands, position))
        position = stop


def _truncated(opcode: int, position: int, count: int, end: int) -> str:
    if not count:
        return f"the instruction at word {position} has a word count of 0; the file is corrupted"
    return (
        f"truncated: {op.name(opcode)} at word {position} has {count} words, but {end - position} are left; "
        "read the whole file"
    )
