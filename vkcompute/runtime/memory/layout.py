"""Shapes and strides: views, contiguity, and the runs of contiguous bytes of a strided array. Arithmetic only."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from operator import index as to_int
from typing import Any

import numpy as np
import numpy.typing as npt

Shape = tuple[int, ...]


def lengths(shape: int | Sequence[int]) -> Shape:
    """Converts one length or several to a tuple; raises TypeError if one is not an integer."""
    try:
        if isinstance(shape, (bool, np.bool_, dict, set, str, bytes)):
            raise TypeError
        given = shape if type(shape) is tuple else tuple(shape) if np.iterable(shape) else (shape,)
        if bool in map(type, given):
            raise TypeError
        return tuple(map(to_int, given))
    except TypeError:
        raise TypeError(f"a shape is an integer or a tuple of integers; got {shape!r}") from None


def checked_shape(shape: int | Sequence[int]) -> Shape:
    """Converts one length or several to the shape of an array.

    Raises:
        TypeError: one is not an integer.
        ValueError: one is negative.
    """
    result = lengths(shape)
    if min(result, default=0) < 0:
        raise ValueError(f"the lengths of a shape are not negative; got {result}")
    return result


def contiguous_strides(shape: Shape, itemsize: int) -> Shape:
    """The strides of a C-contiguous array, in bytes."""
    strides = []
    step = itemsize
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


def is_contiguous(shape: Shape, strides: Shape, itemsize: int) -> bool:
    """Returns True if the elements are contiguous in C order; strides of axes of length 1 are ignored."""
    step = itemsize
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1:
            if stride != step:
                return 0 in shape
            step *= n
    return True


def extent(shape: Shape, strides: Shape, itemsize: int) -> tuple[int, int]:
    """The bytes [start, stop) of the elements, relative to the element at index 0, 0, …"""
    if 0 in shape:
        return 0, 0
    start, stop = 0, itemsize
    for n, stride in zip(shape, strides, strict=True):
        if stride < 0:
            start += (n - 1) * stride
        else:
            stop += (n - 1) * stride
    return start, stop


def view(shape: Shape, strides: Shape, index: Any) -> tuple[Shape, Shape, int]:
    """Returns shape, strides and offset in bytes of `array[index]`, for a basic index.

    Raises:
        IndexError: as in numpy.
    """
    key = index if isinstance(index, tuple) else (index,)
    n_given, n_rest = len(key) - key.count(None), len(shape)
    if (n_ellipses := key.count(Ellipsis)) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if (n_given := n_given - n_ellipses) > n_rest:
        raise IndexError(f"too many indices for array: array is {n_rest}-dimensional, but {n_given} were indexed")
    new_shape, new_strides, offset, axis = list[int](), list[int](), 0, 0
    for part in key if n_ellipses else (*key, Ellipsis):
        if part is None:
            new_shape.append(1)
            new_strides.append(0)
            continue
        if part is Ellipsis:
            end = axis + n_rest - n_given
            new_shape += shape[axis:end]
            new_strides += strides[axis:end]
            axis = end
            continue
        n, stride = shape[axis], strides[axis]
        if isinstance(part, slice):
            start, stop, step = part.indices(n)
            new_shape.append(len(range(start, stop, step)))
            new_strides.append(stride * step)
        elif -n <= (start := to_int(part)) < n:
            start %= n
        else:
            raise IndexError(f"index {part} is out of bounds for axis {axis} with size {n}")
        offset += start * stride
        axis += 1
    return tuple(new_shape), tuple(new_strides), offset


_INDICES = int, np.integer, slice


def is_basic(index: Any) -> bool:
    """Returns True if an index gives a view: ints, slices, `...` and None; a bool is a mask in numpy."""
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, bool) or not (part is None or part is Ellipsis or isinstance(part, _INDICES)):
            return False
    return True


def is_empty(index: Any) -> bool:
    """Returns True for `()`: of an array of shape (), the element itself."""
    return isinstance(index, tuple) and not index


def address(array: npt.NDArray[Any]) -> int:
    """The host address of the first element."""
    return int(array.__array_interface__["data"][0])


def shares_memory(array: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Returns True if two arrays have bytes in common, or if that takes too long to find out."""
    max_work: Any = 1000  # numpy's stubs differ between versions: some list only 0 and -1
    with contextlib.suppress(RuntimeError):  # numpy gave up
        return np.shares_memory(array, other, max_work=max_work)
    return True


def runs(shape: Shape, strides: Shape, itemsize: int) -> tuple[npt.NDArray[np.int64], int]:
    """The contiguous runs of an array: their offsets in bytes, in C order, and their common length."""
    length, axes = _run(shape, strides, itemsize)
    offsets = np.zeros((), np.int64)
    for n, stride in zip(shape[:axes], strides[:axes], strict=True):
        offsets = np.add.outer(offsets, np.arange(n, dtype=np.int64) * stride)
    return offsets.reshape(-1), length


def n_runs(shape: Shape, strides: Shape, itemsize: int) -> int:
    """The number of contiguous runs of an array."""
    return math.prod(shape[: _run(shape, strides, itemsize)[1]])


def _run(shape: Shape, strides: Shape, itemsize: int) -> tuple[int, int]:
    """The length of a contiguous run in bytes, and the number of axes across runs."""
    length, axes = itemsize, len(shape)
    while axes and (shape[axes - 1] == 1 or strides[axes - 1] == length):
        axes -= 1
        length *= shape[axes]
    return length, axes


def shares_elements(shape: Shape, strides: Shape, itemsize: int) -> bool:
    """Returns True if elements share bytes: an axis has a stride of 0, or one that is shorter than the axes within."""
    reach = itemsize
    for stride, n in sorted([(abs(stride), n) for n, stride in zip(shape, strides, strict=True) if n > 1]):
        if stride < reach:
            return True
        reach += stride * (n - 1)
    return False


def broadcast_strides(shape: Shape, strides: Shape, target: Shape) -> Shape:
    """The strides by which an array of `shape` is read as one of shape `target`, by numpy's rules.

    Raises:
        ValueError: `shape` does not broadcast to `target`.
    """
    missing = len(target) - len(shape)
    if missing < 0 or any(n not in (1, wanted) for n, wanted in zip(shape, target[missing:], strict=False)):
        raise ValueError(f"shape {shape} does not broadcast to {target}")
    kept = tuple(have if n == wanted else 0 for n, have, wanted in zip(shape, strides, target[missing:], strict=True))
    return (0,) * missing + kept


def permutation(n: int, axes: Sequence[int] | None) -> Shape:
    """The axes 0 to `n` - 1 in an order, by default reversed; negative ones count from the end.

    Raises:
        ValueError: they are not all of these axes, each once.
    """
    given = tuple(range(n))[::-1] if axes is None else tuple(to_int(axis) for axis in axes)
    order = tuple(axis + n if -n <= axis < 0 else axis for axis in given)
    if sorted(order) != list(range(n)):
        raise ValueError(f"transpose takes each of the axes 0 to {n - 1} once; got {given}")
    return order


def reshaped(size: int, shape: int | Sequence[int]) -> Shape:
    """`shape` with its -1 replaced by a length.

    Raises:
        ValueError: it does not have `size` elements, or has several -1.
    """
    wanted = lengths(shape)
    known = math.prod(n for n in wanted if n != -1)
    if wanted.count(-1) == 1 and known > 0 and size % known == 0:
        wanted = tuple(size // known if n == -1 else n for n in wanted)
    if min(wanted, default=0) < 0 or math.prod(wanted) != size:
        raise ValueError(
            f"an array of {size} elements takes shapes whose lengths have this product; got {tuple(wanted)}"
        )
    return wanted


def reshaped_strides(shape: Shape, strides: Shape, new: Shape) -> Shape | None:
    """Strides of the same elements, at least one, in another shape; None if there are none, so that they are copied."""
    runs: list[tuple[int, int]] = []  # axes of several elements that can be walked as one
    for n, step in zip(shape, strides, strict=True):
        if n > 1 and runs and runs[-1][1] == n * step:
            runs[-1] = runs[-1][0] * n, step
        elif n > 1:
            runs.append((n, step))
    steps, left, step = [], 1, strides[-1] if strides else 0
    for n in reversed(new):
        if n > 1 and left == 1:
            left, step = runs.pop()
        if left % n:
            return None
        steps.append(step)
        left, step = left // n, step * n
    return tuple(reversed(steps))
