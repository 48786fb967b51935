"""Arithmetic with constant zeros, which lavapipe's compiler takes for the other operand, or for zero."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.glsl import glsl
from vkcompute.spirv.module import Module
from vkcompute.spirv.validation import validate
from vkcompute.spirv.zeros import hide_zeros

SPECIAL = np.array([1, np.nan, np.inf, -np.inf, -2, -0.0, 0.0, 0.5])
EXPRESSIONS = {
    "zero * x": lambda x: x * 0, "x * zero": lambda x: x * 0, "x + zero": lambda x: x + 0, "zero - x": lambda x: 0 - x,
    "zero / x": lambda x: 0 / x, "x / zero": lambda x: x / x.dtype.type(0), "x - minus": lambda x: x + 0,
    "x + zero - minus": lambda x: x + 0, "x + minus": lambda x: x,
}  # fmt: skip
SOURCE = """
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 8) in;
layout(binding = 0) readonly buffer X {{ {kind} x[]; }};
layout(binding = 1) writeonly buffer Out {{ {kind} results[]; }};
{declaration}
{kind} applied({kind} x) {{ precise {kind} result = {expression}; return result; }}
void main() {{
    uint i = gl_GlobalInvocationID.x;
    {vector} pair = {vector}(x[i], 1), zero = {vector}(0, 3), minus = -zero;
    {vector} x = {vector}(pair.x, 2);
    precise {vector} both = {expression};
    results[i] = applied(pair.x);
    results[i + 8] = both.x;
    results[i + 16] = both.y;
}}
"""
LOOPS = """
layout(local_size_x = 8) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Out { float results[]; };
void main() {
    float value = x[gl_LocalInvocationIndex], weight = 0.0;
    precise float by_counter = 1.0, by_weight = 1.0;
    for (int k = 0; k < 3; k++) {
        by_counter += float(k) * value;
        by_weight += weight * value;
        weight += 0.5;
    }
    results[gl_LocalInvocationIndex] = by_counter;
    results[gl_LocalInvocationIndex + 8] = by_weight;
}
"""
KINDS = {"float16": ("float16_t", "f16vec2"), "float32": ("float", "vec2"), "float64": ("double", "dvec2")}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def hidden(spirv: bytes, folder: Path) -> bytes:
    """Hides the zeros of a module, whatever the driver."""
    result = hide_zeros(spirv)
    assert len(result) > len(spirv)
    validate(Module.parse(result))
    if shutil.which("spirv-val"):
        (folder / "hidden.spv").write_bytes(result)
        subprocess.run(["spirv-val", "--target-env", "vulkan1.2", str(folder / "hidden.spv")], check=True)
    return result


def same(result: Any, expected: Any) -> None:
    """Asserts that numbers are equal, NaN in the same places, and zeros of the same sign."""
    np.testing.assert_array_equal(result, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result)[numbers], np.signbit(expected)[numbers])


CONSTANTS = {
    "constants": "const {kind} zero = {kind}(0), minus = -zero;",
    "specialized": "layout(constant_id = 0) const {kind} zero = {kind}(0); {kind} minus = -zero;",
    "integers": "layout(constant_id = 0) const int whole = 0; {kind} zero = {kind}(whole), minus = -zero;",
}


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("constants", CONSTANTS)
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_numbers_and_vectors(
    gpu: vc.Runtime, expression: str, dtype: str, constants: str, tmp_path: Path, *, everywhere: bool
) -> None:
    if lacks(gpu, dtype, in_shaders=True):
        pytest.skip(f"the device lacks {dtype}")
    kind, vector = KINDS[dtype]
    declaration = CONSTANTS[constants].format(kind=kind)
    source = SOURCE.format(kind=kind, vector=vector, expression=expression, declaration=declaration)
    spirv = glsl(source, target="vulkan1.2")
    x, out = SPECIAL.astype(dtype), gpu.zeros(24, dtype)
    gpu.kernel(hidden(spirv, tmp_path) if everywhere else spirv)(gpu.array(x), out, grid=1)
    expected = EXPRESSIONS[expression](x).astype(dtype)
    same(out.numpy()[:8], expected)
    same(out.numpy()[8:16], expected)


@pytest.mark.parametrize("dtype", KINDS)
def test_negative_zeros_that_are_specialization_constants(gpu: vc.Runtime, dtype: str) -> None:
    if lacks(gpu, dtype, in_shaders=True):
        pytest.skip(f"the device lacks {dtype}")
    kind, vector = KINDS[dtype]
    declaration = f"layout(constant_id = 0) const {kind} minus = {kind}(-0.0); const {kind} zero = {kind}(0);"
    source = SOURCE.format(kind=kind, vector=vector, expression="x + minus", declaration=declaration)
    x, out = SPECIAL.astype(dtype), gpu.zeros(24, dtype)
    gpu.kernel(glsl(source, target="vulkan1.2"))(gpu.array(x), out, grid=1)
    same(out.numpy()[:8], x)


@pytest.mark.parametrize("everywhere", [False, True])
def test_loops_that_the_driver_unrolls(gpu: vc.Runtime, tmp_path: Path, *, everywhere: bool) -> None:
    spirv = glsl(LOOPS)
    x, out = SPECIAL.astype(np.float32), gpu.zeros(16)
    gpu.kernel(hidden(spirv, tmp_path) if everywhere else spirv)(gpu.array(x), out, grid=1)
    same(out.numpy()[:8], 1 + 0 * x + x + 2 * x)
    same(out.numpy()[8:], 1 + 0 * x + np.float32(0.5) * x + x)


@vc.kernel
def weighted(x: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < out.size:
        total = 1.0
        for k in range(3):
            total += k * x[i]
        out[i] = total * False


def test_kernels_in_python(gpu: vc.Runtime) -> None:
    x = SPECIAL.astype(np.float32)
    out = gpu.empty(8)
    weighted(gpu.array(x), out)
    same(out.numpy(), (1 + 0 * x + x + 2 * x) * np.float32(0))
    for name in ("x * 0.0", "0.0 + x", "0.0 - x", "0.0 / x", "x * False"):
        expected = eval(name, {"x": x})
        same(vc.elementwise(name)(gpu.array(x)).numpy(), expected)


def test_arrays_and_comparisons_that_are_known(gpu: vc.Runtime) -> None:
    x, small = SPECIAL.astype(np.float32), np.arange(8, dtype=np.int32)
    a, b = gpu.array(x), gpu.array(small)
    for never in (b > 2**40, vnp.isnan(b), b == 2.5):
        same((never * a).numpy(), np.zeros(8, bool) * x)
        same((a / never).numpy(), x / np.zeros(8, bool))
        same((a + never).numpy(), x + np.zeros(8, bool))


def test_modules_without_zeros_stay_as_they_are() -> None:
    spirv = glsl("layout(local_size_x = 1) in; layout(binding = 0) buffer A { float a[]; }; void main() { a[0] *= 2; }")
    assert hide_zeros(spirv) is spirv
