"""Histograms: counts of values between edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from vkcompute.arrays.algorithms import search, segments
from vkcompute.arrays.algorithms.binding_limits import exceeds_bindings
from vkcompute.arrays.algorithms.lines import flat, launch
from vkcompute.arrays.algorithms.selection import masked
from vkcompute.arrays.expressions.promotion import default_float, default_int, dtype_of, floating, promoted
from vkcompute.arrays.expressions.ufunc import apply, assign, astype, where
from vkcompute.arrays.functions import reductions
from vkcompute.arrays.functions.bin_rules import width_of_bins
from vkcompute.arrays.functions.creation import asarray, asarray_weak
from vkcompute.arrays.functions.manipulation import flip, ravel
from vkcompute.dtypes import finfo
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array, empty_result

_MOST_EQUAL = 1 << 16
"""Bins for which the index of a value is computed; the quotient is exact to a fraction of a bin in float32."""


def bincount(x: Array, /, weights: Any = None, minlength: int = 0) -> Array:
    """Returns the number of each value from 0 to the largest, or the sum of its weights; waits for the largest.

    Raises:
        TypeError: the values are no integers, and no bools.
        ValueError: one is negative, or the weights have another shape.
    """
    if x.dtype.kind == "b":
        x = astype(x, np.int32)
    if minlength < 0:
        raise ValueError(f"minlength is 0 or more; got {minlength}")
    given = None if weights is None else asarray_weak(weights, [], x.runtime)
    return segments.bincount(x, given, minlength)


def digitize(x: Array, bins: Any, right: bool = False) -> Array:
    """Returns the number of the bin of each value: how many of ascending edges are not greater.

    Args:
        bins: edges in ascending or descending order.
        right: True if a bin includes its right edge, not its left one.

    Raises:
        ValueError: the edges are in no order.
    """
    edges = asarray_weak(bins, [x], x.runtime)
    _require_real("digitize", x, edges)
    if _ascends(edges.numpy()):
        return search.searchsorted(edges, x, "left" if right else "right")
    return apply("subtract", np.int32(edges.size), search.searchsorted(flip(edges), x, "left" if right else "right"))


def _ascends(edges: np.ndarray[Any, Any]) -> bool:
    """Returns True for ascending edges, False for descending ones. NaN is greater than numbers, as in NumPy's sorts.

    Raises:
        ValueError: the edges are in no order.
    """
    nans = np.isnan(edges)
    n, numbers = np.count_nonzero(nans), edges[~nans]
    is_last = not n or edges.size == 1 or (numbers.size > 1 and nans[-n:].all())
    if edges.ndim == 1 and (numbers[1:] >= numbers[:-1]).all() and is_last:
        return True
    if edges.ndim == 1 and (numbers[1:] <= numbers[:-1]).all() and nans[:n].all():
        return False
    raise ValueError(
        "bins are edges along one axis, in ascending or descending order, with NaN behind or before numbers; got "
        f"{np.array2string(edges, threshold=8)}"
    )


def histogram_bin_edges(a: Array, bins: Any = 10, range: Any = None, weights: Any = None) -> Array:
    """Returns the edges of a histogram's bins; waits for the least and the largest value if there is no range.

    Args:
        bins: a number of equal bins, their edges, or the name of a rule of NumPy, which waits for statistics: auto,
            doane, fd, rice, scott, sqrt, stone or sturges.
        range: the first and the last edge; by default the least and the largest value.
        weights: none may be given with a rule.
    """
    if isinstance(bins, str) and weights is not None:
        raise TypeError(f"the rule {bins!r} counts values without weights; pass the number of bins")
    if weights is not None and np.shape(weights) != a.shape:
        raise ValueError(f"weights have the shape of the values, {a.shape}; got {np.shape(weights)}")
    return _edges(ravel(a), bins, range)


def _edges(x: Array, bins: Any, limits: Any) -> Array:
    """Returns the edges of bins.

    Raises:
        ValueError: the number is not positive, there is no such rule, the edges do not ascend, or the range is not
            finite.
    """
    if isinstance(bins, str):
        bins = _number_by_rule(x, bins, limits)
    if np.ndim(bins):
        edges = asarray_weak(bins, [x], x.runtime)
        host = edges.numpy()
        if host.ndim != 1 or not (host[1:] >= host[:-1]).all():
            raise ValueError("edges of bins ascend, along one axis")
        return edges
    n = index(bins)
    if n < 1:
        raise ValueError(f"a histogram has at least one bin; got {bins}")
    dtype = floating(x.dtype)
    low: Any
    high: Any
    if limits is None and x.size:
        low, high = (extreme.numpy()[()] for extreme in (reductions.min(x), reductions.max(x)))
    else:
        low, high = map(float, (0.0, 1.0) if limits is None else limits)
    if not (np.isfinite(low) and np.isfinite(high)) or low > high:
        raise ValueError(f"the range of a histogram is finite, and ascends; got {low} to {high}; pass range=")
    if low == high:
        low, high = low - 0.5, high + 0.5
    if float(high) - float(low) > float(finfo(dtype).max):
        low, high = float(low), float(high)
    host = np.linspace(low, high, n + 1, dtype=dtype)  # in the dtype of the limits, as in NumPy, unless that overflows
    if (host[1:] <= host[:-1]).any():
        raise ValueError(f"{n} bins from {low} to {high} have edges that {dtype} does not distinguish; pass fewer")
    return asarray(host, device=x.runtime)


def _number_by_rule(x: Array, rule: str, limits: Any) -> int:
    """Returns the number of bins by the name of a rule, for the values within limits."""
    ends = _edges(x, 1, limits)
    first, last = ends.tolist()
    if limits is not None:
        inside = apply("logical_and", apply("greater_equal", x, first), apply("less_equal", x, last))
        x = masked(x, inside)
    if not x.size:
        return 1
    width = width_of_bins(rule, x, lambda n: histogram(x, n, (first, last))[0].numpy())
    return math.ceil((last - first) / width) if width else 1


@kernel
def _find_equal(values: Any, edges: Any, out: Any, n_items: int, n: int) -> None:
    """Computes the bin of each value among n of about equal width; rounded edges correct it by a step."""
    i = global_id(0)
    if i < n_items:
        value, first, last = values[i], edges[0], edges[n]
        result = n
        if first <= value and value <= last:
            start = first / 2  # differences of halves do not overflow
            at = min(int((value / 2 - start) / (last / 2 - start) * n), n - 1)
            for _ in range(2):
                if value < edges[at]:
                    at -= 1
                elif at < n - 1 and value >= edges[at + 1]:
                    at += 1
            result = at
        out[i] = result


def _bins(x: Array, edges: Array, *, equal: bool) -> Array:
    """Returns the bin of each value; the number of the bins for values outside. The last bin has both edges.

    Args:
        equal: True if the bins have the same width, but for rounding.
    """
    n = edges.size - 1
    values = x if x.dtype == edges.dtype else astype(x, promoted(x.runtime, x.dtype, edges.dtype))
    if equal and n <= _MOST_EQUAL and values.dtype == edges.dtype and edges.dtype.itemsize > 2:
        indices = temporary(x.runtime, x.shape, np.int32)
        _find_bins(flat(values), edges, indices.reshape(-1))
        return indices
    at = apply("subtract", astype(search.searchsorted(edges, values, "right"), np.int32), np.int32(1))
    first, last = edges[:1], edges[-1:]
    at = where(apply("equal", values, last), np.int32(n - 1), at)
    inside = apply("logical_and", apply("greater_equal", values, first), apply("less_equal", values, last))
    return where(inside, at, np.int32(n))


def _find_bins(values: Array, edges: Array, out: Array) -> None:
    if exceeds_bindings(values, edges, out):
        for half in halves(out.size):
            _find_bins(values[half], edges, out[half])
    else:
        launch(_find_equal, out.size, values, edges, out, out.size, edges.size - 1)


def _counted(at: Array, n: int, weights: Any) -> Array:
    """Returns how many values are in each of n bins, or the sum of their weights."""
    given = None if weights is None else ravel(asarray_weak(weights, [], at.runtime))
    if given is None or given.dtype.kind != "c":
        return segments.totals(at, given, n + 1)[:n]
    counts = empty_result(at.runtime, n, given.dtype)
    for target, part in ((counts.real, given.real), (counts.imag, given.imag)):
        assign(target, segments.totals(at, part, n + 1)[:n])
    return counts


def _require_real(name: str, *given: Array) -> None:
    """Raises TypeError for complex numbers, which have no order; NumPy's bins of these ignore the imaginary parts."""
    for array in given:
        if array.dtype.kind == "c":
            raise TypeError(f"{name} takes real numbers and edges; got {array.dtype}; pass their .real")


def histogram(a: Array, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None) -> Any:
    """Returns the counts of values between edges, and the edges.

    Args:
        bins, range: as of `histogram_bin_edges`.
        density: True for densities, whose integral is 1.
        weights: of the values, which are summed.

    Raises:
        TypeError: values or edges are complex numbers.
        ValueError: as `histogram_bin_edges`.
    """
    _require_real("histogram", a)
    x, edges = ravel(a), histogram_bin_edges(a, bins, range, weights)
    _require_real("histogram", edges)
    counts = _counted(_bins(x, edges, equal=np.ndim(bins) == 0), edges.size - 1, weights)
    if weights is not None and dtype_of(weights).kind in "iu":
        counts = astype(counts, weights.dtype if hasattr(weights, "dtype") else default_int(x.runtime))
    if density:
        widths = apply("subtract", edges[1:], edges[:-1])
        counts = _density(counts, apply("multiply", astype(widths, floating(edges.dtype)), 1.0))
    return counts, edges


def _density(counts: Array, volume: Array) -> Array:
    dtype = counts.dtype if counts.dtype.kind in "fc" else default_float()
    counts = astype(counts, dtype)
    return apply("divide", apply("divide", counts, reductions.sum(counts)), astype(volume, dtype))


def histogramdd(
    sample: Array | Sequence[Array], bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> Any:
    """Returns the counts of points between edges along each coordinate, and a list of the edges.

    Args:
        sample: a row per point, a vector of one coordinate, or an array per coordinate.
        bins: a number for all coordinates, or a number or edges for each.
        range: the first and the last edge of each coordinate, or None for its least and largest value.

    Raises:
        TypeError: coordinates, edges or weights are complex numbers.
        ValueError: as `histogram_bin_edges`; or their numbers differ from that of the coordinates.
    """
    if isinstance(sample, (list, tuple)) and not any(type(column) is Array for column in sample):
        sample = [asarray(column) for column in sample]
    if type(sample) is Array and sample.ndim > 2:
        raise ValueError(f"histogramdd takes a row per point; got the shape {sample.shape}")
    points = sample.reshape(-1, 1) if type(sample) is Array and sample.ndim < 2 else sample
    columns = [points[:, k] for k in _range(points.shape[1])] if type(points) is Array else list(points)
    each_bins = list(bins) if isinstance(bins, (list, tuple)) or np.ndim(bins) else [bins] * len(columns)
    limits = [None] * len(columns) if range is None else list(range)
    if not len(each_bins) == len(limits) == len(columns):
        raise ValueError(f"bins and ranges are one per coordinate, of which there are {len(columns)}")
    columns = [ravel(column) for column in columns]
    _require_real("histogramdd", *columns)
    edges = [_edges(*args) for args in zip(columns, each_bins, limits, strict=True)]
    _require_real("histogramdd", *edges)
    if weights is not None and dtype_of(weights).kind == "c":
        raise TypeError("histogramdd takes real weights; got complex ones; pass their .real and their .imag")
    shape = tuple([edge.size - 1 for edge in edges])
    at, n = _combined(columns, edges, [np.ndim(given) == 0 for given in each_bins])
    counts = _counted(at, n, weights).reshape(shape)
    counts = counts if counts.dtype.kind == "f" else astype(counts, default_float())  # as NumPy, of several coordinates
    if density:
        volume: Any = 1.0
        for axis, edge in enumerate(edges):
            widths = apply("subtract", edge[1:], edge[:-1]).reshape(
                tuple([-1 if k == axis else 1 for k in _range(len(shape))])
            )
            volume = apply("multiply", widths, volume)
        counts = _density(counts, volume)
    return counts, edges


_range = range


def _combined(columns: Sequence[Array], edges: Sequence[Array], equal: Sequence[bool]) -> tuple[Array, int]:
    """Returns the bin of each point among all, and their number, which stands for points outside."""
    total = int(np.prod([edge.size - 1 for edge in edges]))
    at: Any = np.int32(0)
    outside: Any = np.bool_(False)
    for x, edge, is_equal in zip(columns, edges, equal, strict=True):
        n = edge.size - 1
        here = _bins(x, edge, equal=is_equal)
        outside = apply("logical_or", outside, apply("equal", here, np.int32(n)))
        at = apply(
            "add", apply("multiply", here, 0) if type(at) is not Array else apply("multiply", at, np.int32(n)), here
        )
    return where(outside, np.int32(total), at), total


def histogram2d(
    x: Array, y: Array, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> Any:
    """Returns the counts of points between edges along two coordinates, and both edges.

    Raises:
        ValueError: the coordinates are not vectors of one length.
    """
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"histogram2d takes vectors of one length; got the shapes {x.shape} and {y.shape}")
    if (isinstance(bins, (list, tuple)) or np.ndim(bins) == 1) and len(bins) not in (1, 2):
        bins = [bins, bins]
    counts, edges = histogramdd([x, y], bins, range, density, weights)
    return counts, edges[0], edges[1]
