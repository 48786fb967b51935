"""Images: memory objects of texels, which shaders load and store by their coordinates."""

from __future__ import annotations

from operator import index
from typing import Any

from vkcompute.compat.kp.context import ManagerBase
from vkcompute.compat.kp.memory_objects import Command, HostArray, Memory, MemoryTypes, NamedIntEnum
from vkcompute.errors import KomputeError

CHANNELS = (1, 2, 4)


class ImageTilings(NamedIntEnum):
    """Layout of texels on the device; the host side is a flat array with either."""

    optimal = 0
    linear = 1


class Image(Memory):
    """`width` times `height` texels of 1, 2 or 4 channels, made by `Manager.image` and `Manager.image_t`.

    A `host` or `deviceAndHost` image has a device copy, too. Each operation that uses the image uploads the host side
    before and downloads it after.
    """

    def __init__(
        self,
        manager: ManagerBase,
        data: HostArray,
        extent: tuple[int, int, int],
        memory_type: MemoryTypes,
        tiling: ImageTilings | None,
    ) -> None:
        width, height, channels = map(index, extent)
        if channels not in CHANNELS:
            raise KomputeError(f"an image has 1, 2 or 4 channels; got {channels}")
        if width < 1 or height < 1:
            raise KomputeError(f"an image has at least one texel along each axis; got {width} x {height}")
        if tiling is not None and not isinstance(tiling, ImageTilings):
            raise TypeError(f"tiling is one of kp.ImageTilings; got {tiling!r}")
        size = width * height * channels
        if data.size < size:
            raise KomputeError(f"{width} x {height} texels of {channels} channels are {size} numbers; got {data.size}")
        if tiling is ImageTilings.optimal and memory_type in (MemoryTypes.host, MemoryTypes.deviceAndHost):
            raise KomputeError(f"optimal tiling is for device and storage memory; got {memory_type!r}")
        self._extent = extent
        super().__init__(manager, data[:size], memory_type)

    def _make_primary(self, data: HostArray) -> Any:
        from vkcompute.compat.kp.device_image import DeviceImage  # here, because it imports the vulkan package

        contents = data if self._host is None else None
        return DeviceImage(self.manager.require_open(), self._extent, data.dtype, contents)

    def texel_format(self) -> str:
        """Returns SPIR-V's name of the texel format."""
        dtype, channels = self.primary.dtype, self._extent[2]
        return f"{'Rgba'[:channels]}{8 * dtype.itemsize}{ {'f': 'f', 'i': 'i', 'u': 'ui'}[dtype.kind] }"

    def before_use(self) -> list[Command]:
        return self._copies(self.primary, self._host) if self._has_one_side() else []

    def after_use(self) -> list[Command]:
        return self._copies(self._host, self.primary) if self._has_one_side() else []

    def to_device(self) -> list[Command]:
        return [] if self._has_one_side() else super().to_device()

    def to_host(self) -> list[Command]:
        return [] if self._has_one_side() else super().to_host()

    def _has_one_side(self) -> bool:
        return self._type in (MemoryTypes.host, MemoryTypes.deviceAndHost)
