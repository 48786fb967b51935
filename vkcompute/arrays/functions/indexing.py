"""Indexing by arrays of integers and by masks, as NumPy's advanced indexing.

The indexed axes of a view become adjacent, and their indices are combined to one index along all of them.
"""

from __future__ import annotations

from math import prod
from operator import index as to_int
from typing import Any, NamedTuple

import numpy as np

from vkcompute.arrays.algorithms.gather import IndexedAxis, gather, wrapped
from vkcompute.arrays.algorithms.lines import Lines, contiguous, iota
from vkcompute.arrays.algorithms.scatter import prepared, scatter, write_back
from vkcompute.arrays.algorithms.segments import scatter_add, scatter_by_sorting
from vkcompute.arrays.algorithms.selection import Selected, masked, nonzero
from vkcompute.arrays.expressions.ufunc import assign, where
from vkcompute.runtime.memory.array import Array, empty_result
from vkcompute.runtime.memory.context import ONE_RUNTIME

_GAP = object()
"""Stands for an ellipsis without axes."""


class _Part(NamedTuple):
    """Indices along one axis of the view, or along none of length 1 where they are None.

    Attributes:
        axis: of the view.
        original: axis of the array, for errors.
    """

    axis: int
    indices: Array | None
    original: int


class _Plan(NamedTuple):
    """The lines of a view that indices select from.

    Attributes:
        view: the array with the indexed axes adjacent.
        at: indices along all of these.
        lines: the lengths before, along and after them.
        shape: of the result.
    """

    view: Array
    at: Array
    lines: Lines
    shape: tuple[int, ...]


def get(x: Array, index: Any) -> Array:
    """Returns the elements that an advanced index selects, as a new array: `x[index]` of NumPy.

    It waits for the number of true elements of a mask. An index on the device that is out of range fails the launch.

    Raises:
        IndexError: an index is no integer or bool, or out of range on the host; there are too many, or a mask has
            another shape.
    """
    if isinstance(index, Array) and index.dtype == bool and index.shape == x.shape:
        return masked(x, index) if x.shape else masked(x.reshape(1), index.reshape(1))
    plan = _planned(x, index)
    return gather(contiguous(plan.view), plan.at, plan.lines, empty_result(x.runtime, plan.shape, x.dtype))


def put(x: Array, index: Any, values: Array) -> None:
    """Assigns values to the elements that an advanced index selects: `x[index] = values` of NumPy.

    It waits for the number of true elements of a mask, unless one value is assigned by a mask of the array's shape.

    Raises:
        IndexError: as `get`.
        ValueError: the values do not broadcast to the selected elements, or `x` is a view by `broadcast_to`.
    """
    x.refuse_shared()
    if isinstance(index, Array) and index.dtype == bool and index.shape == x.shape and values.size == 1:
        if x.size:
            assign(x, where(index, prepared(values, x, ()), x), fresh=True)
        return
    plan = _planned(x, index)
    given = prepared(values, x, plan.shape)
    target = contiguous(plan.view)
    scatter(target, plan.at, plan.lines, given)
    write_back(plan.view, target)


def add(x: Array, index: Any, values: Array) -> None:
    """Adds values to the elements that an advanced index selects, each as often as it is selected: NumPy's `add.at`.

    Raises:
        IndexError, ValueError: as `put`.
        TypeError: the elements are bools.
    """
    combine("sum", x, index, values)


def combine(operation: str, x: Array, index: Any, values: Array) -> None:
    """Combines values with the elements that an advanced index selects, each as often as it is selected.

    Args:
        operation: "sum", "max" or "min"; NaN is the extreme of what has one.

    Raises:
        IndexError: as `put`.
        TypeError: a sum of bools.
        ValueError: as `put`; or the values have more axes than the selected elements, which only an assignment takes.
    """
    x.refuse_shared()
    plan = _planned(x, index)
    if values.ndim > len(plan.shape):
        raise ValueError(f"values of shape {values.shape} have more axes than the selected elements, {plan.shape}")
    given = prepared(values, x, plan.shape)
    target = contiguous(plan.view)
    if operation == "sum":
        scatter_add(target, plan.at, plan.lines, given)
    else:
        scatter_by_sorting(operation, target, plan.at, plan.lines, given)
    write_back(plan.view, target)


def _planned(x: Array, index: Any) -> _Plan:
    """Resolves an index with at least one array, list or bool."""
    basic, parts, adjacent = _split(x, index if isinstance(index, tuple) else (index,))
    view = x[basic]
    axes = [part.axis for part in parts]
    if not adjacent:
        others = [axis for axis in range(view.ndim) if axis not in axes]
        view, axes = view.transpose((*axes, *others)), list(range(len(axes)))
    start, stop = axes[0], axes[-1] + 1
    lengths = view.shape[start:stop]
    arrays = [part.indices for part in parts if part.indices is not None]
    try:
        common = np.broadcast_shapes(*[array.shape for array in arrays])
    except ValueError:
        shapes = " ".join(str(array.shape) for array in arrays)
        raise IndexError(f"shape mismatch: indexing arrays could not be broadcast together; got {shapes}") from None
    at = _combined(parts, lengths, common)
    lines = Lines(prod(view.shape[:start]), prod(lengths), prod(view.shape[stop:]))
    return _Plan(view, at, lines, (*view.shape[:start], *common, *view.shape[stop:]))


def _combined(parts: list[_Part], lengths: tuple[int, ...], common: tuple[int, ...]) -> Array:
    """Returns indices along all indexed axes."""
    return wrapped(
        [
            IndexedAxis(part.indices.broadcast_to(common), n, part.original)
            for part, n in zip(parts, lengths, strict=True)
            if part.indices is not None
        ]
    )


def _split(x: Array, index: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[_Part], bool]:
    """Returns the basic index, the advanced parts of the view that it gives, and whether these are adjacent.

    In NumPy, an ellipsis separates them even if it stands for no axes.
    """
    gap: list[Any] = [_GAP]
    items = [entry for given in _expanded(x, index) for entry in given or gap]
    basic: list[Any] = []
    parts: list[_Part] = []
    positions: list[int] = []
    original = 0
    for position, item in enumerate(items):
        if item is _GAP:
            continue
        if item is None or isinstance(item, slice):
            basic.append(item)
            original += item is not None
            continue
        positions.append(position)
        if isinstance(item, bool):
            parts.append(_Part(len(basic), iota(x.runtime, int(item)), original))
            basic.append(None)
            continue
        if isinstance(item, int):
            n = x.shape[original]
            if not -n <= item < n:
                raise IndexError(f"index {item} is out of bounds for axis {original} with size {n}")
            parts.append(_Part(len(basic), None, original))
            basic.append(slice(item % n, item % n + 1))
        else:
            parts.append(_Part(len(basic), item, original))
            basic.append(slice(None))
        original += 1
    return tuple(basic), parts, positions == list(range(positions[0], positions[-1] + 1))


def _is_int(item: Any) -> bool:
    return isinstance(item, (int, np.integer)) and not isinstance(item, bool)


def _expanded(x: Array, index: tuple[Any, ...]) -> list[list[Any]]:
    """Returns the items of an index: slices for an ellipsis, an array per axis of a mask, device arrays of others."""
    entries = [_item(x, part) for part in index]
    n_axes = sum(_n_axes(part) for part in entries)
    if n_axes > x.ndim:
        raise IndexError(f"too many indices for array: array is {x.ndim}-dimensional, but {n_axes} were indexed")
    ellipses = [at for at, part in enumerate(entries) if part is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not ellipses:
        ellipses, entries = [len(entries)], [*entries, Ellipsis]
    rest = [slice(None)] * (x.ndim - n_axes)
    expanded: list[list[Any]] = []
    axis = 0
    for part in entries:
        if part is Ellipsis:
            expanded.append(rest)
            axis += len(rest)
        elif isinstance(part, Array) and part.dtype == bool:
            expanded.append(_of_mask(x, part, axis))
            axis += part.ndim
        elif isinstance(part, np.ndarray):
            expanded.append([_checked(x, part, axis)])
            axis += 1
        else:
            expanded.append([part])
            axis += _n_axes(part)
    return expanded


def _n_axes(part: Any) -> int:
    """Returns the number of axes that an item indexes."""
    if isinstance(part, Array):
        return part.ndim if part.dtype == bool else 1
    return 0 if part is None or part is Ellipsis or isinstance(part, bool) else 1


def _item(x: Array, part: Any) -> Any:
    """Converts an item of an index to an int, a bool, integers of the host, a device array, or a basic index."""
    if part is None or part is Ellipsis or isinstance(part, (slice, bool)):
        return part
    if isinstance(part, Array):
        if part.runtime is not x.runtime:
            raise ValueError(f"an index belongs to another runtime than the array; {ONE_RUNTIME}")
        return bool(part) if part.dtype == bool and not part.shape else part
    if _is_int(part):
        return to_int(part)
    host = np.asarray(part)
    if host.dtype == bool and not host.shape:
        return bool(host)
    if not host.size and not isinstance(part, np.ndarray):
        host = host.astype(np.int32)
    if host.dtype != bool and host.dtype.kind not in "iu":
        raise IndexError(f"arrays used as indices must be of integer (or boolean) type; got {host.dtype}")
    return x.runtime.array(host) if host.dtype == bool else host  # type: ignore[attr-defined]


def _checked(x: Array, host: Any, axis: int) -> Array:
    """Returns indices of the host along an axis as a device array of int32, which any device takes.

    Raises:
        IndexError: one is out of bounds.
    """
    n = x.shape[axis]
    wrong = host[(host < -n) | (host >= n)]
    if wrong.size:
        raise IndexError(f"index {wrong.flat[0]} is out of bounds for axis {axis} with size {n}")
    indices: Array = x.runtime.array(host.astype(np.int32))  # type: ignore[attr-defined]
    return indices


def _of_mask(x: Array, mask: Array, axis: int) -> list[Array]:
    """Returns the indices of the true elements of a mask along axes from this one.

    Raises:
        IndexError: the lengths differ.
    """
    for at, (n, length) in enumerate(zip(mask.shape, x.shape[axis:], strict=False)):
        if n not in (0, length):  # as in NumPy, a mask without elements selects none
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis + at}; size of axis is {length} but size "
                f"of corresponding boolean axis is {n}"
            )
    return [Selected(mask).indices()] if mask.ndim == 1 else list(nonzero(mask))
