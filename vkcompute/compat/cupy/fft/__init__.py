"""The functions of `cupy.fft`."""

from __future__ import annotations

from typing import Any

import vkcompute.numpy.fft as _functions
from vkcompute.compat.cupy import methods  # noqa: F401  # the methods of results
from vkcompute.compat.cupy.fft import config as config
from vkcompute.compat.cupy.lifting import lifted


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in dir(_functions):
        raise AttributeError(f"vkcompute.compat.cupy.fft has no {name}", name=name)
    globals()[name] = lifted(getattr(_functions, name))
    return globals()[name]
