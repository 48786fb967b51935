"""Integers are divided by divisors that compilers know for each lane, among them zeros that no lane divides by."""

from __future__ import annotations

from collections.abc import Sequence

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
HEAD = """
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#define T {kind}
layout(local_size_x = {size}) in;
layout(binding = 0) readonly buffer A {{ T a[]; }};
layout(binding = 1) buffer B {{ T b[]; }};
{functions}
void main() {{
    uint l = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    T column = T(l % 3u) * T(2);
    bool inside = column < T(4);
    T divisor = T(4) - column;
    T x = a[gl_WorkGroupID.x * {size} + l];
    T result;
"""
STORE = "b[{number} * {n} + gl_WorkGroupID.x * {size} + l] = result;"
BODIES = {
    "selection": "result = x {sign} (inside ? divisor : T(1));",
    "branches": "{{ T d; if (inside) {{ d = divisor; }} else {{ d = T(1); }} result = x {sign} d; }}",
    "maximum": "result = x {sign} max(inside ? divisor : T(1), T(1));",
    "function": "result = {function}(x, inside ? divisor : T(1));",
    "vector": "{{ {vector} d = {vector}(inside ? divisor : T(1), T(1)); result = ({vector}(x, T(7)) {sign} d).x; }}",
    "constant": "result = x {sign} T(3);",
}
FUNCTIONS = {"/": "quotient", "%": "remainder"}
DIVISIONS = [(body, sign) for body in BODIES for sign in FUNCTIONS]


def text_of(kind: str, vector: str, size: int, divisions: Sequence[tuple[str, str]]) -> str:
    """GLSL that stores the result of each division, one after the other, of 3 workgroups."""
    called = [
        f"T {FUNCTIONS[sign]}(T x, T y) {{ return x {sign} y; }}" for body, sign in divisions if body == "function"
    ]
    lines = [HEAD.format(kind=kind, size=size, functions="\n".join(called))]
    for number, (body, sign) in enumerate(divisions):
        lines.append(BODIES[body].format(sign=sign, vector=vector, function=FUNCTIONS[sign]))
        lines.append(STORE.format(number=number, n=3 * size, size=size))
    return "\n".join([*lines, "}"])


@pytest.mark.parametrize("size", [1, 3, 8, 64])
@pytest.mark.parametrize("dtype", KINDS)
def test_divisions_in_glsl(gpu: vc.Runtime, dtype: str, size: int) -> None:
    if lacks(gpu, dtype, in_shaders=True):
        pytest.skip(f"the device lacks {dtype}")
    kernel = gpu.kernel(glsl(text_of(*KINDS[dtype], size, DIVISIONS)))
    x = (np.arange(3 * size) + 50).astype(dtype)
    out = gpu.zeros((len(DIVISIONS), 3 * size), dtype)
    kernel(gpu.array(x), out, grid=3)
    column = np.tile(np.arange(size) % 3 * 2, 3)
    for result, (body, sign) in zip(out.numpy(), DIVISIONS, strict=True):
        divisor = np.where(body == "constant", 3, np.where(column < 4, 4 - column, 1)).astype(dtype)
        np.testing.assert_array_equal(result, x // divisor if sign == "/" else x % divisor, err_msg=f"{body} {sign}")


@pytest.mark.pure
def test_modules_without_unknown_divisors_stay() -> None:
    for body in ("constant", "selection"):
        text = text_of(*KINDS["uint32"], 8, [(body, "/")])
        module = glsl(text.replace("l % 3u", "l & 1u"))
        assert (hide_divisors(module) == module) == (body == "constant")
