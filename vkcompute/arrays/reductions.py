"""Reductions: sums, extremes and what is made of them.

The elements of a lazy array are computed where they are reduced, by the same kernel.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays import gather, lazy
from vkcompute.arrays.compute_plan import computed
from vkcompute.arrays.creation import asarray
from vkcompute.arrays.lines import Axis, axes_of, axis_of, count_up, reduced_axes
from vkcompute.arrays.promotion import (
    BOOL,
    accumulated,
    default_int,
    floating,
    kind_of,
    part_of,
    require_dtype,
    wide_float,
)
from vkcompute.arrays.ufunc import apply, assign, astype, dtype_with_out, joined, part, written
from vkcompute.arrays.ufunc import where as _where
from vkcompute.jit.elementwise.expression import Expression, Step
from vkcompute.jit.elementwise.reduction_launcher import ReduceLauncher
from vkcompute.jit.elementwise.stages import Stage
from vkcompute.operations import FUNCTIONS
from vkcompute.runtime.bounded_cache import BoundedCache
from vkcompute.runtime.graphs.graph import memory_of, recording_graph, temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of
from vkcompute.runtime.tuning import tuning_of

_launchers: BoundedCache[tuple[Any, ...], ReduceLauncher] = BoundedCache(1024)


def neutral(row: str, dtype: np.dtype[Any]) -> Any:
    """Returns the neutral element of a reduction, in a dtype."""
    return FUNCTIONS[row].neutral(dtype)


class LazyReduction:
    """A reduction whose result is computed later.

    Attributes:
        row: the name of its function in the registry.
        array: the array that is reduced.
        axes: the axes that are reduced; a tuple.
        dtype: the dtype in which elements are combined.
        readers, depth, signature: as of `Lazy`.
    """

    __slots__ = ("array", "axes", "depth", "dtype", "readers", "row", "signature")

    def __init__(self, row: str, array: Array, axes: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.row, self.array, self.axes, self.dtype = row, array, axes, dtype
        self.readers: list[Any] = []
        self.signature = row, axes, dtype.char
        expression: Any = array._expression
        self.depth: int = 1 if expression is None else 1 + expression.depth

    @property
    def operands(self) -> tuple[Array]:
        """The array that is reduced."""
        return (self.array,)

    def on(self, operands: Sequence[Any]) -> LazyReduction:
        """Returns the same reduction of another array of the same kind."""
        other = LazyReduction.__new__(LazyReduction)
        other.row, other.axes, other.dtype, other.signature = self.row, self.axes, self.dtype, self.signature
        other.depth, other.readers = self.depth, []
        if operands:
            (other.array,) = operands
        return other

    def compute(self, array: Array) -> Array:
        """Computes the elements of `array`. Requires the device's lock: others might compute what is reduced."""
        return computed(array, self._computed)

    def _computed(self, array: Array) -> Array:
        out = memory_of(array)
        if (flat := lazy.flattened_to_fit(self.array, out)) is not None:
            steps, args = tuple(flat.steps), flat.parameters
        else:
            steps, args = (), [self.array]
            if (graph := recording_graph(array.runtime.scheduler)) is not None:
                graph.require_unchanged(array, args)
        kept = out.ndim == self.array.ndim and bool(self.axes)
        launcher = _launcher(self.row, self.dtype, steps, len(args))
        launcher(tuple(args), {}, self.axes, out, kept, self.dtype)
        return out

    def stages(self) -> list[Stage]:
        """Returns the stages in which the elements are computed."""
        launcher = _launcher(self.row, self.dtype, (), 1)
        return launcher.stages(self.array, frozenset(self.axes))


def _launcher(row: str, dtype: np.dtype[Any], steps: tuple[Step, ...], n: int) -> ReduceLauncher:
    key = row, dtype, steps
    launcher = _launchers.get(key)
    if launcher is None:
        combine = Expression(2, ((row, dtype.name, (0, 1)),))
        transform = Expression(n, steps or (("astype", "", (0,)),))
        launcher = _launchers[key] = ReduceLauncher(combine, neutral(row, dtype), transform, commutes=True)
    return launcher


def reduce(row: str, array: Array, axes: tuple[int, ...], dtype: np.dtype[Any], keepdims: bool) -> Array:
    """Returns the lazy reduction of an array along axes, given as by `axes_of`, in a dtype."""
    dtype = require_dtype(array.runtime, dtype, row)
    if dtype.kind == "c":
        return _complex(row, astype(array, dtype) if array.dtype != dtype else array, axes, keepdims)
    if array.dtype.kind in "bc":
        array = astype(array, dtype)
    else:
        require_dtype(array.runtime, array.dtype, row)
    shape = tuple([1 if at in axes else n for at, n in enumerate(array.shape) if keepdims or at not in axes])
    expression = LazyReduction(row, array, axes, dtype)
    if expression.depth > lazy.MOST_DEPTH:
        array.compute()
        expression.depth = 1
    return lazy.pending(array.runtime, shape, dtype, expression, (array,))


def _complex(row: str, array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Returns the reduction of a complex array: of its parts, or for a product of both halves of an axis."""
    if row == "add":
        one, other = (reduce(row, part(name, array), axes, part_of(array.dtype), keepdims) for name in ("real", "imag"))
        return joined(one, other)
    if row != "multiply":
        return _complex_extreme(row, array, axes, keepdims)
    if builtins.all(array.shape[at] == 1 for at in axes):
        array = array.copy()
    for at in axes:
        array = _product(array, at)
    return array if keepdims else array[tuple([0 if at in axes else slice(None) for at in range(array.ndim)])]


def _complex_extreme(row: str, array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Returns the first NaN, or else the first extreme, along axes of a complex array."""
    rest = tuple([at for at in range(array.ndim) if at not in axes])
    shape = tuple([1 if at in axes else n for at, n in enumerate(array.shape) if keepdims or at not in axes])
    n = math.prod([array.shape[at] for at in axes])
    if not n:
        return temporary(array.runtime, shape, array.dtype).fill(neutral(row, array.dtype))
    lines = array.transpose((*rest, *axes)).reshape((*[array.shape[at] for at in rest], n))
    return gather.take_along_axis(lines, _first(_hits(row, lines, lines.ndim - 1), lines.ndim - 1, True), -1).reshape(
        shape
    )


def _hits(row: str, array: Array, axis: int) -> Array:
    """Returns True for elements that equal the extreme along an axis; for NaN alone if the axis has one."""
    if array.dtype.kind != "c":
        hit = apply("equal", array, reduce(row, array, (axis,), array.dtype, True))
        return apply("logical_or", hit, apply("isnan", array)) if array.dtype.kind == "f" else hit
    real, imag, is_nan = part("real", array), part("imag", array), apply("isnan", array)
    worst = neutral(row, real.dtype)
    hit = apply("equal", real, reduce(row, _where(is_nan, math.nan, real), (axis,), real.dtype, True))
    imag = _where(hit, imag, worst)
    hit = apply("logical_and", hit, apply("equal", imag, reduce(row, imag, (axis,), real.dtype, True)))
    return apply("logical_or", hit, is_nan)


def _first(hit: Array, axis: int, keepdims: bool) -> Array:
    """Returns the place of the first True along an axis, in int32."""
    n = hit.shape[axis]
    indices = _where(hit, _counting(hit, axis, n), np.int32(n))
    return reduce("minimum", indices, (axis,), np.dtype(np.int32), keepdims)


def _product(array: Array, axis: int) -> Array:
    """Returns the product along an axis, which is kept, as a tree."""
    if not array.shape[axis]:
        shape = (*array.shape[:axis], 1, *array.shape[axis + 1 :])
        return temporary(array.runtime, shape, array.dtype).fill(array.dtype.type(1))
    while (n := array.shape[axis]) > 1:
        half, rest = n // 2, _slice(array, axis, n - n % 2, None)
        array = apply("multiply", _slice(array, axis, 0, half), _slice(array, axis, half, 2 * half))
        if n % 2:
            first = _slice(array, axis, 0, 1)
            assign(first, apply("multiply", first, rest), fresh=True)
    return array


def _slice(array: Array, axis: int, start: int, stop: int | None) -> Array:
    return array[(slice(None),) * axis + (slice(start, stop),)]


def checked(name: str, array: Any) -> Array:
    if type(array) is not Array:
        kind_of(array)
        raise TypeError(f"{name} takes a device array; got {type(array).__name__}; make one with gpu.array(x)")
    return array


def _accumulated(array: Array, dtype: npt.DTypeLike | None, out: Array | None) -> np.dtype[Any]:
    """Returns the dtype in which a sum or product is computed."""
    return dtype_with_out(array.runtime, dtype, out, array.dtype) or accumulated(array.runtime, array.dtype)


def mask_of(condition: Any, array: Array) -> Any:
    """Returns the mask of a reduction on the device, or True for all elements; raises TypeError if it has no bools."""
    if condition is True:
        return True
    mask = asarray(condition, device=array.runtime)
    if mask.dtype != BOOL:
        raise TypeError(f"where= takes bools; got {mask.dtype}; compare first, as x != 0")
    return mask


def chosen(array: Array, condition: Any, row: str, dtype: np.dtype[Any]) -> Array:
    """Returns an array with the neutral element of a reduction where a condition is false.

    Raises:
        ValueError: the condition does not broadcast to the array.
    """
    condition = mask_of(condition, array)
    if condition is True:
        return array
    selected = _where(condition, astype(array, dtype), neutral(row, dtype))
    if selected.shape != array.shape:
        raise ValueError(f"where= broadcasts to the array's shape {array.shape}; got one of shape {condition.shape}")
    return selected


def _started(reduced: Array, row: str, initial: Any) -> Array:
    """Returns a reduction combined with an initial value, in its dtype."""
    return reduced if initial is None else apply(row, reduced, reduced.dtype.type(initial))


def sum(
    a: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, initial: Any = None, where: Any = True,
) -> Array:  # fmt: skip
    """Returns the sum along axes. Bools and integers are summed in at least the default integer, unless `out` is given.

    Args:
        dtype: of the sum; by default the common one of the array and `out`.
        initial: a number that is added, in that dtype.
        where: a bool array; elements where it is false are left out.
    """
    a = checked("sum", a)
    axes, wide = reduced_axes("sum", a.ndim, axis), _accumulated(a, dtype, out)
    total = reduce("add", chosen(a, where, "add", wide), axes, wide, keepdims)
    return written(_started(total, "add", initial), out)


def prod(
    a: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, initial: Any = None, where: Any = True,
) -> Array:  # fmt: skip
    """Returns the product along axes, in the dtype of a sum; `initial` and `where` as of `sum`."""
    a = checked("prod", a)
    axes, wide = reduced_axes("prod", a.ndim, axis), _accumulated(a, dtype, out)
    total = reduce("multiply", chosen(a, where, "multiply", wide), axes, wide, keepdims)
    return written(_started(total, "multiply", initial), out)


def extreme(
    row: str, array: Array, axis: Axis, dtype: npt.DTypeLike | None, out: Array | None, keepdims: bool,
    initial: Any = None, where: Any = True,
) -> Array:  # fmt: skip
    """Returns the largest or smallest element along axes, as of a dtype.

    Args:
        row: "maximum" or "minimum".
        dtype: by default the common one of the array and `out`.

    Raises:
        ValueError: there are no elements and no `initial`, or there is a condition and no `initial`.
    """
    name = row[:3]
    array = checked(name, array)
    axes = reduced_axes(name, array.ndim, axis)
    if initial is None and not all_axes_have_elements(array, axes):
        raise ValueError(f"{name} of no elements; the array has shape {array.shape}")
    if initial is None and where is not True:
        raise ValueError(f"{name} with where= needs initial=, the result for no elements")
    dtype = dtype_with_out(array.runtime, dtype, out, array.dtype) or array.dtype
    wide = np.dtype(np.int32) if dtype == BOOL else dtype
    array = astype(array, dtype) if dtype != array.dtype else array
    array = chosen(astype(array, wide) if wide != dtype else array, where, row, wide)
    initial = initial if initial is None or dtype != BOOL else bool(initial)
    result = _started(reduce(row, array, axes, wide, keepdims), row, initial)
    return written(astype(result, BOOL) if dtype == BOOL else result, out)


def all_axes_have_elements(array: Array, axes: Sequence[int]) -> bool:
    """True if no axis has the length 0."""
    return builtins.all(array.shape[at] > 0 for at in axes)


def max(
    a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Array:  # fmt: skip
    """Returns the largest element along axes; NaN if there is one. `initial` and `where` as of `sum`."""
    return extreme("maximum", a, axis, None, out, keepdims, initial, where)


def min(
    a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Array:  # fmt: skip
    """Returns the smallest element along axes; NaN if there is one. `initial` and `where` as of `sum`."""
    return extreme("minimum", a, axis, None, out, keepdims, initial, where)


def _truth(row: str, name: str, array: Array, axis: Axis, out: Array | None, keepdims: bool, condition: Any) -> Array:
    array = checked(name, array)
    array = chosen(array, condition, row, BOOL)
    axes, counted = reduced_axes(name, array.ndim, axis), astype(astype(array, BOOL), np.int32)
    return written(astype(reduce(row, counted, axes, counted.dtype, keepdims), BOOL), out)


def all(a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False, *, where: Any = True) -> Array:
    """Returns True where all elements along axes are true, or there are none."""
    return _truth("multiply", "all", a, axis, out, keepdims, where)


def any(a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False, *, where: Any = True) -> Array:
    """Returns True where an element along axes is true."""
    return _truth("bitwise_or", "any", a, axis, out, keepdims, where)


def refuse(condition: Array, error: Exception) -> None:
    """Raises an error where a condition is true, for which it waits; not in a recording, which is computed later."""
    if recording_graph(condition.runtime.scheduler) is None and bool(any(condition)):
        raise error


def count_nonzero(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Returns the number of elements along axes that are not zero, in the default integer."""
    a = checked("count_nonzero", a)
    axes, dtype = reduced_axes("count_nonzero", a.ndim, axis), default_int(a.runtime)
    return reduce("add", astype(astype(a, BOOL), dtype), axes, dtype, keepdims)


def dtype_of_mean(array: Array, dtype: npt.DTypeLike | None, out: Array | None) -> np.dtype[Any]:
    """Returns the dtype in which a mean or a variance is computed: a float one, unless another is given."""
    own = floating(array.dtype)
    return dtype_with_out(array.runtime, dtype, out, own) or own


def mean(
    a: Array, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, *, where: Any = True,
) -> Array:  # fmt: skip
    """Returns the mean along axes, in the array's float dtype or the default one; NaN for no elements.

    Args:
        where: a bool array; elements where it is false are left out.
    """
    a = checked("mean", a)
    where = mask_of(where, a)
    mean_dtype = dtype_of_mean(a, dtype, out)
    axes = axes_of("mean", a.ndim, axis)
    n = math.prod([a.shape[at] for at in axes])
    wide = wide_float(mean_dtype)
    a = astype(a, wide) if a.dtype != wide else a
    total = reduce("add", chosen(a, where, "add", wide), axes, wide, keepdims)
    if wide.kind not in "fc":  # an integer dtype, as NumPy takes it: the sum is one of integers, the quotient is not
        wide = floating(wide)
        total = astype(total, wide)
        mean_dtype = out.dtype if type(out) is Array and np.can_cast(mean_dtype, out.dtype, "same_kind") else mean_dtype
    count: Any = wide.type(n)
    if where is not True:
        count = astype(count_nonzero(where.broadcast_to(a.shape), axes, keepdims=keepdims), wide)
    quotient = apply("divide", total, count)
    return written(astype(quotient, mean_dtype) if quotient.dtype != mean_dtype else quotient, out)


_WORDS = {"b": np.dtype(np.int32), "i": np.dtype(np.int32), "u": np.dtype(np.uint32), "f": np.dtype(np.float32)}
"""The 32-bit dtypes that hold those of at most 32 bits, by their kinds."""
_EXTREMES = {"smallest": "minimum", "largest": "maximum"}


def _place(name: str, extreme: str, array: Array, axis: int | None, keepdims: bool) -> Array:
    """Returns the place of the first extreme, or NaN, along an axis or in the flattened array.

    Numbers of at most 32 bits are read once: the reduction is of their ranks with their places behind.
    """
    array = checked(name, array)
    kept = (1,) * array.ndim if keepdims and (axis is None or not array.ndim) else None
    distinct = without_repeats(array)
    if axis is None and distinct is not array:
        result = place_among_repeats(_place(name, extreme, distinct, None, False), distinct, array)
        return result if kept is None else result.reshape(kept)
    if axis is None or not (array.ndim or reduced_axes(name, 0, axis)):
        array, axis = array.reshape(-1), 0
    at = axis_of(name, array.ndim, axis)
    array = without_repeats(array, at)
    n = array.shape[at]
    if not n:
        raise ValueError(f"{name} of no elements; the array has shape {array.shape}")
    index = default_int(array.runtime)
    if index.itemsize == 8 and array.dtype.itemsize <= 4:
        indices = _counting(array, at, n)
        array = astype(array, _WORDS[array.dtype.kind])
        keys = lazy.make(f"first {extreme}", "", (array, indices), array.shape, np.dtype(np.uint64), array.runtime)
        result = apply("bitwise_and", reduce("minimum", keys, (at,), keys.dtype, keepdims), np.uint64(2**32 - 1))
    else:
        array = astype(array, np.int32) if array.dtype == BOOL else array
        result = _first(_hits(_EXTREMES[extreme], array, at), at, keepdims)
    result = astype(result, index)
    return result if kept is None else result.reshape(kept)


def without_repeats(array: Array, *axes: int) -> Array:
    """Returns the view with the first of the equal slices along broadcast axes; of these axes, or by default all."""
    among = axes or range(array.ndim)
    repeated = [at for at in among if array.shape[at] > 1 and not array.strides[at]]
    if not repeated:
        return array
    return array[tuple([slice(0, 1) if at in repeated else slice(None) for at in range(array.ndim)])]


def place_among_repeats(place: Array, distinct: Array, array: Array) -> Array:
    """Returns the place in a flattened array, of a place in the flattened view without its repeats."""
    result, step, distinct_step = apply("multiply", place, 0), 1, 1
    for n, n_distinct in zip(array.shape[::-1], distinct.shape[::-1], strict=True):
        if n_distinct > 1:
            index = apply("remainder", apply("floor_divide", place, distinct_step), n_distinct)
            result = apply("add", result, apply("multiply", index, step))
        step, distinct_step = step * n, distinct_step * n_distinct
    return result


def _counting(array: Array, axis: int, n: int) -> Array:
    """Returns 0 to n - 1 along an axis."""
    runtime = runtime_of(array)
    on_host = tuning_of(runtime.device.physical).counts_on_host
    numbers = runtime.array(np.arange(n, dtype=np.int32)) if on_host else count_up(runtime, n)
    return numbers.reshape((*(1,) * axis, n, *(1,) * (array.ndim - axis - 1)))


def argmax(a: Array, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Returns the place of the first largest element along an axis, or in the flattened array."""
    return written(_place("argmax", "largest", a, axis, keepdims), out)


def argmin(a: Array, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Returns the place of the first smallest element along an axis, or in the flattened array."""
    return written(_place("argmin", "smallest", a, axis, keepdims), out)


def ptp(a: Array, axis: Axis = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Returns the largest element less the smallest along axes."""
    dtype = dtype_with_out(a.runtime, None, out, a.dtype)
    highest, lowest = (extreme(row, a, axis, dtype, None, keepdims) for row in ("maximum", "minimum"))
    return written(apply("subtract", highest, lowest), out)
