"""`triton.compiler.errors`: other names of `KernelError`."""

from __future__ import annotations

from vkcompute.errors import KernelError

__all__ = ["CompilationError", "OutOfResources"]

CompilationError = OutOfResources = KernelError
