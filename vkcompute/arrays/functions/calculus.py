"""Differences, integrals, interpolation and convolution along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.arrays.algorithms import gather, scans, search, sorting
from vkcompute.arrays.algorithms.contraction import strided
from vkcompute.arrays.algorithms.lines import axes_of, axis_of
from vkcompute.arrays.expressions.promotion import dtype_of, floating, promoted
from vkcompute.arrays.expressions.ufunc import apply, astype, joined, part, where
from vkcompute.arrays.functions import reductions
from vkcompute.arrays.functions.creation import asarray, zeros
from vkcompute.arrays.functions.manipulation import concat, flip, ravel, reshape
from vkcompute.arrays.functions.standard import diff
from vkcompute.dtypes import can_cast
from vkcompute.runtime.memory.array import Array


def _along(axis: int, *index: Any) -> tuple[Any, ...]:
    return (slice(None),) * axis + index


def gradient(f: Array, *varargs: Any, axis: int | tuple[int, ...] | None = None, edge_order: int = 1) -> Any:
    """Returns the gradient by central differences, one array per axis; by one-sided ones at the ends.

    Args:
        varargs: the distance of neighbours, for all axes or for each; or their coordinates along each axis.
        axis: the axes, by default all.
        edge_order: 1 or 2, the order of the differences at the ends.

    Raises:
        ValueError: an axis is shorter than edge_order + 1, or there is a wrong number of distances.
    """
    axes = axes_of("gradient", f.ndim, axis)
    spacings = list(varargs) if len(varargs) == len(axes) else list(varargs or (1.0,)) * len(axes)
    is_one_vector = len(varargs) == 1 < len(axes) and np.ndim(varargs[0]) > 0
    if len(spacings) != len(axes) or edge_order not in (1, 2) or is_one_vector:
        raise ValueError(f"gradient takes a distance for all or for each of {len(axes)} axes, and edge_order 1 or 2")
    slopes = [_gradient(astype(f, floating(f.dtype)), at, h, edge_order) for at, h in zip(axes, spacings, strict=True)]
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


def _gradient(f: Array, axis: int, spacing: Any, edge_order: int) -> Array:
    n = f.shape[axis]
    if n < edge_order + 1:
        raise ValueError(f"gradient takes at least {edge_order + 1} elements along an axis; got {n}")
    given = np.asarray(spacing.numpy() if type(spacing) is Array else spacing)
    if given.dtype.kind not in "biuf":
        raise TypeError(f"gradient takes distances, or coordinates, as real numbers; got {spacing!r}")
    if not given.ndim and not given:
        raise ValueError("gradient takes distances other than 0; got 0")
    given = given.astype(np.float64)
    if given.ndim > 1 or (given.ndim == 1 and given.size != n):
        raise ValueError(f"coordinates are one per element of the axis, {n}; got the shape {given.shape}")
    steps = np.diff(given) if given.ndim else np.full(2, given)
    ends = [_end(f, axis, steps, edge_order), _end(flip(f, axis), axis, -steps[::-1], edge_order)]
    if n == 2:
        return concat(ends, axis)
    before, here, behind = [f[_along(axis, slice(k, n - 2 + k))] for k in range(3)]
    if given.ndim:
        middle = _combination([before, here, behind], [_column(f, weight, axis) for weight in _weights(steps)])
    else:
        middle = apply("divide", apply("subtract", behind, before), f.dtype.type(2 * given))
    return concat([ends[0], middle, ends[1]], axis)


def _weights(steps: Any) -> tuple[Any, Any, Any]:
    """Returns the weights of an element's neighbour before it, of the element, and of the neighbour behind it."""
    before, after = steps[:-1], steps[1:]
    return (
        -after / (before * (before + after)),
        (after - before) / (before * after),
        before / (after * (before + after)),
    )


def _end(f: Array, axis: int, steps: Any, edge_order: int) -> Array:
    """Returns the derivative at the first element."""
    parts = [f[_along(axis, slice(k, k + 1))] for k in range(edge_order + 1)]
    if edge_order == 1:
        weights = [-1 / steps[0], 1 / steps[0]]
    else:
        one, two = steps[0], steps[1]
        weights = [-(2 * one + two) / (one * (one + two)), (one + two) / (one * two), -one / (two * (one + two))]
    return _combination(parts, [f.dtype.type(weight) for weight in weights])


def _combination(parts: list[Array], weights: list[Any]) -> Array:
    total = apply("multiply", parts[0], weights[0])
    for term, weight in zip(parts[1:], weights[1:], strict=True):
        total = apply("add", total, apply("multiply", term, weight))
    return total


def _column(f: Array, values: Any, axis: int) -> Array:
    """Returns numbers of the host as an array along an axis."""
    shape = [1] * f.ndim
    shape[axis] = -1
    return asarray(values.astype(f.dtype).reshape(shape), device=f.runtime)


def trapezoid(y: Array, x: Array | None = None, dx: float = 1.0, axis: int = -1) -> Array:
    """Returns the integral along an axis by the trapezoidal rule.

    Args:
        x: the coordinates; by default the distance of neighbours is `dx`.
    """
    at = axis_of("trapezoid", y.ndim, axis)
    y = y if y.dtype.kind == "b" else astype(y, floating(y.dtype))  # bools are added as bools, as in NumPy
    step: Any = dx
    if x is not None:
        x = x if x.dtype.kind == "b" else astype(x, floating(x.dtype))
        step = diff(x) if x.ndim == 1 else diff(x, axis=at)
        step = reshape(step, tuple([-1 if k == at else 1 for k in range(y.ndim)])) if x.ndim == 1 else step
    pairs = apply("add", y[_along(at, slice(1, None))], y[_along(at, slice(None, -1))])
    return reductions.sum(apply("multiply", apply("multiply", pairs, step), 0.5), at)


def ediff1d(ary: Array, to_end: Any = None, to_begin: Any = None) -> Array:
    """Returns the differences of neighbours of the flattened array, with elements added at both ends.

    Raises:
        TypeError: `to_begin` or `to_end` has a dtype that does not cast to the array's by "same_kind".
    """
    if ary.dtype.kind == "b":
        raise TypeError("ediff1d subtracts numbers; got bools; convert them with .astype(), or use diff")
    steps = diff(ravel(ary))
    for end in (to_begin, to_end):
        if end is not None and not can_cast(dtype_of(end), ary.dtype, "same_kind"):
            rule = f"ediff1d of {ary.dtype} takes ends that cast to it by 'same_kind'; got {dtype_of(end)}"
            raise TypeError(f"{rule}; convert them with .astype()")
    ends = [ravel(asarray(end, ary.dtype, device=ary.runtime)) for end in (to_begin, to_end) if end is not None]
    parts = [*(ends[:1] if to_begin is not None else []), steps, *(ends[-1:] if to_end is not None else [])]
    return concat(parts) if len(parts) > 1 else steps


def unwrap(p: Array, discont: float | None = None, axis: int = -1, *, period: float = 2 * np.pi) -> Array:
    """Returns angles without jumps: neighbours differ by at most half a period, unless by less than `discont`."""
    p = astype(p, floating(p.dtype)) if p.dtype.kind == "b" else p
    at, step = axis_of("unwrap", p.ndim, axis), diff(p, axis=axis)  # of unsigned integers, modulo their range
    if p.dtype.kind in "iu":
        p, step = (array if isinstance(period, int) else astype(array, floating(array.dtype)) for array in (p, step))
    half: Any = period / 2 if p.dtype.kind == "f" else period // 2
    wrapped = apply("subtract", apply("remainder", apply("add", step, half), period), half)
    if p.dtype.kind == "f" or period % 2 == 0:
        edge = apply("logical_and", apply("equal", wrapped, -half), apply("greater", step, 0))
        wrapped = where(edge, p.dtype.type(half), wrapped)
    jump = apply("subtract", wrapped, step)
    jump = where(apply("less", apply("absolute", step), half if discont is None else discont), p.dtype.type(0), jump)
    later = apply("add", p[_along(at, slice(1, None))], scans.cumulative(jump, "sum", at, p.dtype))
    return concat([p[_along(at, slice(0, 1))], later], at)


def interp(x: Array, xp: Array, fp: Array, left: Any = None, right: Any = None, period: float | None = None) -> Array:
    """Returns values at `x` of a function that is linear between the points (xp, fp).

    Args:
        x: where to interpolate.
        xp, fp: coordinates, ascending along one axis, and values, which may be complex.
        left, right: the values outside; by default those of the first and last point.
        period: of the coordinates; they need not ascend then.

    Raises:
        ValueError: the points are none, or their shapes differ.
    """
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ValueError(f"interp takes points along one axis, at least one; got shapes {xp.shape} and {fp.shape}")
    if fp.dtype.kind == "c":
        real, imag = (
            interp(x, xp, part(name, fp), _part(name, left), _part(name, right), period) for name in ("real", "imag")
        )
        return joined(real, imag)
    dtype = floating(promoted(x.runtime, x.dtype, xp.dtype, fp.dtype))
    wanted, knots, values = (astype(array, dtype) for array in (x, xp, fp))
    if period == 0:
        raise ValueError("interp takes a period other than 0; got 0; pass None for none")
    if period is not None:
        wanted, knots = (apply("remainder", array, abs(period)) for array in (wanted, knots))
        order = sorting.argsort(knots)
        knots, values = gather.take(knots, order), gather.take(values, order)
        knots = concat([apply("subtract", knots[-1:], abs(period)), knots, apply("add", knots[:1], abs(period))])
        values = concat([values[-1:], values, values[:1]])
        left = right = None
    return _interpolated(wanted, knots, values, left, right)


def _part(name: str, number: Any) -> Any:
    return None if number is None else getattr(number, name)


def _interpolated(wanted: Array, knots: Array, values: Array, left: Any, right: Any) -> Array:
    n = knots.size
    at = astype(search.searchsorted(knots, wanted, "right"), np.int32)
    low = apply("minimum", apply("maximum", apply("subtract", at, 1), 0), max(n - 2, 0))
    high = apply("minimum", apply("add", low, 1), n - 1)
    (x0, x1), (y0, y1) = ([gather.take(array, which) for which in (low, high)] for array in (knots, values))
    slope = apply("divide", apply("subtract", y1, y0), apply("subtract", x1, x0))
    # From the other point, too, as in NumPy: infinite values make one of the two NaN.
    result, other = (
        apply("add", apply("multiply", slope, apply("subtract", wanted, x)), y) for x, y in ((x0, y0), (x1, y1))
    )
    other = where(apply("logical_and", apply("isnan", other), apply("equal", y0, y1)), y0, other)
    result = where(apply("isnan", result), other, result)
    blend = _blended(wanted, (x0, x1), (y0, y1))
    result = where(apply("logical_or", _overflows(x0, x1), _overflows(y0, y1)), blend, result)
    result = where(apply("equal", wanted, x1), y1, where(apply("equal", wanted, x0), y0, result))
    first, last = knots[0], knots[-1]
    below = values[0] if left is None else values.dtype.type(left)
    above = values[-1] if right is None else values.dtype.type(right)
    result = where(apply("less", wanted, first), below, where(apply("greater", wanted, last), above, result))
    return where(apply("isnan", wanted), wanted, result)


def _overflows(low: Array, high: Array) -> Array:
    """Returns True where the difference of two finite numbers is infinite."""
    is_finite = apply("logical_and", apply("isfinite", low), apply("isfinite", high))
    return apply("logical_and", is_finite, apply("isinf", apply("subtract", high, low)))


def _blended(wanted: Array, knots: tuple[Array, Array], values: tuple[Array, Array]) -> Array:
    """Returns what is between two points as a sum of both values: differences of halves do not overflow."""
    half, (low, high) = apply("multiply", wanted, 0.5), (apply("multiply", x, 0.5) for x in knots)
    share = apply("divide", apply("subtract", half, low), apply("subtract", high, low))
    return apply("add", apply("multiply", values[0], apply("subtract", 1, share)), apply("multiply", values[1], share))


def correlate(a: Array, v: Array, mode: str = "valid") -> Array:
    """Returns the correlation of two sequences: sums of products at each shift, with the conjugates of `v`.

    Args:
        mode: "full" for all shifts at which they overlap, "same" for as many as the longer one has elements, "valid"
            for those at which they overlap wholly.

    Raises:
        ValueError: a sequence is empty or has several axes, or the mode is another.
    """
    return _correlated(a, apply("conjugate", v) if v.dtype.kind == "c" else v, mode)


def _correlated(a: Array, v: Array, mode: str) -> Array:
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode is 'full', 'same' or 'valid'; got {mode!r}")
    if a.ndim != 1 or v.ndim != 1 or not a.size or not v.size:
        raise ValueError(f"sequences have one axis, and elements; got shapes {a.shape} and {v.shape}")
    dtype = promoted(a.runtime, a.dtype, v.dtype)
    if a.size < v.size:
        return flip(_sliding(astype(v, dtype), astype(a, dtype), mode), 0).copy()
    return _sliding(astype(a, dtype), astype(v, dtype), mode)


def convolve(a: Array, v: Array, mode: str = "full") -> Array:
    """Returns the convolution of two sequences, or numbers: sums of products with the second one reversed.

    See `correlate`.
    """
    a, v = (x if x.ndim else x.reshape(1) for x in (a, v))
    if a.ndim == v.ndim == 1 and v.size > a.size:
        a, v = v, a
    return _correlated(a, flip(v, 0) if v.size else v, mode)


def _sliding(long: Array, short: Array, mode: str) -> Array:
    """Returns sums of products of the short sequence with each window of the long one."""
    m = short.size
    before = {"full": m - 1, "same": m // 2, "valid": 0}[mode]
    after = {"full": m - 1, "same": m - 1 - m // 2, "valid": 0}[mode]
    ends = [zeros(n, long.dtype, device=long.runtime) for n in (before, after)]
    padded = concat([ends[0], long, ends[1]]) if before or after else long
    padded.compute()
    step = padded.dtype.itemsize
    windows = strided(padded, (padded.size - m + 1, m), (step, step))
    products = apply("multiply", windows, short)
    if products.dtype.kind in "fc" and padded is not long:  # beyond the ends are no zeros, of which NaN would be made
        inside = np.zeros(padded.size, np.bool_)
        inside[before : before + long.size] = True
        mask = asarray(inside, device=long.runtime)
        products = where(strided(mask, windows.shape, (1, 1)), products, products.dtype.type(0))
    return reductions.sum(products, 1, long.dtype)
