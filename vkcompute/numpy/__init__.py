"""NumPy's interface on the device: `import vkcompute.numpy as vnp`.

Names are imported on first use, so that the import takes no time and loads no driver.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vkcompute.arrays.namespace import *  # noqa: F403
    from vkcompute.numpy import fft as fft
    from vkcompute.numpy import lib as lib
    from vkcompute.numpy import linalg as linalg
    from vkcompute.numpy import polynomial as polynomial
    from vkcompute.numpy import random as random

_MODULES = ("fft", "lib", "linalg", "polynomial", "random")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    value = vars(_names()).get(name, _absent)
    if value is _absent or name in _HIDDEN or (name.startswith("_") and not name.startswith("__array")):
        raise AttributeError(_missing(name), name=name, obj=sys.modules[__name__])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    own = [name for name in vars(_names()) if not name.startswith("_") and name not in _HIDDEN]
    return sorted({*own, *_MODULES, "__array_api_version__", "__array_namespace_info__"})


def _names() -> Any:
    return importlib.import_module("vkcompute.arrays.namespace")


def _missing(name: str) -> str:
    """Returns the error for a name that is not here."""
    if hasattr(importlib.import_module("numpy"), name):
        rule = f"vkcompute.numpy has no {name}, which is NumPy's, and not here yet"
        return f"{rule}; convert with .numpy(), and back with asarray"
    remedy = importlib.import_module("vkcompute.jit.frontend.other_words").on_host(name)
    return f"vkcompute.numpy has no {name}{remedy}"


_absent = object()
_HIDDEN = {"annotations", "math", "Any"}
