"""Functions of constants in branches: SwiftShader's optimizer takes them for the constants of other branches."""

from __future__ import annotations

import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.glsl import glsl
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.constant_operands import hide_constant_operands
from vkcompute.spirv.float_controls import preserve_special_floats
from vkcompute.spirv.module import Module
from vkcompute.spirv.validation import validate

TWO, FOUR, FIVE = np.float32(2), np.int32(4), np.int32(5)

SOURCE = """
layout(local_size_x = 8) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Out { float results[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    float two = 2.0, three = 3.0, value = 1.5;
    vec2 pair = vec2(7.0, 8.0), both = vec2(1.0, 2.0);
    int number = 4;
    if (x[i] > three) {
        value = FUNCTION;
        pair = min(both, vec2(1.5));
        number = min(number << 2, 5);
    }
    results[i] = value;
    results[i + 8] = pair.x + pair.y;
    results[i + 16] = float(number);
}
"""
FUNCTIONS = {
    "sqrt(two)": math.sqrt(2), "pow(two, three)": 8, "sin(two)": math.sin(2), "max(two, three)": 3,
    "clamp(three, 1.0, two)": 2, "mix(two, three, 0.5)": 2.5, "exp2(three)": 8, "atan(two, three)": math.atan2(2, 3),
}  # fmt: skip


@vc.kernel(fast_math=True)  # leaves the root to the driver
def root(x: vc.float32[:], out: vc.float32[:]) -> None:
    i = vc.global_id(0)
    value = np.float32(1.5)
    if x[i] > 3:
        value = np.sqrt(TWO)
    out[i] = value


@vc.kernel
def expression(x: vc.float32[:], out: vc.float32[:]) -> None:
    i = vc.global_id(0)
    out[i] = np.sqrt(TWO) if x[i] > 3 else np.float32(1.5)


@vc.kernel
def shifted(x: vc.float32[:], out: vc.float32[:]) -> None:
    i = vc.global_id(0)
    value = FOUR
    if x[i] > 3:
        value = min(FOUR << 2, FIVE)
    out[i] = value


@vc.kernel
def vectors(x: vc.float32[:], out: vc.float32[:]) -> None:
    i = vc.global_id(0)
    value = vc.int32x3(4, 1, 9)
    if x[i] > 3:
        value ^= min(vc.int32x3(4, 1, 9) << 2, 5)
    out[i] = value @ vc.int32x3(1, 16, 256)


@vc.kernel
def looped(x: vc.float32[:], out: vc.float32[:]) -> None:
    i = vc.global_id(0)
    value, k = TWO, 0
    while k < x[i] - 3:
        value = np.sqrt(TWO)
        k += 1
    out[i] = value


X = np.arange(8, dtype=np.float32)
KERNELS = {
    root: (1.5, math.sqrt(2)), expression: (1.5, math.sqrt(2)), shifted: (4, 5),
    vectors: (4 + 16 + 9 * 256, 1 + 5 * 16 + 12 * 256), looped: (2, math.sqrt(2)),
}  # fmt: skip


def hidden(spirv: bytes, folder: Path) -> bytes:
    """Hides operands, whatever the driver."""
    result = hide_constant_operands(spirv)
    validate(Module.parse(result))
    if shutil.which("spirv-val"):
        (folder / "hidden.spv").write_bytes(result)
        subprocess.run(["spirv-val", "--target-env", "vulkan1.2", str(folder / "hidden.spv")], check=True)
    return result


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_branches_keep_functions_of_constants(gpu: vc.Runtime, kernel: Any) -> None:
    out = gpu.zeros(8)
    kernel[1, 8](gpu.array(X), out)
    below, above = KERNELS[kernel]
    np.testing.assert_allclose(out.numpy(), np.where(X > 3, above, below), rtol=1e-6)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("where", ["by the table of quirks", "everywhere"])
def test_branches_in_glsl_keep_them(gpu: vc.Runtime, function: str, where: str, tmp_path: Path) -> None:
    spirv, out = glsl(SOURCE.replace("FUNCTION", function)), gpu.zeros(24)
    gpu.kernel(hidden(spirv, tmp_path) if where == "everywhere" else spirv)(gpu.array(X), out, grid=1)
    value, pair, number = out.numpy().reshape(3, 8)
    np.testing.assert_allclose(value, np.where(X > 3, FUNCTIONS[function], 1.5), rtol=1e-4)
    np.testing.assert_array_equal(pair, np.where(X > 3, 2.5, 15))
    np.testing.assert_array_equal(number, np.where(X > 3, 5, 4))


@pytest.mark.pure
def test_each_such_function_has_an_operand_that_is_no_constant(tmp_path: Path) -> None:
    module = Module.parse(hidden(glsl(SOURCE.replace("FUNCTION", "mix(sqrt(two), two, three)")), tmp_path))
    selected = [instruction.operands[1] for instruction in module.functions if instruction.opcode == op.OpSelect]
    called = [instruction for instruction in module.functions if instruction.opcode == op.OpExtInst]
    assert len(called) == 4
    assert [instruction.operands[4] for instruction in called] == selected
    unset = [
        instruction
        for instruction in module.declarations
        if instruction.opcode in (op.OpSpecConstantTrue, op.OpSpecConstantComposite)
    ]
    conditions = {instruction.operands[1] for instruction in unset}
    assert {
        instruction.operands[2] for instruction in module.functions if instruction.opcode == op.OpSelect
    } == conditions


@pytest.mark.pure
def test_modules_without_such_functions_are_unchanged() -> None:
    source = "layout(local_size_x = 1) in;\nlayout(binding = 0) buffer A { float a; };\nvoid main() { a = floor(a); }"
    spirv = glsl(source)
    assert hide_constant_operands(spirv) == spirv


@pytest.mark.pure
@pytest.mark.parametrize("is_hidden", [False, True])
def test_constant_propagation_of_spirv_tools(is_hidden: bool, tmp_path: Path) -> None:
    """The pass itself; where the first case fails, SPIRV-Tools is mended."""
    if not shutil.which("spirv-opt"):
        pytest.skip("spirv-opt is not installed")
    spirv = preserve_special_floats(root.spirv(), (), (32,))
    given, result = tmp_path / "given.spv", tmp_path / "found.spv"
    given.write_bytes(hidden(spirv, tmp_path) if is_hidden else spirv)
    subprocess.run(["spirv-opt", "--target-env=vulkan1.2", "--ccp", str(given), "-o", str(result)], check=True)
    functions = Module.parse(result.read_bytes()).functions
    phis = {instruction.operands[1] for instruction in functions if instruction.opcode == op.OpPhi}
    assert [instruction.operands[1] in phis for instruction in functions if instruction.opcode == op.OpStore] == [
        is_hidden
    ]
