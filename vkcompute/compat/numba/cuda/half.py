"""`cuda.fp16`: functions of float16 in kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from vkcompute.compat.numba.kernel_names import NAMES, refuse_outside_kernel
from vkcompute.compat.numba.language import NumbaKernels
from vkcompute.ir import SCALARS
from vkcompute.jit.library.element_functions import fma

_HALF = SCALARS["float16"]
_OPERATORS = {"hadd": "+", "hsub": "-", "hmul": "*", "hdiv": "/"}
_COMPARISONS = {"heq": "==", "hne": "!=", "hge": ">=", "hgt": ">", "hle": "<=", "hlt": "<"}
_FUNCTIONS: dict[str, tuple[Any, int]] = {
    "hfma": (fma, 3), "habs": (abs, 1), "hsin": (np.sin, 1), "hcos": (np.cos, 1), "hlog": (np.log, 1),
    "hlog2": (np.log2, 1), "hlog10": (np.log10, 1), "hexp": (np.exp, 1), "hexp2": (np.exp2, 1),
    "hsqrt": (np.sqrt, 1), "hceil": (np.ceil, 1), "hfloor": (np.floor, 1), "htrunc": (np.trunc, 1),
    "hrint": (np.rint, 1), "hmax": (max, 2), "hmin": (min, 2),
}  # fmt: skip


def _halves(c: NumbaKernels, values: tuple[Any, ...]) -> list[Any]:
    return [c.converted(value, _HALF) for value in values]


def _operated(sign: str, c: NumbaKernels, *values: Any) -> Any:
    return c.converted(c.binary(sign, *_halves(c, values)), _HALF)


def _compared(sign: str, c: NumbaKernels, *values: Any) -> Any:
    return c.compare(sign, *_halves(c, values))


def _applied(function: Any, n: int, c: NumbaKernels, *values: Any) -> Any:
    return c.converted(c.call_intrinsic(function, _halves(c, values)), _HALF)


def _negative(c: NumbaKernels, value: Any) -> Any:
    return c.unary("-", c.converted(value, _HALF))


def _reciprocal(c: NumbaKernels, value: Any) -> Any:
    return _operated("/", c, 1.0, value)


def _reciprocal_root(c: NumbaKernels, value: Any) -> Any:
    return _operated("/", c, 1.0, _applied(np.sqrt, 1, c, value))


def _power_of_ten(c: NumbaKernels, value: Any) -> Any:
    wide = c.converted(value, SCALARS["float32"])
    return c.converted(c.call_intrinsic(np.exp, [c.binary("*", wide, np.float32(math.log(10)))]), _HALF)


def _stub(name: str, emit: Callable[..., Any]) -> Any:
    """Returns a function for kernels of this name."""

    def function(*args: Any) -> Any:
        refuse_outside_kernel(f"cuda.fp16.{name}")

    function.__name__ = function.__qualname__ = name
    NAMES[function] = emit
    return staticmethod(function)


class fp16:  # noqa: N801
    """Functions of float16: `hadd`, `hfma`, `hsin`, `hlt` and others, as Numba has them."""

    for _name, _sign in _OPERATORS.items():
        locals()[_name] = _stub(_name, partial(_operated, _sign))
    for _name, _sign in _COMPARISONS.items():
        locals()[_name] = _stub(_name, partial(_compared, _sign))
    for _name, (_function, _n) in _FUNCTIONS.items():
        locals()[_name] = _stub(_name, partial(_applied, _function, _n))
    hneg = _stub("hneg", _negative)
    hrcp = _stub("hrcp", _reciprocal)
    hrsqrt = _stub("hrsqrt", _reciprocal_root)
    hexp10 = _stub("hexp10", _power_of_ten)
