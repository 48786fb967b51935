"""Compute pipelines and their shader modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkcompute.core import vk
from vkcompute.core.descriptors import PipelineLayout
from vkcompute.core.device import Device
from vkcompute.core.device_child import DeviceChild

_COMPUTE_STAGE = 0x20
_DISPATCH_BASE = 0x10  # VK_PIPELINE_CREATE_DISPATCH_BASE_BIT


class ShaderModule(DeviceChild):
    """A VkShaderModule. Check the SPIR-V before (`spirv.check`): drivers crash on invalid words."""

    device: Device

    def __init__(self, device: Device, spirv: bytes) -> None:
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
    """

    device: Device

    def __init__(
        self,
        shader: ShaderModule,
        layout: PipelineLayout,
        entry_point: str = "main",
        constants: Sequence[tuple[int, bytes]] = (),
        *,
        divisible: bool = False,
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
        stage = vk.struct(
            "VkPipelineShaderStageCreateInfo",
            stage=_COMPUTE_STAGE,
            module=shader.handle,
            pName=entry_point,
            pSpecializationInfo=special,
        )
        flags = _DISPATCH_BASE if divisible else 0
        info = vk.struct(
            "VkComputePipelineCreateInfo", flags=flags, stage=stage, layout=layout.handle, basePipelineIndex=-1
        )
        self.handle = self.device.retry(self._compile, info)

    def _compile(self, info: Any) -> Any:
        pointer, device = vk.ffi.new("VkPipeline*"), self.device
        arguments = device.handle, device.pipeline_cache.handle, 1, info, vk.NULL, pointer
        return device.create_at(pointer, "vkCreateComputePipelines", arguments, self.deletions)
