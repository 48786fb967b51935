"""`tl.extra`: libraries of functions."""

from __future__ import annotations

from vkcompute.compat.triton.language.extra import cuda, libdevice

__all__ = ["cuda", "libdevice"]
