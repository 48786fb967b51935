"""`triton.runtime.autotuner`: the tuning of programs."""

from __future__ import annotations

from vkcompute.blocks.launching.tuning import Autotuner, Config, Heuristics, autotune, heuristics
from vkcompute.compat.triton.runtime.errors import OutOfResources

__all__ = ["Autotuner", "Config", "Heuristics", "OutOfResources", "autotune", "heuristics"]
