"""Our packages in the place of others, for libraries that import these; and the variable `CUDA_VISIBLE_DEVICES`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module

_OF_NUMBA = {
    "": "", "config": "config", "core": "", "core.config": "config", "core.errors": "errors", "core.types": "types",
    "errors": "errors", "np": "", "np.numpy_support": "types", "types": "types",
    "misc": "", "misc.special": "loops", "cuda.misc": "", "cuda.misc.special": "loops",
    "cuda": "cuda", "cuda.config": "config", "cuda.core": "", "cuda.core.config": "config",
    "cuda.core.errors": "errors", "cuda.cudadrv": "cuda.driver", "cuda.cudadrv.devicearray": "cuda.devicearray",
    "cuda.cudadrv.devices": "cuda.devices", "cuda.cudadrv.driver": "cuda.driver", "cuda.cudadrv.error": "errors",
    "cuda.api": "cuda", "cuda.args": "cuda.arguments", "cuda.dispatcher": "cuda.dispatcher",
    "cuda.errors": "errors", "cuda.np": "",
    "cuda.np.numpy_support": "types", "cuda.random": "cuda.random", "cuda.types": "types", "cuda.typing": "types",
    "cuda.typing.typeof": "types", "cuda.kernels": "cuda", "cuda.kernels.transpose": "cuda.transposition",
    "cuda.vector_types": "cuda.vector_types", "cuda.libdevice": "cuda.libdevice", "cuda.extending": "extending",
    "extending": "extending",
}  # fmt: skip
"""Path of a module of Numba -> that of ours."""
_OF_TRITON = (
    "", "backends", "backends.compiler", "compiler", "compiler.errors", "language", "language.core", "language.extra",
    "language.extra.cuda", "language.extra.cuda.libdevice", "language.extra.libdevice", "language.math",
    "language.standard", "language.target_info", "runtime", "runtime.autotuner", "runtime.driver", "runtime.errors",
    "runtime.jit", "testing", "tools", "tools.tensor_descriptor",
)  # fmt: skip
"""The modules that have Triton's paths."""
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_NO_DEVICE = "-1"


def install_as_numba() -> None:
    """Makes `import numba` take our package, for libraries that use `numba.cuda`. Call it before they are imported.

    Numba's own modules are removed from `sys.modules`.
    """
    _replace("numba", _OF_NUMBA)


def install_as_triton() -> None:
    """Makes `import triton` take our package, for libraries of block programs. Call it before they are imported.

    PyTorch is imported first where it is installed: it looks for Triton's own compiler. Triton's own modules are
    removed from `sys.modules`.
    """
    for name in ("hints", "triton_compat"):
        with suppress(ImportError):
            import_module(f"torch._inductor.runtime.{name}")
    _replace("triton", {name: name for name in _OF_TRITON})


def _replace(package: str, modules: Mapping[str, str]) -> None:
    """Replaces a package's modules by ours, by their paths in both packages."""
    ours = f"{__name__.rpartition('.')[0]}.{package}"
    for name in [module for module in sys.modules if module.startswith(f"{package}.")]:
        del sys.modules[name]
    for path, own_path in modules.items():
        sys.modules[f"{package}.{path}".rstrip(".")] = import_module(f"{ours}.{own_path}".rstrip("."))


def choose_visible() -> None:
    """Makes the first device of `CUDA_VISIBLE_DEVICES` this process's default: `VKCOMPUTE_DEVICE` takes its number.

    Numbers are those of `vkcompute devices`. Nothing changes where `VKCOMPUTE_DEVICE` is set, or where the list begins
    with an identifier of NVIDIA's. An empty list, or -1, hides all devices, as in CUDA.
    """
    given = os.environ.get(_VISIBLE)
    if given is None or os.environ.get("VKCOMPUTE_DEVICE"):
        return
    first = given.split(",")[0].strip() or _NO_DEVICE
    if first == _NO_DEVICE or first.isdecimal():
        os.environ["VKCOMPUTE_DEVICE"] = first


def hides_all() -> bool:
    """True if `CUDA_VISIBLE_DEVICES` hides all devices."""
    return os.environ.get("VKCOMPUTE_DEVICE") == _NO_DEVICE


def explained(error: object) -> str:
    """Returns the text of an error for which there is no device, with the variable that chose it."""
    given = os.environ.get(_VISIBLE)
    return str(error) if given is None else f"{error}; {_VISIBLE} is {given!r}"
