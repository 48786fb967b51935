"""Indices, diagonals, and elements chosen by conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.algorithms import gather, scatter, selection
from vkcompute.arrays.algorithms.contraction import strided
from vkcompute.arrays.algorithms.lines import axis_of, iota
from vkcompute.arrays.algorithms.scatter import put_along_axis as _put_along_axis
from vkcompute.arrays.expressions.promotion import BOOL, Operand, common, default_float, default_int, dtype_of, kind_of
from vkcompute.arrays.expressions.ufunc import apply, assign, astype, where, written
from vkcompute.arrays.expressions.ufunc import where as _where
from vkcompute.arrays.functions import reductions
from vkcompute.arrays.functions.creation import Casting, asarray, asarray_weak, ones, runtime_for, zeros
from vkcompute.arrays.functions.manipulation import broadcast_arrays, expand_dims, moveaxis, ravel, reshape, stack
from vkcompute.arrays.functions.operands import on_device
from vkcompute.arrays.functions.products import diagonal
from vkcompute.dtypes import as_dtype, can_cast, host_cast, is_dtype
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import constant, runtime_of


def _indices_on(runtime: Any, host: Any) -> Array:
    """Returns indices of the host as an array of the device's default integer."""
    return asarray(np.asarray(host, default_int(runtime)), device=runtime)


def diag(v: Array, k: int = 0) -> Array:
    """Returns the matrix with a vector on its k-th diagonal; or a copy of the k-th diagonal of a matrix."""
    if v.ndim == 2:
        return diagonal(v, k).copy()
    if v.ndim != 1:
        raise ValueError(f"diag takes a vector or a matrix; got {v.ndim} axes; use diagonal")
    n = v.size + abs(k)
    matrix = zeros((n, n), v.dtype, device=v.runtime)
    if v.size:
        diagonal(matrix, k).copy_from(v)
    return matrix


def diagflat(v: Array, k: int = 0) -> Array:
    """Returns the matrix with the flattened array on its k-th diagonal."""
    return diag(ravel(v), k)


def fill_diagonal(a: Array, val: Any, wrap: bool = False) -> None:
    """Writes a value, or values, which are repeated as needed, to the main diagonal.

    Args:
        wrap: True to begin again below the diagonal of a matrix with more rows than columns, after an empty row.

    Raises:
        ValueError: the array has fewer than two axes, or more, of several lengths; or its elements share memory.
    """
    a.refuse_shared()
    if a.ndim < 2 or (a.ndim > 2 and len(set(a.shape)) > 1):
        raise ValueError(f"fill_diagonal takes a matrix, or axes of one length; got the shape {a.shape}")
    values = val if np.ndim(val) == 0 and type(val) is not Array else ravel(asarray(val, a.dtype, device=a.runtime))
    n_columns, start = a.shape[-1], 0
    for row in range(0, a.shape[0] if wrap and a.ndim == 2 else 1, n_columns + 1):
        part = a[row:] if a.ndim == 2 else a
        n = min(part.shape)
        if not n:
            break
        target = strided(part, (n,), (sum(part.strides),))
        if type(values) is Array and values.size != 1:
            at = np.arange(start, start + n, dtype=np.int32) % values.size
            target[...] = gather.take(values, asarray(at, device=a.runtime))
        else:
            target[...] = values
        start += n


def tri(
    N: int, M: int | None = None, k: int = 0, dtype: npt.DTypeLike | None = None, *, device: Any = None,  # noqa: N803
    like: Any = None,
) -> Array:  # fmt: skip
    """Returns a matrix with ones at and below the k-th diagonal."""
    of_dtype = as_dtype(dtype) if dtype is not None else default_float()
    return constant(runtime_for(device, like), np.tri(N, M, k, dtype=of_dtype))


def indices(
    dimensions: Sequence[int], dtype: npt.DTypeLike | None = None, sparse: bool = False, *, device: Any = None
) -> Any:
    """Returns the indices of the elements of a shape: along each axis, stacked, or open for `sparse`."""
    runtime = runtime_for(device)
    of_dtype: Any = as_dtype(dtype) if dtype is not None else default_int(runtime)
    host: Any = np.indices(dimensions, of_dtype, sparse)  # type: ignore[call-overload]
    return tuple([constant(runtime, array) for array in host]) if sparse else constant(runtime, host)


def _on_default(name: str) -> Callable[..., Any]:
    """Returns NumPy's function that makes tuples of indices, with a device for them."""
    make = getattr(np, name)

    def function(*args: Any, device: Any = None, **named: Any) -> tuple[Array, ...]:
        runtime, arrays = runtime_for(device), make(*args, **named)
        if any(array.dtype.kind in "fc" for array in arrays):
            raise TypeError(f"{name} takes integers; got {', '.join(map(repr, [*args, *named.values()]))}")
        return tuple([_indices_on(runtime, array) for array in arrays])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Returns the arrays of indices that `numpy.{name}` returns, on a device."
    return function


diag_indices, tril_indices, triu_indices = map(_on_default, ("diag_indices", "tril_indices", "triu_indices"))


def diag_indices_from(arr: Array) -> tuple[Array, ...]:
    """Returns the indices of the main diagonal of an array whose axes have one length."""
    if arr.ndim < 2 or len(set(arr.shape)) > 1:
        raise ValueError(f"a diagonal of indices takes two axes or more, of one length; got the shape {arr.shape}")
    result: tuple[Array, ...] = diag_indices(arr.shape[0], arr.ndim, device=arr.runtime)
    return result


def tril_indices_from(arr: Array, k: int = 0) -> tuple[Array, ...]:
    """Returns the indices of the lower triangle of a matrix."""
    _require_matrix("tril_indices_from", arr)
    result: tuple[Array, ...] = tril_indices(arr.shape[-2], k, arr.shape[-1], device=arr.runtime)
    return result


def triu_indices_from(arr: Array, k: int = 0) -> tuple[Array, ...]:
    """Returns the indices of the upper triangle of a matrix."""
    _require_matrix("triu_indices_from", arr)
    result: tuple[Array, ...] = triu_indices(arr.shape[-2], k, arr.shape[-1], device=arr.runtime)
    return result


def _require_matrix(name: str, arr: Array) -> None:
    if arr.ndim != 2:
        raise ValueError(f"{name} takes a matrix; got the shape {arr.shape}")


def ix_(*args: Array) -> tuple[Array, ...]:
    """Returns vectors along axes of their own, which index the grid of their elements."""
    if wrong := [arg.shape for arg in args if arg.ndim != 1]:
        raise ValueError(f"ix_ takes vectors; got the shape {wrong[0]}")
    given = [selection.flatnonzero(arg) if arg.dtype == BOOL else arg for arg in args]
    given = [vector if vector.size else astype(vector, default_int(vector.runtime)) for vector in given]
    shapes = [tuple([-1 if at == k else 1 for at in range(len(given))]) for k in range(len(given))]
    return tuple([reshape(vector, shape) for vector, shape in zip(given, shapes, strict=True)])


def ravel_multi_index(
    multi_index: Sequence[Any], dims: Sequence[int], mode: str | Sequence[str] = "raise", order: str | None = "C"
) -> Array:
    """Returns indices along each axis as indices of the flattened array.

    Args:
        mode: "raise" for an error if an index is out of range, which waits; "wrap" or "clip"; or one per axis.

    Raises:
        ValueError: an index is out of range, or their number is not that of `dims`; or the order is not "C" or "F".
    """
    given, order = on_device("ravel_multi_index", [*multi_index]) if len(multi_index) else [], order or "C"
    runtime = next((operand.runtime for operand in given if type(operand) is Array), None)
    parts = [asarray(operand, device=runtime) for operand in given]
    _require_integers("ravel_multi_index", parts)
    modes = [mode] * len(dims) if isinstance(mode, str) else [*mode]
    known = {"raise", "wrap", "clip"}.issuperset(modes) and len(modes) == len(dims)
    if len(parts) != len(dims) or order not in ("C", "F") or not known:
        raise ValueError(
            f"ravel_multi_index takes an index per axis of {tuple(dims)}, the mode raise, wrap or clip, and the order "
            f"C or F; got {len(parts)} indices, {mode!r} and {order!r}"
        )
    if order == "F":
        parts, dims, modes = parts[::-1], dims[::-1], modes[::-1]
    total: Any = None
    for part, n, rule in zip(parts, dims, modes, strict=True):
        if rule == "wrap":
            part = apply("remainder", part, n)
        elif rule == "clip":
            part = apply("minimum", apply("maximum", part, 0), n - 1)
        elif _is_any(apply("logical_or", apply("less", part, 0), apply("greater_equal", part, n))):
            raise ValueError(f"an index is out of range of the lengths {tuple(dims)}")
        total = part if total is None else apply("add", apply("multiply", total, n), part)
    return astype(total, default_int(total.runtime))


def _require_integers(name: str, indices: Sequence[Any]) -> None:
    """Raises TypeError if an index is a float, unless it is empty."""
    for index in indices:
        if dtype_of(index).kind not in "iub" and np.prod(np.shape(index)):
            raise TypeError(f"{name} takes integers as indices; got {dtype_of(index)}; convert with .astype()")


def _is_any(x: Array) -> bool:
    return bool(reductions.any(x))


def unravel_index(indices: Array, shape: int | Sequence[int], order: str | None = "C") -> tuple[Array, ...]:
    """Returns indices of a flattened array as indices along each axis; waits to see that they are in range.

    Raises:
        ValueError: one is not, or the order is not "C" or "F".
    """
    lengths, order = (shape,) if isinstance(shape, int) else tuple(shape), order or "C"
    if order not in ("C", "F"):
        raise ValueError(f"the order is 'C' or 'F'; got {order!r}")
    n = int(np.prod(lengths, dtype=np.int64))
    _require_integers("unravel_index", [indices])
    if _is_any(apply("logical_or", apply("less", indices, 0), apply("greater_equal", indices, n))):
        raise ValueError(f"an index is out of range of an array of shape {lengths}, which has {n} elements")
    result = []
    for length in lengths if order == "F" else reversed(lengths):
        result.append(astype(apply("remainder", indices, length), default_int(indices.runtime)))
        indices = apply("floor_divide", indices, length)
    return tuple(result if order == "F" else reversed(result))


def flatnonzero(a: Array) -> Array:
    """Returns the indices of elements other than 0 in the flattened array; waits for their number."""
    return selection.flatnonzero(astype(a, BOOL) if a.dtype.kind == "c" else a)


def compress(condition: Any, a: Array, axis: int | None = None, out: Array | None = None) -> Array:
    """Returns the slices along an axis for which a condition is true; waits for their number."""
    result = selection.compress(asarray(condition, device=a.runtime), a, axis)
    return written(result, out)


def extract(condition: Any, arr: Array) -> Array:
    """Returns the elements of the flattened array for which a flattened condition is true; waits for their number."""
    return selection.compress(ravel(asarray(condition, device=arr.runtime)), ravel(arr))


def place(arr: Array, mask: Array, vals: Any) -> None:
    """Writes values, repeated as needed, one after the other to the elements where a mask is true."""
    given, at = ravel(asarray(vals, arr.dtype, device=arr.runtime)), _masked("place", arr, mask)
    if at.size:
        if not given.size:
            raise ValueError("place takes one value or more; got none")
        scatter.put(arr, at, given)


def _masked(name: str, arr: Array, mask: Array) -> Array:
    """Returns the indices of the flattened array at which a mask of its size is true."""
    _require_mask(name, arr, mask)
    return selection.flatnonzero(mask)


def _require_mask(name: str, arr: Array, mask: Array) -> None:
    """Raises ValueError for a mask of another size."""
    if mask.size != arr.size:
        raise ValueError(f"{name} takes a mask with one element per element; got {mask.size} for {arr.size}")


def copyto(dst: Array, src: Operand, casting: Casting = "same_kind", where: Operand = True) -> None:
    """Writes `src`, broadcast, to the elements of `dst` where `where` is true.

    Args:
        src: an array, or a number; Python's numbers adapt to the dtype of `dst` if that is of no lower kind.
        casting: as of `numpy.can_cast`.

    Raises:
        TypeError: `dst` does not take the dtype of `src` by this casting.
        OverflowError: a Python int does not fit.
    """
    if type(where) is Array and where.dtype != BOOL:
        raise TypeError(f"copyto takes bools as where=; got {where.dtype}; compare first, as x != 0")
    dtype = getattr(src, "dtype", None) or np.asarray(src).dtype
    adapts = type(src) in (bool, int, float, complex) and "biufc".index(dtype.kind) <= "biufc".index(dst.dtype.kind)
    is_allowed = can_cast(dtype, dst.dtype, casting)  # also refuses what is no casting
    if not (is_allowed or adapts or (type(src) is int and dst.dtype.kind == "u")):
        raise TypeError(f"copyto writes no {dtype} to {dst.dtype} by the casting {casting!r}; convert with .astype()")
    if type(src) is Array:
        given = src.real if dtype.kind == "c" and dst.dtype.kind != "c" else src
    elif type(src) is int or dtype == dst.dtype:
        given = asarray(src, dst.dtype, device=dst.runtime)
    else:
        given = asarray(host_cast(np.asarray(src), dst.dtype), device=dst.runtime)
    extra = max(given.ndim - dst.ndim, 0)
    if extra and given.shape[:extra] == (1,) * extra:  # as in an assignment
        given = given[(0,) * extra]
    given = astype(given, dst.dtype)
    assign(dst, given if where is True else _where(where, given, dst))


def putmask(a: Array, mask: Array, values: Any) -> None:
    """Writes the value with the same index to each element where a mask is true; values are repeated as needed."""
    given, n = ravel(asarray(values, a.dtype, device=a.runtime)), a.size
    _require_mask("putmask", a, mask)
    if not given.size:
        return
    if given.size not in (1, n):
        given = gather.take(given, iota(a.runtime, n), None, "wrap")
    mask.compute()  # a mask that reads `a` is computed before `a` is written
    value = given.reshape(() if given.size == 1 else a.shape)
    assign(a, where(reshape(astype(mask, BOOL), a.shape), value, a), fresh=True)


def put(a: Array, ind: Any, v: Any, mode: str = "raise") -> None:
    """Writes values, repeated as needed, to the elements at indices of the flattened array."""
    at = ind if type(ind) is Array else _indices_on(a.runtime, ind)
    scatter.put(a, ravel(at), ravel(asarray(v, a.dtype, device=a.runtime)), mode)


def put_along_axis(arr: Array, indices: Array, values: Any, axis: int | None) -> None:
    """Writes values to the elements at indices along an axis, one index per line."""
    target = arr.reshape(-1) if axis is None else arr
    _put_along_axis(target, indices, asarray(values, arr.dtype, device=arr.runtime), axis or 0)
    if target.buffer is not arr.buffer:
        arr[...] = target.reshape(arr.shape)


def choose(a: Array, choices: Any, out: Array | None = None, mode: str = "raise") -> Array:
    """Returns for each index the element of the array with this number; shapes broadcast.

    Args:
        mode: "raise" for an error if an index is out of range, which waits; "wrap" or "clip".

    Raises:
        ValueError: an index is out of range.
    """
    given = [asarray_weak(choice, choices, a.runtime) for choice in choices]
    n = len(given)
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"choose has the modes raise, wrap and clip; got {mode!r}")
    _require_integers("choose", [a])
    if mode == "wrap":
        a = apply("remainder", a, n)
    elif mode == "raise" and _is_any(apply("logical_or", apply("less", a, 0), apply("greater_equal", a, n))):
        raise ValueError(f"choose takes indices of {n} arrays, 0 to {n - 1}; got another")
    kinds = [
        kind_of(choice) if np.ndim(choice) == 0 else made.dtype for choice, made in zip(choices, given, strict=True)
    ]
    dtype = common(a.runtime, kinds)
    result = astype(given[0].broadcast_to(broadcast_arrays(a, *given)[0].shape), dtype)
    for k, choice in enumerate(given[1:], 1):
        result = where(apply("greater_equal", a, k), astype(choice, dtype), result)
    return written(result, out)


def select(condlist: Sequence[Array], choicelist: Sequence[Any], default: Any = 0) -> Array:
    """Returns the element of the first choice whose condition is true, else the default."""
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError(f"select takes a choice per condition; got {len(condlist)} and {len(choicelist)}")
    if wrong := [condition.dtype for condition in condlist if condition.dtype != BOOL]:
        raise TypeError(f"select takes bools as conditions; got {wrong[0]}; write x != 0")
    context = runtime_of(next(operand for operand in (*condlist, *choicelist) if type(operand) is Array))
    default = default if np.ndim(default) == 0 else asarray_weak(default, choicelist, context)
    choicelist = [
        choice if np.ndim(choice) == 0 else asarray_weak(choice, (*choicelist, default), context)
        for choice in choicelist
    ]
    kinds = [kind_of(choice) for choice in (*choicelist, default)]
    result: Any = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = where(condition, choice, result)
    return astype(result, common(result.runtime, kinds)) if any(is_dtype(kind) for kind in kinds) else result


def piecewise(x: Array, condlist: Any, funclist: Sequence[Any], *args: Any, **named: Any) -> Array:
    """Returns the value of the last function whose condition is true, else that of a further one, else 0.

    Args:
        condlist: bool arrays of the shape of `x`, also stacked along a first axis; or one of them.
        funclist: numbers, or functions, which get all of `x`.
        args, named: are passed to the functions.

    Raises:
        ValueError: there is a wrong number of functions, or a condition has another shape.
    """
    conditions, functions = _conditions(x, condlist), list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ValueError(f"piecewise takes {len(conditions)} functions, or one more; got {len(functions)}")
    if len(functions) == len(conditions):
        result = runtime_of(x).full(x.shape, x.dtype.type(0), x.dtype)
    else:
        result = astype(_value(functions[-1], x, args, named).broadcast_to(x.shape), x.dtype)
    for condition, function in zip(conditions, functions, strict=False):
        result = where(condition, astype(_value(function, x, args, named), x.dtype), result)
    return result


def _conditions(x: Array, given: Any) -> list[Array]:
    """Returns the conditions of `piecewise`, of the shape of `x`."""
    stacked = np.ndim(given[0]) > 0 or not x.ndim if isinstance(given, (list, tuple)) and given else False
    conditions = [asarray(condition, BOOL, device=x.runtime) for condition in (given if stacked else [given])]
    if len(conditions) == 1 and conditions[0].ndim == x.ndim + 1:
        conditions = list(conditions[0])
    for condition in conditions:
        if condition.shape != x.shape:
            raise ValueError(f"conditions of piecewise have the shape of x, {x.shape}; got {condition.shape}")
    return conditions


def _value(function: Any, x: Array, args: Any, named: Any) -> Array:
    value = function(x, *args, **named) if callable(function) else function
    return value if type(value) is Array else asarray(host_cast(np.asarray(value), x.dtype), device=x.runtime)


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Array, *args: Any, **named: Any) -> Array:
    """Returns the results of a function for each line along an axis; its results replace the axis.

    The function is called once per line, with a device array. Functions that take `axis` need far fewer launches.
    """
    at = axis_of("apply_along_axis", arr.ndim, axis)
    moved = moveaxis(arr, at, -1)
    lengths = moved.shape[:-1]
    if 0 in lengths:
        raise ValueError(f"apply_along_axis needs a line; the array has shape {arr.shape}")
    results = [func1d(moved[at_line], *args, **named) for at_line in np.ndindex(*lengths)]
    arrays = [result if type(result) is Array else asarray(result, device=arr.runtime) for result in results]
    joined = stack(arrays).reshape((*lengths, *arrays[0].shape))
    order = tuple(range(len(lengths)))
    inner = tuple(range(len(lengths), joined.ndim))
    return joined.transpose((*order[:at], *inner, *order[at:])) if joined.ndim else joined


def apply_over_axes(func: Callable[..., Array], a: Array, axes: int | Sequence[int]) -> Array:
    """Returns the result of a function of an array and an axis, applied for each axis; the number of axes stays."""
    for axis in [axes] if isinstance(axes, int) else axes:
        at = axis_of("apply_over_axes", a.ndim, axis)
        result = func(a, at)
        if result.ndim not in (a.ndim, a.ndim - 1):
            raise ValueError(f"the function removes at most its axis; it made shape {result.shape} of {a.shape}")
        a = result if result.ndim == a.ndim else expand_dims(result, at)
    return a


def mask_indices(n: int, mask_func: Callable[[Array, Any], Array], k: int = 0, *, device: Any = None) -> Any:
    """Returns the indices of the elements of an n x n matrix of ones that a function keeps, as `triu` does; waits."""
    return selection.nonzero(mask_func(ones((n, n), default_int(runtime_for(device)), device=device), k))
