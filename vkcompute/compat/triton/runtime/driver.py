"""`triton.runtime.driver`: what libraries ask of a device before they launch programs."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, NamedTuple

__all__ = ["GPUTarget", "active"]


class GPUTarget(NamedTuple):
    """The target of programs.

    Attributes:
        backend: "cpu", the type of PyTorch's device whose tensors programs take: libraries take it as such.
        arch: the name of the device.
        warp_size: invocations of a warp, as `num_warps` counts them.
    """

    backend: str
    arch: str
    warp_size: int


class Driver:
    """The default runtime, by the names of Triton's driver. It is opened at the first question."""

    def __init__(self) -> None:
        self.utils = SimpleNamespace(get_device_properties=get_device_properties)

    def get_current_device(self) -> int:
        """Returns 0: programs run where their arrays are."""
        return 0

    def get_active_torch_device(self) -> Any:
        """Returns PyTorch's device of the host, whose tensors programs take.

        Raises:
            ImportError: PyTorch is not installed.
        """
        try:
            import torch
        except ImportError as error:
            raise ImportError(
                "get_active_torch_device() gives a device of PyTorch: pip install torch; without it, make arrays by "
                f"vc.default_runtime().empty(shape, dtype) ({error})"
            ) from error
        return torch.device("cpu")

    def get_current_target(self) -> GPUTarget:
        """Returns the target of programs on the default runtime."""
        return GPUTarget("cpu", str(_physical().name), 32)


def get_device_properties(device: Any = None) -> dict[str, int]:
    """Returns properties of the default runtime's device by CUDA's names.

    Vulkan tells no number of multiprocessors: of a CPU it is that of its cores, else 1.
    """
    physical = _physical()
    shared = int(physical.limits["maxComputeSharedMemorySize"])
    n_cores = (os.cpu_count() or 1) if physical.kind == "cpu" else 1
    return {"max_shared_mem": shared, "multiprocessor_count": n_cores, "max_num_regs": 65536, "warpSize": 32}


def _physical() -> Any:
    from vkcompute.runtime.runtime import current_runtime  # not at import: it loads the driver

    return current_runtime().device.physical


active = Driver()
