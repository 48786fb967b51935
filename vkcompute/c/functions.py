"""Functions and constants of C's library and of CUDA, in kernels in Python."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from vkcompute.c import types
from vkcompute.jit.library import atomic
from vkcompute.jit.library.bit_operations import bit_reverse, bitcast, clz, ctz, popcount
from vkcompute.jit.library.element_functions import fma
from vkcompute.jit.library.private import local
from vkcompute.operations.host import OWN


class Function(NamedTuple):
    """A function: its name in kernels, and the rule of its types.

    Attributes:
        text: the name.
        rule: "float": arguments are converted to `types.floating` of their types, which the result has. "truth" and
            "long": likewise, but the result is a bool or an int64. Others are the dtype of all arguments.
        result: the dtype of the result, of a function whose rule is a dtype.
    """

    text: str
    rule: str = "float"
    result: str = ""


_ALIKE = (
    "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt",
    "cbrt", "floor", "ceil", "trunc", "rint", "copysign", "hypot", "fmin", "fmax", "nextafter",
)  # fmt: skip
FUNCTIONS: dict[str, Function] = {
    **{name: Function(f"np.{name}") for name in _ALIKE},
    **{name: Function(f"np.{name}", "truth") for name in ("isnan", "isinf", "isfinite", "signbit")},
    **{f"a{name}": Function(f"np.arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: Function("np.rint", "long") for name in ("lrint", "llrint")},
    **{name: Function("c_round", "long") for name in ("lround", "llround")},
    **{name: Function(f"c_{name}") for name in (
        "round", "fdim", "rsqrt", "rcbrt", "exp10", "sinpi", "cospi", "normcdf",
    )},
    "fabs": Function("abs"), "pow": Function("pow"), "atan2": Function("np.arctan2"), "nearbyint": Function("np.rint"),
    "fmod": Function("np.fmod"), "remainder": Function("math.remainder"), "tgamma": Function("math.gamma"),
    "lgamma": Function("math.lgamma"), "erf": Function("math.erf"), "erfc": Function("math.erfc"),
    "fma": Function("c_fma"), "fdivide": Function("c_divide"), "fdividef": Function("c_divide", "float32", "float32"),
    "conj": Function("np.conj"),
    **{name: Function(f"c_{name}") for name in ("erfcinv", "erfcx", "j0", "j1", "y0", "y1")},
    "normcdfinv": Function("c_ndtri"), "cyl_bessel_i0": Function("np.i0"), "cyl_bessel_i1": Function("c_i1"),
    "__popc": Function("c_popcount", "uint32", "int32"), "__popcll": Function("c_popcount", "uint64", "int32"),
    "__clz": Function("c_clz", "uint32", "int32"), "__clzll": Function("c_clz", "uint64", "int32"),
    "__ffs": Function("c_ffs", "uint32", "int32"), "__ffsll": Function("c_ffs", "uint64", "int32"),
    "__brev": Function("c_bit_reverse", "uint32", "uint32"), "__brevll": Function("c_bit_reverse", "uint64", "uint64"),
    "__float_as_int": Function("c_as_int32", "float32", "int32"),
    "__float_as_uint": Function("c_as_uint32", "float32", "uint32"),
    "__int_as_float": Function("c_as_float32", "int32", "float32"),
    "__uint_as_float": Function("c_as_float32", "uint32", "float32"),
    "__double_as_longlong": Function("c_as_int64", "float64", "int64"),
    "__longlong_as_double": Function("c_as_float64", "int64", "float64"),
}  # fmt: skip


def _limits() -> dict[str, Any]:
    """Returns the values of <limits.h>, <stdint.h> and <float.h>."""
    values: dict[str, Any] = {}
    for name, kind in (
        ("CHAR", "int8"), ("SCHAR", "int8"), ("SHRT", "int16"), ("INT", "int32"), ("LONG", "int64"), ("LLONG", "int64"),
        ("INT8", "int8"), ("INT16", "int16"), ("INT32", "int32"), ("INT64", "int64"),
    ):  # fmt: skip
        plain, unsigned = np.iinfo(kind), np.iinfo(f"u{kind}")
        computed = types.promoted(np.dtype(kind)).type  # the type of a macro is that after promotion
        values |= {f"{name}_MIN": computed(plain.min), f"{name}_MAX": computed(plain.max)}
        if name != "SCHAR":
            values[f"U{name}_MAX"] = types.promoted(unsigned.dtype).type(unsigned.max)
    for name, kind in (("FLT", "float32"), ("DBL", "float64")):
        info: Any = np.finfo(kind)
        values |= {f"{name}_MAX": info.max, f"{name}_MIN": info.smallest_normal, f"{name}_EPSILON": info.eps}
    return values


CONSTANTS: dict[str, Any] = {
    **_limits(),
    **{name: np.float64(value) for name, value in {
        "M_PI": math.pi, "M_PI_2": math.pi / 2, "M_PI_4": math.pi / 4, "M_1_PI": 1 / math.pi, "M_2_PI": 2 / math.pi,
        "M_2_SQRTPI": 1.12837916709551257390, "M_E": math.e, "M_LOG2E": 1.44269504088896340736,
        "M_LOG10E": 0.43429448190325182765, "M_LN2": math.log(2), "M_LN10": math.log(10), "M_SQRT2": math.sqrt(2),
        "M_SQRT1_2": 0.70710678118654752440, "HUGE_VAL": math.inf, "CUDART_INF": math.inf, "CUDART_NAN": math.nan,
        "CUDART_PI": math.pi,
    }.items()},
    **{name: np.float32(value) for name, value in {
        "INFINITY": math.inf, "NAN": math.nan, "HUGE_VALF": math.inf, "CUDART_INF_F": math.inf,
        "CUDART_NAN_F": math.nan, "CUDART_PI_F": math.pi,
    }.items()},
    "true": np.True_, "false": np.False_, "SIZE_MAX": np.uint64(2**64 - 1), "CHAR_BIT": np.int32(8),
}  # fmt: skip
"""Values of macros."""


def limit(name: str, kind: types.DType) -> Any:
    """Returns a value of `std::numeric_limits`; None for another name."""
    if kind.kind == "f":
        info: Any = np.finfo(kind)
        values = {
            "max": info.max, "lowest": info.min, "min": info.smallest_normal, "epsilon": info.eps,
            "infinity": kind.type(math.inf), "quiet_NaN": kind.type(math.nan),
        }  # fmt: skip
        return values.get(name)
    whole = np.iinfo(kind) if kind.kind in "iu" else None
    values = {"max": whole.max, "min": whole.min, "lowest": whole.min} if whole else {}
    return kind.type(values[name]) if name in values else None


# -- in kernels -------------------------------------------------------------------------------------------------------


_ndtri = OWN["ndtri"]


def _quotient(x: Any, y: Any) -> Any:
    """x / y of signed integers, rounded to zero."""
    return (x - np.fmod(x, y)) // y


def _round(x: Any) -> Any:
    """Rounds to the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return whole + np.copysign(1.0, x) if abs(x - whole) >= 0.5 else whole


def _fdim(x: Any, y: Any) -> Any:
    return 0.0 if x <= y else x - y


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _rcbrt(x: Any) -> Any:
    return 1 / np.cbrt(x)


def _exp10(x: Any) -> Any:
    return 10.0**x


def _sinpi(x: Any) -> Any:
    return np.sin(math.pi * (x - 2 * np.rint(0.5 * x)))


def _cospi(x: Any) -> Any:
    return np.cos(math.pi * (x - 2 * np.rint(0.5 * x)))


def _normcdf(x: Any) -> Any:
    return 0.5 * math.erfc(-math.sqrt(0.5) * x)


def _erfcinv(x: Any) -> Any:
    """The y with erfc(y) = x: the normal distribution function of -sqrt(2) y is x / 2."""
    return -math.sqrt(0.5) * _ndtri(0.5 * x)


def _squared_size(z: Any) -> Any:
    """The square of a complex number's absolute value, which C++ calls its norm."""
    return z.real * z.real + z.imag * z.imag


def _divide(x: Any, y: Any) -> Any:
    return x / y


def _ffs(x: Any) -> Any:
    return 0 if x == 0 else ctz(x) + 1


def _as_int32(x: Any) -> Any:
    return bitcast(x, np.int32)


def _as_uint32(x: Any) -> Any:
    return bitcast(x, np.uint32)


def _as_float32(x: Any) -> Any:
    return bitcast(x, np.float32)


def _as_int64(x: Any) -> Any:
    return bitcast(x, np.int64)


def _as_float64(x: Any) -> Any:
    return bitcast(x, np.float64)


NAMESPACE: dict[str, Any] = {
    **{f"c_atomic_{name.rstrip('_')}": getattr(atomic, name) for name in atomic.__all__},
    **{f"c_{name}": OWN[name] for name in ("erfcx", "i1", "j0", "j1", "ndtri", "y0", "y1")},
    "np": np, "math": math, "c_local": local, "c_fma": fma, "c_popcount": popcount, "c_clz": clz,
    "c_bit_reverse": bit_reverse,
    **{f"c{function.__name__}": function for function in (
        _quotient, _round, _fdim, _rsqrt, _rcbrt, _exp10, _sinpi, _cospi, _normcdf, _erfcinv, _squared_size, _divide,
        _ffs, _as_int32, _as_uint32, _as_float32, _as_int64, _as_float64,
    )},
}  # fmt: skip
"""The names that translated texts use."""
