"""CuPy's interface: arrays and functions of its names, on any device.

    import vkcompute.compat.cupy as cp

Names are imported on first use, so that the import loads no driver.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vkcompute.compat.cupy.namespace import *  # noqa: F403

__version__ = "14.0.0"
"""The version of CuPy whose interface this is, for libraries that compare it."""
_MODULES = ("cuda", "exceptions", "fft", "lib", "linalg", "polynomial", "random", "testing")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    value = importlib.import_module(f"{__name__}.namespace").NAMES.get(name, _absent)
    if value is _absent:
        raise AttributeError(_missing(name), name=name, obj=sys.modules[__name__])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    names = importlib.import_module(f"{__name__}.namespace").NAMES
    return sorted({*names, *_MODULES, "__version__"})


def _missing(name: str) -> str:
    """Returns the error for a name that is not here."""
    if hasattr(importlib.import_module("numpy"), name):
        return f"vkcompute.compat.cupy has no {name}; call NumPy's with x.get(), and return with asarray"
    return f"vkcompute.compat.cupy has no {name}; docs/cupy.md lists what CuPy has and this has not"


_absent = object()
