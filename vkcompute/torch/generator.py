"""Random numbers of the device: Philox, so that a seed gives the same numbers on every device."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

import torch

from vkcompute.torch.kernels import DEVICE_TYPES

OF_DEVICE: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""Generators made for the device, by the address of PyTorch's object; a kernel gets another object of Python."""
_state = torch.Generator()
"""Seed and state of the device's default generator. Each operator draws its key from it."""


def manual_seed(seed: int) -> None:
    """Sets the seed of the device's random numbers."""
    _state.manual_seed(int(seed) & (2**63 - 1))


def seed() -> int:
    """Sets a seed that differs each time, and returns it."""
    return int(_state.seed())


def initial_seed() -> int:
    """Returns the seed."""
    return int(_state.initial_seed())


def get_state(device: Any = None) -> Any:
    """Returns the state of the device's random numbers, as a tensor of the CPU."""
    return _state.get_state()


def set_state(state: Any, device: Any = None) -> None:
    """Sets the state that `get_state` returned."""
    _state.set_state(state)


def host_generator(generator: Any = None) -> Any:
    """Returns the generator of the host from which an operator draws, so that no plan repeats the operator.

    Raises:
        RuntimeError: the one given was not made for the device.
    """
    from vkcompute.runtime.runtime import default_runtime  # it loads the driver, as no seed does

    scheduler = default_runtime().scheduler
    if scheduler.tracers and (tracer := scheduler.tracer()) is not None:
        tracer.refuse("it draws random numbers")
    if generator is None:
        return _state
    if generator._cdata not in OF_DEVICE:
        wanted, given = min(DEVICE_TYPES), generator.device.type
        raise RuntimeError(f"Expected a '{wanted}' device type for generator but found '{given}'")
    return generator
