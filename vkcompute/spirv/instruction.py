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
    tail: tuple[tuple[str, str], ...]  # (letter, quantifier) of the rest


@functools.cache
def _tokens(shape: str) -> tuple[tuple[str, str], ...]:
    return tuple(re.findall(r"([A-Za-z])([?*]?)", shape))


@functools.cache
def _plan(shape: str) -> _Plan:
    tokens = _tokens(shape)
    lead = 0
    while lead < len(tokens) and tokens[lead][0] in "TRin" and not tokens[lead][1]:
        lead += 1
    ids = tuple(k for k in range(lead) if tokens[k][0] in "Ti")
    return _Plan(lead, ids, tokens[lead:])


_PLANS: dict[int, _Plan] = {opcode: _plan(shape) for opcode, shape in opcodes.SHAPES.items()}
# Opcode -> (least number of operands, position of the result id or -1).
LAYOUT: dict[int, tuple[int, int]] = {
    opcode: (_PLANS[opcode].lead, 1 if shape[:2] == "TR" else 0 if shape[:1] == "R" else -1)
    for opcode, shape in opcodes.SHAPES.items()
}
_ENUMERANTS = {
    "D": opcodes.DECORATION_OPERANDS,
    "X": opcodes.EXECUTION_MODE_OPERANDS,
    "M": opcodes.MEMORY_ACCESS_OPERANDS,
    "I": opcodes.IMAGE_OPERANDS_OPERANDS,
    "L": opcodes.LOOP_CONTROL_OPERANDS,
}
_MORE_IDS = _tokens("i*")
_PAIRS = {"p": _tokens("ii"), "Q": _tokens("in")}


def result_id(instruction: Instruction) -> int | None:
    """The id that `instruction` defines, if any."""
    index = LAYOUT.get(instruction.opcode, (0, -1))[1]
    return instruction.operands[index] if index >= 0 else None


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


def used_ids(instruction: Instruction, literal_words: int = 1) -> list[int]:
    """The ids that `instruction` uses, its result type first, without its own result id.

    Args:
        instruction: of a known opcode.
        literal_words: words of each literal of an OpSwitch; 2 for a 64-bit selector.

    Raises:
        SpirvError: unknown opcode, too few or too many operands.
    """
    operands = instruction.operands
    return [operands[k] for k in _id_positions(instruction, literal_words)]


def _id_positions(instruction: Instruction, literal_words: int) -> Sequence[int]:
    """The positions of the operands that `used_ids` returns."""
    plan, operands = _PLANS.get(instruction.opcode), instruction.operands
    if plan is None:
        raise SpirvError(
            f"{instruction}: opcode {instruction.opcode} is unknown to vkcompute; compile for an older --target-env"
        )
    lead, positions, tail = plan
    if len(operands) < lead:
        raise SpirvError(f"{instruction} has {len(operands)} operand words; it needs at least {lead}")
    if tail == _MORE_IDS:
        return [*positions, *range(lead, len(operands))]
    if tail:
        reader = _Reader(instruction, lead, literal_words)
        reader.tokens(tail)
        reader.finish()
        return [*positions, *reader.ids]
    if len(operands) > lead:
        raise SpirvError(f"{instruction} has {len(operands)} operand words; it takes {lead}")
    return positions


class _Reader:
    """Reads operands whose number or meaning depends on earlier ones."""

    __slots__ = ("_at", "_instruction", "_lenient", "_literal_words", "ids")

    def __init__(self, instruction: Instruction, start: int, literal_words: int) -> None:
        self._instruction, self._at, self._literal_words = instruction, start, literal_words
        self._lenient = False  # after an unknown enumerant, whose operands are unknown too
        self.ids: list[int] = []  # positions

    def _left(self) -> int:
        return 0 if self._lenient else len(self._instruction.operands) - self._at

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

    def _id(self) -> None:
        self._next()
        self.ids.append(self._at - 1)

    def _one(self, letter: str) -> None:
        if self._lenient:
            return
        if letter in _ENUMERANTS:
            self._enumerant(letter, self._next())
        elif letter in _PAIRS:
            self.tokens(_PAIRS[letter])
        elif letter == "i":
            self._id()
        elif letter == "s":
            self._at = string_at(self._instruction.operands, self._at, self._instruction)[1]
        elif letter == "P":
            for _ in range(self._literal_words):
                self._next()
            self._id()
        elif letter == "O":
            self._nested(self._next())
        else:
            self._next()
            if letter == "N":
                self._at = len(self._instruction.operands)

    def _enumerant(self, letter: str, value: int) -> None:
        table = _ENUMERANTS[letter]
        is_mask = letter in "MIL"
        parts = [1 << bit for bit in range(32) if value >> bit & 1] if is_mask else [value]
        for part in parts:
            shape = table.get(part)
            if shape is None:
                self._lenient = True
                return
            self.tokens(_tokens(shape))

    def _nested(self, opcode: int) -> None:
        shape = opcodes.SHAPES.get(opcode, "")
        if not shape.startswith("TR"):
            raise SpirvError(f"{self._instruction}: {opcodes.name(opcode)} is not allowed in OpSpecConstantOp")
        self.tokens(_tokens(shape[2:]))
