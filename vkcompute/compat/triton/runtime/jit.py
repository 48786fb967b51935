"""`triton.runtime.jit`: programs."""

from __future__ import annotations

from vkcompute.blocks.launching.program import JITFunction, jit
from vkcompute.blocks.launching.reinterpretation import TensorWrapper, reinterpret

__all__ = ["JITFunction", "TensorWrapper", "jit", "reinterpret"]
