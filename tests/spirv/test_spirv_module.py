"""Words to sections and back: every corpus module, both byte orders, and what is no module at all."""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spirv_khronos import disassemble
from spirv_sources import SOURCES

from vkcompute.errors import SpirvError
from vkcompute.spirv import opcodes
from vkcompute.spirv.instruction import string_at
from vkcompute.spirv.module import Module, scan

pytestmark = pytest.mark.pure

MAGIC = 0x07230203


def module(*words: int, version: int = 0x00010300, bound: int = 10) -> bytes:
    """A module of these instruction words behind a valid header."""
    return struct.pack(f"={5 + len(words)}I", MAGIC, version, 0, bound, 0, *words)


@pytest.mark.rotates
def test_words_give_the_parsed_bytes_back(corpus: dict[str, bytes]) -> None:
    for name, data in corpus.items():
        assert Module.parse(data).words() == data, name


def test_the_other_byte_order_gives_the_same_module(corpus: dict[str, bytes]) -> None:
    for name, data in corpus.items():
        swapped = np.frombuffer(data, np.uint32).byteswap().tobytes()
        assert Module.parse(swapped).words() == data, name


def test_a_scan_finds_the_instructions_that_a_parsed_module_has(corpus: dict[str, bytes]) -> None:
    for name, data in corpus.items():
        parsed = [*Module.parse(data)]
        assert [*scan(data, range(1 << 16))] == parsed, name
        for opcode in (opcodes.OpLabel, opcodes.OpExtInst, opcodes.OpConstant):
            assert [*scan(data, (opcode,))] == [
                instruction for instruction in parsed if instruction.opcode == opcode
            ], name


def test_every_kind_of_buffer_is_taken(glsl: Callable[..., bytes]) -> None:
    data = glsl("multiply")
    words = np.frombuffer(data, np.uint32)
    spread = np.zeros((len(words), 2), np.uint32)
    spread[:, 0] = words
    for same in (bytearray(data), memoryview(data), words, spread[:, 0], memoryview(words)):
        assert Module.parse(same).words() == data


@pytest.mark.parametrize("wrong", ["#version 450", 5, None, [1, 2]])
def test_what_is_no_buffer_is_a_type_error(wrong: object) -> None:
    with pytest.raises(TypeError):
        Module.parse(wrong)  # type: ignore[arg-type]


def test_an_array_of_another_type_is_refused() -> None:
    with pytest.raises(SpirvError, match=r"uint32; got an array of float64"):
        Module.parse(np.zeros(8))  # type: ignore[arg-type]


def test_instructions_are_those_that_spirv_dis_lists(corpus: dict[str, bytes]) -> None:
    known: dict[int, str] = {}  # of those that have a number only here, what spirv-dis calls them
    for name, data in corpus.items():
        text = disassemble(data, "--no-header", "--no-indent", "--raw-id")
        listed = [re.sub(r"^%\S+ = ", "", line).split()[0] for line in re.sub(r'"[^"]*"', '""', text).splitlines()]
        results = [instruction.opcode for instruction in Module.parse(data)]
        for opcode, wanted in zip(results, listed, strict=True):
            own = opcodes.name(opcode)
            assert (own if own.startswith("Op") else known.setdefault(opcode, wanted)) == wanted, name
    assert len({*known.values()}) == len(known)


def test_sections_hold_what_they_are_named_for(glsl: Callable[..., bytes]) -> None:
    parsed = Module.parse(glsl("spec", "--target-env", "vulkan1.1", "-g"))
    opcodes_of = {
        field.name: {opcodes.name(instruction.opcode) for instruction in getattr(parsed, field.name)}
        for field in fields(Module)
        if field.name not in ("version", "bound", "generator", "schema")
    }
    assert opcodes_of["capabilities"] == {"OpCapability"}
    assert opcodes_of["imports"] == {"OpExtInstImport"}
    assert opcodes_of["memory_model"] == {"OpMemoryModel"}
    assert opcodes_of["entry_points"] == {"OpEntryPoint"}
    assert opcodes_of["execution_modes"] == {"OpExecutionMode"}
    assert opcodes_of["sources"] == {"OpString", "OpSource", "OpSourceExtension"}
    assert opcodes_of["names"] == {"OpName", "OpMemberName"}
    assert opcodes_of["processes"] == {"OpModuleProcessed"}
    assert opcodes_of["annotations"] == {"OpDecorate", "OpMemberDecorate"}
    assert {"OpTypeVoid", "OpSpecConstant", "OpVariable", "OpLine"} <= opcodes_of["declarations"] | {"OpLine"}
    assert {"OpFunction", "OpLabel", "OpFunctionEnd"} <= opcodes_of["functions"]
    sections = [field.name for field in fields(Module)][4:]
    assert [id(getattr(parsed, name)) for name in sections] == [id(section) for section in parsed.sections()]


def test_offsets_point_at_the_instruction(glsl: Callable[..., bytes]) -> None:
    data = glsl("control")
    words = np.frombuffer(data, np.uint32)
    for instruction in Module.parse(data):
        assert words[instruction.offset] == (len(instruction.operands) + 1) << 16 | instruction.opcode


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"#version 450\nlayout(local_size_x=1) in;\nvoid main() {}\n", r"GLSL source; compile it with vc\.glsl"),
        (b"void main() { gl_Position = vec4(0); }", r"GLSL source"),
        (SOURCES["multiply"].encode(), r"GLSL source"),
        (b"\x7fELF\x02\x01\x01" + b"\0" * 40, "ELF"),
        (b'{"shader": "multiply"}', "JSON"),
        (b"  [1, 2, 3]", "JSON"),
        (b"; SPIR-V\n; Version: 1.3\n", r"SPIR-V assembly; assemble it with spirv-as"),
        (b"               OpCapability Shader\n", r"SPIR-V assembly"),
        (b"@compute @workgroup_size(64)\nfn main() {}", "WGSL"),
        (b"[numthreads(64, 1, 1)]\nvoid main() {}", "HLSL"),
        (b"__kernel void f(__global float *x) {}", "OpenCL C"),
        (b'extern "C" __global__ void f(float *x) {}', "CUDA"),
        (b"DXBC" + b"\x01" * 32, "DirectX"),
        (b"\0asm\1\0\0\0", "WebAssembly"),
        (b"PK\x03\x04....", "ZIP"),
        (b"\x1f\x8b\x08\0\0", "gzip"),
        (b"<!DOCTYPE html><html>", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (b"hello, world", r"text, b'hello, world'"),
        (b"\x01\x02\x03\x04\x05", "first word is 0x04030201"),
        (b"\x03\x02", "first word is 0x0203"),
    ],
)
def test_what_is_no_spirv_is_called_by_its_name(data: bytes, message: str) -> None:
    with pytest.raises(SpirvError, match=message):
        Module.parse(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (module()[:-1], "truncated: 19 bytes"),
        (module()[:-4], "truncated: 16 bytes"),
        (module() + b"\0", "truncated: 21 bytes"),
        (module(version=0x00010700), "version word 0x00010700"),
        (module(version=0x00020000), "version word"),
        (module(version=0x01010300), "version word"),
        (module(version=0x00010301), "version word"),
        (module(bound=0), "id bound is 0"),
        (module(bound=4_194_304), "1 to 4194303"),
        (module(0x00000011), "word count of 0"),
        (module(2 << 16 | 17), "truncated: OpCapability at word 5 has 2 words, but 1 are left"),
        (module(2 << 16 | 17, 1, 0xFFFF << 16 | 1), "has 65535 words"),
        (module(2 << 16 | 19, 10), r"OpTypeVoid at word 5 defines id 10; valid are 1 to 9"),
        (module(2 << 16 | 19, 0), "defines id 0"),
        (module(1 << 16 | 19), "OpTypeVoid at word 5 has 0 operand words; it needs at least 1"),
    ],
)
def test_a_damaged_file_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(SpirvError, match=message):
        Module.parse(data)


def test_the_largest_bound_and_every_version_are_taken() -> None:
    assert Module.parse(module(bound=4_194_303)).bound == 4_194_303
    for minor in range(7):
        assert Module.parse(module(version=0x00010000 | minor << 8)).version == (1, minor)


def test_every_cut_of_a_module_parses_or_is_refused(glsl: Callable[..., bytes]) -> None:
    data = glsl("multiply")
    for end in range(len(data)):
        with contextlib.suppress(SpirvError):
            assert Module.parse(data[:end]).words() == data[:end]


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), st.integers(0, 3))
def test_strings_survive_the_way_through_words(text: str, before: int) -> None:
    data = text.encode()
    data += bytes(4 - len(data) % 4)
    words = (7,) * before + struct.unpack(f"<{len(data) // 4}I", data)
    assert string_at((*words, 99), before) == (text, len(words))


def test_a_string_without_an_end_is_refused() -> None:
    with pytest.raises(SpirvError, match="terminating NUL"):
        string_at((0x41414141,), 0)


def test_opcodes_are_those_of_the_khronos_assembler(corpus: dict[str, bytes]) -> None:
    """Names and shapes are generated; spirv-dis reads the same words by its own tables."""
    assert opcodes.name(61) == "OpLoad"
    assert opcodes.name(5699) == "opcode 5699"
    assert opcodes.SHAPES[opcodes.OpLoad] == "TRiM?"
    assert len({*opcodes.names().values()}) == len(opcodes.names())
    assert opcodes.names().keys() <= opcodes.SHAPES.keys()
