"""Images on the device: Vulkan's objects, copies to and from them, and kernels that they are bound to."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vkcompute.compat.kp.tasks import Plain
from vkcompute.core import vk
from vkcompute.core.lifetime import DeviceChild
from vkcompute.errors import KomputeError, MissingFeature
from vkcompute.runtime.arguments import Bound, bound_range
from vkcompute.runtime.constants import specialize
from vkcompute.runtime.kernel import Kernel
from vkcompute.runtime.program import load
from vkcompute.runtime.tensor import Tensor

if TYPE_CHECKING:
    from vkcompute.core.command import Recorder
    from vkcompute.runtime.future import Future
    from vkcompute.runtime.runtime import Runtime

_2D, _GENERAL, _COLOR = 1, 1, 0x1  # VK_IMAGE_TYPE_2D and VK_IMAGE_VIEW_TYPE_2D, VK_IMAGE_LAYOUT_GENERAL
_USAGE = 0x8 | 0x1 | 0x2  # STORAGE, TRANSFER_SRC, TRANSFER_DST
_FEATURES = 0x2 | 0x4000 | 0x8000  # the same, as format features
_KINDS = {"f": "SFLOAT", "i": "SINT", "u": "UINT"}
_TOP_OF_PIPE, _COMPUTE_AND_TRANSFER = 0x1, 0x800 | 0x1000
_ANY_ACCESS = 0x8000 | 0x10000  # MEMORY_READ, MEMORY_WRITE
_FAMILY_IGNORED = 0xFFFFFFFF
_numbers = itertools.count()


class Texels(DeviceChild):
    """A two-dimensional image, always in the layout GENERAL. What it has of a tensor's attributes launches ask for.

    Args:
        extent: width, height, and channels of a texel.
        data: to begin with; None for arbitrary content.

    Attributes:
        handle: the VkImageView.

    Raises:
        MissingFeature: the device's shaders cannot store such texels.
        KomputeError: it is larger than the device's images.
    """

    def __init__(self, runtime: Runtime, extent: tuple[int, int, int], dtype: np.dtype[Any], data: Any = None) -> None:
        self.runtime, self.dtype, self._extent = runtime, dtype, extent
        width, height, channels = extent
        self.size = width * height * channels
        self.nbytes = self.size * dtype.itemsize
        most = runtime.device.physical.limits["maxImageDimension2D"]
        if max(width, height) > most:
            raise KomputeError(f"{runtime.device} has images of at most {most} texels a side; got {width} x {height}")
        self._format = self._checked_format()
        super().__init__(runtime.device)
        self._image = self._make_image()
        self._buffer = self._bind()
        self._layers = vk.struct("VkImageSubresourceLayers", aspectMask=_COLOR, layerCount=1)
        self._range = vk.struct("VkImageSubresourceRange", aspectMask=_COLOR, levelCount=1, layerCount=1)
        view = {"image": self._image, "viewType": _2D, "format": self._format, "subresourceRange": self._range}
        self.handle = self.own("ImageView", vk.struct("VkImageViewCreateInfo", **view))
        self.block, self.offset = self, 0  # what a descriptor points at
        self.slot: Any = ("image", next(_numbers))
        self.span: Any = (self._buffer, 0, self._buffer.used_bytes)
        self._begin(data)

    def _checked_format(self) -> int:
        bits = 8 * self.dtype.itemsize
        channels = "".join(f"{name}{bits}" for name in "RGBA"[: self._extent[2]])
        name = f"VK_FORMAT_{channels}_{_KINDS[self.dtype.kind]}"
        found, format_ = vk.ffi.new("VkFormatProperties*"), vk.constant(name)
        physical = self.runtime.device.physical
        vk.lib.vkGetPhysicalDeviceFormatProperties(physical.handle, format_, found)
        if found.optimalTilingFeatures & _FEATURES != _FEATURES:
            raise MissingFeature(f"shaders on {physical} cannot load, store and copy images of {name}; use a tensor")
        return format_

    def _make_image(self) -> Any:
        families = sorted({queue.family for queue in self.device.queues})
        info = vk.struct(
            "VkImageCreateInfo",
            imageType=_2D,
            format=self._format,
            extent=self._whole(),
            mipLevels=1,
            arrayLayers=1,
            samples=1,
            usage=_USAGE,
            sharingMode=int(len(families) > 1),
            queueFamilyIndexCount=len(families),
            pQueueFamilyIndices=families,
        )
        return self.own("Image", info)

    def _bind(self) -> Any:
        """The buffer whose memory the image lies in; it also keeps the image's history."""
        device = self.device
        needs = vk.ffi.new("VkMemoryRequirements*")
        device.fn.vkGetImageMemoryRequirements(device.handle, self._image, needs)
        gap = max(needs.alignment, device.physical.limits["bufferImageGranularity"])  # also to what lies beside it
        buffer = device.buffer(needs.size + 2 * gap)
        if not needs.memoryTypeBits & (1 << buffer.block.kind.index):
            raise MissingFeature(f"{device} keeps images and buffers in different memory; use a tensor")
        at = -(-buffer.offset // gap) * gap
        result = device.fn.vkBindImageMemory(device.handle, self._image, buffer.block.memory, at)
        vk.check(result, "vkBindImageMemory", device)
        return buffer

    def _begin(self, data: Any) -> None:
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
        first = None if data is None else self.runtime.tensor(data)
        with self.runtime.record() as graph:
            others = 0, 0, vk.NULL, 0, vk.NULL
            self._add("layout", (self.span,), (), "vkCmdPipelineBarrier", *stages, *others, 1, barrier)
            if first is not None:
                self.copy_from(first)
        graph.submit().point()  # which raises where it cannot be submitted: the layout would be another
        graph.close()

    def copy_from(self, source: Tensor | Texels) -> Future:
        """Copies a tensor of as many elements, or an image of the same extent, into this one, in a graph."""
        if isinstance(source, Texels):
            region = vk.struct(
                "VkImageCopy", srcSubresource=self._layers, dstSubresource=self._layers, extent=self._whole()
            )
            images = source._image, _GENERAL, self._image, _GENERAL
            return self._add("copy", (self.span,), (source.span,), "vkCmdCopyImage", *images, 1, region)
        buffer, region = self._region(source)
        where = buffer, self._image, _GENERAL
        return self._add("copy", (self.span,), (source.span,), "vkCmdCopyBufferToImage", *where, 1, region)

    def copy_into(self, target: Tensor) -> Future:
        """Copies this image into a tensor of as many elements, in a graph."""
        buffer, region = self._region(target)
        where = self._image, _GENERAL, buffer
        return self._add("copy", (target.span,), (self.span,), "vkCmdCopyImageToBuffer", *where, 1, region)

    def _whole(self) -> Any:
        width, height, _ = self._extent
        return vk.struct("VkExtent3D", width=width, height=height, depth=1)

    def _region(self, tensor: Tensor) -> tuple[Any, Any]:
        """The VkBuffer of a tensor, and what of it is copied."""
        offset, parts = tensor.buffer.offset + tensor.offset, {"imageSubresource": self._layers}
        region = vk.struct("VkBufferImageCopy", bufferOffset=offset, imageExtent=self._whole(), **parts)
        return tensor.buffer.block.handle, region

    def _add(self, name: str, writes: Any, reads: Any, call: str, *args: Any) -> Future:
        function = getattr(self.device.fn, call)

        def record(recorder: Recorder) -> None:
            function(recorder.handle, *args)

        return Plain(name, writes, reads, record, self).add(self.runtime)

    def _destroy(self) -> None:
        super()._destroy()
        self.slot = self.span = self._buffer = None


class ImageKernel(Kernel):
    """A kernel whose storage images take `Texels`."""

    kinds = (*Kernel.kinds, "storage_image")

    def bound(self, tensors: Sequence[Any]) -> list[Bound]:
        self.runtime.require_open()
        found: list[Any] = [
            (each, 0, each.nbytes) if isinstance(each, Texels) else bound_range(self, binding, each, check_type=False)
            for binding, each in zip(self.bindings, tensors, strict=True)
        ]
        return found


def image_kernel(runtime: Runtime, spirv: bytes, constants: Mapping[int | str, Any]) -> ImageKernel:
    """The kernel of a shader with storage images; the same arguments give the same one."""
    loaded = load(spirv)
    special = specialize(loaded.name, loaded.interface.spec_constants, constants)
    key = "image kernel", loaded.spirv, special
    make = partial(ImageKernel, runtime, loaded, special, check_types=False)
    kernel: ImageKernel = runtime.memo.get(key) or runtime.memo.setdefault(key, make())
    return kernel
