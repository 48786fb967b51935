"""`install_as_numba`: this package in the place of Numba, for libraries that import it."""

from __future__ import annotations

import sys
from importlib import import_module

_MODULES = {
    "": "", "config": "config", "core": "", "core.config": "config", "core.errors": "errors", "core.types": "types",
    "errors": "errors", "np": "", "np.numpy_support": "types", "types": "types",
    "misc": "", "misc.special": "unrolling", "cuda.misc": "", "cuda.misc.special": "unrolling",
    "cuda": "cuda", "cuda.config": "config", "cuda.core": "", "cuda.core.config": "config",
    "cuda.core.errors": "errors", "cuda.cudadrv": "cuda.driver", "cuda.cudadrv.devicearray": "cuda.arrays",
    "cuda.cudadrv.devices": "cuda.devices", "cuda.cudadrv.driver": "cuda.driver", "cuda.cudadrv.error": "errors",
    "cuda.api": "cuda", "cuda.args": "cuda.arguments", "cuda.dispatcher": "cuda.dispatcher",
    "cuda.errors": "errors", "cuda.np": "",
    "cuda.np.numpy_support": "types", "cuda.random": "cuda.random", "cuda.types": "types", "cuda.typing": "types",
    "cuda.typing.typeof": "types", "cuda.kernels": "cuda", "cuda.kernels.transpose": "cuda.transposition",
    "cuda.vector_types": "cuda.vector_types",
}  # fmt: skip
"""Path of a module of Numba -> that of ours."""


def install_as_numba() -> None:
    """Makes `import numba` take this package, for libraries that use `numba.cuda`. Call it before they are imported.

    Numba's own modules are removed from `sys.modules`.
    """
    package = __name__.rpartition(".")[0]
    for name in [module for module in sys.modules if module.startswith("numba.")]:
        del sys.modules[name]
    for theirs, ours in _MODULES.items():
        sys.modules[f"numba.{theirs}".rstrip(".")] = import_module(f"{package}.{ours}".rstrip("."))
