"""Functions of CuPy that `vkcompute.numpy` has not: of files and texts, and NumPy's of earlier versions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import vkcompute.numpy as vnp
from vkcompute.compat.cupy.arrays import ndarray
from vkcompute.compat.cupy.conversion import array, asarray
from vkcompute.compat.cupy.lifting import lifted, unwrapped, wrapped
from vkcompute.runtime.memory import layout


def _of_host(name: str) -> Callable[..., ndarray]:
    """Returns a function that uploads the result of NumPy's function."""
    function = getattr(np, name)

    def call(*args: Any, **named: Any) -> ndarray:
        return array(function(*args, **named))

    call.__name__, call.__doc__ = name, f"Returns `numpy.{name}`, on the device."
    return call


fromfile, fromstring, genfromtxt = map(_of_host, ("fromfile", "fromstring", "genfromtxt"))


_copy = lifted(vnp.copy)


def copy(a: ndarray, order: str = "K") -> ndarray:
    """Returns a new array with the same elements, by default in the same order in memory."""
    return _copy(a, order)  # type: ignore[no-any-return]


_load = lifted(vnp.load, host=True)


def load(file: Any, mmap_mode: Any = None, allow_pickle: bool | None = None) -> Any:
    """Returns the array, or the arrays, of a file of NumPy."""
    return array(np.load(file, mmap_mode, allow_pickle=True)) if allow_pickle else _load(file)


def _index_function(name: str) -> Callable[..., Any]:
    """Returns a function of the index of an extreme element, in a dtype."""
    function = lifted(getattr(vnp, name))

    def call(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        if isinstance(a, np.ndarray):
            return getattr(a, name)(axis)
        result = function(a, axis, out, keepdims)
        return result if dtype is None or out is not None else result.astype(dtype)

    call.__name__, call.__doc__ = name, f"Returns `numpy.{name}`."
    return call


argmax, argmin = map(_index_function, ("argmax", "argmin"))


def ravel(a: Any, order: Any = "C") -> Any:
    """Returns the elements along one axis, without gaps."""
    return a.ravel(order) if isinstance(a, (np.ndarray, ndarray)) else asarray(a).ravel(order)


def append(arr: Any, values: Any, axis: int | None = None) -> ndarray:
    """Returns an array joined with values along an axis, or both flattened, in the dtype of both."""
    return _append(arr, asarray(values), axis)  # type: ignore[no-any-return]


def mask_indices(n: int, mask_func: Callable[..., Any], k: Any = 0) -> Any:
    """Returns the indices of a matrix of n rows that a function such as `triu` leaves."""
    return mask_func(ndarray._holding(vnp.ones((n, n), int)), k).nonzero()


_append = lifted(vnp.append, host=True)


def row_stack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Returns `vstack(tup)`, of which this is an older name."""
    warnings.warn("`row_stack` alias is deprecated. Use `vstack` directly.", DeprecationWarning, stacklevel=2)
    return _vstack(tup, dtype=dtype, casting=casting)


def put(a: Any, ind: Any, v: Any, mode: str = "wrap") -> None:
    """Sets elements of the flattened array.

    Raises:
        IndexError: an index is out of range, and the mode is "raise", which waits for the work.
    """
    _put(a, ind, v, mode)
    if mode == "raise":
        unwrapped(a).runtime.wait()


_put, _vstack = lifted(vnp.put, host=True), lifted(vnp.vstack)


def sort_complex(a: ndarray) -> ndarray:
    """Returns the elements as complex numbers, sorted; complex128 for all but integers of 8 and 16 bits."""
    is_single = a.dtype.char in "bBhHF"
    return _sort_complex(a.astype(np.complex64 if is_single else np.complex128))  # type: ignore[no-any-return]


_sort_complex = lifted(vnp.sort_complex)


def msort(a: ndarray) -> ndarray:
    """Returns the elements sorted along the first axis."""
    result: ndarray = a.copy()
    result.sort(axis=0)
    return result


def einsum(*operands: Any, dtype: Any = None, **options: Any) -> Any:
    """Returns sums of products, as `numpy.einsum`, whose views of one array have its dtype, whatever `dtype` is."""
    if len(operands) == 2 and isinstance(operands[0], str) and isinstance(operands[1], ndarray):
        result = _einsum(*operands)
        if result.ndim and _keeps_labels(*operands):
            return ndarray._holding(result._array, operands[1] if operands[1].base is None else operands[1].base)
    elif dtype is not None and sum(isinstance(operand, ndarray) for operand in operands) == 1 and not options:
        result = _einsum(*operands)
        if isinstance(result, ndarray) and result.base is not None:
            return result
    return _einsum(*operands, dtype=dtype, **options)


def _keeps_labels(subscripts: str, a: ndarray) -> bool:
    """True if no axis is summed, so that the result is a view."""
    before, arrow, after = subscripts.replace(" ", "").partition("->")
    labels = before.replace("...", "")
    keeps_ellipsis = "..." not in before or "..." in after or len(labels) == a.ndim
    return arrow != "" and set(labels) <= set(after) and keeps_ellipsis


def float_power(x1: Any, x2: Any, out: Any = None, dtype: Any = None, **options: Any) -> Any:
    """Returns x1 to the power x2, in float64 or complex128."""
    result = _float_power(x1, x2, out)
    return result if dtype is None or out is not None else result.astype(dtype)


_einsum, _float_power = lifted(vnp.einsum), lifted(vnp.float_power)


def _quantiles(name: str) -> Callable[..., Any]:
    """Returns a function of quantiles, in NumPy's dtype, which depends on the method."""
    function, of_numpy = lifted(getattr(vnp, name), host=True), getattr(np, name)

    def call(a: Any, q: Any, *args: Any, **named: Any) -> Any:
        values = q.get() if isinstance(q, ndarray) else q
        if np.ndim(values) > 1:
            raise ValueError(f"Expected q to have a dimension of 1.\nActual: {np.ndim(values)} not in (0, 1)")
        kind = getattr(a, "dtype", np.dtype(float))
        wanted = of_numpy(np.zeros(2, kind), values, method=named.get("method", "linear")).dtype
        exact = a.astype(wanted if kind.kind == "f" else float) if _is_rounded(a, wanted) else a
        result = function(exact, values, *args, **named)
        if named.get("overwrite_input") and isinstance(a, ndarray):
            a.sort(axis=-1)
        return result if result.dtype == wanted or named.get("out") is not None else result.astype(wanted)

    call.__name__, call.__doc__ = name, f"Returns `numpy.{name}`."
    return call


def _is_rounded(a: Any, dtype: np.dtype[Any]) -> bool:
    """True for an array whose quantiles are of another dtype, in which they are computed."""
    return isinstance(a, ndarray) and a.dtype.kind in "biuf" and dtype != a.dtype


percentile, quantile = map(_quantiles, ("percentile", "quantile"))


def _correlations(name: str) -> Callable[..., Any]:
    """Returns a function of variables, in float64 or complex128, unless a dtype is given."""
    function = lifted(getattr(vnp, name))

    def call(m: Any, y: Any = None, rowvar: bool = True, *args: Any, dtype: Any = None, **named: Any) -> Any:
        ddof = named.get("ddof", args[1] if len(args) > 1 else None)
        n = m.shape[-1 if rowvar or m.ndim < 2 else 0] if isinstance(m, ndarray) and m.ndim else 1
        if (1 if ddof is None else ddof) >= n and name == "cov":
            warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=2)
        if dtype is None:
            dtype = np.result_type(*[array.dtype for array in (m, y) if isinstance(array, ndarray)], np.float64)
        return function(m, y, rowvar, *args, dtype=dtype, **named)

    call.__name__, call.__doc__ = name, f"Returns `numpy.{name}`."
    return call


cov, corrcoef = map(_correlations, ("cov", "corrcoef"))


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None) -> ndarray:
    """Returns values of a function that is linear between points, in float64 or complex128."""
    kind = np.complex128 if np.result_type(*[getattr(fp, "dtype", float)]).kind == "c" else np.float64
    return _interp(asarray(x, float), asarray(xp, float), asarray(fp, kind), left, right, period)  # type: ignore[no-any-return]


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: Any = 1) -> Any:
    """Returns the gradient by central differences, as `numpy.gradient`, which takes 1.0 for `edge_order`, too."""
    return _gradient(f, *varargs, axis=axis, edge_order=int(edge_order) if edge_order in (1, 2) else edge_order)


_interp, _gradient = lifted(vnp.interp, host=True), lifted(vnp.gradient, host=True)


def _edges(given: Any, limits: Any) -> Any:
    """Returns the edges of bins of equal width in a range, in float64; other bins as they are."""
    is_number = not isinstance(given, (list, tuple, ndarray, np.ndarray))
    if not is_number or limits is None or given < 1 or not np.isfinite(limits).all() or limits[0] >= limits[1]:
        return given
    first, last = limits
    return array(np.linspace(first, last, given + 1))


def histogramdd(sample: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False) -> Any:
    """Returns the counts of points between edges along each coordinate, in float64, and a list of the edges."""
    n = len(sample) if isinstance(sample, (list, tuple)) else sample.shape[1] if sample.ndim > 1 else 1
    each = bins if isinstance(bins, (list, tuple)) else [bins] * n
    if range is not None and len(range) == len(each) == n:
        bins = [_edges(*pair) for pair in zip(each, range, strict=True)]
    counts, edges = _histogramdd(sample, bins, range, density, weights)
    given = bins if isinstance(bins, (list, tuple)) else [bins] * n
    return counts.astype(float), [
        old if isinstance(old, ndarray) else new for old, new in zip(given, edges, strict=True)
    ]


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> Any:
    """Returns the counts of points between edges along two coordinates, in float64, and both edges."""
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"histogram2d takes vectors of one length; got the shapes {x.shape} and {y.shape}")
    is_one = isinstance(bins, ndarray) or (isinstance(bins, (list, tuple)) and len(bins) not in (1, 2))
    counts, edges = histogramdd([x, y], [bins, bins] if is_one else bins, range, weights, bool(density))
    return counts, edges[0], edges[1]


_histogramdd, _cross = lifted(vnp.histogramdd, host=True), lifted(vnp.cross)


def cross(
    a: ndarray, b: ndarray, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> ndarray:
    """Returns the cross products of vectors of two or three elements; of two of two elements, the third coordinate."""
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    lengths = [array.shape[at] for array, at in ((a, axisa), (b, axisb)) if array.ndim]
    if 2 not in lengths or not {*lengths} <= {2, 3}:
        return _cross(a, b, axisa, axisb, axisc)  # type: ignore[no-any-return]
    vectors = [_with_third(array, at) for array, at in ((a, axisa), (b, axisb))]
    result: ndarray = _cross(*vectors, -1, -1, -1 if lengths == [2, 2] else axisc)
    return result[..., 2] if lengths == [2, 2] else result


def _with_third(vectors: ndarray, axis: int) -> ndarray:
    """Returns vectors along the last axis, with 0 as the third coordinate of those of two."""
    last = _moveaxis(vectors, axis, -1)
    return last if last.shape[-1] != 2 else _pad(last, [(0, 0)] * (last.ndim - 1) + [(0, 1)])  # type: ignore[no-any-return]


_moveaxis, _pad = lifted(vnp.moveaxis), lifted(vnp.pad)


def _text(name: str) -> Callable[..., str]:
    """Returns a function that gives the text of an array on the host."""
    function = getattr(np, name)

    def call(a: Any, *args: Any, **named: Any) -> str:
        return function(a.get() if isinstance(a, ndarray) else a, *args, **named)  # type: ignore[no-any-return]

    call.__name__, call.__doc__ = name, f"Returns `numpy.{name}` of an array."
    return call


array2string, array_repr, array_str = map(_text, ("array2string", "array_repr", "array_str"))


def vander(x: Any, N: int | None = None, increasing: bool = False) -> ndarray:  # noqa: N803
    """Returns the powers of numbers, in NumPy's dtype, which holds int64, too."""
    given = asarray(x)
    kind = np.promote_types(given._array.dtype, np.int64)
    return _vander(given.astype(kind), N, increasing)  # type: ignore[no-any-return]


_vander = lifted(vnp.vander)


def asfarray(a: Any, dtype: Any = float) -> ndarray:
    """Returns data as an array of floats."""
    kind = np.dtype(dtype)
    return asarray(a, kind if kind.kind in "fc" else float)


def asarray_chkfinite(a: Any, dtype: Any = None, order: str | None = None) -> ndarray:
    """Returns data as an array.

    Raises:
        ValueError: it has NaN or infinities.
    """
    result = asarray(a, dtype, order)
    host: Any = result.get()
    if host.dtype.kind in "fc" and not np.isfinite(host).all():
        raise ValueError("array must not contain Infs or NaNs")
    return result


def require(a: Any, dtype: Any = None, requirements: Any = None) -> ndarray:
    """Returns data as an array with properties: "C", "F", "O" and their longer names."""
    wanted = {str(name).upper().removesuffix("_CONTIGUOUS").removesuffix("CONTIGUOUS") for name in requirements or ()}
    names = {"C": "C", "F": "F", "FORTRAN": "F", "O": "O", "OWNDATA": "O"}
    if unknown := wanted - names.keys():
        raise ValueError(f"unknown requirement: {sorted(unknown)}")
    orders = {names[name] for name in wanted}
    if {"C", "F"} <= orders:
        raise ValueError('Cannot specify both "C" and "F" order')
    result = asarray(a, dtype, next((name for name in ("C", "F") if name in orders), None))
    owned: ndarray = result.copy() if "O" in orders and result.base is not None else result
    return owned


def byte_bounds(a: ndarray) -> tuple[int, int]:
    """Returns the numbers of the first byte and of the one after the last."""
    low, high = layout.extent(a._array.shape, a._array.strides, a.itemsize)
    return a.data.ptr + low, a.data.ptr + high


class broadcast:  # noqa: N801
    """Arrays broadcast to one shape, as `cupy.broadcast`.

    Attributes:
        values: the views.
        shape, nd, size: of them.
    """

    def __init__(self, *arrays: Any) -> None:
        given = [unwrapped(value) for value in arrays]
        self.shape = np.broadcast_shapes(
            *[np.shape(value) if not hasattr(value, "shape") else value.shape for value in given]
        )
        self.values = tuple([wrapped(x.broadcast_to(self.shape)) if hasattr(x, "broadcast_to") else x for x in given])
        self.nd, self.size = len(self.shape), int(np.prod(self.shape))


def who(vardict: Any = None) -> None:
    """Prints the arrays of a dictionary."""
    rows = [(name, value) for name, value in (vardict or {}).items() if isinstance(value, ndarray)]
    for name, value in rows:
        print(name, value.shape, value._array.nbytes, value._array.dtype)


def get_array_wrap(*args: Any) -> None:
    """Returns None: arrays wrap nothing."""


def disp(mesg: Any, device: Any = None, linefeed: bool = True) -> None:
    """Prints a message."""
    print(mesg, end="\n" if linefeed else "", file=device)


def find_common_type(array_types: Any, scalar_types: Any) -> np.dtype[Any]:
    """Returns the common dtype of arrays and scalars."""
    return np.result_type(*array_types, *scalar_types)


def safe_eval(source: str) -> Any:
    """Returns the value of a literal."""
    import ast

    return ast.literal_eval(source)
