"""Buffer views: ranges of a buffer that kernels read as texels."""

from __future__ import annotations

from vkcompute.core import vk
from vkcompute.core.device_child import DeviceChild
from vkcompute.core.logical_device import LogicalDevice
from vkcompute.core.memory import Block

TEXEL_BYTES = 16
# The format of a texel (four components of 32 bits), by the numpy name of the component that the shader reads.
_FORMATS = {"uint32": 107, "int32": 108, "float32": 109}  # VK_FORMAT_R32G32B32A32_UINT, _SINT, _SFLOAT


class BufferView(DeviceChild):
    """A view of the bytes [offset, offset + nbytes) of a block as texels with four components of `dtype`."""

    def __init__(self, device: LogicalDevice, block: Block, offset: int, nbytes: int, dtype: str) -> None:
        super().__init__(device)
        info = vk.struct(
            "VkBufferViewCreateInfo", buffer=block.handle, format=_FORMATS[dtype], offset=offset, range=nbytes
        )
        self.handle = self.create("BufferView", info)
