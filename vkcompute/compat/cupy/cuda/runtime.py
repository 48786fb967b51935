"""Functions of `cupy.cuda.runtime`."""

from __future__ import annotations

from typing import Any

from vkcompute.compat.cupy.devices import CUDARuntimeError as CUDARuntimeError
from vkcompute.compat.cupy.devices import Device
from vkcompute.runtime.runtime import current_runtime

is_hip = False
streamLegacy, streamPerThread = 1, 2  # noqa: N816
memcpyHostToHost, memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice, memcpyDefault = range(5)  # noqa: N816


def getDeviceCount() -> int:  # noqa: N802
    """Returns 1: the current runtime's device."""
    return 1


def getDevice() -> int:  # noqa: N802
    """Returns 0, the number of the device."""
    return 0


def setDevice(device: int) -> None:  # noqa: N802
    """Does nothing for device 0."""
    Device(device)


def deviceSynchronize() -> None:  # noqa: N802
    """Waits for all work of the device."""
    current_runtime().wait()


def memGetInfo() -> tuple[int, int]:  # noqa: N802
    """Returns the free and the total bytes of memory."""
    memory = current_runtime().memory()
    return memory.free, memory.used + memory.free


def runtimeGetVersion() -> int:  # noqa: N802
    """Returns the version of CUDA whose interface this is like."""
    return 12000


driverGetVersion = runtimeGetVersion  # noqa: N816


def getDeviceProperties(device: int) -> dict[str, Any]:  # noqa: N802
    """Returns properties by CUDA's names."""
    runtime = current_runtime()
    limits = runtime.device.physical.limits
    return {
        "name": str(runtime.device.name).encode(), "totalGlobalMem": memGetInfo()[1], "major": 0, "minor": 0,
        "maxThreadsPerBlock": int(limits["maxComputeWorkGroupInvocations"]),
        "sharedMemPerBlock": int(limits["maxComputeSharedMemorySize"]), "warpSize": 32, "multiProcessorCount": 8,
        "maxGridSize": tuple(limits["maxComputeWorkGroupCount"]),
        "maxThreadsDim": tuple(limits["maxComputeWorkGroupSize"]),
    }  # fmt: skip
