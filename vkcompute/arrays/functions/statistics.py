"""Order statistics, averages and correlations."""

from __future__ import annotations

import math
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms import gather, scans, sorting
from vkcompute.arrays.algorithms.lines import Axis, axes_of
from vkcompute.arrays.algorithms.order_statistics import elements_at
from vkcompute.arrays.expressions.promotion import dtype_of, floating, part_of, promoted, wide_float
from vkcompute.arrays.expressions.ufunc import apply, astype, joined, part, where, written
from vkcompute.arrays.functions import integer_means, reductions
from vkcompute.arrays.functions.manipulation import concat, reshape
from vkcompute.arrays.functions.nans import numbers_along
from vkcompute.arrays.functions.products import diagonal, matmul
from vkcompute.dtypes import as_dtype, computes_float64
from vkcompute.errors import DtypeError
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import constant, runtime_of

_OFFSETS = {
    "inverted_cdf": None, "averaged_inverted_cdf": None, "closest_observation": None,
    "interpolated_inverted_cdf": (0.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0), "linear": (1.0, 1.0),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8), "lower": (1.0, 1.0), "higher": (1.0, 1.0),
    "midpoint": (1.0, 1.0), "nearest": (1.0, 1.0),
}  # fmt: skip
"""Method of a quantile -> alpha and beta (R. J. Hyndman, Y. Fan, Sample Quantiles in Statistical Packages, 1996)."""
_SELECTING = "inverted_cdf", "closest_observation", "lower", "higher", "nearest"
"""Methods whose quantile is an element, in its dtype."""


def _axes(name: str, ndim: int, axis: Any) -> tuple[int, ...]:
    """Returns axes, counted from 0; as in NumPy, a list is possible here."""
    return axes_of(name, ndim, tuple(axis) if isinstance(axis, list) else axis)


def _lines(name: str, x: Array, axes: tuple[int, ...]) -> Array:
    """Returns the elements with the given axes as one, the last."""
    others = [at for at in range(x.ndim) if at not in axes]
    n = math.prod([x.shape[at] for at in axes])
    if not n:
        raise ValueError(f"{name} of no elements; the array has shape {x.shape}")
    return reshape(x.transpose((*others, *axes)) if x.ndim else x, (*[x.shape[at] for at in others], n))


def _kept(x: Array, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of a result that keeps the axes."""
    return tuple([1 if at in axes else n for at, n in enumerate(x.shape)])


def _weights_of(x: Array, weights: Array, axes: tuple[int, ...], axis: Axis) -> Array:
    """Returns weights, which have the shape of an array or of its axes, in that of the array."""
    if weights.shape == x.shape:
        return weights
    if axis is None or weights.shape != tuple([x.shape[at] for at in axes]):
        raise ValueError(f"weights have the shape {x.shape}, or that of the axis; got {weights.shape}")
    lengths = tuple([n if at in axes else 1 for at, n in enumerate(x.shape)])
    return reshape(weights.transpose(tuple(map(int, np.argsort(axes)))), lengths).broadcast_to(x.shape)


def _positions(method: str, q: float, n: Any) -> tuple[Any, Any, Any]:
    """Returns the two elements of n sorted ones between which a quantile is, and how far from the first it is.

    Args:
        n: an integer, or an array of them.
    """
    alpha, beta = _OFFSETS[method] or (0.0, 1.0)
    at = (n - 1) * q if alpha == beta == 1 else n * q + (alpha + q * (1 - alpha - beta)) - 1  # rounded as in NumPy
    at = at - 0.5 if method == "closest_observation" else np.rint(at) if method == "nearest" else at
    low = np.floor(at)
    share = at - low
    if method == "inverted_cdf":
        share = np.where(share > 0, 1.0, 0.0)
    elif method == "averaged_inverted_cdf":
        share = np.where(share > 0, 1.0, 0.5)
    elif method == "closest_observation":
        share = np.where((share == 0) & (low % 2 == 1), 0.0, 1.0)
    else:
        share = {"lower": 0.0 * share, "higher": 1.0 * (share > 0), "midpoint": 0.5 * (share > 0)}.get(method, share)
    return np.clip(low, 0, n - 1), np.clip(low + 1, 0, n - 1), share


def _between(low: Array, high: Array, weight: Any) -> Array:
    """Returns low + weight * (high - low), from the nearer side; equal infinities stay, and no difference overflows."""
    step = apply("subtract", high, low)
    if type(weight) is Array:
        result = where(
            apply("less", weight, 0.5),
            apply("add", low, apply("multiply", step, weight)),
            apply("subtract", high, apply("multiply", step, apply("subtract", 1, weight))),
        )
    elif weight < 0.5:
        result = apply("add", low, apply("multiply", step, weight))
    else:
        result = apply("subtract", high, apply("multiply", step, 1 - weight))
    if low.dtype.kind == "f":
        rest = apply("subtract", 1, weight) if type(weight) is Array else 1 - weight
        blend = apply("add", apply("multiply", low, rest), apply("multiply", high, weight))
        is_finite = apply("logical_and", apply("isfinite", low), apply("isfinite", high))
        result = where(apply("logical_and", is_finite, apply("isinf", step)), blend, result)
    result = where(apply("equal", low, high), low, result)
    return where(apply("equal", weight, 0), low, result) if type(weight) is Array else result


def _quantile_dtype(name: str, line: Array, q: Any, method: str) -> np.dtype[Any]:
    """Returns the dtype of quantiles: that of the elements, or the common one with q that is no number of Python."""
    dtype = dtype_of(q)
    is_exact = method in _SELECTING or (method == "linear" and dtype.kind in "biu" and "quantile" in name)
    if type(q) in (int, float, bool) or is_exact or not dtype.itemsize or dtype.kind not in "biuf":
        return line.dtype
    return promoted(line.runtime, line.dtype, dtype)


def _plain_quantiles(line: Array, numbers: list[float], method: str, dtype: np.dtype[Any]) -> list[Array]:
    """Returns quantiles of the elements of each line; NaN if it has one."""
    n = line.shape[-1]
    positions = [_positions(method, q, n) for q in numbers]
    used = [[low, high] if 0 < weight < 1 else [high if weight == 1 else low] for low, high, weight in positions]
    elements = elements_at(line, [n - 1, *[int(rank) for ranks in used for rank in ranks]])
    quantiles, last = [], elements[n - 1]
    for ranks, (low, high, weight) in zip(used, positions, strict=True):
        one, other = elements[int(ranks[0])], elements[int(ranks[-1])]
        share = float(weight) if dtype == line.dtype else dtype.type(weight)
        quantile = one if low == high or len(ranks) == 1 else _between(one, other, share)
        quantiles.append(where(apply("isnan", last), last, quantile))
    return quantiles


def _one_nan_quantile(line: Array, q: float, method: str, dtype: np.dtype[Any]) -> Array:
    """Returns a quantile of the elements of each line that are not NaN; they are sorted last."""
    count, runtime = numbers_along(line, -1, np.dtype(np.int32), True), runtime_of(line)
    low, high, weight = _positions(method, q, np.maximum(np.arange(line.shape[-1] + 1), 1))  # by the count
    indices = [gather.take(constant(runtime, index.astype(np.int32)), count) for index in (low, high)]
    lower, upper = [gather.take_along_axis(line, index, -1) for index in indices]
    if method in _SELECTING:
        quantile = where(gather.take(constant(runtime, weight.astype(np.bool_)), count), upper, lower)
    else:
        quantile = _between(lower, upper, gather.take(constant(runtime, weight.astype(dtype)), count))
    return astype(quantile, dtype)[..., 0]


def _one_weighted_quantile(line: Array, shares: Array, q: float, *, without_nan: bool) -> Array:
    """Returns the first element of each sorted line up to which the share of the weights is q or more, and not 0."""
    before = apply("logical_or", apply("less", shares, q), apply("equal", shares, 0))
    index = reductions.sum(astype(before, np.int32), -1, np.int32, keepdims=True)
    quantile = gather.take_along_axis(line, apply("minimum", index, line.shape[-1] - 1), -1)[..., 0]
    last = line[..., -1]
    return quantile if without_nan else where(apply("isnan", last), last, quantile)


def _shares(name: str, line: Array, weights: Array) -> Array:
    """Returns for each element of each sorted line the share of the weights up to it.

    Raises:
        ValueError: the sum of the weights of a line is 0, NaN or infinite.
    """
    dtype = np.dtype(np.float64 if computes_float64(weights.runtime.device.features) else np.float32)
    sums = scans.cumulative(astype(weights, dtype), "sum", -1)
    total = sums[..., -1:]
    is_sum = apply("logical_and", apply("greater", total, 0), apply("isfinite", total))
    has_numbers = apply("equal", line[..., :1], line[..., :1])  # NaN is last
    rule = f"{name}: the sum of weights is finite and not 0; got weights that are NaN, infinite, or all 0"
    reductions.refuse(apply("logical_and", has_numbers, apply("logical_not", is_sum)), ValueError(rule))
    return apply("divide", sums, total)


def _quantiles(
    name: str, x: Array, q: Any, axis: Axis, out: Array | None, method: str, keepdims: bool, weights: Array | None,
    *, without_nan: bool,
) -> Array:  # fmt: skip
    if method not in _OFFSETS:
        raise ValueError(f"{name}: the method is one of {', '.join(_OFFSETS)}; got {method!r}")
    asked = _reals(name, q) / (100 if "percentile" in name else 1)
    if asked.size and not (asked.min() >= 0 and asked.max() <= 1):
        limits, other = ("0 to 100", "quantile") if "percentile" in name else ("0 to 1", "percentile")
        raise ValueError(f"{name} takes q from {limits}; got {q!r}; {other} takes the other scale")
    if x.dtype.kind == "c":
        raise DtypeError(f"{name} takes real numbers, as they have an order; got {x.dtype}; pass x.real or abs(x)")
    if weights is not None and method != "inverted_cdf":
        raise ValueError(f"{name} takes weights with the method 'inverted_cdf'; got {method!r}")
    axes = _axes(name, x.ndim, axis)
    line = astype(_lines(name, x, axes), x.dtype if method in _SELECTING else floating(x.dtype))
    numbers, dtype = [float(number) for number in asked.reshape(-1)], _quantile_dtype(name, line, q, method)
    if weights is None:
        if without_nan and line.dtype.kind == "f":
            ordered = sorting.sort(line, -1)
            quantiles = [_one_nan_quantile(ordered, number, method, dtype) for number in numbers]
        else:
            quantiles = _plain_quantiles(line, numbers, method, dtype)
    else:
        negative = ValueError(f"{name}: weights are not negative; got negative ones")
        reductions.refuse(apply("less", weights, 0), negative)
        weight = _lines(name, _weights_of(x, weights, axes, axis), axes)
        weight = where(apply("isnan", line), weight.dtype.type(0), weight) if without_nan else weight
        order = sorting.argsort(line, -1)
        ordered = gather.take_along_axis(line, order, -1)
        shares = _shares(name, ordered, gather.take_along_axis(weight, order, -1))
        quantiles = [_one_weighted_quantile(ordered, shares, number, without_nan=without_nan) for number in numbers]
    if keepdims:
        quantiles = [reshape(quantile, _kept(x, axes)) for quantile in quantiles]
    if asked.ndim and quantiles:
        joined = concat([reshape(quantile, (1, *quantile.shape)) for quantile in quantiles])
        result = reshape(joined, (*asked.shape, *quantiles[0].shape))
    else:
        result = quantiles[0] if quantiles else astype(line[..., :0], line.dtype)
    return written(astype(result, dtype), out)


def quantile(
    a: Array, q: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: Array | None = None,
) -> Array:  # fmt: skip
    """Returns quantiles along axes, by all of NumPy's methods; NaN where there is a NaN.

    Args:
        q: a number from 0 to 1, or several, which are the first axes of the result.
        overwrite_input: has no effect.
        weights: of the shape of `a`, or of its axis, for the method "inverted_cdf". It waits to see that they are
            valid.

    Raises:
        ValueError: a weight is negative, or their sum is 0, NaN or infinite.
    """
    return _quantiles("quantile", a, q, axis, out, method, keepdims, weights, without_nan=False)


def percentile(
    a: Array, q: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: Array | None = None,
) -> Array:  # fmt: skip
    """Returns percentiles along axes: quantiles, with q from 0 to 100."""
    return _quantiles("percentile", a, q, axis, out, method, keepdims, weights, without_nan=False)


def nanquantile(
    a: Array, q: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: Array | None = None,
) -> Array:  # fmt: skip
    """Returns quantiles along axes of the elements that are not NaN."""
    return _quantiles("nanquantile", a, q, axis, out, method, keepdims, weights, without_nan=True)


def nanpercentile(
    a: Array, q: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: Array | None = None,
) -> Array:  # fmt: skip
    """Returns percentiles along axes of the elements that are not NaN."""
    return _quantiles("nanpercentile", a, q, axis, out, method, keepdims, weights, without_nan=True)


def _reals(name: str, q: Any) -> Any:
    """Returns the numbers of quantiles on the host, in float64."""
    numbers = np.asarray(q.numpy() if type(q) is Array else q)
    if numbers.dtype.kind not in "biuf" and numbers.size:
        raise TypeError(f"{name} takes q as real numbers; got {q!r}")
    return numbers.astype(np.float64)


def median(
    a: Array, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """Returns the middle element along axes, or the mean of the middle two; NaN where there is a NaN, or no element."""
    return _median("median", a, axis, out, keepdims, without_nan=False)


def nanmedian(
    a: Array, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """Returns the median along axes of the elements that are not NaN; NaN if all are."""
    return _median("nanmedian", a, axis, out, keepdims, without_nan=True)


def _median(name: str, x: Array, axis: Axis, out: Array | None, keepdims: bool, *, without_nan: bool) -> Array:
    axes = _axes(name, x.ndim, axis)
    if 0 in [x.shape[at] for at in axes]:
        middle = reductions.mean(x, axes, keepdims=keepdims)
    elif x.dtype.kind in "iu":
        middle = _middle_of_integers(_lines(name, x, axes))
        middle = reshape(middle, _kept(x, axes)) if keepdims else middle
    else:
        line = astype(_lines(name, x, axes), floating(x.dtype))
        middle = _middle_of_numbers(sorting.sort(line, -1)) if without_nan else _middle(line)
        middle = reshape(middle, _kept(x, axes)) if keepdims else middle
    return written(middle, out)


def _middle_of_integers(line: Array) -> Array:
    """Returns the middle element of each line, or the mean of the middle two, rounded once or twice to a float.

    Halves are added as integers, since floats of large elements would lose what is left where these cancel out.
    """
    n, dtype = line.shape[-1], floating(line.dtype)
    elements = elements_at(line, [(n - 1) // 2, n // 2])
    low, high = elements[(n - 1) // 2], elements[n // 2]
    one = line.dtype.type(1)
    halves = apply("add", apply("right_shift", low, one), apply("right_shift", high, one))
    rest = apply("add", apply("bitwise_and", low, one), apply("bitwise_and", high, one))
    return apply("add", astype(halves, dtype), apply("multiply", astype(rest, dtype), 0.5))


def _middle(line: Array) -> Array:
    """Returns the middle element of each line, or the mean of the middle two; NaN if it has one."""
    n = line.shape[-1]
    elements = elements_at(line, [(n - 1) // 2, n // 2, n - 1])
    middle, last = _half_way(elements[(n - 1) // 2], elements[n // 2]), elements[n - 1]
    return where(apply("isnan", last), last, middle)


def _middle_of_numbers(line: Array) -> Array:
    count = numbers_along(line, -1, np.dtype(np.int32), True)
    indices = (
        apply("floor_divide", apply("maximum", apply("subtract", count, 1), 0), 2),
        apply("floor_divide", count, 2),
    )
    last = np.int32(line.shape[-1] - 1)
    one, other = (gather.take_along_axis(line, apply("minimum", index, last), -1) for index in indices)
    return _half_way(one, other)[..., 0]


def _half_way(one: Array, other: Array) -> Array:
    """Returns the mean of two elements, which does not overflow; equal infinities stay."""
    wide = astype(one, wide_float(one.dtype))
    middle = apply("add", apply("multiply", wide, 0.5), apply("multiply", other, other.dtype.type(0.5)))
    return where(apply("equal", one, other), one, astype(middle, one.dtype))


def average(
    a: Array, axis: Axis = None, weights: Array | None = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """Returns the mean along axes, weighted if there are weights.

    Args:
        weights: of the shape of `a`, or of its axis. It waits to see that their sum is not 0.
        returned: True to return the sum of the weights, too.

    Raises:
        ValueError: the weights have another shape.
        ZeroDivisionError: the sum of the weights is 0.
    """
    if weights is None:
        mean = reductions.mean(a, axis, keepdims=keepdims)
        if not returned:
            return mean
        axes = axes_of("average", a.ndim, axis)
        total = runtime_of(a).full(mean.shape, mean.dtype.type(math.prod([a.shape[at] for at in axes])), mean.dtype)
        return mean, total
    weights = _weights_of(a, weights, axes_of("average", a.ndim, axis), axis)
    dtype = floating(promoted(a.runtime, a.dtype, weights.dtype))
    one, other = astype(a, dtype), astype(weights, dtype)
    total = reductions.sum(other, axis, keepdims=keepdims)
    reductions.refuse(apply("equal", total, 0), ZeroDivisionError("average: the sum of the weights is not 0; got 0"))
    weighted = apply("divide", reductions.sum(apply("multiply", one, other), axis, keepdims=keepdims), total)
    return (weighted, total) if returned else weighted


def cov(
    m: Array, y: Array | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Array | None = None, aweights: Array | None = None, *, dtype: npt.DTypeLike | None = None,
) -> Array:  # fmt: skip
    """Returns the covariances of variables, one per row.

    Args:
        y: further variables.
        rowvar: False if variables are columns.
        bias: True to divide by the number of observations, not by one less.
        ddof: the number that is subtracted from that of the observations.
        fweights, aweights: how often an observation counts, as integers; its importance. It waits to see that they are
            valid.

    Raises:
        TypeError: `fweights` or `ddof` are no integers.
        ValueError: there are more than two axes, weights are negative, or there is not one per observation.
        ZeroDivisionError: the sum of the weights is 0.
    """
    if fweights is not None and fweights.dtype.kind not in "iu":
        raise TypeError(f"fweights of cov are integers; got {fweights.dtype}; pass aweights")
    ddof = (0 if bias else 1) if ddof is None else index(ddof)
    if dtype is not None and as_dtype(dtype).kind not in "fc":
        raise TypeError(f"covariances are of a float dtype; got dtype={as_dtype(dtype)}; convert them with .astype()")
    common = m.dtype if y is None else promoted(m.runtime, m.dtype, y.dtype)
    wanted = as_dtype(dtype) if dtype is not None else floating(common)
    if wanted != wide_float(wanted):  # which holds no large numbers of observations
        return astype(cov(m, y, rowvar, bias, ddof, fweights, aweights, dtype=np.float32), wanted)
    rows = [_variables(m, rowvar)] + ([] if y is None else [_variables(y, rowvar or y.shape[0] == 1)])
    weight = _weight_of_observations(rows[0].shape[1], fweights, aweights, part_of(wanted))
    parts = [_near_zero(x, wanted, weight) for x in rows]
    x = concat(parts) if len(parts) == 2 else parts[0]
    mean = average(x, 1, weight.broadcast_to(x.shape) if weight is not None else None, keepdims=True)
    n: Any = part_of(wanted).type(max(x.shape[1] - ddof, 0) if x.shape[1] else np.nan)
    centred = apply("subtract", x, mean)
    scaled = centred
    if weight is not None:
        total = reductions.sum(weight)
        n = apply("maximum", apply("subtract", total, ddof), 0)
        if aweights is not None and ddof:
            squares = reductions.sum(apply("multiply", weight, astype(aweights, part_of(wanted))))
            n = apply("subtract", total, apply("divide", apply("multiply", squares, ddof), total))
            n = apply("maximum", n, 0)
        scaled = apply("multiply", centred, weight)
    product = apply("divide", matmul(scaled, apply("conjugate", centred).T), n)
    product = _unscaled(product, rows)
    return product.reshape(()) if product.size == 1 else product


def _variables(m: Array, rowvar: bool) -> Array:
    if m.ndim > 2:
        raise ValueError(f"cov takes a vector, or a matrix with a variable per row; got {m.ndim} axes")
    return reshape(m, (1, m.size)) if m.ndim < 2 else m if rowvar else m.T


def _weight_of_observations(
    n: int, fweights: Array | None, aweights: Array | None, dtype: np.dtype[Any]
) -> Array | None:  # fmt: skip
    """Returns the products of both weights of each of n observations; raises ValueError if they are not valid."""
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        if given.shape != (n,):
            raise ValueError(f"cov: {name} are one per observation, of {n}; got shape {given.shape}")
        reductions.refuse(apply("less", given, 0), ValueError(f"cov: {name} are not negative; got negative ones"))
    weights = [astype(given, dtype) for given in (fweights, aweights) if given is not None]
    return apply("multiply", *weights) if len(weights) == 2 else weights[0] if weights else None


def _near_zero(x: Array, dtype: np.dtype[Any], weight: Array | None) -> Array:
    """Returns the observations of variables as floats; integers that these round, less one near their mean.

    Distances of integers of 64 bits are scaled.
    """
    if not integer_means.is_rounded(x.dtype, dtype):
        return astype(x, dtype)
    whole, _ = integer_means.mean_of(x, (1,), x.shape[1], keepdims=True)
    near = integer_means.distances(x, integer_means.Mean(whole, 0.0))
    if weight is not None:  # heavy observations may be far from the mean without weights
        shift = apply("rint", average(near, 1, weight.broadcast_to(x.shape), keepdims=True))
        whole = apply("add", whole, astype(astype(shift, np.int64), x.dtype))
        near = integer_means.distances(x, integer_means.Mean(whole, 0.0))
    return apply("multiply", near, integer_means.scale_of(x.dtype, dtype))


def _unscaled(product: Array, rows: list[Array]) -> Array:
    """Returns products of distances without the scales by which `_near_zero` multiplies them."""
    scales = [integer_means.scale_of(x.dtype, product.dtype) for x in rows]
    if set(scales) == {1.0}:
        return product
    scale = constant(runtime_of(product), np.repeat(np.array(scales, np.float32), [x.shape[0] for x in rows]))
    return apply("divide", apply("divide", product, reshape(scale, (scale.size, 1))), scale)


def corrcoef(x: Array, y: Array | None = None, rowvar: bool = True, *, dtype: npt.DTypeLike | None = None) -> Array:
    """Returns the correlations of variables, one per row, between -1 and 1."""
    matrix = cov(x, y, rowvar, dtype=dtype)
    if not matrix.ndim:
        return apply("divide", matrix, matrix)
    scale = apply("sqrt", diagonal(matrix).real)
    matrix = apply("divide", apply("divide", matrix, reshape(scale, (scale.size, 1))), scale)
    parts = [part("real", matrix), part("imag", matrix)] if matrix.dtype.kind == "c" else [matrix]
    limited = [apply("minimum", apply("maximum", half, -1), 1) for half in parts]
    return joined(*limited) if len(limited) == 2 else limited[0]
