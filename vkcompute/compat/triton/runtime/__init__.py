"""`triton.runtime`: programs, their tuning and the driver, by Triton's names and modules."""

from __future__ import annotations

from vkcompute.blocks.launching.launched import KernelInterface
from vkcompute.blocks.launching.program import JITFunction
from vkcompute.blocks.launching.reinterpretation import TensorWrapper, reinterpret
from vkcompute.blocks.launching.tuning import Autotuner, Config, Heuristics, autotune, heuristics
from vkcompute.compat.triton.runtime import autotuner, driver, errors, jit
from vkcompute.compat.triton.runtime.errors import InterpreterError, OutOfResources

__all__ = [
    "Autotuner", "Config", "Heuristics", "InterpreterError", "JITFunction", "KernelInterface", "OutOfResources",
    "TensorWrapper", "autotune", "autotuner", "driver", "errors", "heuristics", "jit", "reinterpret",
]  # fmt: skip
