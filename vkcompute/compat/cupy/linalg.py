"""The functions of `cupy.linalg`."""

from __future__ import annotations

from typing import Any

import vkcompute.numpy.linalg as _functions
from vkcompute.compat.cupy.lifting import lifted

LinAlgError = _functions.LinAlgError


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in dir(_functions):
        raise AttributeError(f"vkcompute.compat.cupy.linalg has no {name}", name=name)
    globals()[name] = lifted(getattr(_functions, name))
    return globals()[name]
