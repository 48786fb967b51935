"""Names of `cupyx.scipy` that arrays have."""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = ("fft", "linalg", "special")


def get_array_module(*args: Any) -> Any:
    """Returns this package if an argument is an array of the device, else `scipy`."""
    from vkcompute.compat import cupy  # not at import: it loads the driver

    if cupy.get_array_module(*args) is cupy:
        return importlib.import_module(__name__)
    return importlib.import_module("scipy")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"vkcompute.compat.cupyx.scipy has no {name}; docs/cupy.md lists what is there", name=name)
