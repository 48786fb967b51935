"""Scattering of elements by arrays of indices: assignment, and sums of elements with the same index.

Of values with the same index the last one is assigned, as in NumPy. Results are the same in each run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vkcompute.arrays.algorithms.binding_limits import bytes_exceed_bindings
from vkcompute.arrays.algorithms.gather import IndexedAxis, halved, positions_along, take, words, wrapped
from vkcompute.arrays.algorithms.lines import Lines, axis_of, contiguous, converted, copy_into, flat, iota, launch
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.kernel import kernel
from vkcompute.jit.library import atomic
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array

_in_low = Elementwise("at if at < n else -1", "at, n")
_in_high = Elementwise("max(at - n, -1)", "at, n")


@kernel
def _claim(at: Any, winners: Any, n_items: int) -> None:
    """Leaves the number of the last value for each element, counted from 1."""
    i = global_id(0)
    if i < n_items and at[i] >= 0:
        atomic.max(winners, at[i], i + 1)


@kernel
def _scatter(
    values: Any, at: Any, winners: Any, out: Any, n_items: int, n: int, n_indices: int, n_columns: int
) -> None:
    i = global_id(0)
    if i < n_items:
        line = i // n_columns
        row = line // n_indices
        which = line - row * n_indices
        target = at[which]
        if target >= 0 and winners[max(target, 0)] == which + 1:
            out[(row * n + target) * n_columns + i - line * n_columns] = values[i]


def scatter(x: Array, at: Array, lines: Lines, values: Array) -> None:
    """Assigns values to the elements at indices along lines.

    Args:
        x: contiguous, of these lines.
        at: int32, made by `wrapped`.
        values: contiguous, of the dtype of `x`, of n_rows * indices * n_columns elements.
    """
    if not values.size:
        return
    (source, n_words), (target, _) = words(values), words(x)
    _scatter_words(target, at, lines._replace(n_columns=lines.n_columns * n_words), source)


def _scatter_words(x: Array, at: Array, lines: Lines, values: Array) -> None:
    if bytes_exceed_bindings(x, x.nbytes, at.nbytes, 4 * lines.n, values.nbytes):
        store_by_parts(_scatter_words, x, at, lines, values)
        return
    winners = temporary(x.runtime, lines.n, np.int32).fill(0)
    launch(_claim, at.size, at, winners, at.size)
    launch(_scatter, values.size, values, at, winners, x, values.size, lines.n, at.size, lines.n_columns)


Store = Callable[[Array, Array, Lines, Array], None]
"""A function with the arguments of `scatter`."""


def store_by_parts(store: Store, x: Array, at: Array, lines: Lines, values: Array) -> None:
    """Calls a function for halves of the rows, of the indices in order, of the elements, or of the columns.

    Indices of the other half of the elements become -1, which stores nothing.
    """
    _, n, n_columns = lines
    if accesses := halved(x, at, lines, values):
        for access in accesses:
            store(*access)
    elif n > 1:
        (low, high), elements = halves(n), x.reshape(n, -1)
        store(elements[low].reshape(-1), _in_low(at, low.stop), Lines(1, low.stop, n_columns), values)
        store(elements[high].reshape(-1), _in_high(at, low.stop), Lines(1, n - low.stop, n_columns), values)
    else:
        for half in halves(n_columns):
            store(x[half], at, Lines(1, 1, half.stop - half.start), values[half])


def prepared(values: Array, x: Array, shape: tuple[int, ...]) -> Array:
    """Returns values as contiguous elements of this shape, of the dtype of `x` and apart from its memory.

    Raises:
        ValueError: they do not broadcast to the shape.
    """
    while values.ndim > len(shape) and values.shape[0] == 1:
        values = values[0]
    given = values.broadcast_to(shape)
    if given.dtype != x.dtype or given.overlaps(x):
        return converted(given, x.dtype)
    return contiguous(given)


def write_back(x: Array, changed: Array) -> None:
    """Copies the changed elements of a view to it, unless they are its own."""
    if changed is not x:
        copy_into(changed, x)


def put_along_axis(x: Array, indices: Array, values: Array, axis: int) -> None:
    """Assigns values to the elements at indices along an axis, one per line, as NumPy's put_along_axis."""
    axis = axis_of("put_along_axis", x.ndim, axis)
    if indices.ndim != x.ndim:
        raise ValueError(f"indices and array have the same number of axes; got {indices.ndim} and {x.ndim}")
    shape = (*x.shape[:axis], indices.shape[axis], *x.shape[axis + 1 :])
    at = positions_along(x.shape, indices.broadcast_to(shape), axis)
    target = contiguous(x)
    scatter(target, at, Lines(1, x.size, 1), prepared(values, x, shape))
    write_back(x, target)


def put(x: Array, indices: Array, values: Array, mode: str = "raise") -> None:
    """Assigns values to elements of the flattened array, as NumPy's put: values are repeated as needed."""
    if not indices.size or not values.size:
        return
    at, target = wrapped([IndexedAxis(indices, x.size, 0)], mode), contiguous(x)
    if values.size not in (1, at.size):
        values = take(values, iota(x.runtime, at.size), None, "wrap")
    scatter(target, at, Lines(1, x.size, 1), prepared(flat(values), x, (at.size,)))
    write_back(x, target)
