"""`tl.extra.cuda.libdevice`, at Triton's path."""

from __future__ import annotations

from vkcompute.blocks.language.libdevice import *  # noqa: F403
