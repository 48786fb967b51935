"""Sets: the distinct elements of arrays, in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.arrays import gather, search, selection, sorting
from vkcompute.arrays.creation import beside
from vkcompute.arrays.manipulation import concat, ravel
from vkcompute.arrays.promotion import BOOL
from vkcompute.arrays.ufunc import apply, astype
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of


def isin(
    element: Array, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: str | None = None
) -> Array:
    """Returns True for each element that is among others.

    Args:
        invert: True to return the opposite.
        assume_unique, kind: have no effect.
    """
    others = ravel(beside(test_elements, [element], element.runtime))
    dtype = np.promote_types(element.dtype, others.dtype)
    wanted = astype(element, dtype)
    if not others.size or not element.size:
        return runtime_of(element).full(element.shape, np.bool_(invert), BOOL)
    ordered = sorting.sort(astype(others, dtype))
    at = search.searchsorted(ordered, wanted)
    at = apply("minimum", at, others.size - 1)
    return apply("not_equal" if invert else "equal", gather.take(ordered, at), wanted)


def in1d(ar1: Array, ar2: Any, assume_unique: bool = False, invert: bool = False) -> Array:
    """Returns True for each element of the flattened array that is among others."""
    return isin(ravel(ar1), ar2, invert=invert)


def union1d(ar1: Array, ar2: Array) -> Array:
    """Returns the distinct elements of both arrays, in order."""
    return sorting.unique(concat([ar1, ar2], None)).values


def intersect1d(ar1: Array, ar2: Array, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """Returns the distinct elements that both arrays have, in order.

    Args:
        return_indices: True to return the first indices of these in both flattened arrays, too.
    """
    one, other = sorting.unique(ar1), sorting.unique(ar2)
    is_common = isin(one.values, other.values)
    dtype = np.promote_types(ar1.dtype, ar2.dtype)
    found = astype(selection.masked(one.values, is_common), dtype)
    if not return_indices:
        return found
    places = search.searchsorted(astype(other.values, dtype), found)
    return found, selection.masked(one.indices, is_common), gather.take(other.indices, places)


def setdiff1d(ar1: Array, ar2: Array, assume_unique: bool = False) -> Array:
    """Returns the distinct elements of the first array that the second lacks, in order.

    Args:
        assume_unique: True to keep the elements of the first array as they are.
    """
    mine = ravel(ar1) if assume_unique else sorting.unique(ar1).values
    return selection.masked(mine, isin(mine, ar2, invert=True))


def setxor1d(ar1: Array, ar2: Array, assume_unique: bool = False) -> Array:
    """Returns the distinct elements that one of the arrays has, and the other lacks, in order."""
    one, other = sorting.unique(ar1).values, sorting.unique(ar2).values
    parts = [selection.masked(a, isin(a, b, invert=True)) for a, b in ((one, other), (other, one))]
    return sorting.sort(concat(parts))
