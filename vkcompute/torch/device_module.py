"""The module `torch.vk`: what `torch.cuda` is for CUDA's devices."""

from __future__ import annotations

import types
from typing import Any

import torch

from vkcompute.errors import VkComputeError
from vkcompute.torch import generator
from vkcompute.torch.kernels import COUNTS, DEVICE_NAME


def runtime() -> Any:
    """Returns the runtime of the device; imported late, as the module is a part of `import torch`."""
    from vkcompute.runtime.runtime import default_runtime

    return default_runtime()


class _Properties(types.SimpleNamespace):
    """Properties of the device: name, total_memory and others."""


class _Stream:
    """The only stream: the runtime orders work by the memory that it reads and writes."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.stream_id = self.device_index = 0
        self.device = torch.device(DEVICE_NAME, 0)

    def synchronize(self) -> None:
        """Waits for all work of the device."""
        runtime().wait()

    def wait_stream(self, other: Any) -> None:
        """Does nothing: there is one stream."""

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        return


class _DeviceContext:
    """The context `torch.vk.device`, which changes nothing: there is one device."""

    def __init__(self, device: Any = None) -> None:
        self.idx = 0

    def __enter__(self) -> _DeviceContext:
        return self

    def __exit__(self, *_: object) -> None:
        return


class DeviceModule(types.ModuleType):
    """The module that PyTorch reaches as `torch.vk`; its functions are methods."""

    device = device_of = _DeviceContext
    Stream = _Stream

    def __init__(self) -> None:
        super().__init__(f"torch.{DEVICE_NAME}", DeviceModule.__doc__)

    def fallbacks(self) -> dict[str, int]:
        """Returns how often each operator was computed on the host."""
        return dict(COUNTS)

    def clear_fallbacks(self) -> None:
        """Forgets the counts, so that each operator is said again."""
        COUNTS.clear()

    def manual_seed(self, seed: int) -> None:
        """Sets the seed of the device's random numbers."""
        generator.manual_seed(seed)

    manual_seed_all = manual_seed

    def initial_seed(self) -> int:
        """Returns the seed."""
        return generator.initial_seed()

    def get_rng_state(self, device: Any = None) -> Any:
        """Returns the state of the device's random numbers, as a tensor of the CPU."""
        return generator.get_state()

    def set_rng_state(self, state: Any, device: Any = None) -> None:
        """Sets the state that `get_rng_state` returned."""
        generator.set_state(state)

    def is_available(self) -> bool:
        """Returns True if there is a device."""
        try:
            runtime()
        except (VkComputeError, OSError):
            return False
        return True

    def is_initialized(self) -> bool:
        """Returns True: the device is opened on first use."""
        return True

    def init(self) -> None:
        """Does nothing: the device is opened on first use."""

    _lazy_init = init

    def _is_in_bad_fork(self) -> bool:
        return False

    def device_count(self) -> int:
        """Returns the number of devices of the process."""
        return 1

    def current_device(self) -> int:
        """Returns the index of the device."""
        return 0

    def set_device(self, device: Any) -> None:
        """Does nothing: there is one device."""

    def _exchange_device(self, device: int) -> int:
        return 0

    _maybe_exchange_device = _exchange_device

    def synchronize(self, device: Any = None) -> None:
        """Waits for all work of the device."""
        runtime().wait()

    def current_stream(self, device: Any = None) -> _Stream:
        """Returns the stream."""
        return _Stream()

    def get_device_name(self, device: Any = None) -> str:
        """Returns the name of the device."""
        return str(runtime().device.name)

    def get_device_properties(self, device: Any = None) -> Any:
        """Returns name and total_memory."""
        return _Properties(name=self.get_device_name(), total_memory=self.mem_get_info()[1], major=0, minor=0)

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        """Returns the free and the total bytes of the device's memory."""
        memory = runtime().memory()
        return memory.free, memory.used + memory.free

    def memory_allocated(self, device: Any = None) -> int:
        """Returns the bytes that arrays and tensors have."""
        return int(runtime().memory().used)

    def max_memory_allocated(self, device: Any = None) -> int:
        """Returns the most bytes that were in use at a time."""
        return int(runtime().memory().peak)

    def empty_cache(self) -> None:
        """Frees memory that is kept for reuse."""
        runtime().trim()

    def get_amp_supported_dtype(self) -> list[Any]:
        """Returns the dtypes of autocast."""
        return [torch.float16, torch.bfloat16]
