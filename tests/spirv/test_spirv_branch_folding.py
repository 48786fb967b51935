"""Branches decided by specialization constants: the module stays valid, computes the same, and has fewer of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.glsl import glsl
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.branch_folding import fold_branches
from vkcompute.spirv.module import Module
from vkcompute.spirv.validation import validate

SOURCE = """
layout(local_size_x = 8) in;
layout(constant_id = 3) const uint MODE = 1;
layout(constant_id = 4) const bool FLIP = false;
layout(constant_id = 5) const bool TWICE = true;
layout(set = 0, binding = 0) buffer Words { uint values[]; };
uint by_mode(const uint x) {
    if (MODE == 1u) return x + 10u;
    if (MODE != 2u) return x * 3u;
    return 7u;
}
void main() {
    uint lane = gl_LocalInvocationID.x, sum = by_mode(values[lane]);
    for (uint i = 0u; i < 4u; ++i) {
        if (!FLIP && lane == i) continue;
        if (FLIP) { if (lane == 2u) break; sum += i; } else { sum ^= i; }
        if (TWICE && FLIP) sum *= 2u;
        if (lane > 5u || TWICE) sum += 1u;
    }
    values[lane] = FLIP ? sum : sum + lane;
}
"""


def model(lane: int, value: int, mode: int, flip: bool, twice: bool) -> int:
    total = {1: value + 10, 2: 7}.get(mode, value * 3)
    for i in range(4):
        if not flip and lane == i:
            continue
        if flip and lane == 2:
            break
        total = total + i if flip else total ^ i
        total *= 2 if twice and flip else 1
        total += lane > 5 or twice
    return total if flip else total + lane


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("twice", [False, True])
def test_what_is_decided_computes_the_same(gpu: vc.Runtime, mode: int, flip: bool, twice: bool, tmp_path: Path) -> None:
    constants = {3: mode, 4: int(flip), 5: int(twice)}
    spirv = fold_branches(glsl(SOURCE), constants)
    validate(Module.parse(spirv))
    if shutil.which("spirv-val"):
        (tmp_path / "decided.spv").write_bytes(spirv)
        subprocess.run(["spirv-val", "--target-env", "vulkan1.2", str(tmp_path / "decided.spv")], check=True)
    values = np.arange(8, dtype=np.uint32) * 5
    tensor = gpu.array(values)
    gpu.kernel(spirv, constants=dict(constants))(tensor, grid=1)
    expected = [model(lane, int(values[lane]), mode, flip, twice) for lane in range(8)]
    np.testing.assert_array_equal(tensor.numpy(), expected)


@pytest.mark.pure
def test_defaults_count_where_nothing_is_given_and_unknown_conditions_stay() -> None:
    def conditions(spirv: bytes) -> int:
        return sum(instruction.opcode == op.OpBranchConditional for instruction in Module.parse(spirv).functions)

    whole = glsl(SOURCE)
    assert fold_branches(whole, {}) == fold_branches(whole, {3: 1, 4: 0, 5: 1})
    assert fold_branches(whole, {}) != fold_branches(whole, {3: 2})
    # By lane: four, and the loop's end; MODE and FLIP alone decide four others.
    assert conditions(whole) - conditions(fold_branches(whole, {})) >= 4
    assert conditions(fold_branches(whole, {})) >= 3


LOOPS = """
layout(local_size_x = 8) in;
layout(constant_id = 3) const bool FLIP = false;
layout(set = 0, binding = 0) buffer Words {{ uint values[]; }};
void main() {{
    uint lane = gl_LocalInvocationID.x, sum = values[lane], k = 0u;
    {loop}
    values[lane] = sum;
}}
"""


@pytest.mark.parametrize(
    "loop",
    [
        "do { sum += 2u; } while (FLIP && ++k < 3u);",
        "do { if (FLIP) continue; sum += 2u; } while (++k < 3u);",
        "do { if (FLIP) { sum += 1u; continue; } else { sum += 2u; } } while (++k < 3u);",
        "while (true) { if (FLIP) break; if (++k > 3u) break; sum += k; }",
        "for (; k < 4u; ++k) { if (!FLIP) { if (k == lane) continue; sum += k; } else { if (k > 2u) break; } }",
        "for (; k < 3u; ++k) { if (FLIP) { for (uint j = 0u; j < 2u; ++j) { if (j == lane) continue; sum++; } } }",
    ],
)
@pytest.mark.parametrize("flip", [False, True])
def test_branches_inside_of_loops(gpu: vc.Runtime, loop: str, flip: bool, tmp_path: Path) -> None:
    spirv = glsl(LOOPS.format(loop=loop))
    result = fold_branches(spirv, {3: int(flip)})
    validate(Module.parse(result))
    if shutil.which("spirv-val"):
        (tmp_path / "decided.spv").write_bytes(result)
        subprocess.run(["spirv-val", "--target-env", "vulkan1.2", str(tmp_path / "decided.spv")], check=True)
    results = []
    for module in (spirv, result):
        words = gpu.array(np.arange(8, dtype=np.uint32))
        gpu.kernel(module, constants={"FLIP": flip})(words, grid=1)
        results.append(words.numpy().tolist())
    assert results[0] == results[1]
