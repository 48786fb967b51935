"""`tl.extra.cuda`: the same libraries as `tl.extra`."""

from __future__ import annotations

from vkcompute.compat.triton.language.extra.cuda import libdevice

__all__ = ["libdevice"]
