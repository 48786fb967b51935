"""Validation: malformed and valid modules, and the requirements that a device does not meet."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest
from spirv_khronos import assemble, compile_source, optimise, spirv_tool
from spirv_sources import SOURCES

from vkcompute.errors import SpirvError
from vkcompute.spirv.capabilities import missing_features
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.interface import Interface
from vkcompute.spirv.module import Module
from vkcompute.spirv.reflection import reflect
from vkcompute.spirv.validation import validate

pytestmark = pytest.mark.pure


def test_the_corpus_passes_plain_and_optimised(corpus: dict[str, bytes]) -> None:
    for name, data in corpus.items():
        validate(Module.parse(data))
        validate(Module.parse(optimise(data, f"--target-env={name.split()[1]}", "-O")))


@pytest.mark.parametrize("name", ["calls", "control", "spec", "texels"])
@pytest.mark.parametrize("debug", ["-g", "-gVS"])
def test_debug_information_passes(name: str, debug: str) -> None:
    data = compile_source(SOURCES[name], "--target-env", "vulkan1.3", debug)
    validate(Module.parse(data))
    validate(Module.parse(optimise(data, "-O")))


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
    validate(Module.parse(data))


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
        "OpEntryPoint .* which is not a function",
    ),
    "an entry point that is nowhere": (
        PROLOGUE.replace("GLCompute %main", "GLCompute %gone") + TYPES + HEAD + END,
        "is not defined",
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
    "a name of nothing": (PROLOGUE + 'OpName %gone "x"\n' + TYPES + HEAD + END, "is not defined"),
    "a value for a result type": (PROLOGUE + TYPES + HEAD + "%x = OpIAdd %c1 %c1 %c1\n" + END, "which is not a type"),
    "a load from a value": (PROLOGUE + TYPES + HEAD + "%x = OpLoad %uint %c1\n" + END, "OpLoad .* needs a pointer"),
    "a store to a value": (PROLOGUE + TYPES + HEAD + "OpStore %c1 %c1\n" + END, "OpStore .* needs a pointer"),
    "a variable of no pointer type": (
        PROLOGUE + TYPES + HEAD + "%x = OpVariable %uint Function\n" + END,
        "type is not a pointer",
    ),
    "a branch to nowhere": (PROLOGUE + TYPES + HEAD + "OpBranch %gone\nOpFunctionEnd\n", "not defined|not a label"),
    "a branch to a value": (PROLOGUE + TYPES + HEAD + "OpBranch %c1\nOpFunctionEnd\n", "OpBranch .* not a label"),
    "a branch into another function": (
        PROLOGUE + TYPES + HEAD + END + OTHER + "OpBranch %entry\nOpFunctionEnd\n",
        "another function|not a label",
    ),
    "a forward branch into another function": (
        PROLOGUE + TYPES + HEAD + "OpBranch %o\nOpFunctionEnd\n" + OTHER + END,
        "not a label of its function",
    ),
    "a switch to a value": (
        PROLOGUE + TYPES + HEAD + "OpSelectionMerge %m None\nOpSwitch %c1 %m 7 %c1\n%m = OpLabel\n" + END,
        "OpSwitch .* not a label",
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
    "a vector of vectors": (
        PROLOGUE + TYPES + "%v = OpTypeVector %uint 4\n%w = OpTypeVector %v 2\n" + HEAD + END,
        "OpTypeVector .*a vector of 2 of OpTypeVector",
    ),
    "a structure of values": (PROLOGUE + TYPES + "%s = OpTypeStruct %c1\n" + HEAD + END, "OpTypeStruct .* as a type"),
    "an array as long as a type": (
        PROLOGUE + TYPES + "%s = OpTypeArray %uint %bool\n" + HEAD + END,
        "OpTypeArray .* as a value",
    ),
    "an array of none": (
        PROLOGUE + TYPES + "%z = OpConstant %uint 0\n%s = OpTypeArray %uint %z\n" + HEAD + END,
        "the length is 0",
    ),
    "a function of a type that is none": (
        PROLOGUE + TYPES + HEAD + END + OTHER.replace("%fn", "%uint") + END,
        "OpFunction .* not a function type",
    ),
    "a parameter too many": (
        PROLOGUE + TYPES + HEAD + END + OTHER.replace("%o =", "%x = OpFunctionParameter %uint\n%o =") + END,
        "OpFunctionParameter .* does not match the type",
    ),
    "a parameter of another type": (
        PROLOGUE
        + TYPES
        + "%fn1 = OpTypeFunction %void %uint\n"
        + HEAD
        + END
        + "%other = OpFunction %void None %fn1\n%x = OpFunctionParameter %bool\n%o = OpLabel\n"
        + END,
        "OpFunctionParameter .* does not match the type",
    ),
    "a call with too many arguments": (
        PROLOGUE + TYPES + HEAD + "%x = OpFunctionCall %void %other %c1\n" + END + OTHER + END,
        "OpFunctionCall .* does not match",
    ),
    "a call of a type": (
        PROLOGUE + TYPES + HEAD + "%x = OpFunctionCall %void %uint\n" + END,
        "which is not a function",
    ),
    "a value returned from void": (PROLOGUE + TYPES + HEAD + "OpReturnValue %c1\nOpFunctionEnd\n", "another type"),
    "an entry point that returns something": (
        PROLOGUE
        + TYPES
        + "%fn1 = OpTypeFunction %uint\n"
        + HEAD.replace("%void None %fn", "%uint None %fn1")
        + "OpReturnValue %c1\nOpFunctionEnd\n",
        "has parameters or a result",
    ),
    "a load of another type": (
        PROLOGUE + TYPES + HEAD + "%v = OpVariable %local Function\n%x = OpLoad %bool %v\n" + END,
        "OpLoad .* does not have the pointee type",
    ),
    "a store of another type": (
        PROLOGUE + TYPES + HEAD + "%v = OpVariable %local Function\nOpStore %v %true\n" + END,
        "OpStore .* does not have the pointee type",
    ),
    "a member that there is not": (
        PROLOGUE
        + TYPES
        + "%s = OpTypeStruct %uint\n%ps = OpTypePointer Function %s\n"
        + HEAD
        + "%v = OpVariable %ps Function\n%x = OpAccessChain %local %v %c1\n"
        + END,
        "indexes member 1 of OpTypeStruct",
    ),
    "a member that there is not, extracted": (
        PROLOGUE
        + TYPES
        + "%s = OpTypeStruct %uint\n%k = OpConstantComposite %s %c1\n"
        + HEAD
        + "%x = OpCompositeExtract %uint %k 1\n"
        + END,
        "indexes member 1 of OpTypeStruct",
    ),
    "a decoration of a member that there is not": (
        PROLOGUE + "OpMemberDecorate %s 3 Offset 0\n" + TYPES + "%s = OpTypeStruct %uint\n" + HEAD + END,
        "member 3 of OpTypeStruct",
    ),
    "a branch on a number": (
        PROLOGUE
        + TYPES
        + HEAD
        + "OpSelectionMerge %m None\nOpBranchConditional %c1 %n %m\n%n = OpLabel\nOpBranch %m\n%m = OpLabel\n"
        + END,
        "which is not a bool",
    ),
    "a switch on a bool": (
        PROLOGUE + TYPES + HEAD + "OpSelectionMerge %m None\nOpSwitch %true %m\n%m = OpLabel\n" + END,
        "which is not an integer",
    ),
    "a phi of another type": (
        PROLOGUE + TYPES + HEAD + "OpBranch %m\n%m = OpLabel\n%x = OpPhi %uint %true %entry\n" + END,
        "has another type",
    ),
    "a phi from what is no block": (
        PROLOGUE + TYPES + HEAD + "OpBranch %m\n%m = OpLabel\n%x = OpPhi %uint %c1 %c1\n" + END,
        "OpPhi .* not a label",
    ),
    "a sum of a number and a bool": (PROLOGUE + TYPES + HEAD + "%x = OpIAdd %uint %c1 %true\n" + END, "does not fit"),
    "a decoration of no variable": (
        PROLOGUE + "OpDecorate %uint Binding 0\n" + TYPES + HEAD + END,
        "decorates OpTypeInt",
    ),
    "a block that is no structure": (PROLOGUE + "OpDecorate %uint Block\n" + TYPES + HEAD + END, "decorates OpTypeInt"),
    "a built-in type": (
        PROLOGUE + "OpDecorate %uint BuiltIn NumWorkgroups\n" + TYPES + HEAD + END,
        "decorates OpTypeInt",
    ),
    "an execution mode of no entry point": (
        PROLOGUE.replace("OpExecutionMode %main", "OpExecutionMode %other") + TYPES + HEAD + END + OTHER + END,
        "not an entry point",
    ),
    "an interface of a constant": (
        PROLOGUE.replace('"main"', '"main" %c1') + TYPES + HEAD + END,
        "which is not a variable",
    ),
    "a recursion": (
        PROLOGUE
        + TYPES
        + HEAD
        + "%x = OpFunctionCall %void %other\n"
        + END
        + OTHER
        + "%y = OpFunctionCall %void %other\n"
        + END,
        "part of a recursion",
    ),
    "a call of the entry point": (
        PROLOGUE + TYPES + HEAD + END + OTHER + "%y = OpFunctionCall %void %main\n" + END,
        "calls an entry point",
    ),
    "a type without its capability": (
        PROLOGUE + TYPES + "%long = OpTypeInt 64 0\n" + HEAD + END,
        "require capability Int64",
    ),
    "a function without an end": (PROLOGUE + TYPES + HEAD + "OpReturn\n", "the module ends between blocks"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_malformed_is_refused(name: str) -> None:
    text, message = MALFORMED[name]
    data = assemble(text)
    assert spirv_tool("spirv-val", data, "--target-env", "vulkan1.1").returncode != 0
    with pytest.raises(SpirvError, match=message):
        validate(Module.parse(data))


MORE_TYPES = (
    TYPES
    + """
%int = OpTypeInt 32 1
%float = OpTypeFloat 32
%f1 = OpConstant %float 1
%vec2 = OpTypeVector %float 2
%vec4 = OpTypeVector %float 4
%uvec2 = OpTypeVector %uint 2
%mat2 = OpTypeMatrix %vec2 2
%v2 = OpConstantComposite %vec2 %f1 %f1
%v4 = OpConstantComposite %vec4 %f1 %f1 %f1 %f1
%u2 = OpConstantComposite %uvec2 %c1 %c1
%m2 = OpConstantComposite %mat2 %v2 %v2
%many = OpTypeRuntimeArray %uint
%block = OpTypeStruct %uint %many
%buffer = OpTypePointer Uniform %block
%data = OpVariable %buffer Uniform
%flocal = OpTypePointer Function %float
%c99 = OpConstant %uint 99
%pair = OpTypeStruct %uint %uint
"""
)
IMPORTED = PROLOGUE.replace("OpMemoryModel", '%std = OpExtInstImport "GLSL.std.450"\nOpMemoryModel')
# Instructions in the body of a function, each of which spirv-val refuses as well.
WRONG_OPERANDS = {
    "a type for a value": ("%x = OpIAdd %uint %uint %c1", "OpIAdd .* as a value"),
    "a label for a value": ("%x = OpIAdd %uint %entry %c1", "OpIAdd .* as a value"),
    "a function for a value": ("%x = OpCopyObject %uint %main", "OpCopyObject .* as a value"),
    "a length of a member that is no array": ("%x = OpArrayLength %uint %data 0", "not the last"),
    "a length of a member that there is not": ("%x = OpArrayLength %uint %data 2", "not the last"),
    "a length as a float": ("%x = OpArrayLength %float %data 1", "not a 32-bit integer"),
    "a copy of memory from a value": (
        "%v = OpVariable %local Function\nOpCopyMemory %v %c1",
        "OpCopyMemory .* needs a pointer",
    ),
    "a copy of memory of another type": (
        "%v = OpVariable %local Function\n%w = OpVariable %flocal Function\nOpCopyMemory %v %w",
        "different pointee types",
    ),
    "bits of another width": ("%x = OpBitcast %uvec2 %c1", "operand and result have"),
    "bits of a bool": ("%x = OpBitcast %uint %true", "neither numbers"),
    "a shift of a float": ("%x = OpShiftLeftLogical %uint %f1 %c1", "does not fit"),
    "a shift to another length": ("%x = OpShiftRightLogical %uvec2 %c1 %c1", "does not fit"),
    "a shift to a bool": ("%x = OpShiftRightArithmetic %bool %c1 %c1", "its result has OpTypeBool"),
    "a root of an integer": ("%x = OpExtInst %uint %std Sqrt %c1", "its result has OpTypeInt"),
    "a root of another length": ("%x = OpExtInst %float %std Sqrt %v2", "does not fit"),
    "a minimum of another type": ("%x = OpExtInst %float %std FMin %f1 %c1", "does not fit"),
    "a packing of two floats": ("%x = OpExtInst %uint %std PackUnorm4x8 %v2", "does not fit"),
    "a comparison that gives a number": ("%x = OpULessThan %uint %c1 %c1", "its result has OpTypeInt"),
    "a conversion to another length": ("%x = OpConvertFToU %uvec2 %f1", "does not fit"),
    "a product of matrices that do not fit": ("%x = OpMatrixTimesVector %vec2 %m2 %v4", "fitting sizes"),
    "a dot product of scalars": ("%x = OpDot %float %f1 %f1", "does not fit"),
    "a vector of too few parts": ("%x = OpCompositeConstruct %vec4 %v2 %f1", "3 components"),
    "a structure of other parts": ("%x = OpCompositeConstruct %pair %c1 %f1", "constituents do not have"),
    "a carry of floats": ("%x = OpIAddCarry %pair %f1 %f1", "first member"),
    "a carry in a number": ("%x = OpIAddCarry %uint %c1 %c1", "not a structure of two"),
    "a choice by a number": ("%x = OpSelect %uint %c1 %c1 %c1", "neither a bool"),
    "a barrier of no scope": ("OpControlBarrier %c99 %c1 %c1", "does not fit"),
    "an atomic of another type": ("%x = OpAtomicIAdd %int %data %c1 %c1 %c1", "does not fit"),
    "a derivative of an integer": ("%x = OpDPdx %uint %c1", "its result has OpTypeInt"),
    "an instruction of OpenCL": ("%x = OpLessOrGreater %bool %f1 %f1", "requires capability Kernel"),
    "a global variable in a function": ("%x = OpVariable %buffer Uniform", "storage class Function"),
}


@pytest.mark.parametrize("name", WRONG_OPERANDS)
def test_operands_of_wrong_kinds_are_refused(name: str) -> None:
    line, message = WRONG_OPERANDS[name]
    data = assemble(IMPORTED + MORE_TYPES + HEAD + line + "\n" + END)
    assert spirv_tool("spirv-val", data, "--target-env", "spv1.3").returncode != 0
    with pytest.raises(SpirvError, match=message):
        validate(Module.parse(data))


def test_the_operands_of_a_large_module_pass() -> None:
    data = assemble(IMPORTED + MORE_TYPES + HEAD + "%x = OpArrayLength %uint %data 1\n" + END)
    assert spirv_tool("spirv-val", data, "--target-env", "spv1.3").returncode == 0
    validate(Module.parse(data))


LOOP = """OpBranch %h
%h = OpLabel
OpLoopMerge %m %c None
OpBranchConditional %true %b %m
%b = OpLabel
%x = OpIAdd %uint %c1 %c1
OpBranch %c
%c = OpLabel
OpBranch %h
%m = OpLabel
"""
# Control flow: what to replace in LOOP, by what, and the message. spirv-val refuses each.
WRONG_FLOW = {
    "a branch to the first block": ("OpBranch %h\n%m", "OpBranch %entry\n%m", "first block of its function"),
    "a branch back to a block that is no header": ("OpBranch %c\n", "OpBranch %b\n", "branches back to block"),
    "a use that its definition does not dominate": (
        "%m = OpLabel\n",
        "%m = OpLabel\n%y = OpNot %uint %x\n",
        "dominate",
    ),
    "a phi of too few blocks": ("%m = OpLabel\n", "%m = OpLabel\n%y = OpPhi %uint %c1 %b\n", "predecessors are"),
    "a phi after another instruction": (
        "%m = OpLabel\n",
        "%m = OpLabel\n%z = OpNot %uint %c1\n%y = OpPhi %uint %c1 %h\n",
        "not at the start of its block",
    ),
    "a phi of a value that does not dominate": (
        "%m = OpLabel\n",
        "%m = OpLabel\n%y = OpPhi %uint %x %h\n",
        "does not dominate",
    ),
    "a loop without a way back": ("OpBranch %h\n%m", "OpBranch %m\n%m", "0 blocks branch back"),
    "a loop whose merge block is its header": ("OpLoopMerge %m", "OpLoopMerge %h", "merge block"),
    "a loop that continues where it ends": ("OpLoopMerge %m %c", "OpLoopMerge %m %m", "continue target"),
    "a selection that is left by a branch into its loop": (
        "%x = OpIAdd %uint %c1 %c1\nOpBranch %c",
        """OpSelectionMerge %s None
        OpBranchConditional %true %t %s
        %t = OpLabel
        OpBranch %u
        %s = OpLabel
        OpBranch %u
        %u = OpLabel
        OpBranch %c""",
        "enters the construct",
    ),
}


def test_a_loop_passes() -> None:
    data = assemble(PROLOGUE + TYPES + HEAD + LOOP + END)
    assert spirv_tool("spirv-val", data, "--target-env", "vulkan1.1").returncode == 0
    validate(Module.parse(data))


@pytest.mark.parametrize("name", WRONG_FLOW)
def test_control_flow_that_is_not_structured_is_refused(name: str) -> None:
    old, new, message = WRONG_FLOW[name]
    assert LOOP.count(old) == 1
    data = assemble(PROLOGUE + TYPES + HEAD + LOOP.replace(old, new) + END)
    assert spirv_tool("spirv-val", data, "--target-env", "vulkan1.1").returncode != 0
    with pytest.raises(SpirvError, match=message):
        validate(Module.parse(data))


def test_many_selections_in_a_row_and_in_each_other_are_checked_in_linear_time() -> None:
    n = 1000
    row = "".join(
        f"OpSelectionMerge %m{k} None\nOpBranchConditional %true %t{k} %m{k}\n"
        f"%t{k} = OpLabel\nOpBranch %m{k}\n%m{k} = OpLabel\n"
        for k in range(n)
    )
    nest = "".join(
        f"OpSelectionMerge %a{k} None\nOpBranchConditional %true %b{k} %a{k}\n%b{k} = OpLabel\n" for k in range(n)
    ) + "".join(f"OpBranch %a{k}\n%a{k} = OpLabel\n" for k in reversed(range(n)))
    module = Module.parse(assemble(PROLOGUE + TYPES + HEAD + row + nest + END))
    start = time.process_time()
    validate(module)
    assert time.process_time() - start < 3  # 0.2 s; a quadratic check takes minutes


def damaged(change: Callable[[Module], None], text: str = PROLOGUE + TYPES + HEAD + END) -> Module:
    """A valid module after `change`, for what no assembler writes."""
    module = Module.parse(assemble(text))
    change(module)
    return Module.parse(module.words())


def place(section: list[Instruction], wanted: int) -> int:
    """Index of the first instruction of an opcode."""
    return next(k for k, instruction in enumerate(section) if instruction.opcode == wanted)


def swap(section: list[Instruction], wanted: int, **changes: object) -> None:
    """Replace fields of the first instruction of an opcode."""
    at = place(section, wanted)
    section[at] = section[at]._replace(**changes)  # type: ignore[arg-type]


def test_an_unknown_opcode_is_refused_with_its_place() -> None:
    module = damaged(lambda m: m.functions.insert(2, Instruction(60_000, (1, 2))))
    offset = module.functions[2].offset
    with pytest.raises(SpirvError, match=rf"opcode 60000 at word {offset}: unknown opcode"):
        validate(module)


UNKNOWN = {
    "storage class": ("declarations", 32, (999,), 1, "StorageClass 999"),
    "memory model": ("memory_model", 14, (0, 999), 0, "MemoryModel 999"),
    "addressing model": ("memory_model", 14, (999, 1), 0, "AddressingModel 999"),
    "function control": ("functions", 54, (1 << 20,), 2, "FunctionControl 1048576"),
    "execution mode": ("execution_modes", 16, (999,), 1, "ExecutionMode 999"),
    "signedness": ("declarations", 21, (7,), 2, "signedness 7"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_enumerants_are_refused(name: str) -> None:
    section, opcode, words, at, message = UNKNOWN[name]

    def change(module: Module) -> None:
        instructions = getattr(module, section)
        operands = list(instructions[place(instructions, opcode)].operands)
        operands[at : at + len(words)] = words
        swap(instructions, opcode, operands=tuple(operands))

    with pytest.raises(SpirvError, match=message):
        validate(damaged(change))


def test_an_id_defined_twice_is_refused() -> None:
    module = damaged(lambda m: m.declarations.append(m.declarations[0]))
    with pytest.raises(SpirvError, match=r"OpTypeVoid at word \d+ defines id \d+ again, after OpTypeVoid at word \d+"):
        validate(module)


@pytest.mark.parametrize(
    ("operands", "message"),
    [((1, 2, 3), "OpTypeBool .* has 3 operand words; it takes 1")],
)
def test_operands_left_over_are_refused(operands: tuple[int, ...], message: str) -> None:
    with pytest.raises(SpirvError, match=message):
        validate(damaged(lambda m: swap(m.declarations, 20, operands=operands)))


def test_operands_that_are_missing_are_refused() -> None:
    module = Module.parse(assemble(PROLOGUE + TYPES + HEAD + END))
    swap(module.declarations, 21, operands=(1, 32))  # built, not parsed: parsing would reject it
    with pytest.raises(SpirvError, match=r"OpTypeInt .* it needs at least 3"):
        validate(module)


def test_an_extended_instruction_of_no_set_is_refused() -> None:
    module = Module.parse(assemble(PROLOGUE + TYPES + HEAD + "%x = OpIAdd %uint %c1 %c1\n" + END))
    kind, result, one, _ = module.functions[place(module.functions, 128)].operands
    swap(module.functions, 128, opcode=12, operands=(kind, result, one, 1))
    with pytest.raises(SpirvError, match="not an OpExtInstImport"):
        validate(module)


def test_a_set_of_no_known_name_is_refused() -> None:
    text = (
        PROLOGUE.replace("OpMemoryModel", '%std = OpExtInstImport "GLSL.std.450"\nOpMemoryModel') + TYPES + HEAD + END
    )
    module = Module.parse(assemble(text))
    validate(module)
    swap(module.imports, 11, operands=(module.imports[0].operands[0], 0x58585858, 0))
    with pytest.raises(SpirvError, match="'XXXX' is not a known instruction set"):
        validate(module)


def test_a_constant_of_too_few_words_is_refused() -> None:
    text = PROLOGUE.replace("Shader\n", "Shader\nOpCapability Int64\n", 1) + TYPES
    text += "%long = OpTypeInt 64 0\n%big = OpConstant %long 5000000000\n"
    validate(Module.parse(assemble(text + HEAD + END)))
    module = Module.parse(assemble(text + HEAD + END))
    at = len(module.declarations) - 1
    module.declarations[at] = module.declarations[at]._replace(operands=module.declarations[at].operands[:3])
    with pytest.raises(SpirvError, match="1 literal words"):
        validate(module)


def test_a_switch_of_64_bits_has_literals_of_two_words() -> None:
    text = PROLOGUE.replace("Shader\n", "Shader\nOpCapability Int64\n", 1) + TYPES
    text += "%long = OpTypeInt 64 0\n%big = OpConstant %long 5000000000\n" + HEAD
    text += "OpSelectionMerge %m None\nOpSwitch %big %m 5000000000 %n 7 %m\n%n = OpLabel\nOpBranch %m\n%m = OpLabel\n"
    data = assemble(text + END)
    assert spirv_tool("spirv-val", data, "--target-env", "vulkan1.1").returncode == 0
    validate(Module.parse(data))


def test_dead_ends_and_forward_references_that_are_allowed_pass() -> None:
    text = PROLOGUE + TYPES + HEAD + "%x = OpFunctionCall %void %other\nOpBranch %last\n%last = OpLabel\n" + END
    text += OTHER + "OpUnreachable\nOpFunctionEnd\n"
    data = assemble(text)
    assert spirv_tool("spirv-val", data, "--target-env", "vulkan1.1").returncode == 0
    validate(Module.parse(data))


EVERYTHING = {
    *("shaderFloat64", "shaderInt64", "shaderInt16", "shaderInt8", "storagePushConstant16", "storagePushConstant8"),
    *("storageBuffer16BitAccess", "storageBuffer8BitAccess", "shaderBufferFloat32AtomicAdd", "shaderFloat16"),
    *("subgroup.basic", "subgroup.arithmetic", "subgroup.ballot", "subgroup.shuffle", "subgroup.clustered"),
    *("uniformAndStorageBuffer8BitAccess", "uniformAndStorageBuffer16BitAccess"),
    *("runtimeDescriptorArray", "shaderStorageBufferArrayNonUniformIndexing", "bufferDeviceAddress"),
}


def test_nothing_is_missing_where_everything_is_there(corpus: dict[str, bytes]) -> None:
    for name, data in corpus.items():
        interface = reflect(Module.parse(data))
        assert missing_features(interface, EVERYTHING, {"VK_EXT_shader_atomic_float"}, (1, 3)) == [], name


def test_what_is_missing_is_said_in_words(glsl: Callable[..., bytes]) -> None:
    def missing(name: str, features: set[str], extensions: set[str], version: tuple[int, int], env: str) -> list[str]:
        interface = reflect(Module.parse(glsl(name, "--target-env", env)))
        return missing_features(interface, features, extensions, version)

    assert missing(
        "spec", {"shaderInt64", "shaderInt16", "shaderInt8", "shaderFloat16"}, set(), (1, 1), "vulkan1.1"
    ) == ["capability Float64 needs the feature shaderFloat64"]
    assert missing("subgroups", {"subgroup.basic"}, set(), (1, 1), "vulkan1.1") == [
        "capability GroupNonUniformArithmetic needs the subgroup operation arithmetic",
        "capability GroupNonUniformBallot needs the subgroup operation ballot",
        "capability GroupNonUniformShuffle needs the subgroup operation shuffle",
        "capability GroupNonUniformClustered needs the subgroup operation clustered",
    ]
    assert missing("atomics", set(), set(), (1, 1), "vulkan1.1") == [
        "capability AtomicFloat32AddEXT needs "
        + " or ".join(f"the feature shader{memory}Float32AtomicAdd" for memory in ("Buffer", "Shared", "Image")),
        "SPIR-V extension SPV_EXT_shader_atomic_float_add needs the extension VK_EXT_shader_atomic_float",
    ]
    assert missing("multiply", set(), set(), (1, 2), "vulkan1.3") == [
        "SPIR-V 1.6 is newer than 1.5, the newest of Vulkan 1.2; compile with --target-env vulkan1.2"
    ]
    assert missing("multiply", set(), set(), (1, 0), "vulkan1.1") == [
        "SPIR-V 1.3 is newer than 1.0, the newest of Vulkan 1.0; compile with --target-env vulkan1.0"
    ]
    assert missing("narrow", EVERYTHING, set(), (1, 1), "vulkan1.1") == [
        "SPIR-V extension SPV_KHR_8bit_storage needs Vulkan 1.2 or the extension VK_KHR_8bit_storage"
    ]
    assert missing("narrow", EVERYTHING, {"VK_KHR_8bit_storage"}, (1, 1), "vulkan1.1") == []


def declaring(*, version: tuple[int, int] = (1, 3), capabilities: Sequence[int] = ()) -> Interface:
    """The interface of a module with this version and these capabilities."""
    module = Module.parse(assemble(PROLOGUE + TYPES + HEAD + END))
    module.version = version
    module.capabilities = [Instruction(17, (number,)) for number in capabilities]
    return reflect(module)


@pytest.mark.parametrize(
    ("vulkan", "newest"), [((1, 0), 0), ((1, 1), 3), ((1, 2), 5), ((1, 3), 6), ((1, 4), 6), ((1, 9), 6)]
)
def test_each_vulkan_takes_spirv_up_to_its_own(vulkan: tuple[int, int], newest: int) -> None:
    for minor in range(7):
        said = missing_features(declaring(version=(1, minor)), (), (), vulkan)
        assert (said == []) == (minor <= newest), said
    assert missing_features(declaring(version=(1, 4)), (), {"VK_KHR_spirv_1_4"}, (1, 1)) == []


def test_capabilities_that_no_device_has_are_told_from_unknown_ones() -> None:
    assert missing_features(declaring(capabilities=(6, 9999)), (), (), (1, 3)) == [
        "capability Kernel belongs to OpenCL; no Vulkan device has it",
        "capability Capability 9999 is unknown to vkcompute, so no device counts as having it",
    ]
