"""Functions of numbers with two results, or of their parts: divmod, modf, frexp, ldexp."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.arrays.expressions.promotion import Operand, complex_of, element_float, kind_of, wide_float
from vkcompute.arrays.expressions.ufunc import apply, assign, astype, where
from vkcompute.dtypes import computes_float64, finfo, is_dtype
from vkcompute.errors import DtypeError
from vkcompute.runtime.memory.array import Array


def _both(results: tuple[Array, Array], out: Any) -> tuple[Array, Array]:
    """Returns results; those for which there is an array are written to it."""
    given = out or (None, None)
    one, other = (result if to is None else assign(to, result) for result, to in zip(results, given, strict=True))
    return one, other


def divmod(x1: Operand, x2: Operand, out: Any = None) -> tuple[Array, Array]:
    """Returns the quotient, rounded down, and the remainder."""
    return _both((apply("floor_divide", x1, x2), apply("remainder", x1, x2)), out)


def modf(x: Array, out: Any = None) -> tuple[Array, Array]:
    """Returns the fraction and the whole part of each element, both with its sign."""
    x = astype(x, element_float(x.dtype))
    whole = apply("trunc", x)
    rest = where(apply("isinf", x), x.dtype.type(0), apply("subtract", x, whole))
    return _both((apply("copysign", rest, x), whole), out)


_LAYOUTS: dict[str, tuple[Any, int, int]] = {"float32": (np.int32, 23, 126), "float64": (np.int64, 52, 1022)}
"""Float dtype -> integers of its size, the bits of the mantissa, the exponent of 0.5."""


def frexp(x: Array, out: Any = None) -> tuple[Array, Array]:
    """Returns the mantissa, from 0.5 up to 1, and the exponent of 2 of each element."""
    if x.dtype.kind == "c":
        raise DtypeError(f"frexp takes real numbers; got {x.dtype}; pass x.real, x.imag or abs(x)")
    dtype = element_float(x.dtype)
    wide = astype(x, wide_float(dtype))
    integers, n_bits, bias = _LAYOUTS[wide.dtype.name]
    is_small = apply("less", apply("absolute", wide), float(finfo(wide.dtype).tiny))
    scaled = where(is_small, apply("multiply", wide, 2.0**n_bits), wide)  # subnormal numbers have no exponent
    bits = scaled.view(integers)
    exponent = apply("right_shift", apply("bitwise_and", bits, int(np.iinfo(integers).max)), n_bits)
    exponent = apply("subtract", apply("subtract", exponent, bias), where(is_small, integers(n_bits), integers(0)))
    mask = (1 << n_bits) - 1 | int(np.iinfo(integers).min)
    mantissa = apply("bitwise_or", apply("bitwise_and", bits, mask), bias << n_bits).view(wide.dtype)
    is_plain = apply("logical_or", apply("equal", wide, 0), apply("logical_not", apply("isfinite", wide)))
    parts = astype(where(is_plain, wide, mantissa), dtype), astype(where(is_plain, integers(0), exponent), np.int32)
    return _both(parts, out)


def angle(z: Array, deg: bool = False) -> Array:
    """Returns the angle of complex numbers to the positive real axis, in radians from -pi to pi, or in degrees."""
    radians = apply("angle", z)
    return apply("rad2deg", radians) if deg else radians


def ldexp(x1: Array, x2: Operand, out: Array | None = None) -> Array:
    """Returns x1 * 2**x2, rounded once.

    Args:
        x2: integers.

    Raises:
        TypeError: `x2` is not of integers.
    """
    if np.result_type(x2.dtype if type(x2) is Array else x2).kind not in "biu":
        raise TypeError(f"ldexp takes integers as exponents; got {getattr(x2, 'dtype', x2)}; convert with .astype()")
    dtype = element_float(x1.dtype)
    mantissa, exponent = frexp(x1)
    wide = mantissa if dtype.itemsize >= 4 else astype(mantissa, np.float32)
    most = 4 * _LAYOUTS[wide.dtype.name][2]
    given: Any = x2
    if type(x2) is Array:
        wide_exponent = x2 if x2.dtype.itemsize >= 4 else astype(x2, np.int32)
        given = apply("maximum", wide_exponent, -most) if x2.dtype.kind == "i" else wide_exponent
        given = astype(apply("minimum", given, most), np.int32)
    total = apply("add", exponent, given if type(given) is Array else max(min(int(given), most), -most))
    scale = _LAYOUTS[wide.dtype.name][2] // 2
    steps = where(
        apply("greater", total, scale), np.int32(scale), where(apply("less", total, -scale), np.int32(-scale), 0)
    )
    first = apply("subtract", total, steps)  # the first product is exact, unless the result is out of range
    product = apply("multiply", apply("multiply", wide, _power(first, wide.dtype)), _power(steps, wide.dtype))
    product = astype(product, dtype)
    return product if out is None else assign(out, product)


def _power(exponent: Array, dtype: np.dtype[Any]) -> Array:
    """Returns 2 to integers, as floats: those out of range of normal numbers become the nearest of these."""
    integers, n_bits, bias = _LAYOUTS[dtype.name]
    limited = apply("minimum", apply("maximum", exponent, 1 - bias), bias + 1)
    return apply("left_shift", apply("add", astype(limited, integers), bias + 1), n_bits).view(dtype)


def fix(x: Array, out: Array | None = None) -> Array:
    """Returns the elements rounded towards 0."""
    rounded = apply("trunc", x)
    return rounded if out is None else assign(out, rounded)


def float_power(x1: Operand, x2: Operand, out: Array | None = None) -> Array:
    """Returns x1 to the power x2, computed in float64 or complex128; in half of that with VKCOMPUTE_FLOAT64=refuse."""
    kinds = [kind_of(operand) for operand in (x1, x2)]
    features = next(operand.runtime for operand in (x1, x2) if type(operand) is Array).device.features
    wide = np.dtype(np.float64 if computes_float64(features) else np.float32)
    is_complex = any(kind is complex or (is_dtype(kind) and kind.kind == "c") for kind in kinds)
    wide = complex_of(wide) if is_complex else wide
    power = apply(
        "power", *[astype(operand, wide) if type(operand) is Array else wide.type(operand) for operand in (x1, x2)]
    )
    return power if out is None else assign(out, power)
