"""`install_as_triton`: this package in the place of Triton, for libraries that import it."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module

from vkcompute.compat.triton import driver, language, libdevice, math, runtime, testing
from vkcompute.compat.triton.functions import constexpr_function
from vkcompute.compat.triton.runtime import module
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
    of_cuda = module("triton.language.extra.cuda", libdevice=libdevice)
    errors = {"CompilationError": KernelError, "OutOfResources": KernelError}
    names = {name: getattr(language, name) for name in language.__all__}
    modules = {
        "triton": package,
        "triton.language": language,
        "triton.language.core": module(
            "triton.language.core", **names, CONSTEXPR_0=language.constexpr(0), get_int_dtype=_get_int_dtype
        ),
        "triton.language.standard": module(
            "triton.language.standard", **names, _log2=_log2, _is_power_of_two=_is_power_of_two
        ),
        "triton.language.math": math,
        "triton.language.extra": module("triton.language.extra", libdevice=libdevice, cuda=of_cuda),
        "triton.language.extra.libdevice": libdevice,
        "triton.language.extra.cuda": of_cuda,
        "triton.language.extra.cuda.libdevice": libdevice,
        "triton.testing": testing,
        "triton.runtime": runtime,
        "triton.runtime.jit": runtime.jit,
        "triton.runtime.autotuner": runtime.autotuner,
        "triton.runtime.driver": driver,
        "triton.runtime.errors": runtime.errors,
        "triton.compiler": module("triton.compiler", **errors),
        "triton.compiler.errors": module("triton.compiler.errors", **errors),
        "triton.backends": module("triton.backends"),
        "triton.backends.compiler": module("triton.backends.compiler", GPUTarget=driver.GPUTarget),
    }
    sys.modules.update(modules)
    for name, each in modules.items():  # as an import binds them
        parent, _, child = name.rpartition(".")
        if parent and not hasattr(modules[parent], child):
            setattr(modules[parent], child, each)


_get_int_dtype = constexpr_function(get_int_dtype)


@constexpr_function
def _log2(i: int) -> int:
    """Returns the logarithm of a power of two."""
    return i.bit_length() - 1


@constexpr_function
def _is_power_of_two(i: int) -> bool:
    """True for a power of two."""
    return i > 0 and i & (i - 1) == 0
