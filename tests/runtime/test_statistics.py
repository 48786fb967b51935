"""A driver's statistics are of the kernel that a launch would run; AMD's compiler gives them without a GPU."""

from __future__ import annotations

import os
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.core.executables import Executable
from vkcompute.errors import VkComputeError
from vkcompute.runtime.launching.compiled_program import CompiledProgram
from vkcompute.runtime.launching.imitated_gpu import Compilation, Shader
from vkcompute.runtime.launching.radv import compile_for, outcomes_for
from vkcompute.runtime.launching.statistics import KernelStatistics, statistics_of

FAMILY = "navi21"
SHARED = """
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int N = 256;
layout(binding = 0) buffer A { float a[]; };
shared float parts[N];
void main() {
    parts[gl_LocalInvocationIndex] = a[gl_GlobalInvocationID.x];
    barrier();
    a[gl_GlobalInvocationID.x] = parts[gl_LocalInvocationIndex ^ 1];
}
"""
VALUES = range(200)
CROWDED = f"""
layout(local_size_x = 1024) in;
layout(binding = 0) buffer A {{ float a[]; }};
void main() {{
    uint at = gl_GlobalInvocationID.x * 200;
    {" ".join(f"float x{i} = a[at + {i}];" for i in VALUES)}
    barrier();
    {" ".join(f"a[at + {i}] = x{i} * x{199 - i};" for i in VALUES)}
}}
"""
"""With more live values than a workgroup of 1,024 has registers for."""


@vc.kernel
def scaled(x: vc.float32[:, :], factor: float, n: vc.uint8) -> None:
    i = vc.global_id(0)
    x[0, i] *= factor * n


@vc.kernel
def doubled(x: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] * x[i]


def compiled(*shaders: Shader) -> list[Compilation]:
    """What AMD's compiler makes of the shaders; skips the test where it is not installed."""
    try:
        return compile_for(FAMILY, shaders)
    except vc.NoDevice as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def installed() -> None:
    """Skips a test without AMD's compiler."""
    compiled()


@pytest.fixture
def by_amd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has every program judged by AMD's compiler instead of the device's."""
    if os.environ.get("VKCOMPUTE_PROFILE"):
        pytest.skip("the profile hides what AMD's driver tells of its compiler")

    def judged(self: CompiledProgram) -> Compilation:
        return compiled(Shader(self._program.name, self._program.spirv))[0]

    monkeypatch.setattr(CompiledProgram, "statistics", lambda self: judged(self).statistics)
    monkeypatch.setattr(CompiledProgram, "assembly", lambda self: judged(self).assembly)


@pytest.mark.pure
def test_figures_of_shaders_under_common_and_under_the_drivers_names() -> None:
    shared, crowded, python = compiled(
        Shader("shared", vc.glsl(SHARED), {0: 64, "N": 1024}),
        Shader("crowded", vc.glsl(CROWDED)),
        Shader("scaled", scaled.spirv()),
    )
    assert "v_cvt_f32_ubyte" in python.assembly, "of the annotated types"
    result = shared.statistics
    assert "NAVI21" in result.device
    assert result.driver.startswith("radv")
    assert result.figures["LDS size"] == result.shared_nbytes == 4 * 1024
    assert result.figures["VGPRs"] == result.registers > 0
    assert result.figures["Instructions"] == result.instructions > 5
    assert result.subgroup_size in (32, 64)
    assert result.spills == result.scratch_nbytes == 0
    assert set(result.figures) == set(result.descriptions)
    assert "registers" in str(result)
    assert "buffer_load_dword" in shared.assembly
    assert crowded.statistics.spills > 0
    assert crowded.statistics.scratch_nbytes > 0
    assert crowded.statistics.registers > result.registers


# Of a multiply, as the drivers of Mesa 25.0.7 and 26.2.6 state them.
FIGURES: dict[str, dict[str, Any]] = {
    "nvk": {
        "Instruction count": 30, "Static cycle count": 163, "Max warps/SM": 48, "Spills to memory": 2,
        "Spills to reg": 5, "Code size": 480, "Number of GPRs": 24, "SLM size": 16,
    },
    "honeykrisp": {"Instructions": 20, "ALU": 13, "Code size": 128, "GPRs": 31, "Scratch": 16, "Spills": 2},
    "v3dv": {"Instruction Count": 45, "Thread Count": 2, "Spill Size": 128, "TMU Spills": 128},
    "turnip": {"Max Waves Per Core": 16, "Instruction Count": 54, "Code size": 64, "Registers used": 4},
}  # fmt: skip


@pytest.mark.pure
@pytest.mark.parametrize(
    ("driver", "registers", "spills", "scratch_nbytes", "instructions"),
    [
        ("nvk", 24, 2, 16, 30),
        ("honeykrisp", 31, 2, 16, 20),
        ("v3dv", None, None, 128, 45),
        ("turnip", 4, None, None, 54),
    ],
)
def test_drivers_name_their_figures_differently(
    driver: str, registers: int | None, spills: int | None, scratch_nbytes: int | None, instructions: int
) -> None:
    device: Any = SimpleNamespace(name="a device", driver=driver)
    result = statistics_of(device, Executable("Compute Shader", 32, FIGURES[driver], {}, {}))
    assert (result.registers, result.spills) == (registers, spills)
    assert (result.scratch_nbytes, result.instructions) == (scratch_nbytes, instructions)


@vc.kernel
def sums(x: vc.float32[:], out: vc.float32[:]) -> None:
    out[vc.global_id(0)] = vc.subgroup.add(x[vc.global_id(0)])


@pytest.mark.pure
def test_a_module_for_one_size_of_subgroups_gets_it() -> None:
    outcomes = compiled(*[Shader(f"sums {size}", sums.spirv(), subgroup_size=size) for size in (None, 32, 64)])
    assert [outcome.statistics.subgroup_size for outcome in outcomes] == [64, 32, 64]


@pytest.mark.pure
@pytest.mark.parametrize("family", ["navi0", "", "../x"])
def test_an_unknown_family_of_gpus(family: str, installed: None) -> None:
    with pytest.raises(ValueError, match=f"no family of GPUs called '{family}'; take vega10, navi10 or navi21"):
        compile_for(family, [])


@pytest.mark.pure
def test_a_shader_beyond_the_gpu(installed: None) -> None:
    large = Shader("large", vc.glsl(SHARED), {"N": 1 << 20})
    with pytest.raises(vc.MissingFeature, match="large has 4194304 or more bytes of shared memory per workgroup"):
        compile_for(FAMILY, [large])


@vc.kernel
def total(x: vc.float32[:], out: vc.float32[:]) -> None:
    vc.atomic.add(out, 0, x[vc.global_id(0)])  # ends the compiler of Mesa 22 and GPUs without the instruction


@pytest.mark.pure
@pytest.mark.parametrize("order", ["first", "last"])
def test_a_shader_that_ends_the_compiler_is_named_and_leaves_the_others(
    order: str, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VKCOMPUTE_VALIDATION", raising=False)
    monkeypatch.delenv("PYTHONFAULTHANDLER", raising=False)  # it writes behind the compiler's last words
    shaders = [Shader("total", total.spirv()), Shader("scaled", scaled.spirv())][:: 1 if order == "first" else -1]
    outcomes = dict(zip([shader.name for shader in shaders], outcomes_for(FAMILY, shaders), strict=True))
    assert isinstance(outcomes["scaled"], Compilation)
    if isinstance(outcomes["total"], VkComputeError):
        assert str(outcomes["total"]).startswith("total: the compiler for navi21 was ended by SIGABRT: ACO ERROR")
        with pytest.raises(VkComputeError, match="total: the compiler"):
            compile_for(FAMILY, shaders)


@pytest.mark.pure
def test_a_machine_without_amds_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_DATA_DIRS", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "HOME"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.delenv("VK_ADD_DRIVER_FILES", raising=False)
    monkeypatch.delenv("VKCOMPUTE_VALIDATION", raising=False)
    with pytest.raises(vc.NoDevice, match="radv, which is not installed; install it"):
        compile_for(FAMILY, [])


def test_a_device_that_does_not_tell_says_so(gpu: vc.Runtime) -> None:
    x, out = gpu.zeros(4), gpu.zeros(4)
    kernel = gpu.kernel(vc.glsl(SHARED), constants={0: 64})
    calls = [kernel.statistics, lambda: doubled.statistics(x, out), kernel.assembly, lambda: doubled.assembly(x, out)]
    if "pipelineExecutableInfo" in gpu.device.features:
        for call in calls[:2]:
            assert isinstance(call(), KernelStatistics)
            assert call().figures
        return
    for call in calls:
        with pytest.raises(vc.MissingFeature, match=r"VK_KHR_pipeline_executable_properties.*--on navi21"):
            call()
    assert not out.numpy().any(), "nothing was launched"


def test_of_a_python_kernel_for_the_arguments_of_a_launch(gpu: vc.Runtime, by_amd: None) -> None:
    x, out = gpu.zeros(4), gpu.zeros(4)
    assert "v_mul_f32" in doubled.assembly(x, out=out)
    i = gpu.zeros(4, np.int32)
    result = doubled.assembly(i, i, grid=7, local_size=32)
    assert "v_mul_lo_u32" in result
    assert re.search(r"v_lshl_add_u32 v0, s\d, 5, v0", result), "workgroups of 2**5 invocations"
    assert (
        doubled.statistics(x, out, grid=7, local_size=(8, 4)).figures["Hash"]
        != doubled.statistics(x, out).figures["Hash"]
    )


def test_wrong_arguments(gpu: vc.Runtime, group: vc.DeviceGroup) -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'out'"):
        doubled.statistics(gpu.zeros(4))
    with pytest.raises(TypeError, match=r"pass the shards of one, x\.shards\[0\]"):
        doubled.assembly(group.zeros(4), group.zeros(4))
    with vc.Runtime() as other:
        kernel = other.kernel(vc.glsl(SHARED))
    with pytest.raises(vc.ClosedError):
        kernel.statistics()


@pytest.mark.pure
def test_a_kernel_without_annotations_has_no_spirv_of_its_own() -> None:
    with pytest.raises(TypeError, match=r"annotate x, out, as x: vc.float32\[:\] for an array"):
        doubled.spirv()
