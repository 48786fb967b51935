"""`install_as_triton`: this package in the place of Triton, for libraries that import it."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any

from vkcompute.compat.triton import driver, language, libdevice, math, program, testing, tuning
from vkcompute.compat.triton.functions import constexpr_function
from vkcompute.compat.triton.types import get_int_dtype
from vkcompute.errors import KernelError


def install_as_triton() -> None:
    """Makes `import triton` take this package, for libraries of block programs. Call it before they are imported.

    PyTorch is imported first where it is installed: it looks for Triton's own compiler.
    """
    for name in ("hints", "triton_compat"):
        with suppress(ImportError):
            import_module(f"torch._inductor.runtime.{name}")
    package = sys.modules[__name__.rpartition(".")[0]]
    of_cuda = _module("triton.language.extra.cuda", libdevice=libdevice)
    runtime = {
        "JITFunction": program.JITFunction, "jit": program.jit, "Config": tuning.Config, "autotune": tuning.autotune,
        "Autotuner": tuning.Autotuner, "heuristics": tuning.heuristics, "Heuristics": tuning.Heuristics,
        "driver": driver,
    }  # fmt: skip
    errors = {"CompilationError": KernelError, "OutOfResources": KernelError}
    names = {name: getattr(language, name) for name in language.__all__}
    modules = {
        "triton": package,
        "triton.language": language,
        "triton.language.core": _module(
            "triton.language.core", **names, CONSTEXPR_0=language.constexpr(0), get_int_dtype=_get_int_dtype
        ),
        "triton.language.standard": _module(
            "triton.language.standard", **names, _log2=_log2, _is_power_of_two=_is_power_of_two
        ),
        "triton.language.math": math,
        "triton.language.extra": _module("triton.language.extra", libdevice=libdevice, cuda=of_cuda),
        "triton.language.extra.libdevice": libdevice,
        "triton.language.extra.cuda": of_cuda,
        "triton.language.extra.cuda.libdevice": libdevice,
        "triton.testing": testing,
        "triton.runtime": _module("triton.runtime", **runtime),
        "triton.runtime.jit": _module("triton.runtime.jit", **runtime),
        "triton.runtime.autotuner": _module("triton.runtime.autotuner", **runtime),
        "triton.runtime.driver": driver,
        "triton.runtime.errors": _module("triton.runtime.errors", **errors),
        "triton.compiler": _module("triton.compiler", **errors),
        "triton.compiler.errors": _module("triton.compiler.errors", **errors),
        "triton.backends": _module("triton.backends"),
        "triton.backends.compiler": _module("triton.backends.compiler", GPUTarget=driver.GPUTarget),
    }
    sys.modules.update(modules)
    for name, module in modules.items():  # as an import binds them
        parent, _, child = name.rpartition(".")
        if parent and not hasattr(modules[parent], child):
            setattr(modules[parent], child, module)


_get_int_dtype = constexpr_function(get_int_dtype)


@constexpr_function
def _log2(i: int) -> int:
    """Returns the logarithm of a power of two."""
    return i.bit_length() - 1


@constexpr_function
def _is_power_of_two(i: int) -> bool:
    """True for a power of two."""
    return i > 0 and i & (i - 1) == 0


def _module(name: str, **names: Any) -> ModuleType:
    module = ModuleType(name, f"The names of {name} that vkcompute has.")
    vars(module).update(names)
    return module
