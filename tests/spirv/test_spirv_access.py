"""Pointers followed through what GLSL never writes but other compilers do; hand-written modules with known access."""

from __future__ import annotations

import pytest
from spirv_khronos import assemble, spirv_tool

from vkcompute.spirv.module import Module
from vkcompute.spirv.reflection import reflect

pytestmark = pytest.mark.pure

# Three buffers of uints, %a, %b and %c; %p is a pointer to an element, %P one to a block.
PROLOGUE = """
OpCapability Shader
OpCapability VariablePointers
OpExtension "SPV_KHR_variable_pointers"
OpExtension "SPV_KHR_non_semantic_info"
%std = OpExtInstImport "GLSL.std.450"
%printf = OpExtInstImport "NonSemantic.DebugPrintf"
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %a %b %c
OpExecutionMode %main LocalSize 1 1 1
%text = OpString "%u"
OpName %a "a"
OpName %b "b"
OpName %c "c"
OpDecorate %array ArrayStride 4
OpDecorate %block Block
OpMemberDecorate %block 0 Offset 0
OpDecorate %p ArrayStride 4
OpDecorate %a DescriptorSet 0
OpDecorate %a Binding 0
OpDecorate %b DescriptorSet 0
OpDecorate %b Binding 1
OpDecorate %c DescriptorSet 0
OpDecorate %c Binding 2
%void = OpTypeVoid
%fn = OpTypeFunction %void
%bool = OpTypeBool
%true = OpConstantTrue %bool
%uint = OpTypeInt 32 0
%c0 = OpConstant %uint 0
%c1 = OpConstant %uint 1
%c4 = OpConstant %uint 4
%float = OpTypeFloat 32
%array = OpTypeRuntimeArray %uint
%block = OpTypeStruct %array
%P = OpTypePointer StorageBuffer %block
%p = OpTypePointer StorageBuffer %uint
%pp = OpTypePointer Function %p
%a = OpVariable %P StorageBuffer
%b = OpVariable %P StorageBuffer
%c = OpVariable %P StorageBuffer
%take = OpTypeFunction %void %p
%give = OpTypeFunction %p %P
"""
MAIN = "%main = OpFunction %void None %fn\n%entry = OpLabel\n"
END = "OpReturn\nOpFunctionEnd\n"
A0 = "%a0 = OpAccessChain %p %a %c0 %c0\n"
B0 = "%b0 = OpInBoundsAccessChain %p %b %c0 %c0\n"
AB = A0 + B0


def access(body: str, functions: str = "", *, valid: bool = True) -> str:
    """The accesses to a, b and c in `body`: "r", "w", "rw" or "-" each. spirv-val must accept the module."""
    pointers = "".join(line for line in body.splitlines(True) if line.startswith("%f"))
    body = "".join(line for line in body.splitlines(True) if not line.startswith("%f"))
    data = assemble(PROLOGUE + MAIN + pointers + body + END + functions, "spv1.4")
    if valid:
        done = spirv_tool("spirv-val", data, "--target-env", "vulkan1.3")
        assert done.returncode == 0, done.stderr.decode()
    reflected = reflect(Module.parse(data)).bindings
    return " ".join("r" * item.reads + "w" * item.writes or "-" for item in reflected)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (A0, "- - -"),
        (A0 + "%x = OpLoad %uint %a0\n", "r - -"),
        (A0 + "OpStore %a0 %c1\n", "w - -"),
        (AB + "OpCopyMemory %a0 %b0\n", "w r -"),
        (AB + "OpCopyMemory %b0 %a0 Aligned 4\n", "r w -"),
        (A0 + "%d = OpCopyObject %p %a0\nOpStore %d %c1\n", "w - -"),
        (A0 + "%d = OpPtrAccessChain %p %a0 %c4\n%x = OpLoad %uint %d\n", "r - -"),
        (A0 + "%d = OpPtrAccessChain %p %a0 %c4\nOpStore %d %c1\n", "w - -"),
        (AB + "%s = OpSelect %p %true %a0 %b0\n%x = OpLoad %uint %s\n", "r r -"),
        (AB + "%s = OpSelect %p %true %a0 %b0\nOpStore %s %c1\n", "w w -"),
        ("%s = OpSelect %P %true %a %b\n%d = OpAccessChain %p %s %c0 %c0\nOpStore %d %c1\n", "w w -"),
        (AB + "%f = OpVariable %pp Function\nOpStore %f %a0\n", "rw - -"),
        (AB + "%e = OpPtrEqual %bool %a0 %b0\n", "- - -"),
        (A0 + "%x = OpAtomicLoad %uint %a0 %c1 %c0\n", "r - -"),
        (A0 + "OpAtomicStore %a0 %c1 %c0 %c1\n", "w - -"),
        (A0 + "%x = OpAtomicIAdd %uint %a0 %c1 %c0 %c1\n", "rw - -"),
        (A0 + "%x = OpAtomicExchange %uint %a0 %c1 %c0 %c1\n", "rw - -"),
        (A0 + "%x = OpAtomicCompareExchange %uint %a0 %c1 %c0 %c0 %c1 %c0\n", "rw - -"),
        ("%n = OpArrayLength %uint %a 0\n", "- - -"),
        (A0 + "%x = OpLoad %uint %a0\n%y = OpExtInst %void %printf 1 %text %x\n", "r - -"),
    ],
)
def test_pointers_are_followed(body: str, expected: str) -> None:
    assert access(body) == expected


def test_phis_are_followed_around_a_loop() -> None:
    body = (
        AB
        + "OpBranch %head\n%head = OpLabel\n"
        + "%i = OpPhi %p %a0 %entry %next %again\n%n = OpPhi %uint %c0 %entry %m %again\n"
        + "OpLoopMerge %done %again None\nOpBranchConditional %true %again %done\n%again = OpLabel\n"
        + "%next = OpPtrAccessChain %p %i %c1\n%m = OpIAdd %uint %n %c1\nOpBranch %head\n"
        + "%done = OpLabel\nOpStore %i %c1\n"
    )
    assert access(body) == "w - -"


def test_a_pointer_that_a_phi_takes_from_later_counts_as_well() -> None:
    body = (
        A0
        + "OpBranch %head\n%head = OpLabel\n%i = OpPhi %p %a0 %entry %late %again\n%x = OpLoad %uint %i\n"
        + "OpLoopMerge %done %again None\nOpBranchConditional %true %again %done\n%again = OpLabel\n"
        + "%late = OpAccessChain %p %c %c0 %c4\nOpBranch %head\n%done = OpLabel\n"
    )
    assert access(body) == "r - r"


STORE = (
    "%store = OpFunction %void None %take\n%where = OpFunctionParameter %p\n%l = OpLabel\nOpStore %where %c1\n"
    "OpReturn\nOpFunctionEnd\n"
)
FIRST = (
    "%first = OpFunction %p None %give\n%of = OpFunctionParameter %P\n%k = OpLabel\n"
    "%q = OpAccessChain %p %of %c0 %c0\nOpReturnValue %q\nOpFunctionEnd\n"
)


def test_arguments_reach_the_called_function() -> None:
    assert access(A0 + "%x = OpFunctionCall %void %store %a0\n", STORE) == "w - -"
    assert access(AB + "%x = OpFunctionCall %void %store %a0\n%y = OpFunctionCall %void %store %b0\n", STORE) == "w w -"
    assert access(A0, STORE) == "- - -"


def test_returned_pointers_reach_the_caller() -> None:
    assert access("%x = OpFunctionCall %p %first %b\n%y = OpLoad %uint %x\n", FIRST) == "- r -"


def test_what_a_function_does_counts_only_where_it_is_called() -> None:
    unreached = "%lost = OpFunction %void None %fn\n%z = OpLabel\n" + B0 + "OpStore %b0 %c1\n" + END
    assert access(A0 + "OpStore %a0 %c1\n", unreached) == "w - -"


def test_unknown_consumers_both_read_and_write() -> None:
    """A pointer given to an extended instruction, and one to an opcode that no table here has."""
    body = A0 + "%x = OpExtInst %float %std Modf %c0 %a0\n"  # Modf, of wrong types: its pointer is what matters
    assert access(body, valid=False) == "rw - -"
    data = assemble(PROLOGUE + MAIN + A0 + "OpStore %a0 %c1\n" + END)
    parsed = Module.parse(data)
    store = next(k for k, instruction in enumerate(parsed.functions) if instruction.opcode == 62)
    parsed.functions[store] = parsed.functions[store]._replace(opcode=60_000)
    first = reflect(parsed).bindings[0]
    assert (first.reads, first.writes) == (True, True)


def test_literals_that_look_like_ids_are_not_taken_for_pointers() -> None:
    data = assemble(PROLOGUE + MAIN + "%v = OpCompositeConstruct %uint\n" + END)
    parsed = Module.parse(data)
    a = next(instruction.operands[1] for instruction in parsed.declarations if instruction.opcode == 59)
    construct = next(k for k, instruction in enumerate(parsed.functions) if instruction.opcode == 80)
    kind, result = parsed.functions[construct].operands
    extract = parsed.functions[construct]._replace(opcode=81, operands=(kind, result, kind, a))
    parsed.functions[construct] = extract
    assert not reflect(parsed).bindings[0].reads


def test_a_variable_that_starts_as_another_ones_address_gives_it_away() -> None:
    text = PROLOGUE + "%priv = OpTypePointer Private %P\n%alias = OpVariable %priv Private %b\n" + MAIN + END
    reflected = reflect(Module.parse(assemble(text))).bindings
    assert [(item.reads, item.writes) for item in reflected] == [(False, False), (True, True), (False, False)]


def test_only_what_an_entry_point_reaches_is_its_own() -> None:
    text = PROLOGUE.replace(
        "OpExecutionMode",
        'OpEntryPoint GLCompute %other "other" %b %c\nOpExecutionMode %other LocalSize 2 1 1\nOpExecutionMode',
    )
    other = "%other = OpFunction %void None %fn\n%o = OpLabel\n" + B0 + "%n = OpArrayLength %uint %c 0\n" + END
    parsed = Module.parse(assemble(text + MAIN + A0 + END + other))
    names = {name: [binding.name for binding in reflect(parsed, name).bindings] for name in ("main", "other")}
    assert names == {"main": ["a"], "other": ["b", "c"]}
