"""Joining, splitting, padding and changing the length of arrays."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from operator import index
from typing import Any

import numpy as np

from vkcompute.arrays.algorithms import gather, selection
from vkcompute.arrays.algorithms.lines import Axis, axes_of, axis_of
from vkcompute.arrays.expressions.promotion import common
from vkcompute.arrays.expressions.ufunc import apply, astype
from vkcompute.arrays.functions import reductions
from vkcompute.arrays.functions.creation import Casting, asarray
from vkcompute.arrays.functions.manipulation import concat, flip, moveaxis, ravel, reshape, swapaxes
from vkcompute.arrays.functions.operands import on_device
from vkcompute.arrays.functions.reductions import max, mean, min
from vkcompute.arrays.functions.statistics import median
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.layout import checked_shape
from vkcompute.runtime.runtime import runtime_of


def _each(arrays: Sequence[Array], least: int) -> Any:
    """Returns arrays with at least this number of axes, as NumPy's atleast functions place them."""
    results = [_padded_shape(array, least) for array in arrays]
    return results[0] if len(results) == 1 else tuple(results)


def _padded_shape(x: Array, least: int) -> Array:
    if x.ndim >= least:
        return x
    if least == 3 and x.ndim:
        return reshape(x, (1, x.size, 1) if x.ndim == 1 else (*x.shape, 1))
    return reshape(x, (1,) * (least - x.ndim) + x.shape)


def atleast_1d(*arrays: Array) -> Any:
    """Returns arrays with at least one axis."""
    return _each(arrays, 1)


def atleast_2d(*arrays: Array) -> Any:
    """Returns arrays with at least two axes; a vector becomes a row."""
    return _each(arrays, 2)


def atleast_3d(*arrays: Array) -> Any:
    """Returns arrays with at least three axes; a vector gets the second one."""
    return _each(arrays, 3)


def vstack(tup: Sequence[Array], *, dtype: Any = None, casting: Casting = "same_kind") -> Array:
    """Returns arrays joined along the first axis; vectors are rows."""
    return concat([_padded_shape(array, 2) for array in tup], 0, dtype=dtype, casting=casting)


def hstack(tup: Sequence[Array], *, dtype: Any = None, casting: Casting = "same_kind") -> Array:
    """Returns arrays joined along the second axis, vectors along the first."""
    parts = [_padded_shape(array, 1) for array in tup]
    return concat(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype=dtype, casting=casting)


def dstack(tup: Sequence[Array]) -> Array:
    """Returns arrays joined along the third axis."""
    return concat([_padded_shape(array, 3) for array in tup], 2)


def column_stack(tup: Sequence[Array]) -> Array:
    """Returns arrays joined along the second axis; vectors are columns."""
    return concat([array if array.ndim > 1 else reshape(array, (array.size, 1)) for array in tup], 1)


def block(arrays: Any) -> Array:
    """Returns blocks joined: the innermost lists along the last axis, the next along the one before.

    Raises:
        ValueError: a list is empty, or the lists are nested to different depths.
    """
    leaves = [*_leaves(arrays)]
    depths = {depth for depth, _ in leaves}
    if len(depths) > 1 or any(isinstance(leaf, list) for _, leaf in leaves):
        raise ValueError(f"block takes lists of one depth, none of them empty; got the depths {sorted(depths)}")
    (depth,) = depths
    given = on_device("block", [leaf for _, leaf in leaves])
    runtime = runtime_of(next(array for array in given if type(array) is Array))
    arrays_of_leaves = {
        id(leaf): asarray(array, device=runtime) for (_, leaf), array in zip(leaves, given, strict=True)
    }
    least = builtins.max(depth, *[array.ndim for array in arrays_of_leaves.values()])
    joined = _joined(arrays, arrays_of_leaves, depth, least)
    return joined if depth else joined.copy()


def _leaves(arrays: Any, depth: int = 0) -> Iterator[tuple[int, Any]]:
    """Yields the blocks in nested lists, and empty lists, with their depth. Raises TypeError for a tuple."""
    if isinstance(arrays, tuple):
        raise TypeError("block takes nested lists; got a tuple; write a list")
    if not isinstance(arrays, list) or not arrays:
        yield depth, arrays
        return
    for part in arrays:
        yield from _leaves(part, depth + 1)


def _joined(arrays: Any, arrays_of_leaves: Mapping[int, Array], depth: int, least: int) -> Array:
    if not isinstance(arrays, list):
        leaf = arrays_of_leaves[id(arrays)]
        return reshape(leaf, (1,) * (least - leaf.ndim) + leaf.shape)
    return concat([_joined(part, arrays_of_leaves, depth - 1, least) for part in arrays], -depth)


def array_split(ary: Array, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Returns views of parts along an axis.

    Args:
        indices_or_sections: the number of parts, whose lengths differ by at most 1; or the ends of all but the last.
    """
    at = axis_of("array_split", ary.ndim, axis)
    n = ary.shape[at]
    if np.ndim(indices_or_sections) == 0:
        sections = _integer("array_split", indices_or_sections)
        if not 1 <= sections <= _MOST_PARTS:
            raise ValueError(f"an array is split into 1 to {_MOST_PARTS:,} parts; got {sections}")
        ends = [n // sections * (k + 1) + builtins.min(k + 1, n % sections) for k in range(sections)][:-1]
    else:
        ends = [_integer("array_split", end) for end in indices_or_sections]
    edges = [0, *ends, n]
    return [ary[(slice(None),) * at + (slice(edges[k], edges[k + 1]),)] for k in range(len(edges) - 1)]


_MOST_PARTS = 1 << 24


def _integer(name: str, value: Any) -> int:
    """Returns a number of parts, or the end of one, as an int; raises TypeError if it is none."""
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name} takes an integer number of parts, or integers as their ends; got {value!r}") from None


def split(ary: Array, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Returns views of parts along an axis; a number of parts divides its length.

    Raises:
        ValueError: it does not.
    """
    at = axis_of("split", ary.ndim, axis)
    if np.ndim(indices_or_sections) == 0 and ary.shape[at] % (_integer("split", indices_or_sections) or 1):
        raise ValueError(f"{ary.shape[at]} elements are not {indices_or_sections} equal parts; use array_split")
    return array_split(ary, indices_or_sections, at)


def hsplit(ary: Array, indices_or_sections: Any) -> list[Array]:
    """Returns views of parts along the second axis, of a vector along the first."""
    return split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


def vsplit(ary: Array, indices_or_sections: Any) -> list[Array]:
    """Returns views of parts along the first axis of an array with two axes or more."""
    if ary.ndim < 2:
        raise ValueError(f"vsplit takes an array of two axes or more; got {ary.ndim}")
    return split(ary, indices_or_sections, 0)


def dsplit(ary: Array, indices_or_sections: Any) -> list[Array]:
    """Returns views of parts along the third axis."""
    if ary.ndim < 3:
        raise ValueError(f"dsplit takes an array of three axes or more; got {ary.ndim}")
    return split(ary, indices_or_sections, 2)


def append(arr: Array, values: Any, axis: int | None = None) -> Array:
    """Returns an array joined with values along an axis, or both flattened."""
    return concat([arr, _like(values, arr)], axis)


_PYTHON = {"b": bool, "i": int, "f": float, "c": complex}


def _like(values: Any, x: Array) -> Array:
    """Returns values as an array; Python numbers adapt to the dtype of `x`."""
    if type(values) is Array:
        return values
    kind = None if hasattr(values, "dtype") else _PYTHON.get(np.asarray(values).dtype.kind)
    return asarray(values, kind and common(x.runtime, [x.dtype, kind]), device=x.runtime)


def delete(arr: Array, obj: Any, axis: int | None = None) -> Array:
    """Returns an array without the elements at indices along an axis, or of the flattened array.

    Args:
        obj: an int, a slice, indices or a mask.

    Raises:
        IndexError: an index is out of range.
    """
    x, at = (ravel(arr), 0) if axis is None else (arr, axis_of("delete", arr.ndim, axis))
    chosen = obj.numpy() if type(obj) is Array else [*obj] if isinstance(obj, tuple) else obj
    _refuse_truth("delete", chosen)
    if not (isinstance(chosen, (slice, list)) or np.asarray(chosen).dtype.kind in "iub"):
        raise IndexError(f"delete takes integers as indices, a slice or a mask; got {chosen!r}")
    kept = np.ones(x.shape[at], np.bool_)
    kept[np.asarray(chosen, np.intp) if isinstance(chosen, list) and not chosen else chosen] = False
    return _taken(x, np.flatnonzero(kept), at)


def _refuse_truth(name: str, chosen: Any) -> None:
    """Raises ValueError for one bool: it is neither an index nor a mask of elements."""
    if np.ndim(chosen) == 0 and isinstance(np.asarray(chosen)[()], np.bool_):
        raise ValueError(f"{name} takes indices, or a mask with a bool per element; got {chosen}")


def _taken(x: Array, indices: Any, axis: int) -> Array:
    return gather.take(x, asarray(indices.astype(np.int32), device=x.runtime), axis)


def insert(arr: Array, obj: Any, values: Any, axis: int | None = None) -> Array:
    """Returns an array with values inserted before indices along an axis, or of the flattened array.

    Args:
        obj: an int, a slice, indices or a mask; they count in `arr`.

    Raises:
        IndexError: an index is out of range.
    """
    x, at = (ravel(arr), 0) if axis is None else (arr, axis_of("insert", arr.ndim, axis))
    n = x.shape[at]
    given = obj.numpy() if type(obj) is Array else obj
    _refuse_truth("insert", given)
    indices = np.arange(n)[given] if isinstance(given, slice) else np.asarray(given)
    if indices.size and indices.dtype.kind not in "iub":
        raise IndexError(f"insert takes integers as indices, or a mask; got {indices.dtype}")
    indices = np.flatnonzero(indices) if indices.dtype == np.bool_ else indices.astype(np.intp)
    if indices.size and not (-n <= np.min(indices) and np.max(indices) <= n):
        raise IndexError(f"insert takes indices from {-n} to {n} along axis {at}; got {obj}")
    flat = np.atleast_1d(np.where(indices < 0, indices + n, indices))
    new = astype(_like(values, x), x.dtype)
    if flat.size == 1:  # before one index, any number of values is inserted
        new = reshape(new, (1,) * (x.ndim - new.ndim) + new.shape)
        new = moveaxis(new, 0, at) if indices.ndim == 0 else new
        flat = np.repeat(flat, new.shape[at])
    lengths = (*x.shape[:at], flat.size, *x.shape[at + 1 :])
    joined = concat([x, new.broadcast_to(lengths).copy()], at)
    source = np.insert(np.arange(n), flat, n + np.arange(flat.size))
    return _taken(joined, source, at)


def resize(a: Array, new_shape: int | tuple[int, ...]) -> Array:
    """Returns the elements in another shape, repeated or cut off as needed."""
    shape = checked_shape(new_shape)
    n = int(np.prod(shape, dtype=np.int64))
    if not a.size:
        return runtime_of(a).full(shape, a.dtype.type(0), a.dtype)
    return gather.take(ravel(a), asarray(np.arange(n, dtype=np.int32), device=a.runtime), None, "wrap").reshape(shape)


def trim_zeros(filt: Array, trim: str = "fb", axis: Axis = None) -> Array:
    """Returns a view without the zeros at the front and back of axes, by default of all; waits for their numbers."""
    if not isinstance(trim, str) or trim.lower() not in ("f", "b", "fb", "bf"):
        raise ValueError(f'trim is "f" for the front, "b" for the back, or "fb"; got {trim!r}')
    axes, whole = axes_of("trim_zeros", filt.ndim, axis), range(filt.ndim)
    ends = [slice(None)] * filt.ndim
    for at in axes:
        nonzero = selection.flatnonzero(reductions.any(filt, axis=tuple([k for k in whole if k != at]))).numpy()
        first = int(nonzero[0]) if nonzero.size and "f" in trim.lower() else 0
        last = int(nonzero[-1]) + 1 if nonzero.size and "b" in trim.lower() else filt.shape[at]
        ends[at] = slice(first, last) if nonzero.size else slice(0, 0)
    return filt[tuple(ends)]


def fliplr(m: Array) -> Array:
    """Returns a view with the columns in reverse order."""
    if m.ndim < 2:
        raise ValueError(f"fliplr takes an array of two axes or more; got {m.ndim}")
    return flip(m, 1)


def flipud(m: Array) -> Array:
    """Returns a view with the rows in reverse order."""
    return flip(m, 0)


def rot90(m: Array, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Returns a view turned by 90 degrees k times, in the plane of two axes, from the first to the second."""
    one, other = axes_of("rot90", m.ndim, tuple(axes))
    k %= 4
    if k == 0:
        return m[...]
    if k == 2:
        return flip(m, (one, other))
    return swapaxes(flip(m, other), one, other) if k == 1 else flip(swapaxes(m, one, other), other)


def rollaxis(a: Array, axis: int, start: int = 0) -> Array:
    """Returns a view with an axis moved before another; `moveaxis` is clearer."""
    at = axis_of("rollaxis", a.ndim, axis)
    start += a.ndim if start < 0 else 0
    if not 0 <= start <= a.ndim:
        raise ValueError(f"rollaxis takes start from {-a.ndim} to {a.ndim}; got {start}")
    return moveaxis(a, at, start - 1 if at < start else start)


_PADDED_WITH: dict[str, Any] = {"maximum": max, "minimum": min, "mean": mean, "median": median}


def pad(array: Array, pad_width: Any, mode: str = "constant", **options: Any) -> Array:
    """Returns an array with elements added before and after along axes.

    Args:
        pad_width: a number, (before, after), a pair per axis, or a dict of axes to these.
        mode: constant, edge, reflect, symmetric, wrap, linear_ramp, maximum, minimum, mean, median or empty.
        options: `constant_values`, `end_values`, `stat_length`; `reflect_type`, "even" or "odd".

    Raises:
        ValueError: a width is negative, or a mode or option is unknown.
    """
    widths = _widths(pad_width, array.ndim)
    for name in {"constant_values", "end_values"} & options.keys():
        if np.asarray(options[name]).dtype.kind not in "biufc":
            raise TypeError(f"pad takes numbers as {name}; got {options[name]!r}")
    allowed = {"constant": "constant_values", "linear_ramp": "end_values", "reflect": "reflect_type",
               "symmetric": "reflect_type", **dict.fromkeys(_PADDED_WITH, "stat_length")}.get(mode)  # fmt: skip
    if set(options) - {allowed} or options.get("reflect_type", "even") not in ("even", "odd"):
        raise ValueError(f"pad with the mode {mode!r} takes {allowed or 'no option'}; got {options}")
    if options.get("reflect_type") == "odd":
        return _mirrored(array, widths, mode)
    if mode in ("edge", "reflect", "symmetric", "wrap"):
        return _picked(array, widths, mode)
    for axis, width in enumerate(widths):
        if any(width):
            array = concat(_parts(array, axis, width, mode, options), axis)
    return array if any(map(any, widths)) else array.copy()


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        widths = np.zeros((ndim, 2), np.int64)
        for axis, width in pad_width.items():
            widths[axis] = width
    else:
        widths = np.broadcast_to(np.asarray(pad_width), (ndim, 2))
    if widths.dtype.kind not in "iu":
        raise TypeError(f"widths of padding are ints; got {pad_width!r}")
    if (widths < 0).any():
        raise ValueError(f"widths of padding are not negative; got {pad_width!r}")
    return [(int(before), int(after)) for before, after in widths]


def _picked(x: Array, widths: list[tuple[int, int]], mode: str) -> Array:
    """Returns elements of the array itself, at indices that NumPy's pad gives."""
    for axis, width in enumerate(widths):
        n = x.shape[axis]
        if any(width) and not n:
            raise ValueError(f"an axis without elements is padded with constants; got the mode {mode!r}, axis {axis}")
        if any(width):
            chosen: Any = mode
            x = _taken(x, np.pad(np.arange(n), width, chosen), axis)
    return x.copy() if not any(map(any, widths)) else x


def _mirrored(x: Array, widths: list[tuple[int, int]], mode: str) -> Array:
    """Returns an array reflected at points: an element outside is twice the element of the edge, less its mirror image.

    Padding longer than the array takes several reflections, each of the array with its padding so far, as in NumPy.
    """
    for axis, (before, after) in enumerate(widths):
        n, offset = x.shape[axis], int(mode == "reflect")
        if n < 2 and (before or after):  # as NumPy
            x = _picked(x, [(before, after) if k == axis else (0, 0) for k in range(x.ndim)], "edge")
            continue
        while before or after:
            period = n - offset
            known = (x.shape[axis] - offset) // period * period  # whole periods
            left, right, length = builtins.min(known, before), builtins.min(known, after), x.shape[axis]
            ends = [(0, np.arange(left)[::-1] + offset), (length - 1, length - 1 - offset - np.arange(right))]
            added = [
                apply("subtract", apply("multiply", _taken(x, np.array([edge]), axis), 2), _taken(x, at, axis))
                for edge, at in ends
            ]
            x = concat([added[0], x, added[1]], axis=axis)
            before, after = before - left, after - right
    return x if any(map(any, widths)) else x.copy()


def _parts(x: Array, axis: int, width: tuple[int, int], mode: str, options: dict[str, Any]) -> list[Array]:
    """Returns an array between its padding along an axis."""
    shapes = [(*x.shape[:axis], n, *x.shape[axis + 1 :]) for n in width]
    runtime = runtime_of(x)
    if mode in ("constant", "empty"):
        values = np.broadcast_to(np.asarray(options.get("constant_values", 0)), (x.ndim, 2))[axis]
        ends = [
            runtime.full(shape, value.astype(x.dtype)[()], x.dtype) for shape, value in zip(shapes, values, strict=True)
        ]
    elif mode == "linear_ramp":
        values = np.broadcast_to(np.asarray(options.get("end_values", 0)), (x.ndim, 2))[axis]
        ends = [
            _ramp(x, axis, n, float(value), is_last) for n, value, is_last in zip(width, values, (0, 1), strict=True)
        ]
    elif mode in _PADDED_WITH:
        given = options.get("stat_length")
        lengths = np.broadcast_to(np.asarray(x.shape[axis] if given is None else given), (x.ndim, 2))[axis]
        if lengths.dtype.kind not in "iuO" or (lengths < 1).any() or not x.shape[axis]:
            raise ValueError(
                f"pad takes statistics of at least 1 element; got stat_length={given}, axis of {x.shape[axis]}"
            )
        ends = [_statistic(x, axis, mode, int(n), is_last).broadcast_to(shape).copy()
                for shape, n, is_last in zip(shapes, lengths, (0, 1), strict=True)]  # fmt: skip
    else:
        modes = "constant, edge, reflect, symmetric, wrap, linear_ramp, maximum, minimum, mean, median, empty"
        raise ValueError(f"the mode of pad is one of {modes}; got {mode!r}")
    return [ends[0], x, ends[1]]


def _statistic(x: Array, axis: int, mode: str, n: int, is_last: int) -> Array:
    total = x.shape[axis]
    n = builtins.min(n, total)
    part = x[(slice(None),) * axis + (slice(total - n, total) if is_last else slice(0, n),)]
    statistic = _PADDED_WITH[mode](part, axis, keepdims=True)
    return astype(apply("rint", statistic) if x.dtype.kind in "iu" else statistic, x.dtype)


def _ramp(x: Array, axis: int, n: int, end: float, is_last: int) -> Array:
    """Returns elements from `end` to the edge of an array, without the edge itself."""
    edge = x[(slice(None),) * axis + (slice(-1, None) if is_last else slice(0, 1),)]
    shape = [1] * x.ndim
    shape[axis] = n
    share = np.arange(n, dtype=np.float32 if x.dtype.itemsize < 8 else np.float64) / builtins.max(n, 1)
    weight = asarray((share[::-1] if is_last else share).reshape(shape), device=x.runtime)
    wide = edge if x.dtype.kind == "c" else astype(edge, share.dtype)
    ramp = apply("add", apply("multiply", apply("subtract", wide, end), weight), end)
    return astype(apply("floor", ramp) if x.dtype.kind in "iu" else ramp, x.dtype)
