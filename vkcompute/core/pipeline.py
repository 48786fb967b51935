"""Compute pipelines, what they are made of, and the cache on disk that spares their compilation in the next process."""

from __future__ import annotations

import hashlib
import logging
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vkcompute import disk
from vkcompute.core import vk
from vkcompute.core.descriptors import PipelineLayout
from vkcompute.core.lifetime import DeviceChild, Handle, Owned, destroy_all
from vkcompute.errors import VulkanError

if TYPE_CHECKING:
    from vkcompute.core.device import Device

logger = logging.getLogger("vkcompute.core")
_COMPUTE_STAGE = 0x20
_DISPATCH_BASE = 0x10  # VK_PIPELINE_CREATE_DISPATCH_BASE_BIT
_HEADER = struct.Struct("<IIII16s")  # VkPipelineCacheHeaderVersionOne
_LARGEST_CACHE_BYTES = 64 << 20


class PipelineCache(Handle):
    """The driver's cache of compiled pipelines, read from and written to disk.

    One file per driver build and device: the name carries the driver's UUID and version. Data of another driver, or
    corrupt data, is discarded.
    """

    _finalized = False  # its device closes it

    def __init__(self, device: Device) -> None:
        self.device = device
        physical = device.physical
        driver = bytes(physical.properties["driverUUID"]) + physical.driver_version.to_bytes(4, "little")
        identity = physical.pipeline_cache_uuid + driver
        self._path = disk.cache_folder() / "pipelines" / f"{hashlib.sha256(identity).hexdigest()[:32]}.bin"
        found = disk.read_cached(self._path) or b""
        self._owned: list[Owned] = []
        try:
            self.handle = self._create(found if self._fits(found) else b"")
        except VulkanError as error:
            logger.warning("discarding the pipeline cache %s: %s", self._path, error)
            self.handle = self._create(b"")
        self._opened()
        # As it is now, not as it was read: SwiftShader's is longer by a header after each round trip.
        self._nbytes = self._data_bytes()

    def _create(self, data: bytes) -> object:
        initial = vk.ffi.from_buffer(data)
        info = vk.struct("VkPipelineCacheCreateInfo", initialDataSize=len(data), pInitialData=initial)
        return self.device.create("VkPipelineCache", "vkCreatePipelineCache", info, self._owned)

    def _fits(self, data: bytes) -> bool:
        if len(data) < _HEADER.size:
            return False
        physical = self.device.physical
        length, version, vendor, device, uuid = _HEADER.unpack_from(data)
        expected = (_HEADER.size, 1, physical.vendor_id, physical.device_id, physical.pipeline_cache_uuid)
        return (length, version, vendor, device, uuid) == expected

    def save(self) -> None:
        """Writes the cache to disk if pipelines were added; a disk that refuses is logged, not fatal."""
        nbytes = self._data_bytes()
        if nbytes == self._nbytes or nbytes > _LARGEST_CACHE_BYTES:
            return
        size, content = vk.ffi.new("size_t*", nbytes), vk.ffi.new("char[]", nbytes)
        call = self.device.fn.vkGetPipelineCacheData
        vk.check(call(self.device.handle, self.handle, size, content), "vkGetPipelineCacheData", self.device)
        data = bytes(vk.ffi.buffer(content, size[0]))
        if self._fits(data):
            disk.write_cached(self._path, data)
        self._nbytes = nbytes

    def _data_bytes(self) -> int:
        size = vk.ffi.new("size_t*")
        call = self.device.fn.vkGetPipelineCacheData
        vk.check(call(self.device.handle, self.handle, size, vk.NULL), "vkGetPipelineCacheData", self.device)
        return int(size[0])

    def _destroy(self) -> None:
        try:
            self.save()
        except VulkanError as error:
            logger.warning("the pipeline cache is not saved: %s", error)
        destroy_all(self._owned)


class ShaderModule(DeviceChild):
    """SPIR-V handed to the driver. The words are to have been checked (`spirv.check`): drivers crash on bad ones."""

    def __init__(self, device: Device, spirv: bytes) -> None:
        super().__init__(device)
        code = vk.ffi.from_buffer("uint32_t[]", spirv)
        info = vk.struct("VkShaderModuleCreateInfo", codeSize=len(spirv), pCode=code)
        self.handle = self.own("ShaderModule", info)


class ComputePipeline(DeviceChild):
    """A shader compiled for its layout and specialization constants.

    Args:
        constants: (constant id, value as its bytes) of each specialization constant to set.
        divisible: whether dispatches may be parts of a larger grid; the shader must not ask for the size of that.
    """

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
        self.handle = self.device.retry(self._make, info)

    def _make(self, info: Any) -> Any:
        pointer, device = vk.ffi.new("VkPipeline*"), self.device
        arguments = device.handle, device.pipeline_cache.handle, 1, info, vk.NULL, pointer
        return device.make("vkCreateComputePipelines", arguments, pointer, self.owned)
