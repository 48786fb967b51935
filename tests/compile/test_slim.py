"""Slimmed shaders declare the same, are valid, and compute the same."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute.compilers.slim import slim
from vkcompute.glsl import glsl
from vkcompute.spirv.check import check
from vkcompute.spirv.module import Module
from vkcompute.spirv.reflect import reflect

SOURCE = """
layout(local_size_x_id = 0) in;
layout(constant_id = 3) const float SCALE = 2.0;
layout(constant_id = 4) const bool FLIP = false;
struct Pair { vec2 left; uint right; };
layout(set = 0, binding = 0) readonly buffer In { Pair pairs[]; } source;
layout(set = 0, binding = 2) buffer Out { float values[]; };
layout(push_constant) uniform Parameters { uint n; float offset; };
shared float scratch[64];
float helper(float argument) { float local = argument * SCALE; return FLIP ? -local : local; }
void main() {
    uint index = gl_GlobalInvocationID.x;
    scratch[index % 64u] = 1.0;
    if (index < n) values[index] = helper(source.pairs[index].left.x) + offset;
}
"""


@pytest.mark.pure
def test_the_interface_is_the_same_and_local_names_are_gone(tmp_path: Path) -> None:
    whole = glsl(SOURCE)
    small = slim(whole)
    assert len(small) < len(whole)
    assert reflect(Module.parse(small)) == reflect(Module.parse(whole))
    for name in (b"values", b"Parameters", b"offset", b"SCALE", b"FLIP"):
        assert name in small
    for name in (b"local", b"argument", b"helper", b"index", b"scratch", b"gl_GlobalInvocationID"):
        assert name in whole
        assert name not in small
    check(Module.parse(small))
    if shutil.which("spirv-val"):
        (tmp_path / "small.spv").write_bytes(small)
        subprocess.run(["spirv-val", "--target-env", "vulkan1.2", str(tmp_path / "small.spv")], check=True)


@pytest.mark.pure
def test_slimming_twice_changes_nothing() -> None:
    small = slim(glsl(SOURCE))
    assert slim(small) == small


_VALUES = st.sampled_from(["a", "b", "c", "3u", "n", "lane", "v.x", "v[a & 1u]", "shared_words[lane]"])
_EXPRESSIONS = st.one_of(
    _VALUES,
    st.tuples(_VALUES, st.sampled_from(["+", "*", "^", "-"]), _VALUES).map(lambda parts: "(" + " ".join(parts) + ")"),
    _VALUES.map(lambda value: f"twice({value})"),
    st.tuples(_VALUES, _VALUES).map(lambda pair: f"({pair[0]} > {pair[1]} && FLIP ? {pair[0]} : {pair[1]})"),
)
_CONDITIONS = st.tuples(_VALUES, st.sampled_from(["<", "==", "!="]), _VALUES).map(" ".join)
_ASSIGNMENTS = st.tuples(st.sampled_from(["a", "b", "c", "v.x", "v.y", "shared_words[lane]"]), _EXPRESSIONS).map(
    lambda pair: f"{pair[0]} = {pair[1]};"
)
_SIMPLE = _ASSIGNMENTS | st.sampled_from(["change(a, b);", "change(v.x, c);", "{ uint d; if (FLIP) d = a; b = c; }"])


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    block = st.lists(inner, max_size=3).map(" ".join)
    return st.one_of(
        st.tuples(_CONDITIONS, block, block).map(lambda p: f"if ({p[0]}) {{ {p[1]} }} else {{ {p[2]} }}"),
        st.tuples(_CONDITIONS, block).map(lambda p: f"if ({p[0]}) {{ {p[1]} values[lane] = a; return; }}"),
        st.tuples(block, _CONDITIONS, st.sampled_from(["break", "continue"]), block).map(
            lambda p: f"for (uint i = 0u; i < 3u; ++i) {{ {p[0]} if ({p[1]}) {p[2]}; {p[3]} a += i; }}"
        ),
        st.tuples(_VALUES, block, block).map(
            lambda p: f"switch ({p[0]} & 3u) {{ case 0u: {p[1]} break; case 1u: {p[2]} default: c += 1u; }}"
        ),
        st.tuples(block, _CONDITIONS).map(lambda p: f"{{ uint k = 0u; do {{ {p[0]} }} while ({p[1]} && ++k < 3u); }}"),
    )


_STATEMENTS = st.lists(st.recursive(_SIMPLE, _nested, max_leaves=12), min_size=1, max_size=6).map("\n    ".join)
_PROGRAM = """
layout(local_size_x = 8) in;
layout(constant_id = 0) const bool FLIP = false;
layout(set = 0, binding = 0) buffer Words {{ uint values[]; }};
layout(push_constant) uniform Parameters {{ uint n; }};
shared uint shared_words[8];
uint twice(uint x) {{ x *= 2u; return x; }}
void change(inout uint x, const uint y) {{ if (x == y) return; x = y - x; }}
void main() {{
    uint lane = gl_LocalInvocationID.x, a = values[lane], b = a >> 3, c = n;
    uvec2 v = uvec2(a, 7u);
    shared_words[lane] = b;
    {statements}
    values[lane] = a ^ b * 3u ^ c * 5u ^ v.x * 7u ^ v.y * 11u ^ shared_words[lane] * 13u;
}}
"""


@given(statements=_STATEMENTS, seed=st.integers(0, 2**32 - 1), flip=st.booleans())
@settings(max_examples=30, deadline=None)
def test_a_slimmed_shader_computes_the_same(gpu: vc.Runtime, statements: str, seed: int, flip: bool) -> None:
    whole = glsl(_PROGRAM.format(statements=statements))
    small = slim(whole)
    check(Module.parse(small))
    assert len(small) < len(whole)
    words = np.random.default_rng(seed).integers(0, 9, 8, np.uint32)
    results = []
    for spirv in (whole, small):
        tensor = gpu.tensor(words)
        gpu.kernel(spirv, constants={"FLIP": flip})(tensor, seed % 5, grid=1)
        results.append(tensor.numpy())
    np.testing.assert_array_equal(*results)
