"""The functions of `cupyx.scipy.fft` that `cupy.fft` has."""

from __future__ import annotations

from typing import Any

from vkcompute.compat.cupy import fft as _fft


def __getattr__(name: str) -> Any:
    return getattr(_fft, name)
