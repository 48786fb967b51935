"""The module `torch.vk`: what `torch.cuda` is for CUDA's devices."""

from __future__ import annotations

import functools
import types
from typing import Any

import torch

from vkcompute.errors import VkComputeError
from vkcompute.torch import generator
from vkcompute.torch.kernels import COUNTS, DEVICE_NAME
from vkcompute.torch.streams import Event, Stream, StreamContext


def runtime() -> Any:
    """Returns the runtime of the device; imported late, as the module is a part of `import torch`."""
    from vkcompute.runtime.runtime import default_runtime

    return default_runtime()


class _Properties(types.SimpleNamespace):
    """Properties of the device: name, total_memory and others."""


class _DeviceContext:
    """The context `torch.vk.device`, which changes nothing: there is one device."""

    def __init__(self, device: Any = None) -> None:
        self.idx = 0

    def __enter__(self) -> _DeviceContext:
        return self

    def __exit__(self, *_: object) -> None:
        return


class _Amp(types.ModuleType):
    """The module that PyTorch reaches as `torch.vk.amp`: mixed precision on the device."""

    autocast = staticmethod(functools.partial(torch.autocast, DEVICE_NAME))
    GradScaler = staticmethod(functools.partial(torch.amp.GradScaler, DEVICE_NAME))
    custom_fwd = staticmethod(functools.partial(torch.amp.custom_fwd, device_type=DEVICE_NAME))
    custom_bwd = staticmethod(functools.partial(torch.amp.custom_bwd, device_type=DEVICE_NAME))


class DeviceModule(types.ModuleType):
    """The module that PyTorch reaches as `torch.vk`; its functions are methods."""

    device = device_of = _DeviceContext
    Stream, Event, StreamContext, stream = Stream, Event, StreamContext, StreamContext
    OutOfMemoryError = torch.OutOfMemoryError
    amp = _Amp("torch.vk.amp", _Amp.__doc__)
    _initialized = True
    """Makes checkpoints keep the state of random numbers: PyTorch asks no device that is not initialized."""

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

    def seed(self) -> int:
        """Sets a seed that differs each time, and returns it."""
        return generator.seed()

    seed_all = seed

    def get_rng_state_all(self) -> list[Any]:
        """Returns the states of all devices, of which there is one."""
        return [generator.get_state()]

    def set_rng_state_all(self, states: Any) -> None:
        """Sets the states that `get_rng_state_all` returned."""
        generator.set_state(states[0])

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

    def _maybe_exchange_device(self, device: int) -> int:  # Dynamo has a table of functions, where each is another one
        return 0

    def can_device_access_peer(self, device: Any, peer_device: Any) -> bool:
        """Returns False: there is one device."""
        return False

    def synchronize(self, device: Any = None) -> None:
        """Launches what tensors hold as expressions, and waits for all work of the device."""
        from vkcompute.torch.storage import compute_pending

        compute_pending()
        runtime().wait()

    def current_stream(self, device: Any = None) -> Any:
        """Returns the stream."""
        return Stream()

    default_stream = current_stream

    def set_stream(self, stream: Any) -> None:
        """Does nothing: there is one stream."""

    def get_device_name(self, device: Any = None) -> str:
        """Returns the name of the device."""
        return str(runtime().device.name)

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """Returns (8, 0): programs take it that the device computes with bfloat16, as all of these do."""
        return 8, 0

    def get_device_properties(self, device: Any = None) -> Any:
        """Returns name, total_memory, and numbers that programs for CUDA read."""
        physical = runtime().device.physical
        return _Properties(
            name=self.get_device_name(),
            total_memory=self.mem_get_info()[1],
            major=8,
            minor=0,
            multi_processor_count=1,
            warp_size=physical.subgroup_size,
            is_integrated=0,
            is_multi_gpu_board=0,
            max_threads_per_multi_processor=int(physical.limits["maxComputeWorkGroupInvocations"]),
        )

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        """Returns True: bfloat16 is computed in float32 and rounded."""
        return True

    def get_amp_supported_dtype(self) -> list[Any]:
        """Returns the dtypes of autocast."""
        return [torch.float16, torch.bfloat16]

    # -- memory -------------------------------------------------------------------------------------------------------

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        """Returns the free and the total bytes of the device's memory."""
        memory = runtime().memory()
        return memory.free, memory.used + memory.free

    get_memory_info = mem_get_info

    def memory_allocated(self, device: Any = None) -> int:
        """Returns the bytes that arrays and tensors have."""
        return int(runtime().memory().used)

    def max_memory_allocated(self, device: Any = None) -> int:
        """Returns the most bytes that were in use or kept for reuse at a time."""
        return int(runtime().memory().peak)

    def memory_reserved(self, device: Any = None) -> int:
        """Returns the bytes in use and kept for reuse."""
        memory = runtime().memory()
        return int(memory.used + memory.pooled)

    def max_memory_reserved(self, device: Any = None) -> int:
        """Returns the most bytes that were in use or kept for reuse at a time."""
        return max(self.memory_reserved(), self.max_memory_allocated())

    memory_cached, max_memory_cached = memory_reserved, max_memory_reserved

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        """Counts the most bytes from now on."""
        opened = runtime()
        with opened.device.lock:
            opened.device.memory.peak_bytes = 0

    reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats

    def reset_accumulated_memory_stats(self, device: Any = None) -> None:
        """Does nothing: nothing is accumulated."""

    def memory_stats(self, device: Any = None) -> dict[str, int]:
        """Returns the bytes by the names that torch.cuda has for them."""
        return memory_stats(runtime().memory())

    def memory_summary(self, device: Any = None, abbreviated: bool = False) -> str:
        """Returns the bytes as a table."""
        return memory_summary(self.get_device_name(), runtime().memory())

    def empty_cache(self) -> None:
        """Frees memory that is kept for reuse."""
        runtime().trim()

    def empty_host_cache(self) -> None:
        """Does nothing: no memory of the host is kept."""

    def ipc_collect(self) -> None:
        """Does nothing: memory is not shared between processes."""


def memory_stats(memory: Any) -> dict[str, int]:
    """Returns bytes in use, free and kept for reuse, and their peaks.

    Args:
        memory: what `Runtime.memory` returns.
    """
    reserved = memory.used + memory.pooled
    peaks = {"allocated_bytes": (memory.used, memory.peak), "active_bytes": (memory.used, memory.peak),
             "reserved_bytes": (reserved, max(memory.peak, reserved)), "inactive_split_bytes": (memory.pooled,) * 2,
             "requested_bytes": (memory.used, memory.peak)}  # fmt: skip
    figures = {f"{name}.all.current": pair[0] for name, pair in peaks.items()}
    figures |= {f"{name}.all.peak": pair[1] for name, pair in peaks.items()}
    return figures | {"spilled_bytes": memory.spilled, "free_bytes": memory.free, "num_alloc_retries": 0, "num_ooms": 0}


def memory_summary(name: str, memory: Any) -> str:
    """Returns a table of the bytes in use, kept for reuse, free and on the host."""
    rows = (("in use", memory.used), ("peak", memory.peak), ("kept for reuse", memory.pooled), ("free", memory.free),
            ("moved to the host", memory.spilled))  # fmt: skip
    lines = [f"| {title:<20} | {nbytes / 2**20:>12.1f} MiB |" for title, nbytes in rows]
    return "\n".join([f"Memory of {name}", *lines])
