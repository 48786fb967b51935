"""The table of the device's kernels: functions by the names of PyTorch's operators."""

from __future__ import annotations

import collections
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import torch

DEVICE_NAME = "vk"
DEVICE_TYPES = {DEVICE_NAME}
"""Types of devices that are this one: `vk`, and `cuda` in programs that `as_cuda` runs. These see the smallest."""
Kernel = Callable[..., Any]
_Function = TypeVar("_Function", bound=Kernel)
COUNTS: collections.Counter[str] = collections.Counter()
"""Calls of each operator on the host."""
KERNELS: dict[str, Kernel] = {}
"""Kernels by "name.overload", without the namespace."""
_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1)


def kernel(*names: str) -> Callable[[_Function], _Function]:
    """Adds a function to the table under names of operators."""

    def add(function: _Function) -> _Function:
        for name in names:
            assert name not in KERNELS, name
            KERNELS[name] = function
        return function

    return add


def exists(name: str) -> bool:
    """True if this version of PyTorch has the operator."""
    packet, _, overload = name.partition(".")
    return hasattr(torch.ops.aten, packet) and hasattr(getattr(torch.ops.aten, packet), overload or "default")


def operator(name: str) -> Any:
    """Returns PyTorch's operator of a name such as "add.out"."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def composite(name: str) -> Kernel:
    """Returns PyTorch's kernel of an operator that it computes by others on all devices, for tensors of this one."""
    return partial(torch.library.get_kernel(f"aten::{name}", "CPU").call_boxed, _KEYS)


def is_on_device(value: Any) -> bool:
    """True for a tensor of the device."""
    return isinstance(value, torch.Tensor) and value.device.type in DEVICE_TYPES
