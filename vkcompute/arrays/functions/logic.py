"""Comparisons of whole arrays, with tolerances, and tests of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.arrays.algorithms.lines import axes_of
from vkcompute.arrays.expressions.promotion import Operand, common, default_float, kind_of
from vkcompute.arrays.expressions.ufunc import apply, assign, astype, joined, part, runtime_and_shape, where
from vkcompute.arrays.functions import reductions
from vkcompute.arrays.functions.creation import asarray
from vkcompute.dtypes import finfo
from vkcompute.errors import DtypeError
from vkcompute.runtime.memory.array import Array


def isclose(a: Operand, b: Operand, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Array:
    """Returns True where |a - b| <= atol + rtol * |b|; infinities are close to themselves.

    The difference of integers is exact.

    Args:
        rtol, atol: numbers, or arrays that broadcast.
        equal_nan: True to call NaN close to NaN.
    """
    context, _ = runtime_and_shape("isclose", (a, b))
    rtol, atol = (value if np.isscalar(value) else asarray(value, device=context) for value in (rtol, atol))
    dtype = common(context, [kind_of(operand) for operand in (a, b)])
    if dtype.kind in "biu":
        size = dtype.itemsize if dtype.kind != "b" else 4
        wide = np.dtype(f"i{size}") if dtype.kind != "u" else dtype
        a, b = (astype(x, wide) if type(x) is Array else wide.type(x) for x in (a, b))
        gap = where(apply("greater", a, b), apply("subtract", a, b), apply("subtract", b, a))
        distance = astype(astype(gap, f"u{size}"), default_float())
    else:
        a, b = (astype(x, dtype) if type(x) is Array and x.dtype.kind in "biu" else x for x in (a, b))
        distance = apply("absolute", apply("subtract", a, b))
    size_of_b: Any = apply("absolute", astype(b, _inexact(dtype))) if type(b) is Array else abs(b)
    limit = apply("add", apply("multiply", size_of_b, rtol), atol) if type(b) is Array else size_of_b * rtol + atol
    near = apply("less_equal", distance, limit)
    if type(b) is Array:
        near = apply("logical_and", near, apply("isfinite", b))
    elif not np.isfinite(b):
        near = apply("logical_and", near, False)
    near = apply("logical_or", near, apply("equal", a, b))
    if not equal_nan:
        return near
    both = [apply("isnan", x) if type(x) is Array else bool(np.isnan(x)) for x in (a, b)]
    return apply("logical_or", near, apply("logical_and", *both))


def _inexact(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.kind in "fc" else default_float()


def allclose(a: Operand, b: Operand, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> bool:
    """Returns True if all elements are close, as of `isclose`; waits for the result."""
    return bool(reductions.all(isclose(a, b, rtol, atol, equal_nan)))


def array_equal(a1: Array, a2: Array, equal_nan: bool = False) -> bool:
    """Returns True if two arrays have the same shape and elements; waits for the result.

    Args:
        equal_nan: True to call NaN equal to NaN.
    """
    if np.shape(a1) != np.shape(a2):
        return False
    same = apply("equal", a1, a2)
    if equal_nan:
        same = apply("logical_or", same, apply("logical_and", apply("isnan", a1), apply("isnan", a2)))
    return bool(reductions.all(same))


def array_equiv(a1: Array, a2: Array) -> bool:
    """Returns True if shapes broadcast, and the elements are equal; waits for the result."""
    try:
        runtime_and_shape("array_equiv", (a1, a2))
    except ValueError:
        return False
    return bool(reductions.all(apply("equal", a1, a2)))


def _real(name: str, x: Array) -> Array:
    """Returns an array; raises TypeError if it is complex, as no complex number is infinite in one direction."""
    if x.dtype.kind == "c":
        raise DtypeError(f"{name} takes real numbers; got {x.dtype}; pass x.real or x.imag")
    return x


def isposinf(x: Array, out: Array | None = None) -> Array:
    """Returns True where an element is positive infinity."""
    result = apply("logical_and", apply("isinf", x), apply("greater", _real("isposinf", x), 0))
    return result if out is None else assign(out, result)


def isneginf(x: Array, out: Array | None = None) -> Array:
    """Returns True where an element is negative infinity."""
    result = apply("logical_and", apply("isinf", x), apply("less", _real("isneginf", x), 0))
    return result if out is None else assign(out, result)


def nan_to_num(
    x: Array, copy: bool = True, nan: Operand = 0.0, posinf: Operand | None = None, neginf: Operand | None = None
) -> Array:
    """Returns the elements with numbers in place of NaN and infinities, by default 0 and the largest ones.

    Args:
        nan, posinf, neginf: numbers, or arrays that broadcast to the shape of `x`.
        copy: False to write the result into `x`.
    """
    if x.dtype.kind == "c":
        result = joined(*[nan_to_num(part(name, x), True, nan, posinf, neginf) for name in ("real", "imag")])
        return result if copy else assign(x, result)
    if x.dtype.kind != "f":
        return astype(x, x.dtype) if copy else x
    limits = finfo(x.dtype)
    high, low = (limits.max if posinf is None else posinf), (limits.min if neginf is None else neginf)
    least, greatest, other = (_typed(value, x) for value in (low, high, nan))
    result = where(apply("isnan", x), other, where(isposinf(x), greatest, where(isneginf(x), least, x)))
    if result.shape != x.shape:
        raise ValueError(f"nan_to_num takes numbers that broadcast to the shape {x.shape}; got {result.shape}")
    if not copy:
        x[...] = result
        return x
    return result


def _typed(given: Any, x: Array) -> Any:
    """Returns a number, or an array, in the dtype of an array; raises TypeError if it is neither."""
    if np.result_type(given.dtype if type(given) is Array else np.asarray(given)).kind not in "biuf":
        raise TypeError(f"nan_to_num takes real numbers; got {given!r}")
    return asarray(given, x.dtype, device=x.runtime) if np.ndim(given) or type(given) is Array else x.dtype.type(given)


def iterable(y: Any) -> bool:
    """Returns True if an object can be iterated over."""
    return np.iterable(y)


def shape(a: Any) -> tuple[int, ...]:
    """Returns the lengths of the axes of an array."""
    return a.shape if type(a) is Array else np.shape(a)


def ndim(a: Any) -> int:
    """Returns the number of axes of an array."""
    return len(shape(a))


def size(a: Any, axis: int | tuple[int, ...] | None = None) -> int:
    """Returns the number of elements of an array, or along axes."""
    lengths = shape(a)
    return int(np.prod([lengths[at] for at in axes_of("size", len(lengths), axis)], dtype=np.int64))


def isscalar(element: Any) -> bool:
    """Returns True for a number; False for an array, of any shape."""
    return np.isscalar(element)


def iscomplexobj(x: Any) -> bool:
    """Returns True for a complex number, or an array of such."""
    return bool(np.dtype(x.dtype).kind == "c" if hasattr(x, "dtype") else np.iscomplexobj(x))


def isrealobj(x: Any) -> bool:
    """Returns False for a complex number, or an array of such."""
    return not iscomplexobj(x)


def iscomplex(x: Array) -> Array:
    """Returns True where the imaginary part is not zero."""
    return apply("not_equal", x.imag, 0)


def isreal(x: Array) -> Array:
    """Returns True where the imaginary part is zero."""
    return apply("equal", x.imag, 0)


def real_if_close(a: Array, tol: float = 100) -> Array:
    """Returns the real parts if all imaginary parts are close to zero, else the array itself; waits.

    Args:
        tol: a multiple of the epsilon of the dtype, or, if at most 1, the largest absolute value.
    """
    if a.dtype.kind != "c":
        return a
    limit = tol * finfo(a.dtype).eps if tol > 1 else tol
    return a.real if bool(reductions.all(apply("less", apply("absolute", a.imag), float(limit)))) else a


def isfortran(a: Array) -> bool:
    """Returns True for a column-major array that is not row-major, too."""
    return bool(a.flags.fnc)
