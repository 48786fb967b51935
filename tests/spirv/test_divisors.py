"""Integers are divided by divisors that compilers know for each lane, among them zeros that no lane divides by."""

from __future__ import annotations

import numpy as np
import pytest
from runtimes import lacks

import vkcompute as vc
from vkcompute.glsl import glsl
from vkcompute.spirv.divisors import hide_divisors

KINDS = {
    "int32": ("int", "ivec2"),
    "uint32": ("uint", "uvec2"),
    "int64": ("int64_t", "i64vec2"),
    "uint64": ("uint64_t", "u64vec2"),
    "int16": ("int16_t", "i16vec2"),
}
TEXT = """
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#define T {kind}
layout(local_size_x = {size}) in;
layout(binding = 0) readonly buffer A {{ T a[]; }};
layout(binding = 1) buffer B {{ T b[]; }};
T divided(T x, T y) {{ return x {sign} y; }}
void main() {{
    uint l = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    T column = T(l % 3u) * T(2);
    bool inside = column < T(4);
    T divisor = T(4) - column;
    T x = a[gl_WorkGroupID.x * {size} + l];
    T found;
    {body}
    b[gl_WorkGroupID.x * {size} + l] = found;
}}
"""
BODIES = {
    "selection": "found = x {sign} (inside ? divisor : T(1));",
    "branches": "T d; if (inside) {{ d = divisor; }} else {{ d = T(1); }} found = x {sign} d;",
    "maximum": "found = x {sign} max(inside ? divisor : T(1), T(1));",
    "function": "found = divided(x, inside ? divisor : T(1));",
    "vector": "{vector} d = {vector}(inside ? divisor : T(1), T(1)); found = ({vector}(x, T(7)) {sign} d).x;",
    "constant": "found = x {sign} T(3);",
}


@pytest.mark.parametrize("size", [1, 3, 8, 64])
@pytest.mark.parametrize("sign", ["/", "%"])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("dtype", KINDS)
def test_divisions_in_glsl(gpu: vc.Runtime, dtype: str, body: str, sign: str, size: int) -> None:
    if lacks(gpu, dtype, in_shaders=True):
        pytest.skip(f"the device lacks {dtype}")
    kind, vector = KINDS[dtype]
    text = BODIES[body].format(sign=sign, vector=vector)
    kernel = gpu.kernel(glsl(TEXT.format(kind=kind, size=size, sign=sign, body=text)))
    x = (np.arange(3 * size) + 50).astype(dtype)
    out = gpu.zeros(3 * size, dtype)
    kernel(gpu.array(x), out, grid=3)
    column = np.tile(np.arange(size) % 3 * 2, 3)
    divisor = np.where(body == "constant", 3, np.where(column < 4, 4 - column, 1)).astype(dtype)
    np.testing.assert_array_equal(out.numpy(), x // divisor if sign == "/" else x % divisor)


@pytest.mark.pure
def test_modules_without_unknown_divisors_stay() -> None:
    for body in ("constant", "selection"):
        text = TEXT.format(kind="uint", size=8, sign="+", body=BODIES[body].format(sign="/"))
        module = glsl(text.replace("l % 3u", "l & 1u"))
        assert (hide_divisors(module) == module) == (body == "constant")
