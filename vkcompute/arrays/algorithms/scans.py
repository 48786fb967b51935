"""Scans: cumulative sums, products, maxima and minima along an axis.

A line is divided into parts, and an invocation takes a part, so no barrier is needed. One launch combines the elements
of each part. Their results are scanned in the same way. A last launch scans each part, beginning with the result of the
parts before it (G. E. Blelloch, Prefix Sums and Their Applications, 1990). The order of operations is always the same.
A float sum has the rounding error of a blocked sum, so sums of positive numbers may decrease where a part begins. To
compare them with the end of the part before would take another launch. On GPUs, workgroups take the parts of long
contiguous lines.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms import block_scan
from vkcompute.arrays.algorithms.binding_limits import exceeds_bindings
from vkcompute.arrays.algorithms.lines import (
    Lines,
    axis_of,
    contiguous,
    converted,
    copy_into,
    launch,
    lines_along,
    part_length,
)
from vkcompute.arrays.expressions.promotion import accumulated, wide_float
from vkcompute.arrays.expressions.ufunc import apply
from vkcompute.dtypes import lookup
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.jit.kernel import PythonKernel, kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.operations import FUNCTIONS
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.launching.arguments import needs_strides
from vkcompute.runtime.memory.array import Array, empty_result
from vkcompute.runtime.tuning import tuning_of

_STEP = 8
"""Elements that are combined per iteration."""


class Operation(NamedTuple):
    """An associative operation in the language of kernels, and its row in the registry of functions."""

    combine: Callable[[Any, Any], Any]
    row: str


OPERATIONS = {
    "sum": Operation(lambda a, b: a + b, "add"),
    "prod": Operation(lambda a, b: a * b, "multiply"),
    "max": Operation(np.maximum, "maximum"),
    "min": Operation(np.minimum, "minimum"),
    "or": Operation(lambda a, b: a | b, "logical_or"),
    "and": Operation(lambda a, b: a & b, "logical_and"),
}
OF_BOOLS = {"sum": "or", "prod": "and", "max": "or", "min": "and"}
"""The operations of bools."""


class _Kernels(NamedTuple):
    total: PythonKernel
    scan: PythonKernel


@cache
def _kernels(operation: str) -> _Kernels:
    """Makes the kernels of an operation."""
    combine = OPERATIONS[operation].combine

    @kernel
    def total(x: Any, out: Any, n_items: int, n: int, n_columns: int, n_parts: int, length: int) -> None:
        """Combines the elements of each part."""
        i = global_id(0)
        if i < n_items:
            column, line = i % n_columns, i // n_columns
            row, first = line // n_parts, line % n_parts * length
            at, count = (row * n + first) * n_columns + column, min(length, n - first)
            result = out.dtype.type(x[at])
            at += n_columns
            for _ in range(1, count - _STEP + 1, _STEP):
                for k in range(_STEP):
                    result = combine(result, out.dtype.type(x[at + k * n_columns]))
                at += _STEP * n_columns
            for _ in range((count - 1) % _STEP):
                result = combine(result, out.dtype.type(x[at]))
                at += n_columns
            out[i] = result

    @kernel
    def scan(
        x: Any, before: Any, out: Any, n_items: int, n: int, n_columns: int, n_parts: int, length: int, n_before: int
    ) -> None:
        """Scans each part, beginning with the result of the parts before it."""
        i = global_id(0)
        if i < n_items:
            column, line = i % n_columns, i // n_columns
            row, part = line // n_parts, line % n_parts
            first = part * length
            at, count = (row * n + first) * n_columns + column, min(length, n - first)
            target = at + (row + 1) * n_before * n_columns
            result = before.dtype.type(x[at])
            if part > 0:
                result = combine(before[i - n_columns], result)
            out[target] = result
            at += n_columns
            target += n_columns
            for _ in range(1, count - _STEP + 1, _STEP):
                for k in range(_STEP):
                    result = combine(result, before.dtype.type(x[at + k * n_columns]))
                    out[target + k * n_columns] = result
                at += _STEP * n_columns
                target += _STEP * n_columns
            for _ in range((count - 1) % _STEP):
                result = combine(result, before.dtype.type(x[at]))
                out[target] = result
                at += n_columns
                target += n_columns

    return _Kernels(total, scan)


def cumulative(
    x: Array, operation: str, axis: int, dtype: npt.DTypeLike | None = None, *, include_initial: bool = False
) -> Array:
    """Returns the inclusive scan of an array along an axis.

    Args:
        operation: a key of OPERATIONS.
        dtype: of the result; by default NumPy's for sums and products, and that of `x` for others.
        include_initial: True to begin each line with the identity of the operation.

    Raises:
        TypeError, ValueError: as `axis_of`.
    """
    at = axis_of("cumulative", x.ndim, axis)
    default = accumulated(x.runtime, x.dtype) if operation in ("sum", "prod") else x.dtype
    result_dtype = default if dtype is None else lookup(dtype).numpy
    operation = OF_BOOLS.get(operation, operation) if result_dtype.kind == "b" else operation
    n_before = int(include_initial)
    shape = (*x.shape[:at], x.shape[at] + n_before, *x.shape[at + 1 :])
    out = empty_result(x.runtime, shape, result_dtype)
    if include_initial and out.size:
        first = out[(slice(None),) * at + (slice(0, 1),)]
        initial = initial_of(operation, result_dtype)
        if not x.size or first.contiguous:
            (first if x.size else out).fill(initial)
        else:
            first.copy_from(temporary(x.runtime, first.shape, result_dtype).fill(initial))
    if x.size:
        _scan_reached(operation, contiguous(x), out, at, n_before)
    return out


def _scan_reached(operation: str, x: Array, out: Array, axis: int, n_before: int) -> None:
    """Scans along an axis; by parts if launches do not reach the arrays. Results are rounded after the last part."""
    lines = lines_along(x.shape, axis)
    if not exceeds_bindings(x, out):
        _scan(operation, x, out, lines, n_before)
        return
    results = temporary(x.runtime, x.shape, wide_float(out.dtype))
    _scan_by_parts(operation, x.reshape(-1), results.reshape(-1), lines)
    copy_into(results, out[(slice(None),) * axis + (slice(n_before, None),)])


def _scan_by_parts(operation: str, x: Array, out: Array, lines: Lines) -> None:
    """Halves the rows, or the lines; combines all results of the second half with the last ones of the first."""
    n_rows, n, n_columns = lines
    if not exceeds_bindings(x, out):
        _scan(operation, x, out, lines)
        return
    if n_rows > 1:
        sources, targets = x.reshape(n_rows, -1), out.reshape(n_rows, -1)
        for half in halves(n_rows):
            part = Lines(half.stop - half.start, n, n_columns)
            _scan_by_parts(operation, sources[half].reshape(-1), targets[half].reshape(-1), part)
    elif n > 1:
        sources, targets, (low, high) = x.reshape(n, -1), out.reshape(n, -1), halves(n)
        for half in (low, high):
            part = Lines(1, half.stop - half.start, n_columns)
            _scan_by_parts(operation, sources[half].reshape(-1), targets[half].reshape(-1), part)
        copy_into(apply(OPERATIONS[operation].row, targets[low.stop - 1], targets[high]), targets[high])
    else:
        copy_into(x, out)


def initial_of(operation: str, dtype: np.dtype[Any]) -> Any:
    """Returns the identity of an operation for a dtype."""
    return FUNCTIONS[OPERATIONS[operation].row].neutral(dtype)


def _scan(operation: str, x: Array, out: Array, lines: Lines, n_before: int = 0) -> None:
    """Scans contiguous lines into others, which have `n_before` elements before the first result."""
    kernels, (n_rows, n, n_columns), by_blocks = _kernels(operation), lines, block_scan.takes(operation, x, out, lines)
    length = block_scan.PART if by_blocks else _part_length(x, lines)
    n_parts = -(-n // length)
    n_items = n_rows * n_parts * n_columns
    wide = wide_float(out.dtype)
    before = temporary(x.runtime, n_items if n_parts > 1 else 1, wide)
    if by_blocks and needs_strides(x):
        x = converted(x, x.dtype)  # block programs take arrays that begin where the device may bind them
    x, out = x.reshape(-1), out.reshape(-1)
    if n_parts > 1:
        totals = temporary(x.runtime, n_items, wide)
        if by_blocks:
            block_scan.totals(operation, x, totals, lines)
        else:
            launch(kernels.total, n_items, x, totals, n_items, n, n_columns, n_parts, length)
        _scan(operation, totals, before, Lines(n_rows, n_parts, n_columns))
    if by_blocks:
        block_scan.scan(operation, x, before, out, lines, n_before)
    else:
        launch(kernels.scan, n_items, x, before, out, n_items, n, n_columns, n_parts, length, n_before)


def _part_length(x: Array, lines: Lines) -> int:
    """Returns the elements that an invocation scans."""
    longest = tuning_of(x.runtime.device.physical).scan_part
    return part_length(lines.n_rows * lines.n * lines.n_columns, longest)
