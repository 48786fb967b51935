"""Replacements of functions of PyTorch that need an allocator in C++; `undo` restores them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from vkcompute.torch.kernels import DEVICE_NAME

_restorers: list[Callable[[], None]] = []


def apply(library: Any) -> None:
    """Replaces what a storage of the device, its loading and its synchronization need.

    Args:
        library: the library of kernels, to which one of the CPU is added.
    """
    _replace(torch.UntypedStorage, "__new__", _storage_maker(torch.UntypedStorage.__new__))
    _replace(torch.accelerator, "synchronize", _synchronize)
    _replace(torch._tensor_str, "_tensor_str", _printed_on_host(torch._tensor_str._tensor_str))
    _replace(torch, "Generator", _generator_class(torch.Generator))
    swaps = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)  # else `.to("vk")` unties tied weights
    _restorers.append(lambda: torch.__future__.set_swap_module_params_on_conversion(swaps))
    package = (15, _tag, _restored)
    torch.serialization.register_package(*package)
    registry = torch.serialization._package_registry
    _restorers.append(lambda: registry.remove(package))
    library.impl("_pin_memory", lambda tensor, device=None: tensor.clone(), "CPU")  # ordinary memory serves


def undo() -> None:
    """Restores what `apply` replaced."""
    while _restorers:
        _restorers.pop()()


def _replace(owner: Any, name: str, value: Any) -> None:
    original = owner.__dict__.get(name)
    setattr(owner, name, value)

    def restore() -> None:
        if original is None:
            delattr(owner, name)
        else:
            setattr(owner, name, original)

    _restorers.append(restore)


def _is_device(device: Any) -> bool:
    return device is not None and torch.device(device).type == DEVICE_NAME


def _storage_maker(original: Any) -> Any:
    """Returns UntypedStorage.__new__, which ends the process for a device without an allocator in C++."""

    def new(cls: Any, *args: Any, device: Any = None, **named: Any) -> Any:
        if _is_device(device):
            n = int(args[0]) if args else 0
            return torch.empty(n, dtype=torch.uint8, device=DEVICE_NAME).untyped_storage()
        return original(cls, *args, **named) if device is None else original(cls, *args, device=device, **named)

    return new


def _synchronize(device: Any = None, /) -> None:
    torch.vk.synchronize()


def _printed_on_host(original: Any) -> Any:
    """Returns the function that formats elements; on the device, it would compile a dozen kernels."""

    def format_elements(tensor: Any, indent: int) -> Any:
        return original(tensor.cpu() if tensor.device.type == DEVICE_NAME else tensor, indent)

    return format_elements


def _tag(storage: Any) -> None:
    """Names no location: PyTorch names the device's itself."""


def _restored(storage: Any, location: str) -> Any:
    """Returns a storage of the host on the device, for `torch.load`; None for other locations."""
    if location.split(":")[0] != DEVICE_NAME:
        return None
    nbytes = storage.nbytes()
    on_device = torch.empty(nbytes, dtype=torch.uint8, device=DEVICE_NAME)
    if nbytes:
        on_device.copy_(torch.empty(0, dtype=torch.uint8).set_(storage))
    return on_device.untyped_storage()


def _generator_class(original: Any) -> Any:
    """Returns torch.Generator, whose generators for the device are the CPU's: they carry seed and state."""

    class Generator(original):  # type: ignore[misc]
        """A generator of random numbers; for the device, one of the host from which its kernels draw keys."""

        def __new__(cls, device: Any = "cpu") -> Any:
            return original.__new__(cls, "cpu" if _is_device(device) else device)

        def __init__(self, device: Any = "cpu") -> None:
            """Does nothing: `__new__` has set all."""

    return Generator
