"""Sets: the distinct elements of arrays, or rows of a matrix, in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.arrays.algorithms import direct_tables, gather, scans, scatter, search, selection, sorting
from vkcompute.arrays.expressions.promotion import BOOL, Operand, default_int
from vkcompute.arrays.expressions.ufunc import apply, astype, holds
from vkcompute.arrays.functions import reductions
from vkcompute.arrays.functions.creation import asarray, asarray_weak
from vkcompute.arrays.functions.manipulation import concat, ravel, reshape
from vkcompute.dtypes import promote
from vkcompute.runtime.memory.array import Array, empty_result
from vkcompute.runtime.runtime import constant, runtime_of
from vkcompute.runtime.scheduling.current import is_recording


def isin(
    element: Operand, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: str | None = None
) -> Array:
    """Returns True for each element that is among others; a Python int adapts to their dtype, as an operand does.

    It waits for the least and the greatest of many integers: a table with a slot for each number between takes less
    time than sorting them.

    Args:
        invert: True to return the opposite.
        assume_unique, kind: have no effect.
    """
    if kind not in (None, "sort", "table"):
        raise ValueError(f"isin has the kinds None, 'sort' and 'table'; got {kind!r}")
    if type(element) is not Array:
        element = _adapted(element, test_elements)
    others = ravel(_adapted(_within(test_elements, element.dtype), element))
    dtype = promote(element.dtype, others.dtype)
    if dtype.kind == "f" and {element.dtype.kind, others.dtype.kind} == {"i", "u"}:  # floats would be rounded
        return _among_integers(element, others, invert=invert)
    wanted = astype(element, dtype)
    if not others.size or not element.size:
        return runtime_of(element).full(element.shape, np.bool_(invert), BOOL)
    others = astype(others, dtype)
    if not is_recording() and (table := direct_tables.direct_table(others, others.size)):
        rows = table.least_equal_rows(ravel(wanted))
        return reshape(apply("less" if invert else "greater_equal", rows, 0), element.shape)
    if dtype.kind == "c":
        others, wanted = sorting.ranks(others, wanted, equal_nan=False)
    return search.contain(sorting.sort(others), wanted, opposite=invert)


def _among_integers(element: Array, others: Array, *, invert: bool) -> Array:
    """Returns what `isin` does, of int64 beside uint64: no negative integer is an unsigned one."""
    is_signed = element.dtype.kind == "i"
    others = others if is_signed else selection.masked(others, apply("greater_equal", others, 0))
    result = isin(astype(element, np.uint64), astype(others, np.uint64))
    result = apply("logical_and", result, apply("greater_equal", element, 0)) if is_signed else result
    return apply("logical_not", result) if invert else result


def _within(data: Any, dtype: np.dtype[Any]) -> Any:
    """Returns integers of the host in this dtype of integers, without those that it does not hold; else the data."""
    if isinstance(data, Array) or dtype.kind not in "iu" or (host := np.asarray(data)).dtype.kind not in "iu":
        return data
    limits = np.iinfo(dtype)
    return host[(host >= limits.min) & (host <= limits.max)].astype(dtype)


def _adapted(data: Any, other: Array) -> Array:
    """Returns data beside an array: a Python int in its dtype, if it is one of integers that hold it."""
    if type(data) is int and other.dtype.kind in "iu" and holds(other.dtype, data):
        return asarray(data, other.dtype, device=other.runtime)
    return asarray_weak(data, [other], other.runtime)


def in1d(ar1: Array, ar2: Any, assume_unique: bool = False, invert: bool = False) -> Array:
    """Returns True for each element of the flattened array that is among others."""
    return isin(ravel(ar1), ar2, invert=invert)


def union1d(ar1: Array, ar2: Array) -> Array:
    """Returns the distinct elements of both arrays, in order."""
    exact = promote(ar1.dtype, ar2.dtype)
    return sorting.distinct(concat([ar1, ar2], None, dtype=exact))


def intersect1d(ar1: Array, ar2: Array, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """Returns the distinct elements that both arrays have, in order.

    Args:
        return_indices: True to return the first indices of these in both flattened arrays, too.
    """
    one, other = sorting.unique(ar1), sorting.unique(ar2)
    is_common = isin(one.values, other.values)
    dtype = promote(ar1.dtype, ar2.dtype)
    shared = astype(selection.masked(one.values, is_common), dtype)
    if not return_indices:
        return shared
    ordered, wanted = astype(other.values, dtype), shared
    if dtype.kind == "c":
        ordered, wanted = sorting.ranks(ordered, wanted)
    indices = search.searchsorted(ordered, wanted)
    return shared, selection.masked(one.indices, is_common), gather.take(other.indices, indices)


def setdiff1d(ar1: Array, ar2: Array, assume_unique: bool = False) -> Array:
    """Returns the distinct elements of the first array that the second lacks, in order.

    Args:
        assume_unique: True to keep the elements of the first array as they are.
    """
    mine = ravel(ar1) if assume_unique else sorting.distinct(ar1)
    return selection.masked(mine, isin(mine, ar2, invert=True))


def setxor1d(ar1: Array, ar2: Array, assume_unique: bool = False) -> Array:
    """Returns the distinct elements that one of the arrays has, and the other lacks, in order."""
    one, other = sorting.distinct(ar1), sorting.distinct(ar2)
    parts = [selection.masked(a, isin(a, b, invert=True)) for a, b in ((one, other), (other, one))]
    return sorting.sort(concat(parts))


def unique_rows(x: Array) -> sorting.Unique:
    """Returns the distinct rows in the order of their elements, the first of which counts most; waits for their number.

    NaN differs from NaN, as in NumPy's `unique` along an axis.
    """
    runtime, (n, width), dtype = runtime_of(x), x.shape, default_int(x.runtime)
    if not n:
        return sorting.Unique(x, *[runtime.zeros(0, dtype) for _ in range(3)])
    keys = [x[:, k] for k in reversed(range(width))]
    order = sorting.lexsort(keys) if keys else constant(runtime, np.arange(n, dtype=dtype))
    ordered = gather.take(x, order, 0)
    differs = reductions.any(apply("not_equal", ordered[1:], ordered[:-1]), 1)
    marks = concat([runtime.full(1, True, BOOL), differs])
    (starts,) = selection.nonzero(marks)
    inverse = empty_result(runtime, (n,), dtype)
    scatter.put(inverse, order, apply("subtract", scans.cumulative(astype(marks, dtype), "sum", 0), 1))
    ends = concat([starts[1:], constant(runtime, np.full(1, n, dtype))])
    return sorting.Unique(
        gather.take(ordered, starts, 0), gather.take(order, starts), inverse, apply("subtract", ends, starts)
    )
