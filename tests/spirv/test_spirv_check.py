"""What is refused before a driver sees it, what is not, and what a device is said to lack."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from spirv_khronos import assemble, compile_source, optimise, spirv_tool
from spirv_sources import SOURCES

from vkcompute.errors import SpirvError
from vkcompute.spirv import enums
from vkcompute.spirv.check import check, missing_features
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.module import Module
from vkcompute.spirv.reflect import reflect

pytestmark = pytest.mark.pure


def test_the_corpus_passes_plain_and_optimised(corpus: dict[str, bytes]) -> None:
    for name, data in corpus.items():
        check(Module.parse(data))
        check(Module.parse(optimise(data, f"--target-env={name.split()[1]}", "-O")))


@pytest.mark.parametrize("name", ["calls", "control", "spec", "texels"])
@pytest.mark.parametrize("debug", ["-g", "-gVS"])
def test_debug_information_passes(name: str, debug: str) -> None:
    data = compile_source(SOURCES[name], "--target-env", "vulkan1.3", debug)
    check(Module.parse(data))
    check(Module.parse(optimise(data, "-O")))


PROLOGUE = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main"
OpExecutionMode %main LocalSize 1 1 1
"""
TYPES = """
%void = OpTypeVoid
%fn = OpTypeFunction %void
%bool = OpTypeBool
%true = OpConstantTrue %bool
%uint = OpTypeInt 32 0
%c1 = OpConstant %uint 1
%local = OpTypePointer Function %uint
"""
HEAD = "%main = OpFunction %void None %fn\n%entry = OpLabel\n"
END = "OpReturn\nOpFunctionEnd\n"
OTHER = "%other = OpFunction %void None %fn\n%o = OpLabel\n"


def test_the_smallest_module_passes() -> None:
    data = assemble(PROLOGUE + TYPES + HEAD + END)
    assert spirv_tool("spirv-val", data, "--target-env", "vulkan1.1").returncode == 0
    check(Module.parse(data))


# Each is what spirv-val refuses as well.
MALFORMED = {
    "a capability after the memory model": (
        PROLOGUE + "OpCapability Int64\n" + TYPES + HEAD + END,
        "OpCapability at word .* is out of order",
    ),
    "a type inside a function": (PROLOGUE + TYPES + HEAD + "%t = OpTypeInt 64 0\n" + END, "OpTypeInt .* out of order"),
    "a name after the decorations": (
        PROLOGUE + 'OpDecorate %c1 RelaxedPrecision\nOpName %c1 "x"\n' + TYPES + HEAD + END,
        "OpName .* out of order",
    ),
    "no memory model": (
        PROLOGUE.replace("OpMemoryModel Logical GLSL450\n", "") + TYPES + HEAD + END,
        "0 OpMemoryModel",
    ),
    "two memory models": (
        PROLOGUE.replace("OpMemoryModel", "OpMemoryModel Logical GLSL450\nOpMemoryModel") + TYPES + HEAD + END,
        "2 OpMemoryModel",
    ),
    "no entry point": ("\n".join(PROLOGUE.splitlines()[:3]) + TYPES + HEAD + END, "no entry point"),
    "an entry point that is a type": (
        PROLOGUE.replace("%main", "%void") + TYPES + HEAD + END,
        "OpEntryPoint .* which is no function",
    ),
    "an entry point that is nowhere": (
        PROLOGUE.replace("GLCompute %main", "GLCompute %gone") + TYPES + HEAD + END,
        "defined nowhere",
    ),
    "a type used before its definition": (
        PROLOGUE + "%vec = OpTypeVector %uint 4\n" + TYPES + HEAD + END,
        "OpTypeVector .* which is not defined before it",
    ),
    "a value used before its definition": (
        PROLOGUE + TYPES + HEAD + "%y = OpIAdd %uint %x %c1\n%x = OpIAdd %uint %c1 %c1\n" + END,
        "OpIAdd .* which is not defined before it",
    ),
    "a value of another function": (
        PROLOGUE + TYPES + HEAD + "%x = OpIAdd %uint %c1 %c1\n" + END + OTHER + "%y = OpIAdd %uint %x %c1\n" + END,
        "inside another function",
    ),
    "a name of nothing": (PROLOGUE + 'OpName %gone "x"\n' + TYPES + HEAD + END, "defined nowhere"),
    "a value for a result type": (PROLOGUE + TYPES + HEAD + "%x = OpIAdd %c1 %c1 %c1\n" + END, "which is no type"),
    "a load from a value": (PROLOGUE + TYPES + HEAD + "%x = OpLoad %uint %c1\n" + END, "OpLoad .* wants a pointer"),
    "a store to a value": (PROLOGUE + TYPES + HEAD + "OpStore %c1 %c1\n" + END, "OpStore .* wants a pointer"),
    "a variable of no pointer type": (
        PROLOGUE + TYPES + HEAD + "%x = OpVariable %uint Function\n" + END,
        "type is not a pointer",
    ),
    "an extended instruction of no set": (
        PROLOGUE + TYPES + HEAD + "%x = OpIAdd %uint %c1 %c1\n" + END,
        "no OpExtInstImport",
    ),
    "a branch to nowhere": (PROLOGUE + TYPES + HEAD + "OpBranch %gone\nOpFunctionEnd\n", "nowhere|no label"),
    "a branch to a value": (PROLOGUE + TYPES + HEAD + "OpBranch %c1\nOpFunctionEnd\n", "OpBranch .* no label"),
    "a branch into another function": (
        PROLOGUE + TYPES + HEAD + END + OTHER + "OpBranch %entry\nOpFunctionEnd\n",
        "another function|no label",
    ),
    "a forward branch into another function": (
        PROLOGUE + TYPES + HEAD + "OpBranch %o\nOpFunctionEnd\n" + OTHER + END,
        "no label of its function",
    ),
    "a switch to a value": (
        PROLOGUE + TYPES + HEAD + "OpSelectionMerge %m None\nOpSwitch %c1 %m 7 %c1\n%m = OpLabel\n" + END,
        "OpSwitch .* no label",
    ),
    "a merge without a branch": (
        PROLOGUE + TYPES + HEAD + "OpSelectionMerge %m None\nOpReturn\n%m = OpLabel\n" + END,
        "follows OpSelectionMerge",
    ),
    "a block without a terminator": (PROLOGUE + TYPES + HEAD + "OpFunctionEnd\n", "OpFunctionEnd .* in a block"),
    "a block within a block": (PROLOGUE + TYPES + HEAD + "%x = OpLabel\n" + END, "OpLabel .* in a block"),
    "an instruction after a terminator": (
        PROLOGUE + TYPES + HEAD + "OpReturn\n%x = OpIAdd %uint %c1 %c1\nOpFunctionEnd\n",
        "OpIAdd .* between blocks",
    ),
    "a function within a function": (
        PROLOGUE + TYPES + HEAD + "%x = OpFunction %void None %fn\n" + END,
        "OpFunction .* in a block",
    ),
    "an instruction outside of functions": (PROLOGUE + TYPES + HEAD + END + "OpReturn\n", "outside of any function"),
    "a parameter in a block": (PROLOGUE + TYPES + HEAD + "%x = OpFunctionParameter %uint\n" + END, "in a block"),
    "a function without an end": (PROLOGUE + TYPES + HEAD + "OpReturn\n", "the module ends between blocks"),
}


@pytest.mark.parametrize("name", [name for name in MALFORMED if name != "an extended instruction of no set"])
def test_what_is_malformed_is_refused(name: str) -> None:
    text, message = MALFORMED[name]
    data = assemble(text)
    assert spirv_tool("spirv-val", data, "--target-env", "vulkan1.1").returncode != 0
    with pytest.raises(SpirvError, match=message):
        check(Module.parse(data))
