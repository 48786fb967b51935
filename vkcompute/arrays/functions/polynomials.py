"""Polynomials as coefficients, that of the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.arrays.expressions.promotion import common, complex_of, default_int, floating, part_of, promoted
from vkcompute.arrays.expressions.ufunc import apply, astype
from vkcompute.arrays.functions.calculus import convolve
from vkcompute.arrays.functions.creation import asarray, asarray_weak, zeros
from vkcompute.arrays.functions.manipulation import concat, ravel, stack
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of

_MOST_POWERS = 1 << 16


def vander(x: Array, N: int | None = None, increasing: bool = False) -> Array:  # noqa: N803
    """Returns the powers of each element of a vector, one row each, the highest first unless `increasing`."""
    if x.ndim != 1:
        raise ValueError(f"vander takes a vector; got {x.ndim} axes")
    n = x.size if N is None else N
    if not 0 <= n <= _MOST_POWERS:
        raise ValueError(f"vander takes 0 to {_MOST_POWERS:,} powers; got {n}")
    x = astype(x, common(x.runtime, [x.dtype, default_int(x.runtime)])) if x.dtype.kind in "biu" else x
    powers = [runtime_of(x).full(x.shape, x.dtype.type(1), x.dtype)]
    for _ in range(n - 1):
        powers.append(apply("multiply", powers[-1], x))
    if not n:
        return zeros((x.size, 0), x.dtype, device=x.runtime)
    return stack(powers if increasing else powers[::-1], 1)


def polyval(p: Any, x: Any) -> Array:
    """Returns the values of a polynomial, by Horner's rule, in one launch for up to some 20 coefficients.

    Args:
        p: coefficients: numbers, a NumPy array, or a device array.
        x: an array, or a number.
    """
    coefficients = [p[k] for k in range(len(p))] if type(p) is Array else list(p)
    if type(x) is not Array:
        x = asarray_weak(x, [p] if hasattr(p, "dtype") else coefficients, getattr(p, "runtime", None))
    if x.dtype.kind in "biu":  # Python's ints have the default integer here, as in an array
        kinds = {
            coefficient.dtype if hasattr(coefficient, "dtype") else type(coefficient) for coefficient in coefficients
        }
        x = astype(
            x, common(x.runtime, [x.dtype, *[default_int(x.runtime) if kind is int else kind for kind in kinds]])
        )
    value: Any = apply("multiply", x, 0)
    for coefficient in coefficients:
        value = apply("add", apply("multiply", value, x), coefficient)
    return value  # type: ignore[no-any-return]


def polyfit(
    x: Array, y: Array, deg: int, rcond: float | None = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """Returns the coefficients of the polynomial that fits points best, by least squares.

    It is computed on the host, in float64 or complex128, by LAPACK: the points are downloaded.

    Args:
        x, y, deg, rcond, full, w, cov: as of `numpy.polyfit`; with `full` or `cov`, the further results are NumPy's.
    """
    weights = np.asarray(w) if w is not None else None
    if weights is not None and (weights.dtype.kind not in "biuf" or weights.ndim != 1):
        raise TypeError(f"polyfit takes a real weight per point; got w={w!r}")
    fit: Any = np.polyfit
    wide = [points.numpy().astype(np.complex128 if points.dtype.kind == "c" else np.float64) for points in (x, y)]
    host = fit(*wide, deg, rcond, full, weights, cov)
    dtype = floating(y.dtype) if x.dtype.kind != "c" else complex_of(floating(y.dtype))
    further = host[1:] if type(host) is tuple else ()
    coefficients = asarray((host[0] if further else host).astype(dtype), device=x.runtime)
    return (coefficients, *further) if further else coefficients


def polyadd(a1: Array, a2: Array) -> Array:
    """Returns the sum of two polynomials."""
    return apply("add", *_of_one_length(a1, a2))


def polysub(a1: Array, a2: Array) -> Array:
    """Returns the difference of two polynomials."""
    return apply("subtract", *_of_one_length(a1, a2))


def _of_one_length(*given: Array) -> list[Array]:
    """Returns coefficients with zeros before the shorter ones."""
    vectors = [_coefficients(p) for p in given]
    return [_longer(vector, max(p.size for p in vectors)) for vector in vectors]


def _coefficients(p: Array) -> Array:
    """Returns a vector of coefficients, or raises ValueError."""
    if p.ndim > 1:
        raise ValueError(f"the coefficients of a polynomial are a vector; got the shape {p.shape}")
    return ravel(p)


def _longer(p: Array, n: int) -> Array:
    return concat([zeros(n - p.size, p.dtype, device=p.runtime), p]) if p.size < n else p


def polymul(a1: Array, a2: Array) -> Array:
    """Returns the product of two polynomials. Leading zeros stay, as looking for them would wait for the data."""
    return convolve(a1, a2)


def polyder(p: Array, m: int = 1) -> Array:
    """Returns the m-th derivative of a polynomial, of integers in at least the default integer."""
    p = _coefficients(p)
    _require_order(m)
    p = astype(p, common(p.runtime, [p.dtype, default_int(p.runtime)])) if p.dtype.kind in "biu" else p
    for _ in range(m):
        n = p.size
        if n < 2:
            return p[:0]
        powers = asarray(np.arange(n - 1, 0, -1).astype(p.dtype), device=p.runtime)
        p = apply("multiply", p[:-1], powers)
    return p


def _require_order(m: int) -> None:
    """Raises ValueError if the number of derivatives, or of integrals, is negative."""
    if m < 0:
        raise ValueError(f"the order of a derivative or an integral is 0 or more; got {m}")


def polyint(p: Array, m: int = 1, k: Any = None) -> Array:
    """Returns the m-th integral of a polynomial.

    Args:
        k: the constants of integration, one per integral, or one for all; 0 by default.

    Raises:
        ValueError: there are fewer constants than integrals, or `p` is not a vector.
    """
    p = _coefficients(p)
    _require_order(m)
    constants = [*np.atleast_1d(np.asarray(0 if k is None else k))]
    if not all(isinstance(constant, (np.number, np.bool_)) for constant in constants):
        raise TypeError(f"polyint takes numbers as constants; got {k!r}")
    if any(constant.dtype.kind == "c" for constant in constants) and p.dtype.kind != "c":
        raise TypeError(f"polyint takes real constants for {p.dtype}; got {k!r}; convert with .astype(np.complex64)")
    constants = constants * m if len(constants) == 1 else constants
    if len(constants) < m:
        raise ValueError(f"polyint takes a constant for each of {m} integrals, or one for all; got {len(constants)}")
    for constant in constants[:m]:
        powers = asarray(np.arange(p.size, 0, -1, dtype=np.float32), device=p.runtime)
        integral = apply("divide", p, powers)
        p = concat([integral, asarray(np.array([constant], integral.dtype), device=p.runtime)])
    return p


def roots(p: Array) -> Array:
    """Returns the roots of a polynomial, complex ones if one is not real; computed on the host, by LAPACK."""
    host, wanted = np.roots(p.numpy()), floating(p.dtype)
    return asarray(host.astype(complex_of(wanted) if host.dtype.kind == "c" else part_of(wanted)), device=p.runtime)


def poly(seq_of_zeros: Array) -> Array:
    """Returns the coefficients of the polynomial with these roots, or eigenvalues of a matrix; computed on the host."""
    host = np.asarray(np.poly(seq_of_zeros.numpy()))
    wanted = floating(seq_of_zeros.dtype)
    return asarray(host.astype(complex_of(wanted) if host.dtype.kind == "c" else part_of(wanted)),
                   device=seq_of_zeros.runtime)  # fmt: skip


def polydiv(u: Array, v: Array) -> tuple[Array, Array]:
    """Returns the quotient of two polynomials, and the remainder; computed on the host."""
    dtype = floating(promoted(u.runtime, u.dtype, v.dtype))
    parts = np.polydiv(u.numpy().astype(dtype), v.numpy().astype(dtype))
    return asarray(parts[0], device=u.runtime), asarray(parts[1], device=u.runtime)
