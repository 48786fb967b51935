"""Infinities, NaN and the sign of zero are kept by arithmetic, in kernels in GLSL, too."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.glsl import glsl
from vkcompute.spirv.float_controls import preserve_special_floats
from vkcompute.spirv.module import Module
from vkcompute.spirv.reflection import reflect
from vkcompute.spirv.validation import validate

DIFFERENCE = """
layout(local_size_x = 8) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Out { float differences[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    float least = uintBitsToFloat(0xFF800000u);
    precise float difference = x[i] - x[i];  // without `precise`, Mesa 26 computes 0
    differences[i] = difference;
    differences[i + 8] = abs(least - max(x[i], 0.0));
}
"""
WHOLE = "layout(local_size_x = 1) in;\nlayout(binding = 0) buffer A { int a; };\nvoid main() { a += 1; }"


def test_arithmetic_in_glsl_keeps_them(gpu: vc.Runtime) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 1, 0, -0.0, 3e38, -2], np.float32)
    out = gpu.zeros(16)
    gpu.kernel(glsl(DIFFERENCE))(gpu.array(x), out, grid=1)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out.numpy()[:8], x - x)
    infinite = out.numpy()[8:][~np.isnan(x)]
    assert (infinite == np.inf).all()


@pytest.mark.pure
def test_the_mode_is_declared_once_for_each_width_that_is_used(tmp_path: Path) -> None:
    spirv = glsl(DIFFERENCE)
    capabilities = reflect(Module.parse(spirv)).capabilities
    result = preserve_special_floats(spirv, capabilities, (16, 32, 64))
    module = Module.parse(result)
    validate(module)
    interface = reflect(module)
    assert interface.float_controls == ("shaderSignedZeroInfNanPreserveFloat32",)
    assert "SPV_KHR_float_controls" in interface.extensions
    assert preserve_special_floats(result, interface.capabilities, (16, 32, 64)) is result
    if shutil.which("spirv-val"):
        (tmp_path / "found.spv").write_bytes(result)
        subprocess.run(["spirv-val", "--target-env", "vulkan1.2", str(tmp_path / "found.spv")], check=True)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("source", "more", "widths"),
    [(WHOLE, (), (16, 32, 64)), (DIFFERENCE, (), (16, 64)), (DIFFERENCE, ("FloatControls2",), (16, 32, 64))],
)
def test_other_modules_are_unchanged(source: str, more: tuple[str, ...], widths: tuple[int, ...]) -> None:
    spirv = glsl(source)
    capabilities = (*reflect(Module.parse(spirv)).capabilities, *more)
    assert preserve_special_floats(spirv, capabilities, widths) is spirv
