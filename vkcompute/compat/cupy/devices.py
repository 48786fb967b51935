"""Devices, as `cupy.cuda.Device`."""

from __future__ import annotations

from typing import Any

from vkcompute.compat.replacement import choose_visible
from vkcompute.errors import VkComputeError
from vkcompute.runtime.runtime import Runtime, current_runtime

choose_visible()


class CUDARuntimeError(VkComputeError):
    """An error of a function of `cupy.cuda.runtime`."""


class Device:
    """A device: the current runtime is that of number 0.

    Args:
        device: a number, a runtime, or another device; by default the current one.

    Attributes:
        id: the number.
    """

    def __init__(self, device: Any = None) -> None:
        given = getattr(device, "id", device)
        self._runtime: Runtime | None = given if isinstance(given, Runtime) else None
        self.id = 0 if given is None or isinstance(given, Runtime) else int(given)
        if self.id != 0:
            raise CUDARuntimeError(
                f"cudaErrorInvalidDevice: there is one device, 0; got {self.id}; another is a runtime: vc.Runtime(1)"
            )

    @property
    def runtime(self) -> Runtime:
        """The runtime."""
        return current_runtime() if self._runtime is None else self._runtime

    def use(self) -> Device:
        """Makes it the current one, which it is."""
        return self

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def synchronize(self) -> None:
        """Waits for all work of the device."""
        self.runtime.wait()

    @property
    def name(self) -> str:
        """The driver's name of the device."""
        return str(self.runtime.device.name)

    @property
    def mem_info(self) -> tuple[int, int]:
        """The free and the total bytes of memory."""
        memory = self.runtime.memory()
        return memory.free, memory.used + memory.free

    @property
    def compute_capability(self) -> str:
        """ "00": there is no number of NVIDIA's."""
        return "00"

    @property
    def attributes(self) -> dict[str, Any]:
        """Limits of the device, by CUDA's names."""
        limits = self.runtime.device.physical.limits
        return {
            "MaxThreadsPerBlock": int(limits["maxComputeWorkGroupInvocations"]),
            "MaxBlockDimX": int(limits["maxComputeWorkGroupSize"][0]),
            "MaxSharedMemoryPerBlock": int(limits["maxComputeSharedMemorySize"]),
        }

    @property
    def pci_bus_id(self) -> str:
        """The place of the device, which Vulkan does not tell."""
        return "0000:00:00.0"

    def __int__(self) -> int:
        return self.id

    __index__ = __int__

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, Device)) and int(other) == self.id

    def __lt__(self, other: object) -> bool:
        return self.id < int(other) if isinstance(other, (int, Device)) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.id <= int(other) if isinstance(other, (int, Device)) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.id > int(other) if isinstance(other, (int, Device)) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.id >= int(other) if isinstance(other, (int, Device)) else NotImplemented

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"


def get_device_id() -> int:
    """Returns the number of the current device."""
    return 0


def get_compute_capability() -> str:
    """Returns "00": there is no number of NVIDIA's."""
    return "00"
