"""Sums and extremes of values with the same index: scatter-add, bincount.

Integers of 32 bits are added by atomic operations. On a CPU, values of few indices are summed in tables, one
per part. Other values are sorted by their indices, and runs of equal indices are combined in parts. A part completes
the runs that begin and end in it; those at its ends are combined with those of other parts, in the same way. So the
result is the same in each run, with the rounding error of blocked sums.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from vkcompute.arrays.algorithms.axis_reductions import reduce as reduce_axes
from vkcompute.arrays.algorithms.binding_limits import bytes_exceed_bindings, exceeds_bindings
from vkcompute.arrays.algorithms.gather import gather_elements
from vkcompute.arrays.algorithms.lines import (
    LOCAL_SIZE,
    Lines,
    converted,
    copy_into,
    flat,
    iota,
    launch,
    part_length,
)
from vkcompute.arrays.algorithms.radix import sort_rows
from vkcompute.arrays.algorithms.scans import OPERATIONS
from vkcompute.arrays.algorithms.scatter import store_by_parts
from vkcompute.arrays.algorithms.sort_keys import Word
from vkcompute.arrays.expressions.call_plan import planned
from vkcompute.arrays.expressions.promotion import default_int
from vkcompute.dtypes import computes_float64
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.elementwise.reduction import reduce
from vkcompute.jit.kernel import PythonKernel, kernel
from vkcompute.jit.library import atomic
from vkcompute.jit.library.ids import global_id
from vkcompute.jit.library.private import local
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array, empty_result
from vkcompute.runtime.tuning import tuning_of

_MOST_INDICES, _MOST_TABLES = 256, 1 << 16
"""Indices up to which invocations have tables of sums, which remain in the first cache of a core; and all sums."""
_WIDTH, _TOGETHER = 4, 8
"""Adjacent columns of an invocation, and values that are loaded together.

On lavapipe, 32 sums of 200,000 float32 for 64 indices take 14 ms of CPU time by 4 columns, and 34 by single ones.
"""

_with_sum = Elementwise("where(y == 0, x, x + y)", "x, y")
"""Adds sums, those of no values among them: -0.0 + 0 would be 0.0."""
_below = Elementwise("min(at, n)", "at, n")
_above = Elementwise("max(at, n - 1) - (n - 1)", "at, n")
_largest = reduce("max(a, b)", 0)
_least = reduce("min(a, b)", 0)


@kernel
def _add(values: Any, at: Any, out: Any, n_items: int, n: int, n_indices: int, n_columns: int) -> None:
    i = global_id(0)
    if i < n_items:
        column, line = i % n_columns, i // n_columns
        target = at[line % n_indices]
        if target >= 0:
            atomic.add(out, (line // n_indices * n + target) * n_columns + column, values[i])


@kernel
def _count(at: Any, out: Any, n_items: int) -> None:
    i = global_id(0)
    if i < n_items:
        atomic.add(out, np.int32(at[i]), 1)


def _add_row(totals: Any, target: Any, values: Any, offset: Any, width: int) -> None:
    """Adds adjacent values to the sums of an index, if it is not negative."""
    if target >= 0:
        for c in range(width):
            totals[target * width + c] += values[offset + c]


@cache
def _table_kernel(dtype: np.dtype[Any], width: int) -> PythonKernel:
    """Makes the kernel that sums the values of each part of a line in a table of the invocation's own.

    Args:
        width: adjacent columns of an invocation.
    """

    @kernel
    def sum_in_tables(
        at: Any, values: Any, out: Any, n_items: int, n_rows: int, n: int, n_columns: int, n_parts: int, n_values: int,
        length: int,
    ) -> None:  # fmt: skip
        """Stores the sums of each part for all indices below n."""
        i, n_lanes = global_id(0), n_columns // width
        if i < n_items:
            column, line = i % n_lanes * width, i // n_lanes
            row, part = line // n_parts, line % n_parts
            first, totals, base = part * length, local(_MOST_INDICES * width, dtype), row * n_values
            stop = min(first + length, n_values)
            rest = stop - (stop - first) % _TOGETHER
            for start in range(first, rest, _TOGETHER):
                for k in range(_TOGETHER):
                    _add_row(totals, at[start + k], values, (base + start + k) * n_columns + column, width)
            for k in range(rest, stop):
                _add_row(totals, at[k], values, (base + k) * n_columns + column, width)
            target = (part * n_rows + row) * n
            for k in range(n):
                for c in range(width):
                    out[(target + k) * n_columns + column + c] = totals[k * width + c]

    return sum_in_tables


def _add_by_tables(x: Array, at: Array, lines: Lines, values: Array) -> None:
    """Adds values of few indices: their sums in parts, each in order, and then the sums of the parts."""
    n_rows, n, n_columns = lines
    tuning, width = tuning_of(x.runtime.device.physical), _WIDTH if n_columns % _WIDTH == 0 else 1
    n_lanes = n_rows * n_columns // width
    shortest = part_length(at.size, max(tuning.segment_part, 8 * n))
    length = max(shortest, at.size * n_lanes // (tuning.busy_groups * LOCAL_SIZE))
    n_parts = -(-at.size // length)
    totals, n_items = temporary(x.runtime, (n_parts, x.size), x.dtype), n_parts * n_lanes
    sizes = n_items, *lines, n_parts, at.size, length
    launch(_table_kernel(x.dtype, width), n_items, at, values, totals.reshape(-1), *sizes)
    _with_sum(x, reduce_axes("add", totals, (0,), x.dtype, False).reshape(-1), out=x)


@cache
def _run_kernel(operation: str) -> PythonKernel:
    """Makes the kernel that combines the runs of a sorted order by an operation."""
    combine, is_sum = OPERATIONS[operation].combine, operation == "sum"

    @kernel
    def combine_runs(
        keys: Any, order: Any, values: Any, out: Any, end_keys: Any, end_totals: Any,
        n_items: int, n: int, n_values: int, n_columns: int, n_parts: int, length: int, is_last: int,
    ) -> None:  # fmt: skip
        """Combines the runs of equal keys in each part; those at its ends are left for the next stage."""
        i = global_id(0)
        if i < n_items:
            column, line = i % n_columns, i // n_columns
            row, part = line // n_parts, line % n_parts
            first = part * length
            key, total = keys[first], values[(row * n_values + order[first]) * n_columns + column]
            begins, end = True, (row * 2 * n_parts + 2 * part) * n_columns + column
            for k in range(1, min(length, n_values - first)):
                new, value = keys[first + k], values[(row * n_values + order[first + k]) * n_columns + column]
                if new == key:
                    total = combine(total, value)
                else:
                    target = (row * n + key) * n_columns + column
                    if begins and is_last == 0:
                        end_keys[2 * part], end_totals[end] = key, total
                    elif key >= 0:
                        out[target] = combine(out[target], total)
                    begins, key, total = False, new, value
            target = (row * n + key) * n_columns + column
            if is_last == 1:
                if key >= 0:
                    out[target] = combine(out[target], total)
            else:
                end_keys[2 * part + 1], end_totals[end + n_columns] = key, total
                if begins:
                    end_keys[2 * part], end_totals[end] = key, values.dtype.type(0) if is_sum else total

    return combine_runs


def scatter_add(x: Array, at: Array, lines: Lines, values: Array) -> None:
    """Adds values to the elements at indices along lines.

    Args:
        x: contiguous, of these lines.
        at: int32, made by `wrapped`.
        values: contiguous, of the dtype of `x`, of n_rows * indices * n_columns elements.

    Raises:
        TypeError: the elements are bools.
    """
    if x.dtype == bool:
        raise TypeError("bools are not summed; use integers")
    if _is_large(x, at, lines, values):
        store_by_parts(scatter_add, x.reshape(-1), flat(at), lines, values.reshape(-1))
        return
    is_small = lines.n <= _MOST_INDICES < at.size and x.size <= _MOST_TABLES and x.dtype.kind in "iuf"
    if x.dtype.kind in "iu" and x.dtype.itemsize == 4:
        x, values = x.reshape(-1), values.reshape(-1)
        launch(_add, values.size, values, at, x, values.size, lines.n, at.size, lines.n_columns)
    elif is_small and tuning_of(x.runtime.device.physical).sums_in_tables:
        _add_by_tables(x.reshape(-1), flat(at), lines, values.reshape(-1))
    else:
        scatter_by_sorting("sum", x, at, lines, values)


def _is_large(x: Array, at: Array, lines: Lines, values: Array) -> bool:
    """True if the launches of sorted values, with their order and the totals of parts, take too many bindings."""
    n_ends = 2 * -(-at.size // _length(x, at.size))
    totals = n_ends * lines.n_rows * lines.n_columns * x.dtype.itemsize
    return bytes_exceed_bindings(x, x.nbytes, at.nbytes, at.nbytes, values.nbytes, 4 * n_ends, totals)


def _length(x: Array, n: int) -> int:
    """Returns the length of the parts of sorted values."""
    return part_length(n, tuning_of(x.runtime.device.physical).segment_part)


def scatter_by_sorting(operation: str, x: Array, at: Array, lines: Lines, values: Array) -> None:
    """Combines values with the elements at indices along lines; arguments as of `scatter_add`.

    Args:
        operation: "sum", "max" or "min".
    """
    if not values.size:
        return
    if _is_large(x, at, lines, values):
        combine = partial(scatter_by_sorting, operation)
        store_by_parts(combine, x.reshape(-1), flat(at), lines, values.reshape(-1))
        return
    # Equal indices are to be adjacent, in any order. So the bits that differ suffice; those of -1 are all ones.
    word = Word(flat(at).view(np.uint32), lines.n.bit_length())
    order = sort_rows([word], 1, at.size)
    keys = gather_elements(at, order)
    _combine_sorted(operation, x.reshape(-1), keys, order, values.reshape(-1), lines)


def _combine_sorted(operation: str, x: Array, keys: Array, order: Array, values: Array, lines: Lines) -> None:
    """Combines the values in this order, in which their keys are sorted."""
    length = _length(x, keys.size)
    n_parts = -(-keys.size // length)
    is_last = n_parts == 1
    n_lines = lines.n_rows * lines.n_columns
    end_keys = temporary(x.runtime, 2 * n_parts, np.int32)
    end_totals = temporary(x.runtime, 2 * n_parts * n_lines, x.dtype)
    sizes = n_parts * n_lines, lines.n, keys.size, lines.n_columns, n_parts, length, int(is_last)
    launch(_run_kernel(operation), sizes[0], keys, order, values, x, end_keys, end_totals, *sizes)
    if not is_last:
        _combine_sorted(operation, x, end_keys, iota(x.runtime, 2 * n_parts), end_totals, lines)


def count_indices(at: Array, n: int) -> Array:
    """Returns how often each index below `n` occurs among integers, which are such indices, as int32."""
    counts = temporary(at.runtime, n, np.int32).fill(0)
    _store_counts(flat(at), counts)
    return counts


def _store_counts(at: Array, counts: Array) -> None:
    """Adds to counts; by halves if a launch does not reach them. One more count is for indices of the other half."""
    if not exceeds_bindings(at, counts):
        launch(_count, at.size, at, counts, at.size)
    elif at.nbytes >= counts.nbytes:
        for half in halves(at.size):
            _store_counts(at[half], counts)
    else:
        low, high = halves(counts.size)
        part = temporary(at.runtime, low.stop + 1, np.int32).fill(0)
        _store_counts(_below(at, low.stop), part)
        _with_sum(counts[low], part[:-1], out=counts[low])
        part = temporary(at.runtime, counts.size - low.stop + 1, np.int32).fill(0)
        _store_counts(_above(at, low.stop), part)
        _with_sum(counts[high], part[1:], out=counts[high])


@planned
def _extremes(x: Array) -> Array:
    """Returns the least and the largest integer, so that the host waits once for both."""
    ends = empty_result(x.runtime, 2, x.dtype if x.dtype.itemsize > 2 else np.dtype(np.int32))
    for number, extreme in enumerate((_least, _largest)):
        extreme(x, out=ends[number : number + 1].reshape(()))
    return ends


@planned
def _counts(x: Array, n: int) -> Array:
    """Returns `count_indices` in the default integer."""
    out = empty_result(x.runtime, n, default_int(x.runtime))
    copy_into(count_indices(x, n), out)
    return out


def bincount(x: Array, weights: Array | None = None, minlength: int = 0) -> Array:
    """Returns the number of each value from 0 to the largest, or the sum of the weights, as NumPy's bincount.

    It waits for the largest value. Weights are summed as float64, or float32 on a device that refuses it.

    Raises:
        TypeError: the values are no integers.
        ValueError: they have several axes, one is negative, or the weights have another shape.
    """
    if x.dtype.kind not in "iu":
        raise TypeError(f"bincount takes integers; got {x.dtype}; convert with .astype(int)")
    if x.ndim != 1 or (weights is not None and weights.shape != x.shape):
        raise ValueError(f"bincount takes one axis, and a weight per value; got {x.shape} and {weights}")
    least, largest = map(int, _extremes(x).numpy()) if x.size else (0, -1)
    if least < 0:
        raise ValueError(f"bincount takes no negative values; got {least}; subtract the least one first")
    return totals(x, weights, max(largest + 1, minlength))


def totals(x: Array, weights: Array | None, n: int) -> Array:
    """Returns the number of each value, or the sum of its weights, as `bincount`; values are from 0 to n - 1."""
    if weights is None:
        counts: Array = _counts(x, n)
        return counts
    wide = np.float64 if computes_float64(x.runtime.device.features) else np.float32
    out = empty_result(x.runtime, n, wide).fill(0)
    scatter_add(out, converted(x, np.int32), Lines(1, n, 1), flat(converted(weights, wide)))
    return out
