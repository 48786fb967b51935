"""Buffer views: ranges of a buffer that kernels read as texels."""

from __future__ import annotations

from vkcompute.core import vk
from vkcompute.core.device_child import DeviceChild
from vkcompute.core.logical_device import LogicalDevice
from vkcompute.core.memory_pool import MemoryBlock

TEXEL_BYTES = 16
"""Of a texel of four components."""
WORD = "R32ui"
"""SPIR-V's name of the format of texels of one uint32."""
# The format of a texel: of one component by its own name, of four by the numpy name of those that the shader reads.
_FORMATS = {"uint32": 107, "int32": 108, "float32": 109, WORD: 98}  # VK_FORMAT_R32G32B32A32_UINT, …, VK_FORMAT_R32_UINT


class BufferView(DeviceChild):
    """A view of the bytes [offset, offset + nbytes) of a block as texels, by a key of `_FORMATS`."""

    def __init__(self, device: LogicalDevice, block: MemoryBlock, offset: int, nbytes: int, texel: str) -> None:
        super().__init__(device)
        info = vk.struct(
            "VkBufferViewCreateInfo", buffer=block.handle, format=_FORMATS[texel], offset=offset, range=nbytes
        )
        self.handle = self.create("BufferView", info)
