"""Triton's interface: block programs in Python, on any device.

    import vkcompute.compat.triton as triton
    import vkcompute.compat.triton.language as tl

No driver is loaded before the first launch.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from vkcompute.blocks.compiler.aggregates import aggregate
from vkcompute.blocks.compiler.functions import constexpr_function
from vkcompute.blocks.launching.launched import KernelInterface
from vkcompute.blocks.launching.pointer_table import PointerTable
from vkcompute.blocks.launching.program import JITFunction, jit
from vkcompute.blocks.launching.reinterpretation import TensorWrapper, reinterpret
from vkcompute.blocks.launching.tuning import Config, autotune, heuristics
from vkcompute.compat.replacement import install_as_triton
from vkcompute.compat.triton import backends, compiler, language, runtime, testing, tools
from vkcompute.compat.triton.compiler import CompilationError
from vkcompute.compat.triton.language import core, standard  # noqa: F401  # as attributes of the language
from vkcompute.compat.triton.runtime import InterpreterError, OutOfResources
from vkcompute.errors import KernelError as TritonError

__all__ = [
    "CompilationError", "Config", "InterpreterError", "JITFunction", "KernelInterface", "OutOfResources",
    "PointerTable", "TensorWrapper", "TritonError", "aggregate", "autotune", "backends", "cdiv", "compiler",
    "constexpr_function", "heuristics",
    "install_as_triton", "jit", "language", "must_use_result", "next_power_of_2", "reinterpret", "runtime",
    "set_allocator", "testing", "tools",
]  # fmt: skip

__version__ = "3.9.0"
"""The version of Triton whose language this is, for libraries that compare it."""


def must_use_result(function: Any, reason: Any = True) -> Any:
    """Makes a call in a program an error whose result is dropped; with a text, returns a decorator that adds it."""
    if isinstance(function, str):
        return partial(must_use_result, reason=function)
    function.must_use_result = reason
    return function


def set_allocator(allocator: object) -> None:
    """Has no effect: tensor descriptors take no memory of their own."""


@constexpr_function
def cdiv(x: int, y: int) -> int:
    """Returns x / y rounded up."""
    return -(-x // y)


@constexpr_function
def next_power_of_2(n: int) -> int:
    """Returns the least power of two that is not below `n`."""
    return 1 << max(n - 1, 0).bit_length()
