"""`tl.math`, at Triton's path."""

from __future__ import annotations

from vkcompute.compat.triton.math import *  # noqa: F403
