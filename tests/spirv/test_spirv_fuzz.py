"""Damaged modules: nothing but SpirvError comes of them, nothing hangs, and what spirv-val takes is taken here too."""

from __future__ import annotations

import contextlib
import re
import struct
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from spirv_khronos import compile_source, spirv_tool
from spirv_sources import SOURCES

from vkcompute.errors import SpirvError
from vkcompute.spirv.capabilities import missing_features
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.module import Module
from vkcompute.spirv.reflection import reflect
from vkcompute.spirv.validation import validate

pytestmark = pytest.mark.pure

NAMES = st.sampled_from(sorted(SOURCES))
SLOW_S = 2.0  # a module of 4 kB takes about 1 ms; this is for what is not linear
MANY = settings(max_examples=max(100, settings().max_examples), suppress_health_check=[HealthCheck.too_slow])


def words_of(name: str) -> list[int]:
    return np.frombuffer(compile_source(SOURCES[name], "--target-env", "vulkan1.3"), np.uint32).tolist()


def packed(words: list[int]) -> bytes:
    return struct.pack(f"={len(words)}I", *words)


# Rules of the specification that spirv-val 2023.1 does not check.
STRICTER = re.compile(
    r"constituents do not have|neither numbers nor an address|OpGroupNonUniform(Shuffle|Quad)|OpSpecConstantOp .*Op"
)


def accepted(data: bytes) -> bool:
    """True if parsing and validation accept `data`; runs reflection and all else on it, too."""
    return not refusal(data)


def refusal(data: bytes) -> str:
    """The error of parsing or validation, or ""."""
    start = time.thread_time()
    try:
        module = Module.parse(data)
    except SpirvError as error:
        return str(error)
    assert module.words() == data
    with contextlib.suppress(SpirvError):
        interface = reflect(module)
        assert all(isinstance(feature, str) for feature in missing_features(interface, (), (), (1, 1)))
        block = interface.push_constants
        assert block is None or block.dtype.itemsize == block.nbytes
    try:
        validate(module)
    except SpirvError as error:
        return str(error)
    finally:
        assert time.thread_time() - start < SLOW_S
    return ""


@MANY
@given(NAMES, st.data())
def test_changed_words(name: str, data: st.DataObject) -> None:
    words = words_of(name)
    known = st.sampled_from(words) | st.integers(0, words[3] + 2) | st.integers(0, 2**32 - 1)
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, len(words) - 1), known), min_size=1, max_size=4)):
        words[at] = value
    accepted(packed(words))


@MANY
@given(NAMES, st.data())
def test_changed_bytes(name: str, data: st.DataObject) -> None:
    raw = bytearray(packed(words_of(name)))
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=4)):
        raw[at] = value
    accepted(bytes(raw[: data.draw(st.integers(0, len(raw)) | st.just(len(raw)))]))


@MANY
@given(st.binary(max_size=200))
@example(b"\x03\x02\x23\x07")
def test_anything_behind_a_valid_header(data: bytes) -> None:
    accepted(struct.pack("=5I", 0x07230203, 0x00010300, 0, 100, 0) + data)


def instructions(words: list[int]) -> list[list[int]]:
    result, at = [], 5
    while at < len(words):
        result.append(words[at : at + (words[at] >> 16)])
        at += words[at] >> 16
    return result


@st.composite
def shuffled(draw: st.DrawFn) -> bytes:
    """A module with whole instructions dropped, doubled or moved, or operands replaced by others of the module."""
    words = words_of(draw(NAMES))
    parts = instructions(words)
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(parts) - 1))
        kind = draw(st.sampled_from(["drop", "double", "move", "operand"]))
        if kind == "operand" and len(parts[at]) > 1:
            part = list(parts[at])
            part[draw(st.integers(1, len(part) - 1))] = draw(st.sampled_from(words) | st.integers(1, words[3] - 1))
            parts[at] = part
        else:
            part = parts[at] if kind == "double" else parts.pop(at)
            if kind != "drop":
                parts.insert(draw(st.integers(0, len(parts))), part)
    return packed(words[:5] + [word for part in parts for word in part])


@MANY
@given(shuffled())
def test_what_spirv_val_accepts_is_accepted(data: bytes) -> None:
    error = refusal(data)
    if error and not STRICTER.search(error):
        for environment in ("vulkan1.3", "spv1.6"):
            said = spirv_tool("spirv-val", data, "--target-env", environment)
            assert said.returncode != 0, (environment, error)


def nested(depth: int) -> list[Instruction]:
    """Structures that hold the one before twice: 2**depth scalars, and a variable of the last."""
    results = [Instruction(21, (1, 32, 0))]
    results += [Instruction(30, (2 + k, 1 + k, 1 + k)) for k in range(depth)]
    pointer, variable = depth + 2, depth + 3
    return [*results, Instruction(32, (pointer, 9, depth + 1)), Instruction(59, (pointer, variable, 9))]


@pytest.mark.parametrize("depth", [40, 300])
def test_structures_that_double_at_every_level_are_refused_at_once(depth: int) -> None:
    module = Module.parse(compile_source(SOURCES["nothing"], "--target-env", "vulkan1.1"))
    module.bound = 10_000
    base = 5_000
    declarations = nested(depth)
    for instruction in declarations:
        ids = tuple(word + base if word and instruction.opcode == 30 else word for word in instruction.operands)
        if instruction.opcode == 21:
            ids = (base + 1, 32, 0)
        elif instruction.opcode == 32:
            ids = (base + instruction.operands[0], 9, base + instruction.operands[2])
        elif instruction.opcode == 59:
            ids = (base + instruction.operands[0], base + instruction.operands[1], 9)
        module.declarations.append(Instruction(instruction.opcode, ids))
        if instruction.opcode == 30:
            module.annotations += [Instruction(72, (ids[0], member, 35, 0)) for member in (0, 1)]
    start = time.thread_time()
    with pytest.raises(SpirvError, match=r"members|nests deeper"):
        reflect(module)
    assert time.thread_time() - start < SLOW_S


def test_a_type_that_contains_itself_is_refused() -> None:
    module = Module.parse(compile_source(SOURCES["push"], "--target-env", "vulkan1.1"))
    at = max(
        k
        for k, instruction in enumerate(module.declarations)
        if instruction.opcode == 30 and len(instruction.operands) > 5
    )
    structure = module.declarations[at].operands
    module.declarations[at] = Instruction(30, (structure[0], structure[0], *structure[2:]))
    with pytest.raises(SpirvError, match="contains itself"):
        reflect(module)


def test_chains_of_pointers_are_followed_in_linear_time() -> None:
    """20,000 copies of one pointer, and then a store through the last."""
    module = Module.parse(compile_source(SOURCES["control"], "--target-env", "vulkan1.1"))
    chain = next(k for k, instruction in enumerate(module.functions) if instruction.opcode == 65)
    kind, first = module.functions[chain].operands[:2]
    base, count = module.bound, 20_000
    module.bound += count + 1
    copies = [Instruction(83, (kind, base + k, base + k - 1 if k else first)) for k in range(count)]
    module.functions[chain + 1 : chain + 1] = copies
    start = time.thread_time()
    assert reflect(module).bindings[0].writes
    validate(module)
    assert time.thread_time() - start < SLOW_S
