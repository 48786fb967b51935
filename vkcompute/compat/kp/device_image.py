"""Storage images of the device, copies to and from them, and kernels that take them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vkcompute.compat.kp.callback_task import CallbackTask
from vkcompute.core import vk
from vkcompute.core.device_child import DeviceChild
from vkcompute.errors import KomputeError, MissingFeature
from vkcompute.runtime.launching.arguments import Bound, bound_range
from vkcompute.runtime.launching.kernel import Kernel
from vkcompute.runtime.launching.program import load
from vkcompute.runtime.launching.specialization import specialize
from vkcompute.runtime.memory.array import Array, allocate
from vkcompute.runtime.memory.context import kernel_of

if TYPE_CHECKING:
    from vkcompute.core.command import Recorder
    from vkcompute.core.device import Device
    from vkcompute.runtime.runtime import Runtime
    from vkcompute.runtime.scheduling.future import Future

_2D, _GENERAL, _COLOR = 1, 1, 0x1  # VK_IMAGE_TYPE_2D and VK_IMAGE_VIEW_TYPE_2D, VK_IMAGE_LAYOUT_GENERAL
_USAGE = 0x8 | 0x1 | 0x2  # STORAGE, TRANSFER_SRC, TRANSFER_DST
_FEATURES = 0x2 | 0x4000 | 0x8000  # STORAGE_IMAGE, TRANSFER_SRC, TRANSFER_DST, as format features
_KINDS = {"f": "SFLOAT", "i": "SINT", "u": "UINT"}
_TOP_OF_PIPE, _COMPUTE_AND_TRANSFER = 0x1, 0x800 | 0x1000
_ANY_ACCESS = 0x8000 | 0x10000  # MEMORY_READ, MEMORY_WRITE
_FAMILY_IGNORED = 0xFFFFFFFF
_numbers = itertools.count()


class DeviceImage(DeviceChild):
    """A two-dimensional storage image in the layout GENERAL.

    Launches take it in place of a tensor: it has the attributes of a tensor that they read.

    Args:
        extent: width, height, and channels of a texel.
        data: initial contents; None leaves them undefined.

    Attributes:
        handle: the VkImageView.

    Raises:
        MissingFeature: shaders of the device cannot load and store this format.
        KomputeError: the image exceeds the device's largest.
    """

    device: Device

    def __init__(self, runtime: Runtime, extent: tuple[int, int, int], dtype: np.dtype[Any], data: Any = None) -> None:
        self.runtime, self.dtype, self._extent = runtime, dtype, extent
        width, height, channels = extent
        self.size = width * height * channels
        self.nbytes = self.size * dtype.itemsize
        limit = runtime.device.physical.limits["maxImageDimension2D"]
        if max(width, height) > limit:
            raise KomputeError(f"{runtime.device} has images of at most {limit} texels a side; got {width} x {height}")
        self._format = self._supported_format()
        super().__init__(runtime.device)
        self._image = self._make_image()
        self._buffer = self._bind_memory()
        self._layers = vk.struct("VkImageSubresourceLayers", aspectMask=_COLOR, layerCount=1)
        self._range = vk.struct("VkImageSubresourceRange", aspectMask=_COLOR, levelCount=1, layerCount=1)
        view = {"image": self._image, "viewType": _2D, "format": self._format, "subresourceRange": self._range}
        self.handle = self.create("ImageView", vk.struct("VkImageViewCreateInfo", **view))
        # As a descriptor write reads them from a tensor's buffer.
        self.block, self.offset, self.location = self, 0, self._buffer.location
        self.launch_key: Any = ("image", next(_numbers))
        self.span: Any = (self._buffer, 0, self._buffer.used_bytes)
        self._initialize(data)

    def _supported_format(self) -> int:
        """Returns the VkFormat of the texels.

        Raises:
            MissingFeature: the device lacks it for storage images.
        """
        bits = 8 * self.dtype.itemsize
        channels = "".join(f"{name}{bits}" for name in "RGBA"[: self._extent[2]])
        name = f"VK_FORMAT_{channels}_{_KINDS[self.dtype.kind]}"
        properties, format_ = vk.ffi.new("VkFormatProperties*"), vk.constant(name)
        physical = self.runtime.device.physical
        vk.lib.vkGetPhysicalDeviceFormatProperties(physical.handle, format_, properties)
        if properties.optimalTilingFeatures & _FEATURES != _FEATURES:
            raise MissingFeature(f"shaders on {physical} cannot load, store and copy images of {name}; use a tensor")
        return format_

    def _make_image(self) -> Any:
        families = sorted({queue.family for queue in self.device.queues})
        info = vk.struct(
            "VkImageCreateInfo",
            imageType=_2D,
            format=self._format,
            extent=self._extent3d(),
            mipLevels=1,
            arrayLayers=1,
            samples=1,
            usage=_USAGE,
            sharingMode=int(len(families) > 1),
            queueFamilyIndexCount=len(families),
            pQueueFamilyIndices=families,
        )
        return self.create("Image", info)

    def _bind_memory(self) -> Any:
        """Binds the image to the memory of a buffer, and returns the buffer.

        The buffer's access history is that of the image.
        """
        device = self.device
        needs = vk.ffi.new("VkMemoryRequirements*")
        device.fn.vkGetImageMemoryRequirements(device.handle, self._image, needs)
        # Padding on both sides keeps neighbours in the memory block at bufferImageGranularity.
        padding = max(needs.alignment, device.physical.limits["bufferImageGranularity"])
        buffer = device.buffer(needs.size + 2 * padding, "fixed")
        if not needs.memoryTypeBits & (1 << buffer.block.kind.index):
            raise MissingFeature(f"{device} has no memory type for both images and buffers; use a tensor")
        offset = -(-buffer.offset // padding) * padding
        result = device.fn.vkBindImageMemory(device.handle, self._image, buffer.block.memory, offset)
        vk.check(result, "vkBindImageMemory", device)
        return buffer

    def _initialize(self, data: Any) -> None:
        barrier = vk.struct(
            "VkImageMemoryBarrier",
            dstAccessMask=_ANY_ACCESS,
            newLayout=_GENERAL,
            srcQueueFamilyIndex=_FAMILY_IGNORED,
            dstQueueFamilyIndex=_FAMILY_IGNORED,
            image=self._image,
            subresourceRange=self._range,
        )
        stages = _TOP_OF_PIPE, _COMPUTE_AND_TRANSFER
        source = None
        if data is not None:
            source = allocate(self.runtime, lambda nbytes: self.device.buffer(nbytes, "fixed"), data.shape, data.dtype)
            source.write(data)
        with self.runtime.record() as graph:
            no_memory_or_buffer_barriers = 0, 0, vk.NULL, 0, vk.NULL
            args = *stages, *no_memory_or_buffer_barriers, 1, barrier
            self._add("layout", (self.span,), (), "vkCmdPipelineBarrier", *args)
            if source is not None:
                self.copy_from(source)
        graph.submit().point()  # raises if the submit failed, which would leave the layout UNDEFINED
        graph.close()

    def copy_from(self, source: Array | DeviceImage) -> Future:
        """Adds a copy of an array of equal size, or of an image of equal extent, into this image to the graph."""
        if isinstance(source, DeviceImage):
            region = vk.struct(
                "VkImageCopy", srcSubresource=self._layers, dstSubresource=self._layers, extent=self._extent3d()
            )
            images = source._image, _GENERAL, self._image, _GENERAL
            return self._add("copy", (self.span,), (source.span,), "vkCmdCopyImage", *images, 1, region)
        buffer, region = self._region(source)
        args = buffer, self._image, _GENERAL, 1, region
        return self._add("copy", (self.span,), (source.span,), "vkCmdCopyBufferToImage", *args)

    def copy_into(self, target: Array) -> Future:
        """Adds a copy of this image into an array of equal size to the graph."""
        buffer, region = self._region(target)
        args = self._image, _GENERAL, buffer, 1, region
        return self._add("copy", (target.span,), (self.span,), "vkCmdCopyImageToBuffer", *args)

    def _extent3d(self) -> Any:
        width, height, _ = self._extent
        return vk.struct("VkExtent3D", width=width, height=height, depth=1)

    def _region(self, array: Array) -> tuple[Any, Any]:
        """Returns the VkBuffer of an array, and the VkBufferImageCopy of the array's range."""
        region = vk.struct(
            "VkBufferImageCopy",
            bufferOffset=array.buffer.offset + array.offset,
            imageSubresource=self._layers,
            imageExtent=self._extent3d(),
        )
        return array.buffer.block.handle, region

    def _add(self, name: str, writes: Any, reads: Any, command: str, *args: Any) -> Future:
        """Adds a task that records one vkCmd function to the graph."""
        function = getattr(self.device.fn, command)

        def record(recorder: Recorder) -> None:
            function(recorder.handle, *args)

        return CallbackTask(name, writes, reads, record, self).add(self.runtime)

    def _destroy(self) -> None:
        super()._destroy()
        self.launch_key = self.span = self._buffer = None


class ImageKernel(Kernel):
    """A kernel that takes a `DeviceImage` for each storage image."""

    kinds = (*Kernel.kinds, "storage_image")

    def bound(self, tensors: Sequence[Any]) -> list[Bound]:
        self.runtime.require_open()
        ranges: list[Any] = [
            (memory, 0, memory.nbytes)
            if isinstance(memory, DeviceImage)
            else bound_range(self.name, self.runtime, binding, memory, check_type=False)
            for binding, memory in zip(self.bindings, tensors, strict=True)
        ]
        return ranges


def image_kernel(runtime: Runtime, spirv: bytes, constants: Mapping[int | str, Any]) -> ImageKernel:
    """Returns the kernel of a shader with storage images; equal arguments return the same kernel."""
    program = load(spirv)
    specialization = specialize(program.name, program.interface.spec_constants, constants)
    key = "image kernel", program.spirv, specialization
    make = partial(ImageKernel, runtime, program, specialization, check_types=False)
    return kernel_of(runtime, key, make)
