"""Arrays as lines along one axis, and what the algorithms on them share: copies, indices, launches.

The elements of (n_rows, n, n_columns), in row-major order, are n_rows * n_columns lines of n elements each.
"""

from __future__ import annotations

from math import prod
from operator import index
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms.binding_limits import exceeds_bindings
from vkcompute.arrays.algorithms.transposition import copy_transposed
from vkcompute.errors import MissingFeature
from vkcompute.jit.elementwise.dispatch import halves
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.kernel import PythonKernel, kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.memory.view import copy_view
from vkcompute.runtime.tuning import tuning_of

Axis = int | tuple[int, ...] | None
LOCAL_SIZE = 64
_MOST_ITEMS = 2**31 - 2**16
"""IDs of whole workgroups, in a wrapped grid too, do not exceed int32."""
_CPU_PARTS, _SHORTEST_PART = 512, 32
_identity = Elementwise("x")
add = Elementwise("x + n", "x, n")


class Lines(NamedTuple):
    """The lengths of an array: before an axis, along it, and after it."""

    n_rows: int
    n: int
    n_columns: int


def axes_of(name: str, ndim: int, axis: Axis) -> tuple[int, ...]:
    """Returns axes, counted from 0; all for None.

    Raises:
        TypeError: `axis` is not an int, a tuple of ints or None.
        ValueError: an axis is out of range, or repeated.
    """
    if axis is None:
        return tuple(range(ndim))
    try:
        given = [_not_bool(value) for value in (axis if isinstance(axis, tuple) else (axis,))]
    except TypeError:
        raise TypeError(f"{name}: axis is an int, a tuple of ints, or None for all; got {axis!r}") from None
    axes = tuple([value + ndim if value < 0 else value for value in given])
    for at in axes:
        if not 0 <= at < ndim:
            raise np.exceptions.AxisError(f"{name}: an array of {ndim} axes has axes {-ndim} to {ndim - 1}; got {axis}")
    if len(set(axes)) < len(axes):
        raise ValueError(f"{name}: each axis is given once; got {axis!r}")
    return axes


def reduced_axes(name: str, ndim: int, axis: Axis) -> tuple[int, ...]:
    """Returns the axes of a reduction as `axes_of`; an array of shape () takes the axes 0 and -1, too, as in NumPy."""
    return () if ndim == 0 and type(axis) is int and axis in (0, -1) else axes_of(name, ndim, axis)


def axis_of(name: str, ndim: int, axis: Any) -> int:
    """Returns an axis, counted from 0.

    Raises:
        TypeError: `axis` is not an int.
        ValueError: it is out of range.
    """
    try:
        return axes_of(name, ndim, _not_bool(axis))[0]
    except TypeError:
        raise TypeError(f"{name}: axis is an int; got {axis!r}") from None


def _not_bool(axis: Any) -> int:
    """Returns an axis as an int; raises TypeError for others, also for a bool, which was meant for another argument."""
    if isinstance(axis, bool):
        raise TypeError
    return index(axis)


def lines_along(shape: tuple[int, ...], axis: int) -> Lines:
    """Returns the lines along an axis, which counts from 0."""
    return Lines(prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))


def contiguous(x: Array) -> Array:
    """Returns the array, or a copy if its elements are not in row-major order."""
    return x if x.contiguous else converted(x, x.dtype)


def flat(x: Array) -> Array:
    """Returns the elements in row-major order, along one axis."""
    return contiguous(x).reshape(-1) if x.size else temporary(x.runtime, 0, x.dtype)


def converted(x: Array, dtype: npt.DTypeLike) -> Array:
    """Returns a copy with elements of this dtype, as by NumPy's astype."""
    copy = temporary(x.runtime, x.shape, dtype)
    try:
        copy_into(x, copy)
    except MissingFeature:  # kernels on the device lack the dtype
        if copy.dtype != x.dtype:
            raise
        copy_view(x, copy)
    return copy


def copy_into(source: Array, out: Array) -> None:
    """Copies elements to an array or a view of the same shape, converted to its dtype."""
    by_blocks = tuning_of(out.runtime.device.physical).transposes_by_blocks
    if out.dtype.kind == "c" and out.size:
        _identity(source.real, out=out.real)
        _identity(source.imag, out=out.imag)
    elif out.size and not (by_blocks and copy_transposed(source, out)):
        _identity(source, out=out)


_IOTA_BLOCK = 8
"""Numbers that an invocation of `_iota` stores: adjacent ones are stored together."""


@kernel
def _iota(out: Any, n_items: int) -> None:
    first = global_id(0) * _IOTA_BLOCK
    if first + _IOTA_BLOCK <= n_items:
        for k in range(_IOTA_BLOCK):
            out[first + k] = first + k
    else:
        for i in range(first, n_items):
            out[i] = i


def iota(runtime: Context, n: int) -> Array:
    """Returns the int32 from 0 to `n` - 1."""
    out = temporary(runtime, n, np.int32)
    if n and exceeds_bindings(out):
        low, high = halves(n)
        copy_into(iota(runtime, low.stop), out[low])
        add(iota(runtime, n - low.stop), low.stop, out=out[high])
    else:
        launch(_iota, -(-n // _IOTA_BLOCK), out, n)
    return out


def part_length(n: int, longest: int) -> int:
    """Returns the number of elements that an invocation takes of `n`: few enough that all lanes of a CPU have work."""
    return min(longest, max(_SHORTEST_PART, n // _CPU_PARTS))


def launch(chosen: PythonKernel, n_items: int, *args: Any, local_size: int = LOCAL_SIZE) -> Any:
    """Launches a kernel with one invocation per item, rounded up to whole workgroups; returns the future, if any.

    Raises:
        ValueError: there are more items, or elements of an array, than the kernel's indices, which are int32, count.
    """
    n = max([n_items, *[arg.size for arg in args if type(arg) is Array]])
    if n > _MOST_ITEMS:
        rule = f"{chosen.__name__.strip('_')} takes at most {_MOST_ITEMS:,} elements"
        raise ValueError(f"{rule}; got {n:,}; pass parts of the array")
    return chosen[-(-n_items // local_size), local_size](*args) if n_items else None
