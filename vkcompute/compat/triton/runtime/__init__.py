"""`triton.runtime`: programs, their tuning and the driver, by Triton's names and modules."""

from __future__ import annotations

from vkcompute.compat.triton.program import JITFunction
from vkcompute.compat.triton.reinterpretation import TensorWrapper, reinterpret
from vkcompute.compat.triton.runtime import autotuner, driver, errors, jit
from vkcompute.compat.triton.runtime.errors import InterpreterError, OutOfResources
from vkcompute.compat.triton.tuning import Autotuner, Config, Heuristics, autotune, heuristics

__all__ = [
    "Autotuner", "Config", "Heuristics", "InterpreterError", "JITFunction", "OutOfResources", "TensorWrapper",
    "autotune", "autotuner", "driver", "errors", "heuristics", "jit", "reinterpret",
]  # fmt: skip
