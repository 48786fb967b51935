"""`triton.runtime.jit`: programs."""

from __future__ import annotations

from vkcompute.blocks.compiler.functions import ConstexprFunction
from vkcompute.blocks.launching.launched import KernelInterface
from vkcompute.blocks.launching.parameter import KernelParam
from vkcompute.blocks.launching.program import JITFunction, jit
from vkcompute.blocks.launching.reinterpretation import TensorWrapper, reinterpret

__all__ = [
    "ConstexprFunction", "JITFunction", "KernelInterface", "KernelParam", "TensorWrapper", "jit", "reinterpret"
]  # fmt: skip
