"""Settings of `cupy.fft.config`, which have no effect: transforms are planned by the device's own programs."""

from __future__ import annotations

import sys
import types
import warnings
from typing import Any

_DEFAULTS: dict[str, Any] = {
    "enable_nd_planning": True, "use_multi_gpus": False, "_devices": None,
}  # fmt: skip


class _Config(types.ModuleType):
    """The module, whose settings warn that CuPy will drop them."""

    def __getattr__(self, name: str) -> Any:
        if name not in _DEFAULTS:
            raise AttributeError(name)
        _warn(name)
        return _DEFAULTS[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _DEFAULTS:
            _warn(name)
            _DEFAULTS[name] = value
        else:
            super().__setattr__(name, value)


def _warn(name: str) -> None:
    if name == "enable_nd_planning":
        warnings.warn(f"{name} has no effect: CuPy deprecates it", DeprecationWarning, stacklevel=3)


def set_cufft_gpus(gpus: Any) -> None:
    """Has no effect."""


def clear_plan_cache() -> None:
    """Has no effect: there are no plans of cuFFT."""


sys.modules[__name__].__class__ = _Config
