"""Names of Numba's driver module that programs import."""

from __future__ import annotations

from vkcompute.compat.numba.cuda import devicearray, devices
from vkcompute.compat.numba.cuda.devices import Context, Device
from vkcompute.compat.numba.cuda.streams import Event, Stream
from vkcompute.compat.numba.errors import CudaAPIError, CudaSupportError

__all__ = [
    "Context",
    "CudaAPIError",
    "CudaSupportError",
    "Device",
    "Event",
    "Stream",
    "devicearray",
    "devices",
    "driver",
]


class _Driver:
    """The driver, and the names of the module `numba.cuda.cudadrv.driver`."""

    Context, Device, Event, Stream, CudaAPIError = Context, Device, Event, Stream, CudaAPIError

    @property
    def driver(self) -> _Driver:
        """The driver."""
        return self

    def get_device_count(self) -> int:
        """Returns the number of devices."""
        return len(devices.gpus)

    def get_version(self) -> tuple[int, int]:
        """Returns the version of CUDA whose functions are here."""
        return 12, 0

    def _have_nvjitlink(self) -> bool:
        return False


driver = _Driver()
