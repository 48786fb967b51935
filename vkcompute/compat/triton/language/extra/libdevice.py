"""`tl.extra.libdevice`, at Triton's path."""

from __future__ import annotations

from vkcompute.compat.triton.libdevice import *  # noqa: F403
