"""`tl.math`, at Triton's path."""

from __future__ import annotations

from vkcompute.blocks.language.math import *  # noqa: F403
