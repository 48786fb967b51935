"""`triton.runtime.jit`: programs."""

from __future__ import annotations

from vkcompute.compat.triton.program import JITFunction, jit
from vkcompute.compat.triton.reinterpretation import TensorWrapper, reinterpret

__all__ = ["JITFunction", "TensorWrapper", "jit", "reinterpret"]
