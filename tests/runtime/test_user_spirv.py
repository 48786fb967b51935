"""A user's own SPIR-V: what is malformed or beyond the device is refused, in words, before a driver sees it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute.core import vk
from vkcompute.runtime.launching import program
from vkcompute.spirv import enums, opcodes
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.module import Module

HEAD = "layout(local_size_x = 64) in;\n"
BODY = "layout(binding = 0) buffer A { uint a[]; };\nvoid main() { a[gl_GlobalInvocationID.x] += 1; }\n"


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[vc.Runtime]:
    """A runtime of which a test fails if its driver sees a shader module."""

    def forbid(name: str, function: Callable[..., int]) -> Callable[..., int]:
        def call(*_: object) -> int:
            raise AssertionError("the driver saw it")

        return call if name in ("vkCreateShaderModule", "vkCreateComputePipelines") else function

    monkeypatch.setattr(vk, "interceptors", [forbid])
    with vc.Runtime() as runtime:
        yield runtime


GOOD = """
#version 460
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { uint a[]; };
void main() { a[gl_GlobalInvocationID.x] += 1; }
"""


@pytest.fixture(scope="module")
def good() -> bytes:
    return vc.glsl(GOOD)


def test_bytes_of_every_kind_and_files(gpu: vc.Runtime, good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "mine.spv"
    path.write_bytes(good)
    source = tmp_path / "mine.comp"
    source.write_text(GOOD)
    big_endian = np.frombuffer(good, "<u4").astype(">u4").tobytes()
    x = gpu.zeros(64, np.uint32)
    for form in (good, bytearray(good), memoryview(good), path, str(path), source, str(source), big_endian):
        gpu.kernel(form)(x)
    assert set(x.numpy().tolist()) == {8}
    assert gpu.kernel(good) is gpu.kernel(bytearray(good)), "the same kernel"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda code: b"", "no SPIR-V"),
        (lambda code: code[:3], "magic"),
        (lambda code: code[:16], "bytes"),
        (lambda code: code[:-1], "4"),
        (lambda code: code[:-4], ""),
        (lambda code: code[: len(code) // 8 * 4], ""),
        (lambda code: b"\x00" * 100, "magic"),
        (lambda code: b"#version 460\nvoid main() {}    ", "magic|GLSL"),
        (lambda code: code[:4] + b"\x00\x09\x01\x00" + code[8:], "version"),
        (lambda code: code + b"\x00" * 4, ""),
    ],
)  # fmt: skip
def test_what_is_no_module(watched: vc.Runtime, good: bytes, change: Callable[[bytes], bytes], match: str) -> None:
    with pytest.raises(vc.SpirvError, match=match or None):
        watched.kernel(change(good))


@given(at=st.integers(0, 10_000), value=st.integers(0, 255), cut=st.booleans())
def test_damage_never_reaches_the_driver_unseen(gpu: vc.Runtime, good: bytes, at: int, value: int, cut: bool) -> None:
    """Refused as malformed, or what is left is a module that declares an interface; never another exception."""
    at %= len(good)
    damaged = good[:at] if cut else good[:at] + bytes([value]) + good[at + 1 :]
    with contextlib.suppress(vc.SpirvError):
        assert program.load(damaged).interface.bindings is not None


@pytest.mark.parametrize("source", ["no_such_kernel", "a/path/without/suffix", "void main() {}", "x.txt", ""])
def test_what_names_no_kernel(watched: vc.Runtime, source: str) -> None:
    with pytest.raises(ValueError, match="kernel"):
        watched.kernel(source)


@pytest.mark.parametrize("source", [None, 3, ["multiply"], object()])
def test_what_is_no_source(watched: vc.Runtime, source: object) -> None:
    with pytest.raises(TypeError, match="a kernel is made from"):
        watched.kernel(source)


def test_files_that_are_not_there(watched: vc.Runtime, tmp_path: Path) -> None:
    for name in ("none.spv", "none.comp"):
        with pytest.raises(OSError, match="none"):
            watched.kernel(tmp_path / name)


NEEDS = {
    "shaderInt64": "layout(binding = 0) buffer A { int64_t a[]; }; void main() { a[0] = a[0] * a[1]; }",
    "shaderFloat64": "layout(binding = 0) buffer A { double a[]; }; void main() { a[0] = a[0] * a[1]; }",
    "shaderFloat16": "layout(binding = 0) buffer A { float16_t a[]; }; void main() { a[0] = a[0] * a[1]; }",
    "storageBuffer8BitAccess": "layout(binding = 0) buffer A { uint8_t a[]; }; void main() { a[0] = a[1]; }",
    "storageBuffer16BitAccess": "layout(binding = 0) buffer A { uint16_t a[]; }; void main() { a[0] = a[1]; }",
}


@pytest.mark.parametrize("feature", NEEDS)
def test_features_that_the_device_lacks(gpu: vc.Runtime, watched: vc.Runtime, feature: str) -> None:
    code = vc.glsl("#extension GL_EXT_shader_explicit_arithmetic_types : require\n" + HEAD + NEEDS[feature])
    if feature in gpu.device.features:
        gpu.kernel(code, check_types=False)
        return
    with pytest.raises(vc.MissingFeature, match=feature) as caught:
        watched.kernel(code)
    assert watched.device.name in str(caught.value)


def test_subgroup_operations_that_the_device_lacks(watched: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    code = vc.glsl(
        "#extension GL_KHR_shader_subgroup_arithmetic : require\n" + HEAD
        + "layout(binding = 0) buffer A { uint a[]; }; void main() { a[0] = subgroupAdd(a[1]); }"
    )  # fmt: skip
    monkeypatch.setitem(vars(watched.device.physical), "subgroup_operations", frozenset({"basic"}))
    with pytest.raises(vc.MissingFeature, match="subgroup operation arithmetic"):
        watched.kernel(code)


def test_a_workgroup_larger_than_the_device_runs(watched: vc.Runtime) -> None:
    limits = watched.device.physical.limits
    most = limits["maxComputeWorkGroupInvocations"]
    source = f"layout(local_size_x_id = 0, local_size_z_id = 1) in;\n{BODY}"
    for size in ({0: most + 1}, {1: limits["maxComputeWorkGroupSize"][2] + 1}, {0: 1 << 31, 1: 1 << 31}):
        with pytest.raises(ValueError, match=f"runs 1 to {most}, at most"):
            watched.kernel(vc.glsl(source), constants=size)
    with pytest.raises(ValueError, match=f"runs 1 to {most}"):
        watched.kernel(vc.glsl(f"layout(local_size_x = 1024, local_size_y = 1024) in;\n{BODY}"))


def test_more_push_constants_than_the_device_takes(watched: vc.Runtime) -> None:
    most = watched.device.physical.limits["maxPushConstantsSize"]
    source = f"{HEAD}layout(push_constant) uniform P {{ uint p[{most // 4 + 1}]; }};\n{BODY.replace('+= 1', '+= p[3]')}"
    with pytest.raises(ValueError, match=f"{most + 4} bytes of push constants; .* takes {most}"):
        watched.kernel(vc.glsl(source))


UNSUPPORTED = {
    "storage_image": "layout(binding = 0, r32ui) uniform uimage2D i;void main() { imageStore(i, ivec2(0), uvec4(1)); }",
    "combined_image_sampler": "layout(binding = 0) uniform sampler2D s; layout(binding = 1) buffer A { float a[]; };"
    "void main() { a[0] = texelFetch(s, ivec2(0), 0).x; }",
    "array of 3 storage_buffers": "layout(binding = 0) buffer A { uint a[]; } b[3]; void main() { b[1].a[0] = 1; }",
}


@pytest.mark.parametrize("kind", UNSUPPORTED)
def test_bindings_of_other_kinds(watched: vc.Runtime, kind: str) -> None:
    with pytest.raises(vc.MissingFeature, match=f"binding 0 is .*{kind.replace('_', '.')}"):
        watched.kernel(vc.glsl(HEAD + UNSUPPORTED[kind]))


def test_more_sets_than_the_device_binds(watched: vc.Runtime) -> None:
    most = watched.device.physical.limits["maxBoundDescriptorSets"]
    with pytest.raises(ValueError, match=f"set {most}; .* binds {most} sets"):
        watched.kernel(vc.glsl(HEAD + BODY.replace("binding = 0", f"set = {most}, binding = 0")))


def test_binding_numbers_up_to_the_highest(gpu: vc.Runtime, watched: vc.Runtime) -> None:
    """Drivers keep an entry per number: SwiftShader took minutes for one of 850 million."""
    code = np.frombuffer(vc.glsl(HEAD + BODY.replace("binding = 0", "binding = 65534")), np.uint32)
    gpu.kernel(np.where(code == 65534, 65535, code).astype(np.uint32).tobytes())
    with pytest.raises(ValueError, match="binding with the number 65536; the highest is 65535"):
        watched.kernel(np.where(code == 65534, 65536, code).astype(np.uint32).tobytes())


def test_more_buffers_than_the_device_binds(watched: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(watched.device.physical.limits, "maxPerStageDescriptorStorageBuffers", 4)
    buffers = "\n".join(f"layout(binding = {i}) buffer B{i} {{ uint b{i}[]; }};" for i in range(5))
    with pytest.raises(ValueError, match=r"5 storage buffers; .* binds 4"):
        watched.kernel(vc.glsl(f"{HEAD}{buffers}\nvoid main() {{ b0[0] = b1[0] + b2[0] + b3[0] + b4[0]; }}"))


def test_sets_and_bindings_with_gaps(gpu: vc.Runtime) -> None:
    """Arguments are ordered by set and binding, whatever the numbers are."""
    source = (
        HEAD
        + """
    layout(set = 3, binding = 7) writeonly buffer C { uint c[]; };
    layout(set = 0, binding = 5) readonly buffer A { uint a[]; };
    layout(set = 1, binding = 2) readonly buffer B { uint b[]; };
    void main() { uint i = gl_GlobalInvocationID.x; if (i < c.length()) c[i] = 10 * a[i] + b[i]; }
    """
    )
    a, b, c = gpu.full(100, 1, np.uint32), gpu.full(100, 2, np.uint32), gpu.zeros(100, np.uint32)
    gpu.kernel(vc.glsl(source))(a, b, c)
    assert set(c.numpy().tolist()) == {12}


def test_a_kernel_without_bindings(gpu: vc.Runtime) -> None:
    gpu.kernel(vc.glsl(HEAD + "void main() {}"))(grid=3).result()


def test_entry_points(gpu: vc.Runtime, watched: vc.Runtime, good: bytes) -> None:
    gpu.kernel(good, entry_point="main")(gpu.zeros(64, np.uint32))
    with pytest.raises(vc.SpirvError, match="no compute entry point 'other'"):
        watched.kernel(good, entry_point="other")


FLOAT_CONTROLS = """
#extension GL_EXT_spirv_intrinsics : enable
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [CAPABILITY], MODE, 32);
layout(local_size_x = 8) in;
layout(binding = 0) buffer B { float b[]; };
void main() { b[gl_GlobalInvocationID.x] *= 2; }
"""


@pytest.mark.parametrize(
    ("name", "mode"),
    [("DenormPreserve", 4459), ("DenormFlushToZero", 4460), ("SignedZeroInfNanPreserve", 4461),
     ("RoundingModeRTE", 4462), ("RoundingModeRTZ", 4463)],
)  # fmt: skip
def test_float_controls_are_properties_of_the_device(gpu: vc.Runtime, name: str, mode: int) -> None:
    spirv = vc.glsl(FLOAT_CONTROLS, defines={"CAPABILITY": mode + 5, "MODE": mode})
    if not gpu.device.physical.properties[f"shader{name}Float32"]:
        with pytest.raises(vc.MissingFeature, match=f"a mode for floats needs the property shader{name}Float32"):
            gpu.kernel(spirv)
        return
    x = gpu.full(8, 3.0)
    gpu.kernel(spirv)(x)
    assert x.numpy().tolist() == [6.0] * 8


TWICE = """
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) buffer C { float c[]; };
void main() {
    c[0] = a[0] + 1.0;
    c[1] = a[0];
}
"""


def test_buffers_of_a_module_that_writes_are_declared_as_aliases_of_each_other() -> None:
    """Compilers of GLSL declare members of blocks. restrict promises that nothing else shows the same memory."""
    result = Module.parse(program.load(vc.glsl(TWICE.replace("buffer C", "restrict buffer C"))).spirv).annotations
    members = {instruction.operands[2] for instruction in result if instruction.opcode == opcodes.OpMemberDecorate}
    assert enums.Decoration.Restrict in members
    assert enums.Decoration.NonWritable not in members
    decorations = [instruction.operands for instruction in result if instruction.opcode == opcodes.OpDecorate]
    bindings = {operands[0]: operands[2] for operands in decorations if operands[1] == enums.Decoration.Binding}
    assert [bindings[decoration[0]] for decoration in decorations if decoration[1] == enums.Decoration.Aliased] == [0]


def test_a_variable_that_is_not_writable_shows_what_another_one_writes(gpu: vc.Runtime) -> None:
    module = Module.parse(vc.glsl(TWICE))
    variable = next(
        instruction.operands[0]
        for instruction in module.annotations
        if instruction.operands[1:] == (enums.Decoration.Binding, 0)
    )
    module.annotations.append(Instruction(opcodes.OpDecorate, (variable, enums.Decoration.NonWritable)))
    x = gpu.array(np.array([1, 0], np.float32))
    gpu.kernel(module.words())(x, x, grid=1)
    assert x.numpy().tolist() == [2, 2]


@pytest.mark.pure
@pytest.mark.parametrize("use", ["r.x[0]", "R(a).x[1]"])
def test_memory_by_its_address(use: str) -> None:
    """Arrays have no address that a launch could pass; another number crashes the process."""
    source = f"""
        #extension GL_EXT_buffer_reference : require
        #extension GL_EXT_buffer_reference_uvec2 : require
        layout(local_size_x = 1) in;
        layout(buffer_reference, std430) buffer R {{ float x[]; }};
        layout(binding = 0) buffer O {{ float o[]; }};
        layout(push_constant) uniform P {{ R r; uvec2 a; }};
        void main() {{ o[0] = {use}; }}
    """
    with pytest.raises(
        vc.SpirvError, match=r"^mine accesses memory by its address.* no address to pass; bind them, as"
    ):
        program.load(vc.glsl(source), name="mine")
