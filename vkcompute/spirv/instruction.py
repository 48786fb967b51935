"""Instructions: opcode, operand words, and the positions of ids among them."""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Sequence
from typing import NamedTuple

from vkcompute.errors import SpirvError
from vkcompute.spirv import opcodes


class Instruction(NamedTuple):
    """One instruction of a module.

    Attributes:
        opcode: a number; `opcodes.name` gives its name.
        operands: the words after the first, including result type and result id.
        offset: index of the first word in the parsed module; 0 for a new instruction.
    """

    opcode: int
    operands: tuple[int, ...]
    offset: int = 0

    def __str__(self) -> str:
        return f"{opcodes.name(self.opcode)} at word {self.offset}"


class _Plan(NamedTuple):
    """A shape, split into mandatory one-word operands and the rest."""

    lead: int  # number of mandatory operands of one word each, at the start
    ids: tuple[int, ...]  # positions of used ids among them
    letters: str  # their letters
    enumerants: tuple[tuple[int, str], ...]  # (position, letter) of enumerants among them
    tail: tuple[tuple[str, str], ...]  # (letter, quantifier) of the rest


_LONGER = "sNOpPQDXMIL"  # operands that may have several words


@functools.cache
def _tokens(shape: str) -> tuple[tuple[str, str], ...]:
    return tuple(re.findall(r"([A-Za-z])([?*]?)", shape))


@functools.cache
def _plan(shape: str) -> _Plan:
    tokens = _tokens(shape)
    lead = 0
    while lead < len(tokens) and tokens[lead][0] not in _LONGER and not tokens[lead][1]:
        lead += 1
    ids = tuple(k for k in range(lead) if tokens[k][0] in "Titg")
    enumerants = tuple((k, tokens[k][0]) for k in range(lead) if tokens[k][0] in opcodes.ENUMERANTS)
    return _Plan(lead, ids, "".join(tokens[k][0] for k in ids), enumerants, tokens[lead:])


_PLANS: dict[int, _Plan] = {opcode: _plan(shape) for opcode, shape in opcodes.SHAPES.items()}
# Opcode -> (least number of operands, position of the result id or -1).
LAYOUT: dict[int, tuple[int, int]] = {
    opcode: (_PLANS[opcode].lead, 1 if shape[:2] == "TR" else 0 if shape[:1] == "R" else -1)
    for opcode, shape in opcodes.SHAPES.items()
}
_MORE = (_tokens("i*"), _tokens("t*"), _tokens("g*"))
_PAIRS = {"p": _tokens("ig"), "P": _tokens("g"), "Q": _tokens("gn")}


class Operands(NamedTuple):
    """The operands of one instruction by kind.

    Attributes:
        ids: those that it uses, its result type first, without its own result id.
        letters: of the ids: T result type, t type, i value, g other.
        enumerants: (letter of the kind, value).
    """

    ids: list[int]
    letters: str
    enumerants: list[tuple[str, int]]


def result_id(instruction: Instruction) -> int | None:
    """The id that `instruction` defines, if any."""
    index = LAYOUT.get(instruction.opcode, (0, -1))[1]
    return instruction.operands[index] if index >= 0 else None


@functools.cache
def value_positions(opcode: int, n: int) -> tuple[int, ...]:
    """The positions of ids of values among `n` operands, up to the first operand whose meaning depends on others."""
    positions: list[int] = []
    for at, (letter, quantifier) in enumerate(_tokens(opcodes.SHAPES.get(opcode, ""))):
        if letter in "ip" and quantifier == "*":
            return (*positions, *range(at, n, 1 if letter == "i" else 2))
        if letter not in "TRitgn" or quantifier or at >= n:
            break
        positions += [at] * (letter == "i")
    return tuple(positions)


def string_words(text: str) -> tuple[int, ...]:
    """A literal string: UTF-8 with a terminating zero byte, in words of little-endian byte order."""
    data = text.encode() + b"\0"
    data += bytes(-len(data) % 4)
    return struct.unpack(f"<{len(data) // 4}I", data)


def string_at(operands: Sequence[int], start: int, where: object = "string") -> tuple[str, int]:
    """The literal string from `operands[start]` on, and the position of the next operand.

    Bytes that are not UTF-8 become U+FFFD: a bad name is no reason to reject a module.

    Raises:
        SpirvError: it has no terminating NUL byte.
    """
    words = operands[start:]
    text, end, _ = struct.pack(f"<{len(words)}I", *words).partition(b"\0")
    if not end:
        raise SpirvError(f"{where}: a string runs to the end of the instruction without a terminating NUL byte")
    return text.decode("utf-8", "replace"), start + len(text) // 4 + 1


def used_ids(instruction: Instruction) -> list[int]:
    """The ids that `instruction` uses, its result type first, without its own result id.

    Raises:
        SpirvError: as `operands_of`.
    """
    return operands_of(instruction).ids


def operands_of(instruction: Instruction, literal_words: int = 1) -> Operands:
    """The ids and enumerants among the operands of `instruction`.

    Args:
        instruction: of a known opcode.
        literal_words: words of each literal of an OpSwitch; 2 for a 64-bit selector.

    Raises:
        SpirvError: unknown opcode or enumerant, too few or too many operands.
    """
    plan, operands = _PLANS.get(instruction.opcode), instruction.operands
    if plan is None:
        raise SpirvError(
            f"{instruction}: opcode {instruction.opcode} is unknown to vkcompute; compile for an older --target-env"
        )
    lead, positions, letters, enumerants, tail = plan
    if len(operands) < lead:
        raise SpirvError(f"{instruction} has {len(operands)} operand words; it needs at least {lead}")
    parsed = Operands([operands[k] for k in positions], letters, [(letter, operands[k]) for k, letter in enumerants])
    if len(operands) == lead and all(quantifier for _, quantifier in tail):
        return parsed
    if not tail:
        raise SpirvError(f"{instruction} has {len(operands)} operand words; it takes {lead}")
    if tail in _MORE:
        letter = tail[0][0]
        return Operands([*parsed.ids, *operands[lead:]], letters + letter * (len(operands) - lead), parsed.enumerants)
    reader = _Reader(instruction, lead, literal_words, parsed)
    reader.tokens(tail)
    reader.finish()
    return Operands(parsed.ids, letters + reader.letters, parsed.enumerants)


class _Reader:
    """Reads operands whose number or meaning depends on earlier ones."""

    __slots__ = ("_at", "_found", "_instruction", "_literal_words", "letters")

    def __init__(self, instruction: Instruction, start: int, literal_words: int, parsed: Operands) -> None:
        self._instruction, self._at, self._literal_words, self._found = instruction, start, literal_words, parsed
        self.letters = ""

    def _left(self) -> int:
        return len(self._instruction.operands) - self._at

    def tokens(self, tokens: tuple[tuple[str, str], ...]) -> None:
        for letter, quantifier in tokens:
            if quantifier == "*":
                while self._left() > 0:
                    self._one(letter)
            elif quantifier != "?" or self._left() > 0:
                self._one(letter)

    def finish(self) -> None:
        if self._left() > 0:
            raise SpirvError(f"{self._instruction} has {self._left()} operand words too many")

    def _next(self) -> int:
        if self._left() <= 0:
            raise SpirvError(f"{self._instruction} ends within its operands")
        self._at += 1
        return self._instruction.operands[self._at - 1]

    def _one(self, letter: str) -> None:
        if letter in "itg":
            self._found.ids.append(self._next())
            self.letters += letter
        elif letter in opcodes.ENUMERANTS:
            self._enumerant(letter, self._next())
        elif letter == "s":
            self._at = string_at(self._instruction.operands, self._at, self._instruction)[1]
        elif letter in _PAIRS:
            for _ in range(self._literal_words if letter == "P" else 0):
                self._next()
            self.tokens(_PAIRS[letter])
        elif letter == "O":
            self._nested(self._next())
        else:
            self._next()
            if letter == "N":
                self._at = len(self._instruction.operands)

    def _enumerant(self, letter: str, value: int) -> None:
        self._found.enumerants.append((letter, value))
        if letter in _LONGER or letter == "b":
            for part in parts(letter, value):
                self.tokens(_tokens(opcodes.enumerants(letter)[part][0]))

    def _nested(self, opcode: int) -> None:
        shape = opcodes.SHAPES.get(opcode, "")
        if not shape.startswith("TR"):
            raise SpirvError(f"{self._instruction}: {opcodes.name(opcode)} is not allowed in OpSpecConstantOp")
        self.tokens(_tokens(shape[2:]))


def parts(letter: str, value: int) -> list[int]:
    """The bits of a mask, ascending; another enumerant itself.

    Raises:
        SpirvError: unknown.
    """
    known = opcodes.enumerants(letter)
    bits = [1 << bit for bit in range(32) if value >> bit & 1] if letter in opcodes.MASKS else [value]
    for part in bits:
        if part not in known:
            raise SpirvError(
                f"{opcodes.ENUMERANTS[letter][0]} {value} is unknown to vkcompute; the file may be corrupted; "
                "or compile for an older --target-env"
            )
    return bits
