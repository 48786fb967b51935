"""The functions of the Array API standard, and NumPy's of the same kind, that algorithms on the device compute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms import gather, grouping, partitions, scans, search, selection, sorting
from vkcompute.arrays.algorithms.lines import axis_of
from vkcompute.arrays.expressions.promotion import Operand, common, complex_of, default_int, floating, kind_of
from vkcompute.arrays.expressions.ufunc import apply, assign, astype, dtype_with_out, joined, part, written
from vkcompute.arrays.expressions.ufunc import where as chosen
from vkcompute.arrays.functions.creation import asarray, asarray_weak
from vkcompute.arrays.functions.manipulation import concat, moveaxis, ravel, reshape, stack
from vkcompute.arrays.functions.sets import unique_rows
from vkcompute.dtypes import as_dtype
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array


class UniqueCounts(NamedTuple):
    """The distinct elements in order, and how often each occurs."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The distinct elements in order, and the number of each element among them."""

    values: Array
    inverse_indices: Array


class UniqueAll(NamedTuple):
    """The distinct elements in order, the index of the first of each, the number of each element, and the counts."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


def _cumulative(
    name: str, operation: str, x: Array, axis: int | None, dtype: npt.DTypeLike | None, out: Array | None,
    include_initial: bool,
) -> Array:  # fmt: skip
    if axis is None:
        if x.ndim > 1:
            raise ValueError(f"{name} of an array of {x.ndim} axes needs axis=; got None")
        x, axis = ravel(x), 0
    dtype = dtype_with_out(x.runtime, dtype, out, x.dtype)
    return written(scanned(x, operation, axis_of(name, x.ndim, axis), dtype, bool(include_initial)), out)


def scanned(x: Array, operation: str, axis: int, dtype: npt.DTypeLike | None, include_initial: bool = False) -> Array:
    """Returns the inclusive scan; of complex numbers that of their parts, or products in steps of doubled length."""
    result_dtype = x.dtype if dtype is None else as_dtype(dtype)
    if result_dtype.kind != "c":
        if x.dtype.kind == "c":
            astype(x, result_dtype)  # its error has the remedy
        return scans.cumulative(x, operation, axis, dtype, include_initial=include_initial)
    x = astype(x, result_dtype) if x.dtype != result_dtype else x
    if operation == "sum":
        parts = [
            scans.cumulative(part(name, x), operation, axis, include_initial=include_initial)
            for name in ("real", "imag")
        ]
        return joined(*parts)
    whole, step, x = (slice(None),) * axis, 1, x.copy()
    while step < x.shape[axis]:
        longer, later, earlier = x.copy(), (*whole, slice(step, None)), (*whole, slice(None, -step))
        assign(longer[later], apply("multiply", x[later], x[earlier]), fresh=True)
        x, step = longer, 2 * step
    if include_initial:
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        x = concat([temporary(x.runtime, shape, x.dtype).fill(x.dtype.type(1)), x], axis=axis)
    return x


def cumulative_sum(
    x: Array, /, *, axis: int | None = None, dtype: npt.DTypeLike | None = None, out: Array | None = None,
    include_initial: bool = False,
) -> Array:  # fmt: skip
    """Returns the sums of the elements up to each along an axis, which an array of one axis need not name.

    Args:
        include_initial: True to begin with 0.
    """
    return _cumulative("cumulative_sum", "sum", x, axis, dtype, out, include_initial)


def cumulative_prod(
    x: Array, /, *, axis: int | None = None, dtype: npt.DTypeLike | None = None, out: Array | None = None,
    include_initial: bool = False,
) -> Array:  # fmt: skip
    """Returns the products of the elements up to each along an axis, which an array of one axis need not name.

    Args:
        include_initial: True to begin with 1.
    """
    return _cumulative("cumulative_prod", "prod", x, axis, dtype, out, include_initial)


def _flat_or_along(
    name: str, operation: str, x: Array, axis: int | None, dtype: npt.DTypeLike | None, out: Array | None
) -> Array:
    x, axis = (ravel(x), 0) if axis is None else (x if x.ndim else ravel(x), axis)
    scan = scanned(x, operation, axis_of(name, x.ndim, axis), dtype_with_out(x.runtime, dtype, out, x.dtype))
    return written(scan, out)


def cumsum(a: Array, axis: int | None = None, dtype: npt.DTypeLike | None = None, out: Array | None = None) -> Array:
    """Returns the sums of the elements up to each along an axis, or of the flattened array."""
    return _flat_or_along("cumsum", "sum", a, axis, dtype, out)


def cumprod(a: Array, axis: int | None = None, dtype: npt.DTypeLike | None = None, out: Array | None = None) -> Array:
    """Returns the products of the elements up to each along an axis, or of the flattened array."""
    return _flat_or_along("cumprod", "prod", a, axis, dtype, out)


def sort(
    a: Array, axis: int | None = -1, kind: str | None = None, *, descending: bool = False, stable: bool = True
) -> Array:
    """Returns the elements in order along an axis, or of the flattened array for None; NaN last. Always stable."""
    _check_kind(kind)
    return sorting.sort(a, axis, descending=descending)


def argsort(
    a: Array, axis: int | None = -1, kind: str | None = None, *, descending: bool = False, stable: bool = True
) -> Array:
    """Returns the indices of the elements in order along an axis, or of the flattened array; NaN last; stable."""
    _check_kind(kind)
    if axis is None or (a.ndim == 0 and axis in (0, -1)):  # of one number, NumPy's result has an axis
        a, axis = ravel(a), 0
    return sorting.argsort(a, axis, descending=descending)


def _check_kind(kind: str | None) -> None:
    """Raises ValueError if NumPy has no such kind of sort; all of them are stable here."""
    if kind is not None and (not isinstance(kind, str) or kind[:1].lower() not in _SORTS):
        raise ValueError(f"the kind of a sort is one of {', '.join(_SORTS.values())}; got {kind!r}")


_SORTS = {"q": "quicksort", "h": "heapsort", "m": "mergesort", "s": "stable"}
"""Kinds by their first letter. NumPy ignores the rest."""


def partition(a: Array, kth: Any, axis: int | None = -1, kind: str = "introselect") -> Array:
    """Returns a copy with the k-th element along an axis in its place, after smaller ones and before greater ones.

    With several ranks, the elements are sorted. `kind` has no effect.
    """
    return partitions.partition(a, _ranks(a, kth, axis, kind), axis)


def _ranks(x: Array, kth: Any, axis: int | None, kind: str) -> list[int]:
    """Returns distinct ranks of a partition, not negative.

    Raises:
        ValueError: a rank is not one of the axis, or the kind of partition is not NumPy's.
    """
    if kind != "introselect":
        raise ValueError(f"the kind of a partition is 'introselect'; got {kind!r}")
    n = x.size if axis is None else x.shape[axis_of("partition", x.ndim, axis)]
    indices = np.asarray(kth.numpy() if type(kth) is Array else kth)
    if indices.dtype.kind not in "iu" or indices.ndim > 1:
        raise TypeError(f"partition: kth is an integer, or several; got {kth!r}; pass int(kth)")
    for k in indices.reshape(-1).tolist():
        if not -n <= k < n:
            raise ValueError(f"kth is {-n} to {n - 1} for {n} elements; got {k}; pass an index of the axis")
    return sorted({k % n for k in indices.reshape(-1).tolist()})


def argpartition(a: Array, kth: Any, axis: int | None = -1, kind: str = "introselect") -> Array:
    """Returns the indices of the elements of `partition`."""
    return partitions.argpartition(a, _ranks(a, kth, axis, kind), axis)


def lexsort(keys: Sequence[Array], axis: int = -1) -> Array:
    """Returns the indices that sort by several keys; the last key is the first criterion.

    Args:
        keys: arrays of one shape, or one array with a key per row.
    """
    return sorting.lexsort([keys[k] for k in range(len(keys))], axis)


def topk(x: Array, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Array, Array]:
    """Returns the k largest or smallest elements along an axis in order, and their indices; of equal ones the first."""
    return sorting.topk(x, k, axis, largest=largest)


def unique_all(x: Array) -> UniqueAll:
    """Returns the distinct elements, their first indices, the inverse and the counts; each NaN is distinct."""
    return UniqueAll(*sorting.unique(x, equal_nan=False))


def unique_counts(x: Array) -> UniqueCounts:
    """Returns the distinct elements and their counts; each NaN is distinct."""
    distinct = sorting.unique(x, equal_nan=False)
    return UniqueCounts(distinct.values, distinct.counts)


def unique_inverse(x: Array) -> UniqueInverse:
    """Returns the distinct elements and the number of each element among them; each NaN is distinct."""
    distinct = sorting.unique(x, equal_nan=False)
    return UniqueInverse(distinct.values, distinct.inverse)


def unique_values(x: Array) -> Array:
    """Returns the distinct elements in order; each NaN is distinct."""
    return sorting.distinct(x, equal_nan=False)


def unique(
    ar: Array,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Array | tuple[Array, ...]:
    """Returns the distinct elements in order, and what else is asked for, as NumPy does.

    Args:
        axis: an axis, whose slices are compared; by default the elements are.
        equal_nan: True to count all NaN as one; False to count each on its own.
        sorted: False allows any order. Elements of 64 bits or more, without indices and counts, are not sorted then.
    """
    axis = None if ar.ndim == 1 and axis in (0, -1) else axis  # NumPy, too, compares the elements
    if axis is None and not (return_index or return_inverse or return_counts):
        is_hashed = not sorted and ar.size and ar.dtype.itemsize >= 8 and (equal_nan or ar.dtype.kind in "iu")
        return _unordered(ravel(ar)) if is_hashed else sorting.distinct(ar, equal_nan=equal_nan)
    if axis is None:
        distinct = sorting.unique(ar, equal_nan=equal_nan)
    else:
        at = axis_of("unique", ar.ndim, axis)
        moved = moveaxis(ar, at, 0)
        distinct = unique_rows(reshape(moved, (moved.shape[0], math.prod(moved.shape[1:]))))
        distinct = distinct._replace(
            values=moveaxis(reshape(distinct.values, (distinct.values.shape[0], *moved.shape[1:])), 0, at)
        )
    asked = [(return_index, distinct.indices), (return_inverse, distinct.inverse), (return_counts, distinct.counts)]
    more = [array for is_asked, array in asked if is_asked]
    return (distinct.values, *more) if more else distinct.values


def _unordered(x: Array) -> Array:
    """Returns the distinct elements in the order of the first of each, by a hash table if there are few.

    1M int64 of 100 take 57 ms of CPU time on lavapipe, and 144 by sorting; int32 take 47 and 51.
    """
    return gather.take(x, grouping.first_rows([x], grows=False))


def nonzero(a: Array) -> tuple[Array, ...]:
    """Returns the indices of the elements that are not zero, one array per axis; waits for their number."""
    if not a.ndim:
        raise ValueError("nonzero takes an array of one axis or more; got a number; use .reshape(1)")
    return selection.nonzero(astype(a, np.bool_) if a.dtype.kind == "c" else a)


def where(condition: Operand, x: Operand = None, y: Operand = None) -> Any:
    """Returns elements of `x` where `condition` is true, else of `y`; the indices of true elements without `x` and `y`.

    Raises:
        ValueError: one of `x` and `y` is missing.
        as `apply`.
    """
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise ValueError("where takes a condition, or a condition and both x and y; got one of x and y")
    return chosen(condition, x, y)


def argwhere(a: Array) -> Array:
    """Returns the indices of the elements that are not zero, one row each; waits for their number."""
    if not a.ndim:
        return argwhere(a.reshape(1))[:, :0]
    return stack(nonzero(a), axis=1)


def sort_complex(a: Array) -> Array:
    """Returns the elements as complex numbers, sorted along the last axis by real parts, then by imaginary ones."""
    return sorting.sort(astype(a, complex_of(floating(a.dtype))), -1)


def searchsorted(a: Array, v: Any, side: str = "left", sorter: Array | None = None) -> Array:
    """Returns the indices at which the elements of `v` are inserted into the sorted `a`."""
    fits = type(v) is int and a.dtype.kind in "iu" and np.iinfo(a.dtype).min <= v <= np.iinfo(a.dtype).max
    values = asarray(v, a.dtype, device=a.runtime) if fits else asarray_weak(v, [a], a.runtime)
    if "c" not in (a.dtype.kind, values.dtype.kind) or a.ndim != 1:
        return search.searchsorted(a, values, side, sorter)
    ordered, values = sorting.ranks(a if sorter is None else gather.take(a, sorter), values)
    return search.searchsorted(ordered, values, side)


def take(a: Array, indices: Any, axis: int | None = None, out: Array | None = None, mode: str = "raise") -> Array:
    """Returns the elements at indices along an axis; an array of one axis need not name it.

    Args:
        mode: what becomes of an index that is out of range: "raise" an error, "wrap" around, or "clip" to the range.
    """
    a = a if a.ndim else a.reshape(1)
    elements = gather.take(a, _indices(a, indices), axis, mode)
    return written(elements, out)


def take_along_axis(arr: Array, indices: Array, axis: int | None = -1) -> Array:
    """Returns the elements at indices along an axis, one index per line; of the flattened array for None."""
    if axis is None:
        return gather.take_along_axis(ravel(arr), indices, 0)
    return gather.take_along_axis(arr, indices, axis)


def _indices(x: Array, indices: Any) -> Array:
    if type(indices) is Array:
        return indices
    if np.asarray(indices).dtype.kind == "c":
        raise TypeError(f"indices and counts are integers; got {indices!r}")
    array: Array = x.runtime.array(np.asarray(indices, default_int(x.runtime)))  # type: ignore[attr-defined]
    return array


def repeat(a: Array, repeats: Any, axis: int | None = None) -> Array:
    """Returns each element repeated along an axis, or of the flattened array."""
    if getattr(repeats, "dtype", None) == np.uint64:
        raise TypeError("repeat: counts are integers that int64 holds; got uint64; convert with .astype('int64')")
    return selection.repeat(a, repeats if isinstance(repeats, int) else _indices(a, repeats), axis)


def _edge(value: Any, x: Array, axis: int) -> Array:
    """Returns what is joined to an array along an axis; a number is repeated along the other axes."""
    edge = asarray_weak(value, [x], x.runtime)
    return edge if edge.ndim else edge.broadcast_to((*x.shape[:axis], 1, *x.shape[axis + 1 :]))


def diff(a: Array, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Array:
    """Returns the n-th differences of neighbours along an axis; of bools, whether they differ.

    Args:
        prepend, append: arrays, or numbers, that are joined to `a` first.

    Raises:
        ValueError: `n` is negative.
    """
    if n < 0:
        raise ValueError(f"the order of a difference is 0 or more; got {n}")
    at = axis_of("diff", a.ndim, axis)
    if not n:
        return a
    parts = [x if x is a else _edge(x, a, at) for x in (prepend, a, append) if x is not None]
    if len(parts) > 1:
        dtype = common(a.runtime, [kind_of(part) for part in parts])
        a = concat(parts, axis=at, dtype=dtype)
    for _ in range(min(n, a.shape[at])):
        whole = (slice(None),) * at
        later, earlier = a[whole + (slice(1, None),)], a[whole + (slice(None, -1),)]  # noqa: RUF005
        a = apply("not_equal" if a.dtype == np.bool_ else "subtract", later, earlier)
    return a
