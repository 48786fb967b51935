"""Sorts and scans of segments of any lengths, which follow each other in one array.

A segment's number is one more word of its keys. Scans are those of `scans.py`, whose parts begin anew where a segment
does: the last segment of each part is what a scan of the parts needs. Where launches do not reach all elements, halves
are scanned, and the last result of the first one is combined with those of the same segment in the second.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from vkcompute.arrays.algorithms.binding_limits import bytes_exceed_bindings, exceeds_bindings
from vkcompute.arrays.algorithms.gather import gather_elements
from vkcompute.arrays.algorithms.lines import contiguous, converted, copy_into, flat, launch, part_length
from vkcompute.arrays.algorithms.radix import sort_rows
from vkcompute.arrays.algorithms.scans import OF_BOOLS, OPERATIONS, initial_of
from vkcompute.arrays.algorithms.selection import searchsorted_counts
from vkcompute.arrays.algorithms.sort_keys import Word, number_words
from vkcompute.arrays.expressions.promotion import accumulated, wide_float
from vkcompute.arrays.expressions.ufunc import apply
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.kernel import PythonKernel, kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array, empty_result
from vkcompute.runtime.tuning import tuning_of

_of_same = Elementwise("new if number == other else old", "new, old, number, other")


class _Kernels(NamedTuple):
    total: PythonKernel
    scan: PythonKernel


@cache
def _kernels(operation: str) -> _Kernels:
    """Makes the kernels of an operation."""
    combine = OPERATIONS[operation].combine

    @kernel
    def total_of_last(x: Any, numbers: Any, out: Any, out_numbers: Any, n_items: int, n: int, length: int) -> None:
        """Combines the elements of each part's last segment, and stores its number."""
        i = global_id(0)
        if i < n_items:
            first = i * length
            number, result = numbers[first], out.dtype.type(x[first])
            for k in range(first + 1, min(first + length, n)):
                value = out.dtype.type(x[k])
                result = combine(result, value) if numbers[k] == number else value
                number = numbers[k]
            out[i], out_numbers[i] = result, number

    @kernel
    def scan_segments(
        x: Any, numbers: Any, before: Any, before_numbers: Any, out: Any, n_items: int, n: int, length: int
    ) -> None:
        """Scans each part; its first segment begins with the result of the parts before."""
        i = global_id(0)
        if i < n_items:
            first = i * length
            number, result = numbers[first], before.dtype.type(x[first])
            if i > 0 and before_numbers[max(i - 1, 0)] == number:
                result = combine(before[max(i - 1, 0)], result)
            out[first] = result
            for k in range(first + 1, min(first + length, n)):
                value = before.dtype.type(x[k])
                result = combine(result, value) if numbers[k] == number else value
                number = numbers[k]
                out[k] = result

    return _Kernels(total_of_last, scan_segments)


@kernel
def _shift(x: Any, numbers: Any, out: Any, n_items: int) -> None:
    """Stores the element before each, unless it is of another segment."""
    i = global_id(0)
    if 0 < i < n_items and numbers[i] == numbers[max(i - 1, 0)]:
        out[i] = x[max(i - 1, 0)]


class Segments(NamedTuple):
    """Segments that follow each other.

    Attributes:
        numbers: of the segments of all elements, int32.
        n: how many segments there are.
    """

    numbers: Array
    n: int


def segments_of(name: str, x: Array, offsets: Any) -> Segments:
    """Returns segments, given where each begins and where the last one ends; it waits for offsets of a device.

    Raises:
        TypeError: offsets are no integers.
        ValueError: `x` or they have not one axis, they decrease, or do not begin at 0 and end with the elements.
    """
    host = np.asarray(offsets.numpy() if isinstance(offsets, Array) else offsets)
    if x.ndim != 1 or host.ndim != 1 or not host.size:
        raise ValueError(f"{name} takes elements and offsets along one axis; got the shapes {x.shape} and {host.shape}")
    if host.dtype.kind not in "iu":
        raise TypeError(f"{name} takes offsets that are integers; got {host.dtype}")
    if (at := int(np.argmax(host[1:] < host[:-1])) if host.size > 1 else 0) + 1 < host.size and host[at + 1] < host[at]:
        text = f"{name} takes offsets that do not decrease; got {host[at]} and then {host[at + 1]} at {at + 1}"
        raise ValueError(f"{text}; sort the segments by where they begin")
    if host[0] != 0 or host[-1] != x.size:
        text = f"{name} takes offsets from 0 to the number of elements, {x.size}"
        raise ValueError(f"{text}; got {host[0]} to {host[-1]}; pass the elements x[first:last]")
    ends = temporary(x.runtime, host.size - 1, np.int32)
    if ends.size:
        ends.write(host[1:].astype(np.int32))
    return Segments(searchsorted_counts(ends, x.size), host.size - 1)


def argsort(x: Array, segments: Segments, *, descending: bool) -> Array:
    """Returns the indices of all elements that sort each segment, int32; equal elements keep their order."""
    words = number_words(x, descending=descending)
    out = empty_result(x.runtime, x.size, np.int32)
    if x.size:
        number = Word(segments.numbers.view(np.uint32), segments.n.bit_length())
        out.copy_from(sort_rows([*words, number], 1, x.size))
    return out


def sort(x: Array, segments: Segments, *, descending: bool) -> Array:
    """Returns the elements of each segment in order."""
    out = empty_result(x.runtime, x.shape, x.dtype)
    return gather_elements(flat(x), argsort(x, segments, descending=descending), out)


def scan(x: Array, segments: Segments, operation: str, *, is_exclusive: bool, is_reverse: bool) -> Array:
    """Returns the scan of each segment, of the dtype of `cumulative`."""
    dtype = accumulated(x.runtime, x.dtype) if operation in ("sum", "prod") else x.dtype
    operation = OF_BOOLS[operation] if dtype.kind == "b" else operation
    numbers, step = segments.numbers, slice(None, None, -1 if is_reverse else 1)
    given, numbers = contiguous(x[step]), contiguous(numbers[step])
    out = empty_result(x.runtime, x.shape, dtype)
    if x.size:
        _scan_reached(operation, given, numbers, out)
        if is_exclusive:
            inclusive, out = out, empty_result(x.runtime, x.shape, dtype).fill(initial_of(operation, dtype))
            _store_shifted(inclusive, numbers, out)
    return converted(out[step], dtype) if is_reverse else out


def _store_shifted(x: Array, numbers: Array, out: Array) -> None:
    """Stores as `_shift`, by parts where a launch does not reach all."""
    if exceeds_bindings(x, numbers, out):
        _of_same(x[:-1], out[1:], numbers[1:], numbers[:-1], out=out[1:])
    else:
        launch(_shift, x.size, x, numbers, out, x.size)


def _scan_reached(operation: str, x: Array, numbers: Array, out: Array) -> None:
    """Scans segments; by halves if launches do not reach all. Results are rounded after the last part."""
    if not _is_large(x, out):
        _scan(operation, x, numbers, out)
        return
    results = temporary(x.runtime, x.size, wide_float(out.dtype))
    _scan_by_halves(operation, x, numbers, results)
    copy_into(results, out)


def _scan_by_halves(operation: str, x: Array, numbers: Array, out: Array) -> None:
    if not _is_large(x, out):
        _scan(operation, x, numbers, out)
        return
    low, high = halves(x.size)
    for half in (low, high):
        _scan_by_halves(operation, x[half], numbers[half], out[half])
    last, results = low.stop - 1, out[high]
    combined = apply(OPERATIONS[operation].row, out[last], results)
    _of_same(combined, results, numbers[high], numbers[last], out=results)


def _length(x: Array) -> int:
    """Returns the elements that an invocation scans."""
    return part_length(x.size, tuning_of(x.runtime.device.physical).scan_part)


def _is_large(x: Array, out: Array) -> bool:
    """True if the launches of `_scan`, with numbers of segments and results of parts, take too many bindings."""
    n_parts = -(-x.size // _length(x))
    wide = n_parts * wide_float(out.dtype).itemsize
    return bytes_exceed_bindings(x, x.nbytes, 4 * x.size, wide, 4 * n_parts, out.nbytes)


def _scan(operation: str, x: Array, numbers: Array, out: Array) -> None:
    kernels, n, length = _kernels(operation), x.size, _length(x)
    n_parts, wide = -(-n // length), wide_float(out.dtype)
    totals, before = (temporary(x.runtime, n_parts, wide) for _ in range(2))
    last_numbers = temporary(x.runtime, n_parts, np.int32)
    launch(kernels.total, n_parts, x, numbers, totals, last_numbers, n_parts, n, length)
    if n_parts > 1:
        _scan(operation, totals, last_numbers, before)
    launch(kernels.scan, n_parts, x, numbers, before, last_numbers, out, n_parts, n, length)
