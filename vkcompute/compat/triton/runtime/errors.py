"""`triton.runtime.errors`: other names of `KernelError`."""

from __future__ import annotations

from vkcompute.errors import KernelError

__all__ = ["CompilationError", "InterpreterError", "OutOfResources"]

CompilationError = InterpreterError = OutOfResources = KernelError
