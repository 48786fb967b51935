"""`triton.backends.compiler`: the target of programs."""

from __future__ import annotations

from vkcompute.compat.triton.runtime.driver import GPUTarget

__all__ = ["GPUTarget"]
