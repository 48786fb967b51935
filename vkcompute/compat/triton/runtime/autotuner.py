"""`triton.runtime.autotuner`: the tuning of programs."""

from __future__ import annotations

from vkcompute.compat.triton.runtime.errors import OutOfResources
from vkcompute.compat.triton.tuning import Autotuner, Config, Heuristics, autotune, heuristics

__all__ = ["Autotuner", "Config", "Heuristics", "OutOfResources", "autotune", "heuristics"]
