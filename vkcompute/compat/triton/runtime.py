"""`triton.runtime`: programs, their tuning and the driver, by Triton's names and modules."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from vkcompute.compat.triton import driver, program, tuning
from vkcompute.compat.triton.program import JITFunction
from vkcompute.compat.triton.reinterpretation import TensorWrapper, reinterpret
from vkcompute.compat.triton.tuning import Autotuner, Config, Heuristics, autotune, heuristics
from vkcompute.errors import KernelError

__all__ = [
    "Autotuner", "Config", "Heuristics", "JITFunction", "OutOfResources", "TensorWrapper", "autotune", "autotuner",
    "driver", "errors", "heuristics", "jit", "reinterpret",
]  # fmt: skip

OutOfResources = KernelError


def module(name: str, **names: Any) -> ModuleType:
    """Makes a module of these names."""
    made = ModuleType(name, f"The names of {name} that vkcompute has.")
    vars(made).update(names)
    return made


errors = module("triton.runtime.errors", OutOfResources=OutOfResources, CompilationError=KernelError)
jit = module(
    "triton.runtime.jit", jit=program.jit, JITFunction=JITFunction, TensorWrapper=TensorWrapper, reinterpret=reinterpret
)
autotuner = module(
    "triton.runtime.autotuner", **{name: getattr(tuning, name) for name in
    ("Autotuner", "Config", "Heuristics", "autotune", "heuristics")}, OutOfResources=OutOfResources,
)  # fmt: skip
