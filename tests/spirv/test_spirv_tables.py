"""The generated tables against spirv-headers' other rendering of the same facts, where that package is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vkcompute.spirv import enums, glsl_std_450, opcodes
from vkcompute.spirv.capabilities import CAPABILITIES, EXTENSIONS

pytestmark = pytest.mark.pure

HEADERS = Path("/usr/include/spirv/unified1")
GENERATOR = Path(__file__).resolve().parents[2] / "tools" / "generate_spirv_tables.py"
REVISION = (1, 6, 1)


@pytest.fixture(scope="module")
def kinds() -> dict[str, dict[str, int]]:
    """Kind -> enumerant -> value, as spirv.json has them; opcodes are the kind "Op"."""
    path = HEADERS / "spirv.json"
    if not path.exists():
        pytest.skip("spirv-headers is not installed; the committed tables cannot be checked without it")
    spirv: dict[str, Any] = json.loads(path.read_text())["spv"]
    return {kind["Name"]: kind["Values"] for kind in spirv["enum"]}


def test_the_tables_are_what_the_generator_writes() -> None:
    path = HEADERS / "spirv.core.grammar.json"
    if not path.exists():
        pytest.skip("spirv-headers is not installed; the committed tables cannot be checked without it")
    grammar = json.loads(path.read_text())
    if (grammar["major_version"], grammar["minor_version"], grammar["revision"]) != REVISION:
        pytest.skip("another revision of the grammar than the tables were made from")
    done = subprocess.run([sys.executable, str(GENERATOR), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_opcodes_have_their_numbers(kinds: dict[str, dict[str, int]]) -> None:
    results = {name: opcode for opcode, name in opcodes.names().items()}
    assert len(results) > 340
    known = {name: value for name, value in results.items() if name in kinds["Op"]}
    assert known == {name: kinds["Op"][name] for name in known}
    assert len(results) - len(known) < 40  # what is younger than the headers
    assert set(kinds["Op"].values()) <= opcodes.SHAPES.keys()


def test_enumerants_have_their_values(kinds: dict[str, dict[str, int]]) -> None:
    for name, kind in vars(enums).items():
        if not isinstance(kind, type) or name.startswith("_"):
            continue
        listed = kinds[name]
        is_mask = name in ("MemorySemantics", "SelectionControl", "LoopControl", "FunctionControl")
        for value, key in enums.names(kind).items():
            official = key.removeprefix("Dim") if name == "Dim" else key
            if official in listed:  # of a mask, spirv.json lists the number of the bit
                assert value == (1 << listed[official] if is_mask else listed[official]), (name, key)


def test_every_capability_with_a_requirement_has_a_number(kinds: dict[str, dict[str, int]]) -> None:
    assert len(CAPABILITIES) > 120
    assert CAPABILITIES.keys() <= set(enums.names(enums.Capability).values())
    assert len(CAPABILITIES.keys() - kinds["Capability"].keys()) < 30  # younger than the headers


def test_instructions_of_glsl_std_450() -> None:
    assert (glsl_std_450.Round, glsl_std_450.Sqrt, glsl_std_450.NClamp) == (1, 31, 81)


def test_names_are_found_again() -> None:
    assert enums.name(enums.Dim, enums.Dim.Buffer) == "Buffer"
    assert enums.name(enums.Dim, 77) == "Dim 77"


def test_every_row_of_the_requirements_is_spelt_like_vulkan() -> None:
    for requirement in [*CAPABILITIES.values(), *EXTENSIONS.values()]:
        for word in filter(None, requirement.split("|")):
            version = word in ("OpenCL", "1.1", "1.2", "1.3", "1.4")
            assert version or word.startswith(("VK_", "subgroup.")) or word[0].islower(), word
    assert all(name.startswith("SPV_") for name in EXTENSIONS)
