"""Compiled shaders without what only a debugger reads: a tenth of their bytes are names of local variables."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_HEADER_WORDS = 5
# Instructions of the SPIR-V specification's section on debug information, and OpModuleProcessed.
_SOURCE_CONTINUED, _SOURCE, _SOURCE_EXTENSION, _NAME, _STRING, _LINE, _NO_LINE, _PROCESSED = 2, 3, 4, 5, 7, 8, 317, 330
_DEBUG = {_SOURCE_CONTINUED, _SOURCE, _SOURCE_EXTENSION, _STRING, _LINE, _NO_LINE, _PROCESSED}
# What a kernel's caller sees: blocks and their members, bindings, specialization constants.
_STRUCT, _VARIABLE, _FUNCTION, _SPEC_CONSTANTS = 30, 59, 54, (48, 49, 50)
_BOUND = (0, 2, 9, 12)  # storage classes UniformConstant, Uniform, PushConstant, StorageBuffer


def slim(spirv: bytes) -> bytes:
    """SPIR-V that does and declares the same, with the names of its interface and no others.

    `spirv` is a compiler's output, in the machine's byte order.
    """
    words = struct.unpack(f"={len(spirv) // 4}I", spirv)
    keep = _named_from_outside(words)
    kept = list(words[:_HEADER_WORDS])
    for opcode, start, stop in _instructions(words):
        if opcode not in _DEBUG and (opcode != _NAME or words[start + 1] in keep):
            kept += words[start:stop]
    return struct.pack(f"={len(kept)}I", *kept)


def _instructions(words: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    """(opcode, first word, last word + 1) of each instruction."""
    at = _HEADER_WORDS
    while at < len(words):
        stop = at + (words[at] >> 16)
        yield words[at] & 0xFFFF, at, stop
        at = stop


def _named_from_outside(words: tuple[int, ...]) -> set[int]:
    """The ids whose names mean something to a caller."""
    found = set()
    for opcode, start, _ in _instructions(words):
        if opcode == _FUNCTION:
            break
        if opcode == _STRUCT:
            found.add(words[start + 1])
        elif opcode in _SPEC_CONSTANTS or (opcode == _VARIABLE and words[start + 3] in _BOUND):
            found.add(words[start + 2])
    return found
