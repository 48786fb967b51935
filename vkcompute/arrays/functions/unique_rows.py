"""Distinct rows of a matrix."""

from __future__ import annotations

import numpy as np

from vkcompute.arrays.algorithms import gather, scans, scatter, selection, sorting
from vkcompute.arrays.expressions.promotion import BOOL, default_int
from vkcompute.arrays.expressions.ufunc import apply, astype
from vkcompute.arrays.functions import reductions
from vkcompute.arrays.functions.manipulation import concat
from vkcompute.runtime.memory.array import Array, empty_result
from vkcompute.runtime.runtime import runtime_of


def unique_rows(x: Array) -> sorting.Unique:
    """Returns the distinct rows in the order of their elements, the first of which counts most; waits for their number.

    NaN differs from NaN, as in NumPy's `unique` along an axis.
    """
    runtime, (n, width), dtype = runtime_of(x), x.shape, default_int(x.runtime)
    if not n:
        return sorting.Unique(x, *[runtime.zeros(0, dtype) for _ in range(3)])
    keys = [x[:, k] for k in reversed(range(width))]
    order = sorting.lexsort(keys) if keys else runtime.array(np.arange(n, dtype=dtype))
    ordered = gather.take(x, order, 0)
    differs = reductions.any(apply("not_equal", ordered[1:], ordered[:-1]), 1)
    marks = concat([runtime.full(1, True, BOOL), differs])
    (starts,) = selection.nonzero(marks)
    inverse = empty_result(runtime, (n,), dtype)
    scatter.put(inverse, order, apply("subtract", scans.cumulative(astype(marks, dtype), "sum", 0), 1))
    ends = concat([starts[1:], runtime.array(np.full(1, n, dtype))])
    return sorting.Unique(
        gather.take(ordered, starts, 0), gather.take(order, starts), inverse, apply("subtract", ends, starts)
    )
