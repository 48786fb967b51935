"""Selection of elements by a condition: nonzero, compress, repeat.

The size of a result depends on the data, so these functions wait for its computation.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms.gather import gather, take, words
from vkcompute.arrays.algorithms.lines import (
    Lines,
    axis_of,
    contiguous,
    count_up,
    flat,
    launch,
    lines_along,
    part_length,
)
from vkcompute.arrays.algorithms.scans import cumulative
from vkcompute.arrays.algorithms.search import searchsorted
from vkcompute.arrays.expressions.promotion import default_int
from vkcompute.compiled.arguments import MOST_ELEMENTS
from vkcompute.jit.elementwise.elementwise import Elementwise
from vkcompute.jit.elementwise.reduction import reduce
from vkcompute.jit.kernel import PythonKernel, kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.graph import temporary
from vkcompute.runtime.memory.array import Array, empty_result
from vkcompute.runtime.tuning import tuning_of

_STEP = 4
"""Elements that are selected per iteration."""

_unraveled = Elementwise("at // stride % length", "at, stride, length")
_least = reduce("min(a, b)", 0)
_about = reduce("a + b", 0.0)


@kernel
def _count_parts(mask: Any, counts: Any, n_items: int, n: int, length: int) -> None:
    i = global_id(0)
    if i < n_items:
        first, count = i * length, 0
        for k in range(min(length, n - first)):
            count += 1 if mask[first + k] != 0 else 0
        counts[i] = count


class _Kernels(NamedTuple):
    elements: PythonKernel
    indices: PythonKernel


@cache
def _kernels(always_stores: bool) -> _Kernels:
    """Makes the kernels that store what a mask selects, those of each part from its start.

    The last selected value is stored again for elements that are not, where that takes less time than a branch.
    """

    @kernel
    def elements(mask: Any, starts: Any, x: Any, out: Any, n_items: int, n: int, length: int) -> None:
        i = global_id(0)
        if i < n_items:
            first, target, last = i * length, starts[i], starts[i + 1] - 1
            if target <= last:
                value, count = x[first], min(length, n - first)
                for start in range(0, count, _STEP):
                    for k in range(_STEP):
                        at = first + min(start + k, count - 1)
                        is_true, here = mask[at] != 0 and start + k < count, x[at]
                        value = here if is_true else value
                        if always_stores or is_true:
                            out[min(target, last)] = value
                        target += 1 if is_true else 0

    @kernel
    def indices(mask: Any, starts: Any, out: Any, n_items: int, n: int, length: int) -> None:
        i = global_id(0)
        if i < n_items:
            first, target, last = i * length, starts[i], starts[i + 1] - 1
            if target <= last:
                value, count = first, min(length, n - first)
                for start in range(0, count, _STEP):
                    for k in range(_STEP):
                        at = first + min(start + k, count - 1)
                        is_true = mask[at] != 0 and start + k < count
                        value = at if is_true else value
                        if always_stores or is_true:
                            out[min(target, last)] = value
                        target += 1 if is_true else 0

    return _Kernels(elements, indices)


class Selected:
    """The true elements of a mask, which are counted in parts.

    Attributes:
        count: number of true elements; the constructor waits for it.
    """

    def __init__(self, mask: Array) -> None:
        self._mask, self.count = flat(mask), 0
        tuning = tuning_of(mask.runtime.device.physical)
        self._length, self._kernels = part_length(mask.size, tuning.selection_part), _kernels(tuning.stores_unselected)
        self._n_parts = -(-mask.size // self._length)
        if mask.size:
            counts = temporary(mask.runtime, self._n_parts, np.int32)
            launch(_count_parts, self._n_parts, self._mask, counts, self._n_parts, mask.size, self._length)
            self._starts = cumulative(counts, "sum", 0, np.int32, include_initial=True)
            self.count = int(self._starts[-1])

    def indices(self, dtype: npt.DTypeLike = np.int32) -> Array:
        """Returns the indices of the true elements in row-major order, as integers."""
        out = empty_result(self._mask.runtime, self.count, dtype)
        if self.count:
            args = self._mask, self._starts, out, self._n_parts, self._mask.size, self._length
            launch(self._kernels.indices, self._n_parts, *args)
        return out

    def elements(self, x: Array) -> Array:
        """Returns the elements of an array with as many elements as the mask."""
        out = empty_result(x.runtime, self.count, x.dtype)
        if not self.count:
            return out
        (source, n_words), (target, _) = words(contiguous(x)), words(out)
        if n_words > 1:
            return gather(contiguous(x), self.indices(), Lines(1, x.size, 1), out)
        args = self._mask, self._starts, source, target, self._n_parts, x.size, self._length
        launch(self._kernels.elements, self._n_parts, *args)
        return out


def flatnonzero(x: Array) -> Array:
    """Returns the indices of elements other than 0 in the flattened array."""
    return Selected(x).indices(default_int(x.runtime))


def nonzero(x: Array) -> tuple[Array, ...]:
    """Returns the indices of elements other than 0 in row-major order, an array per axis, as NumPy's nonzero.

    Raises:
        ValueError: the array has no axes.
    """
    if not x.shape:
        raise ValueError("nonzero takes an array with axes; got one of shape (); reshape it to (1,)")
    if x.ndim == 1:
        return (flatnonzero(x),)
    indices, result = Selected(x).indices(), []
    for axis, n in enumerate(x.shape):
        out = empty_result(x.runtime, indices.shape, default_int(x.runtime))
        if indices.size:
            _unraveled(indices, lines_along(x.shape, axis).n_columns, n, out=out)
        result.append(out)
    return tuple(result)


def masked(x: Array, mask: Array) -> Array:
    """Returns the elements at which a mask of the same shape is true, in row-major order, as `x[mask]` of NumPy."""
    if mask.shape != x.shape:
        raise IndexError(f"a mask has the shape of the array; got {mask.shape} for {x.shape}")
    return Selected(mask).elements(x)


def compress(condition: Array, x: Array, axis: int | None = None) -> Array:
    """Returns the slices along an axis for which a condition is true, as NumPy's compress.

    Raises:
        ValueError: the condition has not one axis, or there is no such axis.
        IndexError: a condition is true beyond the end of the axis.
    """
    if condition.ndim != 1:
        raise ValueError(f"a condition has one axis; got the shape {condition.shape}")
    return take(x, Selected(condition).indices(), axis)


def repeat(x: Array, repeats: int | Array, axis: int | None = None) -> Array:
    """Returns the array with each element repeated, as NumPy's repeat; waits only if `repeats` is an array.

    Raises:
        ValueError: a number is negative, or the numbers are not one per element.
    """
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_of("repeat", x.ndim, axis)
    n, before, behind = x.shape[axis], x.shape[:axis], x.shape[axis + 1 :]
    if not isinstance(repeats, Array):
        if repeats < 0:
            raise ValueError(f"repeats may not contain negative values; got {repeats}")
        every = x.reshape((*before, n, 1, *behind)).broadcast_to((*before, n, repeats, *behind))
        return every.copy().reshape((*before, n * repeats, *behind))
    at = _repeated(repeats, n)
    out = empty_result(x.runtime, (*before, at.size, *behind), x.dtype)
    return gather(contiguous(x), at, lines_along(x.shape, axis), out)


def _repeated(repeats: Array, n: int) -> Array:
    """Returns the indices of elements that are repeated these numbers of times."""
    if repeats.ndim > 1 or repeats.size not in (1, n):
        raise ValueError(f"repeats are one number, or one per element ({n}); got the shape {repeats.shape}")
    if repeats.dtype.kind not in "iub":
        raise TypeError(f"repeats are integers; got {repeats.dtype}")
    counts = contiguous(repeats.broadcast_to((n,)))
    if not n:
        return temporary(repeats.runtime, 0, np.int32)
    if counts.dtype.kind == "i" and int(_least(counts)) < 0:
        raise ValueError("repeats may not contain negative values")
    about = float(_about(counts))
    if about > MOST_ELEMENTS * 0.999:
        raise ValueError(f"an array has at most {MOST_ELEMENTS:,} elements; repeats give about {about:,.0f}")
    ends = cumulative(counts, "sum", 0, np.int32)
    return searchsorted_counts(ends, int(ends[-1]))


def searchsorted_counts(ends: Array, total: int) -> Array:
    """Returns for each number below `total` the number of ends that are not greater."""
    return searchsorted(ends, count_up(ends.runtime, total), "right", dtype=np.dtype(np.int32))
