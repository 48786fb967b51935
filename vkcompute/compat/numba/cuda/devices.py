"""Devices and contexts: `cuda.gpus`, `cuda.current_context`, `cuda.select_device`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from vkcompute.compat.numba.errors import CudaSupportError
from vkcompute.compat.replacement import choose_visible, explained, hides_all
from vkcompute.errors import VkComputeError
from vkcompute.runtime.runtime import Runtime, current_runtime

choose_visible()
_LIMITS: dict[str, tuple[str, int | None]] = {
    **{f"MAX_BLOCK_DIM_{axis}": ("maxComputeWorkGroupSize", at) for at, axis in enumerate("XYZ")},
    **{f"MAX_GRID_DIM_{axis}": ("maxComputeWorkGroupCount", at) for at, axis in enumerate("XYZ")},
    "MAX_SHARED_MEMORY_PER_BLOCK": ("maxComputeSharedMemorySize", None),
}
"""An attribute of CUDA's devices -> the limit of Vulkan, and the axis."""
_SAME = {
    "ASYNC_ENGINE_COUNT": 1, "CAN_MAP_HOST_MEMORY": 1, "COMPUTE_CAPABILITY_MAJOR": 7, "COMPUTE_CAPABILITY_MINOR": 5,
    "CONCURRENT_KERNELS": 1, "INTEGRATED": 0, "MANAGED_MEMORY": 0, "MAX_REGISTERS_PER_BLOCK": 65536, "PCI_BUS_ID": 0,
    "PCI_DEVICE_ID": 0, "PCI_DOMAIN_ID": 0, "TOTAL_CONSTANT_MEMORY": 65536, "UNIFIED_ADDRESSING": 0,
}  # fmt: skip
"""Attributes whose value no limit of Vulkan tells: programs print them."""


class MemoryInfo(NamedTuple):
    """Bytes of a device's memory."""

    free: int
    total: int


class Device:
    """A device, by its number.

    Attributes:
        id: its number.
        compute_capability: (7, 5): all that kernels use here exists on devices of NVIDIA from there on.
    """

    compute_capability = (7, 5)
    WARP_SIZE = 32

    def __init__(self, number: int) -> None:
        self.id = number

    @property
    def runtime(self) -> Runtime:
        """Its runtime."""
        return current_runtime()

    @property
    def name(self) -> bytes:
        """Its name."""
        return str(self.runtime.device.name).encode()

    @property
    def uuid(self) -> str:
        """A text that is the same for the same device."""
        return f"GPU-{self.id:08x}"

    @property
    def supports_float16(self) -> bool:
        """True: what a device lacks is computed by other means."""
        return True

    @property
    def MAX_THREADS_PER_BLOCK(self) -> int:  # noqa: N802
        """The most threads of a block."""
        return int(self.runtime.device.physical.limits["maxComputeWorkGroupInvocations"])

    @property
    def MULTIPROCESSOR_COUNT(self) -> int:  # noqa: N802
        """A number of blocks that keeps the device busy."""
        return 8

    def __getattr__(self, name: str) -> int:
        if name in _LIMITS:
            limit, axis = _LIMITS[name]
            value = self.runtime.device.physical.limits[limit]
            return int(value if axis is None else value[axis])
        if name not in _SAME:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return _SAME[name]

    def get_primary_context(self) -> Context:
        """Returns its context."""
        return Context(self)

    def reset(self) -> None:
        """Waits for all launches."""
        self.runtime.wait()

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"<CUDA device {self.id} '{self.name!r}'>"


class Context:
    """The context of a device, which always exists."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def get_memory_info(self) -> MemoryInfo:
        """Returns the free bytes and all bytes of the device's memory."""
        memory = self.device.runtime.memory()
        return MemoryInfo(memory.free, memory.free + memory.used)

    def synchronize(self) -> None:
        """Waits for all launches."""
        self.device.runtime.wait()

    def reset(self) -> None:
        """Waits for all launches."""
        self.synchronize()

    def push(self) -> None:
        """Has no effect."""

    def pop(self) -> None:
        """Has no effect."""

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and self.device == other.device

    def __hash__(self) -> int:
        return hash(self.device)


class _Devices:
    """The devices: the one of the default runtime."""

    @property
    def lst(self) -> list[Device]:
        """All devices."""
        return [] if hides_all() else [_DEVICE]

    @property
    def current(self) -> Device:
        """The device that launches use."""
        return _DEVICE

    def __getitem__(self, number: int) -> Device:
        return self.lst[number]

    def __iter__(self) -> Iterator[Device]:
        return iter(self.lst)

    def __len__(self) -> int:
        return len(self.lst)

    def __str__(self) -> str:
        return ", ".join(map(str, self.lst))


_DEVICE = Device(0)
gpus = _Devices()
"""The devices."""


def is_available() -> bool:
    """Returns True if there is a device."""
    try:
        return current_runtime() is not None
    except (VkComputeError, OSError):
        return False


def cuda_error() -> Exception | None:
    """Returns the error for which there is no device, or None."""
    try:
        current_runtime()
    except (VkComputeError, OSError) as error:
        return CudaSupportError(explained(error))
    return None


def list_devices() -> _Devices:
    """Returns the devices."""
    return gpus


def get_current_device() -> Device:
    """Returns the device that launches use."""
    return _DEVICE


def current_context(devnum: int | None = None) -> Context:
    """Returns the context of the device that launches use."""
    return Context(_DEVICE)


get_context = current_context


def select_device(device_id: int) -> Context:
    """Selects a device by its number.

    Raises:
        IndexError: there is no such device.
    """
    return Context(gpus[device_id])


def require_context(function: Any) -> Any:
    """Returns a function unchanged: there always is a context."""
    return function


def close() -> None:
    """Waits for all launches."""
    current_runtime().wait()


reset = close


def detect() -> bool:
    """Prints the devices, and returns True if there is one."""
    if not is_available():
        print("Found 0 CUDA devices")
        return False
    print(f"Found {len(gpus)} CUDA devices")
    for device in gpus:
        print(f"id {device.id}    {device.name!r}                              [SUPPORTED]")
        print(f"                      Compute Capability: {'.'.join(map(str, device.compute_capability))}")
        print(f"                                    UUID: {device.uuid}")
    print("Summary:")
    print(f"	{len(gpus)}/{len(gpus)} devices are supported")
    return True


@contextlib.contextmanager
def defer_cleanup() -> Iterator[None]:
    """Has no effect: memory is freed without a wait."""
    yield


def profile_start() -> None:
    """Has no effect; `vc.Runtime.profile()` measures launches."""


def profile_stop() -> None:
    """Has no effect."""


@contextlib.contextmanager
def profiling() -> Iterator[None]:
    """Has no effect; `vc.Runtime.profile()` measures launches."""
    yield


def is_float16_supported() -> bool:
    """Returns True: what a device lacks is computed by other means."""
    return True


def is_supported_version() -> bool:
    """Returns True."""
    return True
