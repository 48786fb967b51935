"""`triton.compiler`: compiled programs and their errors, by Triton's names."""

from __future__ import annotations

from vkcompute.blocks.launching.compiled import CompiledKernel
from vkcompute.compat.triton.compiler import errors
from vkcompute.compat.triton.compiler.errors import CompilationError, OutOfResources

__all__ = ["CompilationError", "CompiledKernel", "OutOfResources", "errors"]
