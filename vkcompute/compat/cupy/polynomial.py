"""The modules of `cupy.polynomial`."""

from __future__ import annotations

from vkcompute.numpy import polynomial as _polynomial


def __getattr__(name: str) -> object:
    return getattr(_polynomial, name)
