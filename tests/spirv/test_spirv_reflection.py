"""Bindings, push constants, spec constants and local sizes: against hand-written tables and against spirv-dis."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from spirv_khronos import assemble, disassemble, optimise

from vkcompute.errors import SpirvError
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.interface import Binding, Element, Interface, LocalSize, Texel
from vkcompute.spirv.module import Module
from vkcompute.spirv.reflection import reflect

pytestmark = pytest.mark.pure


def interface(data: bytes, entry_point: str | None = None) -> Interface:
    return reflect(Module.parse(data), entry_point)


def row(binding: Binding) -> str:
    """One line for a binding: address, name, kind, count if not 1, access, element."""
    access = "r" * binding.reads + "w" * binding.writes or "-"
    count = f"[{binding.count}]" if binding.count != 1 else ""
    parts = [f"{binding.set}.{binding.binding}", binding.name, binding.kind + count, access]
    if binding.element:
        element = binding.element
        parts.append(f"{element.dtype}x{element.width}/{element.stride_bytes}")
    return " ".join(parts)


# What each source of spirv_sources.py is to be read as; storage buffers' kind is left out.
EXPECTED: dict[str, tuple[str, ...]] = {
    "multiply": ("0.0 a r float32x1/4", "0.1 b r float32x1/4", "0.2 c w float32x1/4"),
    "undecorated": (
        *("0.1 b w float32x1/4", "0.3 a r float32x1/4", "0.7 only_length - int32x1/4", "0.8 e rw"),
        "1.0 c rw float32x1/4",
    ),
    "calls": ("0.0 src r float32x1/4", "0.1 dst rw float32x1/4", "0.2 items rw", "0.3 u - float32x1/4"),
    "structs": ("0.0 params r", "0.1 settings uniform_buffer r", "0.2 y w float32x4/16"),
    "push": ("0.0 a w float32x1/4",),
    "spec": ("0.0 a w float64x1/8",),
    "narrow": (
        *("0.0 a r int8x1/1", "0.1 b r uint16x2/4", "0.2 c r float16x1/2", "0.3 d w uint64x4/32"),
        *("0.4 e w float64x1/8", "0.5 f r uint8x1/1"),
    ),
    "texels": (
        *("0.0 source uniform_texel_buffer r", "0.1 counters storage_texel_buffer rw", "0.2 picture storage_image w"),
        *("0.3 old storage_image[2] r", "0.4 smooth_ combined_image_sampler r", "0.5 plain sampled_image r"),
        *("0.6 nearest sampler r", "0.7 both storage_image rw", "0.8 unused_size storage_image -"),
        "0.9 sizes uniform_texel_buffer -",
    ),
    "atomics": (
        *("0.0 sums rw float32x1/4", "0.1 loaded r uint32x1/4", "0.2 stored w uint32x1/4"),
        "0.3 swapped rw uint32x1/4",
    ),
    "subgroups": ("0.0 a rw float32x1/4",),
    "arrays": (
        *("0.0 inputs storage_buffer[3] r float32x1/4", "0.1 outputs storage_buffer[0] w float32x1/4"),
        "0.2 images combined_image_sampler[4] r",
    ),
    "alias": ("0.0 a r", "0.1 b rw float32x1/4"),
    "addresses": ("0.0 a w float32x1/4",),
    "fixed": ("0.0 a r", "0.1 b w", "0.2 c w float32x3/16", "0.3 d w", "0.4 ee rw"),
    "control": ("0.0 a rw int32x1/4",),
    "nothing": (),
}


def test_bindings_are_the_expected_ones(corpus: dict[str, bytes]) -> None:
    for name, data in corpus.items():
        result = tuple(row(binding).replace(" storage_buffer ", " ") for binding in interface(data).bindings)
        result = tuple(item.removesuffix(" storage_buffer") for item in result)
        assert result == EXPECTED[name.split()[0]], name


def test_declarations_are_those_that_spirv_dis_shows(corpus: dict[str, bytes]) -> None:
    for name, data in corpus.items():
        text, result = disassemble(data, "--raw-id"), interface(data)
        sets = dict(re.findall(r"OpDecorate %(\d+) DescriptorSet (\d+)", text))
        bindings = dict(re.findall(r"OpDecorate %(\d+) Binding (\d+)", text))
        addresses = {(int(sets[identifier]), int(binding)) for identifier, binding in bindings.items()}
        assert [(each.set, each.binding) for each in result.bindings] == sorted(addresses), name
        assert list(result.capabilities) == re.findall(r"OpCapability (\w+)", text), name
        assert list(result.extensions) == re.findall(r'OpExtension "(\w+)"', text), name
        spec_ids = {int(word) for word in re.findall(r"SpecId (\d+)", text)}
        assert [constant.spec_id for constant in result.spec_constants] == sorted(spec_ids), name
        assert result.entry_point == "main"


def test_access_is_the_same_when_every_call_is_inlined(corpus: dict[str, bytes]) -> None:
    """spirv-opt follows calls, copies and phis by its own rules; what is reached through them must not change."""
    for name, data in corpus.items():
        inlined = optimise(data, "--inline-entry-points-exhaustive")
        assert interface(inlined).bindings == interface(data).bindings, name


def test_access_follows_the_code_where_decorations_are_gone(glsl: Callable[..., bytes]) -> None:
    for name in ("multiply", "structs", "narrow", "texels", "arrays", "alias", "addresses", "fixed"):
        data = glsl(name)
        text = disassemble(data)
        bare = "\n".join(line for line in text.splitlines() if not re.search(r" Non(Readable|Writable)$", line))
        assert bare != text
        again = interface(assemble(bare))
        assert [row(binding) for binding in again.bindings] == [row(binding) for binding in interface(data).bindings], (
            name
        )


def test_stripped_modules_have_the_same_interface_without_names(corpus: dict[str, bytes]) -> None:
    for name, data in corpus.items():
        stripped = interface(optimise(data, "--strip-debug"))
        assert {binding.name for binding in stripped.bindings} <= {""}
        full = interface(data)
        assert [row(binding).split()[2:] for binding in full.bindings] == [
            row(binding).split()[1:] for binding in stripped.bindings
        ]
        assert [constant.default for constant in full.spec_constants] == [
            constant.default for constant in stripped.spec_constants
        ], name
        if full.push_constants and stripped.push_constants:
            assert list(stripped.push_constants.dtype.names or ()) == [
                f"f{k}" for k in range(len(full.push_constants.members))
            ]


def test_old_style_buffers_are_read_alike(glsl: Callable[..., bytes]) -> None:
    old, new = (glsl("multiply", "--target-env", name) for name in ("vulkan1.0", "vulkan1.1"))
    assert "BufferBlock" in disassemble(old)
    assert "BufferBlock" not in disassemble(new)
    assert interface(old).bindings == interface(new).bindings


def test_decorations_are_authoritative(glsl: Callable[..., bytes]) -> None:
    """HLSL-style and hand-written modules may decorate more narrowly than the code looks."""
    text = disassemble(glsl("undecorated"))
    text = text.replace("OpDecorate %e DescriptorSet 0", "OpDecorate %e DescriptorSet 0\nOpDecorate %e NonWritable")
    text = re.sub(
        r"OpMemberDecorate %C 0 Offset 0", "OpMemberDecorate %C 0 Offset 0\nOpMemberDecorate %C 0 NonReadable", text
    )
    results = {binding.name: binding for binding in interface(assemble(text)).bindings}
    assert (results["e"].reads, results["e"].writes) == (True, False)
    assert (results["c"].reads, results["c"].writes) == (False, True)


HLSL = """
struct Item { float3 v; int n; };
StructuredBuffer<float> a : register(t0);
RWStructuredBuffer<Item> items : register(u1);
RWByteAddressBuffer raw : register(u2);
cbuffer Params : register(b3) { float scale; float w[3]; };
Buffer<float4> texels : register(t4);
RWTexture2D<float4> picture : register(u5);
[numthreads(8, 4, 2)]
void main(uint3 id : SV_DispatchThreadID) {
    items[id.x].n += 1;
    raw.Store(id.x * 4, asuint(a[id.x] * scale + w[2]));
    picture[id.xy] = texels[id.x];
}
"""


def test_hlsl_is_read_alike(glsl: Callable[..., bytes]) -> None:
    reflected = interface(glsl(HLSL, "-D", "-S", "comp", "-e", "main", "--target-env", "vulkan1.1"))
    assert [row(binding) for binding in reflected.bindings] == [
        "0.0 a storage_buffer r float32x1/4",
        "0.1 items storage_buffer rw",
        "0.2 raw storage_buffer w uint32x1/4",
        "0.3 Params uniform_buffer r",
        "0.4 texels uniform_texel_buffer r",
        "0.5 picture storage_image w",
    ]
    assert reflected.local_size.default == (8, 4, 2)
    params = reflected.bindings[3].block
    assert params is not None
    assert [(m.name, m.offset_bytes, m.strides_bytes) for m in params.members] == [("scale", 0, ()), ("w", 16, (16,))]


def test_an_array_of_padded_structures_may_end_a_block(glsl: Callable[..., bytes]) -> None:
    """The last structure's padding lies beyond the last byte that the shader reads; numpy stores it all the same."""
    source = """#version 460
struct Part { vec3 v; };
layout(local_size_x = 1) in;
layout(push_constant, std430) uniform P { float x; Part parts[2]; } p;
layout(binding = 0) buffer A { float a[]; };
void main() { a[0] = p.parts[1].v.z + p.x; }
"""
    block = interface(glsl(source)).push_constants
    assert block is not None
    assert block.dtype.itemsize == 48
    value = np.zeros((), block.dtype)
    value["parts"]["v"][1] = (1, 2, 3)
    assert value.tobytes()[32:44] == np.array((1, 2, 3), "f4").tobytes()


def test_one_readonly_member_of_two_does_not_make_a_block_readonly(glsl: Callable[..., bytes]) -> None:
    source = """#version 460
layout(local_size_x = 1) in;
layout(binding = 0) buffer A { readonly uint n; uint a[]; };
layout(binding = 1) buffer B { readonly uint m; readonly uint b[]; };
void main() { a[0] = n + b[m]; }
"""
    reflected = interface(glsl(source)).bindings
    assert [row(item) for item in reflected] == ["0.0 A storage_buffer rw", "0.1 B storage_buffer r"]


def test_texels_and_images_are_described(glsl: Callable[..., bytes]) -> None:
    texels = {binding.name: binding.texel for binding in interface(glsl("texels")).bindings}
    assert texels["source"] == Texel("float32", "Buffer", "Unknown", False, False)
    assert texels["counters"] == Texel("uint32", "Buffer", "R32ui", False, False)
    assert texels["both"] == Texel("float32", "Dim3D", "Rgba32f", False, False)
    assert texels["sizes"] == Texel("int32", "Buffer", "Unknown", False, False)
    assert texels["nearest"] is None


def test_plain_arrays_have_an_element_and_others_a_block(glsl: Callable[..., bytes]) -> None:
    results = {binding.name: binding for binding in interface(glsl("fixed")).bindings}
    assert results["c"].element == Element("float32", 3, 16)
    for name in ("a", "b", "d", "ee"):
        assert results[name].element is None
    blocks = {name: result.block for name, result in results.items() if result.block}
    assert [(m.name, m.offset_bytes, m.shape, m.strides_bytes, m.nbytes) for m in blocks["a"].members] == [
        ("a", 0, (16,), (4,), 64)
    ]
    assert [(m.offset_bytes, m.shape, m.nbytes) for m in blocks["b"].members] == [(16, (0,), 0)]
    assert [(m.shape, m.strides_bytes) for m in blocks["d"].members] == [((0, 2, 2), (16, 8, 4))]
    assert [(m.name, m.offset_bytes) for m in blocks["ee"].members] == [("n", 0), ("e", 4)]
    assert blocks["ee"].nbytes == 4


def test_blocks_of_structures_and_matrices(glsl: Callable[..., bytes]) -> None:
    results = {binding.name: binding.block for binding in interface(glsl("structs")).bindings}
    params, settings = results["params"], results["settings"]
    assert params is not None
    assert settings is not None
    assert params.name == "Params"
    shown = [(m.name, m.offset_bytes, m.dtype, m.shape, m.strides_bytes, m.nbytes) for m in params.members]
    assert shown == [  # std430: OpenGL 4.6, section 7.6.2.2
        ("n", 0, "int32", (), (), 4),
        ("inner", 16, "", (2,), (16,), 32),
        ("m", 48, "float32", (4, 4), (16, 4), 64),
        ("columns", 112, "float32", (3, 2), (8, 4), 24),
        ("rows", 144, "float32", (2, 3), (16, 4), 28),
        ("tail", 176, "float32", (0,), (4,), 0),
    ]
    assert [(m.name, m.offset_bytes, m.shape) for m in params.members[1].members] == [("v", 0, (3,)), ("f", 12, ())]
    assert [(m.offset_bytes, m.strides_bytes, m.nbytes) for m in settings.members] == [(0, (4,), 16), (16, (16,), 52)]
    assert settings.nbytes == 68


def test_push_constants_pack_as_the_shader_reads_them(glsl: Callable[..., bytes]) -> None:
    block = interface(glsl("push")).push_constants
    assert block is not None
    dtype = block.dtype
    assert dtype.itemsize == block.nbytes == 164
    fields = {name: (field[0], field[1]) for name, field in (dtype.fields or {}).items()}
    pair = np.dtype({"names": ["a", "b"], "formats": ["i2", "i1"], "offsets": [0, 2], "itemsize": 4})
    assert fields == {  # std430; a bool is a uint
        "n": (np.dtype("i4"), 0),
        "count": (np.dtype("u4"), 4),
        "scale": (np.dtype("f4"), 8),
        "offset": (np.dtype(("f4", (3,))), 16),
        "exact": (np.dtype("f8"), 32),
        "flag": (np.dtype("u4"), 40),
        "table": (np.dtype(("f4", (4,))), 44),
        "grid": (np.dtype(("i4", (2, 2))), 64),
        "m": (np.dtype(("f4", (4, 4))), 80),
        "big": (np.dtype("i8"), 144),
        "pairs": (np.dtype((pair, (3,))), 152),
    }
    value = np.zeros((), dtype)
    value["grid"][1, 1] = 7
    value["pairs"]["b"][2] = -1
    assert value.tobytes()[76:80] == np.int32(7).tobytes()
    assert value.tobytes()[162] == 255


def test_pointers_in_push_constants_are_addresses(glsl: Callable[..., bytes]) -> None:
    block = interface(glsl("addresses", "--target-env", "vulkan1.3")).push_constants
    assert block is not None
    assert block.dtype == np.dtype([("head", "u8"), ("n", "u4")])


def test_a_narrow_last_member_rounds_the_block_up(glsl: Callable[..., bytes]) -> None:
    source = """#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 1) in;
layout(push_constant) uniform P { float x; uint8_t y; } p;
layout(binding = 0) buffer A { float a[]; };
void main() { a[0] = p.x + float(p.y); }
"""
    block = interface(glsl(source)).push_constants
    assert block is not None
    assert (block.nbytes, block.dtype.itemsize) == (8, 8)


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        (
            "layout(push_constant, std430) uniform P { vec3 v[2]; } p;",
            r"P\.v: the stride is 16 bytes for elements of 12 bytes",
        ),
        ("layout(push_constant, std430) uniform P { mat3 v; } p;", r"stride is 16 bytes for elements of 12 bytes"),
        ("layout(push_constant, std140) uniform P { float v[2]; } p;", r"stride is 16 bytes for elements of 4 bytes"),
    ],
)
def test_gaps_that_numpy_cannot_have_are_named(glsl: Callable[..., bytes], declaration: str, message: str) -> None:
    source = (
        f"#version 460\nlayout(local_size_x = 1) in;\n{declaration}\nvoid main() {{ if (p.v[0] == p.v[1]) return; }}"
    )
    block = interface(glsl(source)).push_constants
    assert block is not None
    with pytest.raises(SpirvError, match=message):
        _ = block.dtype


def test_spec_constants_have_their_types_and_defaults(glsl: Callable[..., bytes]) -> None:
    reflected = interface(glsl("spec"))
    assert [
        (constant.spec_id, constant.name, constant.dtype, constant.default) for constant in reflected.spec_constants
    ] == [
        (0, "on", "bool", True),
        (1, "negative", "int32", -5),
        (2, "many", "uint32", 4_000_000_000),
        (3, "half_", "float32", 0.5),
        (4, "third", "float64", 1 / 3),
        (5, "big", "int64", -9_000_000_000),
        (6, "huge", "uint64", 2**64 - 1),
        (7, "small", "float16", 1.5),
        (8, "short_", "int16", -3),
        (9, "byte_", "uint8", 200),
        (10, "", "uint32", 1),
        (12, "", "uint32", 1),
    ]
    assert type(reflected.spec_constants[0].default) is bool


def test_local_sizes_come_from_wherever_they_are_given(glsl: Callable[..., bytes]) -> None:
    for environment in ("vulkan1.0", "vulkan1.3"):  # a decorated constant; LocalSizeId
        local = interface(glsl("spec", "--target-env", environment)).local_size
        assert local == LocalSize((1, 4, 1), (10, None, 12))
        assert local.effective({10: 128, 0: 9}) == (128, 4, 1)
    fixed = interface(glsl("multiply")).local_size
    assert fixed == LocalSize((64, 1, 1), (None, None, None))
    assert fixed.effective({0: 3}) == (64, 1, 1)


def test_the_workgroup_size_constant_beats_the_execution_mode() -> None:
    text = f"{HEAD}{ENTRY}OpDecorate %size BuiltIn WorkgroupSize\n{TYPES}%c7 = OpConstant %uint 7\n"
    text += f"%v3 = OpTypeVector %uint 3\n%size = OpConstantComposite %v3 %c7 %c7 %c7\n{MAIN}"
    assert interface(assemble(text)).local_size.default == (7, 7, 7)


def test_a_shared_spec_id_keeps_the_name(glsl: Callable[..., bytes]) -> None:
    source = """#version 460
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WIDTH = 1;
layout(binding = 0) buffer A { uint a[]; };
void main() { a[0] = WIDTH; }
"""
    reflected = interface(glsl(source)).spec_constants
    assert [(array.spec_id, array.name, array.dtype) for array in reflected] == [(0, "WIDTH", "uint32")]


HEAD = "OpCapability Shader\nOpMemoryModel Logical GLSL450\n"
ENTRY = 'OpEntryPoint GLCompute %main "main"\nOpExecutionMode %main LocalSize 8 4 2\n'
TYPES = "%void = OpTypeVoid\n%fn = OpTypeFunction %void\n%uint = OpTypeInt 32 0\n%c0 = OpConstant %uint 0\n"
MAIN = "%main = OpFunction %void None %fn\n%entry = OpLabel\nOpReturn\nOpFunctionEnd\n"


def test_several_entry_points_have_to_be_told_apart() -> None:
    both = 'OpEntryPoint GLCompute %main "one"\nOpEntryPoint GLCompute %second "two"\n'
    modes = "OpExecutionMode %main LocalSize 1 2 3\nOpExecutionMode %second LocalSize 4 5 6\n"
    data = assemble(HEAD + both + modes + TYPES + MAIN + MAIN.replace("%main", "%second").replace("%entry", "%other"))
    with pytest.raises(SpirvError, match="2 compute entry points: 'one', 'two'"):
        interface(data)
    with pytest.raises(SpirvError, match="no compute entry point 'three'; the module has 'one', 'two'"):
        interface(data, "three")
    assert interface(data, "one").local_size.default == (1, 2, 3)
    assert interface(data, "two").local_size.default == (4, 5, 6)


def test_without_a_compute_entry_point_the_others_are_named() -> None:
    fragment = 'OpEntryPoint Fragment %main "frag"\nOpExecutionMode %main OriginUpperLeft\n'
    with pytest.raises(SpirvError, match="no compute entry point; the module has Fragment 'frag'"):
        interface(assemble(HEAD + fragment + TYPES + MAIN))
    with pytest.raises(SpirvError, match="the module has none"):
        interface(assemble(HEAD + TYPES + MAIN))


def test_an_entry_point_without_a_local_size_is_refused() -> None:
    with pytest.raises(SpirvError, match="no local size"):
        interface(assemble(HEAD + ENTRY.splitlines()[0] + "\n" + TYPES + MAIN))


BUILT_IN = (
    HEAD
    + ENTRY.replace('"main"', '"main" %in')
    + "OpDecorate %in BuiltIn {name}\n"
    + TYPES
    + "%float = OpTypeFloat 32\n%uvec3 = OpTypeVector %uint 3\n%uvec4 = OpTypeVector %uint 4\n"
    + "%pointer = OpTypePointer Input {kind}\n%in = OpVariable %pointer Input\n"
    + MAIN
)


@pytest.mark.parametrize(
    ("name", "kind", "is_valid"),
    [
        ("GlobalInvocationId", "%uvec3", True),
        ("GlobalInvocationId", "%uvec4", False),
        ("GlobalInvocationId", "%uint", False),
        ("LocalInvocationIndex", "%uint", True),
        ("LocalInvocationIndex", "%uvec3", False),
        ("LocalInvocationIndex", "%float", False),
        ("LocalInvocationIndex", "%fn", False),
    ],
)
def test_inputs_are_built_in_variables_of_their_types(name: str, kind: str, is_valid: bool) -> None:
    """SwiftShader crashes on others."""
    module = Module.parse(assemble(BUILT_IN.format(name=name, kind=kind)))
    if is_valid:
        reflect(module)
    else:
        with pytest.raises(SpirvError):
            reflect(module)


def test_an_input_that_is_no_built_in_is_refused() -> None:
    text = BUILT_IN.format(name="GlobalInvocationId", kind="%uvec3").replace("BuiltIn GlobalInvocationId", "Aliased")
    with pytest.raises(SpirvError, match="no built-in variable"):
        reflect(Module.parse(assemble(text)))


def test_the_name_of_an_entry_point_is_utf_8() -> None:
    """A driver would not find the name that replaces it."""
    module = Module.parse(assemble(BUILT_IN.format(name="GlobalInvocationId", kind="%uvec3")))
    model, function, _, *rest = module.entry_points[0].operands
    module.entry_points[0] = Instruction(15, (model, function, int.from_bytes(b"m\xa3in", "little"), *rest))
    with pytest.raises(SpirvError, match="requires UTF-8"):
        reflect(module)
