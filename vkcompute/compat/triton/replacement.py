"""`install_as_triton`: this package in the place of Triton, for libraries that import it."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module

_MODULES = (
    "backends", "backends.compiler", "compiler", "compiler.errors", "language", "language.core", "language.extra",
    "language.extra.cuda", "language.extra.cuda.libdevice", "language.extra.libdevice", "language.math",
    "language.standard", "runtime", "runtime.autotuner", "runtime.driver", "runtime.errors", "runtime.jit", "testing",
    "tools", "tools.tensor_descriptor",
)  # fmt: skip
"""The modules that have Triton's paths."""


def install_as_triton() -> None:
    """Makes `import triton` take this package, for libraries of block programs. Call it before they are imported.

    PyTorch is imported first where it is installed: it looks for Triton's own compiler. Triton's own modules are
    removed from `sys.modules`.
    """
    for name in ("hints", "triton_compat"):
        with suppress(ImportError):
            import_module(f"torch._inductor.runtime.{name}")
    package = __name__.rpartition(".")[0]
    for name in [module for module in sys.modules if module.startswith("triton.")]:  # Triton's own
        del sys.modules[name]
    sys.modules["triton"] = sys.modules[package]
    for name in _MODULES:
        sys.modules[f"triton.{name}"] = import_module(f"{package}.{name}")
