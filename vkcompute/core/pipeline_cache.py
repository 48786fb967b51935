"""The driver's cache of compiled pipelines, kept on disk for the next process."""

from __future__ import annotations

import hashlib
import logging
import struct
from functools import partial

from vkcompute import deferred_calls, disk
from vkcompute.core import vk
from vkcompute.core.lifetime import Deletion, Handle, run_deletions
from vkcompute.core.logical_device import LogicalDevice
from vkcompute.errors import VulkanError

logger = logging.getLogger("vkcompute.core")
_HEADER = struct.Struct("<IIII16s")  # VkPipelineCacheHeaderVersionOne
_MAX_CACHE_BYTES = 64 << 20


class PipelineCache(Handle):
    """A VkPipelineCache, read from and written to disk.

    Each driver build and device has a file of its own, named after the driver's UUID and version. Corrupt data, and
    data of another driver, is discarded.
    """

    _close_in_finalizer = False  # the device closes it

    def __init__(self, device: LogicalDevice) -> None:
        self.device = device
        physical = device.physical
        driver = bytes(physical.properties["driverUUID"]) + physical.driver_version.to_bytes(4, "little")
        identity = physical.pipeline_cache_uuid + driver
        self._path = disk.cache_folder() / "pipelines" / f"{hashlib.sha256(identity).hexdigest()[:32]}.bin"
        data = disk.read_cached(self._path) or b""
        self._deletions: list[Deletion] = []
        try:
            self.handle = self._create(data if self._fits(data) else b"")
        except VulkanError as error:
            text = "discarding the pipeline cache %s: %s"
            deferred_calls.call(partial(logger.warning, text, self._path, error))
            self.handle = self._create(b"")
        self._opened()
        # As created, not as read: SwiftShader adds a header in each round trip.
        self._nbytes = self._data_bytes()

    def _create(self, data: bytes) -> object:
        initial = vk.ffi.from_buffer(data)
        info = vk.struct("VkPipelineCacheCreateInfo", initialDataSize=len(data), pInitialData=initial)
        return self.device.create("VkPipelineCache", "vkCreatePipelineCache", info, self._deletions)

    def _fits(self, data: bytes) -> bool:
        if len(data) < _HEADER.size:
            return False
        physical = self.device.physical
        length, version, vendor, device, uuid = _HEADER.unpack_from(data)
        expected = (_HEADER.size, 1, physical.vendor_id, physical.device_id, physical.pipeline_cache_uuid)
        return (length, version, vendor, device, uuid) == expected

    def save(self) -> None:
        """Writes the cache to disk if pipelines were added. A failure of the disk is logged, and not fatal."""
        nbytes = self._data_bytes()
        if nbytes == self._nbytes or nbytes > _MAX_CACHE_BYTES:
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
            if self._deletions:  # else Ctrl-C interrupted the last call after the destruction
                self.save()
        except VulkanError as error:
            deferred_calls.call(partial(logger.warning, "the pipeline cache is not saved: %s", error))
        run_deletions(self._deletions)
