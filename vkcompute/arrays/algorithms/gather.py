"""Gathering of elements by arrays of indices: `take`, `take_along_axis`.

Elements are moved as bits: those of 8 or 16 bytes as several words, so that any device gathers them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from vkcompute.arrays.algorithms.binding_limits import bytes_exceed_bindings, exceeds_bindings
from vkcompute.arrays.algorithms.lines import (
    Lines,
    axis_of,
    contiguous,
    converted,
    copy_into,
    flat,
    launch,
    lines_along,
)
from vkcompute.compiled.completion import Words, expect
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library import atomic
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array, empty_result
from vkcompute.runtime.runtime import runtime_of

_FAULT_WORDS = 64
_MOST = 2**31 - 1
_EACH = 8
"""Indices per invocation, so that few of the slow atomic operations are needed."""
_MODES = {"raise": 0, "wrap": 1, "clip": 2}
_below = Elementwise("min(at, n - 1)", "at, n")
_above = Elementwise("max(at - n, 0)", "at, n")
_either = Elementwise("low if at < n else high", "at, n, low, high")


@kernel
def _wrap_signed(indices: Any, at: Any, faults: Any, n_items: int, n: int, number: int, mode: int) -> None:
    """Counts negative indices from 0, and combines them with those of the axes before.

    The largest excess on each side goes to `faults`, to the words of the axis with this number.
    """
    n_threads = (n_items + _EACH - 1) // _EACH
    i = global_id(0)
    if i < n_threads:
        above, below = np.uint32(0), np.uint32(0)
        for k in range(_EACH):
            j = min(i + k * n_threads, n_items - 1)
            index = indices[j]
            if mode == 1:
                index = index % n
            elif mode == 2:
                index = min(max(index, 0), n - 1)
            above = max(above, np.uint32(min(index - (n - 1), _MOST) if index >= n else 0))
            below = max(below, np.uint32(min(-n - index, _MOST) if index < -n else 0))
            position = np.int32(index + n if index < 0 else index)
            is_right = -n <= index < n
            if i + k * n_threads < n_items:
                before = at[j] if number > 0 else 0
                at[j] = before * n + position if is_right and before >= 0 else -1
        if above > 0:
            atomic.max(faults, 2 * number, above)
        if below > 0:
            atomic.max(faults, 2 * number + 1, below)


@kernel
def _wrap_unsigned(indices: Any, at: Any, faults: Any, n_items: int, n: int, number: int, mode: int) -> None:
    """As for signed indices."""
    i = global_id(0)
    if i < n_items:
        index = indices[i]
        limit = np.uint32(n)
        if mode == 1:
            index = index % limit
        elif mode == 2 and index >= limit:
            index = limit - np.uint32(1)
        if index >= limit:
            atomic.max(faults, 2 * number, np.uint32(min(index - limit, np.uint32(_MOST - 1))) + np.uint32(1))
            at[i] = -1
        elif number == 0:
            at[i] = np.int32(index)
        elif at[i] >= 0:
            at[i] = at[i] * n + np.int32(index)


class IndexedAxis(NamedTuple):
    """Indices along an axis.

    Attributes:
        indices: of any integer dtype.
        n: length of the axis.
        axis: its number, for errors.
    """

    indices: Array
    n: int
    axis: int

    @property
    def is_signed(self) -> bool:
        """False for indices of an unsigned dtype."""
        return self.indices.dtype.kind == "i"

    def checked(self) -> IndexedAxis:
        """Returns the same with contiguous indices of a dtype that holds the length of the axis."""
        indices = self.indices
        if indices.dtype.kind not in "iu":
            raise IndexError(f"arrays used as indices must be of integer (or boolean) type; got {indices.dtype}")
        if indices.size and not self.n:
            raise IndexError(f"cannot do a non-empty take from an axis without elements: axis {self.axis} has size 0")
        if self.is_signed and indices.dtype.itemsize < 4:
            indices = converted(indices, np.int32)
        return self._replace(indices=flat(indices))


def wrapped(axes: Sequence[IndexedAxis], mode: str = "raise") -> Array:
    """Returns indices along all of these axes together as int32, counted from 0, along one axis.

    An index out of range fails the launch: the error is raised where its results are read. The index is -1 then, at
    which `gather` reads any element, and `scatter` stores none.

    Args:
        axes: with as many indices each.
        mode: "raise", or "wrap" and "clip" as in NumPy's take.

    Raises:
        IndexError: the indices are no integers; there are some, but no elements; or later, one is out of range.
        ValueError: there is no such mode.
    """
    if mode not in _MODES:
        raise ValueError(f"mode is one of {', '.join(_MODES)}; got {mode!r}")
    axes = [axis.checked() for axis in axes]
    runtime, n_indices = runtime_of(axes[0].indices), axes[0].indices.size
    result = temporary(runtime, n_indices, np.int32)
    n_words = -(-2 * len(axes) // _FAULT_WORDS) * _FAULT_WORDS
    limits = [(axis.n, axis.axis, axis.is_signed) for axis in axes]  # a plan keeps `read`, and no arrays

    def read(words: Words) -> Exception | None:
        excesses = words[: 2 * len(limits)].reshape(-1, 2).tolist()
        words[:] = 0
        errors = [_error(*limit, *excess) for limit, excess in zip(limits, excesses, strict=True)]
        return next(filter(None, errors), None)

    def run(faults: Array) -> None:
        for number, axis in enumerate(axes):
            _wrap(axis, number, mode, result, faults)

    if n_indices:
        expect(runtime, n_words, read, run)
    return result


def _error(n: int, axis: int, is_signed: bool, above: int, below: int) -> IndexError | None:
    """Returns the error for the largest excess of indices on each side, if there is one."""
    if not above and not below:
        return None
    index, beyond = (n - 1 + above, " or more") if above else (-n - below, " or less")
    beyond = "" if (above or below) < _MOST else beyond if is_signed else " or more, or negative,"
    return IndexError(f"index {index}{beyond} is out of bounds for axis {axis} with size {n}")


def _wrap(axis: IndexedAxis, number: int, mode: str, result: Array, faults: Array) -> None:
    """Combines the indices along an axis with the result, that of the axes before if this is not the first."""
    indices = axis.indices
    if bytes_exceed_bindings(indices, indices.nbytes, result.nbytes, faults.nbytes):
        for half in halves(indices.size):
            _wrap(axis._replace(indices=indices[half]), number, mode, result[half], faults)
        return
    chosen, per_invocation = (_wrap_signed, _EACH) if axis.is_signed else (_wrap_unsigned, 1)
    numbers = indices.size, axis.n, number, _MODES[mode]
    launch(chosen, -(-indices.size // per_invocation), indices, result, faults, *numbers)


@kernel
def _gather(x: Any, at: Any, out: Any, n_items: int, n: int, n_indices: int, n_columns: int) -> None:
    i = global_id(0)
    if i < n_items:
        line = i // n_columns
        row = line // n_indices
        out[i] = x[(row * n + max(at[line - row * n_indices], 0)) * n_columns + i - line * n_columns]


@kernel
def _gather_elements(x: Any, at: Any, out: Any, n_items: int) -> None:
    i = global_id(0)
    if i < n_items:
        out[i] = x[max(at[i], 0)]


@kernel
def _along(at: Any, out: Any, n_items: int, first: int, n: int, n_indices: int, n_columns: int) -> None:
    """Converts indices along an axis, of which the first has this number, to indices of the whole array."""
    i = global_id(0)
    if i < n_items:
        number = first + i
        row = number // n_columns // n_indices
        out[i] = (row * n + at[i]) * n_columns + number % n_columns if at[i] >= 0 else -1


def words(x: Array) -> tuple[Array, int]:
    """Returns contiguous elements along one axis, those of 4 bytes or more as words, and the number of words of one."""
    flattened = x.reshape(-1)
    return (flattened, 1) if x.dtype.itemsize < 4 else (flattened.view(np.uint32), x.dtype.itemsize // 4)


def gather(x: Array, at: Array, lines: Lines, out: Array) -> Array:
    """Stores the elements at indices along lines into `out`.

    Args:
        x: contiguous, of these lines.
        at: int32, made by `wrapped`.
        out: contiguous, of n_rows * indices * n_columns elements.
    """
    if not out.size:
        return out
    (source, n_words), (target, _) = words(x), words(out)
    _gather_words(source, at, lines._replace(n_columns=lines.n_columns * n_words), target)
    return out


def gather_elements(x: Array, at: Array, out: Array | None = None) -> Array:
    """Returns the elements of an array along one axis at indices made by `wrapped`, in `out` or a temporary."""
    return gather(x, at, Lines(1, x.size, 1), temporary(x.runtime, at.size, x.dtype) if out is None else out)


def _gather_words(x: Array, at: Array, lines: Lines, out: Array) -> None:
    if exceeds_bindings(x, at, out):
        _gather_by_parts(x, at, lines, out)
    elif lines.n_columns == 1 and lines.n_rows == 1:
        launch(_gather_elements, out.size, x, at, out, out.size)
    else:
        launch(_gather, out.size, x, at, out, out.size, lines.n, at.size, lines.n_columns)


Access = tuple[Array, Array, Lines, Array]
"""Elements, indices along their lines, the lines, and the values to gather or scatter."""


def halved(x: Array, at: Array, lines: Lines, values: Array) -> list[Access]:
    """Returns the halves of an access by rows or by indices; nothing if the elements or columns are to be halved."""
    n_rows, n, n_columns = lines
    if n_rows > 1:
        elements, rows = x.reshape(n_rows, -1), values.reshape(n_rows, -1)
        return [
            (elements[half].reshape(-1), at, Lines(half.stop - half.start, n, n_columns), rows[half].reshape(-1))
            for half in halves(n_rows)
        ]
    if at.size > 1 and (n == 1 or at.nbytes + values.nbytes >= x.nbytes):
        rows = values.reshape(at.size, -1)
        return [(x, at[half], lines, rows[half].reshape(-1)) for half in halves(at.size)]
    return []


def _gather_by_parts(x: Array, at: Array, lines: Lines, out: Array) -> None:
    """Halves the rows, the indices, or the elements: each index selects from one half of the elements."""
    _, n, n_columns = lines
    if accesses := halved(x, at, lines, out):
        for access in accesses:
            _gather_words(*access)
    elif n > 1:
        low, high = halves(n)
        elements, other = x.reshape(n, -1), temporary(x.runtime, out.size, out.dtype)
        _gather_words(elements[low].reshape(-1), _below(at, low.stop), Lines(1, low.stop, n_columns), out)
        _gather_words(elements[high].reshape(-1), _above(at, low.stop), Lines(1, n - low.stop, n_columns), other)
        shape, bits = (at.size, n_columns), np.dtype(f"u{out.dtype.itemsize}")
        first, second = (array.view(bits).reshape(shape) for array in (out, other))
        _either(at.reshape(-1, 1), low.stop, first, second, out=first)
    else:
        copy_into(x, out)


def take(x: Array, indices: Array, axis: int | None = None, mode: str = "raise") -> Array:
    """Returns the elements at these indices along an axis, as NumPy's take; without an axis, of the flattened array.

    Raises:
        IndexError, TypeError, ValueError: as `wrapped` and `axis_of`.
    """
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_of("take", x.ndim, axis)
    lines = lines_along(x.shape, axis)
    at = wrapped([IndexedAxis(indices, lines.n, axis)], mode)
    out = empty_result(x.runtime, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
    return gather(contiguous(x), at, lines, out)


def positions_along(shape: tuple[int, ...], indices: Array, axis: int) -> Array:
    """Returns indices along an axis as indices of the flattened array of this shape, which has the other lengths."""
    lines = lines_along(shape, axis)
    at = wrapped([IndexedAxis(indices, lines.n, axis)])
    positions = temporary(at.runtime, at.size, np.int32)
    _store_positions(at, positions, 0, lines, indices.shape[axis])
    return positions


def _store_positions(at: Array, out: Array, first: int, lines: Lines, n_indices: int) -> None:
    if at.size and exceeds_bindings(at, out):
        for half in halves(at.size):
            _store_positions(at[half], out[half], first + half.start, lines, n_indices)
    else:
        launch(_along, at.size, at, out, at.size, first, lines.n, n_indices, lines.n_columns)


def take_along_axis(x: Array, indices: Array, axis: int) -> Array:
    """Returns the elements at indices along an axis, one per line, as NumPy's take_along_axis.

    Raises:
        IndexError: an index is out of range, or no integer.
        ValueError: the numbers of axes differ, or the other lengths do not broadcast.
    """
    axis = axis_of("take_along_axis", x.ndim, axis)
    if indices.ndim != x.ndim:
        raise ValueError(f"indices and array have the same number of axes; got {indices.ndim} and {x.ndim}")
    others = [[1 if at == axis else n for at, n in enumerate(array.shape)] for array in (x, indices)]
    common = np.broadcast_shapes(*map(tuple, others))
    shapes = [(*common[:axis], array.shape[axis], *common[axis + 1 :]) for array in (x, indices)]
    out = empty_result(x.runtime, shapes[1], x.dtype)
    at = positions_along(shapes[0], indices.broadcast_to(shapes[1]), axis)
    return gather(contiguous(x.broadcast_to(shapes[0])), at, Lines(1, prod(shapes[0]), 1), out)
