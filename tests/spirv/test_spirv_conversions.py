"""Conversions that a driver computes wrongly, replaced: of numbers and vectors, right on every driver."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from runtimes import skipped_where_missing

import vkcompute as vc
from vkcompute.glsl import glsl
from vkcompute.spirv import opcodes as op
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
ROUNDED = """
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer In {{ double given[]; }};
layout(binding = 1) writeonly buffer Out {{ double results[]; }};
void main() {{
    uint i = 3 * gl_GlobalInvocationID.x;
    dvec3 y = {function}(dvec3(given[i], given[i + 1], given[i + 2]));
    results[i] = {function}(given[i]);
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


def replaced(spirv: bytes, folder: Path) -> bytes:
    """Replaces all conversions, whatever the driver."""
    result = replace_conversions(spirv, CONVERSIONS)
    assert len(result) > len(spirv)
    validate(Module.parse(result))
    if shutil.which("spirv-val"):
        (folder / "replaced.spv").write_bytes(result)
        subprocess.run(["spirv-val", "--target-env", "vulkan1.2", str(folder / "replaced.spv")], check=True)
    return result


@pytest.mark.parametrize("name", [name for name in CONVERSIONS if " to " in name])
@pytest.mark.parametrize("where", ["by the table of quirks", "everywhere"])
def test_numbers_and_vectors_convert_as_in_numpy(gpu: vc.Runtime, name: str, where: str, tmp_path: Path) -> None:
    source, target = name.split(" to ")
    types = {name: f"{name}_t" for name in (source, target)}
    text = SOURCE.format(source="SOURCE", target="TARGET", extensions=EXTENSIONS)
    for role, kind in (("SOURCE", source), ("TARGET", target)):
        vector = f"{SHORT[kind]}vec3" if kind in SHORT else {"int64": "i64vec3", "float16": "f16vec3"}[kind]
        text = text.replace(f"{role}vec3", vector).replace(role, types[kind])
    spirv = glsl(text)
    agree(gpu, replaced(spirv, tmp_path) if where == "everywhere" else spirv, given(source), target)


@pytest.mark.parametrize(("wide", "narrow"), [("float64", "float32"), ("float32", "float16"), ("float64", "float16")])
@pytest.mark.parametrize("where", ["by the table of quirks", "everywhere"])
def test_a_conversion_and_the_one_back_round(
    gpu: vc.Runtime, wide: str, narrow: str, where: str, tmp_path: Path
) -> None:
    text = SOURCE.format(source="SOURCE", target="SOURCE", extensions=EXTENSIONS)
    vectors = {"float64": "dvec3", "float32": "vec3", "float16": "f16vec3"}
    text = text.replace("SOURCEvec3 y = SOURCEvec3(x)", f"SOURCEvec3 y = SOURCEvec3({vectors[narrow]}(x))")
    text = text.replace("SOURCE(given[i])", f"SOURCE({narrow}_t(given[i]))")
    spirv = glsl(text.replace("SOURCEvec3", vectors[wide]).replace("SOURCE", f"{wide}_t"))
    x = np.random.default_rng(6).uniform(-2000, 2000, 64 * 6).astype(wide)
    agree(gpu, replaced(spirv, tmp_path) if where == "everywhere" else spirv, x, wide, x.astype(narrow).astype(wide))


@pytest.mark.parametrize("function", [np.trunc, np.rint])
@pytest.mark.parametrize("where", ["by the table of quirks", "everywhere"])
def test_doubles_are_rounded_as_in_numpy(gpu: vc.Runtime, function: np.ufunc, where: str, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    special = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, 2**52 + 0.5, 2**53 + 1, np.inf, -np.inf, np.nan]
    n = 96 * 100 - len(special) // 2
    large = np.exp2(random.uniform(-3, 54, n)) * random.choice([-1, 1], n)
    x = np.concatenate([special, large, np.floor(large) + 0.5])
    for name in ["trunc"] if function is np.trunc else ["roundEven", "round"]:
        spirv = glsl(ROUNDED.format(function=name))
        agree(gpu, replaced(spirv, tmp_path) if where == "everywhere" else spirv, x, "float64", function(x))


def agree(gpu: vc.Runtime, spirv: bytes, x: np.ndarray, target: str, expected: np.ndarray | None = None) -> None:
    out = gpu.zeros(len(x), target)
    with skipped_where_missing():
        gpu.kernel(spirv)(gpu.array(x), out, grid=len(x) // 192)
    result, right = out.numpy(), x.astype(target) if expected is None else expected
    np.testing.assert_array_equal(result, right)
    if target == "float64":
        np.testing.assert_array_equal(np.signbit(result), np.signbit(right))


def test_constants_that_look_like_a_conversion_are_none() -> None:
    spirv = glsl(
        "layout(local_size_x = 1) in;\nlayout(binding = 0) buffer A { uint a; };\n"
        f"void main() {{ a += {4 << 16 | op.OpSConvert}u; }}"
    )
    assert (4 << 16 | op.OpSConvert) in np.frombuffer(spirv, np.uint32)
    assert replace_conversions(spirv, CONVERSIONS) is spirv


def test_a_module_without_them_is_unchanged() -> None:
    spirv = glsl(
        "layout(local_size_x = 1) in;\nlayout(binding = 0) buffer A { int a; };\nvoid main() { a += int(float(a)); }"
    )
    assert replace_conversions(spirv, CONVERSIONS) is spirv
