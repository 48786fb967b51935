"""`cuda.libdevice`: CUDA's functions of numbers in kernels, as `libdevice.rsqrtf(x)`, by NVIDIA's names.

Those that round as asked, to the nearest, are the operators: `fadd_rn`, `dmul_rn`, `fmaf_rn` and others. Fast variants
compute what the others do.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from vkcompute.c.functions import FUNCTIONS, NAMESPACE
from vkcompute.compat.numba.kernel_names import NAMES, refuse_outside_kernel
from vkcompute.compat.numba.language import NumbaKernels
from vkcompute.ir import SCALARS
from vkcompute.jit.library.element_functions import fma

_FLOATS = (("float64", "", "d"), ("float32", "f", "f"))
"""dtype, the letter after names, and the letter before those that round."""
_FAST = "sin", "cos", "tan", "exp", "exp10", "log", "log2", "log10", "pow"
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_BITS = {"clz": "int32", "popc": "int32", "ffs": "int32", "brev": ""}
"""Function of bits -> the dtype of its result; that of the argument for ""."""


def _numbers(c: NumbaKernels, kind: str, values: tuple[Any, ...]) -> list[Any]:
    return [c.converted(value, SCALARS[kind]) for value in values]


def _applied(function: Any, kind: str, result: str, c: NumbaKernels, *values: Any) -> Any:
    """Applies a function to arguments of a type, and converts its result."""
    call: Any = c.evaluator.node
    return c.converted(c.apply(function, _numbers(c, kind, values), {}, call), SCALARS[result])


def _operated(sign: str, kind: str, c: NumbaKernels, *values: Any) -> Any:
    return c.converted(c.binary(sign, *_numbers(c, kind, values)), SCALARS[kind])


def _reciprocal(kind: str, c: NumbaKernels, value: Any) -> Any:
    return _operated("/", kind, c, 1, value)


def _stub(name: str, emit: Callable[..., Any]) -> Any:
    """Returns a function for kernels of this name."""

    def function(*args: Any) -> Any:
        refuse_outside_kernel(f"cuda.libdevice.{name}")

    function.__name__ = function.__qualname__ = name
    NAMES[function] = emit
    return function


def _named(text: str) -> Any:
    """Returns the function of a name in kernels, as `np.sin`."""
    first, *rest = text.split(".")
    return reduce(getattr, rest, NAMESPACE.get(first) or getattr(builtins, first))


def _floating(kind: str, letter: str, before: str) -> dict[str, Callable[..., Any]]:
    """Returns the functions of a float type."""
    rules = {"float": kind, "truth": "bool", "long": "int64"}
    results = {name: row for name, row in FUNCTIONS.items() if row.rule in rules and not name.endswith("f")}
    emitters: dict[str, Callable[..., Any]] = {
        f"{name}{letter}": partial(_applied, _named(row.text), kind, rules[row.rule]) for name, row in results.items()
    }
    for name, sign in _OPERATORS.items():
        emitters[f"{before}{name}_rn"] = partial(_operated, sign, kind)
    emitters[f"{before}sqrt_rn"] = partial(_applied, np.sqrt, kind, kind)
    emitters[f"{before}rcp_rn"] = partial(_reciprocal, kind)
    emitters[f"fma{letter}_rn"] = partial(_applied, fma, kind, kind)
    return emitters


def _whole() -> dict[str, Callable[..., Any]]:
    """Returns the functions of integers, and those that take bits for a number."""
    emitters: dict[str, Callable[..., Any]] = {}
    for kind, letters in (("int32", ""), ("int64", "ll")):
        for name, result in _BITS.items():
            row = FUNCTIONS[f"__{name}{letters}"]
            emitters[f"{name}{letters}"] = partial(_applied, _named(row.text), f"u{kind}", result or kind)
        for before, least in (("", kind), ("u", f"u{kind}")):
            emitters[f"{before}{letters}max"] = partial(_applied, np.maximum, least, least)
            emitters[f"{before}{letters}min"] = partial(_applied, np.minimum, least, least)
        emitters[f"{letters}abs"] = partial(_applied, abs, kind, kind)
    for name, row in FUNCTIONS.items():
        if name.startswith("__") and "_as_" in name:
            emitters[name.removeprefix("__")] = partial(_applied, _named(row.text), row.rule, row.result)
    return emitters


for _kind, _letter, _before in _FLOATS:
    for _name, _emit in _floating(_kind, _letter, _before).items():
        globals()[_name] = _stub(_name, _emit)
for _name, _emit in _whole().items():
    globals()[_name] = _stub(_name, _emit)
for _name in _FAST:
    globals()[f"fast_{_name}f"] = globals()[f"{_name}f"]
fast_fdividef = fdividef = _stub("fdividef", partial(_operated, "/", "float32"))
