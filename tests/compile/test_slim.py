"""Slimmed shaders declare the same and are valid."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from vkcompute.compilers.slim import slim
from vkcompute.glsl import glsl
from vkcompute.spirv.check import check
from vkcompute.spirv.module import Module
from vkcompute.spirv.reflect import reflect

pytestmark = pytest.mark.pure

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


def test_slimming_twice_changes_nothing() -> None:
    small = slim(glsl(SOURCE))
    assert slim(small) == small
