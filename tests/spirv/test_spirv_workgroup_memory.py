"""Workgroup memory: sums worked out by hand, lengths by specialization constants, and modules made to overwhelm."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import pytest
from spirv_khronos import assemble, optimise

from vkcompute.spirv.module import Module
from vkcompute.spirv.reflection import reflect

pytestmark = pytest.mark.pure

HEAD = """#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x_id = 3, local_size_y = 2) in;
layout(constant_id = 0) const uint N = 16;
layout(constant_id = 1) const int M = 4;
layout(constant_id = 2) const int MINUS = -4;
struct Part { vec3 v; bool b; mat3x2 m; };
layout(binding = 0) buffer A { float a[]; };
"""
ENVIRONMENTS = ("vulkan1.1", "vulkan1.3")  # local sizes are declared in two ways


def needed(data: bytes, specialization: Mapping[int, int] | None = None, entry_point: str | None = None) -> int:
    return reflect(Module.parse(data), entry_point).workgroup_memory.effective(specialization or {})


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize(
    ("declaration", "use", "specialization", "nbytes"),
    [
        ("", "0.0", {}, 0),
        ("shared float x;", "x", {}, 4),
        ("shared float x[300000];", "x[1]", {}, 1_200_000),
        ("shared double x[3][5];", "float(x[1][1])", {}, 120),
        ("shared float16_t x[7];", "float(x[1])", {}, 14),
        ("shared uint8_t x; shared i64vec3 y;", "float(x) + float(y.x)", {}, 25),
        ("shared Part x[2];", "x[1].v.x", {}, 2 * (12 + 1 + 24)),
        ("shared float x[10]; shared float unused[1000];", "x[1]", {}, 40),
        ("shared float x[N];", "x[1]", {}, 64),
        ("shared float x[N];", "x[1]", {0: 3, 1: 1000}, 12),
        ("shared vec4 x[M][N];", "x[1][1].x", {0: 5}, 16 * 4 * 5),
        ("shared vec4 x[M][N];", "x[1][1].x", {0: 5, 1: 7}, 16 * 7 * 5),
        ("shared Part x[N]; shared float y[N]; shared float z;", "x[0].v.x + y[0] + z", {0: 100}, 100 * 41 + 4),
        ("shared float x[N * 2 * M];", "x[1]", {0: 10, 1: 3}, 240),
        ("shared float x[gl_WorkGroupSize.x * gl_WorkGroupSize.y];", "x[1]", {3: 64}, 4 * 64 * 2),
        ("struct S { float f[N]; uint g[M]; }; shared S x[3];", "x[1].f[1] + x[1].g[1]", {0: 8, 1: 9}, 3 * 4 * 17),
    ],
)
def test_sizes(
    glsl: Callable[..., bytes],
    environment: str,
    declaration: str,
    use: str,
    specialization: Mapping[int, int],
    nbytes: int,
) -> None:
    source = f"{HEAD}{declaration}\nvoid main() {{ a[0] = {use}; }}"
    assert needed(glsl(source, "--target-env", environment), specialization) == nbytes


@pytest.mark.parametrize("length", ["N / 2", "N - 1", "N >> 1", "uint(MINUS)", "N + M"])
def test_a_length_computed_otherwise_counts_as_one_element(glsl: Callable[..., bytes], length: str) -> None:
    data = glsl(f"{HEAD}shared vec4 x[{length}]; shared float y[4];\nvoid main() {{ a[0] = x[0].x + y[1]; }}")
    assert needed(data) == needed(data, {0: 100_000}) == 16 + 16


def test_variables_count_through_calls(glsl: Callable[..., bytes]) -> None:
    """Written only, handed to a function, or named in one that is never called."""
    source = f"""{HEAD}
    shared float w[3], c[5], n[7], r[11];
    void never() {{ n[0] = 1; }}
    void fill(inout float x) {{ x = 2; }}
    float inner() {{ return c[1]; }}
    void main() {{ w[0] = a[0]; fill(r[1]); a[1] = inner(); }}
    """
    data = glsl(source)
    assert needed(data) == 4 * (3 + 5 + 11)
    assert needed(optimise(data, "--inline-entry-points-exhaustive", "--strip-debug")) == 4 * (3 + 5 + 11)


def test_entry_points_have_their_own() -> None:
    text = f"""{_HEAD}
    OpEntryPoint GLCompute %one "one"
    OpEntryPoint GLCompute %two "two"
    OpExecutionMode %one LocalSize 1 1 1
    OpExecutionMode %two LocalSize 1 1 1
    {_TYPES}
    %array = OpTypeArray %float %n
    %pa = OpTypePointer Workgroup %array
    %pf = OpTypePointer Workgroup %float
    %x = OpVariable %pa Workgroup
    %y = OpVariable %pf Workgroup
    {_main("one", "%v1 = OpLoad %array %x")}
    {_main("two", "%v2 = OpLoad %float %y")}
    """
    data = assemble(text)
    assert needed(data, entry_point="one") == 40
    assert needed(data, entry_point="two") == 4


_HEAD = "OpCapability Shader\nOpMemoryModel Logical GLSL450\n"
_TYPES = """
%void = OpTypeVoid
%fn = OpTypeFunction %void
%uint = OpTypeInt 32 0
%float = OpTypeFloat 32
%n = OpConstant %uint 10
"""


def _main(name: str, body: str) -> str:
    return f"%{name} = OpFunction %void None %fn\n%in_{name} = OpLabel\n{body}\nOpReturn\nOpFunctionEnd\n"


def _module(declarations: str, kind: str, decorations: str = "", body: str = "") -> bytes:
    entry = 'OpEntryPoint GLCompute %main "main"\nOpExecutionMode %main LocalSize 1 1 1\n'
    variable = f"%p = OpTypePointer Workgroup {kind}\n%x = OpVariable %p Workgroup\n"
    return assemble(
        f"{_HEAD}{entry}{decorations}{_TYPES}{declarations}{variable}"
        f"{_main('main', f'%v = OpLoad {kind} %x' + chr(10) + body)}"
    )


def test_of_blocks_with_an_explicit_layout_the_largest_counts() -> None:
    """They may lie over one another: SPV_KHR_workgroup_memory_explicit_layout."""
    array = "%array = OpTypeArray %float %n\n%s = OpTypeStruct %array\n"
    more = "%t = OpTypeStruct %array %float\n%pt = OpTypePointer Workgroup %t\n%y = OpVariable %pt Workgroup\n"
    use = "%w = OpLoad %t %y"
    assert needed(_module(array + more, "%s", body=use)) == 84
    assert needed(_module(array, "%s", "OpDecorate %s Block\n")) == 40
    assert needed(_module(array + more, "%s", "OpDecorate %s Block\nOpDecorate %t Block\n", use)) == 44


def test_a_block_whose_size_is_a_specialization_constant_is_left_out() -> None:
    declarations = "%m = OpSpecConstant %uint 3\n%array = OpTypeArray %float %m\n%s = OpTypeStruct %array\n"
    decorations = "OpDecorate %m SpecId 0\n"
    assert needed(_module(declarations, "%s", decorations)) == 12
    assert needed(_module(declarations, "%s", decorations + "OpDecorate %s Block\n")) == 0


@pytest.mark.parametrize("kind", ["structures", "arrays", "products", "squares"])
def test_a_module_made_to_overwhelm_takes_no_time_and_is_not_overcounted(kind: str) -> None:
    """Each level doubles, or multiplies, what the one before it has."""
    lines, last, decorations = [], "%float", []
    for k in range(60):
        decorations.append(f"OpDecorate %c{k} SpecId {k}")
        lines.append(f"%c{k} = OpSpecConstant %uint 3")
        if kind == "structures":
            lines += [f"%a{k} = OpTypeArray {last} %c{k}", f"%s{k} = OpTypeStruct {last} %a{k}"]
            last = f"%s{k}"
        elif kind == "arrays":
            lines.append(f"%a{k} = OpTypeArray {last} %n")
            last = f"%a{k}"
        else:
            before = f"%m{k - 1}" if k else "%c0" if kind == "products" else "%n"
            factor = f"%c{k}" if kind == "products" else before
            lines.append(f"%m{k} = OpSpecConstantOp %uint IMul {before} {factor}")
    if kind in ("products", "squares"):
        lines.append("%a = OpTypeArray %float %m59")
        last = "%a"
    data = _module("\n".join(lines) + "\n", last, "\n".join(decorations) + "\n")
    start = time.thread_time()
    result = needed(data)
    assert time.thread_time() - start < 1
    exact = {"structures": 4**61, "arrays": 4 * 10**60, "products": 4 * 3**61, "squares": 4 * 10 ** (2**20)}
    assert 4 <= result <= exact[kind]
    assert needed(data, dict.fromkeys(range(60), 0)) <= result
