"""Conversions that a driver computes wrongly, replaced: of numbers and vectors, right on every driver."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.glsl import glsl
from vkcompute.spirv.conversions import CONVERSIONS, replace_conversions
from vkcompute.spirv.module import Module
from vkcompute.spirv.validation import validate

EXTENSIONS = """
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
"""
SOURCE = """
{extensions}
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer In {{ {source} given[]; }};
layout(binding = 1) writeonly buffer Out {{ {target} results[]; }};
void main() {{
    uint i = 3 * gl_GlobalInvocationID.x;
    {source}vec3 x = {source}vec3(given[i], given[i + 1], given[i + 2]);
    {target}vec3 y = {target}vec3(x);
    results[i] = {target}(given[i]);
    results[i + 1] = y.y;
    results[i + 2] = y.z;
}}
"""
SHORT = {"int32": "i", "uint32": "u", "float32": "", "float64": "d"}


def given(name: str) -> np.ndarray:
    random = np.random.default_rng(3)
    if name != "float64":
        return random.integers(0, 2**32, 64 * 300, dtype=np.uint32).view(name)
    halves = random.uniform(-2000, 2000, 64 * 150).astype(np.float16).astype(np.float64)
    between = (halves + np.nextafter(halves.astype(np.float16), np.float16(9999)).astype(np.float64)) / 2
    above = np.nextafter(between, np.inf)  # float32 loses this, and a tie is left
    return np.concatenate([between, above * random.choice([1, 1 + 1e-9, 1 - 1e-9], above.shape)])


@pytest.mark.parametrize("name", CONVERSIONS)
@pytest.mark.parametrize("where", ["by the table of quirks", "everywhere"])
def test_numbers_and_vectors_convert_as_in_numpy(gpu: vc.Runtime, name: str, where: str, tmp_path: Path) -> None:
    source, target = name.split(" to ")
    types = {name: f"{name}_t" for name in (source, target)}
    text = SOURCE.format(source="SOURCE", target="TARGET", extensions=EXTENSIONS)
    for role, kind in (("SOURCE", source), ("TARGET", target)):
        vector = f"{SHORT[kind]}vec3" if kind in SHORT else {"int64": "i64vec3", "float16": "f16vec3"}[kind]
        text = text.replace(f"{role}vec3", vector).replace(role, types[kind])
    spirv = glsl(text)
    if where == "everywhere":
        replaced = replace_conversions(spirv, CONVERSIONS)
        assert len(replaced) > len(spirv)
        spirv = replaced
        validate(Module.parse(spirv))
        if shutil.which("spirv-val"):
            (tmp_path / "replaced.spv").write_bytes(spirv)
            subprocess.run(["spirv-val", "--target-env", "vulkan1.2", str(tmp_path / "replaced.spv")], check=True)
    x = given(source)
    out = gpu.zeros(len(x), target)
    try:
        gpu.kernel(spirv)(gpu.array(x), out, grid=len(x) // 192)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    assert np.array_equal(out.numpy(), x.astype(target))


def test_a_module_without_them_is_unchanged() -> None:
    spirv = glsl(
        "layout(local_size_x = 1) in;\nlayout(binding = 0) buffer A { int a; };\nvoid main() { a += int(float(a)); }"
    )
    assert replace_conversions(spirv, CONVERSIONS) is spirv
