"""`triton.compiler.errors`: other names of `KernelError`."""

from __future__ import annotations

from vkcompute.errors import KernelError

__all__ = ["CompilationError", "CompileTimeAssertionFailure", "OutOfResources", "UnsupportedLanguageConstruct"]

CompilationError = OutOfResources = CompileTimeAssertionFailure = UnsupportedLanguageConstruct = KernelError
