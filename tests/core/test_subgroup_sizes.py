"""Devices whose driver chooses among sizes of subgroups, as those of AMD and Intel: pipelines ask for one size."""

from __future__ import annotations

import os
from functools import cached_property

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.core.features import DISABLED
from vkcompute.core.physical import PhysicalDevice
from vkcompute.runtime.launching.imitated_gpu import Compilation, Shader, compile_on
from vkcompute.tile.device import block_target


@pytest.fixture(autouse=True)
def _varying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the device under test report several sizes."""
    if os.environ.get("VKCOMPUTE_PROFILE"):
        pytest.skip("the profile says what sizes and operations subgroups have")
    sizes = {"minSubgroupSize": 1, "maxSubgroupSize": 128, "requiredSubgroupSizeStages": 0x20}
    known = cached_property(lambda self, given=PhysicalDevice.properties.func: given(self) | sizes)
    known.__set_name__(PhysicalDevice, "properties")
    monkeypatch.setattr(PhysicalDevice, "properties", known)


@vc.kernel
def sum_of_subgroup(x, sums, sizes):  # noqa: ANN001, ANN201
    i = vc.global_id(0)
    sums[i] = vc.subgroup.add(x[i])
    sizes[i] = vc.subgroup.size()


def test_subgroups_have_the_reported_size() -> None:
    with vc.Runtime() as gpu:
        size = gpu.device.physical.subgroup_size
        x, sums, sizes = np.arange(256, dtype=np.float32), gpu.zeros(256), gpu.zeros(256, np.uint32)
        sum_of_subgroup(gpu.array(x), sums, sizes)
        assert (sizes.numpy() == size).all()
        assert np.array_equal(sums.numpy(), x.reshape(-1, size).sum(1).repeat(size))
        assert block_target(gpu).subgroup_size == size


def test_a_size_that_the_device_lacks_is_refused_before_the_driver_sees_it() -> None:
    """Qualcomm's driver ends the process at a module for subgroups of 32, where it has 64 and 128."""
    code = "layout(binding = 0) buffer A { uint a[]; }; void main() { a[0] = subgroupAdd(a[1]); }"
    spirv = vc.glsl(f"#extension GL_KHR_shader_subgroup_arithmetic : require\nlayout(local_size_x = 64) in; {code}")
    with vc.Runtime() as gpu:
        shaders = [Shader("sum", spirv, subgroup_size=size) for size in (gpu.device.physical.subgroup_size, 256)]
        right, refused = compile_on(gpu.device, shaders, with_assembly=False)
    assert isinstance(right, Compilation) or "tell how it compiled" in str(right)
    assert "sum needs subgroups of 256 invocations" in str(refused)
    assert "has 1 to 128; build it with a subgroup size from 1 to 128" in str(refused)


def test_block_programs_do_not_shuffle_where_no_size_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DISABLED, "subgroupSizeControl")
    with vc.Runtime() as gpu:
        assert block_target(gpu).subgroup_size == 1
        x = gpu.array(np.arange(1000, dtype=np.float32).reshape(10, 100))
        assert np.array_equal(vc.nn.softmax(x).numpy().argmax(1), np.full(10, 99))
