"""Images: memory objects of texels, which shaders load and store by their coordinates."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from vkcompute.compat.kp.memory import Array, Command, Memory, MemoryTypes, Named
from vkcompute.errors import KomputeError

if TYPE_CHECKING:
    from vkcompute.compat.kp.manager import Manager

CHANNELS = (1, 2, 4)


class ImageTilings(Named):
    """How texels lie on the device; the host's side is a flat array in either case."""

    optimal = 0
    linear = 1


class Image(Memory):
    """Made by `Manager.image` and `Manager.image_t`: `width` times `height` texels of 1, 2 or 4 channels.

    Of `host` and `deviceAndHost` memory the device has a copy of its own, which each operation that uses it brings up
    to date, and back.
    """

    def __init__(
        self,
        manager: Manager,
        data: Array,
        extent: tuple[int, int, int],
        memory_type: MemoryTypes,
        tiling: ImageTilings | None,
    ) -> None:
        width, height, channels = map(index, extent)
        if channels not in CHANNELS:
            raise KomputeError(f"an image has 1, 2 or 4 channels; got {channels}")
        if width < 1 or height < 1:
            raise KomputeError(f"an image has at least one texel each way; got {width} x {height}")
        if tiling is not None and not isinstance(tiling, ImageTilings):
            raise TypeError(f"tiling is one of kp.ImageTilings; got {tiling!r}")
        size = width * height * channels
        if data.size < size:
            raise KomputeError(f"{width} x {height} texels of {channels} channels are {size} numbers; got {data.size}")
        if tiling is ImageTilings.optimal and memory_type in (MemoryTypes.host, MemoryTypes.deviceAndHost):
            raise KomputeError(f"optimal tiling is for device and storage memory; got {memory_type!r}")
        self._extent = extent
        super().__init__(manager, data[:size], memory_type)

    def _make_primary(self, data: Array) -> Any:
        from vkcompute.compat.kp.texels import Texels

        return Texels(self.manager.opened(), self._extent, data.dtype, data if self._host is None else None)

    def texel_format(self) -> str:
        """SPIR-V's name of the texels' format."""
        dtype, channels = self.primary.dtype, self._extent[2]
        return f"{'Rgba'[:channels]}{8 * dtype.itemsize}{ {'f': 'f', 'i': 'i', 'u': 'ui'}[dtype.kind] }"

    def enter(self) -> list[Command]:
        return self._sync(self.primary, self._host) if self._is_one() else []

    def leave(self) -> list[Command]:
        return self._sync(self._host, self.primary) if self._is_one() else []

    def to_device(self) -> list[Command]:
        return [] if self._is_one() else super().to_device()

    def to_host(self) -> list[Command]:
        return [] if self._is_one() else super().to_host()

    def _is_one(self) -> bool:
        return self._type in (MemoryTypes.host, MemoryTypes.deviceAndHost)
