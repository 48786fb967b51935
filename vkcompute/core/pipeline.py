"""Compute pipelines and their shader modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.core import vk
from vkcompute.core.descriptors import PipelineLayout
from vkcompute.core.device_child import DeviceChild
from vkcompute.core.logical_device import LogicalDevice

_COMPUTE_STAGE = 0x20
_FULL_SUBGROUPS = 0x2  # VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT
_DISPATCH_BASE = 0x10  # VK_PIPELINE_CREATE_DISPATCH_BASE_BIT
_CAPTURE = 0x40 | 0x80  # VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR and CAPTURE_INTERNAL_REPRESENTATIONS


class ShaderModule(DeviceChild):
    """A VkShaderModule. Check the SPIR-V before (`spirv.check`): drivers crash on invalid words."""

    def __init__(self, device: LogicalDevice, spirv: bytes) -> None:
        super().__init__(device)
        code = vk.ffi.from_buffer("uint32_t[]", spirv)
        info = vk.struct("VkShaderModuleCreateInfo", codeSize=len(spirv), pCode=code)
        self.handle = self.create("ShaderModule", info)


class ComputePipeline(DeviceChild):
    """A shader compiled for its layout and specialization constants.

    Args:
        shader: the module; it may be closed afterwards.
        constants: (constant id, bytes of the value) of each specialization constant to set.
        divisible: allows dispatches that are parts of a larger grid. The shader must not read the number of workgroups.
        subgroup_size: invocations that each subgroup is to have; None to leave it to the driver.
        full_subgroups: has all subgroups full, which the workgroup's size along x must allow. Requires the feature
            `computeFullSubgroups`.
        captured: keeps what `executables.py` reads. Requires the feature `pipelineExecutableInfo`.
    """

    def __init__(
        self,
        shader: ShaderModule,
        layout: PipelineLayout,
        entry_point: str = "main",
        constants: Sequence[tuple[int, bytes]] = (),
        *,
        divisible: bool = False,
        subgroup_size: int | None = None,
        full_subgroups: bool = False,
        captured: bool = False,
    ) -> None:
        super().__init__(shader.device)
        self.layout = layout
        values = b"".join(value for _, value in constants)
        entries, offset = [], 0
        for constant_id, value in constants:
            entries.append(
                vk.struct("VkSpecializationMapEntry", constantID=constant_id, offset=offset, size=len(value))
            )
            offset += len(value)
        data = vk.ffi.new("char[]", values)
        special = vk.struct(
            "VkSpecializationInfo",
            mapEntryCount=len(entries),
            pMapEntries=entries,
            dataSize=len(values),
            pData=data,
        )
        required = vk.NULL
        if subgroup_size is not None:
            name = "VkPipelineShaderStageRequiredSubgroupSizeCreateInfo"
            required = vk.struct(name, requiredSubgroupSize=subgroup_size)
        stage = vk.struct(
            "VkPipelineShaderStageCreateInfo",
            pNext=required,
            flags=_FULL_SUBGROUPS if full_subgroups else 0,
            stage=_COMPUTE_STAGE,
            module=shader.handle,
            pName=entry_point,
            pSpecializationInfo=special,
        )
        flags = (_DISPATCH_BASE if divisible else 0) | (_CAPTURE if captured else 0)
        info = vk.struct(
            "VkComputePipelineCreateInfo", flags=flags, stage=stage, layout=layout.handle, basePipelineIndex=-1
        )
        # A cached pipeline may have been compiled without capture.
        cache = vk.NULL if captured else self.device.pipeline_cache_handle
        self.handle = self.device.retry(self._compile, cache, info)

    def _compile(self, cache: Any, info: Any) -> Any:
        pointer, device = vk.ffi.new("VkPipeline*"), self.device
        arguments = device.handle, cache, 1, info, vk.NULL, pointer
        return device.create_at(pointer, "vkCreateComputePipelines", arguments, self.deletions)
