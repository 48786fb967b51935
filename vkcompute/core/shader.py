"""Shader modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkcompute.core import vk
from vkcompute.core.lifetime import DeviceChild

if TYPE_CHECKING:
    from vkcompute.core.device import Device


class ShaderModule(DeviceChild):
    """SPIR-V handed to the driver. The words are to have been checked (`spirv.check`): drivers crash on bad ones."""

    def __init__(self, device: Device, spirv: bytes) -> None:
        super().__init__(device)
        code = vk.ffi.from_buffer("uint32_t[]", spirv)
        info = vk.struct("VkShaderModuleCreateInfo", codeSize=len(spirv), pCode=code)
        self.handle = self.own("ShaderModule", info)
