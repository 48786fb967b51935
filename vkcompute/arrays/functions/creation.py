"""Functions that make arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms.lines import axis_of
from vkcompute.arrays.expressions.promotion import complex_of, default_float, default_int, floating, part_of
from vkcompute.arrays.expressions.ufunc import apply, where
from vkcompute.arrays.expressions.ufunc import astype as _astype
from vkcompute.dtypes import (
    SmallFloatNumber,
    as_dtype,
    can_cast,
    computes_float64,
    host_cast,
    is_record,
    promote,
    small_float,
)
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.holders import held
from vkcompute.runtime.memory.host_data import imported
from vkcompute.runtime.runtime import Runtime, constant, current_runtime, runtime_of

Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
Shape = int | tuple[int, ...]


def runtime_for(device: Any, like: Any = None) -> Runtime:
    """Returns the runtime on which to make arrays: `device`, or the current one, for arrays like another.

    Raises:
        TypeError: `device` is not a runtime, as `array.device` is, or `like` no device array.
    """
    if like is not None and type(like) is not Array:
        raise TypeError(f"like is a device array, or None; got {type(like).__name__}")
    if device is None:
        return current_runtime(like)
    if not isinstance(device, Runtime):
        raise TypeError(f"device is a Runtime, as array.device is, or None; got {device!r}")
    return device


def _float(dtype: npt.DTypeLike | None) -> np.dtype[Any]:
    return default_float() if dtype is None else as_dtype(dtype)


def _of_value(runtime: Runtime, value: Any, dtype: npt.DTypeLike | None) -> np.dtype[Any]:
    """Returns the dtype of a number, or the one that is given."""
    if dtype is not None:
        return as_dtype(dtype)
    if isinstance(value, (bool, np.bool_)):
        return np.dtype(np.bool_)
    if isinstance(value, np.generic):
        return value.dtype
    if isinstance(value, complex):
        return complex_of(default_float())
    return default_int(runtime) if isinstance(value, int) else default_float()


def order_name(order: str | None) -> str:
    """Returns the name of an order in upper case, "K" for None.

    Raises:
        ValueError: it is none of "C", "F", "K" and "A".
    """
    name = "K" if order is None else str(order).upper()
    if name not in ("C", "F", "K", "A"):
        raise ValueError(f'order is "C", "F", "K", "A" or None; got {order!r}')
    return name


def in_order(x: Array, order: str | None) -> Array:
    """Returns an array in an order, or a copy of it.

    Args:
        order: "C" for row-major, "F" for column-major; "K", "A" or None for the order that it has.

    Raises:
        ValueError: the order is another.
    """
    order = order_name(order)
    if order == "F":
        return x if x.ndim < 2 or x.T.contiguous else x.T.copy().T
    return x.copy() if order == "C" and not x.contiguous else x


def in_layout(x: Array, order: str | None, function: Callable[[Array], Array]) -> Array:
    """Returns a function of an array that keeps its shape, such as a copy, in an order.

    Args:
        order: as of `in_order`; here "K" and None keep the order of the axes in memory, and "A" is "F" for a
            column-major array.
    """
    name = order_name(order)
    if name == "A":
        name = "F" if not x.contiguous and x.T.contiguous else "C"
    if name != "K" or x.contiguous:
        return in_order(function(x), name)
    axes = _axes_in_memory(x)
    turned = x.transpose(axes)
    result = function(turned)
    return x if result is turned else result.transpose(tuple(map(int, np.argsort(axes))))


def _axes_in_memory(x: Array) -> tuple[int, ...]:
    """Returns the axes of an array, from the largest stride to the smallest."""
    return tuple(sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis])))


def _like(make: Callable[[Any], Array], prototype: Array, shape: Shape | None, order: str | None) -> Array:
    """Returns a new array in an order, which is as of `in_layout`; one of as many axes has that of another for "K"."""
    lengths = prototype.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    name = order_name(order)
    if name == "A":
        name = "F" if not prototype.contiguous and prototype.T.contiguous else "C"
    if name != "K" or prototype.contiguous or len(lengths) != prototype.ndim:
        return _shaped(make, lengths, name)
    axes = _axes_in_memory(prototype)
    return make(tuple([lengths[axis] for axis in axes])).transpose(tuple(map(int, np.argsort(axes))))


def _shaped(make: Callable[[Any], Array], shape: Shape, order: str | None) -> Array:
    """Returns a new array in an order; a column-major one is a transposed view."""
    if order_name(order) == "F" and isinstance(shape, Sequence):
        return make(tuple(shape)[::-1]).T
    return in_order(make(shape), order)


def asarray(
    a: Any, dtype: npt.DTypeLike | None = None, order: str | None = None, *, device: Any = None,
    copy: bool | None = None, like: Any = None,
) -> Array:  # fmt: skip
    """Returns data as an array: `a` itself if it is one with this dtype and order.

    Args:
        a: an array, a number, nested sequences, a NumPy array, or an object with `__dlpack__`.
        order: as of `in_order`.
        device: a runtime; by default that of `a`, or the current one.
        like: a device array, on whose runtime data of the host are by default, outside of a `with` on another.
        copy: True for a new array; False to raise an error if one is needed; None to copy if one is needed.

    Raises:
        ValueError: `copy` is False, and a copy is needed.
    """
    copy = copy if copy is None else bool(copy)
    if order is not None:
        a = held(a)
        if type(a) is Array:
            result = in_layout(a, order, lambda x: asarray(x, dtype, device=device, copy=copy, like=like))
        else:
            result = asarray(a, dtype, device=device, copy=copy, like=like)
        if copy is False and (result is not a if type(a) is Array else in_order(result, order) is not result):
            raise ValueError(f"order={order!r} needs a copy; pass copy=None, or True")
        return in_order(result, order)
    a = held(a)
    if type(a) is Array:
        runtime = runtime_of(a) if device is None else runtime_for(device)
        same = runtime is a.runtime and (dtype is None or as_dtype(dtype) == a.dtype)
        if same and not copy:
            return a
        if copy is False:
            raise ValueError("another dtype or device needs a copy; pass copy=None, or True")
        if runtime is not a.runtime:
            return runtime.array(a._on_host(), dtype)
        return a.copy() if same else _astype(a, as_dtype(dtype))
    if copy is False:
        raise ValueError(f"{type(a).__name__} is copied to the device; pass copy=None, or True")
    runtime = runtime_for(device, like)
    a = imported(a)
    if isinstance(a, (list, tuple)) and any(type(element) is Array for element in a):
        a = [element.numpy() if type(element) is Array else element for element in a]
    if dtype is None and not _has_dtype(a):
        defaults = {"f": default_float(), "i": default_int(runtime), "c": complex_of(default_float())}
        dtype = defaults.get(np.asarray(a).dtype.kind)
    small = a.dtype if isinstance(a, SmallFloatNumber) and dtype is None else small_float(dtype)
    host = np.asarray(a, dtype) if small is None else small.array(a)
    if runtime.scheduler.recording() is None:
        return runtime.array(host)
    recorded = temporary(runtime, host.shape, host.dtype)
    if host.ndim:
        recorded.write(host)  # each run copies the elements as they are then, as in an assignment
    else:
        recorded.fill(host[()])
    return recorded


def _has_dtype(data: Any) -> bool:
    """True for arrays and NumPy's scalars, and for nested sequences with one; Python numbers have none."""
    return any(map(_has_dtype, data)) if isinstance(data, (list, tuple)) else hasattr(data, "dtype")


def asarray_weak(data: Any, others: Sequence[Any], device: Any) -> Array:
    """Returns data as an array: floats in sequences, which have no dtype, are as precise as the arrays beside them.

    So are ints, on a device without the float64 that holds all of them and the floats, if they are not rounded.
    """
    dtype = None
    if isinstance(data, (float, complex, list, tuple)) and not _has_dtype(data):
        floats = [part_of(other.dtype) for other in others if np.dtype(getattr(other, "dtype", bool)).kind in "fc"]
        precise, host = reduce(promote, floats, default_float()), np.asarray(data)
        dtype = {"f": precise, "c": complex_of(precise)}.get(host.dtype.kind)
        if floats and host.dtype.kind == "i" and not computes_float64(runtime_for(device).device.features):
            dtype = precise if (host.astype(precise) == host).all() else None
    return asarray(data, dtype, device=device)


def asanyarray(
    a: Any, dtype: npt.DTypeLike | None = None, order: str | None = None, *, device: Any = None,
    copy: bool | None = None, like: Any = None,
) -> Array:  # fmt: skip
    """Returns `asarray(a)`: device arrays have no subclasses."""
    return asarray(a, dtype, order, device=device, copy=copy, like=like)


def ascontiguousarray(a: Any, dtype: npt.DTypeLike | None = None, *, device: Any = None, like: Any = None) -> Array:
    """Returns data as a row-major array of at least one axis; copies a view with other strides."""
    return array(a, dtype, copy=None, order="C", ndmin=1, device=device, like=like)


def asfortranarray(a: Any, dtype: npt.DTypeLike | None = None, *, device: Any = None, like: Any = None) -> Array:
    """Returns data as a column-major array, a transposed view; copies unless it is one."""
    return array(a, dtype, copy=None, order="F", ndmin=1, device=device, like=like)


def array(
    data: Any, dtype: npt.DTypeLike | None = None, *, copy: bool | None = True, order: str | None = None,
    ndmin: int = 0, device: Any = None, like: Any = None,
) -> Array:  # fmt: skip
    """Returns a new array with the data, and at least `ndmin` axes, the first of length 1; see `asarray`."""
    result = asarray(data, dtype, order, device=device, copy=copy, like=like)
    return result if result.ndim >= ndmin else result[(None,) * (ndmin - result.ndim)]


def astype(
    x: Array, /, dtype: npt.DTypeLike, order: str | None = None, casting: Casting = "unsafe", *, copy: bool = True,
    device: Any = None,
) -> Array:  # fmt: skip
    """Returns the elements in another dtype, converted as NumPy does.

    Args:
        order: as of `in_order`.
        casting: which conversions are allowed, as in NumPy.
        copy: False to return `x` itself if it has this dtype.
        device: a runtime; by default that of `x`.

    Raises:
        TypeError: the conversion is not allowed.
    """
    if not can_cast(x.dtype, as_dtype(dtype), casting):
        raise TypeError(f"astype converts {x.dtype} to {as_dtype(dtype)}, which casting={casting!r} does not allow")
    if order is not None:
        return in_layout(x, order, lambda x: astype(x, dtype, copy=copy, device=device))
    x = x if device is None else asarray(x, device=device)
    return x if not copy and x.dtype == as_dtype(dtype) else _astype(x, dtype)


def from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> Array:
    """Returns an array with the data of an object with `__dlpack__` in host memory, copied to the device."""
    if copy is False and type(x) is not Array:
        raise BufferError("data of the host is copied to the device; pass copy=None, or True")
    return asarray(x, device=device, copy=copy)


def empty(
    shape: Shape, dtype: npt.DTypeLike | None = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Array:
    """Returns an array with arbitrary content."""
    return _shaped(lambda shape: runtime_for(device, like).empty(shape, _float(dtype)), shape, order)


def zeros(
    shape: Shape, dtype: npt.DTypeLike | None = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Array:
    """Returns an array of zeros."""
    return _shaped(lambda shape: runtime_for(device, like).zeros(shape, _float(dtype)), shape, order)


def ones(
    shape: Shape, dtype: npt.DTypeLike | None = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Array:
    """Returns an array of ones."""
    return _shaped(lambda shape: runtime_for(device, like).full(shape, 1, _float(dtype)), shape, order)


def full(
    shape: Shape, fill_value: Any, dtype: npt.DTypeLike | None = None, order: str = "C", *, device: Any = None,
    like: Any = None,
) -> Array:  # fmt: skip
    """Returns an array whose elements are all `fill_value`, by default of its dtype; an array is broadcast."""
    if type(fill_value) is Array or np.ndim(fill_value):
        values = asarray(fill_value, dtype, device=device, like=like)
        return in_order(values.broadcast_to(shape).copy(), order)
    runtime = runtime_for(device, like)
    result_dtype = _of_value(runtime, fill_value, dtype)
    small = small_float(result_dtype)
    value = np.full((), fill_value, result_dtype)[()] if small is None else small.type(fill_value)  # raises for an int
    return _shaped(lambda shape: runtime.full(shape, value, result_dtype), shape, order)


def empty_like(
    prototype: Array,
    dtype: npt.DTypeLike | None = None,
    order: str = "K",
    *,
    shape: Shape | None = None,
    device: Any = None,
) -> Array:
    """Returns an array with arbitrary content, of the shape and dtype of another unless they are given.

    Raises:
        TypeError: the dtype has fields, and that of the other has none. Dask asks so whether functions take records.
    """
    if is_record(np.dtype(dtype)) and not is_record(prototype.dtype):
        raise TypeError(f"functions of arrays take no records; got {np.dtype(dtype)}; make them by gpu.zeros")
    wanted, runtime = prototype.dtype if dtype is None else dtype, runtime_for(device, prototype)
    return _like(lambda shape: empty(shape, wanted, device=runtime), prototype, shape, order)


def zeros_like(
    a: Array, dtype: npt.DTypeLike | None = None, order: str = "K", *, shape: Shape | None = None, device: Any = None
) -> Array:
    """Returns an array of zeros, of the shape and dtype of another unless they are given."""
    wanted, runtime = a.dtype if dtype is None else dtype, runtime_for(device, a)
    return _like(lambda shape: zeros(shape, wanted, device=runtime), a, shape, order)


def ones_like(
    a: Array, dtype: npt.DTypeLike | None = None, order: str = "K", *, shape: Shape | None = None, device: Any = None
) -> Array:
    """Returns an array of ones, of the shape and dtype of another unless they are given."""
    wanted, runtime = a.dtype if dtype is None else dtype, runtime_for(device, a)
    return _like(lambda shape: ones(shape, wanted, device=runtime), a, shape, order)


def full_like(
    a: Array, fill_value: Any, dtype: npt.DTypeLike | None = None, order: str = "K", *, shape: Shape | None = None,
    device: Any = None,
) -> Array:  # fmt: skip
    """Returns an array whose elements are all `fill_value`, of the shape and dtype of another unless they are given."""
    wanted, runtime = a.dtype if dtype is None else dtype, runtime_for(device, a)
    if type(fill_value) is Array or np.ndim(fill_value):
        return full(a.shape if shape is None else shape, fill_value, wanted, order, device=runtime)
    return _like(lambda shape: full(shape, fill_value, wanted, device=runtime), a, shape, order)


def arange(
    start: float, stop: float | None = None, step: float = 1, dtype: npt.DTypeLike | None = None, *,
    device: Any = None, like: Any = None,
) -> Array:  # fmt: skip
    """Returns evenly spaced numbers from `start`, or 0, up to `stop`, which is not among them."""
    runtime = runtime_for(device, like)
    first, last = (0, start) if stop is None else (start, stop)
    if any(isinstance(number, (complex, np.complexfloating)) for number in (first, last, step)):
        raise TypeError(f"arange takes real numbers; got {first}, {last} and {step}; compute with them afterwards")
    whole = all(isinstance(number, (int, np.integer)) for number in (first, last, step))
    result_dtype = as_dtype(dtype) if dtype is not None else default_int(runtime) if whole else default_float()
    if result_dtype.kind in "fc":  # the numbers are computed in float64, and rounded
        return constant(runtime, host_cast(np.arange(first, last, step), result_dtype))
    whole_numbers: Any = np.arange(*[first, last, step], dtype=result_dtype)
    return constant(runtime, whole_numbers)


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: npt.DTypeLike | None = None, axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    """Returns `num` evenly spaced numbers from `start` to `stop`, which is the last unless `endpoint` is False.

    Integers are rounded down.

    Args:
        start, stop: numbers; or arrays, for numbers along a new axis.
        retstep: True to return the distance between two numbers, too: NaN if there is only one.
        axis: the new axis.
    """
    if type(start) is Array or type(stop) is Array:
        runtime = runtime_of(start if type(start) is Array else stop)
        start, stop = (end if np.isscalar(end) else asarray_weak(end, [start, stop], runtime) for end in (start, stop))
        numbers = _between(start, stop, np.linspace(0, 1, num, endpoint), dtype, axis)
        n_steps = num - endpoint
        if not retstep:
            return numbers
        return numbers, apply("divide", apply("subtract", stop, start), n_steps if n_steps > 0 else math.nan)
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    kind = complex_of(default_float()) if dtype is None and is_complex else _float(dtype)
    start, stop = (float(end) if type(end) is int else end for end in (start, stop))  # also ints above 64 bits
    host, step = np.linspace(start, stop, num, endpoint, retstep=True, dtype=kind, axis=axis)
    numbers = constant(runtime_for(device), host)
    return (numbers, step) if retstep else numbers


def _between(start: Any, stop: Any, steps: npt.NDArray[np.float64], dtype: npt.DTypeLike | None, axis: int) -> Array:
    """Returns the numbers at steps from 0 to 1 of the way, along a new axis."""
    way = apply("subtract", stop, start)
    inexact, at = floating(way.dtype), axis_of("linspace", way.ndim + 1, axis)
    start, stop = [_astype(end, inexact) if type(end) is Array else end for end in (start, stop)]
    lengths = [steps.size if k == at else 1 for k in range(way.ndim + 1)]
    here = constant(runtime_of(way), steps.astype(part_of(inexact)).reshape(lengths))
    start, stop = [_with_axis(end, way.shape, at) if type(end) is Array else end for end in (start, stop)]
    rest = apply("multiply", apply("subtract", 1, here), start)
    numbers = apply("add", rest, apply("multiply", here, stop))
    if dtype is None:
        return numbers
    return _astype(apply("floor", numbers) if as_dtype(dtype).kind in "iu" else numbers, dtype)


def _with_axis(x: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Returns an array broadcast to a shape, with one more axis of length 1."""
    return x.broadcast_to(shape)[(slice(None),) * axis + (None,)]


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: npt.DTypeLike | None = None, order: str = "C", *,  # noqa: N803
    device: Any = None, like: Any = None,
) -> Array:  # fmt: skip
    """Returns a matrix with ones on the `k`-th diagonal, and zeros elsewhere; `order` is as of `in_order`."""
    return in_order(constant(runtime_for(device, like), np.eye(N, M, k, dtype=_float(dtype))), order)


def identity(n: int, dtype: npt.DTypeLike | None = None, *, device: Any = None, like: Any = None) -> Array:
    """Returns the identity matrix."""
    return eye(n, dtype=dtype, device=device, like=like)


def _triangle(x: Array, k: int, comparison: str) -> Array:
    if not x.ndim:
        raise ValueError("a triangle is part of a matrix; got an array without axes")
    x = x.broadcast_to((x.size, x.size)) if x.ndim == 1 else x
    rows, columns = (np.arange(n, dtype=np.int32) for n in x.shape[-2:])
    runtime = runtime_of(x)
    difference = apply("subtract", constant(runtime, columns), constant(runtime, rows[:, None]))
    return where(apply(comparison, difference, k), x, x.dtype.type(0))


def tril(m: Array, k: int = 0) -> Array:
    """Returns matrices with zeros above the `k`-th diagonal. A vector is each row of a square matrix."""
    return _triangle(m, k, "less_equal")


def triu(m: Array, k: int = 0) -> Array:
    """Returns matrices with zeros below the `k`-th diagonal. A vector is each row of a square matrix."""
    return _triangle(m, k, "greater_equal")


def meshgrid(*arrays: Array, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Array, ...]:
    """Returns coordinates of a grid: each array, repeated along the axes of the others.

    Args:
        copy: False for views, which cannot be written unless `sparse`.
        sparse: True for arrays of length 1 along the axes of the others, which broadcast.
        indexing: "ij" for the order of the arrays; "xy" exchanges the first two axes.

    Raises:
        ValueError: `indexing` is another.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f'indexing is "xy" or "ij"; got {indexing!r}')
    n, swap = len(arrays), indexing == "xy" and len(arrays) > 1
    order = [1, 0, *range(2, n)] if swap else list(range(n))
    shape = tuple([arrays[at].size for at in order])
    flat = [array if array.contiguous else array.copy() for array in arrays]
    coordinates = [
        array.reshape(tuple([-1 if order[at] == which else 1 for at in range(n)])) for which, array in enumerate(flat)
    ]
    views = coordinates if sparse else [array.broadcast_to(shape) for array in coordinates]
    return tuple([view.copy() for view in views] if copy else views)


def copy(a: Array | Sequence[Any], order: str | None = None) -> Array:
    """Returns a new array with the same elements, in an order as of `in_order`."""
    return asarray(a, order=order, copy=True)
