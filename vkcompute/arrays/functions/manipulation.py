"""Functions that arrange elements anew; views where NumPy gives views."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms.lines import axes_of, axis_of, reduced_axes
from vkcompute.arrays.expressions.promotion import common, kind_of
from vkcompute.arrays.expressions.ufunc import astype, runtime_and_shape, runtime_in, written
from vkcompute.arrays.functions.creation import Casting, order_name
from vkcompute.dtypes import as_dtype, can_cast, is_dtype, promote
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.memory.copies import join_arrays
from vkcompute.runtime.runtime import current_runtime

Shape = int | tuple[int, ...]


def _ints(value: Any) -> tuple[int, ...]:
    """Returns one or several ints, given as any sequence, as a tuple."""
    if isinstance(value, bool):
        raise TypeError(f"lengths, axes and shifts are integers; got {value}")
    return tuple(map(index, value)) if np.ndim(value) else (index(value),)


def reshape(a: Array, shape: Shape, order: str = "C", *, copy: bool | None = None) -> Array:
    """Returns the elements in another shape; one length may be -1. A view where strides give one, as in NumPy.

    Args:
        order: "C" to read and write the elements in row-major order, "F" in column-major order; "A" for "F" if `a` is
            column-major in memory, else for "C".
        copy: True for a new array; False to raise an error if one is needed.
    """
    chosen = order_name(order)
    if chosen == "K":
        raise ValueError(f'the order of reshape is "C", "F" or "A"; got {order!r}')
    if chosen == "F" or (chosen == "A" and a.T.contiguous and not a.contiguous):
        return reshape(a.T, shape[::-1] if isinstance(shape, Sequence) else shape, copy=copy).T
    view = (a.copy() if copy else a).reshape(tuple(shape) if isinstance(shape, Sequence) else (shape,))
    if copy is False and view.buffer is not a.buffer:
        raise ValueError(f"a view with strides {a.strides} is copied to be reshaped; pass copy=None, or True")
    return view


def ravel(a: Array, order: str = "C") -> Array:
    """Returns the elements along one axis.

    Args:
        order: "C", "F" or "A", as of `reshape`; "K" for the order of memory, but for axes with negative strides.
    """
    if order_name(order) == "K":
        a, order = a.transpose(_by_steps(a.strides)), "C"
    return reshape(a, (-1,), order)


def _by_steps(strides: Sequence[int]) -> tuple[int, ...]:
    """Returns axes in the order of memory, as NumPy sorts them: those without a step stay between their neighbours."""
    order: list[int] = []  # the fastest axis first
    for axis in reversed(range(len(strides))):
        index = len(order)
        for at in reversed(range(len(order))):
            inner, outer = abs(strides[order[at]]), abs(strides[axis])
            if inner and outer:
                if inner <= outer:
                    break
                index = at
        order.insert(index, axis)
    return tuple(order[::-1])


def permute_dims(a: Array, axes: Sequence[int] | None = None) -> Array:
    """Returns a view with the axes in another order, by default reversed."""
    if axes is not None and len(axes) != a.ndim:
        raise ValueError(f"an array of {a.ndim} axes is transposed by as many; got {axes!r}")
    return a.transpose() if axes is None else a.transpose(tuple(axes))


def matrix_transpose(x: Array) -> Array:
    """Returns a view with the last two axes exchanged."""
    if x.ndim < 2:
        raise ValueError(f"a matrix has two axes; the array has {x.ndim}")
    return swapaxes(x, -1, -2)


def swapaxes(a: Array, axis1: int, axis2: int) -> Array:
    """Returns a view with two axes exchanged."""
    one, other = axis_of("swapaxes", a.ndim, axis1), axis_of("swapaxes", a.ndim, axis2)
    order = list(range(a.ndim))
    order[one], order[other] = other, one
    return a.transpose(tuple(order))


def moveaxis(a: Array, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Returns a view with axes moved to other places."""
    origin, target = (axes_of("moveaxis", a.ndim, _ints(axes)) for axes in (source, destination))
    if len(origin) != len(target):
        raise ValueError(f"moveaxis takes as many sources as destinations; got {source} and {destination}")
    order = [at for at in range(a.ndim) if at not in origin]
    for to, at in sorted(zip(target, origin, strict=True)):
        order.insert(to, at)
    return a.transpose(tuple(order))


def expand_dims(a: Array, axis: int | tuple[int, ...] = 0) -> Array:
    """Returns a view with new axes of length 1 at these places of the result."""
    if axis is None:
        raise TypeError("expand_dims takes an int or a tuple of ints as axis; got None")
    n = a.ndim + (len(axis) if isinstance(axis, tuple) else 1)
    added = axes_of("expand_dims", n, axis)
    return a[tuple([None if at in added else slice(None) for at in range(n)])]


def squeeze(a: Array, axis: int | tuple[int, ...] | None = None) -> Array:
    """Returns a view without these axes of length 1; without all such axes for None."""
    removed = [at for at, n in enumerate(a.shape) if n == 1] if axis is None else reduced_axes("squeeze", a.ndim, axis)
    if any(a.shape[at] != 1 for at in removed):
        raise ValueError(f"axes of length 1 are squeezed; the shape is {a.shape}, and axis {axis}")
    kept: tuple[Any, ...] = (..., *[0 if at in removed else slice(None) for at in range(a.ndim)])
    return a[kept]


def flip(m: Array, axis: int | tuple[int, ...] | None = None) -> Array:
    """Returns a view with the elements in reverse order along axes, by default all."""
    flipped = axes_of("flip", m.ndim, axis)
    steps: tuple[Any, ...] = (..., *[slice(None, None, -1 if at in flipped else 1) for at in range(m.ndim)])
    return m[steps]


def broadcast_to(array: Array, shape: Shape) -> Array:
    """Returns a view of this shape, in which elements are repeated; it cannot be written."""
    return array.broadcast_to(shape)


def sliding_window_view(x: Array, window_shape: Shape, axis: Shape | None = None) -> Array:
    """Returns a view of all windows of a shape, as `np.lib.stride_tricks` has it; those that overlap are not written.

    Args:
        window_shape: the lengths of a window, per axis.
        axis: the axes that it slides along; all by default.

    Raises:
        ValueError: there are not as many lengths as axes, or a window is negative, or longer than the array.
    """
    lengths = _ints(window_shape)
    along = range(x.ndim) if axis is None else [axis_of("sliding_window_view", x.ndim, at) for at in _ints(axis)]
    if len(lengths) != len(along):
        raise ValueError(f"a window has a length per axis that it slides along; got {lengths} for {len(along)} axes")
    shape = list(x.shape)
    for at, length in zip(along, lengths, strict=True):
        if not 0 <= length <= shape[at]:
            raise ValueError(f"windows along axis {at} have lengths from 0 to {shape[at]}; got {length}")
        shape[at] -= length - 1
    shape += lengths
    if 0 in shape:
        return temporary(x.runtime, tuple(shape), x.dtype)
    strides = x.strides + tuple([x.strides[at] for at in along])
    return x.viewed(0, tuple(shape), strides)


def as_strided(
    x: Array, shape: Shape | None = None, strides: Sequence[int] | None = None, subok: bool = False,
    writeable: bool = True,
) -> Array:  # fmt: skip
    """Returns a view of the memory of an array by a shape and strides in bytes.

    Args:
        subok, writeable: have no effect. Elements that overlap are not written.

    Raises:
        ValueError: the view is not within the memory that the array is a view of, or an element is not aligned.
    """
    lengths = x.shape if shape is None else _ints(shape)
    steps = x.strides if strides is None else tuple([index(stride) for stride in strides])
    if len(steps) != len(lengths) or min(lengths, default=0) < 0:
        raise ValueError(f"as_strided: there is a stride per length, none negative; got {lengths} and {steps}")
    if 0 in lengths:
        return temporary(x.runtime, lengths, x.dtype)
    if any(step % x.dtype.itemsize for step in steps):
        raise ValueError(f"as_strided: strides are multiples of {x.dtype.itemsize} bytes, an element; got {steps}")
    ends = [step * (n - 1) for step, n in zip(steps, lengths, strict=True)]
    first = x.offset + sum([end for end in ends if end < 0])
    last = x.offset + sum([end for end in ends if end > 0]) + x.dtype.itemsize
    if first < 0 or last > x.buffer.used_bytes:
        raise ValueError(
            f"as_strided: a view is within the {x.buffer.used_bytes} bytes of the array's memory; got bytes {first} to "
            f"{last}, of shape {lengths} and strides {steps}"
        )
    return x.viewed(0, lengths, steps)


def broadcast_shapes(*shapes: Shape) -> tuple[int, ...]:
    """Returns the shape to which shapes broadcast."""
    return np.broadcast_shapes(*shapes)


def broadcast_arrays(*arrays: Array) -> tuple[Array, ...]:
    """Returns views of arrays in their broadcast shape."""
    if not arrays:
        return ()
    _, shape = runtime_and_shape("broadcast_arrays", arrays)
    return tuple([array if array.shape == shape else array.broadcast_to(shape) for array in arrays])


def _runtime_of_all(arrays: Sequence[Any]) -> Context:
    """Returns the runtime of arrays, which may have any shapes; raises as `runtime_in`."""
    for array in arrays:
        if type(array) is not Array:
            raise TypeError(
                f"device arrays are joined; got {type(array).__name__}; make a device array with gpu.array(x)"
            )
    return runtime_in("concat", arrays)


def concat(
    arrays: Sequence[Array], /, axis: int | None = 0, out: Array | None = None, *, dtype: npt.DTypeLike | None = None,
    casting: Casting = "same_kind",
) -> Array:  # fmt: skip
    """Returns arrays joined along an axis, or flattened ones for None.

    Args:
        out: an array for the result, of its shape.
        dtype: of the result; by default that of `out`, or the common dtype of the arrays.
        casting: which conversions to the dtype are allowed, as in NumPy.

    Raises:
        TypeError: the dtype needs a conversion that is not allowed, or is given together with `out`.
        ValueError: the shapes do not fit.
    """
    if out is not None and type(out) is not Array:
        raise TypeError(f"out is a device array; got {type(out).__name__}")
    if out is not None and dtype is not None:
        raise TypeError("concat takes dtype= or out=, whose dtype the result has; got both")
    given = [ravel(array) for array in arrays] if axis is None else list(arrays)
    if not given:
        raise ValueError("concat takes at least one array; got none")
    context = _runtime_of_all(given)
    at = axis_of("concat", given[0].ndim, 0 if axis is None else axis)
    shapes = [(*array.shape[:at], *array.shape[at + 1 :]) for array in given]
    if any(array.ndim != given[0].ndim for array in given) or len(set(shapes)) > 1:
        listed = ", ".join(str(array.shape) for array in given)
        raise ValueError(f"arrays are joined along axis {at} if their other lengths are equal; got shapes {listed}")
    wanted = dtype if out is None else out.dtype
    target = as_dtype(wanted) if wanted is not None else common(context, [kind_of(array) for array in given])
    for array in given:
        if not can_cast(array.dtype, target, casting):
            raise TypeError(f"concat converts {array.dtype} to {target}, which casting={casting!r} does not allow")
    n = sum(array.shape[at] for array in given)
    joined = temporary(context, (*given[0].shape[:at], n, *given[0].shape[at + 1 :]), target)
    join_arrays([array if array.dtype == target else astype(array, target) for array in given], joined, at)
    return written(joined, out)


def stack(
    arrays: Sequence[Array], axis: int = 0, out: Array | None = None, *, dtype: npt.DTypeLike | None = None,
    casting: Casting = "same_kind",
) -> Array:  # fmt: skip
    """Returns arrays of one shape joined along a new axis; see `concat`."""
    if not len(arrays):
        raise ValueError("stack takes at least one array; got none")
    if len({array.shape for array in arrays}) > 1:
        raise ValueError(f"arrays of one shape are stacked; got {', '.join(str(array.shape) for array in arrays)}")
    return concat([expand_dims(array, axis) for array in arrays], axis, out, dtype=dtype, casting=casting)


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Returns views of the elements along an axis."""
    at = axis_of("unstack", x.ndim, axis)
    return tuple([x[(slice(None),) * at + (k,)] for k in range(x.shape[at])])


def roll(a: Array, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Array:
    """Returns the elements moved along axes, those beyond the end to the start."""
    if axis is None:
        return roll(ravel(a), sum(_ints(shift)), 0).reshape(a.shape)
    axes = _ints(axis)
    shifts = _ints(shift) if np.ndim(shift) else _ints(shift) * len(axes)
    if len(axes) == 1 and len(shifts) > 1:
        axes = axes * len(shifts)
    if len(shifts) != len(axes):
        raise ValueError(f"roll takes a shift per axis; got {shift} for {axis}")
    for at, by in zip([axis_of("roll", a.ndim, number) for number in axes], shifts, strict=True):
        n = a.shape[at]
        first = n - by % n if n else 0
        if first not in (0, n):
            before = (slice(None),) * at
            parts = [a[before + (slice(first, None),)], a[before + (slice(None, first),)]]  # noqa: RUF005
            a = concat(parts, axis=at)
    return a.copy()


def tile(A: Array, reps: int | Sequence[int]) -> Array:  # noqa: N803
    """Returns the array repeated along its last axes, or along new first axes."""
    counts = _ints(reps)
    n = max(len(counts), A.ndim)
    counts, shape = (1,) * (n - len(counts)) + counts, (1,) * (n - A.ndim) + A.shape
    view = reshape(A, tuple([size for length in shape for size in (1, length)]))
    view = view.broadcast_to(tuple([size for pair in zip(counts, shape, strict=True) for size in pair]))
    return view.copy().reshape(tuple([a * b for a, b in zip(counts, shape, strict=True)]))


def result_type(*operands: Any) -> np.dtype[Any]:
    """Returns the dtype of the result of an operation of arrays, dtypes, their names, and Python numbers."""
    context = next((operand.runtime for operand in operands if type(operand) is Array), None)
    kinds = [as_dtype(operand)
             if isinstance(operand, (np.dtype, type, str)) and operand not in (bool, int, float, complex) else operand
             for operand in operands]  # fmt: skip
    kinds = [kind if is_dtype(kind) else kind_of(kind) for kind in kinds]
    if context is None:
        strong = [kind for kind in kinds if is_dtype(kind)]
        if len(strong) == len(kinds):
            return reduce(promote, strong)
    return common(context or current_runtime(), kinds)
