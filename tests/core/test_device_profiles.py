"""Devices that pretend to be others, and the check of what is created and launched there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtimes import open_runtime

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.core import vk
from vkcompute.core.descriptors import DescriptorSets, PipelineLayout
from vkcompute.core.device_profile import COMBINED, OWN, DeviceProfile, named, names, of_environment
from vkcompute.core.pipeline import ComputePipeline, ShaderModule
from vkcompute.frontend.source import definition_of
from vkcompute.jit.compilation.build import specialize
from vkcompute.jit.frontend.values_needed import Fixed


@pytest.mark.pure
def test_each_profile_has_rules_for_its_limits_and_lacks_what_its_device_lacks() -> None:
    assert {limit for name in names() for limit in named(name).limits} <= COMBINED.keys()
    assert "shaderFloat64" in named("apple-m5-moltenvk").lacks
    assert "shaderFloat64" not in named("nvidia-rtx-5080").lacks
    assert named("amd-rx-5700-windows").limits["maxComputeSharedMemorySize"] == 32768
    assert not named("poor").extensions


@pytest.mark.pure
def test_a_profile_makes_limits_poorer_and_never_richer() -> None:
    profile = DeviceProfile(
        limits={"maxPushConstantsSize": 128, "minTexelBufferOffsetAlignment": 256, "subgroupSupportedOperations": 0b101,
                "maxComputeWorkGroupCount": [9, 9, 1], "maxBufferSize": 10}
    )  # fmt: skip
    rich = {"maxPushConstantsSize": 256, "minTexelBufferOffsetAlignment": 16, "subgroupSupportedOperations": 0b111,
            "maxComputeWorkGroupCount": (4, 99, 99), "maxBufferSize": 0, "other": 3}  # fmt: skip
    assert profile.limited(rich) == {
        "maxPushConstantsSize": 128, "minTexelBufferOffsetAlignment": 256, "subgroupSupportedOperations": 0b101,
        "maxComputeWorkGroupCount": (4, 9, 1), "maxBufferSize": 0, "other": 3,
    }  # fmt: skip
    poorer = {"maxPushConstantsSize": 64, "minTexelBufferOffsetAlignment": 512}
    assert profile.limited(poorer) == poorer


@pytest.mark.pure
def test_a_part_of_a_profile_on_another_keeps_the_poorer_of_both() -> None:
    outer = named("poor")
    both = DeviceProfile(limits={"maxPushConstantsSize": 64, "maxStorageBufferRange": 1 << 40}).within(outer)
    assert (both.name, both.staging, both.extensions, both.lacks) == ("poor", False, frozenset(), outer.lacks)
    assert (both.limits["maxPushConstantsSize"], both.limits["maxStorageBufferRange"]) == (64, 1 << 27)


@pytest.mark.pure
def test_an_unknown_profile_is_refused_with_the_next_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_PROFILE", "apple-m5-molten")
    with pytest.raises(ValueError, match="did you mean apple-m5-moltenvk"):
        of_environment()
    monkeypatch.setenv("VKCOMPUTE_PROFILE", " ")
    assert of_environment() == OWN


def test_the_environment_names_a_profile() -> None:
    code = (
        "import vkcompute as vc; p = vc.Runtime().device.physical; "
        "print(p.features['shaderInt8'], p.limits['maxPushConstantsSize'])"
    )
    environment = {**os.environ, "VKCOMPUTE_PROFILE": "poor", "VKCOMPUTE_DEVICE": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["False", "128"]


@pytest.fixture
def poor() -> Iterator[vc.Runtime]:
    with open_runtime(profile="poor") as runtime:
        yield runtime


def test_functions_run_within_the_poorest_profile(poor: vc.Runtime) -> None:
    data = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    x = poor.array(data)
    assert np.array_equal(vnp.sort(x).numpy(), np.sort(data))
    assert np.array_equal(vnp.argsort(x).numpy(), np.argsort(data, kind="stable"))


def spirv_of(function: Any, *signature: Any, local_size: int = 1) -> bytes:
    """The module of a kernel for a device without limits."""
    return specialize(definition_of(function), signature, CompileOptions((local_size, 1, 1))).spirv


def one(x: Any) -> None:
    x[0] = 1


def shared(x: Any) -> None:
    tile = vc.shared(5000, "float32")
    tile[vc.local_id(0)] = 1
    vc.barrier()
    x[0] = tile[0]


def module_needs_a_feature(runtime: vc.Runtime) -> None:
    ShaderModule(runtime.device, spirv_of(one, ("d", 1)))


def too_many_invocations(runtime: vc.Runtime) -> None:
    pipeline(runtime, spirv_of(one, ("f", 1), local_size=256))


def too_much_shared_memory(runtime: vc.Runtime) -> None:
    pipeline(runtime, spirv_of(shared, ("f", 1)))


def pipeline(runtime: vc.Runtime, spirv: bytes) -> None:
    device = runtime.device
    with PipelineLayout(device, [(0, 0, "storage_buffer", "")], 16) as layout, ShaderModule(device, spirv) as shader:
        ComputePipeline(shader, layout).close()


def too_many_bindings(runtime: vc.Runtime) -> None:
    PipelineLayout(runtime.device, [(0, n, "storage_buffer", "") for n in range(5)], 0).close()


def too_many_sets(runtime: vc.Runtime) -> None:
    PipelineLayout(runtime.device, [(4, 0, "storage_buffer", "")], 0).close()


def too_many_push_constants(runtime: vc.Runtime) -> None:
    PipelineLayout(runtime.device, [], 132).close()


def badly_aligned_binding(runtime: vc.Runtime) -> None:
    array = runtime.empty(1000)
    with PipelineLayout(runtime.device, [(0, 0, "storage_buffer", "")], 0) as layout, runtime.device.lock:
        DescriptorSets(layout, [(array.buffer, 64, 4)])


def too_large_grid(runtime: vc.Runtime) -> None:
    runtime.device.fn.vkCmdDispatch(vk.NULL, 65536, 1, 1)  # is refused before the driver sees it


@pytest.mark.usefixtures("clean_handles")
@pytest.mark.parametrize(
    ("excess", "message"),
    [
        (module_needs_a_feature, "capability Float64 needs the feature shaderFloat64"),
        (too_many_invocations, "invocations 256 exceeds maxComputeWorkGroupInvocations of 128; local size 256 along x"),
        (too_much_shared_memory, "bytes of shared memory 20000 exceeds maxComputeSharedMemorySize of 16384"),
        (too_many_bindings, "bindings 5 exceeds maxPerStageDescriptorStorageBuffers of 4"),
        (too_many_sets, "descriptor sets 5 exceeds maxBoundDescriptorSets of 4"),
        (too_many_push_constants, "bytes of push constants 132 exceeds maxPushConstantsSize of 128"),
        (badly_aligned_binding, "is no multiple of minStorageBufferOffsetAlignment, 256"),
        (too_large_grid, r"grid \(65536, 1, 1\) exceeds \(65535, 65535, 65535\)"),
    ],
)
def test_a_planted_excess_is_reported(excess: Callable[[vc.Runtime], None], message: str) -> None:
    """Past the checks of a launch, as a fault of the library would be."""
    with open_runtime(profile="poor") as runtime, pytest.raises(vc.ValidationError, match=message):
        excess(runtime)


LACKED = {"shaderFloat64": "d", "shaderInt64": "q", "shaderInt8": "b", "shaderFloat16": "e", "shaderInt16": "h"}


@pytest.mark.parametrize("profile", names())
def test_an_excess_of_each_kind_is_reported_by_every_profile(profile: str) -> None:
    with open_runtime(profile=profile) as runtime:
        limits, device = runtime.device.physical.limits, runtime.device
        most = {name: limits[f"max{name}"] for name in ("ComputeWorkGroupInvocations", "ComputeSharedMemorySize")}

        def tile(x: Any, length: Any) -> None:
            tile = vc.shared(length, "float32")
            tile[vc.local_id(0)] = 1
            vc.barrier()
            x[0] = tile[0]

        shared = spirv_of(tile, ("f", 1), Fixed(most["ComputeSharedMemorySize"] // 4 + 1))
        n_buffers, n_bytes = limits["maxPerStageDescriptorStorageBuffers"], limits["maxPushConstantsSize"]
        wide = spirv_of(one, ("f", 1), local_size=most["ComputeWorkGroupInvocations"] * 2)
        excesses: list[tuple[str, Callable[[], object]]] = [
            ("invocations .* exceeds maxComputeWorkGroupInvocations", lambda: pipeline(runtime, wide)),
            ("bytes of shared memory .* exceeds", lambda: pipeline(runtime, shared)),
            ("bytes of push constants .* exceeds", lambda: PipelineLayout(device, [], n_bytes + 4).close()),
        ]
        if n_buffers < 1000:
            buffers = [(0, n, "storage_buffer", "") for n in range(n_buffers + 1)]
            excesses.append(("bindings .* exceeds", lambda: PipelineLayout(device, buffers, 0).close()))
        for feature in LACKED.keys() & named(profile).lacks:
            module = spirv_of(one, (LACKED[feature], 1))
            excesses.append((f"needs the feature {feature}", lambda module=module: ShaderModule(device, module)))
        for message, excess in excesses:
            with pytest.raises(vc.ValidationError, match=message):
                excess()


PROGRAM = Path(__file__).with_name("profiled_program.py")
OTHER_KINDS = ["apple-m5-moltenvk", "intel-arc-140t", "amd-rx-570-radv", "android-16", "raspberry-pi-4-v3dv",
               "adreno-660-turnip", "mali-g610-panvk"]  # fmt: skip


@pytest.mark.rotates
@pytest.mark.parametrize("profile", OTHER_KINDS)
def test_functions_of_all_types_and_a_kernel_run_under_the_profiles_of_each_kind(profile: str) -> None:
    environment = {
        **os.environ,
        "VKCOMPUTE_PROFILE": profile,
        "VKCOMPUTE_DEVICE": "cpu",
        "VKCOMPUTE_VALIDATION": "error",
    }
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout == "right\n", done.stderr
